//! What a retriever hands on: a text with its labels, its scores and where it was found.

use super::labels::{Labels, labels};
use crate::document::Metadata;
use crate::options::Metric;

/// What the score of a [`Passage`] means, and therefore which scores may be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScoreKind {
    /// Cosine similarity, in [-1, 1].
    CosineSimilarity,
    /// Inner product, any finite number.
    InnerProduct,
    /// Negated squared distance, at most 0.
    NegatedL2Distance,
    /// BM25: above 0 with scorer `lucene`.
    Bm25,
    /// Added reciprocal ranks, above 0.
    Rrf,
    /// What mentions add up to, or a share of PageRank; above 0.
    Graph,
    /// Whatever an external source says.
    External,
}

/// Whether nothing is near to a vector: under the cosine it needs a direction, which zeros have not.
pub(crate) fn is_near_to_nothing(metric: Metric, vector: &[f32]) -> bool {
    metric == Metric::Cosine && vector.iter().all(|x| *x == 0.0)
}

impl ScoreKind {
    /// What the scores of nearest vectors under a metric mean.
    pub(crate) fn of_metric(metric: Metric) -> ScoreKind {
        match metric {
            Metric::Cosine => ScoreKind::CosineSimilarity,
            Metric::Dot => ScoreKind::InnerProduct,
            Metric::L2 => ScoreKind::NegatedL2Distance,
        }
    }

    /// The stable spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            ScoreKind::CosineSimilarity => "cosine_similarity",
            ScoreKind::InnerProduct => "inner_product",
            ScoreKind::NegatedL2Distance => "l2_distance",
            ScoreKind::Bm25 => "bm25",
            ScoreKind::Rrf => "rrf",
            ScoreKind::Graph => "graph",
            ScoreKind::External => "external",
        }
    }
}

/// One finding of a passage: which retriever, in which source, at which place.
#[derive(Debug, Clone, PartialEq)]
pub struct Provenance {
    /// The retriever or leg: `vector`, `text`, `graph`, `web`, or a registered name.
    pub retriever: String,
    /// The source that was asked.
    pub source: String,
    /// The document's id there; empty for what has none, such as a page of the web.
    pub id: String,
    /// Its place in that retriever's list, from 0.
    pub rank: usize,
    /// That retriever's score.
    pub score: f64,
}

/// A text that may answer a question.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Passage {
    /// The document's id; empty for what has none.
    pub id: String,
    /// The text.
    pub text: String,
    /// For citations: see `labels.rs`.
    pub title: String,
    /// For citations: where the text is from, as its metadata says; else the id of the source that was asked.
    pub source: String,
    /// For citations: the file's name.
    pub filename: String,
    /// The id of the source that was asked.
    pub source_id: String,
    /// The retriever's score; absent where a source gives none.
    pub score: Option<f64>,
    /// What the score means; absent with it.
    pub score_kind: Option<ScoreKind>,
    /// A reranker's score; absent until one ran.
    pub rerank_score: Option<f64>,
    /// The document's metadata.
    pub metadata: Option<Metadata>,
    /// Every finding, the first one first. Passages that collapse keep all.
    pub provenance: Vec<Provenance>,
}

impl Passage {
    /// A document of a source with its labels, before anybody says how it was found.
    pub(crate) fn labelled(source_id: &str, id: String, text: String, metadata: Option<Metadata>) -> Passage {
        let Labels { title, source, filename } = labels(metadata.as_ref(), &text, source_id);
        Passage { id, text, title, source, filename, source_id: source_id.into(), metadata, ..Passage::default() }
    }
}
