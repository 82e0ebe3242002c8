//! What crashes and damages leave, written to real directories together with what the library says of each: so that another reader can be held
//! against the same images. `tests/spec_reader/check.py --images DIR` reads them.
//!
//! `TRIUNE_IMAGES=DIR cargo test --test it images::` writes them; without it they go to a folder that is removed, and this test only looks that
//! the operating system's files say the same as the simulated ones. `TRIUNE_SWEEP=full` writes thousands.
//!
//! `DIR/NAME/` has the files of an image, with BALLAST cut to nothing; `DIR/NAME.json` has `what` it is, the `verdict` (`clean`, `torn-tail`,
//! `not-found`, `corrupt`), the `lsn` and, where everything can be read, the `dump`.

use crate::corruption::fixture::{Log, closed, compact_copy, killed};
use crate::corruption::mutation::{Mutation, alone};
use crate::recovery::oracle::options;
use crate::recovery::probe::{Moment, Probe, Progress};
use crate::recovery::sweep::{moments_of, operation_after};
use crate::recovery::workloads;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use triune::io::sim::SimDirectory;
use triune::io::{Directory, FsDirectory};
use triune::{Database, ErrorCode};

/// How many are written.
struct Size {
    /// Every how many moments of a workload.
    moments: usize,
    /// Images that a power cut at one of them leaves.
    cuts: usize,
    /// Every how many of these moments a recovery is stopped too.
    nested: usize,
    /// Damages to each database.
    damages: usize,
}

impl Size {
    fn of_this_run() -> Size {
        match std::env::var("TRIUNE_SWEEP").as_deref() {
            Ok("full") => Size { moments: 2, cuts: 5, nested: 8, damages: 700 },
            _ => Size { moments: 53, cuts: 3, nested: 4, damages: 14 },
        }
    }
}

/// What the library says of a directory: the verdict, the lsn, and the dump.
#[derive(Debug, PartialEq)]
struct Said {
    verdict: &'static str,
    lsn: Option<String>,
    dump: Option<String>,
}

fn said_of(dir: Arc<dyn Directory>) -> Said {
    let refused = |e: &triune::Error| match e.code() {
        ErrorCode::NotFound => "not-found",
        ErrorCode::Corrupt => "corrupt",
        ErrorCode::UnsupportedVersion => "unsupported",
        other => panic!("{other:?}: {e}"),
    };
    let db = match Database::open_read_only_with(dir, options()) {
        Ok(db) => db,
        Err(e) => return Said { verdict: refused(&e), lsn: None, dump: None },
    };
    let mut dump = Vec::new();
    match triune::maintenance::dump(&db.snapshot(), None, &mut dump) {
        Err(e) => Said { verdict: refused(&e), lsn: None, dump: None },
        Ok(_) => Said {
            verdict: if db.recovery().torn_tail.is_some() { "torn-tail" } else { "clean" },
            lsn: Some(db.snapshot().lsn().to_string()),
            dump: Some(String::from_utf8(dump).unwrap()),
        },
    }
}

/// Writes images, and counts them by verdict.
struct Writer<'a> {
    into: &'a Path,
    written: usize,
    of_verdict: std::collections::BTreeMap<&'static str, usize>,
}

impl Writer<'_> {
    fn write(&mut self, what: &str, image: &SimDirectory) {
        if image.read_file("BALLAST").is_some() {
            image.write_file("BALLAST", "");
        }
        let name = format!("{:05}", self.written);
        let path = self.into.join(&name);
        fs::create_dir(&path).unwrap();
        image.file_names().iter().for_each(|file| fs::write(path.join(file), image.read_file(file).unwrap()).unwrap());
        let said = said_of(Arc::new(image.clone()));
        assert_eq!(said, said_of(Arc::new(FsDirectory::open(&path).unwrap())), "{what}: the simulated disk and the real one");
        *self.of_verdict.entry(said.verdict).or_default() += 1;
        let json = serde_json::json!({"what": what, "verdict": said.verdict, "lsn": said.lsn, "dump": said.dump});
        fs::write(self.into.join(format!("{name}.json")), json.to_string()).unwrap();
        self.written += 1;
    }

    /// What a kill and a power cut at some moments leave, and at some moments of the recovery from them.
    fn crashes(&mut self, name: &str, moments: &[Moment], size: &Size, depth: usize) {
        for (i, n) in (self.written % size.moments..moments.len()).step_by(size.moments).enumerate() {
            let at = format!("{name} stopped before {}", operation_after(moments, n));
            moments[n].disk.set_garbage(i % 2 == 1);
            self.write(&format!("{at}, killed"), &moments[n].disk.after_kill());
            for (k, image) in moments[n].disk.survivor_images(size.cuts).enumerate() {
                self.write(&format!("{at}, image {k}"), &image);
            }
            if depth == 0 && i % size.nested == 0 {
                let probe = Probe::new(moments[n].disk.after_kill(), Progress::default());
                if let Ok(db) = Database::open_with(probe.directory(), options()) {
                    db.compact().unwrap();
                }
                let fewer = Size { moments: size.moments * 5, ..*size };
                self.crashes(&format!("{at}, then a recovery"), &probe.take_moments(), &fewer, depth + 1);
            }
        }
    }

    fn damages(&mut self, name: &str, image: &SimDirectory, size: &Size) {
        let all: Vec<Mutation> = image.file_names().iter().filter(|file| *file != "BALLAST").flat_map(|file| alone(image, file)).collect();
        // Prime to the kinds of damage, which take turns.
        let step = (all.len() / size.damages..).find(|step| step % 2 == 1 && step % 3 != 0).unwrap_or(1);
        for mutation in all.into_iter().step_by(step) {
            if let Some(damaged) = mutation.apply(image) {
                self.write(&format!("{name}, {mutation}"), &damaged);
            }
        }
    }
}

#[test]
#[allow(clippy::print_stderr, reason = "how many were written; shown with --nocapture")]
fn images_on_a_real_disk_say_what_the_simulated_ones_say() {
    let scratch = tempfile::tempdir().unwrap();
    let given = std::env::var_os("TRIUNE_IMAGES");
    let into = given.as_ref().map_or(scratch.path(), Path::new);
    if given.is_some() {
        // What an earlier run left would be read too.
        let _ = fs::remove_dir_all(into);
        fs::create_dir_all(into).unwrap();
    }
    let size = Size::of_this_run();
    let mut writer = Writer { into, written: 0, of_verdict: Default::default() };
    for workload in workloads::all() {
        let (creation, moments) = moments_of(&workload);
        if workload.name == "commits" {
            writer.crashes("create", &creation, &Size { moments: size.moments.div_ceil(8), ..size }, 0);
        }
        writer.crashes(workload.name, &moments, &size, 0);
    }
    let crashes = writer.written;
    writer.damages("a closed database", &closed().image, &size);
    for log in [Log::Witnessed, Log::Unwitnessed, Log::Unsynced, Log::Continued] {
        writer.damages(&format!("a killed process, {log:?}"), &compact_copy(&killed(log).image), &size);
    }
    let (written, verdicts) = (writer.written, &writer.of_verdict);
    eprintln!("images: {crashes} left by crashes, {} by damage; {verdicts:?}", written - crashes);
    assert!(crashes > 100 && written > crashes + 40, "{crashes} of {written}");
    assert!(["clean", "torn-tail", "not-found", "corrupt"].iter().all(|v| verdicts.get(v).is_some_and(|&n| n > 2)), "{verdicts:?}");
}
