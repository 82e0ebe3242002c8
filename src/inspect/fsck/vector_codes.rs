//! Levels 2 and 3 of the codes of a vector graph: every row against the rules, and every code against the vector that it stands for.
//! Spec §12.5, §12.6.

use super::check::Progress;
use super::vector_graph::{NODES_PER_STEP, PIECE_BYTES, Stored};
use crate::error::Result;
use crate::format::error::FormatError;
use crate::format::segment::SectionKind;
use crate::format::vector_codes::{CodesShape, META_BYTES, MetaPlace, check_codes, check_meta, decode_tail, row_meta};
use crate::options::Metric;
use crate::segment::{Section, SegmentReader};
use crate::vector::VectorsReader;
use crate::vector::hnsw::images::Images;

/// What the rounding of binary32 may change of a number, as a share of it; some times what it does.
const ROUNDING: f64 = 1e-6;

/// Codes whose every row is one that a writer may make.
pub(super) struct Codes {
    shape: CodesShape,
    section: Section,
    unit: f64,
    centre: Vec<f32>,
}

/// The codes of these vectors, checked; `None` when the segment has none. O(codes).
pub(super) fn open(reader: &SegmentReader, vectors: &VectorsReader, metric: Metric, progress: &mut Progress<'_>) -> Result<Option<Codes>> {
    let Some(section) = reader.section(SectionKind::VectorCodes) else { return Ok(None) };
    let of = vectors.shape();
    let shape = CodesShape::decode(of, metric, section.items(), section.aux(), section.len());
    let shape = shape.map_err(|e| section.corrupt(e.offset, e.what))?;
    let rows_at_once = (PIECE_BYTES / shape.stride as u64) as u32;
    for first in (0..shape.count).step_by(rows_at_once as usize) {
        check_piece(&section, &shape, first, shape.count.min(first.saturating_add(rows_at_once)))?;
        progress.add(0)?;
    }
    let tail = section.read(shape.unit_offset()..section.len())?;
    let (unit, centre) = decode_tail(&tail, shape).map_err(|e| section.corrupt(shape.unit_offset() + e.offset, e.what))?;
    drop(tail);
    Ok(Some(Codes { shape, section, unit, centre }))
}

/// The rows from `first` to before `end`, and the numbers that belong to them.
fn check_piece(section: &Section, shape: &CodesShape, first: u32, end: u32) -> Result<()> {
    let wrong = |node: u32, at: u64| move |e: FormatError| section.corrupt(at + e.offset, format!("node {node}: {}", e.what));
    let [from, to] = [first, end].map(|node| u64::from(node) * shape.stride as u64);
    for (node, row) in (first..end).zip(section.read(from..to)?.chunks_exact(shape.stride)) {
        check_codes(&row[..shape.codes_bytes()], shape.dimension as usize).map_err(wrong(node, u64::from(node) * shape.stride as u64))?;
        if shape.meta == MetaPlace::Inside {
            check_meta(row).map_err(wrong(node, shape.meta_offset(node)))?;
        }
    }
    if shape.meta == MetaPlace::After {
        let metas = section.read(shape.meta_offset(first)..shape.meta_offset(end))?;
        for (node, meta) in (first..end).zip(metas.chunks_exact(META_BYTES)) {
            check_meta(meta).map_err(wrong(node, shape.meta_offset(node)))?;
        }
    }
    Ok(())
}

impl Codes {
    /// Unit and centre are those of the vectors, and every row is that of its vector, as near as half a scale; `nodes` has the node at every
    /// position. O(vectors x dimension).
    pub(super) fn semantics(&self, nodes: &[u32], vectors: &VectorsReader, metric: Metric, progress: &mut Progress<'_>) -> Result<()> {
        let images = Images::of(metric, vectors.dimension(), &Stored(vectors))?;
        if (self.unit - images.unit()).abs() > ROUNDING * images.unit() {
            let what = format!("the unit is {}, that of the vectors {}", self.unit, images.unit());
            return Err(self.section.corrupt(self.shape.unit_offset(), what));
        }
        let (mut sums, mut image, mut position) = (vec![0f64; self.centre.len()], Vec::new(), 0usize);
        vectors.for_each(|row, vector| {
            images.image(vector, &mut image);
            sums.iter_mut().zip(&image).for_each(|(sum, y)| *sum += f64::from(*y));
            self.check_row(nodes[position], row, metric, &image)?;
            position += 1;
            if position.is_multiple_of(NODES_PER_STEP as usize) { progress.add(0) } else { Ok(()) }
        })?;
        for (i, (sum, &centre)) in sums.iter().zip(&self.centre).enumerate() {
            let mean = sum / f64::from(self.shape.count.max(1));
            if (mean - f64::from(centre)).abs() > ROUNDING {
                let what = format!("component {i} of the centre is {centre}, the mean of the images {mean}");
                return Err(self.section.corrupt(self.shape.centre_offset() + i as u64 * 4, what));
            }
        }
        Ok(())
    }

    fn check_row(&self, node: u32, row: u32, metric: Metric, image: &[f32]) -> Result<()> {
        let at = u64::from(node) * self.shape.stride as u64;
        let bytes = self.section.read(at..at + self.shape.stride as u64)?;
        let end = self.shape.meta_offset(node);
        let (scale, bias) = row_meta(&self.section.read(end..end + META_BYTES as u64)?);
        let (scale, bias) = (f64::from(scale), f64::from(bias));
        let differs = |at: u64, what: String| Err(self.section.corrupt(at, format!("node {node}, the vector of row {row}: {what}")));
        let (mut greatest, mut expected, mut terms) = (0f64, 0f64, 0f64);
        for (i, ((&y, &centre), &code)) in image.iter().zip(&self.centre).zip(bytes.iter()).enumerate() {
            let (y, centre) = (f64::from(y), f64::from(centre));
            let residual = y - centre;
            let coded = (f64::from(code) - 64.0) * scale;
            if (coded - residual).abs() > scale * (0.5 + 1e-4) + ROUNDING * (y.abs() + centre.abs()) {
                return differs(at + i as u64, format!("code {i} stands for {}, the image has {y}", centre + coded));
            }
            greatest = greatest.max(residual.abs());
            let term = if metric == Metric::L2 { residual * residual } else { -centre * residual };
            (expected, terms) = (expected + term, terms + term.abs());
        }
        // Where all components are those of the centre there is nothing to scale.
        let expected_scale = if greatest > 0.0 { greatest / 63.0 } else { 1.0 };
        if (scale - expected_scale).abs() > ROUNDING * expected_scale + f64::from(f32::MIN_POSITIVE) {
            return differs(end, format!("the scale is {scale}, that of the image {expected_scale}"));
        }
        if (bias - expected).abs() > ROUNDING * (terms + f64::from(f32::MIN_POSITIVE)) {
            return differs(end + 4, format!("the bias is {bias}, that of the image {expected}"));
        }
        Ok(())
    }
}
