//! What shaped an answer of `search`, and what of a question shaped nothing: lines for people, on stderr.

use crate::args::{Leg, ModeName, RerankName, SearchArgs};
use crate::output::{Counted, Outcome};
use triune::{Collection, Effort, ExtractorKind, Metric, Mode, Search, SearchResult, VectorSearch, extract_entities};

/// What a question was given: by flags, or by the keys of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) mode: ModeName,
    /// Empty: not given, and then vector and text.
    pub(super) legs: &'a [Leg],
    pub(super) legs_given: bool,
    /// What counts.
    pub(super) rerank: Option<RerankName>,
    pub(super) rerank_given: bool,
    pub(super) query: bool,
    pub(super) vector: bool,
    pub(super) hops: bool,
    pub(super) scorer: bool,
    /// `exact`, `ef` or `recall`.
    pub(super) effort: bool,
}

impl<'a> Given<'a> {
    /// By flags.
    pub(super) fn by_flags(args: &'a SearchArgs) -> Given<'a> {
        Given {
            mode: args.mode,
            legs: &args.legs,
            legs_given: !args.legs.is_empty(),
            rerank: args.rerank,
            rerank_given: args.rerank.is_some(),
            query: args.query.is_some(),
            vector: args.vector.is_some() || args.query_vectors.is_some(),
            hops: args.hops.is_some(),
            scorer: args.scorer.is_some(),
            effort: args.exact || args.ef.is_some() || args.recall.is_some(),
        }
    }

    /// What of it the mode does not use.
    pub(super) fn ignored(self) -> Vec<&'static str> {
        let hybrid = self.mode == ModeName::Hybrid;
        let walks = matches!(self.mode, ModeName::Graph | ModeName::Ppr | ModeName::Docsgpt);
        let graph_leg = hybrid && self.legs.contains(&Leg::Graph);
        let nearest = self.mode == ModeName::Vector || hybrid && (self.legs.is_empty() || self.legs.contains(&Leg::Vector));
        let dense = self.rerank == Some(RerankName::Dense);
        let text_scores = self.mode == ModeName::Text || hybrid || walks && self.rerank == Some(RerankName::Text);
        let given = [
            (self.query && self.vector && self.mode == ModeName::Vector, "mode vector does not use the query text"),
            (self.vector && (self.mode == ModeName::Text || walks && !dense), "this mode does not use --vector"),
            (self.legs_given && !hybrid, "--legs counts in mode hybrid alone"),
            (self.rerank_given && !walks, "--rerank counts in modes graph and ppr alone"),
            (self.hops && self.mode != ModeName::Graph && !graph_leg, "--hops counts in mode graph and with the leg graph alone"),
            (self.scorer && !text_scores, "this mode does not use --scorer"),
            (self.effort && !nearest, "--exact, --ef and --recall count in mode vector and with the leg vector alone"),
        ];
        given.into_iter().filter(|(ignored, _)| *ignored).map(|(_, remark)| remark).collect()
    }
}

/// Why a search of the graph has nowhere to begin; nothing when it has.
pub(super) fn without_entities(collection: &Collection, search: &Search) -> Option<&'static str> {
    let extractor = collection.schema().extractor;
    let query = search.query.as_deref().filter(|_| by_entities(search))?;
    match extractor {
        ExtractorKind::None => {
            Some("the collection was made without an extractor, so no entity is found in the question, and the graph finds nothing")
        }
        _ if extract_entities(extractor, query).is_empty() => Some(
            "no entity was found in the question: names are seen by their capital letters, of ASCII alone (HIV or Paris, not hiv or Zürich)",
        ),
        _ => None,
    }
}

/// Whether entities of the question lead to documents.
fn by_entities(search: &Search) -> bool {
    matches!(search.mode, Mode::Graph | Mode::Ppr) || search.mode == Mode::Hybrid && search.legs.graph
}

/// What led to the answer, a line each.
pub(super) fn answer(collection: &Collection, search: &Search, result: &SearchResult) -> Outcome<Vec<String>> {
    let by = if result.retrievers.is_empty() { "nothing".into() } else { result.retrievers.join(", ") };
    let mut lines = vec![format!(
        "mode {}, answered by {by}: {} in {:.1} ms",
        search.mode,
        Counted(result.hits.len() as u64, "hit"),
        result.took.as_secs_f64() * 1e3
    )];
    if by_entities(search) {
        lines.push(entities(collection, search)?);
    }
    if let Some(filter) = &search.filter {
        lines.push(format!("the filter matches {} of {}", collection.count_where(filter)?, Counted(collection.count(), "document")));
    }
    if result.retrievers.contains(&"text") {
        lines.push(format!("text is scored by {}", search.scorer.unwrap_or(collection.schema().scorer)));
    }
    if let Some(went) = result.vector_search {
        lines.push(nearest(went, search.effort, collection.schema().metric));
    }
    if result.retrievers.contains(&"graph") {
        lines.push(format!("the graph was walked {}", Counted(u64::from(search.hops), "hop")));
    }
    Ok(lines)
}

/// How the nearest vectors were come by.
fn nearest(went: VectorSearch, effort: Effort, metric: Metric) -> String {
    let were = |n: u64, noun: &str| format!("{} {}", Counted(n, noun), if n == 1 { "was" } else { "were" });
    let compared = format!("{} compared one by one", were(went.compared, "vector"));
    if went.walks == 0 && went.code_scans == 0 {
        return format!("{compared} (exact), by {metric}");
    }
    let how = match effort {
        Effort::Recall(recall) => format!("to find {recall} of the nearest"),
        Effort::Ef(ef) => format!("with {} (ef)", Counted(ef as u64, "candidate")),
        Effort::Exact => "exactly".into(),
    };
    let walked = format!("{} walked {how}", were(went.walks, "vector graph"));
    let codes = format!("the codes of what the filter admits were compared in {}", Counted(went.code_scans, "segment"));
    let parts = [(went.walks, walked), (went.code_scans, codes), (went.compared, compared)];
    let said: Vec<String> = parts.into_iter().filter(|(n, _)| *n > 0).map(|(_, said)| said).collect();
    format!("{}; every score is exact, by {metric}", said.join(", and "))
}

/// The entities of the question, each with the documents that mention it.
fn entities(collection: &Collection, search: &Search) -> Outcome<String> {
    if let Some(remark) = without_entities(collection, search) {
        return Ok(remark.into());
    }
    let query = search.query.as_deref().unwrap_or_default();
    let mut found = Vec::new();
    for (name, _) in extract_entities(collection.schema().extractor, query) {
        let documents = collection.entity(&name)?.map(|e| e.documents);
        found.push(
            documents.map_or_else(|| format!("{name} (not in the collection)"), |n| format!("{name} (in {})", Counted(n, "document"))),
        );
    }
    Ok(format!("entities of the question: {}", found.join(", ")))
}
