//! HEAD and manifests: which state is the database's, and how another becomes it. Spec §4 and §6.
//!
//! HEAD's two slots name a manifest and the active log. [`read_head`] says which slot counts; a [`Publisher`] makes another state count, and
//! is the only writer of HEAD. Manifests are written once, synced, named, and never changed.
//!
//! What this room never does: it unlinks nothing, opens no segment and no log, and decides nothing from a file that is missing other than
//! that it is missing.
//!
//! Invariants:
//! - At every instant at least one slot is whole, synced, and names files that were synced before it was written.
//! - A slot that passes its checksum and needs a newer version is never a reason to use the other one.
//! - A writer's first write is [`Publisher::settle`]; [`Publisher::publish`] refuses to run before it.
//!
//! | file | role |
//! | --- | --- |
//! | `head.rs` | reads the slots and chooses |
//! | `publish.rs` | [`Publisher`]: writes the slots |
//! | `store.rs` | writes and reads manifest files |
//! | `invariants.rs` | what every manifest must be |

mod head;
mod invariants;
mod publish;
mod store;

pub use crate::format::head::HeadState;
pub use head::{HeadVerdict, HeadView, is_unfinished, read_head};
pub use invariants::check;
pub use publish::{Publisher, create_head, create_unfinished_head};
pub use store::{read_manifest, write_manifest};

#[cfg(test)]
mod tests;
