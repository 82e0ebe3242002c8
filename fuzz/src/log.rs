//! A log: its header, its records, the scan of it after a crash, and what its records say.

use crate::{dispatch, split};
use triune::format::checksum::crc32;
use triune::format::document::{decode_version, encode_version, version_bytes_max};
use triune::format::effects::CommitEffects;
use triune::format::varint::Reader;
use triune::format::wal::{Link, RECORD_HEADER_BYTES, RecordHeader, WAL_HEADER_BYTES, WAL_MAGIC, WalHeader};
use triune::io::SimDirectory;
use triune::io::names::FileName;
use triune::wal::recover;
use triune::{Lsn, Uuid};
use zerocopy::{FromBytes, IntoBytes};

const ID: Uuid = Uuid([3; 16]);
const DATABASE: Uuid = Uuid([1; 16]);

pub fn fuzz(bytes: &[u8]) {
    dispatch(bytes, &[header, record, effects, version, scan]);
}

fn header(bytes: &[u8]) {
    let _ = WalHeader::decode(bytes);
    let (mut block, _) = split::<WAL_HEADER_BYTES>(bytes);
    block[..8].copy_from_slice(&WAL_MAGIC);
    block[12..16].fill(0);
    let crc = crc32(&block);
    block[12..16].copy_from_slice(&crc.to_le_bytes());
    if let Ok(header) = WalHeader::decode(&block) {
        let link = header.link();
        let made = WalHeader::encode(Uuid(header.database), header.sequence.get(), Uuid(header.id), Lsn(header.first_lsn.get()), link);
        assert_eq!((made.link(), made.id, made.first_lsn), (link, header.id, header.first_lsn));
    }
}

/// The header of a record with its checksum as it is, and with one that fits.
fn record(bytes: &[u8]) {
    if let Ok(header) = RecordHeader::decode(bytes, ID, 4096) {
        let _ = (header.understand(), header.end_offset());
    }
    let (numbers, payload) = split::<RECORD_HEADER_BYTES>(bytes);
    let wild = RecordHeader::read_from_bytes(&numbers).expect("the size is right");
    let offset = wild.self_offset.get() >> 8;
    let (lsn, durable) = (Lsn(wild.lsn.get() >> 1), Lsn(wild.durable_lsn.get() >> 1));
    let made = RecordHeader::encode(ID, offset, lsn, durable, wild.previous_header_crc.get(), wild.kind, payload);
    let read = RecordHeader::decode(made.as_bytes(), ID, offset).expect("what was written can be read");
    assert_eq!(read, made);
    assert!(read.check_payload(ID, payload).is_ok() && read.end_offset() >= offset + payload.len() as u64);
    let _ = read.understand();
}

fn effects(bytes: &[u8]) {
    let Ok(effects) = CommitEffects::decode(bytes) else { return };
    let (mut once, mut twice) = (Vec::new(), Vec::new());
    effects.encode(&mut once);
    CommitEffects::decode(&once).expect("what was written can be read").encode(&mut twice);
    assert_eq!(once, twice);
    assert!(effects.encoded_len_estimate() >= once.len());
}

fn version(bytes: &[u8]) {
    let Ok(document) = decode_version(&mut Reader::new(bytes)) else { return };
    let mut again = Vec::new();
    encode_version(&document, &mut again);
    assert!(again.len() <= version_bytes_max(&document));
    assert_eq!(decode_version(&mut Reader::new(&again)).expect("what was written can be read"), document);
}

/// Two logs, the second of which may continue the first, of records whose checksums hold and whose numbers need not.
fn scan(bytes: &[u8]) {
    let ([chained, applied, head_durable, cut], mut rest) = split::<4>(bytes);
    let dir = SimDirectory::new();
    let (first, end) = log(&mut rest, 1, Lsn(1), None);
    let link = Link { id: ID, sequence: 1, last_lsn: Lsn(u64::from(end.lsn)), end_offset: end.offset };
    let begins = if chained & 1 == 1 { u64::from(end.lsn) + 1 } else { u64::from(applied) + 1 };
    let (mut second, _) = log(&mut rest, 2, Lsn(begins), (chained & 1 == 1).then_some(link));
    if chained & 2 == 2 {
        second.truncate(second.len().saturating_sub(usize::from(cut) * 16));
    }
    dir.write_file(&FileName::Wal(1).to_string(), first);
    dir.write_file(&FileName::Wal(2).to_string(), second);
    let before = dir.image_hash();
    let applied = Lsn(u64::from(applied));
    if let Ok(found) = recover(&dir, DATABASE, 2, ID, applied, Lsn(u64::from(head_durable)), None) {
        let lsns: Vec<u64> = found.records.iter().map(|r| r.lsn.0).collect();
        assert!(lsns.first().is_none_or(|first| *first > applied.0), "what is applied is not asked");
        assert!(lsns.windows(2).all(|pair| pair[0] < pair[1]) && found.last_lsn >= applied);
        assert!(found.max_durable <= found.last_lsn, "what is durable is there");
    }
    assert_eq!(dir.image_hash(), before, "recovery writes nothing");
}

/// Where a log ends.
struct End {
    lsn: u8,
    offset: u64,
}

/// A log of the records that the bytes describe, 6 bytes and a payload each, up to one of length 255 or the end.
fn log(bytes: &mut &[u8], sequence: u64, first: Lsn, link: Option<Link>) -> (Vec<u8>, End) {
    let mut log = WalHeader::encode(DATABASE, sequence, ID, first, link).as_bytes().to_vec();
    let (mut lsn, mut previous) = (first.0 as u8, 0);
    let mut end = End { lsn: lsn.wrapping_sub(1), offset: log.len() as u64 };
    while let Some(([length, jump, durable, kind, gap, flags], rest)) = bytes.split_first_chunk::<6>() {
        *bytes = rest;
        if *length == 255 {
            break;
        }
        let (payload, rest) = bytes.split_at(bytes.len().min(usize::from(*length)));
        *bytes = rest;
        let to = log.len().next_multiple_of(if gap & 1 == 1 { 4096 } else { 8 }) + usize::from(gap >> 4) * 8;
        log.resize(to, *gap & 2);
        // A jump of 0 continues the log, as sound records do.
        lsn = lsn.wrapping_add(*jump);
        let kind = if *kind == 0 { triune::format::wal::RECORD_COMMIT } else { *kind };
        let header = RecordHeader::encode(ID, to as u64, Lsn(u64::from(lsn)), Lsn(u64::from(*durable)), previous, kind, payload);
        previous = header.header_crc.get().wrapping_add(u32::from(*flags & 1));
        log.extend_from_slice(header.as_bytes());
        log.extend_from_slice(payload);
        end = End { lsn, offset: header.end_offset() };
        log.resize(end.offset as usize, 0);
        lsn = lsn.wrapping_add(1);
    }
    (log, end)
}
