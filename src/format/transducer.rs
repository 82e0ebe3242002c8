//! Finite state transducers: ordered maps from byte strings to numbers, read where they lie. Spec §21.
//!
//! The crate `fst` writes them. It takes what it reads for what it wrote, so this module reads them: any byte may be wrong behind a fitting
//! checksum, and the answer is then another number, no number, or damage with its address, within the steps that the key's length allows.
//!
//! - Nothing outside the nodes is read: a node's lowest byte is computed before any byte of it but its last three.
//! - A transition leads to a lower address, so that no walk comes back to where it was.
//! - A state that ends no key leads on, so that every walk downwards meets a key.
//! - No walk takes more than [`FST_KEY_BYTES_MAX`] steps, whatever the bytes say.
//!
//! | file | role |
//! | --- | --- |
//! | `node.rs` | one state: where its parts stand, and its transitions |
//! | `stream.rs` | every key in order |
//! | `checksum.rs` | the checksum at the end |

mod checksum;
mod node;
mod stream;
#[cfg(test)]
mod tests;

use super::error::FormatError;
use super::sabotage::skips_checksum;
use node::Node;
use std::ops::Range;

pub use checksum::masked_crc32c;
pub use stream::TransducerStream;

/// The version of the layout that is read and written.
pub const FST_VERSION: u64 = 3;
/// The longest key, in bytes.
pub const FST_KEY_BYTES_MAX: usize = 4096;

/// Bytes before the first node: version and type.
const HEADER_BYTES: usize = 16;
/// Bytes behind the last node: how many keys, the root, the checksum.
const FOOTER_BYTES: usize = 20;
/// The address of the state that ends a key and leads nowhere.
const END: usize = 0;

/// Bytes that may have to be checked before they are looked at.
pub trait TransducerBytes {
    /// What damage is reported as.
    type Error;

    /// All of them. A range may be looked at once [`TransducerBytes::check`] let it pass.
    fn bytes(&self) -> &[u8];

    /// Holds the bytes of a range, which lies inside, against what they were when they were written.
    fn check(&self, range: Range<usize>) -> Result<(), Self::Error>;

    /// The error of damage found in them.
    fn damage(&self, found: FormatError) -> Self::Error;
}

/// Bytes that nothing vouches for.
impl TransducerBytes for &[u8] {
    type Error = FormatError;

    fn bytes(&self) -> &[u8] {
        self
    }

    fn check(&self, _range: Range<usize>) -> Result<(), FormatError> {
        Ok(())
    }

    fn damage(&self, found: FormatError) -> FormatError {
        found
    }
}

/// An open fst. Header, footer and root are checked; every other node is when a walk comes to it.
///
/// ```
/// use triune::format::transducer::Transducer;
///
/// let mut builder = fst::MapBuilder::memory();
/// builder.insert("one", 1)?;
/// builder.insert("two", 2)?;
/// let bytes = builder.into_inner()?;
///
/// let numbers = Transducer::open(&bytes[..])?;
/// assert_eq!(numbers.get(b"two")?, Some(2));
/// assert_eq!(numbers.get(b"three")?, None);
/// assert_eq!(numbers.first_from(b"three")?, Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Transducer<B> {
    source: B,
    keys: u64,
    root: usize,
}

impl<B: TransducerBytes> Transducer<B> {
    /// Opens an fst that takes up all of `source`. O(1).
    pub fn open(source: B) -> Result<Transducer<B>, B::Error> {
        let length = source.bytes().len();
        let wrong = |at: usize, what: String| Err(source.damage(FormatError::new(at, what)));
        if length < HEADER_BYTES + FOOTER_BYTES {
            return wrong(0, format!("an fst has at least {} bytes, not {length}", HEADER_BYTES + FOOTER_BYTES));
        }
        source.check(0..HEADER_BYTES)?;
        source.check(length - FOOTER_BYTES..length)?;
        let word = |at: usize| node::number(source.bytes(), at, 8);
        let (version, kind, keys, root) = (word(0), word(8), word(length - 20), word(length - 12));
        if version != FST_VERSION || kind != 0 {
            return wrong(0, format!("an fst of version {version} and type {kind}, expected {FST_VERSION} and 0"));
        }
        let inside = |root: &usize| *root == END || (HEADER_BYTES..length - FOOTER_BYTES).contains(root);
        let Some(root) = usize::try_from(root).ok().filter(inside) else {
            return wrong(length - 12, format!("the root is at {root} of an fst of {length} bytes"));
        };
        let transducer = Transducer { source, keys, root };
        let node = transducer.node(root)?;
        if (keys == 0) == node.leads_to_a_key() {
            return Err(transducer.damage(length - 20, format!("{keys} keys, and a root with {} transitions", node.transitions)));
        }
        Ok(transducer)
    }

    /// How many keys it says it has.
    #[allow(clippy::len_without_is_empty, reason = "callers compare the number; none asks for an empty one")]
    pub fn len(&self) -> u64 {
        self.keys
    }

    /// What it reads.
    pub fn source(&self) -> &B {
        &self.source
    }

    /// Compares the checksum at the end. O(its bytes).
    pub fn verify(&self) -> Result<(), B::Error> {
        let length = self.source.bytes().len();
        self.source.check(0..length)?;
        let (body, stored) = self.source.bytes().split_at(length - 4);
        let (stored, computed) = (stored.iter().rev().fold(0, |n, &byte| n << 8 | u32::from(byte)), masked_crc32c(body));
        if stored == computed || skips_checksum("fst") {
            return Ok(());
        }
        Err(self.damage(length - 4, format!("the checksum of the fst is {stored:#010x}, its bytes give {computed:#010x}")))
    }

    /// The number of a key. O(its bytes), without allocating.
    pub fn get(&self, key: &[u8]) -> Result<Option<u64>, B::Error> {
        let bytes = self.source.bytes();
        let (mut node, mut sum) = (self.node(self.root)?, 0);
        for &byte in key {
            let Some(i) = node.find(bytes, byte).map_err(|e| self.source.damage(e))? else { return Ok(None) };
            let (output, target) = node.transition(bytes, i).map_err(|e| self.source.damage(e))?;
            sum = self.add(sum, output, &node)?;
            node = self.node(target)?;
        }
        if node.ends_key { self.add(sum, node.final_output(bytes), &node).map(Some) } else { Ok(None) }
    }

    /// The number of the first key at or above `bound`; `None` when there is none. O(bytes of both), without allocating.
    pub fn first_from(&self, bound: &[u8]) -> Result<Option<u64>, B::Error> {
        let bytes = self.source.bytes();
        let (mut node, mut sum) = (self.node(self.root)?, 0);
        // The last state on the way that leads to greater keys, by which transition, and the sum there.
        let mut above: Option<(Node, u16, u64)> = None;
        for &byte in bound {
            let (i, found) = node.first_from(bytes, byte);
            let greater = i + u16::from(found);
            if greater < node.transitions {
                above = Some((node, greater, sum));
            }
            if !found {
                return above.map_or(Ok(None), |(node, i, sum)| self.follow(&node, i, sum).and_then(|(node, sum)| self.least(node, sum)));
            }
            (node, sum) = self.follow(&node, i, sum)?;
        }
        self.least(node, sum)
    }

    /// Every key in ascending order.
    pub fn stream(&self) -> TransducerStream<'_, B> {
        TransducerStream::new(self)
    }

    /// The number of the least key at or below a state; `None` for the root of no keys.
    fn least(&self, mut node: Node, mut sum: u64) -> Result<Option<u64>, B::Error> {
        for _ in 0..=FST_KEY_BYTES_MAX {
            if node.ends_key {
                return self.add(sum, node.final_output(self.source.bytes()), &node).map(Some);
            }
            if node.transitions == 0 {
                return Ok(None);
            }
            (node, sum) = self.follow(&node, 0, sum)?;
        }
        Err(self.too_long(&node))
    }

    /// The state that transition `i` leads to, and the sum there.
    #[inline(always)]
    fn follow(&self, node: &Node, i: u16, sum: u64) -> Result<(Node, u64), B::Error> {
        let (output, target) = node.transition(self.source.bytes(), i).map_err(|e| self.source.damage(e))?;
        Ok((self.node(target)?, self.add(sum, output, node)?))
    }

    /// The state at an address, which is [`END`] or that of a byte between header and footer.
    #[inline(always)]
    fn node(&self, address: usize) -> Result<Node, B::Error> {
        if address == END {
            return Ok(Node::END);
        }
        self.source.check(address - 2..address + 1)?;
        let node = Node::decode(self.source.bytes(), address).map_err(|e| self.source.damage(e))?;
        if !node.leads_to_a_key() && address != self.root {
            return Err(self.damage(address, "a state of an fst that ends no key and leads nowhere"));
        }
        if node.start + 2 < address {
            self.source.check(node.start..address - 2)?;
        }
        Ok(node)
    }

    #[inline(always)]
    fn add(&self, sum: u64, output: u64, node: &Node) -> Result<u64, B::Error> {
        match sum.checked_add(output) {
            Some(sum) => Ok(sum),
            None => Err(self.damage(node.start, format!("the outputs {sum} and {output} of an fst add up to more than 64 bits"))),
        }
    }

    #[cold]
    fn damage(&self, at: usize, what: impl Into<String>) -> B::Error {
        self.source.damage(FormatError::new(at, what))
    }

    #[cold]
    fn too_long(&self, node: &Node) -> B::Error {
        self.damage(node.start, format!("a key of an fst has more than {FST_KEY_BYTES_MAX} bytes"))
    }
}
