//! Variable-length integers, length-prefixed strings, and a reader that never trusts either. Spec §3.
//!
//! A varint is LEB128: seven bits a byte, low ones first, the top bit set on all bytes but the last; at most ten bytes, and never more than
//! 64 bits. Shorter and longer spellings of the same number are read alike; the encoder writes the shortest.
//!
//! [`Reader`] walks bytes from the front. Every length is compared with what is left before anything is allocated, so a hostile length
//! costs nothing.

use super::error::FormatError;
use crate::options::limits;

/// The most bytes that a varint takes.
pub const VARINT_BYTES_MAX: usize = 10;

/// Appends `value` as a varint.
pub fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `bytes` with their length as a varint before them.
pub fn write_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads encoded values one after another from the front of a slice. O(1) per value beyond the bytes it returns.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// How many bytes were read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Damage at the reader's place.
    pub fn error(&self, what: impl Into<String>) -> FormatError {
        FormatError::new(self.at, what)
    }

    /// The next `count` bytes.
    pub fn take(&mut self, what: &str, count: usize) -> Result<&'a [u8], FormatError> {
        if count > self.remaining() {
            return Err(self.error(format!("{what} takes {count} bytes, but {} are left", self.remaining())));
        }
        let taken = &self.bytes[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    /// One byte.
    pub fn u8(&mut self, what: &str) -> Result<u8, FormatError> {
        Ok(self.take(what, 1)?[0])
    }

    /// A fixed 32-bit number.
    pub fn u32_le(&mut self, what: &str) -> Result<u32, FormatError> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(what, 4)?);
        Ok(u32::from_le_bytes(bytes))
    }

    /// A varint.
    pub fn varint(&mut self, what: &str) -> Result<u64, FormatError> {
        let start = self.at;
        let mut value = 0u64;
        for i in 0..VARINT_BYTES_MAX {
            let byte = self.u8(what)?;
            let bits = u64::from(byte & 0x7f);
            if i == VARINT_BYTES_MAX - 1 && bits > 1 {
                return Err(FormatError::new(start, format!("{what} does not fit into 64 bits")));
            }
            value |= bits << (7 * i);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(FormatError::new(start, format!("{what} is a varint of more than {VARINT_BYTES_MAX} bytes")))
    }

    /// An lsn, seq, incarnation or number of a file: at most [`limits::COUNTER_MAX`].
    pub fn counter(&mut self, what: &str) -> Result<u64, FormatError> {
        let start = self.at;
        match self.varint(what)? {
            number if number <= limits::COUNTER_MAX => Ok(number),
            number => Err(FormatError::new(start, format!("{what} is {number}; at most {} is counted", limits::COUNTER_MAX))),
        }
    }

    /// A count of things that take at least `least` bytes each: refused when what is left cannot hold them, so it is safe to allocate for.
    pub fn count(&mut self, what: &str, least: usize) -> Result<usize, FormatError> {
        let start = self.at;
        let count = self.varint(what)?;
        match usize::try_from(count) {
            Ok(n) if n.checked_mul(least).is_some_and(|bytes| bytes <= self.remaining()) => Ok(n),
            _ => Err(FormatError::new(start, format!("{count} {what} cannot stand in the {} bytes left", self.remaining()))),
        }
    }

    /// Bytes with their length before them, at most `most`.
    pub fn prefixed(&mut self, what: &str, most: usize) -> Result<&'a [u8], FormatError> {
        let start = self.at;
        let length = self.varint(what)?;
        match usize::try_from(length) {
            Ok(n) if n <= most => self.take(what, n),
            _ => Err(FormatError::new(start, format!("{what} has {length} bytes; at most {most} are allowed"))),
        }
    }

    /// UTF-8 text with its length before it, at most `most` bytes.
    pub fn text(&mut self, what: &str, most: usize) -> Result<&'a str, FormatError> {
        let bytes = self.prefixed(what, most)?;
        let start = self.at - bytes.len();
        std::str::from_utf8(bytes).map_err(|e| FormatError::new(start + e.valid_up_to(), format!("{what} is not UTF-8")))
    }

    /// An id, a source or a name: UTF-8 text of 1 to 1,024 bytes.
    pub fn name(&mut self, what: &str) -> Result<&'a str, FormatError> {
        let start = self.at;
        let name = self.text(what, limits::NAME_BYTES_MAX)?;
        if name.is_empty() {
            return Err(FormatError::new(start, format!("{what} is empty; it has 1 to {} bytes", limits::NAME_BYTES_MAX)));
        }
        Ok(name)
    }

    /// Refuses bytes after the last value.
    pub fn finish(&self, what: &str) -> Result<(), FormatError> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.error(format!("{left} bytes follow the end of {what}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_varint_past_64_bits_or_10_bytes_is_refused() {
        let mut most = Vec::new();
        write_varint(&mut most, u64::MAX);
        assert_eq!(most.len(), VARINT_BYTES_MAX);
        assert_eq!(Reader::new(&most).varint("n"), Ok(u64::MAX));
        most[9] = 2;
        assert!(Reader::new(&most).varint("n").is_err());
        assert!(Reader::new(&[0x80; 11]).varint("n").is_err());
        assert!(Reader::new(&[0x80]).varint("n").is_err());
        // A longer spelling of the same number is read alike.
        assert_eq!(Reader::new(&[0x85, 0x80, 0x00]).varint("n"), Ok(5));
    }

    #[test]
    fn a_hostile_length_is_refused_before_it_allocates() {
        let mut bytes = Vec::new();
        write_varint(&mut bytes, u64::MAX);
        assert!(Reader::new(&bytes).prefixed("text", usize::MAX).is_err());
        assert!(Reader::new(&bytes).count("rows", 1).is_err());
        assert!(Reader::new(&bytes).count("rows", 3).is_err());
    }

    #[test]
    fn names_keep_their_limits_and_text_is_utf8() {
        let encoded = |bytes: &[u8]| {
            let mut out = Vec::new();
            write_prefixed(&mut out, bytes);
            out
        };
        assert!(Reader::new(&encoded(b"")).name("id").is_err());
        assert!(Reader::new(&encoded(&[b'a'; 1025])).name("id").is_err());
        assert_eq!(Reader::new(&encoded(&[b'a'; 1024])).name("id").map(str::len), Ok(1024));
        assert!(Reader::new(&encoded(b"ab\xff")).text("text", 10).is_err_and(|e| e.offset == 3));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(values in prop::collection::vec(any::<u64>(), 0..50)) {
            let mut out = Vec::new();
            values.iter().for_each(|&v| write_varint(&mut out, v));
            let mut reader = Reader::new(&out);
            for &v in &values {
                prop_assert_eq!(reader.varint("n"), Ok(v));
            }
            prop_assert!(reader.finish("the list").is_ok());
        }
    }
}
