//! A log, record by record: those that follow one another, and those behind them that continue nothing.

use super::findings::what;
use super::raw::{Field, Structure, fields};
use super::structures::{padded, problem};
use crate::error::Result;
use crate::format::effects::{CatalogChange, CollectionEffects, CommitEffects, DeadSet};
use crate::format::wal::{RECORD_ALIGNMENT, RECORD_HEADER_BYTES, RecordHeader, WAL_HEADER_BYTES, WalHeader};
use crate::ids::Uuid;
use crate::io::Directory;
use crate::wal::{LogFile, Walk};
use zerocopy::FromBytes;

/// The header of the log and every record in it.
pub(super) fn structures(dir: &dyn Directory, sequence: u64) -> Result<Vec<Structure>> {
    let Some(mut log) = LogFile::open(dir, sequence)? else { return Ok(Vec::new()) };
    let own = log.bytes(0, WAL_HEADER_BYTES as u64)?.to_vec();
    let raw: [u8; WAL_HEADER_BYTES] = padded(&own, 0);
    let Ok(header) = WalHeader::read_from_bytes(&raw) else { return Ok(Vec::new()) };
    let decoded = WalHeader::decode(&own);
    let sound = decoded.is_ok();
    let mut all = vec![Structure::new(0, WAL_HEADER_BYTES as u64, "header (WalHeader)", problem(decoded, 0), header_fields(&header))];
    // Without the log's identity no checksum of a record can be computed.
    if !sound {
        return Ok(all);
    }
    let id = Uuid(header.id);
    let mut walk = Walk::new(&header);
    while let Some(record) = walk.next(&mut log)? {
        all.push(describe(&mut log, id, &record, None)?);
    }
    let mut at = walk.at;
    while at < log.len {
        match log.record_header(id, at)? {
            Some(record) => {
                let why = format!("byte {at}: it does not continue the record before, so it does not count");
                all.push(describe(&mut log, id, &record, Some(why))?);
                at += RECORD_HEADER_BYTES as u64;
            }
            None => at += RECORD_ALIGNMENT,
        }
    }
    Ok(all)
}

fn header_fields(header: &WalHeader) -> Vec<Field> {
    fields!(
        0,
        header,
        WalHeader {
            magic,
            major,
            minor,
            crc,
            database,
            sequence,
            id,
            first_lsn,
            has_link,
            reserved,
            link_id,
            link_sequence,
            link_last_lsn,
            link_end_offset,
            padding,
        }
    )
}

fn describe(log: &mut LogFile, id: Uuid, record: &RecordHeader, loose: Option<String>) -> Result<Structure> {
    let at = record.self_offset.get();
    let all = fields!(
        at,
        record,
        RecordHeader {
            magic,
            header_crc,
            payload_crc,
            payload_length,
            lsn,
            durable_lsn,
            self_offset,
            previous_header_crc,
            kind,
            flags,
            reserved,
        }
    );
    let payload_at = at + RECORD_HEADER_BYTES as u64;
    let (mut found, mut says) = (loose, "a record of a kind that this version skips".to_string());
    let effects = match (log.payload(id, record)?, record.understand()) {
        (None, _) => Err(format!("byte {payload_at}: the payload is cut off, or its checksum does not hold")),
        (Some(_), Err(e)) => Err(what(&e.in_file(&log.name, at))),
        (Some(_), Ok(false)) => Ok(None),
        (Some(payload), Ok(true)) => match CommitEffects::decode(payload) {
            Ok(effects) => Ok(Some(effects)),
            Err(e) => Err(format!("byte {}: {}", payload_at + e.offset, e.what)),
        },
    };
    match effects {
        Ok(Some(effects)) => says = deeds(&effects),
        Ok(None) => {}
        Err(why) => {
            says.clear();
            found.get_or_insert(why);
        }
    }
    let bytes = record.end_offset().saturating_sub(at);
    let name = format!("record lsn {} (RecordHeader)", record.lsn);
    Ok(Structure::new(at, bytes, name, found, all).saying(says))
}

/// What a commit did.
fn deeds(effects: &CommitEffects) -> String {
    let mut parts: Vec<String> = effects.catalog.iter().map(change).collect();
    parts.extend(effects.collections.iter().map(in_collection));
    let counters = format!("next seq {}, next incarnation {}", effects.next_seq, effects.next_incarnation);
    parts.push(format!("at {} ms, {counters}", effects.time_ms));
    parts.join("; ")
}

fn change(change: &CatalogChange) -> String {
    match change {
        CatalogChange::Create { name, incarnation, .. } => format!("creates {name:?} as incarnation {incarnation}"),
        CatalogChange::Drop { name, incarnation } => format!("drops {name:?}, incarnation {incarnation}"),
        CatalogChange::Clear { name, old, new } => format!("clears {name:?}, incarnation {old}, which becomes {new}"),
        CatalogChange::Rename { from, to, incarnation } => format!("renames {from:?}, incarnation {incarnation}, to {to:?}"),
        CatalogChange::Swap { a, b } => format!("swaps {a:?} and {b:?}"),
        CatalogChange::FixDimension { incarnation, dimension } => format!("fixes {dimension} components for incarnation {incarnation}"),
    }
}

fn in_collection(c: &CollectionEffects) -> String {
    let mut parts = Vec::new();
    if let (Some(first), Some(last)) = (c.rows.first(), c.rows.last()) {
        parts.push(format!("{} rows, seqs {} to {}", c.rows.len(), first.seq, last.seq));
    }
    if !c.landed.is_empty() {
        let rows: u64 = c.landed.iter().map(|entry| entry.rows).fold(0, u64::saturating_add);
        parts.push(format!("{} segments of {rows} rows", c.landed.len()));
    }
    match &c.dead {
        DeadSet::None => {}
        DeadSet::Inline(seqs) => parts.push(format!("{} seqs die", seqs.len())),
        DeadSet::File { number, .. } => parts.push(format!("the seqs in {} die", crate::io::names::FileName::Tombstones(*number))),
    }
    format!("incarnation {}: {}", c.incarnation, if parts.is_empty() { "nothing".into() } else { parts.join(", ") })
}
