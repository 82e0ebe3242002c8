//! Writes the vectors of one segment.

use super::kernel;
use crate::error::Result;
use crate::format::segment::SectionKind;
use crate::format::vectors::{encode_components, encode_halves, encode_inverse_norms, encode_rows, first_unrounded};
use crate::options::Components;
use crate::segment::SegmentWriter;

/// Streams the vectors of one segment to its writer: section `Vectors` while rows are pushed, the small ones at the end. Keeps 12 bytes a
/// vector in memory.
#[derive(Debug)]
pub struct VectorsBuilder {
    dimension: u32,
    components: Components,
    /// The bytes of one vector, where they are not those in memory.
    narrowed: Vec<u8>,
    rows: Vec<u32>,
    inverse_norms: Vec<f64>,
}

impl VectorsBuilder {
    /// Opens section `Vectors` for vectors of `dimension` components, at least 1, that are stored as `components`. A segment without vectors is
    /// better off without it.
    pub fn begin(out: &mut SegmentWriter, dimension: u32, components: Components) -> Result<VectorsBuilder> {
        assert!(dimension > 0, "a vector has at least one component");
        out.begin(SectionKind::Vectors)?;
        Ok(VectorsBuilder { dimension, components, narrowed: Vec::new(), rows: Vec::new(), inverse_norms: Vec::new() })
    }

    /// Appends the vector of `row`. Rows come in ascending order; those that are left out have no vector.
    ///
    /// # Panics
    /// When `row` is not above the last one, or the vector has another dimension: the commit that took the vector checked it. With debug
    /// assertions also when a component is none that is stored without a difference: the commit rounded them.
    pub fn push(&mut self, out: &mut SegmentWriter, row: u32, vector: &[f32]) -> Result<()> {
        assert_eq!(vector.len(), self.dimension as usize, "a collection's vectors have one dimension");
        assert!(self.rows.last().is_none_or(|&last| last < row), "rows are pushed in ascending order");
        self.rows.push(row);
        self.inverse_norms.push(kernel::inverse_norm(vector));
        match self.components {
            Components::F32 => out.write(&encode_components(vector)),
            Components::F16 => {
                debug_assert!(first_unrounded(vector, self.components).is_none(), "components are rounded when they are given");
                encode_halves(vector, &mut self.narrowed);
                out.write(&self.narrowed)
            }
        }
    }

    /// Ends section `Vectors` and writes the others of a segment of `rows` rows.
    ///
    /// # Panics
    /// When a row at or beyond `rows` was pushed.
    pub fn finish(self, out: &mut SegmentWriter, rows: u32) -> Result<()> {
        assert!(self.rows.last().is_none_or(|&last| last < rows), "vectors lie in the segment's rows");
        let count = self.rows.len() as u64;
        out.end(count, u64::from(self.dimension))?;
        if count != u64::from(rows) {
            out.section(SectionKind::VectorRows, count, u64::from(rows), &encode_rows(&self.rows))?;
        }
        out.section(SectionKind::VectorNorms, count, 0, &encode_inverse_norms(&self.inverse_norms))
    }
}
