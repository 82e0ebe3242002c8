//! A slot of HEAD: the one place that names the state. Spec §4.
//!
//! HEAD holds two slots of 4,096 bytes. Everything up to and including the feature flags keeps its place and meaning for ever, so that any
//! version can tell a slot of a newer one from damage: the checksum is compared first, and only bytes that pass it are asked for their
//! version.

use super::checksum::crc32;
use super::error::FormatError;
use super::segment::check_crc;
use crate::options::limits;
use crate::ids::{Generation, Lsn, Uuid};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First bytes of a slot.
pub const HEAD_MAGIC: [u8; 8] = *b"TRIUNEHD";
/// Bytes of a slot.
pub const HEAD_SLOT_BYTES: usize = 4096;
/// Bytes of HEAD: two slots.
pub const HEAD_BYTES: usize = 2 * HEAD_SLOT_BYTES;
/// The major version of the whole format.
pub const FORMAT_MAJOR: u16 = 1;
/// The minor version of the whole format.
pub const FORMAT_MINOR: u16 = 0;
/// Feature flags without which this version can neither read nor write: those it knows.
pub const INCOMPATIBLE_KNOWN: u64 = 0;
/// Feature flags without which this version can read but not write: those it knows.
pub const READ_ONLY_COMPATIBLE_KNOWN: u64 = 0;

/// Spec §4.1: one slot of HEAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct HeadSlot {
    /// [`HEAD_MAGIC`].
    pub magic: [u8; 8],
    /// The valid slot of the greatest generation is the state.
    pub generation: U64,
    /// Incompatible changes raise it.
    pub major: U16,
    /// Compatible additions raise it.
    pub minor: U16,
    /// CRC of the slot with this field zero.
    pub crc: U32,
    /// Features that a version without them may ignore; it keeps their bits.
    pub compatible: U64,
    /// Features that a version without them may read but not write.
    pub read_only_compatible: U64,
    /// Features that a version without them may not touch.
    pub incompatible: U64,
    /// The database.
    pub database: [u8; 16],
    /// Number of the manifest file.
    pub manifest_number: U64,
    /// Bytes of the manifest file.
    pub manifest_length: U64,
    /// CRC of the whole manifest file.
    pub manifest_crc: U32,
    /// Zero.
    pub reserved: U32,
    /// The manifest is exactly the state at this lsn.
    pub applied_lsn: U64,
    /// Sequence of the active log.
    pub wal_sequence: U64,
    /// Identity of the active log.
    pub wal_id: [u8; 16],
    /// An lsn that was durable when this slot was written.
    pub durable_lsn: U64,
    /// Zero.
    pub padding: [u8; 3968],
}
const _: () = assert!(size_of::<HeadSlot>() == HEAD_SLOT_BYTES);

/// What a slot says, without its frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadState {
    /// How often the state was published.
    pub generation: Generation,
    /// The database.
    pub database: Uuid,
    /// Number of the manifest file.
    pub manifest_number: u64,
    /// Bytes of the manifest file.
    pub manifest_length: u64,
    /// CRC of the whole manifest file.
    pub manifest_crc: u32,
    /// The manifest is exactly the state at this lsn; replay starts after it.
    pub applied_lsn: Lsn,
    /// Sequence of the active log.
    pub wal_sequence: u64,
    /// Identity of the active log.
    pub wal_id: Uuid,
    /// An lsn that was durable when the slot was written.
    pub durable_lsn: Lsn,
}

/// First bytes of the mark that both slots hold while a restore or a backup fills its directory; zeros follow.
pub const UNFINISHED_MAGIC: [u8; 8] = *b"TRIUNEUF";

/// HEAD of a directory that is not a database yet: the mark in both slots.
pub fn unfinished_head() -> Vec<u8> {
    let mut bytes = vec![0; HEAD_BYTES];
    bytes[..8].copy_from_slice(&UNFINISHED_MAGIC);
    bytes[HEAD_SLOT_BYTES..HEAD_SLOT_BYTES + 8].copy_from_slice(&UNFINISHED_MAGIC);
    bytes
}

/// Whether one of the slots in the bytes of HEAD is that mark, to the last byte.
pub fn is_marked_unfinished(head: &[u8]) -> bool {
    let marked = |slot: &[u8]| slot.len() == HEAD_SLOT_BYTES && slot[..8] == UNFINISHED_MAGIC && slot[8..].iter().all(|&b| b == 0);
    head.chunks(HEAD_SLOT_BYTES).take(2).any(marked)
}

impl HeadSlot {
    /// The slot that says `state`, with the bits of compatible features that it must keep.
    pub fn encode(state: &HeadState, compatible: u64) -> HeadSlot {
        let mut slot = HeadSlot {
            magic: HEAD_MAGIC,
            generation: U64::new(state.generation.0),
            major: U16::new(FORMAT_MAJOR),
            minor: U16::new(FORMAT_MINOR),
            crc: U32::new(0),
            compatible: U64::new(compatible),
            read_only_compatible: U64::new(0),
            incompatible: U64::new(0),
            database: state.database.0,
            manifest_number: U64::new(state.manifest_number),
            manifest_length: U64::new(state.manifest_length),
            manifest_crc: U32::new(state.manifest_crc),
            reserved: U32::new(0),
            applied_lsn: U64::new(state.applied_lsn.0),
            wal_sequence: U64::new(state.wal_sequence),
            wal_id: state.wal_id.0,
            durable_lsn: U64::new(state.durable_lsn.0),
            padding: [0; 3968],
        };
        slot.seal();
        slot
    }

    /// Fills in the checksum.
    pub fn seal(&mut self) {
        self.crc = U32::new(0);
        self.crc = U32::new(crc32(self.as_bytes()));
    }

    /// Checks the frame of a slot: length, magic, checksum. What it says may still be of a newer version: see [`HeadSlot::understand`].
    pub fn decode(bytes: &[u8]) -> Result<HeadSlot, FormatError> {
        let slot = HeadSlot::read_from_bytes(bytes)
            .map_err(|_| FormatError::new(0, format!("a slot of HEAD has {HEAD_SLOT_BYTES} bytes, not {}", bytes.len())))?;
        if slot.magic != HEAD_MAGIC {
            return Err(FormatError::new(0, "no slot of HEAD starts here: its magic is missing"));
        }
        let zeroed = HeadSlot { crc: U32::new(0), ..slot };
        check_crc("slot of HEAD", 20, slot.crc.get(), crc32(zeroed.as_bytes()))?;
        Ok(slot)
    }

    /// What a slot with a sound frame says. [`FormatError::newer`] when this version may not read it.
    pub fn understand(&self) -> Result<HeadState, FormatError> {
        if self.major.get() > FORMAT_MAJOR {
            return Err(FormatError::newer(
                16,
                format!("format {}.{} is newer than {FORMAT_MAJOR}.{FORMAT_MINOR}", self.major, self.minor),
            ));
        }
        if self.major.get() == 0 {
            return Err(FormatError::new(16, "format 0 was never released"));
        }
        let unknown = self.incompatible.get() & !INCOMPATIBLE_KNOWN;
        if unknown != 0 {
            return Err(FormatError::newer(40, format!("incompatible features {unknown:#x} are unknown to this version")));
        }
        for (at, counter) in [
            (8, self.generation),
            (64, self.manifest_number),
            (88, self.applied_lsn),
            (96, self.wal_sequence),
            (120, self.durable_lsn),
        ] {
            if counter.get() > limits::COUNTER_MAX {
                return Err(FormatError::new(at, format!("the slot says {counter}; at most {} is counted", limits::COUNTER_MAX)));
            }
        }
        // A newer minor version may use bytes that are zero in this one; there is no older one yet.
        if self.minor.get() == FORMAT_MINOR && (self.reserved.get() != 0 || self.padding.iter().any(|&b| b != 0)) {
            return Err(FormatError::new(84, "reserved bytes of the slot are not zero"));
        }
        Ok(HeadState {
            generation: Generation(self.generation.get()),
            database: Uuid(self.database),
            manifest_number: self.manifest_number.get(),
            manifest_length: self.manifest_length.get(),
            manifest_crc: self.manifest_crc.get(),
            applied_lsn: Lsn(self.applied_lsn.get()),
            wal_sequence: self.wal_sequence.get(),
            wal_id: Uuid(self.wal_id),
            durable_lsn: Lsn(self.durable_lsn.get()),
        })
    }

    /// Refuses to write beside features that a writer must know.
    pub fn writable(&self) -> Result<(), FormatError> {
        match self.read_only_compatible.get() & !READ_ONLY_COMPATIBLE_KNOWN {
            0 => Ok(()),
            unknown => {
                Err(FormatError::newer(32, format!("features {unknown:#x} are unknown to this version, which may read but not write here")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn state() -> HeadState {
        HeadState {
            generation: Generation(7),
            database: Uuid([3; 16]),
            manifest_number: 5,
            manifest_length: 900,
            manifest_crc: 0xdead_beef,
            applied_lsn: Lsn(41),
            wal_sequence: 6,
            wal_id: Uuid([9; 16]),
            durable_lsn: Lsn(44),
        }
    }

    #[test]
    fn fields_stand_where_the_specification_puts_them() {
        let slot = HeadSlot::encode(&state(), 1);
        let bytes = slot.as_bytes();
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        assert_eq!(&bytes[..8], b"TRIUNEHD");
        assert_eq!([u64_at(8), u64_at(24), u64_at(32), u64_at(40)], [7, 1, 0, 0]);
        assert_eq!(bytes[48..64], [3; 16]);
        assert_eq!([u64_at(64), u64_at(72), u64_at(88), u64_at(96), u64_at(120)], [5, 900, 41, 6, 44]);
        assert_eq!(bytes[104..120], [9; 16]);
    }

    #[test]
    fn a_number_that_no_counter_reaches_is_refused() {
        for at in [8, 64, 88, 96, 120] {
            let mut bytes = HeadSlot::encode(&state(), 0).as_bytes().to_vec();
            bytes[at..at + 8].copy_from_slice(&(limits::COUNTER_MAX + 1).to_le_bytes());
            let mut slot = HeadSlot::read_from_bytes(&bytes).expect("the size is right");
            slot.seal();
            assert!(slot.understand().is_err_and(|e| !e.newer && e.offset == at as u64), "byte {at}");
        }
    }

    #[test]
    fn a_slot_reads_as_it_was_written_and_no_flipped_byte_or_cut_passes() {
        let slot = HeadSlot::encode(&state(), 0);
        assert_eq!(HeadSlot::decode(slot.as_bytes()).and_then(|s| s.understand()), Ok(state()));
        let mut bytes = slot.as_bytes().to_vec();
        for at in 0..bytes.len() {
            bytes[at] ^= 0x10;
            assert!(HeadSlot::decode(&bytes).is_err(), "byte {at}");
            bytes[at] ^= 0x10;
        }
        for len in 0..bytes.len() {
            assert!(HeadSlot::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_newer_slot_is_told_from_damage_and_reserved_bytes_are_checked() {
        let change = |change: &dyn Fn(&mut HeadSlot)| {
            let mut slot = HeadSlot::encode(&state(), 0);
            change(&mut slot);
            slot.seal();
            HeadSlot::decode(slot.as_bytes()).expect("the frame is sound")
        };
        assert!(change(&|s| s.major = U16::new(2)).understand().is_err_and(|e| e.newer && e.offset == 16));
        assert!(change(&|s| s.incompatible = U64::new(4)).understand().is_err_and(|e| e.newer && e.offset == 40));
        let read_only = change(&|s| s.read_only_compatible = U64::new(4));
        assert!(read_only.understand().is_ok());
        assert!(read_only.writable().is_err_and(|e| e.newer));
        assert!(change(&|s| s.compatible = U64::new(4)).understand().is_ok());
        assert!(change(&|s| s.padding[3967] = 1).understand().is_err_and(|e| !e.newer));
        let minor = change(&|s| {
            s.minor = U16::new(1);
            s.padding[0] = 1;
        });
        assert_eq!(minor.understand(), Ok(state()));
    }
}
