//! WITNESS: evidence of what was synced, itself never synced. Spec §5.
//!
//! Two records of 512 bytes, one sector each, written alternately. A record that does not decode is no evidence; it is never an error.

use super::checksum::crc32;
use super::error::FormatError;
use super::segment::check_crc;
use crate::options::limits;
use crate::ids::{Lsn, Uuid};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of a record.
pub const WITNESS_MAGIC: [u8; 8] = *b"TRIUNEWT";
/// Bytes of a record.
pub const WITNESS_SLOT_BYTES: usize = 512;
/// Bytes of the file: two records.
pub const WITNESS_BYTES: usize = 2 * WITNESS_SLOT_BYTES;

/// Spec §5.1: one record of WITNESS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct WitnessSlot {
    /// [`WITNESS_MAGIC`].
    pub magic: [u8; 8],
    /// Identity of the log that was synced.
    pub wal_id: [u8; 16],
    /// The greatest lsn that the sync made durable.
    pub durable_lsn: U64,
    /// Where that lsn's record ends in the log.
    pub durable_offset: U64,
    /// CRC of the record with this field zero.
    pub crc: U32,
    /// Zero.
    pub padding: [u8; 468],
}
const _: () = assert!(size_of::<WitnessSlot>() == WITNESS_SLOT_BYTES);

/// What a record of WITNESS says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WitnessRecord {
    /// Identity of the log that was synced.
    pub wal_id: Uuid,
    /// The greatest lsn that the sync made durable.
    pub durable_lsn: Lsn,
    /// Where that lsn's record ends in the log, in bytes.
    pub durable_offset: u64,
}

impl WitnessSlot {
    /// The record that says `record`.
    pub fn encode(record: &WitnessRecord) -> WitnessSlot {
        let mut slot = WitnessSlot {
            magic: WITNESS_MAGIC,
            wal_id: record.wal_id.0,
            durable_lsn: U64::new(record.durable_lsn.0),
            durable_offset: U64::new(record.durable_offset),
            crc: U32::new(0),
            padding: [0; 468],
        };
        slot.crc = U32::new(crc32(slot.as_bytes()));
        slot
    }

    /// Checks and reads the 512 bytes given.
    pub fn decode(bytes: &[u8]) -> Result<WitnessRecord, FormatError> {
        let slot = WitnessSlot::read_from_bytes(bytes)
            .map_err(|_| FormatError::new(0, format!("a record of WITNESS has {WITNESS_SLOT_BYTES} bytes, not {}", bytes.len())))?;
        if slot.magic != WITNESS_MAGIC {
            return Err(FormatError::new(0, "no record of WITNESS starts here: its magic is missing"));
        }
        let zeroed = WitnessSlot { crc: U32::new(0), ..slot };
        check_crc("record of WITNESS", 40, slot.crc.get(), crc32(zeroed.as_bytes()))?;
        if slot.padding.iter().any(|&b| b != 0) {
            return Err(FormatError::new(44, "reserved bytes of the record are not zero"));
        }
        if slot.durable_lsn.get() > limits::COUNTER_MAX {
            return Err(FormatError::new(24, format!("lsn {} is durable; at most {} is counted", slot.durable_lsn, limits::COUNTER_MAX)));
        }
        Ok(WitnessRecord { wal_id: Uuid(slot.wal_id), durable_lsn: Lsn(slot.durable_lsn.get()), durable_offset: slot.durable_offset.get() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_as_it_was_written_and_no_flipped_byte_or_cut_passes() {
        let record = WitnessRecord { wal_id: Uuid([5; 16]), durable_lsn: Lsn(12), durable_offset: 8192 };
        let mut bytes = WitnessSlot::encode(&record).as_bytes().to_vec();
        assert_eq!(WitnessSlot::decode(&bytes), Ok(record));
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert!(WitnessSlot::decode(&bytes).is_err(), "byte {at}");
            bytes[at] ^= 1;
        }
        for len in 0..bytes.len() {
            assert!(WitnessSlot::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }
}
