//! Every key of an fst in ascending order.

use super::node::Node;
use super::{FST_KEY_BYTES_MAX, Transducer, TransducerBytes};
use std::fmt;

/// The keys of an fst with their numbers, ascending strictly, whatever the bytes say. Its memory is that of the longest key.
pub struct TransducerStream<'a, B> {
    transducer: &'a Transducer<B>,
    key: Vec<u8>,
    /// The states from the root to where the walk is.
    stack: Vec<Turn>,
    begun: bool,
}

/// A state on the way, the transition to take next, and the sum there.
struct Turn {
    node: Node,
    next: u16,
    sum: u64,
}

impl<B> fmt::Debug for TransducerStream<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransducerStream(at {:?})", String::from_utf8_lossy(&self.key))
    }
}

impl<'a, B: TransducerBytes> TransducerStream<'a, B> {
    pub(super) fn new(transducer: &'a Transducer<B>) -> TransducerStream<'a, B> {
        TransducerStream { transducer, key: Vec::new(), stack: Vec::new(), begun: false }
    }

    /// The next key and its number. Takes as many steps as the two keys have bytes.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend its buffer")]
    pub fn next(&mut self) -> Result<Option<(&[u8], u64)>, B::Error> {
        let transducer = self.transducer;
        let bytes = transducer.source.bytes();
        if !self.begun {
            self.begun = true;
            let node = transducer.node(transducer.root)?;
            self.stack.push(Turn { node, next: 0, sum: 0 });
            if node.ends_key {
                return Ok(Some((&self.key, node.final_output(bytes))));
            }
        }
        while let Some(turn) = self.stack.last_mut() {
            let (node, i) = (turn.node, turn.next);
            if i == node.transitions {
                self.stack.pop();
                self.key.pop();
                continue;
            }
            turn.next += 1;
            let byte = node.input(bytes, i);
            if i > 0 && node.input(bytes, i - 1) >= byte {
                return Err(transducer.damage(node.start, format!("transition {i} of a state of an fst does not ascend")));
            }
            let sum = turn.sum;
            let (below, sum) = transducer.follow(&node, i, sum)?;
            if self.key.len() == FST_KEY_BYTES_MAX {
                return Err(transducer.too_long(&node));
            }
            self.key.push(byte);
            self.stack.push(Turn { node: below, next: 0, sum });
            if below.ends_key {
                let number = transducer.add(sum, below.final_output(bytes), &below)?;
                return Ok(Some((&self.key, number)));
            }
        }
        Ok(None)
    }
}
