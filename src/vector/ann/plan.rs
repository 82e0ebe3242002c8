//! How a question to a graph is answered.

use super::stored::StoredGraph;
use crate::format::vector_graph::EF_LADDER;
use crate::options::Effort;
use crate::vector::hnsw::admitted::{Restricted, Through};
use roaring::RoaringBitmap;

/// Which rows of a segment may be answers.
#[derive(Clone, Copy)]
pub enum Admitted<'a> {
    /// All.
    All,
    /// Those that live; about this many do not.
    Living {
        /// Rows that are dead.
        dead: u64,
        /// Whether a row lives.
        lives: &'a dyn Fn(u32) -> bool,
    },
    /// These.
    Only(&'a RoaringBitmap),
}

/// The most candidates that a walk keeps when nobody said how many.
const EF_MOST: usize = 1_024;
/// What a graph that was not measured is searched with.
const EF_UNMEASURED: usize = 96;
/// Distances that a walk computes for each candidate it keeps, about, where that was not measured.
const COMPARED_PER_EF: usize = 20;
/// What scoring one vector alone costs, in distances between codes.
const SCORE_COST: u64 = 3;
/// From this share of rows on that may be answers, a walk goes through all.
const THROUGH_ALL: f64 = 0.35;
/// The most nodes of a beam.
const BEAM_MOST: usize = 8_192;

/// A way to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// Every vector that may be an answer is scored.
    Scan,
    /// A walk that keeps `ef`, every node of which may be an answer.
    Walk { ef: usize },
    /// A walk on which some may not.
    Restricted(RestrictedPlan),
}

/// A restricted walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RestrictedPlan {
    ef: usize,
    beam: usize,
    budget: u64,
    two_hops: bool,
}

impl RestrictedPlan {
    pub(super) fn walk(self) -> Restricted {
        let through = if self.two_hops { Through::TwoHops } else { Through::All };
        Restricted { ef: self.ef, beam: self.beam, budget: self.budget, through }
    }
}

/// Chooses the way that costs least.
pub(super) fn plan(graph: &StoredGraph, admitted: Admitted<'_>, effort: Effort, k: usize) -> Plan {
    let nodes = u64::from(graph.shape().count());
    let Some(ef) = ef_for(graph, effort, k) else { return Plan::Scan };
    let walk_cost = |ef: usize| compared(graph, ef);
    let candidates = match admitted {
        Admitted::All => nodes,
        Admitted::Living { dead, .. } => nodes.saturating_sub(dead).max(1),
        Admitted::Only(rows) => rows.len(),
    };
    // A bitmap may count rows without a vector, so there may be more of them than nodes.
    let share = (candidates as f64 / nodes as f64).min(1.0);
    let scan_cost = candidates * SCORE_COST;
    if candidates <= k as u64 || walk_cost(ef) >= scan_cost {
        return Plan::Scan;
    }
    if matches!(admitted, Admitted::All | Admitted::Living { dead: 0, .. }) {
        return Plan::Walk { ef };
    }
    let through_all = share >= THROUGH_ALL;
    // Through all, a walk goes on until it met `ef` answers: as many nodes as that takes. Two hops away, it meets little else.
    let expected = if through_all { walk_cost((ef as f64 / share) as usize) } else { walk_cost(ef) * 3 };
    if expected >= scan_cost {
        return Plan::Scan;
    }
    let beam = if through_all { (2.0 * ef as f64 / share) as usize } else { 4 * ef };
    Plan::Restricted(RestrictedPlan { ef, beam: beam.clamp(ef, BEAM_MOST.max(ef)), budget: scan_cost, two_hops: !through_all })
}

/// Candidates to keep; `None` when every vector is to be compared.
fn ef_for(graph: &StoredGraph, effort: Effort, k: usize) -> Option<usize> {
    let wanted = match effort {
        Effort::Exact => return None,
        Effort::Ef(ef) => return Some(ef.max(k).max(1)),
        Effort::Recall(recall) => recall,
    };
    let measured = &graph.shape().measured;
    let for_ten = if graph.shape().sample == 0 {
        EF_UNMEASURED
    } else {
        match measured.iter().position(|m| m.recall >= wanted) {
            None => EF_MOST,
            Some(0) => EF_LADDER[0] as usize,
            Some(i) => between(measured[i - 1].recall, measured[i].recall, wanted, EF_LADDER[i - 1], EF_LADDER[i]),
        }
    };
    // It was measured for the nearest ten; each further one needs a little more.
    Some(for_ten + k.saturating_sub(10) * 3 / 2)
}

/// The width between two of the ladder at which a recall is met, if it grows evenly between them.
fn between(low: f64, high: f64, wanted: f64, from: u32, to: u32) -> usize {
    let part = if high > low { ((wanted - low) / (high - low)).clamp(0.0, 1.0) } else { 1.0 };
    (f64::from(from) + part * f64::from(to - from)).ceil() as usize
}

/// Distances that a walk which keeps `ef` computes, about.
fn compared(graph: &StoredGraph, ef: usize) -> u64 {
    let shape = graph.shape();
    let at = EF_LADDER.iter().position(|&step| step as usize >= ef).unwrap_or(EF_LADDER.len() - 1);
    let known = shape.measured[at].compared;
    if shape.sample == 0 || known == 0 {
        return (ef * COMPARED_PER_EF) as u64;
    }
    u64::from(known) * ef as u64 / u64::from(EF_LADDER[at])
}
