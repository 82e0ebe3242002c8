//! The interleavings that an executable model of the protocol found to lose or refuse data in its first wording, each as a test of its own, and
//! the other rules that the model showed to be necessary. Where a rule can be switched off, the test is run without it too, and has to fail.
//!
//! | file | role |
//! | --- | --- |
//! | `interleavings.rs` | F1 to F13 of the model check |
//! | `reader.rs` | a reader between whose calls a writer acts |
//! | `teeth.rs` | the other necessary rules |

mod reader;
mod teeth;

use crate::recovery::faults::{self, Fault};
use crate::recovery::model::{Op, documents};
use crate::recovery::oracle::{Allowed, options};
use crate::recovery::probe::{Moment, Probe, Progress};
use crate::recovery::run::Run;
use crate::recovery::sweep::{Budget, Checked, moments_of, sweep};
use crate::recovery::workloads::{self, Step, Workload, ids, one, small};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use triune::format::sabotage::{Rule, with_broken};
use triune::io::sim::{FailureKind, Operation, SimDirectory};
use triune::{Database, ErrorCode, Schema};

/// Holds `check` with every rule in force, and demands that it fails without `rule`.
pub fn rests_on(rule: Rule, check: impl Fn() -> Result<(), String>) {
    check().unwrap_or_else(|e| panic!("with every rule in force: {e}"));
    // A panic is a failure too: the model of a run panics when the live handle differs from it.
    let without = with_broken(Some(rule), || catch_unwind(AssertUnwindSafe(&check)));
    assert!(!matches!(without, Ok(Ok(()))), "nothing is noticed without {rule:?}");
}

fn workload(name: &'static str, steps: Vec<Step>) -> Workload {
    Workload { name, options: small(), steps }
}

/// Stops a workload at each of its moments: what a kill leaves, and `images` of what a power cut may leave.
fn survives(workload: &Workload, images: usize, garbage: bool) -> Result<(), String> {
    survive_at(&moments_of(workload).1, images, garbage)
}

fn survive_at(moments: &[Moment], images: usize, garbage: bool) -> Result<(), String> {
    let mut checked = Checked::default();
    for moment in moments {
        let at = |e: String| format!("before operation {}: {e}", moment.disk.operations());
        moment.disk.set_garbage(garbage);
        checked.check(&moment.disk.after_kill(), &Allowed::after_kill(&moment.progress)).map_err(at)?;
        for image in moment.disk.survivor_images(images) {
            checked.check(&image, &Allowed::after_power_cut(&moment.progress)).map_err(at)?;
        }
    }
    assert!(checked.tally.distinct > 1, "{:?}", checked.tally);
    Ok(())
}

use Step::{Buffered, Checkpoint, Commit as Do, Group, Merge, Reopen, Sync};

fn two_documents() -> Step {
    Do(vec![Op::Create("a"), Op::Put("a", documents("x", 2, "s"))])
}

#[test]
fn f1_a_checkpoint_killed_before_its_unlinks_opens() {
    let steps = vec![two_documents(), Checkpoint, Do(vec![Op::Put("a", one("y", "more"))]), Checkpoint];
    let w = workload("unlinks", steps);
    let before_unlinks = || {
        let (_, mut moments) = moments_of(&w);
        let trace = moments.last().unwrap().disk.trace();
        moments.retain(|m| matches!(trace.get(m.disk.operations()), Some(Operation::Unlink { .. })));
        assert!(moments.len() > 2, "{}", moments.len());
        survive_at(&moments, 8, false)
    };
    rests_on(Rule::LowerLogsAreLeftovers, before_unlinks);
}

#[test]
fn f1_a_log_with_a_dropped_record_is_a_leftover_of_the_recovery_that_dropped_it() {
    let put = |id: &str| Buffered(vec![Op::Put("a", documents(id, 3, "s"))]);
    let w = workload("dropped", vec![two_documents(), put("p"), put("q"), put("r")]);
    let recovered = || {
        let (_, moments) = moments_of(&w);
        let end = &moments[moments.len() - 1..];
        let budget = Budget { images: 48, nested_every: 1, nested_images: 4, ..Budget::of_this_run() };
        sweep(w.name, end, budget, false).map(|tally| assert!(tally.nested > 20, "{tally:?}"))
    };
    rests_on(Rule::LowerLogsAreLeftovers, recovered);
}

#[test]
fn f1_a_rolled_back_head_is_noticed() {
    let rolled_back = || {
        let disk = SimDirectory::new();
        let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
        let earlier = ["HEAD", "WITNESS"].map(|name| (name, disk.read_file(name).unwrap()));
        db.create_collection("a", Schema::default()).unwrap();
        drop(db);
        earlier.into_iter().for_each(|(name, bytes)| disk.write_file(name, bytes));
        match Database::open_read_only_with(Arc::new(disk), options()) {
            Err(e) if e.code() == ErrorCode::Corrupt => Ok(()),
            other => Err(format!("an older HEAD than the log: {:?}", other.map(|db| db.snapshot().lsn()))),
        }
    };
    rests_on(Rule::HigherLogsAreRefused, rolled_back);
}

#[test]
fn f2_a_kill_while_publishing_and_a_power_cut_in_the_next_process_leave_a_slot() {
    let w = workload("publishing", vec![two_documents(), Checkpoint, Do(vec![Op::Put("a", one("y", "more"))])]);
    let published = || {
        let (_, moments) = moments_of(&w);
        let trace = moments.last().unwrap().disk.trace();
        let (mut checked, mut slots) = (Checked::default(), 0);
        let unsynced = |m: &&Moment| matches!(trace.get(m.disk.operations() - 1), Some(Operation::Write { name, .. }) if name == "HEAD");
        for moment in moments.iter().filter(unsynced) {
            slots += 1;
            let probe = Probe::new(moment.disk.after_kill(), Progress::default());
            let db = Database::open_with(probe.directory(), options()).map_err(|e| e.to_string())?;
            db.checkpoint().map_err(|e| e.to_string())?;
            db.compact().map_err(|e| e.to_string())?;
            for after in probe.take_moments() {
                after.disk.set_garbage(true);
                for image in after.disk.survivor_images(96) {
                    let at = |e: String| format!("slot {slots}, before operation {}: {e}", after.disk.operations());
                    checked.check(&image, &Allowed::after_power_cut(&moment.progress)).map_err(at)?;
                }
            }
        }
        assert!(slots > 3, "{slots}");
        Ok(())
    };
    rests_on(Rule::SettleInPlace, published);
}

#[test]
fn f3_a_group_that_was_refused_never_comes_back() {
    let group = Group(vec![vec![Op::Put("a", one("r1", "first"))], vec![Op::Put("a", documents("r2", 12, "s"))]]);
    let w = workload("refused", vec![two_documents(), group]);
    let (_, moments) = moments_of(&w);
    let trace = moments.last().unwrap().disk.trace();
    let n = trace.iter().rposition(|o| matches!(o, Operation::Write { name, .. } if name.ends_with(".wal"))).unwrap();
    // The first half of the write landed, the first record of the group with it.
    let refused = || faults::survive(&w, n, Fault::Once(FailureKind::Enospc), 8, 12).map(|tally| assert!(tally.images > 20, "{tally:?}"));
    rests_on(Rule::CutBack, refused);
}

#[test]
fn f4_a_young_database_without_head_is_damaged_and_not_unfinished() {
    for lost in [None, Some(vec![0; 8192]), Some(Vec::new())] {
        let without_head = || {
            let disk = SimDirectory::new();
            let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
            db.create_collection("a", Schema::default()).unwrap();
            drop(db);
            match &lost {
                None => disk.remove_file("HEAD"),
                Some(bytes) => disk.write_file("HEAD", bytes.clone()),
            }
            let opened = Database::open_with(Arc::new(disk.clone()), options()).map(drop).map_err(|e| e.code());
            let created = Database::create_with(Arc::new(disk.clone()), options()).map(drop).map_err(|e| e.code());
            if (opened, created) == (Err(ErrorCode::Corrupt), Err(ErrorCode::AlreadyExists)) {
                return Ok(());
            }
            Err(format!("open answers {opened:?}, create {created:?}"))
        };
        rests_on(Rule::CreateHeldNothing, without_head);
    }
}

#[test]
fn f4_a_first_slot_that_was_torn_leaves_an_unfinished_create() {
    let (creation, _) = moments_of(&workload("nothing", Vec::new()));
    let budget = Budget { images: 24, nested_every: 3, ..Budget::of_this_run() };
    let tally = sweep("create", &creation, budget, true).unwrap_or_else(|e| panic!("{e}"));
    assert!(tally.distinct > 100, "{tally:?}");
}

/// The operations of `create`.
fn creation() -> Vec<Operation> {
    let (moments, _) = moments_of(&workload("nothing", Vec::new()));
    moments.last().unwrap().disk.trace()
}

/// Creates while operation `n` fails, goes on as a user would after a kill, and cuts the power.
fn believe_a_create(n: usize, kind: FailureKind) -> Result<(), String> {
    let disk = SimDirectory::newly_made();
    disk.fail(n, kind);
    let said = |e: triune::Error| e.to_string();
    let begun = Database::create_with(Arc::new(disk.clone()), options()).map(drop);
    let killed = disk.after_kill();
    let db = match Database::open_with(Arc::new(killed.clone()), options()) {
        Err(e) if e.code() == ErrorCode::NotFound && begun.is_err() => {
            Database::create_with(Arc::new(killed.clone()), options()).map_err(said)?
        }
        other => other.map_err(|e| format!("after {begun:?}: {e}"))?,
    };
    db.create_collection("a", Schema::default()).map_err(said)?;
    drop(db);
    let after = Database::open_read_only_with(Arc::new(killed.survivors_none()), options()).map_err(said)?;
    if after.snapshot().collections() == ["a"] { Ok(()) } else { Err("an acknowledged commit is gone".into()) }
}

#[test]
fn f5_nothing_acknowledged_rests_on_a_create_whose_sync_failed() {
    for (n, operation) in creation().iter().enumerate() {
        // A disk that lies about a sync of a name, and says so later, is believed by everyone until then.
        for kind in FailureKind::REPORTED.into_iter().filter(|&kind| kind != FailureKind::Late) {
            believe_a_create(n, kind).unwrap_or_else(|e| panic!("{kind:?} at operation {n} ({operation}): {e}"));
        }
    }
    // Without the sync of the names, what `create` has made is not there after a power cut.
    let skipped = creation().iter().rposition(|o| *o == Operation::SyncDirectory).unwrap();
    let made = |skipped: Option<usize>| {
        let disk = SimDirectory::newly_made();
        skipped.into_iter().for_each(|n| disk.fail(n, FailureKind::Skip));
        drop(Database::create_with(Arc::new(disk.clone()), options()).unwrap());
        Database::open_with(Arc::new(disk.survivors_none()), options()).is_ok()
    };
    assert!(made(None) && !made(Some(skipped)));
}

#[test]
fn f6_nothing_is_named_before_it_and_its_name_are_synced() {
    let big = Do(vec![Op::Put("a", documents("big", 12, "t")), Op::Delete("a", ids(&["x0"]))]);
    let steps = vec![two_documents(), big, Checkpoint, Do(vec![Op::Delete("a", ids(&["big1"]))]), Checkpoint];
    let w = Workload { options: workloads::mixed().options, ..workload("naming", steps) };
    survives(&w, 24, false).unwrap_or_else(|e| panic!("{e}"));
    // Without one of the syncs that come before a name is used, some image names what is not there.
    let (creation, moments) = moments_of(&w);
    let trace = moments.last().unwrap().disk.trace();
    let names = |o: &Operation| match o {
        Operation::SyncDirectory => true,
        Operation::SyncFile { name } => ["segments", "manifest", "tombstones"].iter().any(|kind| name.ends_with(kind)),
        _ => false,
    };
    let mut missing = 0;
    for (n, operation) in trace.iter().enumerate().skip(creation.last().unwrap().disk.operations()).filter(|(_, o)| names(o)) {
        assert!(crate::recovery::is_missed(&w, n), "nothing is noticed without operation {n}, {operation}");
        missing += 1;
    }
    assert!(missing > 6, "{missing}");
}

#[test]
fn f7_rows_that_die_while_segments_are_merged_stay_dead() {
    let w = workloads::merges();
    rests_on(Rule::MergeCarries, || survives(&w, 2, false));
}

#[test]
fn f7_a_merge_keeps_rows_whose_death_may_be_lost() {
    let put = |prefix: &str| Do(vec![Op::Put("a", documents(prefix, 2, "s"))]);
    let delete = Buffered(vec![Op::Delete("a", ids(&["x0"]))]);
    let w = workload("dying", vec![two_documents(), Checkpoint, put("y"), Checkpoint, delete, Merge]);
    rests_on(Rule::MergeDropsApplied, || survives(&w, 2, false));
}

#[test]
fn f8_whatever_a_writer_does_between_two_calls_of_a_reader_it_sees_a_whole_state() {
    rests_on(Rule::WitnessFirst, reader::between_any_two_calls);
}

#[test]
fn f9_a_recovery_stopped_anywhere_can_be_recovered_from() {
    let steps = vec![two_documents(), Buffered(vec![Op::Put("a", one("y", "kept in the cache"))]), Reopen];
    let w = workload("recovered", steps);
    let recovered = || {
        let (_, moments) = moments_of(&w);
        let budget = Budget { images: 4, nested_every: 4, nested_images: 3, ..Budget::of_this_run() };
        sweep(w.name, &moments, budget, false).map(|tally| assert!(tally.nested > 20, "{tally:?}"))
    };
    rests_on(Rule::CheckpointRecovered, recovered);
}

#[test]
fn f10_a_checkpoint_keeps_what_a_merge_in_progress_has_written() {
    let put = |prefix: &str| Do(vec![Op::Put("a", documents(prefix, 2, "s"))]);
    let meanwhile = Step::MergeWith(vec![put("z"), Checkpoint]);
    let w = workload("in progress", vec![two_documents(), Checkpoint, put("y"), Checkpoint, meanwhile]);
    rests_on(Rule::Claims, || survives(&w, 2, false));
}

#[test]
fn f11_a_block_that_holds_synced_records_is_not_written_again() {
    let put = |id: &str| Buffered(vec![Op::Put("a", one(id, "not synced"))]);
    let w = workload("packed", vec![two_documents(), put("y"), put("z"), Sync, put("w")]);
    rests_on(Rule::FreshBlock, || survives(&w, 48, true));
}

#[test]
fn f12_replay_keeps_seqs_ascending_around_a_batch_that_landed() {
    // In one group, so that nothing is flushed between them.
    let put = |id: &str| vec![Op::Put("a", one(id, "small"))];
    let group = Group(vec![put("y"), vec![Op::Put("a", documents("big", 12, "t"))], put("z")]);
    let steps = vec![two_documents(), group, Reopen, Checkpoint];
    let w = Workload { options: workloads::oversize().options, ..workload("landed", steps) };
    rests_on(Rule::FreezeAtLanded, || survives(&w, 2, false));
}

#[test]
fn f13_a_recovery_takes_the_room_of_earlier_ones_that_were_killed() {
    let steps = (0..6).map(|i| Do(vec![Op::Put("a", documents(["p", "q", "r", "s", "t", "u"][i], 12, "s"))]));
    let w = workload("room", [two_documents()].into_iter().chain(steps).collect());
    let (_, moments) = moments_of(&w);
    let left = moments.last().unwrap().disk.after_kill();
    let recover = |disk: &SimDirectory| Database::open_with(Arc::new(disk.clone()), options()).map(drop);
    // The least room with which the first recovery succeeds.
    let least = (0..).map(|n| left.used() + n * 1024).find(|&bytes| {
        let disk = left.snapshot();
        disk.disk_limit(bytes);
        recover(&disk).is_ok()
    });
    let killed = {
        let probe = Probe::new(left.snapshot(), Progress::default());
        Database::open_with(probe.directory(), options()).unwrap();
        let moments = probe.take_moments();
        let trace = moments.last().unwrap().disk.trace();
        let n = trace.iter().position(|o| matches!(o, Operation::SyncFile { name } if name.ends_with(".manifest"))).unwrap();
        moments.into_iter().find(|m| m.disk.operations() == n).unwrap().disk.after_kill()
    };
    assert!(killed.used() > left.used(), "the recovery that was killed left files");
    let again = || {
        let disk = killed.snapshot();
        disk.disk_limit(least.unwrap());
        recover(&disk).map_err(|e| e.to_string())
    };
    rests_on(Rule::OrphansFirst, again);
}

#[test]
fn f13_a_witness_that_cannot_be_written_fails_no_commit() {
    let w = workload("witness", vec![two_documents(), Do(vec![Op::Put("a", one("y", "more"))])]);
    let trace = moments_of(&w).1.last().unwrap().disk.trace();
    let (mut failed, begun) = (0, creation().len());
    for (n, _) in trace.iter().enumerate().skip(begun).filter(|(_, o)| matches!(o, Operation::Write { name, .. } if name == "WITNESS")) {
        let disk = SimDirectory::new();
        disk.fail(n, FailureKind::Eio);
        let run = Run::create(disk, w.options.clone()).unwrap();
        w.steps.iter().for_each(|step| run.step(step));
        assert!(run.take_failures().is_empty(), "operation {n}");
        failed += 1;
    }
    assert!(failed >= 2, "{failed}");
}
