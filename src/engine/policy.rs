//! Which segments are worth merging.
//!
//! Size-tiered by adjacent age: segments of like size that stand next to each other are merged `merge_fan_in` at a time, so a document is
//! rewritten once a tier, and seqs stay ascending from segment to segment. A segment that is more than a fifth dead is rewritten alone, and so
//! is every segment in a file more than half of which nothing names any more, and one with enough vectors for a graph and none.

use super::merge::Plan;
use super::segments::SegmentHandle;
use super::version::{Catalog, Version};
use crate::format::sabotage::{Rule, breaks};
use crate::ids::{Incarnation, Lsn};
use crate::options::limits;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Segments below this many bytes are of one tier: their number, not their size, is what costs.
const SMALLEST_TIER_BYTES: u64 = 4 << 20;
/// A file in which fewer bytes than this are named by nothing is left alone by merges that nobody asked for.
const WASTE_BYTES_MIN: u64 = 1 << 20;
/// Plans of one pass read about so many bytes at most; a larger one goes alone.
const PASS_BYTES: u64 = 64 << 20;

/// Where merges are looked for: a version, the collections that still exist, and those that are passed over.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    pub(crate) version: &'a Version,
    pub(crate) catalog: &'a Catalog,
    /// Collections with damaged files: a plan of theirs would fail again.
    pub(crate) skip: &'a BTreeSet<Incarnation>,
    /// From how many vectors on a segment is to have a graph.
    pub(crate) graph_vectors: u64,
}

/// The merges that are due next: what one pass takes.
pub(crate) fn due(field: Field<'_>, fan_in: usize) -> Vec<Plan> {
    due_within(field, fan_in, PASS_BYTES)
}

/// Segments and bytes that wait for a merge now. O(segments).
pub(crate) fn backlog(field: Field<'_>, fan_in: usize) -> (u64, u64) {
    let plans = due_within(field, fan_in, u64::MAX);
    let inputs = || plans.iter().flat_map(|p| &p.inputs);
    (inputs().count() as u64, inputs().map(|s| s.entry.length).sum())
}

fn due_within(field: Field<'_>, fan_in: usize, bytes: u64) -> Vec<Plan> {
    let (fan_in, applied) = (fan_in.max(2), field.version.applied_lsn());
    let wasteful = wasteful_files(field.version, WASTE_BYTES_MIN);
    plans(field, bytes, |segments| {
        let tiers: Vec<u32> = segments.iter().map(|s| tier(s.entry.length, fan_in)).collect();
        // The youngest window first: it is the cheapest.
        let window = (0..segments.len().saturating_sub(fan_in - 1)).rev().find(|&i| {
            let window = &tiers[i..i + fan_in];
            let top = window.iter().max().expect("a window is not empty");
            // Older segments are never younger in tier than what is merged into them; a smaller one between equals goes along.
            window.iter().filter(|t| *t == top).count() * 2 > fan_in && fits(&segments[i..i + fan_in])
        });
        if let Some(i) = window {
            return Some((i, i + fan_in));
        }
        let worn = |s: &Arc<SegmentHandle>| {
            (s.dead_rows(applied) * 5 > s.entry.rows && s.entry.rows >= 1000)
                || wasteful.contains(&s.file().number)
                || lacks_graph(s, field.graph_vectors)
        };
        segments.iter().position(worn).map(|i| (i, i + 1))
    })
}

/// Everything of one collection into one segment, if it is more than one, or any row in it is dead, or most of its file is named by nothing.
pub(crate) fn whole(field: Field<'_>) -> Vec<Plan> {
    let applied = field.version.applied_lsn();
    let wasteful = wasteful_files(field.version, 0);
    plans(field, PASS_BYTES, |segments| {
        let worn =
            |s: &Arc<SegmentHandle>| s.dead_rows(applied) > 0 || wasteful.contains(&s.file().number) || lacks_graph(s, field.graph_vectors);
        let worth = segments.len() > 1 || segments.iter().any(worn);
        (worth && fits(segments)).then_some((0, segments.len()))
    })
}

/// The youngest segments of each collection that together hold at most what is left of `bytes`, and too few vectors for a graph, when they are
/// at least two: what `close` folds.
pub(crate) fn fold(field: Field<'_>, bytes: u64) -> Vec<Plan> {
    let mut left = bytes;
    plans(field, PASS_BYTES, |segments| {
        let (mut sum, mut vectors) = (0u64, 0u64);
        let young = segments.iter().rev().take_while(|s| {
            sum + s.entry.length <= left && vectors + s.entry.vectors < field.graph_vectors && {
                sum += s.entry.length;
                vectors += s.entry.vectors;
                true
            }
        });
        let from = segments.len() - young.count();
        if segments.len() - from < 2 || !fits(&segments[from..]) {
            return None;
        }
        left -= sum;
        Some((from, segments.len()))
    })
}

/// At most one plan a collection, together at most about `bytes` large.
fn plans(field: Field<'_>, bytes: u64, mut choose: impl FnMut(&[Arc<SegmentHandle>]) -> Option<(usize, usize)>) -> Vec<Plan> {
    let applied = field.version.applied_lsn();
    let (mut plans, mut sum) = (Vec::new(), 0u64);
    for info in field.catalog.collections.values().filter(|info| !field.skip.contains(&info.incarnation)) {
        let Some(collection) = field.version.collections.get(&info.incarnation) else { continue };
        // Segments that landed after the manifest are not the manifest's to replace; they are the youngest.
        let named = collection.segments.iter().take_while(|s| s.landed <= applied).count();
        let Some((from, to)) = choose(&collection.segments[..named]) else { continue };
        let inputs = collection.segments[from..to].to_vec();
        sum = inputs.iter().fold(sum, |sum, s| sum.saturating_add(s.entry.length));
        if sum > bytes && !plans.is_empty() {
            break;
        }
        let lsn = if breaks(Rule::MergeDropsApplied) { Lsn(super::resolve::NEWEST.0 - 1) } else { applied };
        plans.push(Plan { incarnation: info.incarnation, info: info.as_ref().clone(), inputs, lsn });
    }
    plans
}

/// Files of segments of which the version names less than half, at least `least` bytes less than all.
fn wasteful_files(version: &Version, least: u64) -> BTreeSet<u64> {
    let mut files: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for s in version.segments() {
        let (named, _) = files.entry(s.file().number).or_insert((0, s.file().length));
        // The next segment starts at a multiple of a page; what fills it up is no waste.
        *named += s.entry.length.next_multiple_of(4096);
    }
    let wasteful = |named: u64, length: u64| named.saturating_mul(2) < length && length - named >= least;
    files.into_iter().filter(|&(_, (named, length))| wasteful(named, length)).map(|(number, _)| number).collect()
}

/// Whether a segment has enough vectors for a graph, and none. One that can't be opened is left to whoever reads it.
fn lacks_graph(segment: &SegmentHandle, from: u64) -> bool {
    let has_none = || segment.rooms().is_ok_and(|rooms| rooms.vectors.as_ref().is_some_and(|v| !v.has_graph()));
    segment.entry.vectors >= from && has_none()
}

fn tier(bytes: u64, fan_in: usize) -> u32 {
    (bytes / SMALLEST_TIER_BYTES).max(1).ilog(fan_in as u64)
}

fn fits(segments: &[Arc<SegmentHandle>]) -> bool {
    segments.iter().map(|s| s.entry.rows).sum::<u64>() <= limits::SEGMENT_ROWS_MAX
}

impl SegmentHandle {
    /// Rows that died by `applied`, which are those that a merge drops: counting later deaths, a merge would be due again as soon as it is
    /// done, for ever.
    pub(crate) fn dead_rows(&self, applied: Lsn) -> u64 {
        let stored = self.entry.tombstones.as_ref().map_or(0, |t| t.dead);
        stored + self.log.between(Lsn(0), applied).documents
    }
}
