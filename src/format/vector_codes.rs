//! Vectors as codes of 7 bits a component: section `VectorCodes`. Spec §12.6.

use super::error::FormatError;
use super::vectors::VectorsShape;
use crate::options::{Metric, limits};

/// Codes that are compared at once; the codes of a row are padded to a multiple of it.
pub const CODES_BLOCK: usize = 32;
/// Rows begin at multiples of it: a cache line.
pub const ROW_ALIGN: usize = 64;
/// Bytes at the end of a row: its scale and its bias, two `f32`.
pub const META_BYTES: usize = 8;
/// Bytes of `unit`, which stands after the rows.
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
}

impl CodesShape {
    /// The codes of `count` images of `dimension` components, 1 to 65,536.
    pub fn new(count: u32, dimension: u32) -> CodesShape {
        let codes = (dimension as usize).next_multiple_of(CODES_BLOCK);
        CodesShape { count, dimension, stride: (codes + META_BYTES).next_multiple_of(ROW_ALIGN) }
    }

    /// Bytes of all rows; `unit` stands there.
    pub fn rows_bytes(&self) -> u64 {
        u64::from(self.count) * self.stride as u64
    }

    /// Where the centre starts.
    pub fn centre_offset(&self) -> u64 {
        self.rows_bytes() + UNIT_BYTES
    }

    /// Bytes of the section.
    pub fn length(&self) -> u64 {
        self.centre_offset() + u64::from(self.dimension) * 4
    }

    /// Checks what the section table says (Spec §12.6) of the codes of these vectors.
    pub fn decode(vectors: VectorsShape, metric: Metric, items: u64, aux: u64, length: u64) -> Result<CodesShape, FormatError> {
        debug_assert!(vectors.dimension as usize <= limits::DIMENSION_MAX, "the shape of the vectors was checked");
        let shape = CodesShape::new(vectors.count, image_dimension(metric, vectors.dimension));
        if (items, aux, length) != (u64::from(shape.count), shape.stride as u64, shape.length()) {
            return Err(FormatError::new(
                0,
                format!(
                    "{} rows of codes of {} components have {} bytes each, {} together; {items} of {aux} in {length} bytes are here",
                    shape.count,
                    shape.dimension,
                    shape.stride,
                    shape.length()
                ),
            ));
        }
        Ok(shape)
    }
}

/// Scale and bias of a row.
#[inline]
pub fn row_meta(row: &[u8]) -> (f32, f32) {
    let [.., a, b, c, d, e, f, g, h] = *row else { return (0.0, 0.0) };
    (f32::from_le_bytes([a, b, c, d]), f32::from_le_bytes([e, f, g, h]))
}

/// Writes scale and bias to the end of a row.
pub fn set_row_meta(row: &mut [u8], scale: f32, bias: f32) {
    let at = row.len() - META_BYTES;
    row[at..at + 4].copy_from_slice(&scale.to_le_bytes());
    row[at + 4..].copy_from_slice(&bias.to_le_bytes());
}

/// Checks that a row of codes of `dimension` components is one that a writer makes: codes of 1 to 127, zeros up to the numbers at its end, and
/// these finite, the scale positive.
pub fn check_codes(row: &[u8], dimension: usize) -> Result<(), FormatError> {
    let end = row.len().saturating_sub(META_BYTES);
    let (codes, padding) = row[..end].split_at(dimension.min(end));
    if let Some(i) = codes.iter().position(|code| !(1..=127).contains(code)) {
        return Err(FormatError::new(i, format!("code {i} is {}, not 1 to 127", codes[i])));
    }
    if let Some(i) = padding.iter().position(|&byte| byte != 0) {
        return Err(FormatError::new(codes.len() + i, format!("{:#04x} stands in the padding of the codes", padding[i])));
    }
    let (scale, bias) = row_meta(row);
    if !scale.is_finite() || scale <= 0.0 {
        return Err(FormatError::new(end, format!("the scale of the codes is a positive number, not {scale}")));
    }
    if !bias.is_finite() {
        return Err(FormatError::new(end + 4, format!("the bias of the codes is {bias}")));
    }
    Ok(())
}

/// What stands after the rows: `unit`, then the centre.
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
    fn a_row_has_room_for_its_codes_and_its_meta_and_starts_at_a_line() {
        for (dimension, stride) in [(1, 64), (32, 64), (56, 128), (57, 128), (100, 192), (384, 448), (65_536, 65_600)] {
            assert_eq!(CodesShape::new(3, dimension).stride, stride, "{dimension}");
        }
        assert_eq!(CodesShape::new(2, 384).length(), 2 * 448 + 8 + 4 * 384);
    }

    #[test]
    fn numbers_that_do_not_fit_the_vectors_are_refused() {
        let vectors = VectorsShape { count: 3, dimension: 31 };
        let good = CodesShape::decode(vectors, Metric::L2, 3, 64, 3 * 64 + 8 + 31 * 4);
        assert_eq!(good, Ok(CodesShape { count: 3, dimension: 31, stride: 64 }));
        let dot = CodesShape::decode(vectors, Metric::Dot, 3, 64, 3 * 64 + 8 + 32 * 4);
        assert_eq!(dot.map(|s| s.dimension), Ok(32));
        for (items, aux, length) in [(2, 64, 324), (3, 128, 324), (3, 64, 323), (u64::MAX, u64::MAX, u64::MAX)] {
            assert!(CodesShape::decode(vectors, Metric::Cosine, items, aux, length).is_err());
        }
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
        let mut good = [0u8; 64];
        good[..3].copy_from_slice(&[1, 64, 127]);
        set_row_meta(&mut good, 0.5, -2.0);
        assert_eq!(check_codes(&good, 3), Ok(()));
        let at = |change: &dyn Fn(&mut [u8])| {
            let mut row = good;
            change(&mut row);
            check_codes(&row, 3).map_err(|e| e.offset).expect_err("no writer makes it")
        };
        assert_eq!((at(&|row| row[1] = 0), at(&|row| row[2] = 128)), (1, 2));
        assert_eq!((at(&|row| row[3] = 1), at(&|row| row[55] = 64)), (3, 55));
        for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert_eq!(at(&|row| set_row_meta(row, scale, 0.0)), 56, "{scale}");
        }
        assert_eq!(at(&|row| set_row_meta(row, 1.0, f32::NEG_INFINITY)), 60);
    }

    #[test]
    fn meta_stands_at_the_end_of_a_row() {
        let mut row = [7u8; 64];
        set_row_meta(&mut row, 0.5, -2.0);
        assert_eq!((row_meta(&row), row[55]), ((0.5, -2.0), 7));
    }
}
