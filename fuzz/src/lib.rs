//! What the fuzz targets do with the bytes they get; `tests/seeds.rs` does the same with the seeds that are kept.
//!
//! A decoder takes bytes; if it accepts them, its value is encoded and decoded again, and must be the same value. Refusing is always fine.
//! Panicking, overflowing, hanging, and holding more than 64 MiB and 16 times the input in memory is a defect.
//!
//! | target | what | specification |
//! | --- | --- | --- |
//! | `state` | slots of HEAD, records of WITNESS, manifests and their invariants | 4 to 6 |
//! | `log` | headers, records, effects, document versions, and the scan of a whole log | 7, 8 |
//! | `segment` | the frame of a segment, blocks of documents, ids, seqs, id maps, sources | 9, 10 |
//! | `indexes` | postings, terms, vectors, vector graphs and codes, lists of the metadata index and of the graph, tombstones, dictionaries | 11 to 13, 19, 21, 22 |
//! | `sections` | segments of any sections, through every reader | 9 to 12a, 19 |
//! | `input` | what people hand over: documents, filters, queries, NumPy files | |
//! | `dump` | dumps, restored and dumped again | 20 |
//! | `image` | whole directories with damage behind sound checksums: opened, read, written, described, checked, salvaged | all |
//!
//! A target of several decoders takes the number of one from its first byte.

mod allocation;
pub mod dump;
pub mod image;
pub mod indexes;
pub mod input;
pub mod log;
pub mod sections;
pub mod segment;
pub mod state;

// Modules of the command line, which is no library.
#[allow(dead_code, reason = "the command line uses more of it")]
#[path = "../../tools/src/jsonl.rs"]
mod jsonl;
#[allow(dead_code, reason = "the command line uses more of it")]
#[path = "../../tools/src/npy.rs"]
mod npy;
#[allow(dead_code, reason = "the command line uses more of it")]
#[path = "../../tools/src/output.rs"]
mod output;

use std::sync::Once;

/// What a target may hold in memory beside 16 times its input.
const BYTES_HELD_MAX: usize = 64 << 20;

/// What a target does with its bytes.
pub type Target = fn(&[u8]);

/// Every target by its name.
pub const TARGETS: [(&str, Target); 8] = [
    ("state", state::fuzz),
    ("log", log::fuzz),
    ("segment", segment::fuzz),
    ("indexes", indexes::fuzz),
    ("sections", sections::fuzz),
    ("input", input::fuzz),
    ("dump", dump::fuzz),
    ("image", image::fuzz),
];

/// Runs a target, which is ended when it asks for more memory than its input is worth. One at a time in a process.
pub fn run(target: Target, bytes: &[u8]) {
    static HOOK: Once = Once::new();
    // The report of a panic needs memory that the target may not have.
    HOOK.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            allocation::allow_all();
            report(panic);
        }));
    });
    allocation::allow(BYTES_HELD_MAX + 16 * bytes.len());
    target(bytes);
    allocation::allow_all();
}

/// Hands the bytes behind the first one to the decoder that the first one chooses.
pub(crate) fn dispatch(bytes: &[u8], decoders: &[Target]) {
    if let Some((first, rest)) = bytes.split_first() {
        decoders[usize::from(*first) % decoders.len()](rest);
    }
}

/// The first `N` bytes, and those after them; zeros stand for what is missing.
pub(crate) fn split<const N: usize>(bytes: &[u8]) -> ([u8; N], &[u8]) {
    let (first, rest) = bytes.split_at(bytes.len().min(N));
    let mut padded = [0; N];
    padded[..first.len()].copy_from_slice(first);
    (padded, rest)
}

/// A number of 8 bytes in front, and what follows it.
pub(crate) fn number(bytes: &[u8]) -> (u64, &[u8]) {
    let (word, rest) = split::<8>(bytes);
    (u64::from_le_bytes(word), rest)
}

/// Makes the checksum at the end of an fst fit, if there is one.
pub(crate) fn seal_fst(fst: &mut [u8]) {
    if let Some((body, checksum)) = fst.split_last_chunk_mut::<4>() {
        *checksum = triune::format::transducer::masked_crc32c(body).to_le_bytes();
    }
}

/// Makes the checksum of the fst in a section of this kind fit; `aux` is what the table says.
pub(crate) fn seal_dictionary(kind: u16, aux: u64, section: &mut [u8]) {
    use triune::format::segment::SectionKind;
    match SectionKind::from_number(kind) {
        Some(SectionKind::Terms) => {
            if let Some(fst) = usize::try_from(aux).ok().and_then(|length| section.get_mut(..length)) {
                seal_fst(fst);
            }
        }
        Some(SectionKind::Entities | SectionKind::MetadataTerms) => seal_fst(section),
        _ => {}
    }
}
