//! The container of a segment: sections with checksums, and nothing about what they mean. Spec §9.
//!
//! A [`SegmentWriter`] streams sections into a file one after another; a [`SegmentReader`] checks the frame when it is opened and every
//! 4,096-byte block the first time it is touched, before anyone sees its bytes. Damage is [`crate::Error::Corrupt`] with file and offset,
//! never a shorter answer.
//!
//! | file | role |
//! | --- | --- |
//! | `writer.rs` | [`SegmentWriter`]: sections, block checksums, table, footer |
//! | `reader.rs` | [`SegmentReader`] and [`Section`]: verify, then view |
//! | `region.rs` | [`Region`]: a section that is touched here and there, very often |
//! | `touched.rs` | [`TouchedBytes`]: the start of a region, as an fst takes it |
//! | `tolerant.rs` | opening a segment whose frame is damaged |
//! | `memory.rs` | test support: a file in memory, for the rooms above too |

mod reader;
mod region;
mod tolerant;
mod touched;
mod writer;

pub use reader::{Section, SegmentReader};
pub use region::Region;
pub(crate) use region::is_set;
pub use touched::TouchedBytes;
pub use writer::{SegmentSummary, SegmentWriter};

#[cfg(test)]
pub(crate) mod memory;
#[cfg(test)]
mod tests;
