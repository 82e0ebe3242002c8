//! Documents one and two steps from a question's entities.

use super::extract::key;
use super::pages::Pages;
use super::part::GraphPart;
use super::union::Union;
use crate::error::{Error, Result};
use crate::ids::Seq;
use crate::ranking::{RowAddress, Scored, TopK};
use rustc_hash::{FxHashMap, FxHashSet};

/// What a document gains for each spelling of the entity that it holds.
const FIRST_HOP: f64 = 2.0;
/// What a document gains for each entity of its own that stands beside the entity in some document.
const SECOND_HOP: f64 = 0.5;

/// The seq of a row of a part.
pub type SeqOf<'a> = &'a mut dyn FnMut(u32, u32) -> Result<Seq>;

/// The best `k` documents for the entities of a query, given by their spellings, best first; equal scores in the order of their seqs.
///
/// For each distinct spelling whose entity exists (two spellings of one entity count twice), every document that mentions the entity gains
/// 2 for each of the spellings it holds. With two `hops`, for every other entity that some document mentions beside it, every document that
/// mentions that one gains 0.5: once for each such entity, documents of the first hop too. Scores are exact. `address.part` is the index in
/// `parts`, which hold live rows only. O(edges of the entities met); no bound on them.
///
/// `InvalidArgument` when `hops` is neither 1 nor 2.
pub fn search<P: GraphPart>(parts: &[P], forms: &[String], hops: u32, seq_of: SeqOf<'_>, k: usize) -> Result<Vec<Scored>> {
    if hops != 1 && hops != 2 {
        return Err(Error::InvalidArgument(format!("a graph search takes 1 or 2 hops, not {hops}")));
    }
    if k == 0 {
        return Ok(Vec::new());
    }
    let mut union = Union::new(parts)?;
    let mut scores = Scores::new(parts.len());
    for (entity, spellings) in asked_for(&mut union, forms)? {
        for &(part, ordinal) in union.places(entity) {
            union.part(part).for_each_document(ordinal, &mut |edge| {
                scores.add(part, edge.row, FIRST_HOP * spellings * f64::from(edge.variants));
            })?;
        }
        if hops == 2 {
            for other in beside(&mut union, entity)? {
                for (part, row) in union.documents(other)? {
                    scores.add(part, row, SECOND_HOP * spellings);
                }
            }
        }
    }
    scores.best(seq_of, k)
}

/// The entities of these spellings that some part knows, in the order of first appearance, each with the number of its distinct spellings.
pub(super) fn asked_for<P: GraphPart>(union: &mut Union<'_, P>, forms: &[String]) -> Result<Vec<(u32, f64)>> {
    let mut asked: Vec<(u32, f64)> = Vec::new();
    let mut at: FxHashMap<u32, usize> = FxHashMap::default();
    let mut seen: FxHashSet<&str> = FxHashSet::default();
    for form in forms.iter().filter(|f| seen.insert(f)) {
        let Some(entity) = union.by_key(&key(form))? else { continue };
        let place = *at.entry(entity).or_insert(asked.len());
        match asked.get_mut(place) {
            Some((_, spellings)) => *spellings += 1.0,
            None => asked.push((entity, 1.0)),
        }
    }
    Ok(asked)
}

/// The other entities that share a document with `entity`.
fn beside<P: GraphPart>(union: &mut Union<'_, P>, entity: u32) -> Result<Vec<u32>> {
    let mut entities = Vec::new();
    for (part, ordinal) in union.places(entity).to_vec() {
        let mut rows = Vec::new();
        union.part(part).for_each_document(ordinal, &mut |edge| rows.push(edge.row))?;
        let mut seen: Pages<bool> = Pages::default();
        let mut ordinals = Vec::new();
        for row in rows {
            union.part(part).for_each_entity(row, &mut |other| {
                if other != ordinal && !std::mem::replace(seen.slot(other), true) {
                    ordinals.push(other);
                }
            })?;
        }
        for other in ordinals {
            entities.push(union.by_ordinal(part, other)?);
        }
    }
    entities.sort_unstable();
    entities.dedup();
    Ok(entities)
}

/// What each row has gained.
#[derive(Debug)]
pub(super) struct Scores(Vec<Pages<f64>>);

impl Scores {
    pub(super) fn new(parts: usize) -> Scores {
        Scores(vec![Pages::default(); parts])
    }

    #[inline]
    pub(super) fn add(&mut self, part: u32, row: u32, gain: f64) {
        *self.0[part as usize].slot(row) += gain;
    }

    /// The best `k` of the rows that gained something.
    pub(super) fn best(&self, seq_of: SeqOf<'_>, k: usize) -> Result<Vec<Scored>> {
        let mut top = TopK::new(k);
        for (part, rows) in (0u32..).zip(&self.0) {
            for (row, score) in rows.iter() {
                if top.admits(score) {
                    top.offer(Scored { score, seq: seq_of(part, row)?, address: RowAddress { part, row } });
                }
            }
        }
        Ok(top.into_sorted())
    }
}
