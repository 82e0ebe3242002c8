//! Files of tombstones: each envelope, its body decoded.

use super::findings::{Findings, located, what};
use super::survey::{NamedEnvelope, Survey};
use crate::error::Result;
use crate::format::checksum::crc32;
use crate::format::tombstones::{ENVELOPE_ALIGN, ENVELOPE_BYTES, ENVELOPE_MAGIC, EnvelopeKind, TombstonesEnvelope, TombstonesHeader};
use crate::ids::Uuid;
use crate::io::names::FileName;
use crate::io::{Directory, File};
use crate::tombstones::{TombstonesPart, TombstonesReader};
use zerocopy::FromBytes;

/// The fields of the file `number`, and the first thing wrong.
pub(super) fn describe(dir: &dyn Directory, survey: &Survey, number: u64, findings: &mut Findings) {
    let name = FileName::Tombstones(number).to_string();
    let Some(file) = findings.take("opening", dir.open(&name)) else { return };
    let Some(length) = findings.take("reading the length", file.len()) else { return };
    let mut bytes = [0; size_of::<TombstonesHeader>()];
    if findings.take("byte 0: reading the header", file.read_exact_at(0, &mut bytes)).is_none() {
        return;
    }
    // Without HEAD the file is taken at its word.
    let own = TombstonesHeader::read_from_bytes(&bytes).map_or(Uuid::default(), |header| Uuid(header.database));
    match TombstonesHeader::decode(&bytes, survey.database().unwrap_or(own), number) {
        Err(e) => findings.problem(located(e, 0)),
        Ok(header) => {
            findings.field("version", format_args!("{}.{}", header.major, header.minor));
            findings.field("database", Uuid(header.database));
            findings.field("number", header.number);
        }
    }
    let named = survey.envelopes_in(number);
    let reader = TombstonesReader::open(dir, own, number);
    let found = walk(file.as_ref(), length, findings);
    findings.field("envelopes", found.len());
    for (index, (part, envelope)) in found.iter().enumerate() {
        let by = named.iter().find(|n| n.part == *part);
        let verdict = match &reader {
            Ok(reader) => verdict(reader, *part, envelope, by, findings),
            Err(_) => "not read".into(),
        };
        let by = by.map_or("named by nothing".to_string(), |n| format!("named by {}", n.by));
        let said = format!("{} bytes at byte {}, {}, {by}, {verdict}", part.length, part.offset, contents(envelope));
        findings.field(format!("envelope {index}"), said);
    }
    let Ok(reader) = reader else { return };
    for n in named.iter().filter(|n| found.iter().all(|(part, _)| *part != n.part)) {
        if let Err(e) = read(&reader, n) {
            findings.problem(format!("{}, as {} names it", what(&e), n.by));
        }
    }
}

/// The envelopes that follow one another in the bytes of a file, each with its offset, for as long as each is whole.
pub(super) fn envelopes(bytes: &[u8]) -> Vec<(u64, TombstonesEnvelope)> {
    let mut found = Vec::new();
    let mut at = TombstonesPart::FIRST_OFFSET;
    while let Some(there) = usize::try_from(at).ok().and_then(|from| bytes.get(from..)) {
        let Ok((envelope, _)) = TombstonesEnvelope::read_from_prefix(there) else { break };
        if envelope.magic.get() != ENVELOPE_MAGIC || envelope.crc.get() != crc32(&there[..28]) {
            break;
        }
        found.push((at, envelope));
        let end =
            (at + ENVELOPE_BYTES).checked_add(envelope.body_length.get()).and_then(|end| end.checked_next_multiple_of(ENVELOPE_ALIGN));
        let Some(next) = end else { break };
        at = next;
    }
    found
}

/// The envelopes that follow one another from the first on.
fn walk(file: &dyn File, length: u64, findings: &mut Findings) -> Vec<(TombstonesPart, TombstonesEnvelope)> {
    let mut found = Vec::new();
    let mut at = TombstonesPart::FIRST_OFFSET;
    while at < length {
        let mut bytes = [0; ENVELOPE_BYTES as usize];
        if findings.take(&format!("byte {at}: reading an envelope"), file.read_exact_at(at, &mut bytes)).is_none() {
            break;
        }
        let Ok(envelope) = TombstonesEnvelope::read_from_bytes(&bytes) else { break };
        let computed = crc32(&bytes[..28]);
        if envelope.magic.get() != ENVELOPE_MAGIC || envelope.crc.get() != computed {
            let what =
                format!("no envelope stands here: its magic is missing, or its checksum {:#010x} is not {computed:#010x}", envelope.crc);
            findings.problem(format!("byte {at}: {what}"));
            break;
        }
        let end = at.checked_add(ENVELOPE_BYTES).and_then(|body| body.checked_add(envelope.body_length.get()));
        let Some(end) = end.filter(|end| *end <= length) else {
            let what = format!("an envelope of {} bytes reaches beyond the file, which has {length}", envelope.body_length);
            findings.problem(format!("byte {}: {what}", at + 8));
            break;
        };
        found.push((TombstonesPart { offset: at, length: end - at, crc: envelope.crc.get() }, envelope));
        at = end.next_multiple_of(ENVELOPE_ALIGN);
    }
    found
}

pub(super) fn contents(envelope: &TombstonesEnvelope) -> String {
    let items = envelope.items;
    match envelope.kind.get() {
        k if k == EnvelopeKind::Tombstones as u32 => format!("tombstones of {items} rows"),
        k if k == EnvelopeKind::DyingSeqs as u32 => format!("{items} dying seqs"),
        other => format!("unknown kind {other}"),
    }
}

/// Decodes an envelope that the walk found.
fn verdict(
    reader: &TombstonesReader,
    part: TombstonesPart,
    envelope: &TombstonesEnvelope,
    by: Option<&NamedEnvelope>,
    findings: &mut Findings,
) -> String {
    let dying = envelope.kind.get() == EnvelopeKind::DyingSeqs as u32;
    // Without a segment that says how many rows it has, any row is possible.
    let rows = if dying { None } else { by.and_then(|n| n.rows).or(Some(u32::MAX)) };
    match read(reader, &NamedEnvelope { part, rows, by: String::new() }) {
        Ok(()) => "sound".into(),
        Err(e) => {
            findings.problem(what(&e));
            what(&e)
        }
    }
}

fn read(reader: &TombstonesReader, named: &NamedEnvelope) -> Result<()> {
    match named.rows {
        Some(rows) => reader.tombstones(named.part, rows).map(drop),
        None => reader.dying_seqs(named.part).map(drop),
    }
}
