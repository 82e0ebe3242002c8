//! Vectors from NumPy's `.npy` files, one row at a time.
//!
//! Reads f16, f32 and f64, little-endian, C order, one or two dimensions, headers of versions 1 to 3; refuses everything else by name.
//! Memory is one row, whatever the file's size: a header is at most 64 KiB, a row at most 65,535 components.

use crate::output::{Failure, Outcome};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use triune::limits;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
const HEADER_BYTES_MAX: usize = 64 << 10;

/// The rows of a two-dimensional array; an array of one dimension is one row.
pub(crate) struct Rows<R> {
    reader: R,
    name: String,
    kind: Float,
    rows: u64,
    dimension: usize,
    read: u64,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Float {
    Half,
    Single,
    Double,
}

impl Float {
    fn bytes(self) -> usize {
        match self {
            Float::Half => 2,
            Float::Single => 4,
            Float::Double => 8,
        }
    }
}

/// Opens a file and checks that it is as long as its header says.
pub(crate) fn open(path: &Path) -> Outcome<Rows<BufReader<File>>> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|e| Failure::file(&name, &e))?;
    let metadata = file.metadata().map_err(|e| Failure::file(&name, &e))?;
    let mut reader = Counting { inner: BufReader::with_capacity(1 << 20, file), count: 0 };
    let header = read_header(&mut reader, &name)?;
    let expected = header.rows as u128 * header.dimension as u128 * header.kind.bytes() as u128 + u128::from(reader.count);
    if metadata.is_file() && u128::from(metadata.len()) != expected {
        return Err(Failure::invalid(format!(
            "{name} has {} bytes; {} rows of {} components take {expected}",
            metadata.len(),
            header.rows,
            header.dimension
        )));
    }
    Ok(Rows::new(reader.inner, name, header))
}

impl<R: Read> Rows<R> {
    /// Reads the header of an array that stands in `reader`; `name` is for messages.
    pub(crate) fn from_reader(mut reader: R, name: impl Into<String>) -> Outcome<Rows<R>> {
        let name = name.into();
        let header = read_header(&mut reader, &name)?;
        Ok(Rows::new(reader, name, header))
    }

    fn new(reader: R, name: String, header: Header) -> Rows<R> {
        let bytes = vec![0; header.dimension * header.kind.bytes()];
        Rows { reader, name, kind: header.kind, rows: header.rows, dimension: header.dimension, read: 0, bytes }
    }

    /// How many rows the array has.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// The next row, or `None` after the last.
    pub(crate) fn next_row(&mut self) -> Outcome<Option<Vec<f32>>> {
        if self.read == self.rows {
            return Ok(None);
        }
        self.reader.read_exact(&mut self.bytes).map_err(|e| short(&self.name, &format!("row {}", self.read), &e))?;
        self.read += 1;
        let mut row = Vec::with_capacity(self.dimension);
        match self.kind {
            Float::Half => row.extend(self.bytes.as_chunks::<2>().0.iter().map(|b| half_to_single(u16::from_le_bytes(*b)))),
            Float::Single => row.extend(self.bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b))),
            Float::Double => {
                let values = self.bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b));
                row.extend(values.clone().map(|value| value as f32));
                self.check_range(values, &row)?;
            }
        }
        Ok(Some(row))
    }

    /// That no number became infinite when it was made narrower. What is no number in the file either is refused by whoever takes the vector.
    fn check_range(&self, values: impl Iterator<Item = f64>, narrow: &[f32]) -> Outcome<()> {
        match values.zip(narrow).enumerate().find(|(_, (value, narrow))| value.is_finite() && narrow.is_infinite()) {
            None => Ok(()),
            Some((i, (value, _))) => Err(Failure::invalid(format!(
                "{}: row {} holds {value:e} at component {i}; a component is an f32, at most {:e} in magnitude",
                self.name,
                self.read - 1,
                f32::MAX
            ))),
        }
    }

    /// The one row of an array that has no other.
    pub(crate) fn only_row(mut self) -> Outcome<Vec<f32>> {
        match (self.rows, self.next_row()?) {
            (1, Some(row)) => Ok(row),
            (rows, _) => Err(Failure::invalid(format!("{} has {rows} rows; a query vector is one", self.name))),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Header {
    kind: Float,
    rows: u64,
    dimension: usize,
}

fn read_header(reader: &mut impl Read, name: &str) -> Outcome<Header> {
    let mut start = [0u8; 8];
    reader.read_exact(&mut start).map_err(|e| short(name, "the header", &e))?;
    if &start[..6] != MAGIC {
        return Err(Failure::invalid(format!("{name} is not a .npy file: it does not begin with \\x93NUMPY")));
    }
    let length = match start[6] {
        1 => {
            let mut b = [0u8; 2];
            reader.read_exact(&mut b).map_err(|e| short(name, "the header", &e))?;
            usize::from(u16::from_le_bytes(b))
        }
        2 | 3 => {
            let mut b = [0u8; 4];
            reader.read_exact(&mut b).map_err(|e| short(name, "the header", &e))?;
            u32::from_le_bytes(b) as usize
        }
        other => return Err(Failure::invalid(format!("{name} is a .npy file of version {other}; versions 1 to 3 are read"))),
    };
    if length > HEADER_BYTES_MAX {
        return Err(Failure::invalid(format!("{name} has a header of {length} bytes; at most {HEADER_BYTES_MAX} are read")));
    }
    let mut text = vec![0; length];
    reader.read_exact(&mut text).map_err(|e| short(name, "the header", &e))?;
    let text = std::str::from_utf8(&text).map_err(|_| Failure::invalid(format!("{name} has a header that is not UTF-8")))?;
    parse_header(text).map_err(|what| Failure::invalid(format!("{name}: {what}")))
}

/// Reads the Python dictionary of a header: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
fn parse_header(text: &str) -> Result<Header, String> {
    let descr = value_of(text, "descr").and_then(quoted).ok_or("the header names no simple type under 'descr'")?;
    let kind = match descr {
        "<f2" => Float::Half,
        "<f4" => Float::Single,
        "<f8" => Float::Double,
        other => return Err(format!("its values have the type {other:?}; <f2, <f4 and <f8 (f16, f32, f64, little-endian) are read")),
    };
    match value_of(text, "fortran_order") {
        Some(v) if v.starts_with("False") => {}
        Some(v) if v.starts_with("True") => return Err("it is in Fortran order; save it in C order (numpy.ascontiguousarray)".into()),
        _ => return Err("the header does not say 'fortran_order'".into()),
    }
    let shape =
        value_of(text, "shape").and_then(|v| v.strip_prefix('(')).and_then(|v| v.split_once(')')).ok_or("the header has no 'shape'")?.0;
    let sizes: Vec<u64> = shape
        .split(',')
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .map(|s| s.parse().map_err(|_| format!("its shape is ({shape}); sizes are whole numbers")))
        .collect::<Result<_, _>>()?;
    let (rows, dimension) = match sizes[..] {
        [dimension] => (1, dimension),
        [rows, dimension] => (rows, dimension),
        _ => return Err(format!("its shape is ({shape}); vectors are the rows of two dimensions")),
    };
    if dimension == 0 || dimension > limits::DIMENSION_MAX as u64 {
        return Err(format!("its rows have {dimension} components; a vector has 1 to {}", limits::DIMENSION_MAX));
    }
    Ok(Header { kind, rows, dimension: dimension as usize })
}

/// What follows `'key':`.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    ['\'', '"'].iter().find_map(|q| {
        let (_, rest) = text.split_once(&format!("{q}{key}{q}"))?;
        Some(rest.trim_start().strip_prefix(':')?.trim_start())
    })
}

fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text[1..].split_once(quote).map(|(inside, _)| inside)
}

fn short(name: &str, what: &str, error: &std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return Failure::invalid(format!("{name} ends inside {what}"));
    }
    Failure::file(name, error)
}

/// IEEE 754 binary16 to binary32; every value is exact.
fn half_to_single(half: u16) -> f32 {
    let sign = u32::from(half >> 15) << 31;
    let exponent = u32::from(half >> 10) & 0x1f;
    let fraction = u32::from(half) & 0x3ff;
    let magnitude = match (exponent, fraction) {
        // Zero and the subnormals: the fraction in units of 2^-24.
        (0, _) => return f32::from_bits(sign | (fraction as f32 * 2f32.powi(-24)).to_bits()),
        // Infinity and NaN.
        (31, _) => 0xff << 23 | fraction << 13,
        _ => (exponent + 127 - 15) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// Counts the bytes of the header.
struct Counting<R> {
    inner: R,
    count: u64,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.count += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(version: u8, header: &str, body: &[u8]) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        file.extend([version, 0]);
        match version {
            1 => file.extend((header.len() as u16).to_le_bytes()),
            _ => file.extend((header.len() as u32).to_le_bytes()),
        }
        file.extend(header.as_bytes());
        file.extend(body);
        file
    }

    fn rows(file: &[u8]) -> Outcome<Vec<Vec<f32>>> {
        let mut rows = Rows::from_reader(file, "test.npy")?;
        std::iter::from_fn(|| rows.next_row().transpose()).collect()
    }

    fn refusal(file: &[u8]) -> String {
        match rows(file) {
            Err(Failure::Refused { message, .. }) => message,
            other => panic!("{other:?} should be refused"),
        }
    }

    #[test]
    fn the_three_widths_and_header_versions_give_the_same_rows() {
        let want = vec![vec![1.0, -2.5], vec![0.0, 0.5]];
        let values = [1.0f64, -2.5, 0.0, 0.5];
        let half: Vec<u8> = [0x3c00u16, 0xc100, 0, 0x3800].iter().flat_map(|h| h.to_le_bytes()).collect();
        let single: Vec<u8> = values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect();
        let double: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        for (descr, body) in [("<f2", half), ("<f4", single), ("<f8", double)] {
            for version in [1, 2, 3] {
                let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2, 2), }}    \n");
                assert_eq!(rows(&array(version, &header, &body)).expect("a good file is read"), want, "{descr} version {version}");
            }
        }
    }

    #[test]
    fn a_double_that_no_single_holds_is_named() {
        let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }    \n";
        let body: Vec<u8> = [1.0f64, 2.0, 3.0, -1e300].iter().flat_map(|v| v.to_le_bytes()).collect();
        let said = refusal(&array(1, header, &body));
        assert!(said.contains("row 1 holds -1e300 at component 1") && said.contains("3.4028235e38"), "{said}");
    }

    #[test]
    fn every_half_equals_its_definition() {
        for bits in 0..=u16::MAX {
            let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
            let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
            let want = match exponent {
                0 => sign * fraction * 2f64.powi(-24),
                31 if fraction == 0.0 => sign * f64::INFINITY,
                31 => f64::NAN,
                e => sign * (1.0 + fraction / 1024.0) * 2f64.powi(e - 15),
            };
            let got = f64::from(half_to_single(bits));
            assert!(
                got == want && got.is_sign_negative() == want.is_sign_negative() || got.is_nan() && want.is_nan(),
                "{bits:#06x}: {got}, {want}"
            );
        }
    }

    #[test]
    fn what_is_not_read_is_refused_by_name() {
        let header =
            |descr: &str, fortran: &str, shape: &str| format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
        for (header, word) in [
            (header("'>f4'", "False", "(1, 1)"), ">f4"),
            (header("'<i8'", "False", "(1, 1)"), "<i8"),
            (header("[('a', '<f4')]", "False", "(1, 1)"), "descr"),
            (header("'<f4'", "True", "(1, 1)"), "Fortran"),
            (header("'<f4'", "False", "(1, 1, 1)"), "(1, 1, 1)"),
            (header("'<f4'", "False", "()"), "()"),
            (header("'<f4'", "False", "(1, 0)"), "0 components"),
            (header("'<f4'", "False", "(1, 70000)"), "70000"),
            (header("'<f4'", "False", "(-1, 3)"), "whole numbers"),
            ("{}\n".to_string(), "descr"),
        ] {
            let message = refusal(&array(1, &header, &[0; 8]));
            assert!(message.contains(word), "{message:?} should name {word}");
        }
        assert!(refusal(b"PK\x03\x04 something").contains("not a .npy file"));
        assert!(refusal(&array(9, "", &[])).contains("version 9"));
        assert!(refusal(&array(2, &" ".repeat(HEADER_BYTES_MAX + 1), &[])).contains("at most"));
    }

    #[test]
    fn a_file_that_ends_early_says_where() {
        let file = array(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }\n", &[0; 6]);
        assert!(refusal(&file).contains("ends inside row 1"));
        assert!(refusal(&file[..20]).contains("ends inside the header"));
    }
}
