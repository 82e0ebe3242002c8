//! What is stopped.

use triune::Options;
use triune::options::Thresholds;

use super::model::{Op, document, documents, points};

/// One act of a program.
#[derive(Debug, Clone)]
pub enum Step {
    Commit(Vec<Op>),
    Buffered(Vec<Op>),
    /// Batches that share a write and a sync.
    Group(Vec<Vec<Op>>),
    Sync,
    Checkpoint,
    Merge,
    /// A merge, and these meanwhile.
    MergeWith(Vec<Step>),
    Compact,
    /// These while another process is opening the database, so that no file may be removed.
    Pinned(Vec<Step>),
    /// A backup on a disk of its own, by links where that is wanted, and these meanwhile.
    Backup(bool, Vec<Step>),
    Upgrade,
    /// The handle is dropped, as at the end of a process that does not close, and the database opened again.
    Reopen,
    /// A clean close and an open.
    Close,
}

/// A named sequence of steps after `create`.
#[derive(Debug, Clone)]
pub struct Workload {
    pub name: &'static str,
    pub options: Options,
    pub steps: Vec<Step>,
}

pub fn small() -> Options {
    Options { background: false, merge_fan_in: 2, ..Options::default() }
}

pub fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| id.to_string()).collect()
}

pub fn one(id: &str, text: &str) -> Vec<triune::Document> {
    vec![document(id, text)]
}

use Step::{Backup as Copied, Buffered, Checkpoint, Close, Commit as Do, Compact, Group, Merge, MergeWith, Pinned, Reopen, Sync, Upgrade};

/// Every kind of commit, alone.
pub fn commits() -> Workload {
    let steps = vec![
        Do(vec![Op::Create("a"), Op::Create("b")]),
        Do(vec![Op::Put("a", documents("x", 3, "s1"))]),
        Do(vec![Op::Put("a", documents("y", 2, "s2")), Op::Insert("b", one("p", "of b"))]),
        Do(vec![Op::Put("a", one("x1", "replaced"))]),
        Do(vec![Op::PatchText("a", "y0", "patched common words")]),
        Do(vec![Op::Delete("a", ids(&["x0", "none"]))]),
        Do(vec![Op::Delete("a", ids(&["none"]))]),
        Do(vec![Op::ReplaceSource("a", "s2", documents("z", 2, "s2"))]),
        Do(vec![Op::DeleteSource("a", "s1")]),
        Do(vec![Op::Swap("a", "b"), Op::Rename("b", "c")]),
        Do(vec![Op::Clear("c"), Op::Put("c", one("q", "after clear"))]),
        Do(vec![Op::Drop("a")]),
    ];
    Workload { name: "commits", options: small(), steps }
}

/// Commits that share a sync, one of them refused; and a group that is split, since it is too large for one write.
pub fn groups() -> Workload {
    let thresholds = Thresholds { record_bytes: 4_000, ..Thresholds::default() };
    let steps = vec![
        Do(vec![Op::Create("a"), Op::Put("a", documents("x", 2, "s"))]),
        Group(vec![
            vec![Op::Put("a", one("g0", "first"))],
            vec![Op::Insert("a", one("x0", "refused"))],
            vec![Op::Delete("a", ids(&["g0", "x1"]))],
            vec![Op::Delete("a", ids(&["none"]))],
            vec![Op::Put("a", one("g1", "last"))],
        ]),
        Group(vec![
            vec![Op::Put("a", documents("h", 12, "s"))],
            vec![Op::Put("a", documents("i", 12, "s"))],
            vec![Op::Delete("a", ids(&["h0", "i0"]))],
        ]),
    ];
    Workload { name: "groups", options: Options { thresholds, ..small() }, steps }
}

/// Commits that are not synced, between synced ones.
pub fn buffered() -> Workload {
    let steps = vec![
        Do(vec![Op::Create("a"), Op::Put("a", documents("x", 2, "s"))]),
        Buffered(vec![Op::Put("a", one("b0", "one"))]),
        Buffered(vec![Op::Delete("a", ids(&["x0"]))]),
        Do(vec![Op::Put("a", one("s0", "synced"))]),
        Buffered(vec![Op::Put("a", one("b1", "two"))]),
        Sync,
        Buffered(vec![Op::Put("a", one("b2", "three"))]),
        Buffered(vec![Op::Clear("a")]),
        Buffered(vec![Op::Put("a", one("b3", "four"))]),
        Checkpoint,
        Buffered(vec![Op::Put("a", one("b4", "five"))]),
    ];
    Workload { name: "buffered", options: small(), steps }
}

/// Batches too large for a record, with commits before and after, which their rows replace and delete.
pub fn oversize() -> Workload {
    let thresholds = Thresholds { record_bytes: 1_500, dead_inline_bytes: 60, ..Thresholds::default() };
    let steps = vec![
        Do(vec![Op::Create("a"), Op::Create("b"), Op::Put("a", documents("x", 2, "s"))]),
        Do(vec![Op::Put("a", documents("big", 12, "t")), Op::Put("b", documents("big", 12, "t")), Op::Delete("a", ids(&["x0"]))]),
        Do(vec![Op::Put("a", one("big3", "replaced")), Op::Delete("b", ids(&["big0"]))]),
        Do(vec![Op::Put("a", documents("big", 12, "u"))]),
        Do(vec![Op::DeleteSource("a", "u"), Op::Put("a", one("x9", "small"))]),
        Reopen,
        Do(vec![Op::Put("b", documents("again", 12, "t"))]),
        Checkpoint,
    ];
    Workload { name: "oversize", options: Options { thresholds, ..small() }, steps }
}

/// Logs that are rotated, and memtables that are flushed, because they are full.
pub fn rotation() -> Workload {
    let steps = (0..5).map(|i| Do(vec![Op::Put("a", documents(["p", "q", "r", "s", "t"][i], 3, "s"))]));
    let steps = [Do(vec![Op::Create("a")])].into_iter().chain(steps);
    let steps = steps.chain([Do(vec![Op::DeleteSource("a", "s")])]).collect();
    Workload { name: "rotation", options: Options { memtable_bytes: 1, wal_bytes: 8_192, ..small() }, steps }
}

/// Checkpoints, with everything that can have changed since the one before.
pub fn checkpoints() -> Workload {
    let steps = vec![
        Do(vec![Op::Create("a"), Op::Create("b")]),
        Do(vec![Op::Put("a", documents("x", 4, "s")), Op::Put("b", documents("y", 2, "s"))]),
        Checkpoint,
        Do(vec![Op::Delete("a", ids(&["x1"]))]),
        Checkpoint,
        Do(vec![Op::Put("a", one("x2", "replaced")), Op::Delete("b", ids(&["y0", "y1"]))]),
        Do(vec![Op::Rename("a", "c")]),
        Checkpoint,
        Checkpoint,
        Do(vec![Op::Clear("c")]),
        Do(vec![Op::Put("c", one("z", "after clear")), Op::Drop("b")]),
        Checkpoint,
    ];
    Workload { name: "checkpoints", options: small(), steps }
}

/// Merges, with deletes before, in between and after, and with whole checkpoints meanwhile.
pub fn merges() -> Workload {
    let options = Options { merge_fan_in: 2, ..small() };
    let steps = vec![
        Do(vec![Op::Create("a"), Op::Put("a", documents("x", 3, "s"))]),
        Checkpoint,
        Do(vec![Op::Put("a", documents("y", 3, "t"))]),
        Checkpoint,
        Do(vec![Op::Delete("a", ids(&["x0"]))]),
        MergeWith(vec![Do(vec![Op::Delete("a", ids(&["y0"]))]), Buffered(vec![Op::Put("a", documents("z", 2, "t"))])]),
        Checkpoint,
        MergeWith(vec![Do(vec![Op::Delete("a", ids(&["y1"]))]), Checkpoint, Buffered(vec![Op::Delete("a", ids(&["z0"]))])]),
        Do(vec![Op::DeleteSource("a", "t")]),
        Merge,
    ];
    Workload { name: "merges", options, steps }
}

/// A clean end of a process, with what it folds, and the next one's first commit.
pub fn closes() -> Workload {
    let steps = vec![
        Do(vec![Op::Create("a"), Op::Put("a", documents("x", 2, "s"))]),
        Close,
        Do(vec![Op::Put("a", documents("y", 2, "s"))]),
        Close,
        Close,
        Buffered(vec![Op::Delete("a", ids(&["x0"]))]),
        Close,
    ];
    Workload { name: "closes", options: Options { merge_fan_in: 8, ..small() }, steps }
}

/// Processes that end without closing.
pub fn recoveries() -> Workload {
    let steps = vec![
        Do(vec![Op::Create("a"), Op::Put("a", documents("x", 2, "s"))]),
        Reopen,
        Buffered(vec![Op::Put("a", one("y", "more"))]),
        Do(vec![Op::Delete("a", ids(&["x0"]))]),
        Reopen,
        Reopen,
        Do(vec![Op::Put("a", one("z", "last"))]),
        Checkpoint,
        Buffered(vec![Op::Delete("a", ids(&["z"]))]),
        Reopen,
    ];
    Workload { name: "recoveries", options: small(), steps }
}

/// Compaction, also as a process's first act.
pub fn compactions() -> Workload {
    let steps = vec![
        Do(vec![Op::Create("a"), Op::Put("a", documents("x", 3, "s"))]),
        Checkpoint,
        Do(vec![Op::Put("a", documents("y", 2, "s")), Op::Delete("a", ids(&["x0"]))]),
        Compact,
        Reopen,
        Compact,
        Do(vec![Op::Delete("a", ids(&["x1", "x2", "y0", "y1"]))]),
        Compact,
        Reopen,
    ];
    Workload { name: "compactions", options: small(), steps }
}

/// Files that stay because another process is opening the database, and go with the next collection, or with that of the next process.
pub fn garbage() -> Workload {
    let steps = vec![
        Do(vec![Op::Create("a"), Op::Put("a", documents("x", 2, "s"))]),
        Pinned(vec![Checkpoint, Do(vec![Op::Put("a", documents("y", 2, "t")), Op::Delete("a", ids(&["x0"]))]), Checkpoint, Merge]),
        Buffered(vec![Op::Put("a", one("z", "buffered"))]),
        Checkpoint,
        Do(vec![Op::Delete("a", ids(&["y0"]))]),
        Pinned(vec![Checkpoint, Compact]),
        Reopen,
        Do(vec![Op::Put("a", one("w", "last"))]),
        Compact,
    ];
    Workload { name: "garbage", options: small(), steps }
}

/// Backups, copied and linked, beside commits that are not synced, deletes, and a checkpoint and a compaction that take away what is being copied.
pub fn copies() -> Workload {
    let steps = vec![
        Do(vec![Op::Create("a"), Op::Put("a", documents("x", 3, "s"))]),
        Checkpoint,
        Buffered(vec![Op::Put("a", one("b0", "buffered")), Op::Delete("a", ids(&["x0"]))]),
        Copied(false, vec![Do(vec![Op::Delete("a", ids(&["x1"]))]), Checkpoint, Buffered(vec![Op::Put("a", one("z", "later"))])]),
        Upgrade,
        Copied(true, vec![]),
        Reopen,
        Copied(false, vec![Buffered(vec![Op::Clear("a")]), Compact]),
    ];
    Workload { name: "copies", options: small(), steps }
}

/// Merges and compactions that write vector graphs: of vectors that had none, of a graph and what came after it with deletes and puts meanwhile, of
/// one of which most died, and of one of which all did, with what came again.
pub fn graphs() -> Workload {
    let thresholds = Thresholds { graph_vectors: 4, ..Thresholds::default() };
    let steps = vec![
        Do(vec![Op::Create("a"), Op::Put("a", points("v", 12, "s"))]),
        Checkpoint,
        Merge,
        Do(vec![Op::Put("a", points("w", 9, "t")), Op::Delete("a", ids(&["v0", "v3"]))]),
        Checkpoint,
        MergeWith(vec![Do(vec![Op::Delete("a", ids(&["v1", "w2"]))]), Buffered(vec![Op::Put("a", points("v", 2, "s"))])]),
        Do(vec![Op::DeleteSource("a", "s"), Op::Delete("a", ids(&["w0"]))]),
        Compact,
        Do(vec![Op::Clear("a"), Op::Put("a", points("v", 9, "s"))]),
        Compact,
    ];
    Workload { name: "graphs", options: Options { thresholds, build_threads: 1, ..small() }, steps }
}

/// All of them.
pub fn all() -> Vec<Workload> {
    let first = [commits(), groups(), buffered(), oversize(), rotation(), checkpoints()];
    first.into_iter().chain([merges(), garbage(), closes(), recoveries(), compactions(), copies(), mixed(), graphs()]).collect()
}

/// The least that has a commit, a buffered one and a recovery: small enough for every history of it.
pub fn tiny() -> Workload {
    let steps = vec![
        Do(vec![Op::Create("a"), Op::Put("a", one("x", "first"))]),
        Buffered(vec![Op::Put("a", one("y0", "second"))]),
        Buffered(vec![Op::Delete("a", ids(&["x"]))]),
        Reopen,
    ];
    Workload { name: "tiny", options: small(), steps }
}

/// A little of each, for what is tried at every operation in many ways.
pub fn mixed() -> Workload {
    let thresholds = Thresholds { record_bytes: 1_500, dead_inline_bytes: 60, ..Thresholds::default() };
    let steps = vec![
        Do(vec![Op::Create("a"), Op::Put("a", documents("x", 3, "s"))]),
        Group(vec![
            vec![Op::Put("a", one("g0", "first"))],
            vec![Op::Delete("a", ids(&["g0", "x1"]))],
            vec![Op::Put("a", one("g1", "last"))],
        ]),
        Buffered(vec![Op::Put("a", one("b0", "buffered"))]),
        Checkpoint,
        Do(vec![Op::Put("a", documents("big", 12, "t")), Op::Delete("a", ids(&["x0"]))]),
        Do(vec![Op::DeleteSource("a", "t"), Op::Put("a", one("y", "small"))]),
        Checkpoint,
        MergeWith(vec![Do(vec![Op::Delete("a", ids(&["g1"]))])]),
        Buffered(vec![Op::Put("a", one("b1", "buffered"))]),
        Reopen,
        Do(vec![Op::Put("a", one("z", "last"))]),
        Close,
        Do(vec![Op::Clear("a")]),
    ];
    Workload { name: "mixed", options: Options { thresholds, ..small() }, steps }
}
