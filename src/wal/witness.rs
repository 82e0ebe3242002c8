//! Keeps WITNESS. Nothing it does can fail a commit; an open fails by it only when the system does not let it be read.

use crate::error::{Error, Result};
use crate::format::witness::{WITNESS_BYTES, WITNESS_SLOT_BYTES, WitnessRecord, WitnessSlot};
use crate::ids::{Lsn, Uuid};
use crate::io::names::WITNESS;
use crate::io::{Directory, File};
use std::io::ErrorKind;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Writes evidence of what was synced, without syncing it: a write to the page cache that makes later damage to a log's tail visible.
#[derive(Debug)]
pub struct Witness {
    file: Arc<dyn File>,
    /// The record written next: the one that says less.
    next: usize,
}

/// Creates WITNESS as zeros, which is no evidence, and syncs it. The caller syncs the directory.
pub fn create_witness(dir: &dyn Directory) -> Result<()> {
    let file = dir.create_new(WITNESS).map_err(|e| Error::io("creating WITNESS", e))?;
    file.write_all_at(0, &[0; WITNESS_BYTES]).map_err(|e| Error::io("writing WITNESS", e))?;
    file.sync().map_err(|e| Error::io("syncing WITNESS", e))
}

impl Witness {
    /// Opens WITNESS for writing; `None` when it is missing or cannot be opened.
    pub fn open(dir: &dyn Directory) -> Option<Witness> {
        let file = dir.open_writable(WITNESS).ok()?;
        let next = match records(&file.read_at_most(WITNESS_BYTES as u64).unwrap_or_default()) {
            [Some(a), Some(b)] if a.durable_lsn > b.durable_lsn => 1,
            [Some(_), None] => 1,
            _ => 0,
        };
        Some(Witness { file, next })
    }

    /// Makes a WITNESS that is missing; `None` when it cannot be made or something stands there. Nothing is synced, since nothing rests on it:
    /// a name that a power cut takes is made again.
    pub fn make(dir: &dyn Directory) -> Option<Witness> {
        let file = dir.create_new(WITNESS).ok()?;
        // For its length alone. Without room for it, the records make it longer one by one.
        let _ = file.write_all_at(0, &[0; WITNESS_BYTES]);
        Some(Witness { file, next: 0 })
    }

    /// Notes that everything up to `durable_lsn`, whose record ends at `durable_offset` of the log `wal_id`, was synced. A failure is ignored.
    pub fn record(&mut self, wal_id: Uuid, durable_lsn: Lsn, durable_offset: u64) {
        let slot = WitnessSlot::encode(&WitnessRecord { wal_id, durable_lsn, durable_offset });
        if self.file.write_all_at((self.next * WITNESS_SLOT_BYTES) as u64, slot.as_bytes()).is_ok() {
            self.next = 1 - self.next;
        }
    }

    /// The record of the greatest durable lsn; `None`, which is no evidence and no error, when there is none. Read it before HEAD.
    ///
    /// # Errors
    /// `Io` when the system does not let it be read: what it says of commits that were synced would be missed.
    pub fn read(dir: &dyn Directory) -> Result<Option<WitnessRecord>> {
        let failed = |e| Error::io("reading WITNESS", e);
        let file = match dir.open(WITNESS) {
            Ok(file) => file,
            // Something else in its place says nothing either.
            Err(e) if [ErrorKind::NotFound, ErrorKind::InvalidInput, ErrorKind::IsADirectory].contains(&e.kind()) => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        let bytes = file.read_at_most(WITNESS_BYTES as u64).map_err(failed)?;
        Ok(records(&bytes).into_iter().flatten().max_by_key(|r| (r.durable_lsn, r.durable_offset)))
    }
}

/// Both records, each when it is there and valid.
fn records(bytes: &[u8]) -> [Option<WitnessRecord>; 2] {
    [0, 1].map(|index| WitnessSlot::decode(bytes.get(index * WITNESS_SLOT_BYTES..)?.get(..WITNESS_SLOT_BYTES)?).ok())
}
