//! `triune stats`: what the database holds, by collection.

use crate::args::{StatsArgs, Target};
use crate::output::{Counted, Name, Out, Outcome};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use triune::{Collection, CollectionStats, Effort, Health, RecallAudit, VectorBytes};

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
    /// What made the vectors, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    embedder: Option<String>,
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
    vector_bytes: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    recall: Option<Recall>,
}

/// What vectors and their graphs take on the disk, and in memory as far as they are used.
#[derive(Serialize)]
struct Bytes {
    vectors: u64,
    graphs: u64,
    links: u64,
    codes: u64,
}

impl Bytes {
    fn of(bytes: &VectorBytes) -> Bytes {
        Bytes { vectors: bytes.vectors, graphs: bytes.graphs, links: bytes.links, codes: bytes.codes }
    }
}

/// How much of the true nearest is found; only `sampled` when there is no vector.
#[derive(Serialize)]
struct Recall {
    sampled: u64,
    #[serde(flatten)]
    measured: Option<Measured>,
}

#[derive(Serialize)]
struct Measured {
    recall_at_10: f64,
    /// Of those sampled, how many got all ten.
    perfect: u64,
    /// Vector graphs that a search walked, on average.
    walks: f64,
    mean_us: f64,
    exact_mean_us: f64,
}

impl Recall {
    fn of(audit: &RecallAudit) -> Recall {
        let us = |took: Duration| took.as_secs_f64() * 1e6;
        let measured = (audit.sampled > 0).then(|| Measured {
            recall_at_10: audit.recall,
            perfect: audit.perfect,
            walks: audit.walks,
            mean_us: us(audit.took),
            exact_mean_us: us(audit.exact_took),
        });
        Recall { sampled: audit.sampled, measured }
    }

    /// For people.
    fn line(&self) -> String {
        let Some(m) = &self.measured else { return "no document has a vector, so there is no recall to measure".into() };
        format!(
            "recall@10 {:.4} of {}, {} of them complete; {:.3} ms a search ({:.1} vector graphs walked), {:.3} ms an exact one",
            m.recall_at_10,
            Counted(self.sampled, "stored vector"),
            m.perfect,
            m.mean_us / 1e3,
            m.walks,
            m.exact_mean_us / 1e3
        )
    }
}

/// Measures recall, with a bar on a terminal.
fn audit(collection: &Collection, n: u64) -> Outcome<Recall> {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {eta}").expect("the template is constant and parses");
    let bar = ProgressBar::new(n).with_style(style).with_message(format!("vectors of {} searched", collection.name()));
    let audit = collection.audit_recall_with(n, Effort::DEFAULT, |done, of| {
        bar.set_length(of);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    Ok(Recall::of(&audit?))
}

impl Numbers {
    fn of(collection: &Collection, cooccurrences: Option<u64>, recall: Option<Recall>) -> Outcome<Numbers> {
        let stats: CollectionStats = collection.stats()?;
        Ok(Numbers {
            embedder: collection.schema().embedder.clone(),
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
            vector_bytes: Bytes::of(&collection.vector_bytes()?),
            recall,
        })
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
        let recall = args.recall.map(|n| audit(&collection, n)).transpose()?;
        collections.insert(name, Numbers::of(&collection, cooccurrences, recall)?);
    }
    let health = if args.full { Some(Waiting::of(&database.health()?)) } else { None };
    let report = Report { collections, bytes: database.bytes_on_disk()?, generation: snapshot.generation().0, health };
    if out.json() {
        return out.object(&report);
    }
    for (name, n) in &report.collections {
        let name = Name(name);
        out.line(format_args!(
            "{name}: {}, {}, {}, {}, {}, {}",
            Counted(n.documents, "document"),
            Counted(n.sources, "source"),
            Counted(n.vectors, "vector"),
            Counted(n.terms, "term"),
            Counted(n.tokens, "token"),
            Counted(n.segments, "segment")
        ))?;
        let b = &n.vector_bytes;
        if b.vectors > 0 {
            out.line(format_args!(
                "{name}: {} bytes of vectors, {} of links and {} of codes in {}",
                b.vectors,
                b.links,
                b.codes,
                Counted(b.graphs, "vector graph")
            ))?;
        }
        if let Some(embedder) = &n.embedder {
            out.line(format_args!("{name}: vectors by the embedder {embedder}"))?;
        }
        if let Some(recall) = &n.recall {
            out.line(format_args!("{name}: {}", recall.line()))?;
        }
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
