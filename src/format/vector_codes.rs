//! Vectors as codes of 7 bits a component: section `VectorCodes`. Spec §12.6.

use super::error::FormatError;
use super::vectors::VectorsShape;
use crate::options::{Metric, limits};

/// Codes that are compared at once: a query is padded with zeros to a multiple of it, which make nothing of what stands there in a row.
pub const CODES_BLOCK: usize = 32;
/// Rows begin at multiples of it: a cache line.
pub const ROW_ALIGN: usize = 64;
/// Bytes of the scale and the bias of a row, two `f32`.
pub const META_BYTES: usize = 8;
/// Bytes of `unit`.
const UNIT_BYTES: u64 = 8;

/// Components of the image of a vector (Spec §12.5): under the inner product one more than the vector has.
pub fn image_dimension(metric: Metric, dimension: u32) -> u32 {
    dimension + u32::from(metric == Metric::Dot)
}

/// Where what stands in the section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodesShape {
    /// Rows, one for each node of the graph.
    pub count: u32,
    /// Components of an image, and codes of a row.
    pub dimension: u32,
    /// Bytes of a row.
    pub stride: usize,
    /// Where scale and bias of a row stand.
    pub meta: MetaPlace,
}

/// Where scale and bias of a row stand: a row takes no line of the cache for them alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaPlace {
    /// In its last bytes.
    Inside,
    /// After all rows, those of one row after those of the other.
    After,
}

impl CodesShape {
    /// The codes of `count` images of `dimension` components, 1 to 65,536, as they are written.
    pub fn new(count: u32, dimension: u32) -> CodesShape {
        let stride = (dimension as usize).next_multiple_of(ROW_ALIGN);
        let meta = if dimension as usize + META_BYTES <= stride { MetaPlace::Inside } else { MetaPlace::After };
        CodesShape { count, dimension, stride, meta }
    }

    /// The same as they were written before 2026-12-03: a row had room for the numbers in any case.
    pub fn earlier(count: u32, dimension: u32) -> CodesShape {
        let codes = (dimension as usize).next_multiple_of(CODES_BLOCK);
        CodesShape { count, dimension, stride: (codes + META_BYTES).next_multiple_of(ROW_ALIGN), meta: MetaPlace::Inside }
    }

    /// Bytes of all rows.
    pub fn rows_bytes(&self) -> u64 {
        u64::from(self.count) * self.stride as u64
    }

    /// Where scale and bias of a row start.
    pub fn meta_offset(&self, row: u32) -> u64 {
        self.meta_start() + u64::from(row) * self.meta_step() as u64
    }

    /// Where those of row 0 start.
    fn meta_start(&self) -> u64 {
        match self.meta {
            MetaPlace::Inside => (self.stride - META_BYTES) as u64,
            MetaPlace::After => self.rows_bytes(),
        }
    }

    /// Bytes from those of a row to those of the next.
    pub fn meta_step(&self) -> usize {
        match self.meta {
            MetaPlace::Inside => self.stride,
            MetaPlace::After => META_BYTES,
        }
    }

    /// Bytes of a row that are codes or padding.
    pub fn codes_bytes(&self) -> usize {
        match self.meta {
            MetaPlace::Inside => self.stride - META_BYTES,
            MetaPlace::After => self.stride,
        }
    }

    /// Bytes of the rows and of all that belongs to them; `unit` stands there.
    pub fn unit_offset(&self) -> u64 {
        self.rows_bytes() + if self.meta == MetaPlace::After { u64::from(self.count) * META_BYTES as u64 } else { 0 }
    }

    /// Where the centre starts.
    pub fn centre_offset(&self) -> u64 {
        self.unit_offset() + UNIT_BYTES
    }

    /// Bytes of the section.
    pub fn length(&self) -> u64 {
        self.centre_offset() + u64::from(self.dimension) * 4
    }

    /// Checks what the section table says (Spec §12.6) of the codes of these vectors.
    pub fn decode(vectors: VectorsShape, metric: Metric, items: u64, aux: u64, length: u64) -> Result<CodesShape, FormatError> {
        debug_assert!(vectors.dimension as usize <= limits::DIMENSION_MAX, "the shape of the vectors was checked");
        let of = (vectors.count, image_dimension(metric, vectors.dimension));
        let shape = CodesShape::new(of.0, of.1);
        let says = |shape: &CodesShape| (items, aux, length) == (u64::from(shape.count), shape.stride as u64, shape.length());
        let shapes = [shape, CodesShape::earlier(of.0, of.1)];
        shapes.into_iter().find(says).ok_or_else(|| {
            let what = format!(
                "{} rows of codes of {} components have {} bytes each, {} together; {items} of {aux} in {length} bytes are here",
                shape.count,
                shape.dimension,
                shape.stride,
                shape.length()
            );
            FormatError::new(0, what)
        })
    }

    /// The same without the vectors, of which the dimension is the one that fits; `None` when none does.
    pub fn of_table(items: u64, aux: u64, length: u64) -> Option<CodesShape> {
        let count = u32::try_from(items).ok()?;
        let rows = [aux, aux.checked_add(META_BYTES as u64)?].map(|bytes| items.checked_mul(bytes));
        let centre = |rows: Option<u64>| length.checked_sub(UNIT_BYTES)?.checked_sub(rows?);
        let dimensions = rows.into_iter().filter_map(|rows| u32::try_from(centre(rows)? / 4).ok());
        let possible = dimensions.filter(|&d| d > 0 && d as usize <= limits::DIMENSION_MAX + 1);
        let mut shapes = possible.flat_map(|d| [CodesShape::new(count, d), CodesShape::earlier(count, d)]);
        shapes.find(|shape| (aux, length) == (shape.stride as u64, shape.length()))
    }
}

/// Scale and bias of a row, out of the bytes that end with them.
#[inline]
pub fn row_meta(row: &[u8]) -> (f32, f32) {
    let [.., a, b, c, d, e, f, g, h] = *row else { return (0.0, 0.0) };
    (f32::from_le_bytes([a, b, c, d]), f32::from_le_bytes([e, f, g, h]))
}

/// Writes scale and bias to the end of these bytes.
pub fn set_row_meta(row: &mut [u8], scale: f32, bias: f32) {
    let at = row.len() - META_BYTES;
    row[at..at + 4].copy_from_slice(&scale.to_le_bytes());
    row[at + 4..].copy_from_slice(&bias.to_le_bytes());
}

/// Checks that a row of codes of `dimension` components, without its scale and bias, is one that a writer makes: codes of 1 to 127, then zeros.
pub fn check_codes(row: &[u8], dimension: usize) -> Result<(), FormatError> {
    let (codes, padding) = row.split_at(dimension.min(row.len()));
    if let Some(i) = codes.iter().position(|code| !(1..=127).contains(code)) {
        return Err(FormatError::new(i, format!("code {i} is {}, not 1 to 127", codes[i])));
    }
    if let Some(i) = padding.iter().position(|&byte| byte != 0) {
        return Err(FormatError::new(codes.len() + i, format!("{:#04x} stands in the padding of the codes", padding[i])));
    }
    Ok(())
}

/// Checks that scale and bias of a row are finite, the scale positive.
pub fn check_meta(meta: &[u8]) -> Result<(), FormatError> {
    let (scale, bias) = row_meta(meta);
    if !scale.is_finite() || scale <= 0.0 {
        return Err(FormatError::new(0, format!("the scale of the codes is a positive number, not {scale}")));
    }
    if !bias.is_finite() {
        return Err(FormatError::new(4, format!("the bias of the codes is {bias}")));
    }
    Ok(())
}

/// What stands at the end: `unit`, then the centre.
pub fn encode_tail(unit: f64, centre: &[f32]) -> Vec<u8> {
    let mut out = unit.to_le_bytes().to_vec();
    out.extend(centre.iter().flat_map(|c| c.to_le_bytes()));
    out
}

/// Reads what [`encode_tail`] wrote. `unit` is positive and finite, and so is every component of the centre finite.
pub fn decode_tail(bytes: &[u8], shape: CodesShape) -> Result<(f64, Vec<f32>), FormatError> {
    let Some((unit, centre)) = bytes.split_first_chunk::<8>() else {
        return Err(FormatError::new(0, format!("the unit has 8 bytes, and {} are here", bytes.len())));
    };
    let unit = f64::from_le_bytes(*unit);
    if !unit.is_finite() || unit <= 0.0 {
        return Err(FormatError::new(0, format!("the unit is a positive number, not {unit}")));
    }
    let centre: Vec<f32> = centre.as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect();
    if centre.len() != shape.dimension as usize {
        return Err(FormatError::new(8, format!("the centre has {} components, not {}", shape.dimension, centre.len())));
    }
    if let Some(i) = centre.iter().position(|c| !c.is_finite()) {
        return Err(FormatError::new(8 + i * 4, format!("component {i} of the centre is {}", centre[i])));
    }
    Ok((unit, centre))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_begins_at_a_line_and_has_none_for_its_numbers_alone() {
        let shapes = [(1, 64, MetaPlace::Inside), (56, 64, MetaPlace::Inside), (57, 64, MetaPlace::After), (64, 64, MetaPlace::After)];
        let more = [(65, 128, MetaPlace::Inside), (100, 128, MetaPlace::Inside), (384, 384, MetaPlace::After), (65_536, 65_536, MetaPlace::After)];
        for (dimension, stride, meta) in shapes.into_iter().chain(more) {
            let shape = CodesShape::new(3, dimension);
            assert_eq!((shape.stride, shape.meta), (stride, meta), "{dimension}");
            assert!(shape.codes_bytes() >= dimension as usize && shape.meta_offset(2) + META_BYTES as u64 <= shape.unit_offset(), "{dimension}");
        }
        assert_eq!(CodesShape::new(2, 384).length(), 2 * (384 + 8) + 8 + 4 * 384);
        assert_eq!([0, 1].map(|row| CodesShape::new(2, 384).meta_offset(row)), [768, 776]);
        assert_eq!([0, 1].map(|row| CodesShape::new(2, 100).meta_offset(row)), [120, 248]);
    }

    #[test]
    fn numbers_that_do_not_fit_the_vectors_are_refused() {
        let vectors = VectorsShape { count: 3, dimension: 31, components: crate::options::Components::F32 };
        let good = CodesShape::decode(vectors, Metric::L2, 3, 64, 3 * 64 + 8 + 31 * 4);
        assert_eq!(good, Ok(CodesShape { count: 3, dimension: 31, stride: 64, meta: MetaPlace::Inside }));
        let dot = CodesShape::decode(vectors, Metric::Dot, 3, 64, 3 * 64 + 8 + 32 * 4);
        assert_eq!(dot.map(|s| s.dimension), Ok(32));
        for (items, aux, length) in [(2, 64, 324), (3, 128, 324), (3, 64, 323), (u64::MAX, u64::MAX, u64::MAX)] {
            assert!(CodesShape::decode(vectors, Metric::Cosine, items, aux, length).is_err());
        }
        assert_eq!([(3, 64, 323), (u64::MAX, u64::MAX, u64::MAX), (0, 0, 0)].map(|(i, a, l)| CodesShape::of_table(i, a, l)), [None; 3]);
    }

    #[test]
    fn rows_are_read_as_they_were_written_before_too() {
        for dimension in [1u32, 24, 25, 56, 57, 64, 88, 100, 384, 385, 4096] {
            let vectors = VectorsShape { count: 3, dimension, components: crate::options::Components::F32 };
            let (now, before) = (CodesShape::new(3, dimension), CodesShape::earlier(3, dimension));
            for shape in [now, before] {
                assert_eq!(CodesShape::decode(vectors, Metric::L2, 3, shape.stride as u64, shape.length()), Ok(shape), "{dimension}");
                assert_eq!(CodesShape::of_table(3, shape.stride as u64, shape.length()), Some(shape), "{dimension}");
            }
        }
        assert_eq!([100, 384].map(|d| CodesShape::earlier(1, d).stride), [192, 448]);
    }

    #[test]
    fn the_tail_comes_back_and_other_numbers_are_refused() {
        let shape = CodesShape::new(1, 2);
        let tail = encode_tail(2.5, &[1.0, -3.0]);
        assert_eq!(decode_tail(&tail, shape), Ok((2.5, vec![1.0, -3.0])));
        for (unit, centre) in [(0.0, [0.0, 0.0]), (f64::NAN, [0.0; 2]), (-1.0, [0.0; 2]), (1.0, [f32::INFINITY, 0.0])] {
            assert!(decode_tail(&encode_tail(unit, &centre), shape).is_err());
        }
        assert!(decode_tail(&tail[..9], shape).is_err());
        assert!(decode_tail(&[], shape).is_err());
    }

    #[test]
    fn a_row_that_no_writer_makes_is_refused_where_it_differs() {
        let good = [1u8, 64, 127, 0, 0, 0];
        assert_eq!(check_codes(&good, 3), Ok(()));
        for (at, byte) in [(1, 0), (2, 128), (3, 1), (5, 64)] {
            let mut row = good;
            row[at] = byte;
            assert_eq!(check_codes(&row, 3).map_err(|e| e.offset), Err(at as u64));
        }
        let check = |scale: f32, bias: f32| {
            let mut meta = [0; META_BYTES];
            set_row_meta(&mut meta, scale, bias);
            check_meta(&meta).map_err(|e| e.offset)
        };
        assert_eq!(check(0.5, -2.0), Ok(()));
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert_eq!(check(scale, 0.0), Err(0), "{scale}");
        }
        assert_eq!(check(1.0, f32::NEG_INFINITY), Err(4));
    }

    #[test]
    fn meta_stands_at_the_end_of_a_row() {
        let mut row = [7u8; 64];
        set_row_meta(&mut row, 0.5, -2.0);
        assert_eq!((row_meta(&row), row[55]), ((0.5, -2.0), 7));
    }
}
