//! Visibility, undo and counting in the memtable.

use super::append::AppendVec;
use super::deaths::{ALIVE, DeathLog, DeathMap};
use super::postings::PostingList;
use super::*;
use crate::document::StoredDocument;
use crate::ids::Seq;

fn document(id: &str, text: &str) -> Arc<StoredDocument> {
    Arc::new(StoredDocument {
        id: id.into(),
        text: text.into(),
        metadata: None,
        vector: Some(vec![1.0, 2.0].into()),
        source: Some("s".into()),
        source_given: true,
        time_ms: 0,
    })
}

fn append(c: &MemCollection, birth: u64, seq: u64, id: &str, text: &str) -> u32 {
    c.append(Lsn(birth), Seq(seq), document(id, text), &Analysis::of(c.analyzer(), text)).0
}

#[test]
fn an_append_vec_keeps_what_was_pushed_over_many_chunks() {
    let v = AppendVec::new();
    for i in 0..10_000usize {
        assert_eq!(v.push(i * 3), i);
    }
    assert_eq!(v.get(9_999), Some(&29_997));
    assert_eq!(v.get(10_000), None);
    assert!(v.iter().copied().eq((0..10_000).map(|i| i * 3)));
}

#[test]
fn a_posting_list_gives_back_its_postings_at_every_length() {
    for n in [0u32, 1, 2, 3, 6, 7, 14, 15, 1000] {
        let list = PostingList::default();
        (0..n).for_each(|i| list.push(i * 7, i + 1));
        let mut seen = Vec::new();
        list.for_each(|row, value| seen.push((row, value)));
        assert_eq!(seen, (0..n).map(|i| (i * 7, i + 1)).collect::<Vec<_>>());
    }
}

#[test]
fn a_reader_sees_the_rows_of_its_lsn_and_no_others() {
    let c = MemCollection::new(AnalyzerKind::Word);
    let a = append(&c, 1, 10, "a", "red fox");
    append(&c, 2, 11, "b", "blue");
    c.kill(a, Lsn(3));
    let again = append(&c, 3, 12, "a", "red red wolf");
    assert_eq!(c.find("a", Lsn(0)), None);
    assert_eq!(c.find("a", Lsn(2)), Some(a));
    assert_eq!(c.find("a", Lsn(3)), Some(again));
    assert_eq!(c.source_rows("s", Lsn(3)), [1, 2]);
    assert_eq!(c.totals(Lsn(2)), Totals { documents: 2, tokens: 3, vectors: 2 });
    assert_eq!(c.totals(Lsn(3)), Totals { documents: 2, tokens: 4, vectors: 2 });
    assert_eq!(c.row_of_seq(Seq(12)), Some(2));
    assert_eq!(c.row_of_seq(Seq(13)), None);
}

#[test]
fn an_undone_commit_leaves_no_trace_even_when_its_lsn_is_used_again() {
    let c = MemCollection::new(AnalyzerKind::Word);
    let a = append(&c, 1, 1, "a", "x");
    for round in 0..2u64 {
        c.kill(a, Lsn(2));
        append(&c, 2, 2 + round, "a", "y z");
        c.undo_from(Lsn(2));
        assert_eq!(c.find("a", Lsn(5)), Some(a));
        assert_eq!(c.totals(Lsn(5)), Totals { documents: 1, tokens: 1, vectors: 1 });
    }
    let b = append(&c, 2, 9, "b", "w");
    assert_eq!(c.find("b", Lsn(2)), Some(b));
    assert_eq!(c.totals(Lsn(2)).documents, 2);
    assert_eq!(c.source_rows("s", Lsn(2)), [a, b]);
}

#[test]
fn a_commit_after_an_undone_group_is_found_by_every_search() {
    let c = MemCollection::new(AnalyzerKind::Word);
    let a = append(&c, 1, 1, "a", "x");
    // A group of three commits, the last of which replaces a row of the first.
    let b = append(&c, 2, 2, "b", "y");
    append(&c, 3, 3, "c", "y");
    c.kill(b, Lsn(4));
    append(&c, 4, 4, "b", "y");
    c.undo_from(Lsn(2));

    let b = append(&c, 2, 5, "b", "z z");
    assert!(c.rows_at(Lsn(2)).any(|(row, r)| row == b && r.visible(Lsn(2))));
    assert_eq!(c.totals(Lsn(2)), Totals { documents: 2, tokens: 3, vectors: 2 });
    assert_eq!((c.find("a", Lsn(2)), c.find("b", Lsn(2)), c.find("c", Lsn(2))), (Some(a), Some(b), None));
    c.kill(b, Lsn(3));
    assert_eq!(c.totals(Lsn(2)).documents, 2);
    assert_eq!(c.totals(Lsn(3)).documents, 1);
    assert_eq!((c.find("b", Lsn(2)), c.find("b", Lsn(3))), (Some(b), None));
}

#[test]
fn several_commits_undone_at_once_leave_no_trace_when_their_lsns_are_used_again_one_by_one() {
    let c = MemCollection::new(AnalyzerKind::Word);
    let a = append(&c, 1, 1, "a", "x");
    append(&c, 2, 2, "b", "x");
    append(&c, 4, 3, "c", "x");
    c.undo_from(Lsn(2));
    let b = append(&c, 2, 4, "b", "x");
    assert_eq!(c.totals(Lsn(2)).documents, 2);
    let seen: Vec<u32> = c.rows_at(Lsn(2)).filter(|(_, r)| r.visible(Lsn(2))).map(|(row, _)| row).collect();
    assert_eq!(seen, [a, b], "a flush takes the rows of the commits that were not undone");
    c.kill(a, Lsn(3));
    assert_eq!(c.totals(Lsn(4)).documents, 1);
}

#[test]
fn deaths_are_counted_between_any_two_lsns() {
    let log = DeathLog::default();
    for (lsn, row) in [(2, 1), (2, 5), (4, 0)] {
        log.push(Lsn(lsn), row, Totals { documents: 1, tokens: 10, vectors: 0 });
    }
    assert_eq!(log.between(Lsn(0), Lsn(9)).documents, 3);
    assert_eq!(log.between(Lsn(2), Lsn(4)).tokens, 10);
    assert_eq!(log.rows_between(Lsn(1), Lsn(2)), [1, 5]);
    log.undo_from(Lsn(4));
    assert_eq!(log.between(Lsn(0), Lsn(9)).documents, 2);
}

#[test]
fn a_death_map_answers_for_every_lsn() {
    let map = DeathMap::new(10_000);
    assert_eq!(map.death(9_999), ALIVE);
    map.set(5_000, 7);
    assert!(map.lives(5_000, Lsn(6)) && !map.lives(5_000, Lsn(7)));
    let mut seen = Vec::new();
    map.for_each(Lsn(7), |row, lsn| seen.push((row, lsn)));
    assert_eq!(seen, [(5_000, 7)]);
    map.set(5_000, ALIVE);
    assert!(map.lives(5_000, Lsn(u64::MAX - 1)));
}

#[test]
fn an_undone_group_leaves_the_births_and_deaths_of_later_commits_in_order() {
    let c = MemCollection::new(AnalyzerKind::Word);
    let a = append(&c, 1, 1, "a", "x");
    // Three commits of one group, of lsns 2 to 4, are taken back together.
    append(&c, 2, 2, "b", "y");
    append(&c, 3, 3, "c", "y");
    c.kill(a, Lsn(4));
    append(&c, 4, 4, "a", "y");
    c.undo_from(Lsn(2));
    let b = append(&c, 2, 5, "b", "w w");
    assert_eq!(c.rows_at(Lsn(2)).filter(|(_, r)| r.visible(Lsn(2))).map(|(row, _)| row).collect::<Vec<_>>(), [a, b]);
    assert_eq!(c.totals(Lsn(2)), Totals { documents: 2, tokens: 3, vectors: 2 });
    c.kill(b, Lsn(3));
    assert_eq!(c.totals(Lsn(2)).documents, 2);
    assert_eq!(c.totals(Lsn(3)), Totals { documents: 1, tokens: 1, vectors: 1 });
    assert_eq!(c.totals(Lsn(9)), Totals { documents: 1, tokens: 1, vectors: 1 });
}
