//! One state of an fst: a few bytes that are read backwards from the last one, which is its address.

use super::{END, FOOTER_BYTES, HEADER_BYTES};
use crate::format::error::FormatError;

/// States of more transitions have an index of them.
const INDEX_ABOVE: usize = 32;
/// Bytes of such an index.
const INDEX_BYTES: usize = 256;
/// The widest target or output, in bytes.
const NUMBER_BYTES_MAX: usize = 8;
/// The bytes that a lone transition can spell in the last byte of its state, from 1 on.
const COMMON: &[u8; 63] = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG";

/// The little-endian number of `size` bytes at `at`. At least 8 bytes follow `at`, or all there are are taken.
#[inline]
pub(super) fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    match bytes[at..].first_chunk::<8>() {
        _ if size == 0 => 0,
        Some(word) => u64::from_le_bytes(*word) & (u64::MAX >> (64 - 8 * size)),
        None => bytes[at..at + size].iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte)),
    }
}

/// A state whose bytes lie inside the fst. Its parts stand one below the other: the bytes of the transitions, their targets, their
/// outputs, the final output; of each part, the first transition's is the highest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// Its lowest byte.
    pub start: usize,
    /// How many there are, at most 256.
    pub transitions: usize,
    /// Whether a key ends here.
    pub ends_key: bool,
    /// Whether its only transition leads to the state that ends right before it.
    next: bool,
    /// The byte of its only transition, when that is one of [`COMMON`], else 0.
    common: u8,
    target_bytes: u8,
    output_bytes: u8,
    /// One past the highest byte of each part.
    inputs: usize,
    targets: usize,
    outputs: usize,
}

impl Node {
    /// The state that ends a key and leads nowhere. It has no bytes.
    pub(super) const END: Node = Node {
        start: END,
        transitions: 0,
        ends_key: true,
        next: false,
        common: 0,
        target_bytes: 0,
        output_bytes: 0,
        inputs: END,
        targets: END,
        outputs: END,
    };

    /// The state whose last byte is at `address`, between header and footer of the fst `bytes`.
    #[inline]
    pub(super) fn decode(bytes: &[u8], address: usize) -> Result<Node, FormatError> {
        let last = bytes[address];
        let low = usize::from(last & 0x3f);
        if last & 0x80 == 0 {
            return Node::decode_any(bytes, address, last & 0x40 != 0, low);
        }
        // Its byte stands before the last one unless that one says it.
        let (common, start) = if low == 0 { (0, address - 1) } else { (COMMON[low - 1], address) };
        let node = Node { transitions: 1, ends_key: false, common, inputs: address, ..Node::END };
        if last & 0x40 == 0 {
            let sizes = bytes[start - 1];
            return Node { target_bytes: sizes >> 4, output_bytes: sizes & 0xf, targets: start - 1, ..node }.placed(address, 1);
        }
        if start < HEADER_BYTES {
            return Err(outside(address));
        }
        Ok(Node { start, next: true, targets: start, outputs: start, ..node })
    }

    /// A state of any number of transitions: `count`, or what the byte before says when that is 0.
    #[inline]
    fn decode_any(bytes: &[u8], address: usize, ends_key: bool, count: usize) -> Result<Node, FormatError> {
        let (transitions, sizes) = match (count, bytes[address - 1]) {
            (0, 1) => (256, address - 2),
            (0, count) => (usize::from(count), address - 2),
            (count, _) => (count, address - 1),
        };
        let index = if transitions > INDEX_ABOVE { INDEX_BYTES } else { 0 };
        let Some(targets) = sizes.checked_sub(index + transitions) else { return Err(outside(address)) };
        let (target_bytes, output_bytes) = (bytes[sizes] >> 4, bytes[sizes] & 0xf);
        let node = Node { transitions, ends_key, target_bytes, output_bytes, inputs: sizes - index, targets, ..Node::END };
        node.placed(address, transitions + usize::from(ends_key))
    }

    /// The state with its lowest byte and its outputs, of which there are `outputs`.
    #[inline]
    fn placed(mut self, address: usize, outputs: usize) -> Result<Node, FormatError> {
        let (target_bytes, output_bytes) = (usize::from(self.target_bytes), usize::from(self.output_bytes));
        if target_bytes > NUMBER_BYTES_MAX || output_bytes > NUMBER_BYTES_MAX {
            return Err(wide(address, target_bytes, output_bytes));
        }
        let (targets, outputs) = (self.transitions * target_bytes, outputs * output_bytes);
        if self.targets < HEADER_BYTES + targets + outputs {
            return Err(outside(address));
        }
        self.outputs = self.targets - targets;
        self.start = self.outputs - outputs;
        Ok(self)
    }

    /// Whether some key ends at it or below it.
    #[inline]
    pub(super) fn leads_to_a_key(&self) -> bool {
        self.ends_key || self.transitions > 0
    }

    /// The byte of transition `i`, which is below their number.
    #[inline]
    pub(super) fn input(&self, bytes: &[u8], i: usize) -> u8 {
        if self.common != 0 { self.common } else { bytes[self.inputs - 1 - i] }
    }

    /// Which transition has this byte.
    #[inline]
    pub(super) fn find(&self, bytes: &[u8], byte: u8) -> Result<Option<usize>, FormatError> {
        if self.common != 0 {
            return Ok((self.common == byte).then_some(0));
        }
        if self.transitions <= INDEX_ABOVE {
            let inputs = &bytes[self.inputs - self.transitions..self.inputs];
            return Ok(inputs.iter().position(|&b| b == byte).map(|below| self.transitions - 1 - below));
        }
        let i = usize::from(bytes[self.inputs + usize::from(byte)]);
        match i < self.transitions {
            // Of 256 transitions the last one has the number that says, of fewer, that there is none.
            true if self.input(bytes, i) == byte => Ok(Some(i)),
            true => Err(FormatError::new(self.inputs + usize::from(byte), "the index of a state of an fst names another transition")),
            false => Ok(None),
        }
    }

    /// The first transition of at least this byte, or their number, and whether its byte is this one.
    #[inline]
    pub(super) fn first_from(&self, bytes: &[u8], byte: u8) -> (usize, bool) {
        let i = if self.common != 0 {
            usize::from(self.common < byte)
        } else {
            // They stand in reversed order.
            self.transitions - bytes[self.inputs - self.transitions..self.inputs].partition_point(|&b| b >= byte)
        };
        (i, i < self.transitions && self.input(bytes, i) == byte)
    }

    /// Output and target of transition `i`, which is below their number. The target is [`END`] or lies below this state.
    #[inline]
    pub(super) fn transition(&self, bytes: &[u8], i: usize) -> Result<(u64, usize), FormatError> {
        let (target_bytes, output_bytes) = (usize::from(self.target_bytes), usize::from(self.output_bytes));
        let delta = if self.next { 1 } else { number(bytes, self.targets - (i + 1) * target_bytes, target_bytes) };
        let output = number(bytes, self.outputs - (i + 1) * output_bytes, output_bytes);
        match delta {
            0 => Ok((output, END)),
            delta if delta <= (self.start - HEADER_BYTES) as u64 => Ok((output, self.start - delta as usize)),
            delta => Err(before(self.start, delta)),
        }
    }

    /// The final output of a state where a key ends.
    #[inline]
    pub(super) fn final_output(&self, bytes: &[u8]) -> u64 {
        number(bytes, self.start, usize::from(self.output_bytes))
    }
}

const _: () = assert!(FOOTER_BYTES >= NUMBER_BYTES_MAX, "a number of a node is read as a word of 8 bytes");

#[cold]
fn outside(address: usize) -> FormatError {
    FormatError::new(address, "a state of an fst begins before the first one")
}

#[cold]
fn wide(address: usize, target_bytes: usize, output_bytes: usize) -> FormatError {
    let what = format!("a state of an fst with targets of {target_bytes} and outputs of {output_bytes} bytes; they have at most 8");
    FormatError::new(address, what)
}

#[cold]
fn before(start: usize, delta: u64) -> FormatError {
    FormatError::new(start, format!("a transition of an fst leads {delta} bytes back from byte {start}"))
}
