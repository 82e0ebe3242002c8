//! What shaped an answer of `search`, and what of a question shaped nothing: lines for people, on stderr.

use crate::args::{Leg, ModeName, RerankName, SearchArgs};
use crate::output::{Counted, Outcome};
use triune::{Collection, Effort, ExtractorKind, Metric, Mode, Search, SearchResult, VectorSearch, extract_entities};

/// Options that were given and that the mode does not use.
pub(super) fn ignored(args: &SearchArgs) -> Vec<&'static str> {
    let hybrid = args.mode == ModeName::Hybrid;
    let walks = matches!(args.mode, ModeName::Graph | ModeName::Ppr | ModeName::Docsgpt);
    let graph_leg = hybrid && args.legs.contains(&Leg::Graph);
    let dense = args.rerank == Some(RerankName::Dense);
    let text_scores = args.mode == ModeName::Text || hybrid || args.rerank == Some(RerankName::Text);
    let given = [
        (args.query.is_some() && args.vector.is_some() && args.mode == ModeName::Vector, "mode vector does not use the query text"),
        (args.vector.is_some() && (args.mode == ModeName::Text || walks && !dense), "this mode does not use --vector"),
        (!args.legs.is_empty() && !hybrid, "--legs counts in mode hybrid alone"),
        (args.rerank.is_some() && !walks, "--rerank counts in modes graph and ppr alone"),
        (args.hops.is_some() && args.mode != ModeName::Graph && !graph_leg, "--hops counts in mode graph and with the leg graph alone"),
        (args.scorer.is_some() && !text_scores, "this mode does not use --scorer"),
    ];
    given.into_iter().filter(|(ignored, _)| *ignored).map(|(_, remark)| remark).collect()
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
