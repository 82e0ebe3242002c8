//! What became of a file, and how many files became what.

use crate::output::{Counted, Out, Outcome};
use serde_json::json;
use std::time::Instant;

#[derive(Debug, Clone, Copy)]
pub(super) enum Status {
    Added,
    Replaced,
    Unchanged,
    Removed,
    /// It has no text, and nothing is stored of it: nothing was missed, and nothing is in.
    Empty,
    PassedOver,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Status::Added => "added",
            Status::Replaced => "replaced",
            Status::Unchanged => "unchanged",
            Status::Removed => "removed",
            Status::Empty => "empty",
            Status::PassedOver => "passed-over",
        }
    }
}

/// What became of one file.
pub(super) struct Fate {
    pub(super) status: Status,
    /// Chunks written.
    pub(super) chunks: u64,
    pub(super) reason: Option<String>,
}

impl Fate {
    pub(super) fn new(status: Status) -> Fate {
        Fate { status, chunks: 0, reason: None }
    }

    pub(super) fn passed_over(reason: impl Into<String>) -> Fate {
        Fate { reason: Some(reason.into()), ..Fate::new(Status::PassedOver) }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    added: u64,
    replaced: u64,
    unchanged: u64,
    removed: u64,
    empty: u64,
    pub(super) passed_over: u64,
    chunks: u64,
}

impl Counts {
    pub(super) fn count(&mut self, fate: &Fate) {
        *match fate.status {
            Status::Added => &mut self.added,
            Status::Replaced => &mut self.replaced,
            Status::Unchanged => &mut self.unchanged,
            Status::Removed => &mut self.removed,
            Status::Empty => &mut self.empty,
            Status::PassedOver => &mut self.passed_over,
        } += 1;
        self.chunks += fate.chunks;
    }

    pub(super) fn say(&self, collection: &str, started: Instant, out: &mut Out) -> Outcome<()> {
        let Counts { added, replaced, unchanged, removed, empty, passed_over, chunks } = *self;
        if out.json() {
            return out.object(&json!({ "summary": {
                "added": added, "replaced": replaced, "unchanged": unchanged, "removed": removed, "empty": empty, "passed_over": passed_over,
                "chunks": chunks,
            } }));
        }
        out.line(format_args!(
            "{collection}: {} added, {replaced} replaced, {unchanged} unchanged, {removed} removed, {empty} empty, {passed_over} passed over; {} written in {}",
            Counted(added, "file"),
            Counted(chunks, "chunk"),
            crate::cmd::build::took(started.elapsed())
        ))
    }
}
