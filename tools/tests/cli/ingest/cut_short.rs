//! Runs that end early leave whole files.

use super::{Case, text, total};

#[cfg(unix)]
#[test]
fn ctrl_c_says_how_many_files_are_in_and_leaves_no_half_file() {
    use std::io::{BufRead, BufReader};
    let case = Case::new();
    for n in 0..1500 {
        case.write(&format!("{n:04}.txt"), format!("File {n}. ").repeat(200));
    }
    let root = case.root();
    let mut child = case.db.command("ingest", &[text(&root), "--json"]).spawn().expect("the binary starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    let mut acknowledged = 0;
    let mut line = String::new();
    while stdout.read_line(&mut line).expect("stdout can be read") > 0 {
        acknowledged += 1;
        if acknowledged == 5 {
            let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
            assert!(sent.success());
        }
    }
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    let sources = case.whole_sources();
    assert!((5..1500).contains(&sources) && sources >= acknowledged, "{sources} files, {acknowledged} acknowledged");
    assert!(stderr.contains(r#""code":"Interrupted""#) && stderr.contains(&format!("{sources} files of ")), "{stderr}");
    let run = case.ingest(&[]).ok();
    assert_eq!(total(&run, "unchanged"), sources as u64);
    assert_eq!(case.db.run("stats", &["--json"]).ok().objects()[0]["collections"]["main"]["sources"], 1500);
}

/// Readers work while files come in, and a killed run leaves whole files.
#[test]
fn a_killed_run_leaves_whole_files_and_the_next_one_goes_on() {
    let case = Case::new();
    for n in 0..400 {
        case.write(&format!("{n:04}.txt"), format!("File {n}. ").repeat(200));
    }
    let root = case.root();
    let mut child = case.db.command("ingest", &[text(&root), "--json"]).spawn().expect("the binary starts");
    while !crate::support::exists(&case.db.path().join("HEAD")) || case.db.run("count", &["--json"]).status != 0 || case.db.count() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    assert!(case.whole_sources() >= 1);
    case.ingest(&[]).ok();
    assert_eq!(case.db.run("stats", &["--json"]).ok().objects()[0]["collections"]["main"]["sources"], 400);
}
