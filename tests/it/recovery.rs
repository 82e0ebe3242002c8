//! Crash safety, on the simulated disk: whatever a crash leaves, opening it finds whole commits, every acknowledged one among them.
//!
//! | file | role |
//! | --- | --- |
//! | `model.rs` | what a database holds after each commit, computed without it |
//! | `workloads.rs` | the programs that are stopped |
//! | `probe.rs` | looks at the disk before each operation |
//! | `oracle.rs` | what must hold of every image |
//! | `sweep.rs` | all images of all moments |

mod faults;
mod model;
mod oracle;
mod probe;
mod sweep;
mod workloads;

use faults::Fault;
use sweep::{Budget, Tally, moments_of, sweep};
use triune::io::sim::{FailureKind, Operation};
use workloads::Workload;

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
    assert!(tally.moments > 20 && tally.distinct > 100 && tally.nested > 20, "{}: {tally:?}", workload.name);
}

#[allow(clippy::print_stderr, reason = "what a sweep looked at is what it is worth; shown with --nocapture")]
fn report(name: &str, tally: Tally, begun: std::time::Instant) {
    eprintln!("{name}: {tally:?}, {:?}", begun.elapsed());
}

macro_rules! survives {
    ($($test:ident $workload:ident)+) => { $(#[test] fn $test() { survive(&workloads::$workload()); })+ };
}

survives! {
    a_crash_after_any_operation_leaves_whole_commits commits
    commits_of_a_group_survive_a_crash groups
    buffered_commits_survive_a_kill_and_leave_a_prefix_after_a_power_cut buffered
    a_batch_too_large_for_a_record_survives_a_crash oversize
    a_crash_while_logs_are_rotated_leaves_whole_commits rotation
    a_crash_in_a_checkpoint_leaves_whole_commits checkpoints
    a_crash_in_a_merge_leaves_whole_commits merges
    a_crash_while_closing_leaves_whole_commits closes
    a_crash_in_a_recovery_leaves_whole_commits recoveries
    a_crash_in_a_compaction_leaves_whole_commits compactions
}

#[test]
fn a_crash_in_a_create_leaves_an_unfinished_one_or_an_empty_database() {
    let budget = Budget { nested_every: 1, ..Budget::of_this_run() };
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
