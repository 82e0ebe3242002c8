//! Makes the derived sections of segments anew from the primary ones, whether or not they are damaged.
//!
//! Every segment of the manifest is written again with the same rows, dead ones too, in the same order: rows, seqs and the ordinals of terms
//! stay what they were. Its tombstones are written again with their rows, and with document frequencies that are counted anew, as are the
//! totals of the collection. No derived section is read. The new manifest is published as a merge
//! publishes one; the old files stay until then, and nothing is changed when primary data turns out to be damaged (`beforehand.rs`), here or where
//! the log needs it.

use super::beforehand::{Found, beyond_rebuilding, find, refuse_log_that_cannot_be_brought_in};
use super::files::{Files, NewFile};
use super::flush::{DerivedBuilder, fill};
use super::open::{self, State, refuse_missing, take_lock};
use super::segments::OpenFiles;
use super::verify::{check_sections, open_segment};
use crate::docstore::{RowsBuilder, RowsReader, content_hash};
use crate::error::{Error, Result};
use crate::format::head::HeadState;
use crate::format::manifest::{Manifest, SegmentEntry, TombstoneEntry};
use crate::format::segment::BLOCK_BYTES;
use crate::ids::{Lsn, Uuid};
use crate::io::Directory;
use crate::io::names::{self, FileName};
use crate::manifest::{Publisher, write_manifest};
use crate::memtable::{Analysis, Totals};
use crate::options::{IoMode, Options, Schema};
use crate::segment::SegmentWriter;
use crate::text::{Analyzer, Posting, TextBuilder};
use crate::tombstones::{TombstonesPart, TombstonesWriter};
use crate::vector::{VectorsBuilder, VectorsReader};
use roaring::RoaringBitmap;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What was rebuilt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RebuildReport {
    /// Segments that were written again.
    pub segments: u64,
    /// Their rows, dead ones too.
    pub rows: u64,
    /// Bytes of the new segments.
    pub bytes: u64,
}

/// Rebuilds one collection, or all of them. A log that was not checkpointed is brought into segments.
///
/// # Errors
/// One that does not say what stands came before anything was published.
pub(crate) fn rebuild(dir: &Arc<dyn Directory>, options: Options, only: Option<&str>) -> Result<RebuildReport> {
    let (mut report, landed) = pass(dir, &options, only)?;
    let quiet = Options { background: false, ..options.clone() };
    let noted = |e: Error, rest: &str| if report.segments > 0 { e.noting(&format!("what was rebuilt stands; {rest}")) } else { e };
    // The ordinary end of opening: what the log holds goes into segments, and what nothing reaches any more goes.
    let opened = open::open_writer(dir.clone(), quiet.clone()).and_then(|(core, _)| core.checkpoint().map(|()| core));
    let core = opened.map_err(|e| noted(e, "only the log was not brought into segments, which the next opening tries again"))?;
    core.wait_for_garbage().map_err(|e| e.noting(GARBAGE))?;
    drop(core);
    if landed {
        // Segments that only log records named: the manifest names them now.
        let second = pass(dir, &options, only).map_err(|e| {
            e.noting("what was rebuilt before stands, and so does the log in segments; only segments that the log named were not rebuilt")
        });
        report = second?.0;
        let opened = open::open_writer(dir.clone(), quiet).and_then(|(core, _)| core.wait_for_garbage());
        opened.map_err(|e| e.noting(GARBAGE))?;
    }
    Ok(report)
}

/// What is said when only the last step failed.
const GARBAGE: &str = "the rebuild stands; only removing files that nothing names any more failed, and the next compaction tries again";

/// Rebuilds what the manifest names; whether the log names segments besides. After an error nothing is changed, unless it is `OutcomeUnknown`.
fn pass(dir: &Arc<dyn Directory>, options: &Options, only: Option<&str>) -> Result<(RebuildReport, bool)> {
    refuse_missing(dir.as_ref())?;
    restore_lock(dir.as_ref(), only)?;
    let _lock = take_lock(dir.as_ref())?;
    let Found { state, dead, landed } = find(dir.as_ref(), only)?;
    let mut report = RebuildReport::default();
    if dead.iter().flatten().all(Vec::is_empty) {
        return Ok((report, landed));
    }
    let present = dir.list().map_err(|e| Error::io("listing the database directory", e))?;
    let files = Files::new(dir.clone(), &present);
    let mut publisher = settled(dir.as_ref(), &state)?;
    let mut made = Vec::new();
    let result = write_all(dir, options, &files, &state, dead, &mut made, &mut report).and_then(|manifest| {
        refuse_log_that_cannot_be_brought_in(dir.as_ref(), &state, &manifest, only.is_none())?;
        publish(dir.as_ref(), &files, &mut publisher, &state, &manifest)
    });
    match result {
        Ok(()) => Ok((report, landed)),
        // HEAD may name them.
        Err(e @ Error::OutcomeUnknown(_)) => Err(e),
        Err(e) => {
            made.into_iter().for_each(|file| drop(dir.unlink(&file.to_string())));
            Err(e)
        }
    }
}

/// HEAD written once more before anything else is changed, when what it rests on is synced.
fn settled(dir: &dyn Directory, state: &State) -> Result<Publisher> {
    for &sequence in &state.recovered.logs {
        let name = FileName::Wal(sequence).to_string();
        let synced = dir.open_writable(&name).and_then(|log| log.sync());
        synced.map_err(|e| Error::io(format!("syncing {name}"), e))?;
    }
    let mut publisher = Publisher::open(dir, &state.view)?;
    publisher.settle()?;
    Ok(publisher)
}

/// Bytes after which a file takes no further segment.
const SHARED_BYTES: u64 = 16 << 20;

/// A file that segments are written to, one behind the other: there may be more of them than a process may have files open or mapped.
struct Shared {
    file: NewFile,
    /// Where the next one starts.
    end: u64,
    /// How many there are.
    segments: u32,
}

impl Shared {
    /// The file for the next segment: the one before, or another one when that holds enough, and is whole then. `made` gets its name.
    fn next<'a>(current: &'a mut Option<Shared>, files: &Files, made: &mut Vec<FileName>) -> Result<&'a mut Shared> {
        if let Some(full) = current.take_if(|shared| shared.end >= SHARED_BYTES) {
            full.file.sync()?;
        }
        if let Some(shared) = current {
            return Ok(shared);
        }
        let file = files.create(FileName::Segments)?;
        made.push(FileName::Segments(file.number()));
        Ok(current.insert(Shared { file, end: 0, segments: 0 }))
    }

    /// Where the next segment goes.
    fn writer(&self, database: Uuid) -> SegmentWriter {
        let (file, number) = (self.file.handle().clone(), self.file.number());
        SegmentWriter::new(file, self.file.name(), database, number, self.segments, self.end)
    }

    /// Notes that a segment was written.
    fn add(&mut self, entry: &SegmentEntry) {
        self.end = (entry.offset + entry.length).next_multiple_of(BLOCK_BYTES as u64);
        self.segments += 1;
    }
}

/// Writes every wanted segment again and gives the manifest that names them; `made` has the names of the files. Nobody collects garbage
/// meanwhile: the writer's lock is held.
fn write_all(
    dir: &Arc<dyn Directory>,
    options: &Options,
    files: &Files,
    state: &State,
    dead: Vec<Option<Vec<RoaringBitmap>>>,
    made: &mut Vec<FileName>,
    report: &mut RebuildReport,
) -> Result<Manifest> {
    let (mut manifest, database) = (state.manifest.clone(), state.view.chosen.database);
    let applied = manifest.applied_lsn;
    let wanted = manifest.collections.iter_mut().zip(dead).filter_map(|(collection, dead)| Some((collection, dead?)));
    let mut current = None;
    for (collection, dead) in wanted {
        (collection.documents, collection.tokens, collection.vectors) = (0, 0, 0);
        for (entry, dead) in collection.segments.iter_mut().zip(dead) {
            let shared = Shared::next(&mut current, files, made)?;
            let new =
                write_segment(dir.as_ref(), options, database, shared, entry, &dead, &collection.schema).map_err(beyond_rebuilding)?;
            shared.add(&new.entry);
            *entry = new.entry;
            if !dead.is_empty() {
                let file = files.create(FileName::Tombstones)?;
                made.push(FileName::Tombstones(file.number()));
                let part = TombstonesWriter::of(file.handle().clone(), database, file.number())?.only(&dead, &new.dead_frequencies)?;
                let TombstonesPart { offset, length, crc } = part;
                let before = entry.tombstones.take().map(|t| t.unknown).unwrap_or_default();
                entry.tombstones = Some(TombstoneEntry { file: file.number(), offset, length, crc, dead: dead.len(), unknown: before });
            }
            read_back(dir.as_ref(), database, entry, &collection.schema, applied)?;
            collection.documents += new.live.documents;
            collection.tokens += new.live.tokens;
            collection.vectors += new.live.vectors;
            report.segments += 1;
            report.rows += entry.rows;
            report.bytes += entry.length;
        }
    }
    current.map_or(Ok(()), |shared: Shared| shared.file.sync())?;
    Ok(manifest)
}

/// A segment that was written again.
struct Rebuilt {
    entry: SegmentEntry,
    /// What its live rows add to the totals.
    live: Totals,
    /// In how many dead rows each term stands, by ordinal.
    dead_frequencies: Vec<(u32, u32)>,
}

/// Makes LOCK when it is missing. Its content means nothing, and no writer opens without it. What has no state to rebuild gets none.
fn restore_lock(dir: &dyn Directory, only: Option<&str>) -> Result<()> {
    let present = dir.list().map_err(|e| Error::io("listing the database directory", e))?;
    if present.iter().any(|name| name == names::LOCK) {
        return Ok(());
    }
    find(dir, only)?;
    super::create::make(dir, names::LOCK, b"")?;
    dir.sync().map_err(|e| Error::io("syncing the database directory", e))
}

/// Writes one segment again from its primary sections.
fn write_segment(
    dir: &dyn Directory,
    options: &Options,
    database: Uuid,
    shared: &Shared,
    old: &SegmentEntry,
    dead: &RoaringBitmap,
    schema: &Schema,
) -> Result<Rebuilt> {
    let segment = open_segment(dir, database, old)?;
    let rows = RowsReader::open(&segment, old.base_seq)?;
    let vectors = VectorsReader::open(&segment)?;
    vectors.as_ref().map_or(Ok(()), |v| v.check_components(schema.components))?;
    let mut out = shared.writer(database);
    let mut derived = DerivedBuilder::new(schema.derivation());
    let mut terms: FxHashMap<Box<str>, Vec<Posting>> = FxHashMap::default();
    let mut lengths = Vec::with_capacity(rows.rows() as usize);
    let (mut content, mut live, mut before) = (0u64, Totals::default(), None);
    let (mut documents, mut scanner) = (RowsBuilder::begin(&mut out)?, rows.scanner());
    for row in 0..rows.rows() {
        let mut document = scanner.document(row)?;
        let seq = rows.seq_after(row, before)?;
        before = Some(seq);
        documents.push(&mut out, seq.0 - old.base_seq.0, &document)?;
        derived.add(row, &document)?;
        let text = Analysis::of_text(schema.analyzer, &document.text);
        lengths.push(text.tokens);
        let tokens = text.tokens;
        for (term, frequency) in text.terms {
            terms.entry(term).or_default().push(Posting { row, frequency });
        }
        if let Some(vectors) = &vectors {
            document.vector = vectors.get(row)?.map(|v| v.into_owned().into());
        }
        content = content.wrapping_add(content_hash(&document));
        if !dead.contains(row) {
            live += Totals { documents: 1, tokens: u64::from(tokens), vectors: u64::from(document.vector.is_some()) };
        }
    }
    documents.finish(&mut out)?;
    if let Some(vectors) = &vectors {
        let mut builder = VectorsBuilder::begin(&mut out, vectors.dimension(), schema.components)?;
        vectors.for_each(|row, vector| builder.push(&mut out, row, vector))?;
        builder.finish(&mut out, rows.rows())?;
        super::graphs::write_anew(options, &mut out, vectors, schema)?;
    }
    let tokens = lengths.iter().map(|&l| u64::from(l)).sum();
    let mut text = TextBuilder::begin(&mut out, &Analyzer::new(schema.analyzer), lengths)?;
    let mut terms: Vec<_> = terms.into_iter().collect();
    terms.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    terms.iter().try_for_each(|(term, postings)| text.term(&mut out, term.as_bytes(), postings))?;
    let in_dead = |postings: &[Posting]| postings.iter().filter(|p| dead.contains(p.row)).count() as u32;
    let counted = (0u32..).zip(&terms).map(|(ordinal, (_, postings))| (ordinal, in_dead(postings)));
    let dead_frequencies = counted.filter(|(_, count)| *count > 0).collect();
    text.finish(&mut out)?;
    derived.finish(&mut out)?;
    let found = [u64::from(rows.rows()), vectors.as_ref().map_or(0, |v| u64::from(v.count())), content];
    let named = [old.rows, old.vectors, old.content_hash];
    if found != named {
        let what = format!("rows, vectors and content hash are {found:?} here, the manifest says {named:?}");
        return Err(Error::corrupt(segment.file(), old.offset, what));
    }
    let mut entry = SegmentEntry { tokens, ..old.clone() };
    fill(&mut entry, shared.file.number(), out.finish()?);
    Ok(Rebuilt { entry, live, dead_frequencies })
}

/// Holds what was written against its checksums and the manifest, before it is named.
fn read_back(dir: &dyn Directory, database: Uuid, new: &SegmentEntry, schema: &Schema, applied: Lsn) -> Result<()> {
    check_sections(&open_segment(dir, database, new)?, |_| true)?;
    OpenFiles::new(dir, database, IoMode::Pread).handle(new, schema.components, Lsn(0), applied)?.rooms().map(drop)
}

fn publish(dir: &dyn Directory, files: &Files, publisher: &mut Publisher, state: &State, manifest: &Manifest) -> Result<()> {
    let manifest_number = files.next_number()?;
    let written = write_manifest(dir, manifest_number, state.view.chosen.database, manifest);
    let synced = written.and_then(|w| dir.sync().map(|()| w).map_err(|e| Error::io("syncing the database directory", e)));
    let (manifest_length, manifest_crc) = match synced {
        Ok(written) => written,
        Err(e) => {
            let _ = dir.unlink(&FileName::Manifest(manifest_number).to_string());
            return Err(e);
        }
    };
    let head = HeadState { manifest_number, manifest_length, manifest_crc, ..publisher.current().clone() };
    publisher.publish(&head).map(drop).map_err(|e| Error::OutcomeUnknown(format!("publishing HEAD failed: {e}. Open the database again")))
}
