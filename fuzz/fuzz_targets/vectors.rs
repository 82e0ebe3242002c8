//! What the section table says of vectors, and their arrays of rows and norms.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::format::vectors::{VectorsShape, check_rows, encode_rows, view_components, view_inverse_norms, view_rows};

fuzz_target!(|bytes: &[u8]| {
    let Some((numbers, rest)) = bytes.split_first_chunk::<24>() else { return };
    let number = |i: usize| numbers[i * 8..i * 8 + 8].iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    if let Ok(shape) = VectorsShape::decode(number(0), number(1), number(2)) {
        assert_eq!(u64::from(shape.count) * shape.vector_bytes(), number(2));
        let _ = shape.decode_rows_entry(number(0), number(1), rest.len() as u64);
        let _ = shape.decode_norms_entry(number(0), rest.len() as u64);
    }
    if let Ok(rows) = view_rows(rest)
        && check_rows(rows, 1 << 16).is_ok()
    {
        let plain: Vec<u32> = rows.iter().map(|row| row.get()).collect();
        assert!(plain.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(encode_rows(&plain), rest);
    }
    if let Ok(norms) = view_inverse_norms(rest) {
        assert_eq!(norms.len() * 8, rest.len());
    }
    if rest.len().is_multiple_of(4) {
        assert_eq!(view_components(rest).len() * 4, rest.len());
    }
});
