//! What may happen to a file: bytes changed, cut, appended, zeroed; files removed, swapped, put back to an older state.

use std::fmt;
use std::sync::Arc;
use triune::io::SimDirectory;

/// Bytes that a disk writes at once.
const SECTOR: usize = 512;
/// Bytes that a file system writes at once.
const BLOCK: usize = 4096;

/// One damage.
#[derive(Debug, Clone)]
pub enum Mutation {
    /// A byte becomes another.
    Byte { file: String, at: usize, change: Change },
    /// The file ends here.
    Truncate { file: String, len: usize },
    /// Bytes that nobody wrote follow it.
    Append { file: String, bytes: Vec<u8> },
    /// A block of 4,096 bytes holds zeros.
    ZeroBlock { file: String, block: usize },
    /// Two blocks of 4,096 bytes hold each other's bytes.
    SwapBlocks { file: String, a: usize, b: usize },
    /// A block of 4,096 bytes stands twice, and all after it one block later.
    RepeatBlock { file: String, block: usize },
    /// A sector of 512 bytes holds what another one should: a write that went to the wrong place.
    Misplace { file: String, from: usize, to: usize },
    /// The name is gone.
    Delete { file: String },
    /// Two files hold each other's bytes.
    Swap { a: String, b: String },
    /// The file holds the bytes of another time or another database.
    Replace { file: String, bytes: Arc<Vec<u8>>, by: &'static str },
}

#[derive(Debug, Clone, Copy)]
pub enum Change {
    Flip(u8),
    Zero,
}

impl Change {
    pub const ALL: [Change; 3] = [Change::Flip(0x01), Change::Flip(0x80), Change::Zero];

    fn of(self, byte: u8) -> u8 {
        match self {
            Change::Flip(bits) => byte ^ bits,
            Change::Zero => 0,
        }
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mutation::Byte { file, at, change } => write!(f, "{file} byte {at} {change:?}"),
            Mutation::Truncate { file, len } => write!(f, "{file} cut to {len}"),
            Mutation::Append { file, bytes } => write!(f, "{file} with {} bytes appended", bytes.len()),
            Mutation::ZeroBlock { file, block } => write!(f, "{file} block {block} zeroed"),
            Mutation::SwapBlocks { file, a, b } => write!(f, "{file} blocks {a} and {b} swapped"),
            Mutation::RepeatBlock { file, block } => write!(f, "{file} block {block} stands twice"),
            Mutation::Misplace { file, from, to } => write!(f, "{file} sector {to} holds sector {from}"),
            Mutation::Delete { file } => write!(f, "{file} deleted"),
            Mutation::Swap { a, b } => write!(f, "{a} and {b} swapped"),
            Mutation::Replace { file, by, .. } => write!(f, "{file} replaced by {by}"),
        }
    }
}

impl Mutation {
    /// The kind, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Mutation::Byte { .. } => "byte changed",
            Mutation::Truncate { .. } => "truncated",
            Mutation::Append { .. } => "garbage appended",
            Mutation::ZeroBlock { .. } => "block zeroed",
            Mutation::SwapBlocks { .. } => "blocks swapped",
            Mutation::RepeatBlock { .. } => "block repeated",
            Mutation::Misplace { .. } => "sector misplaced",
            Mutation::Delete { .. } => "deleted",
            Mutation::Swap { .. } => "swapped",
            Mutation::Replace { .. } => "replaced",
        }
    }

    /// The file that an error about this damage may name: when there is one, only that.
    pub fn file(&self) -> Option<&str> {
        match self {
            Mutation::Byte { file, .. }
            | Mutation::Truncate { file, .. }
            | Mutation::Append { file, .. }
            | Mutation::ZeroBlock { file, .. }
            | Mutation::SwapBlocks { file, .. }
            | Mutation::RepeatBlock { file, .. }
            | Mutation::Misplace { file, .. }
            | Mutation::Delete { file } => Some(file),
            Mutation::Swap { .. } | Mutation::Replace { .. } => None,
        }
    }

    /// A copy of `image` with this damage; `None` when it changes nothing.
    pub fn apply(&self, image: &SimDirectory) -> Option<SimDirectory> {
        let damaged = image.snapshot();
        let read = |file: &str| image.read_file(file).unwrap();
        match self {
            Mutation::Byte { file, at, change } => {
                let mut bytes = read(file);
                let changed = change.of(bytes[*at]);
                if changed == bytes[*at] {
                    return None;
                }
                bytes[*at] = changed;
                damaged.write_file(file, bytes);
            }
            Mutation::Truncate { file, len } => damaged.write_file(file, &read(file)[..*len]),
            Mutation::Append { file, bytes } => damaged.write_file(file, [read(file), bytes.clone()].concat()),
            Mutation::ZeroBlock { file, block } => {
                let mut bytes = read(file);
                let from = block * BLOCK;
                let to = (from + BLOCK).min(bytes.len());
                if bytes[from..to].iter().all(|&b| b == 0) {
                    return None;
                }
                bytes[from..to].fill(0);
                damaged.write_file(file, bytes);
            }
            Mutation::SwapBlocks { file, a, b } => {
                let before = read(file);
                let mut blocks: Vec<&[u8]> = before.chunks(BLOCK).collect();
                blocks.swap(*a, *b);
                let bytes = blocks.concat();
                if bytes == before {
                    return None;
                }
                damaged.write_file(file, bytes);
            }
            Mutation::RepeatBlock { file, block } => {
                let bytes = read(file);
                let end = ((block + 1) * BLOCK).min(bytes.len());
                damaged.write_file(file, [&bytes[..end], &bytes[block * BLOCK..]].concat());
            }
            Mutation::Misplace { file, from, to } => {
                let mut bytes = read(file);
                let before = bytes.clone();
                let len = SECTOR.min(bytes.len() - from.max(to) * SECTOR);
                bytes.copy_within(from * SECTOR..from * SECTOR + len, to * SECTOR);
                if bytes == before {
                    return None;
                }
                damaged.write_file(file, bytes);
            }
            Mutation::Delete { file } => damaged.remove_file(file),
            Mutation::Swap { a, b } => {
                damaged.write_file(a, read(b));
                damaged.write_file(b, read(a));
            }
            Mutation::Replace { file, bytes, .. } => {
                if read(file) == **bytes {
                    return None;
                }
                damaged.write_file(file, bytes.to_vec());
            }
        }
        Some(damaged)
    }
}

/// The positions of a file that are tried one by one: all in a whole sweep, else of runs of one byte (padding) both ends and a sample. Of a run
/// of more than 64 KiB, which only BALLAST has, it is always a sample: its bytes mean nothing, and there are a million of them.
pub fn positions(bytes: &[u8]) -> Vec<usize> {
    const EDGE: usize = 16;
    let mut chosen = Vec::new();
    let mut from = 0;
    for run in bytes.chunk_by(|a, b| a == b) {
        let step = match (run.len() > 1 << 16, super::whole()) {
            (true, true) => 1021,
            (true, false) => 1 << 17,
            (false, true) => 1,
            (false, false) => 61,
        };
        chosen.extend((0..run.len()).filter(|i| *i < EDGE || run.len() - i <= EDGE || i % step == 0).map(|i| from + i));
        from += run.len();
    }
    chosen
}

/// Every damage to one file that needs no other file.
pub fn alone(image: &SimDirectory, file: &str) -> Vec<Mutation> {
    let bytes = image.read_file(file).unwrap();
    let name = || file.to_string();
    let mut all = Vec::new();
    for at in positions(&bytes) {
        all.extend(Change::ALL.map(|change| Mutation::Byte { file: name(), at, change }));
        all.push(Mutation::Truncate { file: name(), len: at });
    }
    all.extend((0..bytes.len().div_ceil(BLOCK)).map(|block| Mutation::ZeroBlock { file: name(), block }));
    for garbage in [
        vec![0],
        vec![0xff; 3],
        vec![0; 5000],
        b"WLR\x8d garbage that begins like a record".repeat(120),
        bytes[..bytes.len().min(8192)].to_vec(),
    ] {
        all.push(Mutation::Append { file: name(), bytes: garbage });
    }
    // Of BALLAST, which is all alike, a few blocks tell as much as all; no other file of a small database has so many.
    let blocks = bytes.len().div_ceil(BLOCK).min(if super::whole() { usize::MAX } else { 64 });
    all.extend((0..blocks).map(|block| Mutation::RepeatBlock { file: name(), block }));
    let pairs = (0..blocks).flat_map(|a| (a + 1..blocks).map(move |b| (a, b)));
    all.extend(pairs.map(|(a, b)| Mutation::SwapBlocks { file: name(), a, b }));
    let sectors = bytes.len().div_ceil(SECTOR);
    if sectors <= 128 {
        let pairs = (0..sectors).flat_map(|from| (0..sectors).map(move |to| (from, to)));
        all.extend(pairs.filter(|(from, to)| from != to).map(|(from, to)| Mutation::Misplace { file: name(), from, to }));
    }
    all.push(Mutation::Truncate { file: name(), len: 0 });
    all.push(Mutation::Delete { file: name() });
    all
}

/// Every pair of files of one kind, exchanged.
pub fn swaps(image: &SimDirectory) -> Vec<Mutation> {
    let names = image.file_names();
    let kind = |name: &str| name.split_once('.').map(|(_, kind)| kind.to_string());
    let mut all = Vec::new();
    for (i, a) in names.iter().enumerate() {
        all.extend(
            names[i + 1..]
                .iter()
                .filter(|b| kind(a).is_some() && kind(a) == kind(b))
                .map(|b| Mutation::Swap { a: a.clone(), b: b.clone() }),
        );
    }
    all
}

/// Every file, put back to what it was in another image, and everything that image has under the names of its kind; of files that are
/// written in place, each sector and each block alone too, as when one write was lost.
pub fn replacements(image: &SimDirectory, other: &SimDirectory, by: &'static str) -> Vec<Mutation> {
    let kind = |name: &str| name.split_once('.').map_or(name.to_string(), |(_, kind)| kind.to_string());
    let mut all = Vec::new();
    for file in image.file_names() {
        for older in other.file_names().iter().filter(|older| kind(older) == kind(&file)) {
            let older = other.read_file(older).unwrap();
            let current = image.read_file(&file).unwrap();
            if !file.contains('.') && older.len() == current.len() && older.len() <= 1 << 16 {
                for size in [SECTOR, BLOCK] {
                    for at in (0..current.len()).step_by(size) {
                        let mut mixed = current.clone();
                        let end = (at + size).min(mixed.len());
                        mixed[at..end].copy_from_slice(&older[at..end]);
                        all.push(Mutation::Replace { file: file.clone(), bytes: Arc::new(mixed), by });
                    }
                }
            }
            all.push(Mutation::Replace { file: file.clone(), bytes: Arc::new(older), by });
        }
    }
    all
}
