//! Dumps, backups, repairs: what they keep, what they refuse, and what a crash in the middle of them leaves.
//!
//! | file | holds |
//! | --- | --- |
//! | `fixture.rs` | a small database with everything odd in it, and dumps of one |
//! | `dumping.rs` | dump and restore |
//! | `backing_up.rs` | backup |
//! | `building.rs` | builders |
//! | `ledgers.rs` | what the ledger of a salvage says |
//! | `rebuilding.rs` | rebuild |
//! | `salvaging.rs` | salvage |
//! | `salvaging_state.rs` | salvage, when HEAD, manifests and logs do not fit together or cannot be read |
//! | `upgrading.rs` | upgrade |
//! | `deaths.rs` | deaths in damaged segments: nobody is locked out |
//! | `vector_graphs.rs` | rebuild and salvage of vector graphs |
//! | `sections.rs` | where sections stand |

mod backing_up;
mod building;
mod deaths;
mod dumping;
mod fixture;
mod ledgers;
mod rebuilding;
mod salvaging;
mod salvaging_state;
mod sections;
mod upgrading;
mod vector_graphs;
