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
/// A graph whose widest walk was measured to find less than this is not walked for a recall.
const HOPELESS: f64 = 0.9;
/// What a graph that was not measured is searched with.
const EF_UNMEASURED: usize = 96;
/// Distances that a walk computes for each candidate it keeps, about, where that was not measured.
const COMPARED_PER_EF: usize = 20;
/// Costs in distances between a query and a row of codes somewhere in memory. Of scoring one vector alone:
const SCORE_COST: f64 = 3.0;
/// ... of comparing a code in the order in which they lie,
const CODE_COST: f64 = 0.7;
/// ... of noting that a row may be an answer,
const MARK_COST: f64 = 0.04;
/// ... of going on from a node by looking through its neighbours at theirs: what is met and compared,
const STEP_COST: f64 = 70.0;
/// ... and the rows of links that are looked at, more of them the smaller the share of nodes that may be answers.
const STEP_COST_BY_SHARE: f64 = 6.0;
/// Below so many rows they are scored one by one, exactly.
const FEW: u64 = 256;
/// From this share of rows on that may be answers, a walk keeps a few more nodes and those that may not are sifted out at its end.
const SIFTED: f64 = 0.6;
/// From this share on, a walk goes through all.
const THROUGH_ALL: f64 = 0.3;
/// A walk of which some nodes may not be answers finds less than one of which all may, and keeps so many times as much to make up for it:
/// through all,
const WIDER: f64 = 1.1;
/// ... and two hops away, where one node in five may be an answer.
const WIDER_TWO_HOPS: f64 = 2.0;
const ONE_IN_FIVE: f64 = 0.2;
/// With fewer it keeps more, as the root of the share goes, up to so many times that: it has fewer ways to what is far from the query.
const WIDER_MOST: f64 = 4.0;
/// The most nodes of a beam.
const BEAM_MOST: usize = 8_192;

/// A way to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// Every vector that may be an answer is scored.
    Scan,
    /// The code of every vector that may be an answer is compared.
    ScanCodes,
    /// A walk that keeps `ef`, every node of which may be an answer.
    Walk { ef: usize },
    /// A walk that keeps `ef` nodes, nearly all of which may be answers; when fewer than `enough` of them are, the other.
    Sifted { ef: usize, enough: usize, otherwise: Restricted },
    /// A walk on which some may not.
    Restricted(Restricted),
}

/// Chooses the way that costs least.
pub(super) fn plan(graph: &StoredGraph, admitted: Admitted<'_>, effort: Effort, k: usize) -> Plan {
    let nodes = f64::from(graph.shape().count());
    let Some(ef) = ef_for(graph, effort, k) else { return Plan::Scan };
    let candidates = match admitted {
        Admitted::All => graph.shape().count().into(),
        Admitted::Living { dead, .. } => u64::from(graph.shape().count()).saturating_sub(dead).max(1),
        Admitted::Only(rows) => rows.len(),
    };
    let scan = candidates as f64 * SCORE_COST;
    if candidates <= k as u64 || compared(graph, ef) >= scan {
        return Plan::Scan;
    }
    if matches!(admitted, Admitted::All | Admitted::Living { dead: 0, .. }) {
        return Plan::Walk { ef };
    }
    // A bitmap may count rows without a vector, so there may be more of them than nodes.
    let share = (candidates as f64 / nodes).min(1.0);
    let two_hops = share < THROUGH_ALL && matches!(admitted, Admitted::Only(_));
    let wider = if two_hops { WIDER_TWO_HOPS * (ONE_IN_FIVE / share).sqrt().clamp(1.0, WIDER_MOST) } else { WIDER };
    let wide = (ef as f64 * wider).ceil() as usize;
    // Through all, a walk goes on until it met `ef` answers: as many nodes as that takes. Two hops away, it meets little else.
    let mark = candidates as f64 * MARK_COST;
    let walk = if two_hops { mark + wide as f64 * (STEP_COST + STEP_COST_BY_SHARE / share) } else { compared(graph, (wide as f64 / share) as usize) };
    let codes = match (admitted, graph.has_codes()) {
        (Admitted::Only(_), true) if candidates > FEW => mark + candidates as f64 * CODE_COST,
        _ => f64::INFINITY,
    };
    if codes <= scan && codes <= walk {
        return Plan::ScanCodes;
    }
    if scan <= walk {
        return Plan::Scan;
    }
    let beam = if two_hops { 4 * wide } else { (2.0 * wide as f64 / share) as usize };
    let through = if two_hops { Through::TwoHops } else { Through::All };
    let restricted = Restricted { ef: wide, beam: beam.clamp(wide, BEAM_MOST.max(wide)), budget: scan.min(codes) as u64, through };
    if share < SIFTED {
        return Plan::Restricted(restricted);
    }
    // Around the query there may be more of those that may not than elsewhere.
    Plan::Sifted { ef: (ef as f64 / share).ceil() as usize, enough: k.max(ef * 3 / 4), otherwise: restricted }
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
            // A graph that finds so little is not worth walking: of few dimensions, many codes are equal; of lengths that differ by many powers
            // of ten, most are.
            None if measured[measured.len() - 1].recall < HOPELESS => return None,
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
fn compared(graph: &StoredGraph, ef: usize) -> f64 {
    let shape = graph.shape();
    let at = EF_LADDER.iter().position(|&step| step as usize >= ef).unwrap_or(EF_LADDER.len() - 1);
    let known = shape.measured[at].compared;
    if shape.sample == 0 || known == 0 {
        return (ef * COMPARED_PER_EF) as f64;
    }
    f64::from(known) * ef as f64 / f64::from(EF_LADDER[at])
}
