//! The graph over segments and memtables, against golden answers and a naive model, and damaged segments.

mod damage;
mod golden;
mod model;

use super::*;
use crate::document::Relation;
use crate::error::Result;
use crate::ids::Seq;
use crate::memtable::MemGraph;
use crate::ranking::Scored;
use crate::segment::memory::{Mode, open_segment, write_segment};
use crate::segment::{SegmentReader, SegmentSummary};

/// What one document contributes.
#[derive(Debug, Clone, Default, PartialEq)]
struct Doc {
    mentions: Vec<Mention>,
    relations: Vec<Relation>,
    dead: bool,
}

/// The graph sections of these rows.
fn segment_of(docs: &[Doc]) -> Result<(Vec<u8>, SegmentSummary)> {
    write_segment(0, |out| {
        let mut builder = GraphBuilder::new();
        for (row, doc) in (0u32..).zip(docs) {
            if !doc.mentions.is_empty() || !doc.relations.is_empty() {
                builder.add(row, &doc.mentions, &doc.relations)?;
            }
        }
        builder.finish(docs.len() as u32, out)
    })
}

/// Some rows of a collection, in a segment or in memory.
struct Part {
    home: Box<dyn GraphPart>,
    dead: Vec<bool>,
    base: u64,
}

/// Where a part lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Home {
    Mapped,
    Pread,
    Memory,
}

/// What a segment without a graph answers.
struct Nothing;

impl GraphPart for Nothing {
    fn entity(&self, _: &str) -> Result<Option<u32>> {
        Ok(None)
    }
    fn key(&self, _: u32) -> Result<std::borrow::Cow<'_, str>> {
        unreachable!("it knows no entity")
    }
    fn name(&self, _: u32, _: u32) -> Result<std::borrow::Cow<'_, str>> {
        unreachable!("it knows no entity")
    }
    fn for_each_document(&self, _: u32, _: &mut dyn FnMut(DocumentEdge)) -> Result<()> {
        unreachable!("it knows no entity")
    }
    fn for_each_entity(&self, _: u32, _: &mut dyn FnMut(u32)) -> Result<()> {
        unreachable!("none of its rows comes up")
    }
    fn for_each_relation(&self, _: u32, _: &mut dyn FnMut(RelationEdge)) -> Result<()> {
        unreachable!("it knows no entity")
    }
    fn for_each_key(&self, _: &mut dyn FnMut(u32, &str)) -> Result<()> {
        Ok(())
    }
}

/// Spreads documents over parts: each with where it begins and where it lies.
fn spread(docs: &[Doc], layout: &[(usize, Home)]) -> Vec<Part> {
    let mut parts = Vec::new();
    for (i, &(from, home)) in layout.iter().enumerate() {
        let to = layout.get(i + 1).map_or(docs.len(), |next| next.0);
        let rows = &docs[from..to];
        let home: Box<dyn GraphPart> = match home {
            Home::Memory => {
                let memory = MemGraph::new();
                (0u32..).zip(rows).for_each(|(row, d)| {
                    memory.add(row, &d.mentions, &d.relations);
                });
                Box::new(memory)
            }
            Home::Mapped | Home::Pread => {
                let (bytes, summary) = segment_of(rows).expect("writes");
                let mode = if home == Home::Mapped { Mode::Mapped } else { Mode::Pread };
                let segment = open_segment(bytes, summary, mode).expect("opens");
                match GraphReader::open(&segment).expect("opens") {
                    Some(reader) => Box::new(reader),
                    None => Box::new(Nothing),
                }
            }
        };
        parts.push(Part { home, dead: rows.iter().map(|d| d.dead).collect(), base: from as u64 });
    }
    parts
}

/// The parts without their dead rows.
fn live(parts: &[Part]) -> Vec<Live<&dyn GraphPart, impl Fn(u32) -> bool>> {
    parts.iter().map(|p| Live { part: Some(&*p.home), live: |row: u32| !p.dead[row as usize] }).collect()
}

/// Hits as the index of the document and the score.
fn hits(found: &[Scored]) -> Vec<(u64, f64)> {
    found.iter().map(|s| (s.seq.0, s.score)).collect()
}

fn hops_of(parts: &[Part], forms: &[String], hops: u32, k: usize) -> Vec<(u64, f64)> {
    let seq_of = &mut |part: u32, row: u32| Ok(Seq(parts[part as usize].base + u64::from(row)));
    hits(&hops::search(&live(parts), forms, hops, seq_of, k).expect("searches"))
}

fn walk_of(parts: &[Part], forms: &[String], k: usize) -> Vec<(u64, f64)> {
    let seq_of = &mut |part: u32, row: u32| Ok(Seq(parts[part as usize].base + u64::from(row)));
    hits(&walk::docsgpt(&live(parts), forms, seq_of, k).expect("searches"))
}

#[test]
fn a_segment_without_entities_has_no_graph_and_rows_ascend() {
    let (bytes, summary) = segment_of(&[Doc::default(), Doc::default()]).expect("writes");
    let segment = open_segment(bytes, summary, Mode::Mapped).expect("opens");
    assert!(GraphReader::open(&segment).expect("opens").is_none());
    assert!(Live { part: None::<&dyn GraphPart>, live: |_| true }.entity("a").expect("answers").is_none());

    let mention = Mention { key: "a".into(), name: "A".into(), occurrences: 1, variants: 1 };
    let mut builder = GraphBuilder::new();
    builder.add(3, std::slice::from_ref(&mention), &[]).expect("the first row");
    assert!(builder.add(3, &[], &[]).is_err(), "a row twice");
    assert!(builder.add(4, &[mention.clone(), mention], &[]).is_err(), "an entity twice");
    assert!(write_segment(0, |out| builder.finish(3, out)).is_err(), "a row beyond the segment");
}

#[test]
fn a_search_takes_one_or_two_hops_and_k_of_zero_is_nothing() {
    let parts = spread(&[Doc::default()], &[(0, Home::Memory)]);
    let seq_of = &mut |_: u32, _: u32| Ok(Seq(0));
    assert!(hops::search(&live(&parts), &[], 3, seq_of, 1).is_err());
    assert!(hops_of(&parts, &["A".into()], 2, 0).is_empty() && walk_of(&parts, &["A".into()], 0).is_empty());
}

#[test]
fn a_reader_gives_back_the_mentions_it_was_built_from() {
    let mut mentions = extract::mentions(None, "RAG and Rag; Lyon, RAG. Zeta Alpha. parseIt", crate::options::ExtractorKind::Compat);
    let docs = [Doc::default(), Doc { mentions: mentions.clone(), ..Doc::default() }];
    let (bytes, summary) = segment_of(&docs).expect("writes");
    let segment: SegmentReader = open_segment(bytes, summary, Mode::Mapped).expect("opens");
    let reader = GraphReader::open(&segment).expect("opens").expect("has a graph");
    mentions.sort_by(|a, b| a.key.cmp(&b.key));
    let mut spellings = Spellings::new(&reader);
    assert_eq!(spellings.mentions(1).expect("reads"), mentions);
    assert_eq!(spellings.mentions(0).expect("reads"), []);
    assert!(spellings.mentions(2).is_err(), "no such row");
}

/// A name of 16 letters, in one of 65,536 cases.
fn cased(case: u32) -> String {
    ('a'..='p').enumerate().map(|(i, c)| if case >> i & 1 == 1 { c.to_ascii_uppercase() } else { c }).collect()
}

#[test]
fn an_entity_of_many_spellings_keeps_each_in_the_order_of_first_appearance() {
    // Searching all spellings for each would be 10^9 comparisons and more.
    const MANY: u32 = 50_000;
    let relations = (0..MANY).chain(0..MANY).map(|case| Relation::new(cased(case), "t")).collect();
    let mention = Mention { key: cased(0).into(), name: cased(MANY - 1).into(), occurrences: 1, variants: 1 };
    let docs = [Doc { relations, ..Doc::default() }, Doc { mentions: vec![mention.clone()], ..Doc::default() }];
    let (bytes, summary) = segment_of(&docs).expect("writes");
    for mode in [Mode::Mapped, Mode::Pread] {
        let segment = open_segment(bytes.clone(), summary, mode).expect("opens");
        let reader = GraphReader::open(&segment).expect("opens").expect("has a graph");
        let entity = reader.entity(&cased(0)).expect("reads").expect("is there");
        let mut named = Vec::new();
        reader.for_each_outgoing(entity, &mut |e| named.push(e.name)).expect("reads");
        assert!(named.into_iter().eq((0..MANY).chain(0..MANY)), "a spelling is written once");
        let mut spellings = Spellings::new(&reader);
        assert!((0..MANY).all(|case| spellings.name(entity, case).expect("reads") == cased(case)));
        assert_eq!(reader.name(entity, MANY - 1).expect("reads"), cased(MANY - 1));
        assert_eq!(spellings.mentions(1).expect("reads"), std::slice::from_ref(&mention));
        assert!(spellings.name(entity, MANY).is_err() && spellings.name(entity, u32::MAX).is_err(), "no such spelling");
        assert!(spellings.name(reader.entities(), 0).is_err() && spellings.name(reader.entities(), 9).is_err(), "no such entity");
    }
}
