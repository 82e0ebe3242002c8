//! Whether the damage tests would notice a checksum that is not compared, or evidence that is not used: each is left out in turn, and some
//! damage has to be answered wrongly.

use super::fixture::{Closed, Killed, Log, closed, killed};
use super::judge::{Reference, WAYS, Written, judge};
use super::log::Logs;
use super::mutation::{Mutation, alone};
use super::{case, log_case};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use triune::format::sabotage::{Rule, with_broken};
use triune::io::SimDirectory;
use triune::{Database, Error, Lsn};

/// The first of `mutations` after which `judged` fails or panics while `rule` is broken.
fn noticed(rule: Rule, mutations: &[Mutation], judged: impl Fn(usize, &Mutation) -> Result<(), String>) -> Option<String> {
    with_broken(Some(rule), || {
        mutations.iter().enumerate().find_map(|(i, m)| match catch_unwind(AssertUnwindSafe(|| judged(i, m))) {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(format!("{m}: {why}")),
            Err(_) => Some(format!("{m}: a panic")),
        })
    })
}

/// The changes of single bytes in the files that `wanted` names, about `at_most` of each.
fn bytes_of(image: &SimDirectory, at_most: usize, wanted: impl Fn(&str) -> bool) -> Vec<Mutation> {
    let mut all = Vec::new();
    for file in image.file_names().iter().filter(|name| wanted(name)) {
        let bytes: Vec<Mutation> = alone(image, file).into_iter().filter(|m| matches!(m, Mutation::Byte { .. })).collect();
        // Prime to three, so that the changes of a byte take turns.
        let step = bytes.len().div_ceil(at_most);
        let step = if step.is_multiple_of(3) { step + 1 } else { step };
        all.extend(bytes.into_iter().step_by(step));
    }
    all
}

/// Checksums by the names that errors give them, with the kind of file they stand in. Those that stand together repeat each other: what one
/// covers the other covers too, and only without both can anything pass.
const CHECKSUMS: [(&[&str], &str); 6] = [
    (&["slot of HEAD"], "HEAD"),
    (&["record of WITNESS"], "WITNESS"),
    (&["manifest header", "manifest body", "manifest in HEAD"], ".manifest"),
    (&["block"], ".segments"),
    (&["body"], ".tombstones"),
    (&["header of the tombstones"], ".tombstones"),
];

/// Checksums of what is checked once more where it is used: places and lengths against the file, identities against the name and the database,
/// the checksums of blocks by the blocks. Without these a byte that changes is found all the same.
const DOUBLED: [(&[&str], &str); 6] = [
    (&["block checksums"], ".segments"),
    (&["segment header", "segment in the manifest"], ".segments"),
    (&["segment footer"], ".segments"),
    (&["section table"], ".segments"),
    (&["fst"], ".segments"),
    (&["envelope", "envelope in the manifest"], ".tombstones"),
];

/// Whether a changed byte in a file of this kind is answered wrongly when these checksums are not compared.
fn misses(
    image: &SimDirectory,
    references: &Written,
    names: &'static [&'static str],
    kind: &str,
    at_most: usize,
    newer_is_fine: bool,
) -> Option<String> {
    let mutations = bytes_of(image, at_most, |file| file.ends_with(kind));
    noticed(Rule::Checksums(names), &mutations, |i, m| {
        let Some(damaged) = m.apply(image) else { return Ok(()) };
        let newer = |why: &String| newer_is_fine && why.contains("UnsupportedVersion");
        judge(&damaged, WAYS[i % WAYS.len()], &references.before, m, image)
            .map(drop)
            .or_else(|why| if newer(&why) { Ok(()) } else { Err(why) })
    })
}

#[test]
fn a_checksum_that_is_not_compared_is_noticed() {
    let Closed { image, .. } = closed();
    let references = Written::of(&image);
    for (names, kind) in CHECKSUMS {
        assert!(misses(&image, &references, names, kind, 1000, false).is_some(), "nothing is noticed without {names:?}");
    }
}

#[test]
fn a_checksum_that_is_doubled_may_be_left_out() {
    let Closed { image, .. } = closed();
    let references = Written::of(&image);
    let sample = if super::whole() { 2000 } else { 60 };
    for (names, kind) in DOUBLED {
        // A version that was changed is refused as a newer one, which no answer rests on.
        assert_eq!(misses(&image, &references, names, kind, sample, true), None, "{names:?} is not doubled; move it up");
    }
}

/// What is tried on a log, held against the rule of recovery.
struct OnLog {
    image: SimDirectory,
    logs: Logs,
    references: BTreeMap<Lsn, Reference>,
    mutations: Vec<Mutation>,
}

impl OnLog {
    fn of(log: Log, at_most: usize) -> OnLog {
        let Killed { image, states } = killed(log);
        let full = Reference::of(&image);
        let references = states.iter().map(|(lsn, state)| (*lsn, full.asked_of(state))).collect();
        let mutations = bytes_of(&image, at_most, |file| file.ends_with(".wal"));
        OnLog { logs: Logs::of(&image), references, mutations, image }
    }

    fn judge(&self, index: usize, mutation: &Mutation) -> Result<(), String> {
        log_case(index, mutation, &self.image, &self.logs, &self.references).map(drop)
    }

    fn notices(&self, rule: Rule) -> bool {
        noticed(rule, &self.mutations, |i, m| self.judge(i, m)).is_some()
    }
}

#[test]
fn a_checksum_of_the_log_that_is_not_compared_is_noticed() {
    let log = OnLog::of(Log::Witnessed, 4000);
    for name in [&["log header"], &["record header"], &["record payload"]] {
        assert!(log.notices(Rule::Checksums(name)), "nothing is noticed without {name:?}");
    }
}

#[test]
fn a_verdict_or_an_evidence_that_is_left_out_is_noticed() {
    let (witnessed, unwitnessed) = (OnLog::of(Log::Witnessed, 600), OnLog::of(Log::Unwitnessed, 600));
    assert!(witnessed.notices(Rule::Verdict), "recovery may stop at the first bad record");
    assert!(witnessed.notices(Rule::EvidenceOfWitness), "WITNESS is not needed");
    assert!(unwitnessed.notices(Rule::EvidenceOfRecords), "the records need not say how far they were synced");
    assert!(head_is_evidence() && !with_broken(Some(Rule::EvidenceOfHead), head_is_evidence), "HEAD is not needed");
    // A watermark that stays at 0 from the writing on: the images are made without it.
    let blind = with_broken(Some(Rule::DurableLsn), || OnLog::of(Log::Witnessed, 600));
    let fooled = blind.mutations.iter().filter(|m| opens_shorter(&blind, m)).count();
    let sound = witnessed.mutations.iter().filter(|m| opens_shorter(&witnessed, m)).count();
    assert!(
        sound == 0 && fooled > 10,
        "{fooled} damages of durable records are taken for a torn tail without a watermark, {sound} with it"
    );
}

/// Whether damage to a log whose records were all synced drops some of them.
fn opens_shorter(log: &OnLog, mutation: &Mutation) -> bool {
    let Some(damaged) = mutation.apply(&log.image) else { return false };
    let opened = Database::open_read_only_with(Arc::new(damaged), super::fixture::options(triune::IoMode::Mmap));
    opened.is_ok_and(|db| db.snapshot().lsn() < log.logs.last_lsn)
}

/// Commits that are synced while a checkpoint is under way are called durable by the slot that it publishes. With WITNESS lost and the log cut
/// to its header nothing else says so.
fn head_is_evidence() -> bool {
    use crate::recovery::model::Op;
    use crate::recovery::run::Run;
    use crate::recovery::workloads::{Step, small};
    let put = |id: &str| Step::Commit(vec![Op::Put("a", crate::recovery::model::documents(id, 2, "s"))]);
    let run = Run::create(SimDirectory::new(), small()).unwrap();
    let create = Step::Commit(vec![Op::Create("a")]);
    let steps = [create, put("x"), Step::Checkpoint, put("y"), Step::Checkpoint, Step::MergeWith(vec![put("z"), put("w")])];
    steps.iter().for_each(|step| run.step(step));
    let left = run.probe.take_moments().pop().unwrap().disk.after_kill();
    left.write_file("WITNESS", vec![0; 1024]);
    let log = left.file_names().into_iter().rfind(|name| name.ends_with(".wal")).unwrap();
    left.write_file(&log, &left.read_file(&log).unwrap()[..4096]);
    matches!(Database::open_read_only_with(Arc::new(left), super::fixture::options(triune::IoMode::Mmap)), Err(Error::Corrupt(_)))
}

/// The tests above are about what is left out; with everything in place the same damage is judged right.
#[test]
fn with_every_checksum_compared_the_same_damage_is_judged_right() {
    let Closed { image, .. } = closed();
    let references = Written::of(&image);
    for (i, m) in bytes_of(&image, 25, |_| true).iter().enumerate() {
        case(i, m, &image, &references).unwrap_or_else(|e| panic!("{m}: {e}"));
    }
    let log = OnLog::of(Log::Witnessed, 60);
    log.mutations.iter().enumerate().for_each(|(i, m)| log.judge(i, m).unwrap_or_else(|e| panic!("{m}: {e}")));
}
