//! The vector graph of a segment that is being written: for a merge of what its inputs had, else anew.

use super::merge::{Plan, Workshop};
use crate::error::Result;
use crate::format::manifest::SegmentEntry;
use crate::format::vector_graph::NO_LINK;
use crate::options::{Options, Schema, limits};
use crate::progress::Progress;
use crate::segment::SegmentWriter;
use crate::text::DROPPED;
use crate::vector::hnsw::images::Vectors;
use crate::vector::{GraphOptions, JUDGED, VectorsReader, write_graph};
use std::num::NonZero;
use std::sync::atomic::AtomicBool;

/// The vectors of a merge's inputs that live on, in the order in which the merged segment has them.
struct Merged<'a> {
    plan: &'a Plan,
    row_maps: &'a [Vec<u32>],
    shop: Workshop<'a>,
}

impl Vectors for Merged<'_> {
    fn for_each(&self, sink: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        for (input, map) in self.plan.inputs.iter().zip(self.row_maps) {
            let Some(vectors) = &input.rooms()?.vectors else { continue };
            vectors.for_each(|row, vector| if lives(map, row) { sink(vector) } else { Ok(()) })?;
            self.shop.check_stop()?;
        }
        Ok(())
    }
}

/// The vectors of one segment.
struct Stored<'a>(&'a VectorsReader);

impl Vectors for Stored<'_> {
    fn for_each(&self, sink: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        self.0.for_each(|_, vector| sink(vector))
    }
}

fn lives(map: &[u32], row: u32) -> bool {
    map.get(row as usize).is_some_and(|&new| new != DROPPED)
}

/// From how many vectors on a segment is to have a graph.
pub(super) fn from(options: &Options) -> u64 {
    u64::from(options.thresholds.graph_vectors.max(1))
}

/// Whether a segment with so many vectors is to have a graph.
pub(super) fn wanted(options: &Options, vectors: u64) -> bool {
    vectors >= from(options)
}

/// Writes the graph of a merged segment, when it is to have one.
pub(super) fn write_merged(
    shop: Workshop<'_>,
    out: &mut SegmentWriter,
    plan: &Plan,
    row_maps: &[Vec<u32>],
    entry: &SegmentEntry,
) -> Result<()> {
    let schema = &plan.info.schema;
    let Some(dimension) = schema.dimension.filter(|_| wanted(shop.options, entry.vectors)) else { return Ok(()) };
    let (mut old, mut found_before, mut next) = (Vec::new(), f64::INFINITY, 0u32);
    for (input, map) in plan.inputs.iter().zip(row_maps) {
        let Some(vectors) = &input.rooms()?.vectors else { continue };
        let begin = next;
        let mut new_positions = Vec::with_capacity(vectors.count() as usize);
        for position in 0..vectors.count() {
            let stays = lives(map, vectors.row_at(position)?);
            new_positions.push(if stays { next } else { NO_LINK });
            next += u32::from(stays);
        }
        let Some(graph) = vectors.graph(schema.metric)?.filter(|_| next > begin) else { continue };
        let sealed = graph.to_sealed()?;
        let to_new = sealed.points.iter().map(|&position| new_positions[position as usize]).collect();
        found_before = found_before.min(graph.shape().measured[JUDGED].recall);
        old.push((sealed, to_new));
    }
    let count = entry.vectors as u32;
    let threads = threads(shop.options, shop.in_background);
    let found_before = if old.is_empty() { 0.0 } else { found_before };
    let options = GraphOptions { metric: schema.metric, dimension, count, hnsw: schema.hnsw, threads, stop: shop.stop, old, found_before };
    let timer = super::events::Timer::start();
    write_graph(out, &Merged { plan, row_maps, shop }, &options, &mut told(shop.options, count))?;
    super::events::graph_built(count, options.old.len(), threads, timer);
    Ok(())
}

/// Writes the graph of a segment that is written again from its primary data.
pub(super) fn write_anew(options: &Options, out: &mut SegmentWriter, vectors: &VectorsReader, schema: &Schema) -> Result<()> {
    if !wanted(options, u64::from(vectors.count())) {
        return Ok(());
    }
    let graph = GraphOptions {
        metric: schema.metric,
        dimension: vectors.dimension(),
        count: vectors.count(),
        hnsw: schema.hnsw,
        threads: threads(options, false),
        stop: &AtomicBool::new(false),
        old: Vec::new(),
        found_before: 0.0,
    };
    write_graph(out, &Stored(vectors), &graph, &mut told(options, vectors.count()))
}

/// Tells the observer how many vectors of `count` are in the graph.
fn told(options: &Options, count: u32) -> impl FnMut(usize) + '_ {
    move |done| options.tell(Progress::Linked { done: done as u64, of: u64::from(count) })
}

/// Threads that build: as many as there are cores when someone waits for it, half of them in the background.
pub(super) fn threads(options: &Options, in_background: bool) -> usize {
    if options.build_threads > 0 {
        return options.build_threads.min(limits::BUILD_THREADS_MAX);
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    if in_background { cores.div_ceil(2) } else { cores }
}
