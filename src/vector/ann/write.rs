//! Builds the graph of a segment, or makes it of the graphs of the segments that it was merged from; measures it; writes it.

use crate::error::{Error, Result};
use crate::format::segment::SectionKind;
use crate::format::vector_codes::{META_BYTES, MetaPlace, encode_tail, set_row_meta};
use crate::format::vector_graph::{GraphShape, Measured, encode_numbers};
use crate::options::{Hnsw, Metric, Quantisation};
use crate::segment::SegmentWriter;
use crate::vector::hnsw::build::{BuildOptions, build};
use crate::vector::hnsw::codes::CodeSpace;
use crate::vector::hnsw::floats::FloatSpace;
use crate::vector::hnsw::images::{Images, Vectors};
use crate::vector::hnsw::measure::{Imaged, Sample, measure};
use crate::vector::hnsw::merge::{OldGraph, merge};
use crate::vector::hnsw::seal::seal;
use crate::vector::hnsw::sealed::Sealed;
use std::sync::atomic::AtomicBool;
use zerocopy::IntoBytes;

/// What a graph is built over, and how.
#[derive(Debug)]
pub struct GraphOptions<'a> {
    /// How vectors are compared.
    pub metric: Metric,
    /// Components of a vector.
    pub dimension: u32,
    /// Vectors of the segment.
    pub count: u32,
    /// Of the collection's schema.
    pub hnsw: Hnsw,
    /// Threads, at least 1. The same graph comes about with any number.
    pub threads: usize,
    /// Set when the work is to be given up.
    pub stop: &'a AtomicBool,
    /// Graphs of what was merged, each with the new position of every old node; `NONE` for those that died.
    pub old: Vec<(Sealed, Vec<u32>)>,
    /// The least recall that those graphs were measured to have, at [`JUDGED`] of the ladder.
    pub found_before: f64,
}

/// The place in the ladder of widths by which graphs are compared: 64.
pub const JUDGED: usize = 4;

/// A graph that found this much less than those that it was made of is built anew.
const WORSE: f64 = 0.02;

/// Writes sections `VectorGraph` and, when the schema says so, `VectorCodes` of a segment whose vectors these are. `progress` is told how many
/// vectors are in. O(count x log count x ef_construction x dimension); keeps codes, or vectors, and links in memory.
///
/// # Errors
/// Interrupted, when `stop` was set; whatever reading the vectors or writing the segment gives.
pub fn write_graph(out: &mut SegmentWriter, vectors: &dyn Vectors, options: &GraphOptions<'_>, progress: &mut dyn FnMut(usize)) -> Result<()> {
    let images = Images::of(options.metric, options.dimension, vectors)?;
    let sample = Sample::of(&images, options.count, vectors, options.threads)?;
    match options.hnsw.quantisation {
        Quantisation::Sq7 => {
            let space = CodeSpace::of_vectors(&images, options.count, vectors)?;
            let (sealed, measured) = make(&space, &sample, options, progress)?;
            write_links(out, &sealed, &sample, measured, options)?;
            write_codes(out, &sealed, &space, images.unit())
        }
        Quantisation::None => {
            let space = FloatSpace::of_vectors(&images, options.count, vectors)?;
            let (sealed, measured) = make(&space, &sample, options, progress)?;
            write_links(out, &sealed, &sample, measured, options)
        }
    }
}

type Measurements = [Measured; crate::format::vector_graph::EF_LADDER.len()];

fn make<S: Imaged>(space: &S, sample: &Sample, options: &GraphOptions<'_>, progress: &mut dyn FnMut(usize)) -> Result<(Sealed, Measurements)> {
    let how = BuildOptions {
        m: usize::from(options.hnsw.m),
        ef_construction: options.hnsw.ef_construction as usize,
        threads: options.threads.max(1),
    };
    let interrupted = || Error::Interrupted("building a vector graph was given up; nothing changed".into());
    let fresh = |progress: &mut dyn FnMut(usize)| build(space, &how, options.stop, progress).ok_or_else(interrupted);
    let finish = |graph| {
        let measured = measure(space, &graph, sample);
        (seal(&graph), measured)
    };
    if options.old.is_empty() {
        return fresh(progress).map(finish);
    }
    let old: Vec<OldGraph<'_>> = options.old.iter().map(|(sealed, to_new)| OldGraph { sealed, to_new }).collect();
    let (sealed, measured) = merge(space, &old, &how, options.stop, &mut *progress).ok_or_else(interrupted).map(finish)?;
    // Merging upon merging must not wear a graph down: the sample says whether it did.
    let worn = sample.len() > 0 && measured[JUDGED].recall < options.found_before - WORSE;
    if worn { fresh(progress).map(finish) } else { Ok((sealed, measured)) }
}

fn write_links(out: &mut SegmentWriter, sealed: &Sealed, sample: &Sample, measured: Measurements, options: &GraphOptions<'_>) -> Result<()> {
    let shape = GraphShape {
        m: sealed.m,
        ef_construction: options.hnsw.ef_construction,
        level_counts: sealed.level_counts.clone(),
        sample: sample.len() as u32,
        measured,
    };
    out.begin(SectionKind::VectorGraph)?;
    out.write(shape.encode().as_bytes())?;
    write_numbers(out, &sealed.points)?;
    let padding = shape.base_offset() - out.position();
    out.write(&vec![0; padding as usize])?;
    write_numbers(out, &sealed.base)?;
    write_numbers(out, &sealed.upper)?;
    debug_assert_eq!(out.position(), shape.length(), "the shape says where everything is");
    out.end(u64::from(options.count), 0)
}

fn write_numbers(out: &mut SegmentWriter, numbers: &[u32]) -> Result<()> {
    numbers.chunks(64 << 10).try_for_each(|some| out.write(&encode_numbers(some)))
}

fn write_codes(out: &mut SegmentWriter, sealed: &Sealed, space: &CodeSpace, unit: f64) -> Result<()> {
    let (shape, rows) = (space.shape(), space.rows());
    out.begin(SectionKind::VectorCodes)?;
    sealed.points.iter().try_for_each(|&point| out.write(rows.row(point)))?;
    if shape.meta == MetaPlace::After {
        sealed.points.iter().try_for_each(|&point| {
            let (mut meta, (scale, bias)) = ([0; META_BYTES], rows.meta(point));
            set_row_meta(&mut meta, scale, bias);
            out.write(&meta)
        })?;
    }
    out.write(&encode_tail(unit, space.coder().centre()))?;
    debug_assert_eq!(out.position(), shape.length(), "the shape says where everything is");
    out.end(u64::from(shape.count), shape.stride as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: u32 = 600;

    /// Points spread over a square without a pattern: the fractions of the multiples of two irrational numbers.
    struct Square(u32);

    impl Vectors for Square {
        fn for_each(&self, sink: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
            let part = |i: u32, of: f64| (f64::from(i) * of).fract() as f32;
            (0..self.0).try_for_each(|i| sink(&[part(i, 2f64.sqrt()), part(i, 3f64.sqrt())]))
        }
    }

    fn graph(rows: u32, old: &[(Sealed, Vec<u32>)], found_before: f64) -> (Sealed, f64) {
        let vectors = Square(rows);
        let images = Images::of(Metric::L2, 2, &vectors).expect("no disk is read");
        let space = FloatSpace::of_vectors(&images, rows, &vectors).expect("no disk is read");
        let sample = Sample::of(&images, rows, &vectors, 1).expect("no disk is read");
        let hnsw = Hnsw { m: 4, ef_construction: 20, ..Hnsw::default() };
        let (old, stop) = (old.to_vec(), &AtomicBool::new(false));
        let options = GraphOptions { metric: Metric::L2, dimension: 2, count: rows, hnsw, threads: 1, stop, old, found_before };
        let (sealed, measured) = make(&space, &sample, &options, &mut |_| {}).expect("nobody gives it up");
        (sealed, measured[JUDGED].recall)
    }

    #[test]
    fn a_merged_graph_that_finds_less_than_what_it_was_made_of_is_built_anew() {
        let (half, _) = graph(ROWS / 2, &[], 0.0);
        let stay = half.points.clone();
        let old = [(half, stay)];
        let (fresh, _) = graph(ROWS, &[], 0.0);
        let (merged, found) = graph(ROWS, &old, 0.0);
        assert!(merged != fresh, "a graph that was built anew cannot be told from the merged one here");
        assert!(found > 0.5, "{found}");
        for before in [found, found + 0.9 * WORSE] {
            assert!(graph(ROWS, &old, before).0 == merged, "{found} is not worse than {before}");
        }
        assert!(graph(ROWS, &old, found + 1.1 * WORSE).0 == fresh, "{found} is worse than {}", found + 1.1 * WORSE);
    }
}
