//! What keeps a database safe over years: dumps, backups, and what to do when a file is damaged.
//!
//! [`dump()`] writes the content as canonical text and [`restore()`] makes a database of it. [`backup()`] copies a
//! database that is in use. [`rebuild()`] makes what is derived from documents anew; [`salvage()`]
//! saves what is left of a damaged database into a new one. [`upgrade()`] brings one to a newer format.
//!
//! What this room never does: open a file by itself (the engine and `inspect` do), decide what a byte means, or change a database
//! otherwise than through the engine. Whatever it makes is whole, or is not there.
//!
//! | file | role |
//! | --- | --- |
//! | `dump.rs` | [`dump()`]: the content of a snapshot as text |
//! | `restore.rs` | [`restore()`]: a new database out of a dump |
//! | `rebuild.rs` | [`rebuild()`]: derived sections anew |
//! | `salvage.rs` | [`salvage()`]: a new database out of what is left of one |
//! | `upgrade.rs` | [`upgrade()`]: the version of the format |
//! | `backup.rs` | [`backup()`]: a database out of another's files |

mod backup;
mod dump;
mod rebuild;
mod restore;
mod salvage;
mod upgrade;

pub use backup::{BackupOptions, BackupReport, backup, backup_into};
pub use dump::{DumpReport, dump};
pub use rebuild::{RebuildReport, rebuild, rebuild_directory};
pub use restore::{RestoreReport, restore, restore_into};
pub use salvage::{Loss, LossKind, Salvage, SalvageReport, salvage, save, survey, write_salvaged};
pub use upgrade::{UpgradeReport, upgrade, upgrade_directory};
