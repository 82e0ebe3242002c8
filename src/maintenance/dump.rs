//! Writes the content of a snapshot as text: the same content gives the same bytes. Spec §20.

use crate::engine::Snapshot;
use crate::error::{Error, Result};
use crate::format::dump::{CollectionLine, Count, DUMP_VERSION, HeaderLine, TrailerLine, encode_document};
use sha2::{Digest, Sha256};
use std::io::Write;

/// What a dump holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DumpReport {
    /// Collections.
    pub collections: u64,
    /// Documents of all of them.
    pub documents: u64,
    /// Bytes of the dump.
    pub bytes: u64,
    /// SHA-256 of every byte before the trailer's line, as the trailer says it.
    pub sha256: String,
}

/// Writes all collections of a snapshot, or those named, to `out`, which is flushed and not synced. O(bytes) time; memory for one document.
///
/// # Errors
/// `NotFound` for a name that is no collection, before anything is written; `Io` when `out` fails; `Corrupt` when a file is damaged. After an
/// error what was written is no dump: it lacks the trailer.
///
/// ```
/// # use triune::{Database, Document, Schema};
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = Database::create(dir.path().join("db"))?;
/// db.create_collection("notes", Schema::default())?;
/// db.put("notes", vec![Document::new("a").text("hello")])?;
/// let mut text = Vec::new();
/// triune::maintenance::dump(&db.snapshot(), None, &mut text)?;
/// triune::maintenance::restore(dir.path().join("copy"), text.as_slice())?;
/// let copy = Database::open(dir.path().join("copy"))?;
/// assert_eq!(&*copy.snapshot().collection("notes")?.get("a")?.expect("it was dumped").text, "hello");
/// # Ok::<(), triune::Error>(())
/// ```
pub fn dump(snapshot: &Snapshot, collections: Option<&[String]>, out: impl Write) -> Result<DumpReport> {
    let mut names = match collections {
        None => snapshot.collections(),
        Some(names) => names.to_vec(),
    };
    names.sort_unstable();
    names.dedup();
    let collections = names.iter().map(|name| snapshot.collection(name)).collect::<Result<Vec<_>>>()?;
    let count = u32::try_from(collections.len()).map_err(|_| Error::LimitExceeded("a dump holds at most 2^32 - 1 collections".into()))?;
    let mut to = Sink { out, hash: Sha256::new(), bytes: 0, line: Vec::new() };
    to.line(|line| HeaderLine { triune_dump: DUMP_VERSION, collections: count }.encode(line))?;
    let mut documents = 0;
    for collection in &collections {
        let line = CollectionLine {
            collection: collection.name().into(),
            schema: collection.schema().clone(),
            documents: Count(collection.count()),
        };
        to.line(|out| line.encode(out))?;
        let mut found = 0;
        for document in collection.scan().with_vectors(true) {
            let (_, document) = document?;
            found += 1;
            to.line(|line| encode_document(&document, line))?;
        }
        if found != collection.count() {
            let what = format!("collection {:?} counts {} documents, and {found} were found", collection.name(), collection.count());
            return Err(Error::corrupt("the dump", to.bytes, what));
        }
        documents += found;
    }
    let sha256 = hex(&to.hash.clone().finalize());
    let trailer = TrailerLine { end: true, collections: count, documents: Count(documents), sha256: sha256.clone() };
    to.line(|line| trailer.encode(line))?;
    to.out.flush().map_err(|e| Error::io("writing the dump", e))?;
    Ok(DumpReport { collections: u64::from(count), documents, bytes: to.bytes, sha256 })
}

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Where lines go, and what went there.
struct Sink<W> {
    out: W,
    hash: Sha256,
    bytes: u64,
    line: Vec<u8>,
}

impl<W: Write> Sink<W> {
    fn line(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        self.line.clear();
        encode(&mut self.line);
        self.hash.update(&self.line);
        self.bytes += self.line.len() as u64;
        self.out.write_all(&self.line).map_err(|e| Error::io("writing the dump", e))
    }
}
