//! What keeps a database safe over years: dumps, backups, and what to do when a file is damaged.
//!
//! [`dump`] writes the content as canonical text and [`restore`] makes a database of it.
//!
//! What this room never does: open a file by itself (the engine and `inspect` do), decide what a byte means, or change the database that it
//! was asked to read. Whatever it makes is whole, or is not there.
//!
//! | file | role |
//! | --- | --- |
//! | `dump.rs` | [`dump`]: the content of a snapshot as text |
//! | `restore.rs` | [`restore`]: a new database out of a dump |

mod dump;
mod restore;

pub use dump::{DumpReport, dump};
pub use restore::{RestoreReport, restore, restore_into};
