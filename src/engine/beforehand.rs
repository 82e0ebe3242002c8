//! What a rebuild looks at before it publishes anything, so that a refusal changes nothing: the primary data that it takes, and whether the
//! log can be brought in over what it made.

use super::open::{State, read_state, version};
use super::replay::replay;
use super::resolve::no_collection;
use super::segments::OpenFiles;
use super::verify::{Depth, NamedPart, check_part, check_sections, open_segment, parts_of};
use super::version::Catalog;
use crate::error::{Error, Result};
use crate::format::effects::CommitEffects;
use crate::format::manifest::{Manifest, SegmentEntry};
use crate::format::segment::SECTION_DERIVED;
use crate::ids::{Incarnation, Lsn, Uuid};
use crate::io::Directory;
use crate::options::IoMode;
use crate::tombstones::{TombstonesPart, TombstonesReader};
use roaring::RoaringBitmap;

/// A state that can be rebuilt.
pub(super) struct Found {
    pub(super) state: State,
    /// The dead rows of each segment of the collections to rebuild, in the order of the manifest; `None` for the other collections.
    pub(super) dead: Vec<Option<Vec<RoaringBitmap>>>,
    /// Whether the log names segments besides.
    pub(super) landed: bool,
}

/// Reads the state and all primary data that rebuilding takes: before the first byte is written. What only log records name is read too, of
/// every collection, for the checkpoint after it brings in all of them.
///
/// # Errors
/// `NotFound` when there is no collection of the name, in the manifest or after the log.
pub(super) fn find(dir: &dyn Directory, only: Option<&str>) -> Result<Found> {
    let state = read_state(dir, true)?;
    let wanted = only.map(|name| incarnation_of(&state, name)).transpose()?;
    let database = state.view.chosen.database;
    let mut dead = Vec::with_capacity(state.manifest.collections.len());
    for collection in &state.manifest.collections {
        let of_segments = || collection.segments.iter().map(|entry| check_primary(dir, database, entry)).collect::<Result<_>>();
        let is_wanted = wanted.is_none_or(|wanted| wanted == collection.incarnation);
        dead.push(is_wanted.then(of_segments).transpose().map_err(beyond_rebuilding)?);
    }
    let logged = parts_of(&Manifest::default(), &state.recovered.records)?;
    logged.iter().try_for_each(|part| check_part(dir, database, part, Depth::Primary)).map_err(beyond_rebuilding)?;
    Ok(Found { state, dead, landed: logged.iter().any(NamedPart::is_segment) })
}

/// The life of the collection that has this name once the log is brought in: a log may make, rename and drop collections.
fn incarnation_of(state: &State, name: &str) -> Result<Incarnation> {
    let mut catalog = Catalog::of(&state.manifest);
    for record in &state.recovered.records {
        let wrong = |what: String| Error::corrupt(&*record.file, record.offset, format!("record {}: {what}", record.lsn));
        let effects = CommitEffects::decode(&record.payload).map_err(|e| e.in_file(&record.file, record.offset))?;
        effects.catalog.iter().try_for_each(|change| catalog.apply(change)).map_err(wrong)?;
    }
    catalog.collections.get(name).map(|info| info.incarnation).ok_or_else(|| no_collection(name))
}

/// Reads every byte that cannot be made anew: the primary sections, and which rows are dead.
fn check_primary(dir: &dyn Directory, database: Uuid, entry: &SegmentEntry) -> Result<RoaringBitmap> {
    check_sections(&open_segment(dir, database, entry)?, |flags| flags & SECTION_DERIVED == 0)?;
    let Some(t) = &entry.tombstones else { return Ok(RoaringBitmap::new()) };
    let part = TombstonesPart { offset: t.offset, length: t.length, crc: t.crc };
    let rows = u32::try_from(entry.rows).unwrap_or(u32::MAX);
    TombstonesReader::open(dir, database, t.file)?.tombstones(part, rows).map(|(dead, _)| dead)
}

/// What to do when rebuilding cannot help.
pub(super) fn beyond_rebuilding(error: Error) -> Error {
    let Error::Corrupt(mut damage) = error else { return error };
    damage.what += ": this is primary data, which a rebuild cannot make anew";
    Error::Corrupt(damage)
}

/// Replays the log over a manifest that is not published yet, and reads what the checkpoint after it cannot do without, of every collection:
/// those that are not rebuilt may be damaged, and a log that kills rows of theirs could not be brought in. `all`: there are no such ones.
pub(super) fn refuse_log_that_cannot_be_brought_in(dir: &dyn Directory, state: &State, manifest: &Manifest, all: bool) -> Result<()> {
    let needed = |error: Error| needed(error, all);
    if state.recovered.records.is_empty() {
        return Ok(());
    }
    let (database, generation) = (state.view.chosen.database, state.view.chosen.generation);
    let mut files = OpenFiles::new(dir, database, IoMode::Pread);
    let mut version = version(&mut files, generation, manifest.clone())?;
    let catalog = Catalog::of(manifest);
    let (catalog, replayed) = replay(dir, database, &mut files, &mut version, catalog, &state.recovered.records).map_err(needed)?;
    for info in catalog.collections.values() {
        let segments = version.collections.get(&info.incarnation).map_or(&[][..], |c| &c.segments);
        for segment in segments.iter().filter(|s| s.log.between(Lsn(0), replayed.lsn).documents > 0) {
            segment.rooms().map_err(needed)?;
        }
    }
    Ok(())
}

/// Why damage elsewhere stops a rebuild.
fn needed(error: Error, all: bool) -> Error {
    let Error::Corrupt(mut damage) = error else { return error };
    damage.what += ": without it the log cannot be brought in, so nothing was rebuilt";
    damage.what += if all { "" } else { "; rebuilding every collection, not one, may make it anew" };
    Error::Corrupt(damage)
}
