//! A log: its header block and the headers of its records. Spec §7.
//!
//! Every checksum of a record is seeded with the log's random identity, and a record names its own offset: bytes of another log, of another
//! place, or of a document that quotes a log are no record here.

use super::checksum::{crc32, crc32_seeded};
use super::error::FormatError;
use super::segment::check_crc;
use crate::ids::{Lsn, Uuid};
use crate::options::limits;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of a log.
pub const WAL_MAGIC: [u8; 8] = *b"TRIUNEWL";
/// The major version of the log format.
pub const WAL_MAJOR: u16 = 1;
/// Bytes of the header; the first record follows it.
pub const WAL_HEADER_BYTES: usize = 4096;
/// No block of this many bytes that holds synced bytes is written again.
pub const WAL_BLOCK_BYTES: u64 = 4096;
/// First bytes of a record: `WLR` and a byte that no UTF-8 text starts with.
pub const RECORD_MAGIC: u32 = 0x8d52_4c57;
/// Bytes of a record's header; the payload follows it.
pub const RECORD_HEADER_BYTES: usize = 48;
/// Records start at multiples of this many bytes.
pub const RECORD_ALIGNMENT: u64 = 8;
/// A record whose kind has this bit stops a version that does not know the kind; without it the record is skipped.
pub const RECORD_CRITICAL: u8 = 0x80;
/// The kind of a commit: its payload is a [`super::effects::CommitEffects`].
pub const RECORD_COMMIT: u8 = 0x81;

/// Spec §7.1: the header of a log, its first block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct WalHeader {
    /// [`WAL_MAGIC`].
    pub magic: [u8; 8],
    /// Incompatible changes raise it.
    pub major: U16,
    /// Compatible additions raise it.
    pub minor: U16,
    /// CRC of the block with this field zero.
    pub crc: U32,
    /// The database it was written for.
    pub database: [u8; 16],
    /// The number in its file name.
    pub sequence: U64,
    /// Its random identity, the seed of its records' checksums.
    pub id: [u8; 16],
    /// The lsn of its first record.
    pub first_lsn: U64,
    /// 1 when it continues a predecessor, else 0 and the link fields are zero.
    pub has_link: U32,
    /// Zero.
    pub reserved: U32,
    /// Identity of the predecessor.
    pub link_id: [u8; 16],
    /// Sequence of the predecessor.
    pub link_sequence: U64,
    /// The last lsn of the predecessor.
    pub link_last_lsn: U64,
    /// Where the predecessor's last record ends.
    pub link_end_offset: U64,
    /// Zero.
    pub padding: [u8; 3984],
}
const _: () = assert!(size_of::<WalHeader>() == WAL_HEADER_BYTES);

/// Spec §7.2: the header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RecordHeader {
    /// [`RECORD_MAGIC`].
    pub magic: U32,
    /// CRC of the log's id and the bytes from `payload_crc` to the header's end.
    pub header_crc: U32,
    /// CRC of the log's id and the payload.
    pub payload_crc: U32,
    /// Bytes of the payload: at most 8 MiB.
    pub payload_length: U32,
    /// The lsn: one more than that of the record before.
    pub lsn: U64,
    /// The greatest lsn known to be durable when this record was written.
    pub durable_lsn: U64,
    /// Where this header starts in the file.
    pub self_offset: U64,
    /// `header_crc` of the record before; 0 in a log's first record.
    pub previous_header_crc: U32,
    /// What the payload is; bit 7 is [`RECORD_CRITICAL`].
    pub kind: u8,
    /// Zero.
    pub flags: u8,
    /// Zero.
    pub reserved: U16,
}
const _: () = assert!(size_of::<RecordHeader>() == RECORD_HEADER_BYTES);

/// Where the log before ends, as its successor's header says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Identity of the predecessor.
    pub id: Uuid,
    /// Its sequence.
    pub sequence: u64,
    /// Its last lsn.
    pub last_lsn: Lsn,
    /// Where its last record ends, alignment included.
    pub end_offset: u64,
}

impl WalHeader {
    /// The header of a new log.
    pub fn encode(database: Uuid, sequence: u64, id: Uuid, first_lsn: Lsn, link: Option<Link>) -> WalHeader {
        let from = link.unwrap_or(Link { id: Uuid([0; 16]), sequence: 0, last_lsn: Lsn(0), end_offset: 0 });
        let mut header = WalHeader {
            magic: WAL_MAGIC,
            major: U16::new(WAL_MAJOR),
            minor: U16::new(0),
            crc: U32::new(0),
            database: database.0,
            sequence: U64::new(sequence),
            id: id.0,
            first_lsn: U64::new(first_lsn.0),
            has_link: U32::new(u32::from(link.is_some())),
            reserved: U32::new(0),
            link_id: from.id.0,
            link_sequence: U64::new(from.sequence),
            link_last_lsn: U64::new(from.last_lsn.0),
            link_end_offset: U64::new(from.end_offset),
            padding: [0; 3984],
        };
        header.crc = U32::new(crc32(header.as_bytes()));
        header
    }

    /// Checks and reads the block given.
    pub fn decode(bytes: &[u8]) -> Result<WalHeader, FormatError> {
        let header = WalHeader::read_from_bytes(bytes)
            .map_err(|_| FormatError::new(0, format!("a log starts with a header of {WAL_HEADER_BYTES} bytes, not {}", bytes.len())))?;
        if header.magic != WAL_MAGIC {
            return Err(FormatError::new(0, "no log starts here: its magic is missing"));
        }
        // The frame keeps place and meaning for ever, so a flipped version byte is seen as damage, not as a newer version.
        let zeroed = WalHeader { crc: U32::new(0), ..header };
        check_crc("log header", 12, header.crc.get(), crc32(zeroed.as_bytes()))?;
        if header.major.get() > WAL_MAJOR {
            return Err(FormatError::newer(8, format!("log format {} is newer than {WAL_MAJOR}", header.major)));
        }
        if header.major.get() == 0 {
            return Err(FormatError::new(8, "there is no format of major version 0"));
        }
        if header.first_lsn.get() == 0 {
            return Err(FormatError::new(56, "the first lsn of a log is at least 1"));
        }
        if header.first_lsn.get().max(header.sequence.get()) > limits::COUNTER_MAX {
            let what = format!("log {} starts at lsn {}; at most {} is counted", header.sequence, header.first_lsn, limits::COUNTER_MAX);
            return Err(FormatError::new(32, what));
        }
        if header.minor.get() == 0 && (header.reserved.get() != 0 || header.padding.iter().any(|&b| b != 0)) {
            return Err(FormatError::new(68, "reserved bytes of the log header are not zero"));
        }
        header.check_link()?;
        Ok(header)
    }

    fn check_link(&self) -> Result<(), FormatError> {
        let link = (self.link_id, self.link_sequence.get(), self.link_last_lsn.get(), self.link_end_offset.get());
        match self.has_link.get() {
            0 if link == ([0; 16], 0, 0, 0) => Ok(()),
            1 if link.1 >= self.sequence.get() => {
                Err(FormatError::new(88, format!("log {} continues log {}, which is not older", self.sequence, link.1)))
            }
            1 if link.2 != self.first_lsn.get() - 1 => Err(FormatError::new(
                96,
                format!("the log starts at lsn {}, but continues one that ends at lsn {}", self.first_lsn, link.2),
            )),
            1 if link.3 < WAL_HEADER_BYTES as u64 || !link.3.is_multiple_of(RECORD_ALIGNMENT) => {
                Err(FormatError::new(104, format!("no log ends at byte {}", link.3)))
            }
            1 => Ok(()),
            0 => Err(FormatError::new(72, "a log without a link has link fields that are not zero")),
            other => Err(FormatError::new(64, format!("the link flag is 0 or 1, not {other}"))),
        }
    }

    /// Its link to a predecessor.
    pub fn link(&self) -> Option<Link> {
        (self.has_link.get() == 1).then(|| Link {
            id: Uuid(self.link_id),
            sequence: self.link_sequence.get(),
            last_lsn: Lsn(self.link_last_lsn.get()),
            end_offset: self.link_end_offset.get(),
        })
    }
}

impl RecordHeader {
    /// The header of a record of the log `id` at `offset`.
    pub fn encode(id: Uuid, offset: u64, lsn: Lsn, durable_lsn: Lsn, previous_header_crc: u32, kind: u8, payload: &[u8]) -> RecordHeader {
        let length = u32::try_from(payload.len()).expect("a payload has at most 8 MiB");
        let mut header = RecordHeader {
            magic: U32::new(RECORD_MAGIC),
            header_crc: U32::new(0),
            payload_crc: U32::new(crc32_seeded(&id.0, payload)),
            payload_length: U32::new(length),
            lsn: U64::new(lsn.0),
            durable_lsn: U64::new(durable_lsn.0),
            self_offset: U64::new(offset),
            previous_header_crc: U32::new(previous_header_crc),
            kind,
            flags: 0,
            reserved: U16::new(0),
        };
        header.header_crc = U32::new(crc32_seeded(&id.0, &header.as_bytes()[8..]));
        header
    }

    /// Checks and reads the 48 bytes given, which stand at `offset` of the log `id`. The payload is checked by
    /// [`RecordHeader::check_payload`].
    pub fn decode(bytes: &[u8], id: Uuid, offset: u64) -> Result<RecordHeader, FormatError> {
        let header = RecordHeader::read_from_bytes(bytes)
            .map_err(|_| FormatError::new(0, format!("a record header has {RECORD_HEADER_BYTES} bytes, not {}", bytes.len())))?;
        if header.magic.get() != RECORD_MAGIC {
            return Err(FormatError::new(0, "no record starts here: its magic is missing"));
        }
        check_crc("record header", 4, header.header_crc.get(), crc32_seeded(&id.0, &bytes[8..]))?;
        if header.self_offset.get() != offset {
            return Err(FormatError::new(32, format!("the record was written for byte {}, not {offset}", header.self_offset)));
        }
        if header.payload_length.get() as usize > limits::RECORD_BYTES_MAX {
            return Err(FormatError::new(
                12,
                format!("a payload has at most {} bytes, not {}", limits::RECORD_BYTES_MAX, header.payload_length),
            ));
        }
        if header.lsn.get().max(header.durable_lsn.get()) > limits::COUNTER_MAX {
            let what = format!("lsn {}, durable up to {}; at most {} is counted", header.lsn, header.durable_lsn, limits::COUNTER_MAX);
            return Err(FormatError::new(16, what));
        }
        if header.reserved.get() != 0 {
            return Err(FormatError::new(46, "reserved bytes of the record header are not zero"));
        }
        Ok(header)
    }

    /// Compares the payload with its checksum.
    pub fn check_payload(&self, id: Uuid, payload: &[u8]) -> Result<(), FormatError> {
        check_crc("record payload", 8, self.payload_crc.get(), crc32_seeded(&id.0, payload))
    }

    /// Whether this version replays the record (true) or skips it (false). [`FormatError::newer`] when it may do neither.
    pub fn understand(&self) -> Result<bool, FormatError> {
        match self.kind {
            RECORD_COMMIT if self.flags == 0 => Ok(true),
            kind if kind & RECORD_CRITICAL != 0 => Err(FormatError::newer(
                44,
                format!(
                    "lsn {} is a record of kind {kind:#04x} with flags {:#04x}, critical and unknown to this version",
                    self.lsn, self.flags
                ),
            )),
            _ => Ok(false),
        }
    }

    /// Where the record ends: the next may start there. Includes the zeros that align it.
    pub fn end_offset(&self) -> u64 {
        record_end(self.self_offset.get(), self.payload_length.get() as usize)
    }
}

/// Where a record at `offset` with a payload of `payload_length` bytes ends, alignment included.
pub fn record_end(offset: u64, payload_length: usize) -> u64 {
    (offset + RECORD_HEADER_BYTES as u64 + payload_length as u64).next_multiple_of(RECORD_ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid([7; 16]);

    #[test]
    fn a_log_header_reads_as_it_was_written_and_no_flipped_byte_or_cut_passes() {
        let link = Link { id: Uuid([8; 16]), sequence: 4, last_lsn: Lsn(11), end_offset: 4200 };
        for link in [None, Some(link)] {
            let header = WalHeader::encode(Uuid([1; 16]), 5, ID, Lsn(12), link);
            let mut bytes = header.as_bytes().to_vec();
            assert_eq!(WalHeader::decode(&bytes).map(|h| (h, h.link())), Ok((header, link)));
            for at in 0..bytes.len() {
                bytes[at] ^= 2;
                assert!(WalHeader::decode(&bytes).is_err_and(|e| !e.newer), "byte {at}");
                bytes[at] ^= 2;
            }
            for len in (0..bytes.len()).step_by(37) {
                assert!(WalHeader::decode(&bytes[..len]).is_err(), "{len} bytes");
            }
        }
    }

    #[test]
    fn a_number_that_no_counter_reaches_is_refused() {
        let log = |sequence, first| WalHeader::decode(WalHeader::encode(Uuid([1; 16]), sequence, ID, Lsn(first), None).as_bytes());
        let record = |lsn, durable| {
            RecordHeader::decode(RecordHeader::encode(ID, 4096, Lsn(lsn), Lsn(durable), 0, RECORD_COMMIT, b"").as_bytes(), ID, 4096)
        };
        let most = limits::COUNTER_MAX;
        assert!(log(most, most).is_ok() && record(most, most).is_ok());
        assert!(log(most + 1, 1).is_err() && log(1, most + 1).is_err());
        assert!(record(most + 1, 1).is_err() && record(1, most + 1).is_err());
    }

    #[test]
    fn links_that_no_writer_makes_are_refused() {
        let good = Link { id: Uuid([8; 16]), sequence: 4, last_lsn: Lsn(11), end_offset: 4200 };
        for bad in [
            Link { sequence: 5, ..good },
            Link { last_lsn: Lsn(12), ..good },
            Link { end_offset: 8, ..good },
            Link { end_offset: 4201, ..good },
        ] {
            let header = WalHeader::encode(Uuid([1; 16]), 5, ID, Lsn(12), Some(bad));
            assert!(WalHeader::decode(header.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_record_passes_only_whole_in_its_own_log_and_place() {
        let header = RecordHeader::encode(ID, 4096, Lsn(3), Lsn(2), 0xabcd, RECORD_COMMIT, b"payload");
        let bytes = header.as_bytes().to_vec();
        assert_eq!(RecordHeader::decode(&bytes, ID, 4096), Ok(header));
        assert_eq!(header.check_payload(ID, b"payload"), Ok(()));
        assert_eq!(header.end_offset(), 4096 + 56);
        assert!(header.check_payload(ID, b"Payload").is_err());
        assert!(header.check_payload(Uuid([6; 16]), b"payload").is_err());
        assert!(RecordHeader::decode(&bytes, Uuid([6; 16]), 4096).is_err());
        assert!(RecordHeader::decode(&bytes, ID, 4104).is_err());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            assert!(RecordHeader::decode(&damaged, ID, 4096).is_err(), "byte {at}");
        }
    }

    #[test]
    fn an_unknown_kind_stops_only_when_it_is_critical() {
        let kind = |kind| RecordHeader::encode(ID, 4096, Lsn(3), Lsn(2), 0, kind, b"").understand();
        assert_eq!(kind(RECORD_COMMIT), Ok(true));
        assert_eq!(kind(0x02), Ok(false));
        assert!(kind(0x82).is_err_and(|e| e.newer));
    }
}
