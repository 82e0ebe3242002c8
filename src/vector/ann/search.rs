//! A search in one segment: a walk chooses, the canonical kernel scores.

use super::plan::{Admitted, Plan, plan};
use super::spaces::{CodesOfNodes, VectorsOfNodes};
use super::stored::{StoredGraph, Walked};
use crate::error::Result;
use crate::options::Effort;
use crate::vector::hnsw::admitted::{Restricted, Through};
use crate::vector::hnsw::search::Scratch;
use crate::vector::hnsw::space::Space;
use crate::vector::kernel::walk::CodeQuery;
use crate::vector::query::QueryVector;
use crate::vector::reader::VectorsReader;
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use roaring::RoaringBitmap;

/// Candidates are scored by the vectors themselves as far as this many times `k`, and this many more.
const SCORED_PER_K: usize = 2;
const SCORED_MORE: usize = 10;
/// A scan of codes keeps so many times that. When all of these are in doubt the vectors are scanned.
const SCANNED_PER_SCORED: usize = 4;
/// A walk goes on from so many copies of what it found already, as a share of the nodes: with more of them, a scan costs little more.
const COPIES_SHARE: usize = 8;

/// What a search found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The sink has the nearest, or what the walk took for them.
    Nearest,
    /// The same, by the codes of all that may be answers: there were too few of these for a walk.
    NearestByCodes,
    /// Nothing was scored: every vector that may be an answer is to be. Why it is so is the plan's business; the answer is exact then.
    Scan,
}

/// Searchers that are at rest, of one graph.
#[derive(Debug, Default)]
pub(in crate::vector) struct Searchers {
    idle: Mutex<Vec<Searcher>>,
}

/// What a search needs, kept from one to the next so that none allocates.
#[derive(Debug, Default)]
struct Searcher {
    scratch: Scratch,
    image: Vec<f32>,
    query: CodeQuery,
    /// What a walk or a scan found, nearest first.
    found: Vec<(f32, u32)>,
    /// Those of it that are scored by the vectors themselves: nodes, then their positions.
    candidates: Vec<u32>,
    /// The nodes that a filter admits, by bits.
    marked: Marked,
}

/// Offers `sink` row and score of the vectors of a segment that are nearest to a query: at least the `k` best of what was found, each with its
/// exact score, in no order. A segment without a graph is to be scanned.
///
/// # Errors
/// Corrupt, when the walk met damage. The sink may have been called before.
pub fn nearest(
    vectors: &VectorsReader,
    query: &QueryVector,
    admitted: Admitted<'_>,
    effort: Effort,
    k: usize,
    sink: &mut dyn FnMut(u32, f64),
) -> Result<Found> {
    vectors.check_dimension(query)?;
    if effort == Effort::Exact {
        return Ok(Found::Scan);
    }
    let Some(graph) = vectors.graph(query.metric())? else { return Ok(Found::Scan) };
    let plan = plan(graph, admitted, effort, k);
    if plan == Plan::Scan {
        return Ok(Found::Scan);
    }
    let mut searcher = vectors.searchers().idle.lock().pop().unwrap_or_default();
    let found = searcher.search(vectors, graph, query, admitted, plan, k, sink);
    vectors.searchers().idle.lock().push(searcher);
    found
}

impl Searcher {
    #[allow(clippy::too_many_arguments, reason = "one question, taken apart once")]
    fn search(
        &mut self,
        vectors: &VectorsReader,
        graph: &StoredGraph,
        query: &QueryVector,
        admitted: Admitted<'_>,
        plan: Plan,
        k: usize,
        sink: &mut dyn FnMut(u32, f64),
    ) -> Result<Found> {
        let mut walked = Walked::new(graph);
        // More copies of a vector than are asked for would only keep others out.
        self.scratch.copies = NonZeroUsize::new(k);
        self.scratch.through_copies = graph.shape().count() as usize / COPIES_SHARE;
        let whole = match &graph.codes {
            Some(codes) => {
                graph.images.query(query.components(), &mut self.image);
                codes.coder.query(&self.image, &mut self.query);
                let space = CodesOfNodes::new(&walked, codes);
                let query = std::mem::take(&mut self.query);
                let whole = if plan == Plan::ScanCodes {
                    // As good as a scan of vectors: none is left out that may be nearer.
                    self.scan(&space, &query, vectors, admitted, scanned(k))? && !self.choose(&space, &query, k, scanned(k))
                } else {
                    let whole = self.walk(&space, &query, &walked, vectors, admitted, plan)?;
                    self.choose(&space, &query, k, scored(k));
                    whole
                };
                self.query = query;
                whole
            }
            None => {
                VectorsOfNodes::query(query.metric(), query.components(), &mut self.image);
                let space = VectorsOfNodes { walked: &walked, vectors };
                let query = std::mem::take(&mut self.image);
                let whole = self.walk(&space, &query, &walked, vectors, admitted, plan)?;
                self.choose(&space, &query, k, scored(k));
                self.image = query;
                whole
            }
        };
        walked.failure()?;
        // A walk that came short of what there is, or took too long over it, has not answered: some rows were not admitted, or links lead nowhere.
        if !whole || self.candidates.len() < k {
            return Ok(Found::Scan);
        }
        // They lie anywhere: all are asked for before the first is read.
        self.candidates.iter().for_each(|&candidate| graph.fetch_position(candidate));
        for candidate in &mut self.candidates {
            *candidate = graph.position(*candidate)?;
            vectors.fetch(*candidate);
        }
        // In the order in which they lie.
        self.candidates.sort_unstable();
        if let Some(twice) = self.candidates.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(graph.at_position_twice(twice[0]));
        }
        for &position in &self.candidates {
            let score = vectors.at(position, query.metric(), |vector, inverse_norm| query.score(vector, inverse_norm))?;
            sink(vectors.row_at(position)?, score);
        }
        Ok(if plan == Plan::ScanCodes { Found::NearestByCodes } else { Found::Nearest })
    }

    /// Of the `most` nearest of what was found, makes candidates of those that may be among the `k` nearest. Whether all `most` may, and perhaps
    /// more.
    fn choose<S: Space>(&mut self, space: &S, query: &S::Query, k: usize, most: usize) -> bool {
        self.found.truncate(most);
        let contenders = space.contenders(query, &self.found, k);
        self.candidates.clear();
        self.candidates.extend(self.found[..contenders].iter().map(|(_, node)| *node));
        contenders == most
    }

    /// Compares the code of every node that may be an answer, and leaves the `most` nearest in `found`.
    fn scan(&mut self, space: &CodesOfNodes<'_>, query: &CodeQuery, vectors: &VectorsReader, admitted: Admitted<'_>, most: usize) -> Result<bool> {
        self.found.clear();
        let Admitted::Only(rows) = admitted else { return Ok(false) };
        self.marked.mark(space.walked.graph, vectors, rows)?;
        self.scratch.scan(space, query, self.marked.nodes(), most);
        self.found.extend(self.scratch.answers());
        Ok(true)
    }

    /// Walks, and leaves the nodes that may be answers in `found`, nearest first. False when the walk was given up.
    fn walk<S: Space>(
        &mut self,
        space: &S,
        query: &S::Query,
        walked: &Walked<'_>,
        vectors: &VectorsReader,
        admitted: Admitted<'_>,
        plan: Plan,
    ) -> Result<bool> {
        self.found.clear();
        if let (Admitted::Only(rows), Plan::Restricted(Restricted { through: Through::TwoHops, .. })) = (admitted, plan) {
            self.marked.mark(walked.graph, vectors, rows)?;
        }
        let mut admits = |node: u32| {
            let row = walked.graph.position(node).and_then(|position| vectors.row_at(position));
            match row {
                Ok(row) => admitted.admits(row),
                Err(e) => {
                    walked.fail(e);
                    false
                }
            }
        };
        let restricted = match plan {
            Plan::Scan | Plan::ScanCodes => return Ok(false),
            Plan::Walk { ef } => {
                self.found.extend(self.scratch.search(space, query, walked, ef));
                return Ok(!self.scratch.gave_up);
            }
            Plan::Sifted { ef, enough, otherwise } => {
                self.found.extend(self.scratch.search(space, query, walked, ef));
                self.found.iter().for_each(|&(_, node)| walked.graph.fetch_position(node));
                self.found.retain(|&(_, node)| admits(node));
                // Of copies, those that were left out may be the ones that may be answers.
                if self.found.len() >= enough && !self.scratch.left_copies_out {
                    return Ok(true);
                }
                self.found.clear();
                otherwise
            }
            Plan::Restricted(plan) => plan,
        };
        let whole = match restricted.through {
            Through::All => self.scratch.walk_restricted(space, query, walked, restricted, &mut admits),
            Through::TwoHops => {
                let marked = &self.marked;
                self.scratch.walk_restricted(space, query, walked, restricted, &mut |node| marked.has(node))
            }
        };
        self.found.extend(self.scratch.answers());
        Ok(whole)
    }
}

/// Candidates that are scored by the vectors themselves.
fn scored(k: usize) -> usize {
    k.saturating_mul(SCORED_PER_K).max(k + SCORED_MORE)
}

/// Nodes that a scan of codes keeps: more than are likely to be in doubt.
fn scanned(k: usize) -> usize {
    scored(k).saturating_mul(SCANNED_PER_SCORED)
}

/// Some nodes, as bits.
#[derive(Debug, Default)]
struct Marked {
    words: Vec<u64>,
}

impl Marked {
    /// Marks the nodes of these rows, those that have a vector. O(nodes / 64 + rows).
    fn mark(&mut self, graph: &StoredGraph, vectors: &VectorsReader, rows: &RoaringBitmap) -> Result<()> {
        let nodes = graph.nodes()?;
        self.words.clear();
        self.words.resize(nodes.len().div_ceil(64), 0);
        vectors.for_each_position(rows, |position| {
            if let Some(&node) = nodes.get(position as usize) {
                self.words[node as usize / 64] |= 1 << (node % 64);
            }
        })
    }

    #[inline]
    fn has(&self, node: u32) -> bool {
        self.words[node as usize / 64] >> (node % 64) & 1 != 0
    }

    /// The nodes that are marked, ascending.
    fn nodes(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.words).flat_map(|(i, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(i * 64 + bit)
            })
        })
    }
}

impl Admitted<'_> {
    #[inline]
    fn admits(&self, row: u32) -> bool {
        match self {
            Admitted::All => true,
            Admitted::Living { lives, .. } => lives(row),
            Admitted::Only(rows) => rows.contains(row),
        }
    }
}
