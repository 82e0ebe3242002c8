//! What stands where in a file, field by field, whether or not it makes sense.

use crate::ids::Uuid;
use zerocopy::little_endian::{U16, U32, U64};

/// A structure of a file as it stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    /// Where it starts, in bytes from the start of the file.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// What it is.
    pub name: String,
    /// What is wrong with it, its checksum first of all; `None` when it is sound.
    pub problem: Option<String>,
    /// What it says or does, in a line; empty where its fields say everything.
    pub says: String,
    /// Its fields, in the order of their offsets.
    pub fields: Vec<Field>,
}

/// A field of a structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Where it starts, in bytes from the start of the file.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Its name in the specification.
    pub name: &'static str,
    /// What stands there.
    pub value: String,
}

/// How a field is shown. Checksums are shown in hexadecimal, because people compare them.
pub(super) trait Show {
    fn show(&self, name: &str) -> String;
}

impl Show for U64 {
    fn show(&self, _: &str) -> String {
        self.to_string()
    }
}

impl Show for U32 {
    fn show(&self, name: &str) -> String {
        if name.contains("crc") || name == "magic" { format!("{:#010x}", self.get()) } else { self.to_string() }
    }
}

impl Show for U16 {
    fn show(&self, name: &str) -> String {
        if name == "flags" { format!("{:#06x}", self.get()) } else { self.to_string() }
    }
}

impl Show for u8 {
    fn show(&self, _: &str) -> String {
        format!("{self:#04x}")
    }
}

impl<const N: usize> Show for [U32; N] {
    fn show(&self, name: &str) -> String {
        self.map(|n| n.show(name)).join(", ")
    }
}

impl<const N: usize> Show for [U16; N] {
    fn show(&self, name: &str) -> String {
        self.map(|n| n.show(name)).join(", ")
    }
}

impl<const N: usize> Show for [u8; N] {
    fn show(&self, name: &str) -> String {
        let identity = || <[u8; 16]>::try_from(&self[..]).ok();
        match name {
            "reserved" | "padding" => match self.iter().filter(|&&b| b != 0).count() {
                0 => "zeros".to_string(),
                bad => format!("{bad} bytes are not zero"),
            },
            "database" | "id" | "wal_id" | "link_id" => identity().map_or_else(String::new, |id| Uuid(id).to_string()),
            _ => self.escape_ascii().to_string(),
        }
    }
}

/// The fields of a struct of the file format that was read at `$base`.
macro_rules! fields {
    ($base:expr, $value:expr, $type:ty { $($field:ident),+ $(,)? }) => {
        vec![$($crate::inspect::raw::Field {
            offset: $base + std::mem::offset_of!($type, $field) as u64,
            bytes: size_of_val(&$value.$field) as u64,
            name: stringify!($field),
            value: $crate::inspect::raw::Show::show(&$value.$field, stringify!($field)),
        }),+]
    };
}
pub(super) use fields;

impl Structure {
    /// A structure with its fields.
    pub(super) fn new(offset: u64, bytes: u64, name: impl Into<String>, problem: Option<String>, fields: Vec<Field>) -> Structure {
        Structure { offset, bytes, name: name.into(), problem, says: String::new(), fields }
    }

    /// The same structure, saying something.
    pub(super) fn saying(self, says: impl Into<String>) -> Structure {
        Structure { says: says.into(), ..self }
    }
}
