//! The graph in memory under concurrent readers. What it answers is tested with the graph room, beside segments.

use super::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

fn mention(name: &str) -> Mention {
    Mention { key: key(name), name: name.into(), occurrences: 2, variants: 1 }
}

#[test]
fn a_row_is_whole_for_readers_as_soon_as_it_may_be_seen() {
    const ROWS: u32 = 3000;
    let graph = MemGraph::new();
    let published = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seen = published.load(Ordering::Acquire);
                    check(&graph, seen);
                    if seen == ROWS {
                        return;
                    }
                }
            });
        }
        for row in 0..ROWS {
            let own = format!("Own{row}");
            graph.add(row, &[mention("Hub"), mention(&own)], &[Relation::new(own, "hub")]);
            published.store(row + 1, Ordering::Release);
        }
    });
    assert_eq!(graph.entities(), ROWS + 1);
}

/// The rows below `seen` have all their edges, from either end.
fn check(graph: &MemGraph, seen: u32) {
    let Some(row) = seen.checked_sub(1) else { return };
    let hub = graph.entity("hub").expect("answers").expect("is known");
    let own = graph.entity(&format!("own{row}")).expect("answers").expect("is known");
    let mut rows = BTreeSet::new();
    let add = &mut |e: DocumentEdge| {
        rows.insert(e.row);
    };
    graph.for_each_document(hub, add).expect("answers");
    assert!((0..seen).all(|row| rows.contains(&row)));
    let mut entities = Vec::new();
    graph.for_each_entity(row, &mut |e| entities.push(e)).expect("answers");
    assert_eq!(entities, [hub, own]);
    let mut relations = Vec::new();
    graph.for_each_relation(own, &mut |e| relations.push((e.row, e.other, e.outgoing))).expect("answers");
    assert_eq!(relations, [(row, hub, true)]);
    let mut arriving = 0;
    graph.for_each_relation(hub, &mut |e| arriving += u32::from(!e.outgoing)).expect("answers");
    assert!(arriving >= seen);
    assert_eq!(graph.name(own, graph_name(graph, own)).expect("is there"), format!("Own{row}"));
}

fn graph_name(graph: &MemGraph, entity: u32) -> u32 {
    let mut name = None;
    graph.for_each_document(entity, &mut |e| name = name.or(Some(e.name))).expect("answers");
    name.expect("it is mentioned")
}

#[test]
fn what_was_never_added_is_unknown() {
    let graph = MemGraph::new();
    assert!(graph.entity("a").expect("answers").is_none());
    assert!(graph.key(0).is_err() && graph.name(0, 0).is_err() && graph.for_each_document(0, &mut |_| ()).is_err());
    graph.for_each_entity(7, &mut |_| unreachable!("the row is empty")).expect("answers");
}
