//! What may happen to a database, as data that proptest can make and make smaller.
//!
//! Targets are small numbers rather than names: they are looked up in the model's state when the step comes, so that most of them mean
//! something and a shorter sequence still does.

use super::content::{crowd, entity, metadata, relation, source, text, vector};
use super::filters;
use super::model::Model;
use serde_json::Value;
use triune::options::Thresholds;
use triune::{
    Components, Document, Durability, Entity, ExtractorKind, Filter, Hnsw, IoMode, Metric, Options, Patch, Quantisation, Relation, Schema,
    Scorer, WriteBatch,
};

pub const IDS: [&str; 14] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "ü#1", "ü#2", "long id with spaces", "z"];
pub const SOURCES: [&str; 3] = ["one.md", "two.md", "drei.md"];
/// The most documents of a crowd.
pub const CROWD: u8 = 48;
pub const NAMES: [&str; 4] = ["main", "notes", "x", "Übersicht"];
pub const WORDS: [&str; 18] = [
    "red",
    "fox",
    "Fox",
    "the",
    "the",
    "The",
    "a_b",
    "Éclair",
    "naïve",
    "42",
    "...",
    "日本",
    "RAG",
    "Rag",
    "Paris",
    "and",
    "getUserId",
    "RAG,",
];
/// Some differ in letter case alone; some the extractor finds too.
pub const ENTITIES: [&str; 9] = ["RAG", "Rag", "Paris", "paris", "Zoë", "ZOË", "Fox Paris", "getUserId", "一"];

/// One call of a batch, with names.
#[derive(Debug, Clone)]
pub enum Write {
    Put {
        collection: String,
        documents: Vec<DocumentSpec>,
        insert: bool,
    },
    Patch {
        collection: String,
        patches: Vec<PatchSpec>,
    },
    Delete {
        collection: String,
        ids: Vec<String>,
    },
    DeleteWhere {
        collection: String,
        filter: Value,
    },
    DeleteSource {
        collection: String,
        source: String,
    },
    ReplaceSource {
        collection: String,
        source: String,
        documents: Vec<DocumentSpec>,
    },
    Clear {
        collection: String,
    },
    Create {
        name: String,
        dimension: Option<usize>,
        metric: Metric,
        components: Components,
        hnsw: Hnsw,
        scorer: Scorer,
        extractor: ExtractorKind,
        source_key: String,
    },
    Drop {
        name: String,
    },
    Rename {
        from: String,
        to: String,
    },
    Swap {
        a: String,
        b: String,
    },
}

#[derive(Debug, Clone)]
pub struct DocumentSpec {
    pub id: String,
    pub text: String,
    pub metadata: Option<String>,
    pub vector: Option<Vec<f32>>,
    pub source: Option<String>,
    pub entities: Option<Vec<Entity>>,
    pub relations: Option<Vec<Relation>>,
}

#[derive(Debug, Clone)]
pub struct PatchSpec {
    pub id: String,
    pub text: Option<String>,
    pub metadata: Option<String>,
    pub vector: Option<Option<Vec<f32>>>,
}

impl DocumentSpec {
    fn document(&self) -> Document {
        Document {
            id: self.id.clone(),
            text: self.text.clone(),
            metadata: self.metadata.as_ref().map(|m| triune::Metadata::from_json(m.as_str()).unwrap()),
            vector: self.vector.clone(),
            source: self.source.clone(),
            entities: self.entities.clone(),
            relations: self.relations.clone(),
        }
    }
}

impl PatchSpec {
    fn patch(&self) -> Patch {
        Patch {
            id: self.id.clone(),
            text: self.text.clone(),
            metadata: self.metadata.as_ref().map(|m| triune::Metadata::from_json(m.as_str()).unwrap()),
            vector: self.vector.clone(),
            ..Patch::default()
        }
    }
}

/// The batch as the library takes it.
pub fn write_batch(writes: &[Write]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    let documents = |specs: &[DocumentSpec]| specs.iter().map(DocumentSpec::document).collect::<Vec<_>>();
    for write in writes {
        match write.clone() {
            Write::Put { collection, documents: d, insert: false } => batch.put(collection, documents(&d)),
            Write::Put { collection, documents: d, insert: true } => batch.insert(collection, documents(&d)),
            Write::Patch { collection, patches } => batch.patch(collection, patches.iter().map(PatchSpec::patch).collect()),
            Write::Delete { collection, ids } => batch.delete(collection, ids),
            Write::DeleteWhere { collection, filter } => batch.delete_where(collection, Filter::parse(&filter.to_string()).unwrap()),
            Write::DeleteSource { collection, source } => batch.delete_source(collection, source),
            Write::ReplaceSource { collection, source, documents: d } => batch.replace_source(collection, source, documents(&d)),
            Write::Clear { collection } => batch.clear(collection),
            Write::Create { name, dimension, metric, components, hnsw, scorer, extractor, source_key } => {
                let dimension = dimension.map(|d| d as u32);
                let schema = Schema { dimension, metric, components, hnsw, scorer, extractor, source_key, ..Schema::default() };
                batch.create_collection(name, schema)
            }
            Write::Drop { name } => batch.drop_collection(name),
            Write::Rename { from, to } => batch.rename_collection(from, to),
            Write::Swap { a, b } => batch.swap_collections(a, b),
        };
    }
    batch
}

/// A document before it is known where it goes.
#[derive(Debug, Clone)]
pub struct Draft {
    pub id: u8,
    pub words: Vec<u8>,
    pub metadata: Option<(u8, u8)>,
    pub vector: Option<(u8, [i8; 3])>,
    pub source: Option<u8>,
    /// Name, mentions, and whether it has a kind.
    pub entities: Option<Vec<(u8, u8)>>,
    /// Names of both ends, weight, and what else it has.
    pub relations: Option<Vec<(u8, u8, u8)>>,
}

/// One call before it is known which collections there are.
#[derive(Debug, Clone)]
pub enum Call {
    Put {
        target: u8,
        drafts: Vec<Draft>,
    },
    /// `strict` 0 takes ids as they come; otherwise ids that are not there.
    Insert {
        target: u8,
        drafts: Vec<Draft>,
        strict: u8,
    },
    /// Which parts each draft changes: bits 0 text, 1 metadata, 2 vector.
    Patch {
        target: u8,
        drafts: Vec<(Draft, u8)>,
        strict: u8,
    },
    Delete {
        target: u8,
        ids: Vec<u8>,
    },
    /// The choices that draw the filter.
    DeleteWhere {
        target: u8,
        choices: Vec<u8>,
    },
    DeleteSource {
        target: u8,
        source: u8,
    },
    ReplaceSource {
        target: u8,
        source: u8,
        drafts: Vec<Draft>,
        strict: u8,
    },
    Clear {
        target: u8,
    },
    Create {
        name: u8,
        dimension: u8,
        /// And how components are stored, what walks compare, and whether graphs have hardly any links.
        metric: u8,
        scorer: bool,
        key: bool,
        /// Whether nothing is extracted.
        plain: bool,
    },
    Drop {
        target: u8,
    },
    Rename {
        target: u8,
        to: u8,
    },
    Swap {
        a: u8,
        b: u8,
    },
    /// Puts of so many vectors that a walk through them costs less than comparing them all, under ids of their own.
    Crowd {
        target: u8,
        count: u8,
        seed: u8,
    },
    /// Deletes of a crowd: so many of 8.
    Thin {
        target: u8,
        eighths: u8,
        seed: u8,
    },
    /// Puts that no log record holds.
    Oversize {
        target: u8,
        ids: Vec<u8>,
    },
}

/// What happens next.
#[derive(Debug, Clone)]
pub enum Step {
    Commit(Vec<Call>),
    /// Batches that meet in one group.
    Group(Vec<Vec<Call>>),
    /// A group, and work on files, while the disk has `room` bytes left.
    Full {
        room: u16,
        batches: Vec<Vec<Call>>,
        work: Work,
    },
    Checkpoint,
    Merge,
    Compact,
    /// Work on the files with commits in the middle of it, after `at` new files; those of `before` give it something to do.
    Amid {
        work: Work,
        at: u8,
        before: Vec<Vec<Call>>,
        batches: Vec<Vec<Call>>,
    },
    Close(Settings),
    /// The handle goes without a word, as when the process ends; `kill` gives the next process what a killed one leaves.
    Vanish {
        settings: Settings,
        kill: bool,
    },
    Keep,
    Forget(u8),
    /// A reader opens, or the one that is open refreshes.
    Read {
        settings: Settings,
    },
    StopReading,
}

#[derive(Debug, Clone, Copy)]
pub enum Work {
    Checkpoint,
    Merge,
    Compact,
}

/// Options, made smaller towards the plainest.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub tiny_memtable: bool,
    pub tiny_log: bool,
    pub fan_in: u8,
    pub pread: bool,
    pub buffered: bool,
    /// A record holds so little that many batches land as segments, and dying seqs go to files of their own.
    pub tiny_records: bool,
    /// From how many vectors on merges give a segment a graph; 0 leaves it at what it is for everybody, which no run reaches.
    pub graph_vectors: u8,
}

impl Settings {
    /// Whether a commit may start a checkpoint of its own.
    pub fn tiny(&self) -> bool {
        self.tiny_memtable || self.tiny_log
    }

    pub fn options(&self) -> Options {
        let plain = Thresholds::default();
        Options {
            durability: if self.buffered { Durability::Buffered } else { Durability::Sync },
            io_mode: if self.pread { IoMode::Pread } else { IoMode::Mmap },
            memtable_bytes: if self.tiny_memtable { 900 } else { 256 << 20 },
            wal_bytes: if self.tiny_log { 10_000 } else { 256 << 20 },
            background: false,
            merge_fan_in: usize::from(self.fan_in),
            build_threads: 1,
            observer: None,
            thresholds: Thresholds {
                graph_vectors: if self.graph_vectors > 0 { self.graph_vectors.into() } else { plain.graph_vectors },
                ..if self.tiny_records { Thresholds { record_bytes: 300, dead_inline_bytes: 22, ..plain } } else { plain }
            },
        }
    }
}

impl Call {
    /// The call with names, in the state that the model is in.
    pub fn name(&self, model: &Model) -> Write {
        let target = |t: u8| -> String {
            let names: Vec<&String> = model.collections.keys().collect();
            if t >= 250 || names.is_empty() { "nowhere".into() } else { names[usize::from(t) % names.len()].clone() }
        };
        let dimension = |name: &str| model.collections.get(name).and_then(|c| c.dimension);
        let documents = |name: &str, drafts: &[Draft]| drafts.iter().map(|d| d.document(dimension(name))).collect::<Vec<_>>();
        let live = |name: &str| -> Vec<String> {
            model.collections.get(name).map_or(Vec::new(), |c| c.documents.iter().map(|d| d.id.clone()).collect())
        };
        match self {
            Call::Put { target: t, drafts } => {
                let collection = target(*t);
                Write::Put { documents: documents(&collection, drafts), collection, insert: false }
            }
            Call::Insert { target: t, drafts, strict } => {
                let collection = target(*t);
                let mut documents = documents(&collection, drafts);
                if *strict > 0 {
                    documents.retain(|d| !live(&collection).contains(&d.id));
                    unique(&mut documents, |d| &d.id);
                }
                Write::Put { collection, documents, insert: true }
            }
            Call::Patch { target: t, drafts, strict } => {
                let collection = target(*t);
                let live = live(&collection);
                let mut patches: Vec<PatchSpec> = drafts.iter().map(|(d, parts)| d.patch(*parts, dimension(&collection))).collect();
                if *strict > 0 && !live.is_empty() {
                    for (p, (d, _)) in patches.iter_mut().zip(drafts) {
                        p.id = live[usize::from(d.id) % live.len()].clone();
                    }
                    unique(&mut patches, |p| &p.id);
                }
                Write::Patch { collection, patches }
            }
            Call::Delete { target: t, ids } => Write::Delete { collection: target(*t), ids: ids.iter().map(|&i| id(i)).collect() },
            Call::DeleteWhere { target: t, choices } => {
                let mut choices = choices.iter();
                let filter = filters::draw(&mut |below| choices.next().map_or(0, |c| usize::from(*c) % below), 2);
                Write::DeleteWhere { collection: target(*t), filter }
            }
            Call::DeleteSource { target: t, source: s } => Write::DeleteSource { collection: target(*t), source: source(*s) },
            Call::ReplaceSource { target: t, source: s, drafts, strict } => {
                let collection = target(*t);
                let mut documents = documents(&collection, drafts);
                if *strict > 0 {
                    for d in &mut documents {
                        (d.source, d.metadata) = (None, d.metadata.take().filter(|m| !m.contains(".md")));
                    }
                    unique(&mut documents, |d| &d.id);
                }
                Write::ReplaceSource { collection, source: source(*s), documents }
            }
            Call::Clear { target: t } => Write::Clear { collection: target(*t) },
            Call::Create { name, dimension, metric, scorer, key, plain } => {
                let free: Vec<&str> = NAMES.into_iter().filter(|n| !model.collections.contains_key(*n)).collect();
                let name = if *name >= 250 {
                    String::new()
                } else if *name >= 240 || free.is_empty() {
                    NAMES[usize::from(*name) % NAMES.len()].into()
                } else {
                    free[usize::from(*name) % free.len()].into()
                };
                Write::Create {
                    name,
                    dimension: [None, None, Some(2), Some(3), Some(3), Some(2), None, Some(0)][usize::from(*dimension % 8)]
                        .filter(|&d| d > 0 || *dimension > 200),
                    metric: [Metric::Cosine, Metric::Dot, Metric::L2][usize::from(*metric % 3)],
                    components: if *metric / 3 % 2 == 1 { Components::F16 } else { Components::F32 },
                    hnsw: Hnsw {
                        m: if *metric / 12 % 2 == 1 { 4 } else { 16 },
                        quantisation: if *metric / 6 % 2 == 1 { Quantisation::None } else { Quantisation::Sq7 },
                        ..Hnsw::default()
                    },
                    scorer: if *scorer { Scorer::Okapi } else { Scorer::Lucene },
                    extractor: if *plain { ExtractorKind::None } else { ExtractorKind::Compat },
                    source_key: if *key { "s" } else { "file_hash" }.into(),
                }
            }
            Call::Drop { target: t } => Write::Drop { name: target(*t) },
            Call::Rename { target: t, to } => Write::Rename { from: target(*t), to: NAMES[usize::from(*to) % NAMES.len()].into() },
            Call::Swap { a, b } => Write::Swap { a: target(*a), b: target(*b) },
            Call::Crowd { target: t, count, seed } => {
                let collection = target(*t);
                let dimension = dimension(&collection);
                Write::Put { documents: (0..*count).map(|i| crowd(i, *seed, dimension)).collect(), collection, insert: false }
            }
            Call::Thin { target: t, eighths, seed } => {
                let goes = |i: &u8| i.wrapping_mul(37).wrapping_add(*seed) % 8 < *eighths;
                Write::Delete { collection: target(*t), ids: (0..CROWD).filter(goes).map(|i| crowd(i, 0, None).id).collect() }
            }
            Call::Oversize { target: t, ids } => {
                let collection = target(*t);
                let document = |i: &u8| DocumentSpec {
                    id: id(*i),
                    text: format!("{}red fox", " ".repeat(4_300_000)),
                    metadata: None,
                    vector: dimension(&collection).map(|n| vec![f32::from(*i % 3); n]),
                    source: i.is_multiple_of(2).then(|| source(*i)),
                    entities: None,
                    relations: None,
                };
                let mut documents: Vec<DocumentSpec> = ids.iter().map(document).collect();
                unique(&mut documents, |d| &d.id);
                Write::Put { documents, collection, insert: false }
            }
        }
    }
}

fn unique<T>(all: &mut Vec<T>, id: impl Fn(&T) -> &String) {
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|x| seen.insert(id(x).clone()));
}

pub fn id(i: u8) -> String {
    IDS[usize::from(i) % IDS.len()].into()
}

impl Draft {
    fn document(&self, dimension: Option<usize>) -> DocumentSpec {
        DocumentSpec {
            id: if self.id == 255 { String::new() } else { id(self.id) },
            text: text(&self.words),
            metadata: self.metadata.map(metadata),
            vector: self.vector.map(|v| vector(v, dimension)),
            source: self.source.map(|s| if s == 255 { String::new() } else { source(s) }),
            entities: self.entities.as_ref().map(|all| all.iter().map(|e| entity(*e)).collect()),
            relations: self.relations.as_ref().map(|all| all.iter().map(|r| relation(*r)).collect()),
        }
    }

    fn patch(&self, parts: u8, dimension: Option<usize>) -> PatchSpec {
        PatchSpec {
            id: id(self.id),
            text: (parts & 1 != 0).then(|| text(&self.words)),
            metadata: self.metadata.filter(|_| parts & 2 != 0).map(metadata),
            vector: (parts & 4 != 0).then(|| self.vector.map(|v| vector(v, dimension))),
        }
    }
}
