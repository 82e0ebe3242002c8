//! The vectors of a segment: sections `Vectors`, `VectorRows` and `VectorNorms`. Spec §12.
//!
//! All three are bare arrays; their counts stand in the section table. The views here borrow the bytes and copy only where the host
//! can't look at them in place (a misaligned buffer, or a big-endian host).

use super::error::FormatError;
use super::half::{rounded_to_half, single_to_half};
use crate::options::{Components, limits};
use std::borrow::Cow;
use zerocopy::little_endian::{F64, U32};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of one inverse norm.
pub const INVERSE_NORM_BYTES: u64 = 8;

/// How many vectors there are, how long each is, and how wide a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorsShape {
    /// Number of vectors, at most 2^31.
    pub count: u32,
    /// Components of each, 1 to 65,535.
    pub dimension: u32,
    /// How components are stored. Of no vectors it cannot be told, and is f32.
    pub components: Components,
}

impl VectorsShape {
    /// Checks what the section table says of `Vectors` (Spec §12.1): `items` vectors of `aux` components in `length` bytes,
    /// which say how many bytes a component has.
    pub fn decode(items: u64, aux: u64, length: u64) -> Result<VectorsShape, FormatError> {
        if aux == 0 || aux > limits::DIMENSION_MAX as u64 {
            return Err(FormatError::new(0, format!("a vector has 1 to {} components, not {aux}", limits::DIMENSION_MAX)));
        }
        if items > limits::SEGMENT_ROWS_MAX {
            return Err(FormatError::new(0, format!("a segment has at most {} vectors, not {items}", limits::SEGMENT_ROWS_MAX)));
        }
        // Both factors are bounded above, so the products fit in 64 bits.
        let fits = |components: &Components| length == items * aux * components.bytes();
        let Some(components) = [Components::F32, Components::F16].into_iter().find(fits) else {
            let (f32s, f16s) = (items * aux * 4, items * aux * 2);
            return Err(FormatError::new(0, format!("{items} vectors of {aux} components have {f32s} or {f16s} bytes, not {length}")));
        };
        Ok(VectorsShape { count: items as u32, dimension: aux as u32, components })
    }

    /// Bytes of one vector.
    pub fn vector_bytes(self) -> u64 {
        u64::from(self.dimension) * self.components.bytes()
    }

    /// Checks what the section table says of `VectorRows` (Spec §12.2) and returns the number of rows of the segment.
    pub fn decode_rows_entry(self, items: u64, aux: u64, length: u64) -> Result<u32, FormatError> {
        self.check_array("rows", items, length, size_of::<U32>() as u64)?;
        if aux > limits::SEGMENT_ROWS_MAX || aux < items {
            return Err(FormatError::new(0, format!("{items} vectors can't lie in {aux} rows")));
        }
        Ok(aux as u32)
    }

    /// Checks what the section table says of `VectorNorms` (Spec §12.3).
    pub fn decode_norms_entry(self, items: u64, length: u64) -> Result<(), FormatError> {
        self.check_array("inverse norms", items, length, INVERSE_NORM_BYTES)
    }

    fn check_array(self, what: &str, items: u64, length: u64, item_bytes: u64) -> Result<(), FormatError> {
        if items != u64::from(self.count) || length != items * item_bytes {
            return Err(FormatError::new(0, format!("{} vectors need as many {what}; {items} in {length} bytes are here", self.count)));
        }
        Ok(())
    }
}

/// The components of four bytes in `bytes`, a multiple of four of them. Spec §12.1.
pub fn view_components(bytes: &[u8]) -> Cow<'_, [f32]> {
    if cfg!(target_endian = "little")
        && let Ok(components) = <[f32]>::ref_from_bytes(bytes)
    {
        return Cow::Borrowed(components);
    }
    Cow::Owned(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
}

/// The components of two bytes in `bytes`, an even number of them: binary16, to be taken to f32 by [`super::half`]. Spec §12.1.
pub fn view_halves(bytes: &[u8]) -> &[[u8; 2]] {
    bytes.as_chunks::<2>().0
}

/// Puts the bytes of `components` as binary16 in place of what is in `out`. Each is one exactly; another would be rounded. Spec §12.1.
pub fn encode_halves(components: &[f32], out: &mut Vec<u8>) {
    out.clear();
    out.extend(components.iter().flat_map(|c| single_to_half(*c).to_le_bytes()));
}

/// Makes of a vector what is stored of it. `Err` is the place of a component that is beyond what can be stored; nothing is changed then.
pub fn round_components(vector: &mut [f32], components: Components) -> Result<(), usize> {
    if components == Components::F32 {
        return Ok(());
    }
    if let Some(beyond) = vector.iter().position(|c| rounded_to_half(*c).is_infinite()) {
        return Err(beyond);
    }
    vector.iter_mut().for_each(|c| *c = rounded_to_half(*c));
    Ok(())
}

/// The place of a component that would be rounded when it is stored; none when `vector` is what was made to be stored.
pub fn first_unrounded(vector: &[f32], components: Components) -> Option<usize> {
    match components {
        Components::F32 => None,
        Components::F16 => vector.iter().position(|c| rounded_to_half(*c).to_bits() != c.to_bits()),
    }
}

/// The bytes of `components` as they are. Spec §12.1.
pub fn encode_components(components: &[f32]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return Cow::Borrowed(components.as_bytes());
    }
    Cow::Owned(components.iter().flat_map(|c| c.to_le_bytes()).collect())
}

/// The rows in `bytes`, unchecked but for their number. Spec §12.2.
pub fn view_rows(bytes: &[u8]) -> Result<&[U32], FormatError> {
    <[U32]>::ref_from_bytes(bytes).map_err(|_| FormatError::new(0, format!("rows have four bytes each, so not {} together", bytes.len())))
}

/// Checks that the rows ascend strictly and lie below `rows`. O(their number). Spec §12.2.
pub fn check_rows(vector_rows: &[U32], rows: u32) -> Result<(), FormatError> {
    let mut least = 0;
    for (i, row) in vector_rows.iter().enumerate() {
        if row.get() < least || row.get() >= rows {
            return Err(FormatError::new(i * 4, format!("row {row} of vector {i} does not lie in {least}..{rows}")));
        }
        // It is below a row count of at most 2^31, so this does not overflow.
        least = row.get() + 1;
    }
    Ok(())
}

/// The bytes of `rows`. Spec §12.2.
pub fn encode_rows(rows: &[u32]) -> Vec<u8> {
    rows.iter().flat_map(|row| row.to_le_bytes()).collect()
}

/// The inverse norms in `bytes`. Spec §12.3.
pub fn view_inverse_norms(bytes: &[u8]) -> Result<&[F64], FormatError> {
    <[F64]>::ref_from_bytes(bytes)
        .map_err(|_| FormatError::new(0, format!("inverse norms have eight bytes each, so not {} together", bytes.len())))
}

/// The bytes of `inverse_norms`. Spec §12.3.
pub fn encode_inverse_norms(inverse_norms: &[f64]) -> Vec<u8> {
    inverse_norms.iter().flat_map(|norm| norm.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_that_does_not_fill_its_section_is_refused() {
        for (length, components) in [(24, Components::F32), (12, Components::F16)] {
            let shape = VectorsShape { count: 3, dimension: 2, components };
            assert_eq!(VectorsShape::decode(3, 2, length), Ok(shape));
            assert_eq!(shape.vector_bytes() * 3, length);
        }
        assert!(VectorsShape::decode(0, 2, 0).is_ok());
        for (items, aux, length) in
            [(3, 2, 23), (3, 2, 28), (3, 2, 6), (3, 2, 13), (3, 2, 48), (0, 2, 2), (1, 0, 0), (0, 0, 0), (1, 65_536, 262_144), ((1 << 31) + 1, 1, 4), (u64::MAX, u64::MAX, 0)]
        {
            assert!(VectorsShape::decode(items, aux, length).is_err(), "{items} x {aux} in {length}");
        }
    }

    #[test]
    fn side_arrays_agree_with_the_shape() {
        let shape = VectorsShape { count: 3, dimension: 2, components: Components::F16 };
        assert_eq!(shape.decode_rows_entry(3, 9, 12), Ok(9));
        for (items, aux, length) in [(2, 9, 8), (3, 2, 12), (3, 9, 16), (3, (1 << 31) + 1, 12), (3, u64::MAX, 12)] {
            assert!(shape.decode_rows_entry(items, aux, length).is_err(), "{items}, {aux}, {length}");
        }
        assert!(shape.decode_norms_entry(3, 24).is_ok());
        assert!(shape.decode_norms_entry(3, 20).is_err());
        assert!(shape.decode_norms_entry(2, 16).is_err());
    }

    #[test]
    fn rows_ascend_strictly_below_the_row_count() {
        let check = |rows: &[u32], limit| check_rows(view_rows(&encode_rows(rows)).expect("whole rows"), limit);
        assert!(check(&[], 0).is_ok());
        assert!(check(&[0, 1, 5], 6).is_ok());
        assert_eq!(check(&[0, 1, 5], 5).map_err(|e| e.offset), Err(8));
        assert_eq!(check(&[1, 1], 5).map_err(|e| e.offset), Err(4));
        assert_eq!(check(&[3, 2], 5).map_err(|e| e.offset), Err(4));
        assert!(check(&[u32::MAX], 5).is_err());
        assert!(view_rows(&[0; 5]).is_err());
    }

    #[test]
    fn components_read_the_same_at_any_alignment() {
        let components = [1.5f32, -0.0, f32::MIN_POSITIVE, f32::MAX, 1e-45];
        let bits = |c: &[f32]| c.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        for shift in 0..4 {
            let mut buffer = vec![0; shift];
            buffer.extend_from_slice(&encode_components(&components));
            assert_eq!(bits(&view_components(&buffer[shift..])), bits(&components));
        }
        assert_eq!(encode_components(&[1.0])[..], [0, 0, 0x80, 0x3f]);
        assert_eq!(encode_inverse_norms(&[1.0])[..], [0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    }

    #[test]
    fn what_is_stored_of_a_component_is_the_nearest_binary16() {
        let mut vector = [0.1, -65_519.0, 1e-9];
        assert_eq!((first_unrounded(&vector, Components::F16), first_unrounded(&vector, Components::F32)), (Some(0), None));
        assert_eq!(round_components(&mut vector, Components::F16), Ok(()));
        assert_eq!(vector, [0.099_975_586, -65_504.0, 0.0]);
        assert_eq!(first_unrounded(&vector, Components::F16), None);
        let beyond = [0.1, 65_520.0];
        let mut vector = beyond;
        assert_eq!(round_components(&mut vector, Components::F16), Err(1));
        assert_eq!((vector, round_components(&mut vector.clone(), Components::F32)), (beyond, Ok(())));
        let mut halves = vec![7; 9];
        encode_halves(&[1.0, -2.5, 0.0], &mut halves);
        assert_eq!(halves, [0, 0x3c, 0, 0xc1, 0, 0]);
        assert_eq!(view_halves(&halves), [[0, 0x3c], [0, 0xc1], [0, 0]]);
    }
}
