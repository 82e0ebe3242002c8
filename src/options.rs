//! How a database and its collections behave, and every limit, with unit and default.

use crate::error::{Error, Result};
use crate::progress::{Observer, Progress};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Every documented limit.
pub mod limits {
    /// Bytes of an id, a source, a collection name or an entity name (at least 1).
    pub const NAME_BYTES_MAX: usize = 1024;
    /// Bytes of one document's metadata.
    pub const METADATA_BYTES_MAX: usize = 1 << 20;
    /// Nesting depth of one document's metadata.
    pub const METADATA_DEPTH_MAX: usize = 64;
    /// Bytes of one document's text.
    pub const TEXT_BYTES_MAX: usize = 64 << 20;
    /// Bytes of one document's entities and relations: their names, types and descriptions, and 32 for each of them.
    pub const GRAPH_BYTES_MAX: usize = 4 << 20;
    /// The greatest lsn, seq, incarnation, generation or number of a file. None comes near it; damage behind a sound checksum may.
    pub const COUNTER_MAX: u64 = (1 << 63) - 1;
    /// Components of a vector.
    pub const DIMENSION_MAX: usize = 65_535;
    /// Hits that one search may ask for.
    pub const K_MAX: usize = 1_000_000;
    /// Rows of a segment.
    pub const SEGMENT_ROWS_MAX: u64 = 1 << 31;
    /// Bytes of a log record's payload; a larger batch lands as a segment.
    pub const RECORD_BYTES_MAX: usize = 8 << 20;
    /// Bytes that a log may hold beyond its last synced byte.
    pub const UNSYNCED_BYTES_MAX: u64 = 16 << 20;
    /// Threads that are started to build a graph, however many are asked for: each takes memory and addresses.
    pub const BUILD_THREADS_MAX: usize = 1_024;
}

/// When a commit counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Synced to the disk before it is acknowledged: survives a power cut.
    #[default]
    Sync,
    /// Handed to the operating system: survives the end of the process, not a power cut. At most 16 MiB are ever unsynced.
    Buffered,
    /// As `Buffered`, and synced in the background within this time (1 ms at least); without [`Options::background`], before it is
    /// acknowledged.
    Interval(Duration),
}

/// How files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoMode {
    /// Immutable files are mapped into memory. A medium that fails under the map ends the process with a bus error.
    #[default]
    Mmap,
    /// As `Mmap`, but links and codes of vector graphs are copied into memory of their own, in large pages where the system has them, when they
    /// are first searched: searches are a little faster and nothing else that uses memory can slow them down.
    Pinned,
    /// Every read is a system call with its own check. Slower; never a bus error.
    Pread,
}

/// How a database handle behaves. Nothing of it is stored.
#[derive(Debug, Clone)]
pub struct Options {
    /// The durability of commits that do not name their own. Default: [`Durability::Sync`].
    pub durability: Durability,
    /// How files are read. Default: [`IoMode::Mmap`].
    pub io_mode: IoMode,
    /// Bytes of committed, unflushed documents after which they are flushed to a segment. Default: 64 MiB.
    pub memtable_bytes: usize,
    /// Bytes after which the log is rotated by a checkpoint. Default: 64 MiB.
    pub wal_bytes: u64,
    /// Whether checkpoints and merges run on a thread of their own. Without it they run inside the commit that makes them due.
    /// Default: true.
    pub background: bool,
    /// How many adjacent segments of like size are merged into one. Default: 8.
    pub merge_fan_in: usize,
    /// Threads that build a vector graph. 0 stands for as many as there are cores; above 1,024 are taken for that many, and where the
    /// system has fewer, those that there are do the work. The graph is the same with any number. Default: 0.
    pub build_threads: usize,
    /// Who is told how far merges, compactions, rebuilds and builders have come. Default: nobody.
    pub observer: Option<Observer>,
    /// Sizes at which a commit takes another path. For tests; what is written stays the same format.
    #[doc(hidden)]
    pub thresholds: Thresholds,
}

/// Sizes at which a commit takes another path, below the limits of the format that hold in any case. Tests lower them, so that small batches
/// take these paths too.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Thresholds {
    /// Bytes of a log record's payload above which the batch lands as a segment.
    pub record_bytes: usize,
    /// Bytes of an encoded set of dying seqs above which it goes to a file of its own.
    pub dead_inline_bytes: usize,
    /// Vectors of a segment from which on a merge builds a graph over them.
    pub graph_vectors: u32,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds { record_bytes: usize::MAX, dead_inline_bytes: usize::MAX, graph_vectors: 10_000 }
    }
}

impl Options {
    /// Tells the observer, if there is one.
    pub(crate) fn tell(&self, progress: Progress) {
        if let Some(observer) = &self.observer {
            observer.tell(progress);
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            durability: Durability::default(),
            io_mode: IoMode::default(),
            memtable_bytes: 64 << 20,
            wal_bytes: 64 << 20,
            background: true,
            merge_fan_in: 8,
            build_threads: 0,
            observer: None,
            thresholds: Thresholds::default(),
        }
    }
}

macro_rules! named_enum {
    ($(#[$doc:meta])* $name:ident, $what:literal, $($(#[$vdoc:meta])* $variant:ident = $text:literal),+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $text)] $variant),+
        }

        impl $name {
            /// The stable spelling.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(s: &str) -> Result<Self> {
                match s {
                    $($text => Ok($name::$variant),)+
                    _ => Err(Error::InvalidArgument(format!(concat!("{:?} is not ", $what, "; known: {}"), s, [$($text),+].join(", ")))),
                }
            }
        }
    };
}

/// How hard a vector search tries where a segment has a graph. Scores are exact in any case; what differs is whether a document that belongs
/// among the nearest may be missing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Effort {
    /// As hard as finds this share of the true nearest, 0 to 1, by what was measured on members of each segment when its graph was built. A
    /// share that no walk reached there is looked for as hard as a search looks by itself.
    Recall(f64),
    /// A walk keeps this many candidates (the `ef` of the HNSW paper), and at least as many as hits are asked for.
    Ef(usize),
    /// Every vector is compared: nothing is missing.
    Exact,
}

impl Effort {
    /// What a search looks for that does not say: 98 of 100.
    pub const DEFAULT: Effort = Effort::Recall(0.98);

    /// Refuses what is no effort.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Effort::Recall(recall) if !(0.0..=1.0).contains(&recall) => {
                Err(Error::InvalidArgument(format!("a recall is a share, 0 to 1; {recall} was given")))
            }
            Effort::Ef(ef) if ef == 0 || ef > limits::K_MAX => {
                Err(Error::InvalidArgument(format!("a walk keeps 1 to {} candidates; ef = {ef} was given", limits::K_MAX)))
            }
            Effort::Recall(_) | Effort::Ef(_) | Effort::Exact => Ok(()),
        }
    }
}

impl Default for Effort {
    fn default() -> Self {
        Effort::DEFAULT
    }
}

named_enum!(
    /// How two vectors are compared. A greater score is nearer.
    Metric, "a metric",
    /// Cosine of the angle, in [-1, 1]; 0 when either vector is zero.
    Cosine = "cosine",
    /// Inner product.
    Dot = "dot",
    /// Negated squared Euclidean distance, at most 0.
    L2 = "l2"
);

named_enum!(
    /// How text is cut into tokens.
    AnalyzerKind, "an analyzer",
    /// Maximal runs of letters, digits and underscore of the lower-cased text: Python's `\b\w+\b` (Unicode 14).
    Word = "word"
);

named_enum!(
    /// How a document's text is scored against a query.
    Scorer, "a scorer",
    /// BM25 with Lucene's positive idf: k1 1.2, b 0.75.
    Lucene = "lucene",
    /// BM25Okapi as rank_bm25 computes it: k1 1.5, b 0.75, epsilon 0.25.
    Okapi = "okapi"
);

named_enum!(
    /// How entities are found in text.
    ExtractorKind, "an extractor",
    /// They are not: only entities that the caller gives are kept.
    None = "none",
    /// Capitalised names, acronyms and camelCase, by three patterns over ASCII letters and 25 stop words.
    Compat = "compat"
);

/// What of a schema decides what becomes of a document: how its vector is stored, and its tokens and entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Derivation {
    /// How text is cut into tokens.
    pub analyzer: AnalyzerKind,
    /// How entities are found in text.
    pub extractor: ExtractorKind,
    /// How the components of its vector are stored.
    pub components: Components,
}

named_enum!(
    /// How the components of vectors are stored. Queries are f32 with either, and scores are exact scores of the stored vector.
    #[derive(Default)]
    Components, "a form of components",
    /// As they were given: IEEE 754 binary32, four bytes each.
    #[default]
    F32 = "f32",
    /// Rounded to the nearest IEEE 754 binary16, of two equally near ones to the even one: two bytes each, about three decimal digits, and at
    /// most 65,504 in magnitude. What is returned are the rounded numbers.
    F16 = "f16"
);

impl Components {
    /// Bytes of one component on the disk.
    pub fn bytes(self) -> u64 {
        match self {
            Components::F32 => 4,
            Components::F16 => 2,
        }
    }

    fn is_default(&self) -> bool {
        *self == Components::default()
    }
}

named_enum!(
    /// What the walks of a vector graph compare.
    Quantisation, "a quantisation",
    /// The vectors themselves: four bytes a component, or two.
    None = "none",
    /// Codes of seven bits a component; what is found is scored by the vectors themselves.
    Sq7 = "sq7"
);

/// How vector graphs are built (HNSW, Malkov and Yashunin 2016). A segment has one from 10,000 vectors on; smaller ones are scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hnsw {
    /// Links of a vector on the levels above the lowest, 2 to 64; on the lowest twice as many. More find more and take more room: 8 bytes a
    /// vector each. Default: 16.
    pub m: u16,
    /// Candidates among which links are chosen, 1 to 65,536: more find more and take longer to build. Default: 200.
    pub ef_construction: u32,
    /// What walks compare. Default: [`Quantisation::Sq7`].
    pub quantisation: Quantisation,
}

impl Default for Hnsw {
    fn default() -> Self {
        Hnsw { m: 16, ef_construction: 200, quantisation: Quantisation::Sq7 }
    }
}

impl Hnsw {
    /// Refuses numbers that no graph can be built with.
    fn validate(self) -> Result<()> {
        if !(2..=64).contains(&self.m) {
            return Err(Error::InvalidArgument(format!("a vector graph has 2 to 64 links a level; m = {} was given", self.m)));
        }
        if !(1..=65_536).contains(&self.ef_construction) {
            let given = self.ef_construction;
            return Err(Error::InvalidArgument(format!("ef_construction is 1 to 65,536; {given} was given")));
        }
        Ok(())
    }

    fn is_default(&self) -> bool {
        *self == Hnsw::default()
    }
}

/// How much each retriever counts when mode `hybrid` fuses their lists, in thousandths: integers, so that they are stored and compared exactly.
///
/// ```
/// use triune::LegWeights;
/// let text_counts_more = LegWeights { vector: 500, ..LegWeights::default() };
/// assert!(text_counts_more.validate().is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LegWeights {
    /// Of the vector list, 0 to 1,000,000. Default: 1,000, which is a weight of 1.
    pub vector: u32,
    /// Of the text list, in the same unit.
    pub text: u32,
    /// Of the graph list, in the same unit.
    pub graph: u32,
}

impl Default for LegWeights {
    fn default() -> Self {
        LegWeights { vector: 1000, text: 1000, graph: 1000 }
    }
}

impl LegWeights {
    /// The greatest weight: a thousand.
    pub const MAX: u32 = 1_000_000;

    /// Refuses weights above the greatest.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the leg and its weight.
    pub fn validate(self) -> Result<()> {
        for (leg, weight) in [("vector", self.vector), ("text", self.text), ("graph", self.graph)] {
            if weight > LegWeights::MAX {
                let max = LegWeights::MAX;
                return Err(Error::InvalidArgument(format!("the weight of the {leg} leg is 0 to {max} thousandths; {weight} was given")));
            }
        }
        Ok(())
    }

    /// What a weight in thousandths multiplies by.
    pub(crate) fn factor(thousandths: u32) -> f64 {
        f64::from(thousandths) / 1000.0
    }

    fn is_default(&self) -> bool {
        *self == LegWeights::default()
    }
}

/// What a collection holds; fixed when it is created, and stored.
///
/// ```
/// use triune::{Metric, Schema};
/// let schema = Schema { dimension: Some(384), metric: Metric::Cosine, ..Schema::default() };
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Components of every vector. `None` until the first vector fixes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimension: Option<u32>,
    /// How vectors are compared.
    pub metric: Metric,
    /// How text is cut into tokens.
    pub analyzer: AnalyzerKind,
    /// The scorer of text searches that do not name one.
    pub scorer: Scorer,
    /// How entities are found in text.
    pub extractor: ExtractorKind,
    /// The metadata key that names a document's source when it has none of its own.
    pub source_key: String,
    /// Names the model that made the vectors, in at most 1,024 bytes; `None` when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedder: Option<String>,
    /// How its vector graphs are built.
    #[serde(default, skip_serializing_if = "Hnsw::is_default")]
    pub hnsw: Hnsw,
    /// How the components of its vectors are stored.
    #[serde(default, skip_serializing_if = "Components::is_default")]
    pub components: Components,
    /// The weights of hybrid searches that do not give their own. Default: 1 each.
    #[serde(default, skip_serializing_if = "LegWeights::is_default")]
    pub leg_weights: LegWeights,
}

impl Default for Schema {
    fn default() -> Self {
        Schema {
            dimension: None,
            metric: Metric::Cosine,
            analyzer: AnalyzerKind::Word,
            scorer: Scorer::Lucene,
            extractor: ExtractorKind::Compat,
            source_key: "file_hash".into(),
            embedder: None,
            hnsw: Hnsw::default(),
            components: Components::default(),
            leg_weights: LegWeights::default(),
        }
    }
}

impl Schema {
    /// What decides what becomes of a document.
    pub fn derivation(&self) -> Derivation {
        Derivation { analyzer: self.analyzer, extractor: self.extractor, components: self.components }
    }

    /// Refuses a schema that no collection can have.
    pub fn validate(&self) -> Result<()> {
        match self.dimension {
            Some(0) => return Err(Error::InvalidArgument("a vector dimension is at least 1; 0 was given".into())),
            Some(d) if d as usize > limits::DIMENSION_MAX => {
                return Err(Error::LimitExceeded(format!("a vector has at most {} components; {d} were asked for", limits::DIMENSION_MAX)));
            }
            _ => {}
        }
        self.hnsw.validate()?;
        self.leg_weights.validate()?;
        // With it and the source key within their limits, a schema always fits the record that creates its collection: spec 8.1.
        if let Some(name) = self.embedder.as_ref().filter(|name| !name.is_empty()) {
            check_name("the name of an embedder", name)?;
        }
        check_name("source key", &self.source_key)
    }
}

/// Checks the length of an id, a source or a name: 1 to 1,024 bytes.
pub fn check_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::InvalidArgument(format!("{what} is empty; it has 1 to {} bytes", limits::NAME_BYTES_MAX)));
    }
    if name.len() > limits::NAME_BYTES_MAX {
        return Err(Error::LimitExceeded(format!("{what} has {} bytes; at most {} are allowed", name.len(), limits::NAME_BYTES_MAX)));
    }
    Ok(())
}
