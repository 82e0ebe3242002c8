//! Which sources are asked together: one group a retriever, in the order in which the retrievers first appear.

use crate::retrieval::config::RetrievalConfig;
use crate::retrieval::registry::{CLASSIC, Registry};
use crate::retrieval::request::SourceRequest;

/// Sources that one retriever is asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    /// The retriever's name, in lower case; `classic` for `default` and for none.
    pub(super) retriever: String,
    pub(super) sources: Vec<SourceRequest>,
}

/// Groups what a question names.
///
/// Entries without an id are passed over. A source that is named twice for one retriever is asked once, in its first place, by its last entry
/// that says something of its own; it may be asked by several retrievers. Active sources that no entry names are asked by the classic retriever
/// as by default, behind its others; its group is the last one then, if there was none. Without a usable entry there is that group alone, and
/// with no entry at all its sources stand as they were given, repeated ones too.
pub(super) fn groups(entries: &[SourceRequest], active: &[String]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let named: Vec<&SourceRequest> = entries.iter().filter(|entry| !entry.id.trim().is_empty()).collect();
    for entry in &named {
        add(&mut groups, &Registry::group(&entry.config.retriever), entry);
    }
    let is_named = |id: &String| named.iter().any(|entry| entry.id == *id);
    let others: Vec<&String> = active.iter().filter(|id| !id.trim().is_empty() && !is_named(id)).collect();
    if named.is_empty() {
        let sources = others.into_iter().map(SourceRequest::new).collect();
        return vec![Group { retriever: CLASSIC.into(), sources }];
    }
    for id in others {
        add(&mut groups, CLASSIC, &SourceRequest::new(id));
    }
    groups
}

fn add(groups: &mut Vec<Group>, retriever: &str, entry: &SourceRequest) {
    let at = groups.iter().position(|group| group.retriever == retriever).unwrap_or_else(|| {
        groups.push(Group { retriever: retriever.into(), sources: Vec::new() });
        groups.len() - 1
    });
    let sources = &mut groups[at].sources;
    match sources.iter_mut().find(|source| source.id == entry.id) {
        None => sources.push(entry.clone()),
        Some(source) if entry.config.is_override() => source.config = entry.config.clone(),
        Some(_) => {}
    }
}

/// Every source that a question names, as by default: entries, then the active ones that no entry names.
pub(super) fn plain(entries: &[SourceRequest], active: &[String]) -> Vec<SourceRequest> {
    let mut ids: Vec<&String> = Vec::new();
    for id in entries.iter().map(|entry| &entry.id).chain(active) {
        if !id.trim().is_empty() && !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids.into_iter().map(|id| SourceRequest { id: id.clone(), config: RetrievalConfig::default() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, retriever: &str, chunks: usize) -> SourceRequest {
        SourceRequest { id: id.into(), config: RetrievalConfig { retriever: retriever.into(), chunks, ..Default::default() } }
    }

    fn shape(entries: &[SourceRequest], active: &[&str]) -> String {
        let active: Vec<String> = active.iter().map(|id| id.to_string()).collect();
        let source = |s: &SourceRequest| format!("{}:{}", s.id, s.config.chunks);
        let group = |g: Group| format!("{}({})", g.retriever, g.sources.iter().map(source).collect::<Vec<_>>().join(" "));
        groups(entries, &active).into_iter().map(group).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn sources_are_grouped_by_retriever_in_the_order_of_first_appearance() {
        let entries =
            [entry("a", "Hybrid", 2), entry("b", "classic", 2), entry("c", "HYBRID", 3), entry("d", "mine", 2), entry("e", "", 4)];
        assert_eq!(shape(&entries, &[]), "hybrid(a:2 c:3) classic(b:2 e:4) mine(d:2)");
        assert_eq!(shape(&[entry("a", "default", 2), entry("b", "classic", 2)], &[]), "classic(a:2 b:2)");
    }

    #[test]
    fn entries_without_an_id_are_passed_over() {
        assert_eq!(shape(&[entry(" ", "hybrid", 2), entry("a", "hybrid", 2)], &[]), "hybrid(a:2)");
        assert_eq!(shape(&[entry("", "hybrid", 2)], &["x", "y"]), "classic(x:2 y:2)");
    }

    #[test]
    fn active_sources_that_no_entry_names_join_the_classic_group_which_is_last_when_new() {
        assert_eq!(shape(&[entry("a", "hybrid", 2)], &["a", "x", "", "x"]), "hybrid(a:2) classic(x:2)");
        assert_eq!(shape(&[entry("a", "classic", 3), entry("b", "hybrid", 2)], &["x"]), "classic(a:3 x:2) hybrid(b:2)");
    }

    #[test]
    fn without_entries_the_active_sources_are_one_classic_group_as_they_stand() {
        assert_eq!(shape(&[], &["x", "y", "x"]), "classic(x:2 y:2 x:2)");
        assert_eq!(shape(&[], &[]), "classic()");
    }

    #[test]
    fn of_a_source_named_twice_the_last_entry_with_something_of_its_own_counts() {
        assert_eq!(shape(&[entry("a", "classic", 5), entry("a", "classic", 7), entry("a", "classic", 2)], &[]), "classic(a:7)");
        assert_eq!(shape(&[entry("a", "classic", 5), entry("a", "hybrid", 7)], &[]), "classic(a:5) hybrid(a:7)");
    }

    #[test]
    fn plainly_every_source_is_asked_once_and_as_by_default() {
        let sources = plain(&[entry("a", "hybrid", 9), entry("", "", 2)], &["b".into(), "a".into()]);
        assert_eq!(sources, [SourceRequest::new("a"), SourceRequest::new("b")]);
    }
}
