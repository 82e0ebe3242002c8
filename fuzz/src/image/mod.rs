//! Whole directories: a sound database, a few edits, every checksum made to fit again, and then everything that can be done with it.
//!
//! The first byte chooses the database (of `tests/fixtures`), the second one how it is read and whether checksums are made to fit. The rest
//! are edits of [`EDIT_BYTES`] bytes each.
//!
//! | file | role |
//! | --- | --- |
//! | `layout.rs` | where the structures of a sound database stand |
//! | `edit.rs` | what an edit changes |
//! | `seal.rs` | makes the checksums fit, from the inside out |
//! | `exercise.rs` | opens, reads, writes, describes |

mod edit;
mod exercise;
mod layout;
mod seal;

pub use edit::EDIT_BYTES;

use crate::split;
use layout::Layout;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;
use triune::IoMode;
use triune::io::SimDirectory;

/// Edits beyond these are not made: what they do can be done by fewer.
const EDITS_MAX: usize = 32;

/// The files of a database by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A sound database.
struct Sound {
    files: Files,
    layout: Layout,
}

pub fn fuzz(bytes: &[u8]) {
    let ([which, mode], edits) = split::<2>(bytes);
    let sound = sound();
    let sound = &sound[usize::from(which) % sound.len()];
    let mut files = sound.files.clone();
    for edit in edits.as_chunks::<EDIT_BYTES>().0.iter().take(EDITS_MAX) {
        edit::apply(edit, &sound.layout, &mut files);
    }
    if mode & 2 == 0 {
        seal::seal(&sound.layout, &mut files);
    }
    let dir = SimDirectory::new();
    files.into_iter().for_each(|(name, bytes)| dir.write_file(&name, bytes));
    let io_mode = if mode & 1 == 0 { IoMode::Mmap } else { IoMode::Pread };
    exercise::read_only(&dir, io_mode);
    exercise::describe(&dir);
    exercise::write(&dir, io_mode, mode & 4 == 0);
}

/// What there is to damage, in the order of names.
fn sound() -> &'static [Sound] {
    static SOUND: OnceLock<Vec<Sound>> = OnceLock::new();
    SOUND.get_or_init(|| {
        let versions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
        let databases = entries(&versions).into_iter().flat_map(|version| entries(&version));
        let read = |folder: std::path::PathBuf| {
            let names = entries(&folder).into_iter().map(|path| (name(&path), path));
            let files = names
                .filter(|(name, _)| !name.starts_with("expected"))
                .map(|(name, path)| (name, std::fs::read(path).expect("it is there")));
            let files: Files = files.collect();
            Sound { layout: Layout::of(&files), files }
        };
        databases.map(read).collect()
    })
}

fn entries(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().and_then(|name| name.to_str()).expect("names are ASCII").to_string()
}
