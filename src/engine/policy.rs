//! Which segments are worth merging.
//!
//! Size-tiered by adjacent age: segments of like size that stand next to each other are merged `merge_fan_in` at a time, so a document is
//! rewritten once a tier, and seqs stay ascending from segment to segment. A segment that is more than a fifth dead is rewritten alone.

use super::merge::Plan;
use super::segments::SegmentHandle;
use super::version::{Catalog, Version};
use crate::format::sabotage::{Rule, breaks};
use crate::ids::Lsn;
use crate::options::limits;
use std::sync::Arc;

/// Segments below this many bytes are of one tier: their number, not their size, is what costs.
const SMALLEST_TIER_BYTES: u64 = 4 << 20;

/// The next merge that is due, if any is.
pub(crate) fn due(version: &Version, catalog: &Catalog, fan_in: usize) -> Option<Plan> {
    let (fan_in, applied) = (fan_in.max(2), version.applied_lsn());
    plans(version, catalog, |segments| {
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
        let half_dead = segments.iter().position(|s| s.dead_rows(applied) * 5 > s.entry.rows && s.entry.rows >= 1000);
        half_dead.map(|i| (i, i + 1))
    })
}

/// Everything of one collection into one segment, if it is more than one or any row in it is dead.
pub(crate) fn whole(version: &Version, catalog: &Catalog) -> Option<Plan> {
    let applied = version.applied_lsn();
    plans(version, catalog, |segments| {
        let worth = segments.len() > 1 || segments.iter().any(|s| s.dead_rows(applied) > 0);
        (worth && fits(segments)).then_some((0, segments.len()))
    })
}

/// The youngest segments that together hold at most `bytes`, when they are at least two: what `close` folds.
pub(crate) fn fold(version: &Version, catalog: &Catalog, bytes: u64) -> Option<Plan> {
    plans(version, catalog, |segments| {
        let mut sum = 0u64;
        let young = segments.iter().rev().take_while(|s| {
            sum += s.entry.length;
            sum <= bytes
        });
        let from = segments.len() - young.count();
        (segments.len() - from >= 2 && fits(&segments[from..])).then_some((from, segments.len()))
    })
}

fn plans(version: &Version, catalog: &Catalog, choose: impl Fn(&[Arc<SegmentHandle>]) -> Option<(usize, usize)>) -> Option<Plan> {
    let applied = version.applied_lsn();
    catalog.collections.values().find_map(|info| {
        let all = &version.collections.get(&info.incarnation)?.segments;
        // Segments that landed after the manifest are not the manifest's to replace; they are the youngest.
        let named = all.iter().take_while(|s| s.landed <= applied).count();
        let (from, to) = choose(&all[..named])?;
        let lsn = if breaks(Rule::MergeDropsApplied) { Lsn(super::resolve::NEWEST.0 - 1) } else { applied };
        Some(Plan { incarnation: info.incarnation, info: info.as_ref().clone(), inputs: all[from..to].to_vec(), lsn })
    })
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
    fn dead_rows(&self, applied: Lsn) -> u64 {
        let stored = self.entry.tombstones.as_ref().map_or(0, |t| t.dead);
        stored + self.log.between(Lsn(0), applied).documents
    }
}
