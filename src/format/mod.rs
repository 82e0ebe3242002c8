//! Bytes and structs: what every file holds, section by section of `format-spec.md`. Pure: no files, no clocks, no state.
//!
//! All integers are little-endian. Every structure has an `encode`, which a valid value cannot fail, and a `decode`, which checks length,
//! magic, version, checksum and limits in that order and returns a [`FormatError`] that says what was expected and what was found.

pub mod checksum;
pub mod error;
pub mod segment;
pub mod vectors;

pub use error::FormatError;
