//! The registry of sources: what is stored of each, counted over all parts, so that it can never disagree with the documents.

use super::part::GraphView;
use super::snapshot::SourceInfo;
use super::version::Parts;
use crate::error::Result;
use crate::graph::GraphPart;
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};

/// The metadata key that holds a file's name for people.
const NAME_KEY: &str = "file_name";

/// Every source that has a document, in byte order.
pub(crate) fn registry(parts: &Parts) -> Result<Vec<SourceInfo>> {
    let mut rows: BTreeMap<String, Vec<(usize, Vec<u32>)>> = BTreeMap::new();
    for (i, part) in parts.parts.iter().enumerate() {
        part.for_each_source(parts.lsn, |source, of_part| rows.entry(source.to_string()).or_default().push((i, of_part)))?;
    }
    let views = parts.graph()?;
    rows.into_iter().map(|(source, rows)| describe(parts, &views, source, &rows)).collect()
}

/// One source; `None` when no document has it.
pub(crate) fn one(parts: &Parts, source: &str) -> Result<Option<SourceInfo>> {
    let mut rows = Vec::new();
    for (i, part) in parts.parts.iter().enumerate() {
        let of_part = part.source_rows(source, parts.lsn)?;
        if !of_part.is_empty() {
            rows.push((i, of_part));
        }
    }
    if rows.is_empty() {
        return Ok(None);
    }
    describe(parts, &parts.graph()?, source.to_string(), &rows).map(Some)
}

/// How many sources have a document.
pub(crate) fn count(parts: &Parts) -> Result<u64> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for part in &parts.parts {
        part.for_each_source(parts.lsn, |source, _| {
            if !names.contains(source) {
                names.insert(source.to_string());
            }
        })?;
    }
    Ok(names.len() as u64)
}

fn describe(parts: &Parts, views: &[GraphView<'_>], source: String, rows: &[(usize, Vec<u32>)]) -> Result<SourceInfo> {
    let mut info = SourceInfo { source, ..SourceInfo::default() };
    let mut entities: FxHashSet<Box<str>> = FxHashSet::default();
    let mut display_name = None;
    for (part, rows) in rows {
        let mut ordinals: FxHashSet<u32> = FxHashSet::default();
        for &row in rows {
            let document = parts.parts[*part].document(row, false)?;
            info.documents += 1;
            info.vectors += parts.parts[*part].row_totals(row)?.vectors;
            if display_name.is_none() {
                display_name = document.metadata.as_ref().and_then(|m| m.string(NAME_KEY)).filter(|name| !name.is_empty());
            }
            info.bytes += document.text.len() as u64;
            info.time_ms = info.time_ms.max(document.time_ms);
            views[*part].for_each_entity(row, &mut |entity| {
                info.mentions += 1;
                ordinals.insert(entity);
            })?;
        }
        for ordinal in ordinals {
            entities.insert(views[*part].key(ordinal)?.into());
        }
    }
    info.entities = entities.len() as u64;
    info.display_name = display_name.unwrap_or_else(|| info.source.clone());
    Ok(info)
}
