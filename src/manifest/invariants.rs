//! What every manifest must be, checked before each publish and after each read.

use crate::error::{Error, Result};
use crate::format::manifest::{CollectionEntry, Manifest, SegmentEntry};
use crate::ids::{Incarnation, Seq};
use crate::options::{check_name, limits};
use std::collections::HashSet;

/// Refuses, as [`Error::Corrupt`] with the reason, a manifest that no database can have. O(s log s) for s segments.
pub fn check(manifest: &Manifest) -> Result<()> {
    violation(manifest).map_or(Ok(()), |what| Err(Error::corrupt("manifest", 0, what)))
}

/// Which invariant `manifest` breaks, if any.
pub(super) fn violation(manifest: &Manifest) -> Option<String> {
    let mut names: HashSet<&str> = HashSet::new();
    let mut lives: HashSet<Incarnation> = HashSet::new();
    for collection in &manifest.collections {
        if !names.insert(&collection.name) {
            return Some(format!("two collections are named {:?}", collection.name));
        }
        if !lives.insert(collection.incarnation) {
            return Some(format!("two collections have incarnation {}", collection.incarnation));
        }
        if let Some(what) = collection_violation(collection, manifest) {
            return Some(format!("collection {:?}: {what}", collection.name));
        }
    }
    overlap(manifest)
}

fn collection_violation(collection: &CollectionEntry, manifest: &Manifest) -> Option<String> {
    if let Err(e) = check_name("the name of a collection", &collection.name).and_then(|()| collection.schema.validate()) {
        return Some(e.to_string());
    }
    if collection.incarnation.0 == 0 || collection.incarnation >= manifest.next_incarnation {
        return Some(format!("incarnation {} is not one of 1 to below the next, {}", collection.incarnation, manifest.next_incarnation));
    }
    let mut before: Option<Seq> = None;
    let (mut live, mut vectors, mut tokens) = (0u64, 0u64, 0u64);
    for (i, segment) in collection.segments.iter().enumerate() {
        if let Some(what) = segment_violation(segment, manifest.next_seq) {
            return Some(format!("segment {i}: {what}"));
        }
        if before.is_some_and(|last| segment.base_seq <= last) {
            return Some(format!("segment {i} starts at seq {}, at or below the last one before it", segment.base_seq));
        }
        before = Some(segment.last_seq);
        let dead = segment.tombstones.as_ref().map_or(0, |t| t.dead);
        live = live.saturating_add(segment.rows - dead);
        vectors = vectors.saturating_add(segment.vectors);
        tokens = tokens.saturating_add(segment.tokens);
    }
    if collection.documents != live {
        return Some(format!("{} documents are counted, the segments hold {live} live ones", collection.documents));
    }
    if collection.vectors > vectors.min(live) {
        return Some(format!("{} vectors are counted, the segments hold {vectors} of {live} live documents", collection.vectors));
    }
    if collection.tokens > tokens {
        return Some(format!("{} tokens are counted, the segments hold {tokens}", collection.tokens));
    }
    if vectors > 0 && collection.schema.dimension.is_none() {
        return Some(format!("the segments hold {vectors} vectors, but no dimension is fixed"));
    }
    None
}

fn segment_violation(segment: &SegmentEntry, next_seq: Seq) -> Option<String> {
    if segment.base_seq.0 == 0 || segment.base_seq > segment.last_seq || segment.last_seq >= next_seq {
        return Some(format!("its seqs {} to {} do not lie below the next one, {next_seq}", segment.base_seq, segment.last_seq));
    }
    if segment.rows == 0 || segment.rows > limits::SEGMENT_ROWS_MAX {
        return Some(format!("it has {} rows; 1 to {} are allowed", segment.rows, limits::SEGMENT_ROWS_MAX));
    }
    // Not `last - base + 1`, which overflows for a segment of all seqs.
    if segment.rows - 1 > segment.last_seq.0 - segment.base_seq.0 {
        return Some(format!("it has {} rows, but only the seqs {} to {}", segment.rows, segment.base_seq, segment.last_seq));
    }
    let files = [Some(segment.file), segment.tombstones.as_ref().map(|t| t.file)];
    if let Some(file) = files.into_iter().flatten().find(|file| *file > limits::COUNTER_MAX) {
        return Some(format!("it names file {file}; at most {} is counted", limits::COUNTER_MAX));
    }
    if segment.vectors > segment.rows {
        return Some(format!("it has {} vectors in {} rows", segment.vectors, segment.rows));
    }
    if !segment.offset.is_multiple_of(4096) {
        return Some(format!("it starts at byte {}, which is no multiple of 4,096", segment.offset));
    }
    match &segment.tombstones {
        Some(t) if t.dead == 0 || t.dead > segment.rows => Some(format!("{} of its {} rows are dead", t.dead, segment.rows)),
        _ => None,
    }
}

/// Refuses two named runs of bytes of one file that share a byte: a row would live twice.
fn overlap(manifest: &Manifest) -> Option<String> {
    let segments = || manifest.collections.iter().flat_map(|c| &c.segments);
    let runs = |kind: &str, mut runs: Vec<(u64, u64, u64)>| {
        runs.sort_unstable();
        if let Some((file, offset, length)) = runs.iter().find(|r| r.2 == 0 || r.1.checked_add(r.2).is_none_or(|end| end > limits::COUNTER_MAX)) {
            return Some(format!("{kind} of file {file} are named at byte {offset} with {length} bytes"));
        }
        let clash = runs.windows(2).find(|w| w[0].0 == w[1].0 && w[0].1 + w[0].2 > w[1].1)?;
        Some(format!("{kind} of file {} are named twice: bytes {} and {} share bytes", clash[0].0, clash[0].1, clash[1].1))
    };
    runs("segments", segments().map(|s| (s.file, s.offset, s.length)).collect())
        .or_else(|| runs("tombstones", segments().filter_map(|s| s.tombstones.as_ref()).map(|t| (t.file, t.offset, t.length)).collect()))
}
