//! `triune stats`: what the database holds, by collection.

use crate::args::{StatsArgs, Target};
use crate::output::{Counted, Out, Outcome};
use serde::Serialize;
use std::collections::BTreeMap;
use triune::{CollectionStats, Health};

#[derive(Serialize)]
struct Report {
    collections: BTreeMap<String, Numbers>,
    bytes: u64,
    generation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<Waiting>,
}

/// What of a database's health shows on the disk: a writer beside this command has the rest.
#[derive(Serialize)]
struct Waiting {
    /// Bytes in memory of commits that stand in the log alone: what the next open replays.
    memtable_bytes: u64,
    merge_segments: u64,
    merge_bytes: u64,
    /// Files that the state does not need; those that a writer is making at this moment are among them.
    garbage_files: u64,
    garbage_bytes: u64,
}

impl Waiting {
    fn of(health: &Health) -> Waiting {
        Waiting {
            memtable_bytes: health.memtable_bytes,
            merge_segments: health.merges.segments,
            merge_bytes: health.merges.bytes,
            garbage_files: health.garbage.files,
            garbage_bytes: health.garbage.bytes,
        }
    }
}

#[derive(Serialize)]
struct Numbers {
    documents: u64,
    sources: u64,
    vectors: u64,
    terms: u64,
    tokens: u64,
    entities: u64,
    mentions: u64,
    relations: u64,
    segments: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cooccurrences: Option<u64>,
}

impl Numbers {
    fn of(stats: &CollectionStats, cooccurrences: Option<u64>) -> Numbers {
        Numbers {
            documents: stats.documents,
            sources: stats.sources,
            vectors: stats.vectors,
            terms: stats.terms,
            tokens: stats.tokens,
            entities: stats.entities,
            mentions: stats.mentions,
            relations: stats.relations,
            segments: stats.segments,
            cooccurrences,
        }
    }
}

pub(crate) fn run(args: &StatsArgs, out: &mut Out) -> Outcome<()> {
    let database = super::open_for_reading(&args.database)?;
    let snapshot = database.snapshot();
    let names = args.collection.clone().map_or_else(|| snapshot.collections(), |name| vec![name]);
    let mut collections = BTreeMap::new();
    for name in names {
        let target = Target { database: args.database.clone(), collection: name.clone() };
        let collection = super::collection(&snapshot, &target)?;
        let cooccurrences = if args.full { Some(collection.cooccurrences()?) } else { None };
        collections.insert(name, Numbers::of(&collection.stats()?, cooccurrences));
    }
    let health = if args.full { Some(Waiting::of(&database.health()?)) } else { None };
    let report = Report { collections, bytes: database.bytes_on_disk()?, generation: snapshot.generation().0, health };
    if out.json() {
        return out.object(&report);
    }
    for (name, n) in &report.collections {
        out.line(format_args!(
            "{name}: {}, {}, {}, {}, {}, {}",
            Counted(n.documents, "document"),
            Counted(n.sources, "source"),
            Counted(n.vectors, "vector"),
            Counted(n.terms, "term"),
            Counted(n.tokens, "token"),
            Counted(n.segments, "segment")
        ))?;
        if let Some(pairs) = n.cooccurrences {
            out.line(format_args!(
                "{name}: {}, {}, {}, {} of entities in common documents",
                if n.entities == 1 { "1 entity".to_string() } else { format!("{} entities", n.entities) },
                Counted(n.mentions, "mention"),
                Counted(n.relations, "relation"),
                Counted(pairs, "pair")
            ))?;
        }
    }
    if let Some(w) = &report.health {
        out.line(format_args!(
            "waiting: {} for merges ({} bytes), {} of garbage ({} bytes), {} bytes in memory that only the log holds",
            Counted(w.merge_segments, "segment"),
            w.merge_bytes,
            Counted(w.garbage_files, "file"),
            w.garbage_bytes,
            w.memtable_bytes
        ))?;
    }
    out.line(format_args!("{} bytes on disk, generation {}", report.bytes, report.generation))
}
