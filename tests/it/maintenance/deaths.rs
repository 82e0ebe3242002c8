//! Deaths in damaged segments. A commit that was acknowledged is never in the way of the next one: whatever section of a segment is damaged, the
//! other collections are read and written, and the damaged one can be dropped.

use super::fixture::{copy, open, options};
use super::sections::{Section, flip, manifest_of, sections_of};
use std::sync::Arc;
use triune::format::segment::{BLOCK_BYTES, SectionKind};
use triune::inspect::{FsckOptions, FsckReport, fsck_directory};
use triune::io::SimDirectory;
use triune::maintenance::rebuild_directory;
use triune::{Database, Document, Entity, ErrorCode, IoMode, Metadata, Options, Result, Schema, Scorer};

/// Every third number is missing: seqs have to be stored.
fn numbers() -> impl Iterator<Item = usize> {
    (0..400).filter(|i| i % 3 != 0)
}

/// `common` stands in most documents, so that the mean idf over all terms floors its own.
fn document(i: usize) -> Document {
    let common = if i.is_multiple_of(5) { "" } else { "common" };
    let text = format!("{common} word{} Torn Tail number{i} x{}", i % 7, i * i);
    let document = Document::new(format!("d{i}")).text(text).source(format!("s{}", i % 4)).entities([Entity::new(format!("E{}", i % 9))]);
    let document = document.metadata(Metadata::from_json(format!("{{\"n\":{i}}}")).unwrap());
    if i.is_multiple_of(2) { document.vector([i as f32, 1.0, -1.0]) } else { document }
}

/// One segment of `main`, which has dead rows already, and a second collection. Closed.
fn closed() -> SimDirectory {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", Schema { scorer: Scorer::Okapi, ..Schema::default() }).unwrap();
    db.create_collection("other", Schema::default()).unwrap();
    db.put("main", (0..400).map(document).collect()).unwrap();
    db.delete("main", (0..400).filter(|i| i % 3 == 0).map(|i| format!("d{i}")).collect()).unwrap();
    db.compact().unwrap();
    db.delete("main", numbers().take(5).map(|i| format!("d{i}")).collect()).unwrap();
    db.close().unwrap();
    disk
}

#[derive(Clone, Copy, Debug)]
enum Death {
    Delete,
    Overwrite,
}

impl Death {
    fn commit(self, db: &Database) -> Result<()> {
        let ids = numbers().skip(9).step_by(20);
        match self {
            Death::Delete => db.delete("main", ids.map(|i| format!("d{i}")).collect()).map(drop),
            Death::Overwrite => db.put("main", ids.map(|i| Document::new(format!("d{i}")).text("common and new")).collect()).map(drop),
        }
    }
}

/// When the process ends, and when the damage comes.
#[derive(Clone, Copy, Debug)]
enum Life {
    /// Damaged before the commit; closed.
    Closed,
    /// Damaged before the commit; killed with the commit in the log alone.
    Killed,
    /// Damaged after the kill: the log is replayed over a segment that nobody could refuse to change.
    DamagedDead,
}

/// The largest section of a kind.
fn largest(disk: &SimDirectory, kind: SectionKind) -> Section {
    sections_of(disk).into_iter().filter(|s| s.kind == kind as u16).max_by_key(|s| s.length).unwrap()
}

/// One byte of every block of a section.
fn damage(disk: &SimDirectory, section: &Section) {
    (section.start..section.start + section.length).step_by(BLOCK_BYTES).for_each(|at| flip(disk, &section.file, at));
}

fn fsck(disk: &SimDirectory) -> FsckReport {
    fsck_directory(disk, &FsckOptions::level(3)).unwrap()
}

/// What text searches and counts say, to the last bit of a score.
fn answers(db: &Database) -> Vec<Result<String>> {
    let main = db.snapshot().collection("main").unwrap();
    let ask = |query: &str| {
        let found = main.best_texts(query, None, None, 500)?;
        Ok(format!("{:?}", found.iter().map(|h| (h.seq, h.score.to_bits())).collect::<Vec<_>>()))
    };
    let terms = main.stats().map(|s| format!("{} {} {}", s.documents, s.terms, s.tokens));
    vec![ask("common tail word3"), ask("number100 new"), terms]
}

/// Each is what the sound database says, or damage.
fn assert_exact_or_corrupt(db: &Database, sound: &[Result<String>], what: &str) {
    for (said, sound) in answers(db).iter().zip(sound) {
        match said {
            Ok(said) => assert_eq!(said, sound.as_ref().unwrap(), "{what}"),
            Err(e) => assert_eq!(e.code(), ErrorCode::Corrupt, "{what}: {e}"),
        }
    }
}

fn put_other(disk: &SimDirectory, id: &str, what: &str) {
    let db = Database::open_with(Arc::new(disk.clone()), options()).unwrap_or_else(|e| panic!("{what}: {e}"));
    db.put("other", vec![Document::new(id).text("hi")]).unwrap_or_else(|e| panic!("{what}: {e}"));
    db.checkpoint().unwrap_or_else(|e| panic!("{what}: {e}"));
    db.close().unwrap_or_else(|e| panic!("{what}: {e}"));
    let read = Database::open_read_only_with(Arc::new(disk.clone()), options()).unwrap();
    assert!(read.snapshot().collection("other").unwrap().get(id).unwrap().is_some(), "{what}");
}

/// A disk on which rows died beside the damage; `None` when the commit was refused.
fn die(sound: &SimDirectory, sections: &[&Section], death: Death, life: Life) -> Option<SimDirectory> {
    let disk = copy(sound);
    let all = |disk: &SimDirectory| sections.iter().for_each(|s| damage(disk, s));
    if !matches!(life, Life::DamagedDead) {
        all(&disk);
    }
    let db = open(&disk);
    if let Err(e) = death.commit(&db) {
        assert_eq!(e.code(), ErrorCode::Corrupt, "{e}");
        db.close().unwrap();
        return None;
    }
    if let Life::Closed = life {
        db.close().unwrap_or_else(|e| panic!("{:?} {death:?}: {e}", sections.iter().map(|s| s.kind).collect::<Vec<_>>()));
        return Some(disk);
    }
    let killed = copy(&disk.after_kill());
    drop(db);
    if let Life::DamagedDead = life {
        all(&killed);
    }
    Some(killed)
}

/// The same without damage.
fn sound_answers(sound: &SimDirectory, death: Death) -> Vec<Result<String>> {
    let disk = copy(sound);
    let db = open(&disk);
    death.commit(&db).unwrap();
    answers(&db)
}

/// What a log that names dead seqs cannot be replayed without: that it is damaged is said at open.
fn is_needed_to_replay(section: &Section) -> bool {
    let needed = [SectionKind::Seqs, SectionKind::VectorRows, SectionKind::Statistics];
    needed.iter().any(|kind| *kind as u16 == section.kind)
}

#[test]
fn a_death_in_a_damaged_segment_locks_nobody_out() {
    let sound = closed();
    let file = triune::io::names::FileName::Segments(manifest_of(&sound).1.collections[0].segments[0].file).to_string();
    let sections: Vec<Section> = sections_of(&sound).into_iter().filter(|s| s.file == file).collect();
    let mut died = 0;
    for death in [Death::Delete, Death::Overwrite] {
        let said = sound_answers(&sound, death);
        for (section, life) in sections.iter().flat_map(|s| [Life::Closed, Life::Killed, Life::DamagedDead].map(|life| (s, life))) {
            let what = format!("section {}, {death:?}, {life:?}", section.kind);
            let Some(disk) = die(&sound, &[section], death, life) else { continue };
            if matches!(life, Life::DamagedDead) && is_needed_to_replay(section) {
                let error = Database::open_with(Arc::new(disk.clone()), options()).unwrap_err();
                assert_eq!(error.code(), ErrorCode::Corrupt, "{what}");
                continue;
            }
            died += 1;
            put_other(&disk, "a", &what);
            assert_exact_or_corrupt(&open(&disk), &said, &what);
            // The index counts what the documents cannot be asked for.
            assert!(section.kind > 2 || answers(&open(&disk)).iter().all(Result::is_ok), "{what}");
            assert!(!fsck(&disk).is_clean(), "{what}");
            if section.derived {
                let mended = copy(&disk);
                rebuild_directory(Arc::new(mended.clone()), options(), None).unwrap();
                assert_eq!(format!("{:?}", answers(&open(&mended))), format!("{said:?}"), "{what}");
                assert!(fsck(&mended).is_clean(), "{what}: {:?}", fsck(&mended));
            }
            // Merging refuses what it cannot read, and writes on.
            let _ = open(&disk).compact();
            put_other(&disk, "b", &what);
            open(&disk).drop_collection("main").unwrap();
            put_other(&disk, "c", &what);
            assert!(fsck(&disk).is_clean(), "{what}");
        }
    }
    assert!(died > 60, "{died}");
}

#[test]
fn what_two_damages_keep_from_being_counted_is_counted_once_they_are_gone() {
    let sound = closed();
    let docs = largest(&sound, SectionKind::Docs);
    for (other, life) in [SectionKind::Postings, SectionKind::TermInfos]
        .map(|kind| largest(&sound, kind))
        .iter()
        .flat_map(|o| [(o, Life::Closed), (o, Life::Killed)])
    {
        let what = format!("sections {} and {}, {life:?}", docs.kind, other.kind);
        let said = sound_answers(&sound, Death::Delete);
        let disk = die(&sound, &[&docs, other], Death::Delete, life).unwrap();
        put_other(&disk, "a", &what);
        assert_exact_or_corrupt(&open(&disk), &said, &what);
        // The counts were not written; with readable postings nobody needs them to be.
        damage(&disk, other);
        assert_eq!(format!("{:?}", answers(&open(&disk))), format!("{said:?}"), "{what}");
        damage(&disk, &docs);
        assert!(!fsck(&disk).is_clean(), "{what}");
        rebuild_directory(Arc::new(disk.clone()), options(), None).unwrap();
        assert_eq!(format!("{:?}", answers(&open(&disk))), format!("{said:?}"), "{what}");
        assert!(fsck(&disk).is_clean(), "{what}");
    }
}

/// A checkpoint goes on without those counts, and so does the rebuild that ends in one.
#[test]
fn counts_that_damage_hides_stop_no_rebuild_of_another_collection() {
    let sound = closed();
    put_other(&sound, "segment", "before the damage");
    let [docs, postings] = [SectionKind::Docs, SectionKind::Postings].map(|kind| largest(&sound, kind));
    let disk = die(&sound, &[&docs, &postings], Death::Delete, Life::Killed).unwrap();
    assert_eq!(rebuild_directory(Arc::new(disk.clone()), options(), Some("other")).unwrap().segments, 1);
    put_other(&disk, "a", "rebuilt beside damage");
    assert_exact_or_corrupt(&open(&disk), &sound_answers(&sound, Death::Delete), "rebuilt beside damage");
}

#[test]
fn a_read_that_fails_is_no_damage() {
    let disk = closed();
    let docs = largest(&disk, SectionKind::Docs);
    let pread = Options { io_mode: IoMode::Pread, ..options() };
    let db = Database::open_with(Arc::new(disk.clone()), pread).unwrap();
    Death::Delete.commit(&db).unwrap();
    (docs.start..docs.start + docs.length).step_by(BLOCK_BYTES).for_each(|at| disk.fail_reads(&docs.file, at));
    assert_eq!(db.checkpoint().unwrap_err().code(), ErrorCode::Io);
}
