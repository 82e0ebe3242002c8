//! Dumps: what is restored from one has a dump that restores to the same, byte for byte. Hash and counts of the trailer are made to fit.

use sha2::{Digest, Sha256};
use std::sync::Arc;
use triune::io::SimDirectory;
use triune::{Database, Options, maintenance};

/// Lines of a dump; more do nothing that fewer cannot.
const LINES_MAX: usize = 64;

pub fn fuzz(bytes: &[u8]) {
    let _ = restored(bytes);
    let Some(db) = restored(&with_trailer(bytes)) else { return };
    let first = dumped(&db);
    let again = restored(&first).expect("what was dumped can be restored");
    assert!(dumped(&again) == first, "the dump of what was restored is another one");
}

/// The lines, and a trailer that fits them: every line that is no header and no collection counts as a document.
fn with_trailer(bytes: &[u8]) -> Vec<u8> {
    let (mut dump, mut collections, mut documents) = (Vec::new(), 0, 0);
    let lines = bytes.split_inclusive(|b| *b == b'\n').filter(|line| !line.starts_with(b"{\"end\""));
    for (i, line) in lines.take(LINES_MAX).enumerate() {
        collections += u32::from(line.starts_with(b"{\"collection\""));
        documents += u32::from(i > 0 && !line.starts_with(b"{\"collection\""));
        dump.extend_from_slice(line);
    }
    if !dump.ends_with(b"\n") {
        dump.push(b'\n');
    }
    let hash: String = Sha256::digest(&dump).iter().map(|b| format!("{b:02x}")).collect();
    let trailer = format!("{{\"end\":true,\"collections\":{collections},\"documents\":\"{documents}\",\"sha256\":\"{hash}\"}}\n");
    dump.extend_from_slice(trailer.as_bytes());
    dump
}

fn options() -> Options {
    Options { background: false, ..Options::default() }
}

fn restored(dump: &[u8]) -> Option<Database> {
    let dir = Arc::new(SimDirectory::new());
    maintenance::restore_into(dir.clone(), options(), dump).ok()?;
    Some(Database::open_read_only_with(dir, options()).expect("what was restored can be opened"))
}

fn dumped(db: &Database) -> Vec<u8> {
    let mut dump = Vec::new();
    maintenance::dump(&db.snapshot(), None, &mut dump).expect("what was restored can be dumped");
    dump
}
