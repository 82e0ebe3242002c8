//! Damage: whatever happens to one file of a small database, opening and every question after it give an error that says where the damage
//! is, or the exact answer. Never a panic, an empty store or a wrong answer.
//!
//! `cargo test` tries a sample with a fixed stride; `TRIUNE_SWEEP=full` tries everything and prints the counts (minutes).
//!
//! | file | role |
//! | --- | --- |
//! | `answers.rs` | questions, and the answers to compare |
//! | `fixture.rs` | the databases: closed cleanly, and killed |
//! | `mutation.rs` | what may happen to a file |
//! | `judge.rs` | opens, asks, counts |
//! | `large.rs` | a sample of damage to a database of 5,000 documents |
//! | `log.rs` | what has to come of a damaged log |
//! | `teeth.rs` | checksums and evidence that are left out, which all this must notice |

mod answers;
pub mod fixture;
mod judge;
mod large;
mod log;
pub mod mutation;
mod teeth;

use fixture::{Closed, Killed, Log, closed, killed};
use judge::{
    Outcome, Reference, Report, Role, WAYS, Written, ask_all, judge, judge_creating, judge_writing, located, open_as, sweep,
    unchanged_but_lock,
};
use log::{Logs, Verdict};
use mutation::{Mutation, alone, replacements, swaps};
use std::collections::BTreeMap;
use triune::io::SimDirectory;
use triune::io::names::FileName;
use triune::{Error, IoMode, Lsn};

fn whole() -> bool {
    std::env::var("TRIUNE_SWEEP").is_ok_and(|v| v == "full")
}

/// About `at_most` of the damages to each file, evenly spread, and the few that touch a whole file or block; all in a whole sweep.
fn sample(all: Vec<Mutation>, at_most: usize) -> Vec<Mutation> {
    if whole() {
        return all;
    }
    let file_of = |m: &Mutation| m.file().map(str::to_string);
    let mut chosen = Vec::new();
    for of_file in all.chunk_by(|a, b| file_of(a) == file_of(b)) {
        // Prime to three and four, so that the three changes of a byte and its truncation, which follow one another, take turns.
        let least = of_file.len().div_ceil(at_most);
        let step = (least..).find(|step| step % 2 == 1 && step % 3 != 0).unwrap_or(least);
        let keep = |(i, m): &(usize, &Mutation)| i % step == 0 || !is_small(m);
        chosen.extend(of_file.iter().enumerate().filter(keep).map(|(_, m)| m.clone()));
    }
    chosen
}

/// Whether there are thousands of this kind.
fn is_small(mutation: &Mutation) -> bool {
    matches!(
        mutation,
        Mutation::Byte { .. }
            | Mutation::Truncate { .. }
            | Mutation::Misplace { .. }
            | Mutation::SwapBlocks { .. }
            | Mutation::RepeatBlock { .. }
    )
}

#[allow(clippy::print_stderr, reason = "a whole sweep reports what it counted")]
fn conclude(name: &str, report: &Report) {
    if whole() {
        eprintln!("{name}: {} cases", report.cases);
        report.counts.iter().for_each(|((what, outcome), n)| eprintln!("  {what}: {outcome:?} {n}"));
    }
    assert!(report.failures.is_empty(), "{name}: {} failures\n{}", report.failures.len(), report.failures.join("\n"));
    assert!(report.cases > 0);
}

/// What a file is, for counting.
fn kind_of(mutation: &Mutation) -> String {
    let file = mutation.to_string().split(' ').next().unwrap().to_string();
    match FileName::parse(&file) {
        Some(FileName::Manifest(_)) => "manifest".into(),
        Some(FileName::Wal(_)) => "log".into(),
        Some(FileName::Segments(_)) => "segments".into(),
        Some(FileName::Tombstones(_)) => "tombstones".into(),
        None => file,
    }
}

/// The ways in which a damage is judged: all of them, but of those that there are thousands of a writer and a reader by turns, so that a
/// byte, which changes three times, meets all; in a sample only one.
fn ways(index: usize, mutation: &Mutation) -> Vec<(Role, IoMode)> {
    let turn = |i: &usize| match (is_small(mutation), whole()) {
        (false, _) => true,
        (true, true) => i / 2 == index % 2,
        (true, false) => *i == index % WAYS.len(),
    };
    (0..WAYS.len()).filter(turn).map(|i| WAYS[i]).collect()
}

/// Judges a damage, and now and then the writing and creating after it.
fn case(index: usize, mutation: &Mutation, image: &SimDirectory, references: &Written) -> Result<Vec<(String, Outcome)>, String> {
    let Some(damaged) = mutation.apply(image) else { return Ok(Vec::new()) };
    let mut outcomes = Vec::new();
    for way in ways(index, mutation) {
        let outcome = judge(&damaged, way, &references.before, mutation, image).map_err(|why| format!("{way:?}: {why}"))?;
        outcomes.push((format!("{}, {}, {:?}", kind_of(mutation), mutation.kind(), way.0), outcome));
    }
    if !is_small(mutation) || index.is_multiple_of(if whole() { 29 } else { 7 }) {
        judge_writing(&damaged, references, mutation, image)?;
        judge_creating(&damaged)?;
    }
    Ok(outcomes)
}

#[test]
fn the_fixture_has_what_damage_can_hit() {
    let Closed { image, earlier } = closed();
    let list: Vec<String> = image.file_names().iter().map(|n| format!("{n} {}", image.read_file(n).unwrap().len())).collect();
    let count = |kind: &str| image.file_names().iter().filter(|n| n.ends_with(kind)).count();
    assert!(count(".segments") >= 3 && count(".tombstones") >= 1 && count(".manifest") == 1 && count(".wal") == 1, "{list:#?}");
    assert_eq!(earlier.len(), 2);
    let db = fixture::open(&image.snapshot());
    assert_eq!(db.recovery().replayed_commits, 0, "it was closed cleanly");
    let stats: Vec<_> =
        db.snapshot().collections().iter().map(|n| (n.clone(), db.snapshot().collection(n).unwrap().stats().unwrap())).collect();
    assert!(stats.iter().any(|(_, s)| s.segments >= 3), "{list:#?} {stats:#?}");
    assert!(stats.iter().any(|(_, s)| s.documents == 0 && s.segments == 0), "{stats:#?}");
    let sections: Vec<String> = image
        .file_names()
        .iter()
        .flat_map(|name| triune::inspect::structures_directory(&image, name).unwrap())
        .map(|structure| structure.name)
        .collect();
    for section in ["section VectorGraph", "section VectorCodes"] {
        assert!(sections.iter().any(|name| name.contains(section)), "{section} in {sections:#?}");
    }
    let reference = Reference::of(&image);
    assert!(reference.questions.len() > 130, "{}", reference.questions.len());
}

/// Sweeps the damages of `wanted` to each file of the closed database alone.
fn sweep_closed(name: &str, at_most: usize, wanted: impl Fn(&Mutation) -> bool) {
    let Closed { image, .. } = closed();
    let references = Written::of(&image);
    let all = image.file_names().iter().flat_map(|file| alone(&image, file)).filter(|m| wanted(m)).collect();
    conclude(name, &sweep(&sample(all, at_most), |index, m| case(index, m, &image, &references)));
}

#[test]
fn a_changed_byte_is_a_located_error_or_the_exact_answer() {
    sweep_closed("closed database, bytes changed", 120, |m| !matches!(m, Mutation::Truncate { .. } | Mutation::Delete { .. }));
}

#[test]
fn a_truncated_file_is_a_located_error_or_the_exact_answer() {
    sweep_closed("closed database, a file truncated", 40, |m| matches!(m, Mutation::Truncate { .. }));
}

#[test]
fn a_missing_file_is_a_located_error_or_the_exact_answer() {
    sweep_closed("closed database, a file missing", 1, |m| matches!(m, Mutation::Delete { .. }));
}

#[test]
fn swapped_and_stale_and_foreign_files_are_located_or_harmless() {
    let Closed { image, earlier } = closed();
    let references = Written::of(&image);
    let mut mutations = swaps(&image);
    for (by, older) in &earlier {
        mutations.extend(replacements(&image, older, by));
    }
    mutations.extend(replacements(&image, &closed().image, "the same file of a twin"));
    conclude("closed database, files swapped or replaced", &sweep(&mutations, |index, m| case(index, m, &image, &references)));
}

const LOGS: [Log; 4] = [Log::Witnessed, Log::Unwitnessed, Log::Unsynced, Log::Continued];

#[test]
fn damage_to_the_log_of_a_killed_process_follows_the_rule_of_recovery() {
    for log in LOGS {
        let Killed { image, states } = killed(log);
        let logs = Logs::of(&image);
        assert_eq!(logs.record_counts().len(), if log == Log::Continued { 2 } else { 1 }, "{log:?}");
        assert!(logs.record_counts().iter().all(|&n| n >= 3), "{log:?}");
        let full = Reference::of(&image);
        let references: BTreeMap<Lsn, Reference> = states.iter().map(|(lsn, state)| (*lsn, full.asked_of(state))).collect();
        let files = image.file_names().into_iter().filter(|name| name.ends_with(".wal"));
        let mutations = sample(files.flat_map(|file| alone(&image, &file)).collect(), 300);
        let report = sweep(&mutations, |index, m| log_case(index, m, &image, &logs, &references));
        let shorter: usize = report.counts.iter().filter(|((_, outcome), _)| *outcome == Outcome::Shorter).map(|(_, n)| n).sum();
        // What was synced and is evidenced outside the log is never dropped; without evidence that is the one residual case, and with
        // records that were never synced it is a torn tail.
        let may_drop = matches!(log, Log::Unwitnessed | Log::Unsynced);
        assert_eq!(shorter > 0, may_drop, "{log:?}: {shorter} images opened shorter");
        conclude(&format!("killed, {log:?}, log damaged"), &report);
    }
}

fn log_case(
    index: usize,
    mutation: &Mutation,
    image: &SimDirectory,
    logs: &Logs,
    references: &BTreeMap<Lsn, Reference>,
) -> Result<Vec<(String, Outcome)>, String> {
    let Some(damaged) = mutation.apply(image) else { return Ok(Vec::new()) };
    let verdict = logs.verdict(&damaged);
    let mut outcomes = Vec::new();
    for way in ways(index, mutation) {
        let dir = damaged.snapshot();
        let outcome = match (verdict, open_as(&dir, way)) {
            (Verdict::Corrupt(lsn), Err(e)) => {
                located(&e, mutation, image)?;
                let named = |lsn: u64| matches!(&e, Error::Corrupt(c) if c.what.contains(&format!("lsn {lsn} to ")));
                if lsn.is_some_and(|lsn| !named(lsn)) {
                    return Err(format!("{way:?}: does not name lsn {lsn:?}: {e:?}"));
                }
                unchanged_but_lock(&dir, &damaged)?;
                Outcome::Refused
            }
            (Verdict::Exact, Ok(db)) => {
                ask_all(&db, &references[&logs.last_lsn], mutation, image).map_err(|why| format!("{way:?}: {why}"))?
            }
            (Verdict::Prefix(lsn), Ok(db)) => {
                let outcome = ask_all(&db, &references[&lsn], mutation, image).map_err(|why| format!("{way:?} at lsn {lsn}: {why}"))?;
                let bytes_follow = matches!(mutation, Mutation::Byte { .. });
                if outcome != Outcome::Exact || (bytes_follow && db.recovery().torn_tail.is_none()) {
                    return Err(format!("{way:?}: {outcome:?} at lsn {lsn}, reported as {:?}", db.recovery()));
                }
                drop(db);
                if way.0 == Role::Writer {
                    // What survived stands in fresh files: opening again finds the same.
                    let again = open_as(&dir, way).map_err(|e| format!("{way:?} again: {e:?}"))?;
                    ask_all(&again, &references[&lsn], mutation, image).map_err(|why| format!("{way:?} again: {why}"))?;
                }
                Outcome::Shorter
            }
            (expected, got) => return Err(format!("{way:?}: expected {expected:?}, got {:?}", got.map(|db| db.recovery().clone()))),
        };
        outcomes.push((format!("{}, {:?}", mutation.kind(), way.0), outcome));
    }
    Ok(outcomes)
}

#[test]
fn damage_to_the_other_files_of_a_killed_process_is_located_or_harmless() {
    for log in [Log::Witnessed, Log::Continued] {
        let Killed { image, .. } = killed(log);
        let references = Written::of(&image);
        let files = image.file_names().into_iter().filter(|name| !name.ends_with(".wal"));
        let mutations: Vec<Mutation> = files.flat_map(|file| alone(&image, &file)).collect();
        let mutations = sample(mutations, 60);
        conclude(&format!("killed, {log:?}, other files damaged"), &sweep(&mutations, |index, m| case(index, m, &image, &references)));
    }
}

#[test]
fn a_database_whose_files_are_all_gone_is_not_found_and_one_that_held_nothing_is_never_opened_empty_by_damage() {
    let fresh = SimDirectory::new();
    drop(triune::Database::create_with(std::sync::Arc::new(fresh.clone()), fixture::options(IoMode::Mmap)).unwrap());
    let image = fixture::compact_copy(&fresh);
    let all: Vec<Mutation> = image.file_names().iter().flat_map(|file| alone(&image, file)).collect();
    for mutation in sample(all, 200) {
        let Some(damaged) = mutation.apply(&image) else { continue };
        for way in WAYS {
            match open_as(&damaged.snapshot(), way) {
                Ok(db) => assert_eq!((db.snapshot().collections().len(), db.snapshot().lsn()), (0, Lsn(0)), "{mutation}"),
                // No slot, no commit: an unfinished create.
                Err(Error::NotFound(_)) if mutation.file() == Some("HEAD") => {}
                Err(e) => located(&e, &mutation, &image).unwrap_or_else(|why| panic!("{mutation}: {why}")),
            }
        }
    }
    for way in WAYS {
        assert!(matches!(open_as(&SimDirectory::new(), way), Err(Error::NotFound(_))));
    }
    // With a commit in it, no damage to HEAD alone makes it look new.
    let Closed { image, .. } = closed();
    for mutation in [Mutation::Delete { file: "HEAD".into() }, Mutation::Truncate { file: "HEAD".into(), len: 0 }] {
        let damaged = mutation.apply(&image).unwrap();
        assert!(WAYS.into_iter().all(|way| matches!(open_as(&damaged, way), Err(Error::Corrupt(c)) if c.file == "HEAD")), "{mutation}");
        judge_creating(&damaged).unwrap();
    }
}

#[test]
fn damage_on_a_real_directory_is_located_or_harmless() {
    let Closed { image, .. } = closed();
    let reference = Reference::of(&image);
    let scratch = tempfile::tempdir().unwrap();
    let write = |image: &SimDirectory| {
        std::fs::remove_dir_all(scratch.path()).unwrap();
        std::fs::create_dir(scratch.path()).unwrap();
        image.file_names().iter().for_each(|name| std::fs::write(scratch.path().join(name), image.read_file(name).unwrap()).unwrap());
    };
    let all: Vec<Mutation> = image.file_names().iter().flat_map(|file| alone(&image, file)).collect();
    let stride = if whole() { 97 } else { 997 };
    for mutation in all.into_iter().step_by(stride).chain(swaps(&image).into_iter().take(3)) {
        let Some(damaged) = mutation.apply(&image) else { continue };
        for (role, io_mode) in WAYS {
            write(&damaged);
            let options = fixture::options(io_mode);
            let dir = std::sync::Arc::new(triune::io::FsDirectory::open(scratch.path()).unwrap());
            let opened = match role {
                Role::Writer => triune::Database::open_with(dir, options),
                Role::Reader => triune::Database::open_read_only_with(dir, options),
            };
            let judged = match opened {
                Ok(db) => ask_all(&db, &reference, &mutation, &image).map(drop),
                Err(e) => located(&e, &mutation, &image),
            };
            judged.unwrap_or_else(|why| panic!("{mutation}, {role:?}, {io_mode:?}: {why}"));
        }
    }
}

#[test]
fn damage_to_a_segment_that_only_the_log_names_is_located() {
    let image = fixture::landed();
    let references = Written::of(&image);
    let files = image.file_names().into_iter().filter(|name| name.ends_with(".segments"));
    let mutations: Vec<Mutation> = files.flat_map(|file| alone(&image, &file)).collect();
    let stride = if whole() { 211 } else { 4001 };
    let mutations: Vec<Mutation> = mutations
        .into_iter()
        .enumerate()
        .filter(|(i, m)| i % stride == 0 || matches!(m, Mutation::Delete { .. } | Mutation::ZeroBlock { block: 0, .. }))
        .map(|(_, m)| m)
        .collect();
    conclude("landed batch, its segment damaged", &sweep(&mutations, |index, m| case(index, m, &image, &references)));
}

/// A process that was killed between the two slots of a publish leaves slots that name different files. What the older one needs may go only
/// once neither slot needs it, whatever the next process does first.
#[test]
fn files_that_the_older_slot_reaches_outlive_it() {
    let checkpoint = |stop: Option<usize>| {
        let dir = SimDirectory::new();
        let db = triune::Database::create_with(std::sync::Arc::new(dir.clone()), fixture::options(IoMode::Mmap)).unwrap();
        db.create_collection("main", triune::Schema::default()).unwrap();
        db.put("main", vec![fixture::document("é", 0, 3)]).unwrap();
        if let Some(n) = stop {
            dir.crash_at(n, triune::io::sim::CrashMode::Before);
        }
        let result = db.checkpoint();
        assert_eq!(result.is_err(), stop.is_some());
        drop(db);
        dir
    };
    let is_head = |o: &triune::io::sim::Operation| matches!(o, triune::io::sim::Operation::Write { name, .. } if name == "HEAD");
    let last_write = checkpoint(None).trace().iter().rposition(is_head).unwrap();
    let image = checkpoint(Some(last_write)).after_kill();
    let reference = Reference::of(&image);

    let db = fixture::open(&image);
    assert_eq!(db.recovery().replayed_commits, 0, "the newer slot names a manifest of everything");
    db.compact().unwrap();
    drop(db);
    for slot in 0..2 {
        let mutation = Mutation::ZeroBlock { file: "HEAD".into(), block: slot };
        let damaged = mutation.apply(&image).unwrap();
        for way in WAYS {
            let outcome = judge(&damaged, way, &reference, &mutation, &image);
            assert_eq!(outcome, Ok(Outcome::Exact), "slot {slot} rotted, {way:?}");
        }
    }
}

/// The one case that the fault model leaves open, made on purpose: damage to the last group of records when no evidence of its sync reached the
/// disk. Each byte of the log is changed; what opens shorter has lost exactly that group, and a database that was closed has nothing to lose.
#[test]
fn the_residual_case_is_the_last_group_without_evidence_and_nothing_else() {
    let lsns_after = |image: &SimDirectory| {
        let files = image.file_names().into_iter().filter(|name| name.ends_with(".wal"));
        let bytes = files.flat_map(|file| alone(image, &file)).filter(|m| matches!(m, Mutation::Byte { .. }));
        let open = |m: Mutation| open_as(&m.apply(image)?, (Role::Reader, IoMode::Mmap)).ok().map(|db| db.snapshot().lsn());
        bytes.filter_map(open).collect::<Vec<Lsn>>()
    };
    let shorter = |log: Log| {
        let image = killed(log).image;
        let logs = Logs::of(&image);
        let lost: Vec<Lsn> = lsns_after(&image).into_iter().filter(|lsn| *lsn < logs.last_lsn).collect();
        (logs.evidenced(), lost)
    };
    let (evidenced, lost) = shorter(Log::Unwitnessed);
    assert!(
        lost.len() > 100 && lost.iter().all(|lsn| lsn.0 >= evidenced),
        "{} images, of lsn {lost:?}, evidence up to {evidenced}",
        lost.len()
    );
    assert_eq!((shorter(Log::Witnessed).1.len(), shorter(Log::Continued).1.len()), (0, 0));
    let closed = closed().image;
    let last = fixture::open(&closed.snapshot()).snapshot().lsn();
    assert!(lsns_after(&closed).iter().all(|lsn| *lsn == last), "a clean close leaves no residual case");
    note(&format!("the residual case: {} of the changes of a byte lose the last group", lost.len()));
}

#[allow(clippy::print_stderr, reason = "a figure for the documentation; shown with --nocapture")]
fn note(what: &str) {
    eprintln!("{what}");
}
