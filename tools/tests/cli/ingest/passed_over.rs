//! Files that are damaged, hostile, unreadable or unusual: each is in or passed over with its reason, and the rest is in.

use super::made::{docx, paragraphs, pdf, pdf_of};
use super::{Case, fates, pairs, reason, text};
use std::fs;
use std::io::{Cursor, Write};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

#[test]
fn broken_documents_are_passed_over_and_the_rest_is_in() {
    let case = Case::new();
    let whole = pdf(&[&["Fine words"]]);
    case.write("good.pdf", &whole);
    case.write("empty.pdf", "");
    case.write("fake.pdf", "this is no PDF");
    case.write("pageless.pdf", b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [] /Count 0 >>\nendobj\ntrailer\n<< /Root 1 0 R >>\n%%EOF");
    case.write("scan.pdf", pdf(&[&[]]));
    let good = docx(paragraphs(&["A letter"]).as_bytes());
    case.write("good.docx", &good);
    case.write("cut.docx", &good[..good.len() / 2]);
    case.write("half.docx", docx(b"<w:document xmlns:w=\"w\"><w:p><w:t>half"));
    case.write("other.docx", {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        archive.start_file("mimetype", SimpleFileOptions::default()).expect("a part can be begun");
        archive.finish().expect("an archive can be ended").into_inner()
    });
    let run = case.ingest(&[]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    for (file, status) in fates(&run) {
        assert_eq!(status == "added", file.starts_with("good"), "{file}: {status}, {}", run.stderr);
        assert!(status == "added" || !reason(&run, &file).is_empty(), "{file}: {}", run.stdout);
    }
    assert_eq!(fates(&run).len(), 9);
    assert!(reason(&run, "scan.pdf").contains("scanned"));
    assert_eq!(case.texts().into_keys().collect::<Vec<_>>(), ["good.docx#0", "good.pdf#0"]);
}

#[test]
fn what_is_passed_over_is_told_once() {
    let case = Case::new();
    case.write("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0");
    case.write("fine.txt", "fine");
    let lines = case.ingest(&[]);
    assert_eq!((lines.status, reason(&lines, "image.png").contains("binary")), (1, true));
    assert!(!lines.stderr.contains("image.png"), "the JSON lines say it: {}", lines.stderr);
    let people = case.db.run("ingest", &[text(&case.root())]);
    assert_eq!(people.status, 1);
    assert!(people.stderr.contains("passed over: image.png: ") && !people.stdout.contains("image.png"), "{}", people.stderr);
}

/// Whatever a parser does with damaged bytes, each file is in or passed over, and the run ends.
#[test]
fn damaged_pdfs_end_in_an_answer() {
    let case = Case::new();
    let whole = pdf(&[&["Fine words", "on two lines"], &["More"]]);
    for at in (9..whole.len()).step_by(29) {
        let mut flipped = whole.clone();
        flipped[at] = flipped[at].wrapping_add(77);
        case.write(&format!("flipped{at}.pdf"), flipped);
        case.write(&format!("cut{at}.pdf"), &whole[..at]);
    }
    case.write("whole.pdf", &whole);
    let run = case.ingest(&[]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let fates = fates(&run);
    assert_eq!(fates["whole.pdf"], "added");
    assert_eq!(fates.len(), 2 * (9..whole.len()).step_by(29).count() + 1);
}

#[test]
fn a_parser_without_end_and_one_that_dies_cost_one_file_each() {
    let case = Case::new();
    // A page tree that is its own parent, and a drawing that draws itself.
    let cycle =
        ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Parent 2 0 R /Kids [3 0 R] /Count 1 >>", "<< /Type /Page /Parent 2 0 R >>"];
    case.write("cycle.pdf", pdf_of(&cycle.map(String::from)));
    let drawing = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources << /XObject << /X 5 0 R >> >> >>",
        "<< /Length 5 >>\nstream\n/X Do\nendstream",
        "<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Length 5 /Resources << /XObject << /X 5 0 R >> >> >>\nstream\n/X Do\nendstream",
    ];
    case.write("drawing.pdf", pdf_of(&drawing.map(String::from)));
    case.write("after.txt", "after");
    case.write("early.pdf", pdf(&[&["Fine words"]]));
    case.write("z.pdf", pdf(&[&["Fine words"]]));
    let run = case.ingest(&["--max-seconds", "5"]);
    let expected =
        [("after.txt", "added"), ("cycle.pdf", "passed-over"), ("drawing.pdf", "passed-over"), ("early.pdf", "added"), ("z.pdf", "added")];
    assert_eq!((run.status, fates(&run)), (1, pairs(&expected)), "{}", run.stderr);
    assert!(reason(&run, "drawing.pdf").contains("ended in the middle"), "{}", run.stderr);
}

#[test]
fn a_zip_bomb_is_bounded() {
    let case = Case::new();
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("word/document.xml", SimpleFileOptions::default()).expect("a part can be begun");
    let block = vec![b' '; 1 << 20];
    for _ in 0..257 {
        archive.write_all(&block).expect("a part can be written");
    }
    let bomb = archive.finish().expect("an archive can be ended").into_inner();
    assert!(bomb.len() < 1 << 20);
    case.write("bomb.docx", bomb);
    case.write("fine.txt", "fine");
    let run = case.ingest(&[]);
    assert_eq!((run.status, fates(&run)), (1, pairs(&[("bomb.docx", "passed-over"), ("fine.txt", "added")])));
    assert!(reason(&run, "bomb.docx").contains("unpacks to more than"), "{}", run.stderr);
}

#[test]
fn binary_files_bad_bytes_huge_lines_and_big_files() {
    let case = Case::new();
    case.write("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0");
    case.write("program", b"\x7fELF\x02\x01\x01\0\0\0");
    case.write("latin.txt", b"A note that was written with one stra\xdfe in it.");
    case.write("utf16.txt", b"\xff\xfeh\0i\0");
    case.write("minified.json", format!("{{\"k\":\"{}\"}}", "value ".repeat(2000)));
    case.write("line.txt", "x".repeat(10 << 20));
    case.write("big.txt", "y ".repeat((11 << 20) / 2));
    let run = case.ingest(&["--max-bytes", "11000000", "--max-seconds", "600", "--chunk-size", "100000", "--chunk-overlap", "0"]);
    assert_eq!(run.status, 1);
    let expected = [
        ("big.txt", "passed-over"),
        ("image.png", "passed-over"),
        ("latin.txt", "added"),
        ("line.txt", "added"),
        ("minified.json", "added"),
        ("program", "passed-over"),
        ("utf16.txt", "added"),
    ];
    assert_eq!(fates(&run), pairs(&expected));
    assert!(reason(&run, "big.txt").contains("--max-bytes is 11000000"));
    assert!(reason(&run, "image.png").contains("binary"));
    assert!(reason(&run, "latin.txt").contains("not valid UTF-8"));
    let texts = case.texts();
    assert_eq!(texts["latin.txt#0"], "A note that was written with one stra\u{fffd}e in it.");
    assert_eq!(texts["utf16.txt#0"], "hi");
    let line: usize = texts.iter().filter(|(id, _)| id.starts_with("line.txt#")).map(|(_, t)| t.len()).sum();
    assert_eq!(line, 10 << 20, "no character of the line is lost");
}

#[cfg(unix)]
#[test]
fn links_pipes_and_unreadable_files_are_passed_over() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let case = Case::new();
    case.write("real/a.txt", "a");
    symlink(case.root(), case.root().join("real/loop")).expect("a link can be made");
    symlink("nowhere", case.root().join("dangling")).expect("a link can be made");
    symlink("real/a.txt", case.root().join("link.txt")).expect("a link can be made");
    let given = case.db.directory.path().join("given");
    symlink(case.root().join("real"), &given).expect("a link can be made");
    let pipe = case.root().join("pipe.txt");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let secret = case.write("secret.txt", "secret");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).expect("permissions can be set");
    // The superuser reads it all the same.
    let readable = fs::read(&secret).is_ok();
    let run = case.ingest(&[]);
    assert_eq!(run.status, 1);
    let mut expected = pairs(&[
        ("dangling", "passed-over"),
        ("link.txt", "passed-over"),
        ("pipe.txt", "passed-over"),
        ("real/a.txt", "added"),
        ("real/loop", "passed-over"),
        ("secret.txt", if readable { "added" } else { "passed-over" }),
    ]);
    assert_eq!(fates(&run), expected);
    assert!(reason(&run, "link.txt").contains("--follow"));
    let run = case.ingest(&["--follow"]);
    expected.insert("real/a.txt".into(), "unchanged".into());
    expected.insert("link.txt".into(), "added".into());
    if readable {
        expected.insert("secret.txt".into(), "unchanged".into());
    }
    assert_eq!((run.status, fates(&run)), (1, expected));
    assert!(reason(&run, "real/loop").contains("leads back"), "{}", run.stderr);
    // A link that is given itself is followed in any case.
    let run = case.db.run("ingest", &[text(&given), "--json", "--glob", "*.txt"]).ok();
    assert_eq!(fates(&run), pairs(&[("a.txt", "added")]));
}

/// Whoever fills a folder does not decide whether its ingest ends.
#[cfg(unix)]
#[test]
fn a_pipe_in_the_place_of_an_ignore_file_or_of_head_is_not_waited_for() {
    let case = Case::new();
    for name in ["a.txt", "one/b.txt", "two/c.txt", "two/c.log", "three/d.txt", "four/e.txt"] {
        case.write(name, name);
    }
    case.write("two/.ignore", "*.log\n");
    case.write("three/.git/info/about", "a pipe is beside it");
    case.write("four/.git", "gitdir: elsewhere\n");
    fs::create_dir(case.root().join("four/elsewhere")).expect("a folder can be made");
    for name in [".gitignore", "one/.ignore", "one/HEAD", "two/.git", "three/.git/info/exclude", "four/elsewhere/commondir"] {
        pipe(&case.root().join(name));
    }
    let run = case.ingest(&[]);
    let expected = [
        (".gitignore", "passed-over"),
        ("a.txt", "added"),
        ("four/e.txt", "added"),
        ("four/elsewhere/commondir", "passed-over"),
        ("one/.ignore", "passed-over"),
        ("one/HEAD", "passed-over"),
        ("one/b.txt", "added"),
        ("three/.git/info/exclude", "passed-over"),
        ("three/d.txt", "added"),
        ("two/c.txt", "added"),
    ];
    assert_eq!((run.status, fates(&run)), (1, pairs(&expected)), "{}", run.stderr);
    assert_eq!(reason(&run, "one/.ignore"), "it is not a regular file; its rules do not count");
}

#[cfg(unix)]
fn pipe(path: &std::path::Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
}

/// The walk has met every file when the first one is read; this embedder then replaces the last one.
#[cfg(all(unix, feature = "command"))]
#[test]
fn a_pipe_that_takes_a_files_place_during_the_run_is_not_waited_for() {
    let case = Case::new();
    case.write("a.txt", "the first");
    let last = case.write("z.txt", "the last");
    let program = format!(
        r#"import json,os,sys
print(json.dumps({{"fingerprint":"ones-v1","dimension":1}}),flush=True)
for line in sys.stdin:
    if "the first" in line:
        os.remove({last:?})
        os.mkfifo({last:?})
    print(json.dumps({{"vectors":[[1] for t in json.loads(line)["texts"]]}}),flush=True)
"#
    );
    let embedder = format!("cmd:python3 {}", case.db.file("ones.py", program));
    let run = case.ingest(&["--embedder", &embedder]);
    assert_eq!((run.status, fates(&run)), (1, pairs(&[("a.txt", "added"), ("z.txt", "passed-over")])), "{}", run.stderr);
    assert_eq!(reason(&run, "z.txt"), "it is not a regular file");
}

#[test]
fn an_ignore_file_of_any_length_is_told_and_not_read() {
    let case = Case::new();
    case.write("a.txt", "a");
    case.write("b.log", "b");
    let ignore = case.write(".gitignore", "*.log\n");
    fs::File::options().write(true).open(&ignore).and_then(|f| f.set_len(4 << 40)).expect("a file may have a hole");
    let run = case.ingest(&[]);
    assert_eq!((run.status, fates(&run)), (1, pairs(&[(".gitignore", "passed-over"), ("a.txt", "added"), ("b.log", "added")])));
    assert!(reason(&run, ".gitignore").contains("4398046511104 bytes"), "{}", reason(&run, ".gitignore"));
    let run = case.ingest(&["--no-ignore"]).ok();
    assert_eq!(fates(&run), pairs(&[("a.txt", "unchanged"), ("b.log", "unchanged")]));
}
