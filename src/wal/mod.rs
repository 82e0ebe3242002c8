//! The write-ahead log: appending to it, and finding out after a crash what of it is true. Spec §5 and §7.
//!
//! A [`WalWriter`] appends records, one write a group, and syncs them. [`recover`] follows the logs from the active one back to the state
//! that the manifest holds, and tells a tail that was never synced from durable records that are damaged: the evidence is the greatest lsn
//! that any record, WITNESS or HEAD calls durable. [`Witness`] keeps the second of these three.
//!
//! What this room never does: it does not know what a payload says, it names no file in HEAD, it unlinks nothing, and it never changes a log
//! that an earlier process wrote.
//!
//! Invariants:
//! - The lsns of a log are contiguous, and so are those of linked logs.
//! - No block of 4,096 bytes that holds synced bytes is written again, [`WalWriter::cut_back`] excepted, which removes only unsynced ones.
//! - A record's `durable_lsn` counts only records written before the sync was issued that made them durable.
//! - A bad record at or below the evidence is corruption, never the end of the log; a bad record above it ends the log, whatever follows.
//! - An error of the operating system is an error, never the end of a log.
//!
//! | file | role |
//! | --- | --- |
//! | `writer.rs` | [`WalWriter`] |
//! | `witness.rs` | [`Witness`] |
//! | `reader.rs` | one log: its header, its records from the front, every header in it |
//! | `chain.rs` | the logs that hold the records after an lsn, and those that do not |
//! | `recovery.rs` | [`recover`]: the verdict |

mod chain;
mod reader;
mod recovery;
mod witness;
mod writer;

pub use crate::format::wal::Link;
pub use crate::format::witness::WitnessRecord;
pub use chain::reachable_logs;
pub use reader::has_no_records;
pub(crate) use reader::{LogFile, Walk};
pub use recovery::{LogEnd, LoggedRecord, Recovered, Tail, is_unchanged, recover};
pub use witness::{Witness, create_witness};
pub use writer::{NewRecord, WalWriter};

#[cfg(test)]
mod tests;
