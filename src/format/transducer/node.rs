//! One state of an fst: a few bytes that are read backwards from the last one, which is its address.

use super::{END, FOOTER_BYTES, HEADER_BYTES};
use crate::format::error::FormatError;

/// States of more transitions have an index of them.
const INDEX_ABOVE: usize = 32;
/// Bytes of such an index.
const INDEX_BYTES: usize = 256;
/// The widest target or output, in bytes.
const NUMBER_BYTES_MAX: u8 = 8;
/// The bytes that a lone transition can spell in the last byte of its state, from 1 on.
const COMMON: &[u8; 64] = b"\0te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG";
/// What is left of a word of 8 bytes when a number has fewer.
const MASKS: [u64; 16] = masks();

const _: () = assert!(FOOTER_BYTES >= NUMBER_BYTES_MAX as usize, "a number of a state is read as a word of 8 bytes");

const fn masks() -> [u64; 16] {
    let mut masks = [u64::MAX; 16];
    let mut size = 0;
    while size < 8 {
        masks[size] = (1 << (8 * size)) - 1;
        size += 1;
    }
    masks
}

/// The little-endian number of `size` bytes at `at`, which at least 8 bytes follow.
#[inline(always)]
pub(super) fn number(bytes: &[u8], at: usize, size: u8) -> u64 {
    let word = bytes[at..].first_chunk::<8>().expect("a footer follows every number");
    u64::from_le_bytes(*word) & MASKS[usize::from(size & 15)]
}

/// A state whose bytes lie inside the fst. From its lowest byte upwards stand the final output, the outputs, the targets and the bytes of its
/// transitions, the first transition's above the others'; and the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// Its lowest byte.
    pub start: usize,
    /// Where the outputs, the targets and the bytes end, counted from `start`.
    outputs: u16,
    targets: u16,
    inputs: u16,
    /// How many there are, at most 256.
    pub transitions: u16,
    target_bytes: u8,
    output_bytes: u8,
    /// The byte of its only transition, when the state's last byte says it, else 0.
    common: u8,
    /// Whether a key ends here.
    pub ends_key: bool,
    /// Whether its only transition leads to the state that ends right before it.
    next: bool,
}

impl Node {
    /// The state that ends a key and leads nowhere. It has no bytes.
    pub(super) const END: Node = Node {
        start: END,
        outputs: 0,
        targets: 0,
        inputs: 0,
        transitions: 0,
        target_bytes: 0,
        output_bytes: 0,
        common: 0,
        ends_key: true,
        next: false,
    };

    /// The state whose last byte is at `address`, between header and footer of the fst `bytes`. Looks at its last three bytes only.
    #[inline(always)]
    pub(super) fn decode(bytes: &[u8], address: usize) -> Result<Node, FormatError> {
        let (last, low) = (bytes[address], bytes[address] & 0x3f);
        if last & 0x80 == 0 {
            return Node::decode_any(bytes, address, last & 0x40 != 0, low);
        }
        // Its byte stands below the last one unless that one says it.
        let own = u16::from(low == 0);
        let below = address - usize::from(own);
        let node = Node { transitions: 1, ends_key: false, common: COMMON[usize::from(low)], ..Node::END };
        if last & 0x40 != 0 {
            return if below < HEADER_BYTES { Err(outside(address)) } else { Ok(Node { start: below, inputs: own, next: true, ..node }) };
        }
        let (target_bytes, output_bytes) = (bytes[below - 1] >> 4, bytes[below - 1] & 0xf);
        let (outputs, targets) = (u16::from(output_bytes), u16::from(output_bytes + target_bytes));
        // Between the target and the byte stands `sizes`.
        let node = Node { outputs, targets, inputs: targets + 1 + own, target_bytes, output_bytes, ..node };
        node.placed(address, usize::from(targets + 1 + own))
    }

    /// A state of any number of transitions: `count`, or what the byte before says when that is 0.
    #[inline(always)]
    fn decode_any(bytes: &[u8], address: usize, ends_key: bool, count: u8) -> Result<Node, FormatError> {
        let (transitions, sizes) = match (count, bytes[address - 1]) {
            (0, 1) => (256, address - 2),
            (0, count) => (u16::from(count), address - 2),
            (count, _) => (u16::from(count), address - 1),
        };
        let (target_bytes, output_bytes) = (bytes[sizes] >> 4, bytes[sizes] & 0xf);
        let outputs = u16::from(output_bytes) * (transitions + u16::from(ends_key));
        let targets = outputs + u16::from(target_bytes) * transitions;
        let inputs = targets + transitions;
        let index = if usize::from(transitions) > INDEX_ABOVE { INDEX_BYTES } else { 0 };
        let node = Node { outputs, targets, inputs, transitions, target_bytes, output_bytes, ends_key, ..Node::END };
        node.placed(address, usize::from(inputs) + index + address - sizes)
    }

    /// The state that has `length` bytes below its last one.
    #[inline(always)]
    fn placed(mut self, address: usize, length: usize) -> Result<Node, FormatError> {
        if self.target_bytes > NUMBER_BYTES_MAX || self.output_bytes > NUMBER_BYTES_MAX {
            return Err(wide(address, self.target_bytes, self.output_bytes));
        }
        if address - HEADER_BYTES < length {
            return Err(outside(address));
        }
        self.start = address - length;
        Ok(self)
    }

    /// Whether some key ends at it or below it.
    #[inline(always)]
    pub(super) fn leads_to_a_key(&self) -> bool {
        self.ends_key || self.transitions > 0
    }

    /// The byte of transition `i`, which is below their number.
    #[inline(always)]
    pub(super) fn input(&self, bytes: &[u8], i: u16) -> u8 {
        if self.common != 0 { self.common } else { bytes[self.start + usize::from(self.inputs - 1 - i)] }
    }

    /// The bytes of its transitions, the first one's last.
    #[inline(always)]
    fn inputs<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let end = self.start + usize::from(self.inputs);
        &bytes[end - usize::from(self.transitions)..end]
    }

    /// Which transition has this byte.
    #[inline(always)]
    pub(super) fn find(&self, bytes: &[u8], byte: u8) -> Result<Option<u16>, FormatError> {
        if self.transitions == 1 {
            return Ok((self.input(bytes, 0) == byte).then_some(0));
        }
        if usize::from(self.transitions) <= INDEX_ABOVE {
            return Ok(self.inputs(bytes).iter().rev().zip(0..).find(|(b, _)| **b == byte).map(|(_, i)| i));
        }
        let at = self.start + usize::from(self.inputs) + usize::from(byte);
        let i = u16::from(bytes[at]);
        // Of 256 transitions the last one has the number that says, of fewer, that there is none.
        let (found, right) = match i < self.transitions {
            true => (Some(i), self.input(bytes, i) == byte),
            false => (None, !self.first_from(bytes, byte).1),
        };
        if right { Ok(found) } else { Err(misled(at)) }
    }

    /// The first transition of at least this byte, or their number, and whether its byte is this one.
    #[inline]
    pub(super) fn first_from(&self, bytes: &[u8], byte: u8) -> (u16, bool) {
        let i = match self.transitions {
            1 => u16::from(self.input(bytes, 0) < byte),
            // They stand in reversed order.
            all => all - self.inputs(bytes).partition_point(|&b| b >= byte) as u16,
        };
        (i, i < self.transitions && self.input(bytes, i) == byte)
    }

    /// Output and target of transition `i`, which is below their number. The target is [`END`] or lies below this state.
    #[inline(always)]
    pub(super) fn transition(&self, bytes: &[u8], i: u16) -> Result<(u64, usize), FormatError> {
        if self.next {
            return if self.start > HEADER_BYTES { Ok((0, self.start - 1)) } else { Err(before(self.start, 1)) };
        }
        let part = |end: u16, size: u8| number(bytes, self.start + usize::from(end - (i + 1) * u16::from(size)), size);
        let delta = part(self.targets, self.target_bytes);
        let output = if self.output_bytes == 0 { 0 } else { part(self.outputs, self.output_bytes) };
        match delta {
            0 => Ok((output, END)),
            delta if delta <= (self.start - HEADER_BYTES) as u64 => Ok((output, self.start - delta as usize)),
            delta => Err(before(self.start, delta)),
        }
    }

    /// The final output of a state where a key ends.
    #[inline(always)]
    pub(super) fn final_output(&self, bytes: &[u8]) -> u64 {
        number(bytes, self.start, self.output_bytes)
    }
}

#[cold]
fn misled(at: usize) -> FormatError {
    FormatError::new(at, "the index of a state of an fst does not name the transition of a byte")
}

#[cold]
fn outside(address: usize) -> FormatError {
    FormatError::new(address, "a state of an fst begins before the first one")
}

#[cold]
fn wide(address: usize, target_bytes: u8, output_bytes: u8) -> FormatError {
    let what = format!("a state of an fst with targets of {target_bytes} and outputs of {output_bytes} bytes; they have at most 8");
    FormatError::new(address, what)
}

#[cold]
fn before(start: usize, delta: u64) -> FormatError {
    FormatError::new(start, format!("a transition of an fst leads {delta} bytes back from byte {start}"))
}
