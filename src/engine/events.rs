//! Every event and span that the library gives to `tracing`: numbers, stable codes and names of the database's own files.
//!
//! Never here, in no field of any event: text, ids, metadata, vectors, queries, names of sources, entities or collections, paths. So nothing
//! but numbers comes in, and an error gives its code and its address, not its message. Without a subscriber an event costs one comparison.

use crate::error::Error;
use crate::ids::Lsn;
use std::time::{Duration, Instant};
use tracing::span::EnteredSpan;
use tracing::{Level, debug, debug_span, info, warn};

/// A clock that is read only when somebody listens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timer(Option<Instant>);

impl Timer {
    /// Starts, when anybody listens.
    pub(crate) fn start() -> Timer {
        Timer(tracing::enabled!(Level::DEBUG).then(Instant::now))
    }

    /// Microseconds since the start; 0 when nobody listened then.
    pub(crate) fn us(self) -> u64 {
        self.0.map_or(Duration::ZERO, |start| start.elapsed()).as_micros() as u64
    }
}

/// What a group of commits was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) commits: usize,
    pub(crate) last_lsn: Lsn,
    pub(crate) documents: u64,
    pub(crate) bytes: usize,
    pub(crate) synced: bool,
    pub(crate) write_us: u64,
    pub(crate) sync_us: u64,
}

/// A group of commits is durable, as far as its members asked, and visible.
pub(crate) fn committed(g: Group) {
    debug!(
        lsn = g.last_lsn.0,
        commits = g.commits,
        documents = g.documents,
        bytes = g.bytes,
        synced = g.synced,
        write_us = g.write_us,
        sync_us = g.sync_us,
        "committed"
    );
}

/// A batch too large for a record landed as segments.
pub(crate) fn landed(lsn: Lsn, segments: usize, documents: u64, timer: Timer) {
    debug!(lsn = lsn.0, segments, documents, elapsed_us = timer.us(), "landed");
}

pub(crate) fn open_span(writing: bool) -> EnteredSpan {
    debug_span!("open", writing).entered()
}

/// A database was opened. A tail that was dropped is worth a warning, though nothing acknowledged as durable was in it.
pub(crate) fn opened(lsn: Lsn, replayed: u64, dropped: Option<(u64, u64)>, collections: usize, timer: Timer) {
    if let Some((bytes, records)) = dropped {
        warn!(verdict = "torn", dropped_bytes = bytes, dropped_records = records, "dropped what was never synced");
    }
    let verdict = if dropped.is_some() { "torn" } else { "clean" };
    info!(verdict, lsn = lsn.0, replayed, collections, elapsed_us = timer.us(), "opened");
}

pub(crate) fn checkpoint_span() -> EnteredSpan {
    debug_span!("checkpoint").entered()
}

/// A memtable stands in a file of segments.
pub(crate) fn flushed(file: u64, segments: usize, rows: u64, bytes: u64, timer: Timer) {
    debug!(file, segments, rows, bytes, elapsed_us = timer.us(), "flushed");
}

/// A checkpoint was published.
pub(crate) fn checkpointed(generation: u64, lsn: Lsn, segments: usize, vanished: usize) {
    info!(generation, lsn = lsn.0, segments, vanished, "checkpointed");
}

pub(crate) fn merge_span(plans: usize) -> EnteredSpan {
    debug_span!("merge", plans).entered()
}

/// A pass of merges was published.
pub(crate) fn merged(collections: usize, segments: usize, rows: u64, bytes: u64, timer: Timer) {
    info!(collections, segments, rows, bytes, elapsed_us = timer.us(), "merged");
}

/// A database was built out of documents.
pub(crate) fn built(documents: u64, segments: u64, bytes: u64, timer: Timer) {
    info!(documents, segments, bytes, elapsed_us = timer.us(), "built");
}

/// The graph over the vectors of a segment was built, of as many graphs as `reused`.
pub(crate) fn graph_built(vectors: u32, reused: usize, threads: usize, timer: Timer) {
    info!(vectors, reused, threads, elapsed_us = timer.us(), "vector graph built");
}

/// Files that nothing reached were removed, or have to wait for a process that is opening the database.
pub(crate) fn collected(files: usize, delayed: bool) {
    debug!(files, delayed, "collected garbage");
}

/// A handle for reading looked for something newer.
pub(crate) fn refreshed(changed: bool, lsn: Lsn, timer: Timer) {
    debug!(changed, lsn = lsn.0, elapsed_us = timer.us(), "refreshed");
}

/// Work that no caller waits for failed.
pub(crate) fn failed_in_background(error: &Error) {
    let (file, offset) = if let Error::Corrupt(c) = error { (c.file.as_str(), c.offset) } else { ("", 0) };
    warn!(code = error.code().as_str(), file, offset, "background work failed");
}

/// The writer stopped for good.
pub(crate) fn poisoned() {
    warn!("the writer stopped after a failure; reopening decides what is durable");
}
