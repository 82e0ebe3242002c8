//! Crash safety, on the simulated disk: whatever a crash leaves, opening it finds whole commits, every acknowledged one among them.
//!
//! | file | role |
//! | --- | --- |
//! | `model.rs` | what a database holds after each commit, computed without it |
//! | `workloads.rs` | the programs that are stopped |
//! | `run.rs` | carries them out, and knows what was acknowledged |
//! | `probe.rs` | looks at the disk before each operation |
//! | `oracle.rs` | what must hold of every image |
//! | `sweep.rs` | all images of all moments |
//! | `backups.rs` | the same for backups, each beside its original |
//! | `scenario.rs` | one history of crashes, which a chooser decides: exhaustively, at random, or as a fuzzer likes |
//! | `faults.rs` | operations that fail, and full disks |
//! | `teeth.rs` | syncs that are left out, which all this must notice |
//!
//! `TRIUNE_SWEEP=full` looks at more of everything: `docs/testing.md`.

pub mod backups;
pub mod faults;
pub mod model;
pub mod oracle;
pub mod probe;
pub mod run;
pub mod scenario;
pub mod sweep;
mod teeth;
pub mod workloads;

use backups::{Paired, sweep_backup};
use faults::Fault;
use oracle::Allowed;
use run::Run;
use std::collections::BTreeMap;
use std::sync::Arc;
use sweep::{Budget, Tally, moments_and_backups_of, moments_of, sweep};
use triune::Database;
use triune::io::sim::{CrashMode, FailureKind, Operation, SimDirectory};
use workloads::Workload;

use proptest::prelude::*;
use scenario::{Histories, Played};
use triune::io::sim::{Exhaustive, FromBytes};

/// Whether some image breaks a promise when operation `n` of a workload, a sync, is left out.
pub fn is_missed(workload: &Workload, n: usize) -> bool {
    teeth::is_noticed(workload, n)
}

/// Sweeps one workload.
fn survive(workload: &Workload) {
    let budget = Budget::of_this_run();
    let begun = std::time::Instant::now();
    let (_, moments) = moments_of(workload);
    let mut tally = Tally::default();
    for garbage in [false, true] {
        tally.add(sweep(workload.name, &moments, budget, garbage).unwrap_or_else(|e| panic!("{e}")));
    }
    report(workload.name, tally, begun);
    assert!(tally.moments > 20 && tally.distinct > 100 && tally.nested > 5, "{}: {tally:?}", workload.name);
}

#[allow(clippy::print_stderr, reason = "what a sweep looked at is what it is worth; shown with --nocapture")]
fn report(name: &str, tally: Tally, begun: std::time::Instant) {
    eprintln!("{name}: {tally:?}, {:?}", begun.elapsed());
}

#[test]
fn a_crash_after_any_operation_leaves_whole_commits() {
    survive(&workloads::commits());
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_after_any_operation() {
    survive(&workloads::mixed());
}

#[test]
fn commits_of_a_group_survive_a_crash() {
    survive(&workloads::groups());
}

#[test]
fn buffered_commits_survive_a_kill_and_leave_a_prefix_after_a_power_cut() {
    survive(&workloads::buffered());
}

#[test]
fn a_batch_too_large_for_a_record_survives_a_crash() {
    survive(&workloads::oversize());
}

#[test]
fn a_crash_while_logs_are_rotated_leaves_whole_commits() {
    survive(&workloads::rotation());
}

#[test]
fn a_crash_in_a_checkpoint_leaves_whole_commits() {
    survive(&workloads::checkpoints());
}

#[test]
fn a_crash_in_a_merge_leaves_whole_commits() {
    survive(&workloads::merges());
}

#[test]
fn a_crash_while_files_are_removed_leaves_whole_commits() {
    survive(&workloads::garbage());
}

#[test]
fn a_crash_while_closing_leaves_whole_commits() {
    survive(&workloads::closes());
}

#[test]
fn a_crash_in_a_recovery_leaves_whole_commits() {
    survive(&workloads::recoveries());
}

#[test]
fn a_crash_in_a_compaction_leaves_whole_commits() {
    survive(&workloads::compactions());
}

/// chroma #7510, VelesDB #2305 and others: a vector index that was torn while it was saved, or that named what was not durable yet.
#[test]
fn a_crash_while_vector_graphs_are_written_leaves_whole_commits() {
    let workload = workloads::graphs();
    let (_, moments) = moments_of(&workload);
    let with_graph = |m: &&probe::Moment| {
        let db = Database::open_read_only_with(Arc::new(m.disk.after_kill()), oracle::options()).unwrap();
        db.snapshot().collection("a").is_ok_and(|a| a.vector_bytes().unwrap().graphs > 0)
    };
    let with_graphs = moments.iter().step_by(2).filter(with_graph).count();
    assert!(with_graphs > 20, "{with_graphs} moments with a graph");
    survive(&workload);
}

#[test]
fn a_crash_in_a_backup_harms_no_original_and_leaves_a_whole_backup_or_a_refused_one() {
    let (budget, begun) = (Budget::of_this_run(), std::time::Instant::now());
    let workload = workloads::copies();
    survive(&workload);
    let (mut tally, mut all) = (Tally::default(), Paired::default());
    let (_, _, copies) = moments_and_backups_of(&workload);
    for copy in &copies {
        let (seen, paired) = sweep_backup(workload.name, &copy.moments, copy.link, budget).unwrap_or_else(|e| panic!("{e}"));
        tally.add(seen);
        all.add(paired);
    }
    report(&format!("backups, {} of them, {all:?}", copies.len()), tally, begun);
    assert!(copies.len() == 3 && tally.moments > 60 && tally.nested > 20, "{} {tally:?}", copies.len());
    assert!(all.whole > 10 && all.again > 50 && all.pairs >= all.whole + all.again, "{all:?}");
}

#[test]
fn a_crash_in_a_create_leaves_an_unfinished_one_or_an_empty_database() {
    let budget = Budget::of_this_run();
    // Each stopped recovery is a stopped create, which writes a megabyte.
    let (nested_every, nested_images) = if budget.full { (1, budget.nested_images) } else { (4, 1) };
    let budget = Budget { nested_every, nested_images, ..budget };
    let begun = std::time::Instant::now();
    let (creation, _) = moments_of(&Workload { steps: Vec::new(), ..workloads::commits() });
    let tally = sweep("create", &creation, budget, false).unwrap_or_else(|e| panic!("{e}"));
    report("create", tally, begun);
    assert!(tally.moments > 20 && tally.distinct > 100, "{tally:?}");
}

/// Every manner of failing, at every operation of a workload.
fn survive_failures(workload: &Workload, faults: &[Fault], which: impl Fn(usize, &Operation) -> bool) {
    let budget = Budget::of_this_run();
    let begun = std::time::Instant::now();
    let (creation, moments) = moments_of(workload);
    let trace = moments.last().unwrap().disk.trace();
    let (mut tally, mut cases) = (Tally::default(), 0);
    let (after, images) = if budget.full { (usize::MAX, 12) } else { (2, 3) };
    for (n, operation) in trace.iter().enumerate().skip(creation.last().unwrap().disk.operations()) {
        if !which(n, operation) {
            continue;
        }
        for &fault in faults {
            let done = faults::survive(workload, n, fault, after, images);
            tally.add(done.unwrap_or_else(|e| panic!("{}: {fault:?} at operation {n} ({operation}): {e}", workload.name)));
            cases += 1;
        }
    }
    report(&format!("{} failing, {cases} cases", workload.name), tally, begun);
    assert!(cases > 50, "{cases} cases");
}

#[test]
fn a_failed_sync_leaves_the_outcome_unknown_and_loses_nothing_acknowledged() {
    let faults = FailureKind::REPORTED.map(Fault::Once);
    survive_failures(&workloads::mixed(), &faults, |_, operation| operation.is_sync());
}

#[test]
fn a_failed_write_is_told_and_never_comes_back() {
    let faults = [Fault::Once(FailureKind::Enospc), Fault::Once(FailureKind::Eio)];
    survive_failures(&workloads::mixed(), &faults, |_, operation| !operation.is_sync());
}

#[test]
fn a_disk_that_fails_from_some_operation_on_loses_nothing_acknowledged() {
    let faults = [Fault::FromThen(FailureKind::Enospc), Fault::FromThen(FailureKind::Eio)];
    survive_failures(&workloads::mixed(), &faults, |_, _| true);
}

/// Whether nothing can tell that the sync `n` of a trace is missing, and why.
fn excused(trace: &[Operation], created: usize, n: usize) -> Option<&'static str> {
    let writes = |of: &str, from: usize| {
        let is_one = |o: &Operation| matches!(o, Operation::Write { name, .. } if name == of);
        trace[from..].iter().position(is_one).map_or(usize::MAX, |at| from + at)
    };
    let Operation::SyncFile { name } = &trace[n] else { return None };
    let is_log = |o: &Operation| matches!(o, Operation::SyncFile { name } if name.ends_with(".wal"));
    // A process starts by writing its pid into LOCK; a recovery syncs the logs that it found next.
    let settles = |before: &[Operation]| {
        let first = before.iter().rposition(|o| !is_log(o));
        first.is_some_and(|at| matches!(&before[at], Operation::Write { name, .. } if name == "LOCK"))
    };
    let starts = settles(&trace[..n]);
    match name.as_str() {
        log if starts && log.ends_with(".wal") => {
            Some("what only the cache held was promised to nobody; crashes in a recovery show the image that this sync saves")
        }
        "LOCK" => Some("it is empty"),
        "WITNESS" => Some("zeros are no evidence, and neither is a file that is unreadable"),
        "BALLAST" => Some("nobody reads it"),
        "HEAD" if n < created => {
            Some("until create returns it may be unfinished; its last slot is written again before anything rests on it")
        }
        "HEAD" if writes("LOCK", n) <= writes("HEAD", n) => Some("the next process writes the slot again before it writes the other"),
        "HEAD" if n >= 1 && settles(&trace[..n - 1]) => {
            Some("nothing was pending when this process began; `a_missing_sync_of_head_at_opening_is_noticed` has those where it was")
        }
        _ => None,
    }
}

#[test]
fn a_missing_sync_is_noticed() {
    let begun = std::time::Instant::now();
    let workloads = if Budget::of_this_run().full { workloads::all() } else { vec![workloads::mixed()] };
    let (mut noticed, mut passed) = (0, BTreeMap::new());
    for workload in &workloads {
        let (creation, moments) = moments_of(workload);
        let (trace, created) = (moments.last().unwrap().disk.trace(), creation.last().unwrap().disk.operations());
        for (n, operation) in trace.iter().enumerate().filter(|(_, operation)| operation.is_sync()) {
            match excused(&trace, created, n) {
                Some(why) => *passed.entry(why).or_insert(0) += 1,
                None if teeth::is_noticed(workload, n) => noticed += 1,
                None => panic!("{}: nothing is violated without operation {n}, {operation}", workload.name),
            }
        }
    }
    report(&format!("syncs: {noticed} noticed, excused {passed:?}"), Tally::default(), begun);
    assert!(noticed > 40, "{noticed}");
}

#[test]
fn a_missing_sync_of_head_at_opening_is_noticed() {
    let workload = workloads::mixed();
    let (_, moments) = moments_of(&workload);
    let trace = moments.last().unwrap().disk.trace();
    let steps = [workloads::Step::Checkpoint, workloads::Step::Commit(vec![model::Op::Create("more")])];
    let mut cases = 0;
    for moment in &moments {
        // A slot was written and not synced when the process was killed.
        if matches!(trace.get(moment.disk.operations() - 1), Some(Operation::Write { name, .. }) if name == "HEAD") {
            assert!(teeth::is_settling_noticed(&workload, moment, &steps), "killed before operation {}", moment.disk.operations());
            cases += 1;
        }
    }
    assert!(cases > 20, "{cases}");
}

/// The probe's claim: stopping the machine for real, before or during an operation, leaves nothing else than the moments it looks at.
#[test]
fn the_machine_itself_stops_where_the_probe_looks() {
    let workload = workloads::mixed();
    let (creation, moments) = moments_of(&workload);
    let (begin, end) = (creation.last().unwrap().disk.operations(), moments.last().unwrap().disk.operations());
    let mut checked = sweep::Checked::default();
    for (n, mode) in (begin..end).step_by(if Budget::of_this_run().full { 1 } else { 3 }).flat_map(|n| CrashMode::ALL.map(|mode| (n, mode)))
    {
        let disk = SimDirectory::new();
        disk.crash_at(n, mode);
        let run = Run::create(disk.clone(), workload.options.clone()).unwrap();
        for step in workload.steps.iter().take_while(|_| !disk.crashed()) {
            run.step(step);
        }
        let progress = run.probe.progress();
        let (of_cut, of_kill) = (Allowed::after_power_cut(&progress), Allowed::after_kill(&progress));
        let at = |e: String| panic!("stopped {mode:?} operation {n}: {e}");
        for image in [disk.survivors_none(), disk.survivors_all()] {
            checked.check(&image, &of_cut).unwrap_or_else(at);
        }
        checked.check(&disk.after_kill(), &of_kill).unwrap_or_else(at);
    }
    assert!(checked.tally.images > 200, "{:?}", checked.tally);
}

/// Every history of a few small workloads in which each moment leaves few enough images: all of them, and every crash of the recovery from them.
#[test]
fn every_history_of_small_workloads_ends_in_whole_commits() {
    let begun = std::time::Instant::now();
    let full = Budget::of_this_run().full;
    let (images, nested_every) = if full { (64, 1) } else { (8, 4) };
    let histories = Histories::of(&[workloads::tiny()], Some(images), nested_every);
    let (mut choices, mut played) = (Exhaustive::new(), Played::default());
    let mut checked = sweep::Checked::default();
    while choices.advance() {
        played.add(scenario::play(&histories, &mut choices, &mut checked).unwrap_or_else(|e| panic!("{e}")));
    }
    report(&format!("{} histories, every one: {played:?}", histories.name()), checked.tally, begun);
    assert!(played.kills > 10 && played.cuts > 50 && played.nested > 50, "{played:?}");
}

/// The same play, decided at random, over every workload and every moment.
#[test]
fn any_history_ends_in_whole_commits() {
    let histories = Histories::of(&workloads::all(), None, 1);
    let cases = if Budget::of_this_run().full { 20_000 } else { 120 };
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(bytes in proptest::collection::vec(any::<u8>(), 0..96))| {
        let played = scenario::play(&histories, &mut FromBytes::new(&bytes), &mut sweep::Checked::default());
        prop_assert!(played.is_ok(), "{}", played.unwrap_err());
    });
}

/// What the fuzz target `crash` keeps: the same histories, so they are played here.
#[test]
fn every_history_that_the_fuzzer_keeps_ends_in_whole_commits() {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/crash");
    let histories = Histories::of(&workloads::all(), None, 1);
    let mut played = Played::default();
    for entry in std::fs::read_dir(seeds).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let history = scenario::play(&histories, &mut FromBytes::new(&bytes), &mut sweep::Checked::default());
        played.add(history.unwrap_or_else(|e| panic!("{}: {e}", path.display())));
    }
    assert!(played.kills > 3 && played.cuts > 3 && played.nested > 3, "{played:?}");
}
