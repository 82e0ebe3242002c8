//! The components of adjacent vectors as they lie in their section: to be used in place, or widened where they are binary16.

use super::kernel;
use crate::format::vectors::{VectorsShape, view_components, view_halves};
use crate::options::Components;
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

/// Components in a part of section `Vectors`.
#[derive(Debug)]
pub(super) enum StoredComponents<'a> {
    /// As they are.
    Singles(Cow<'a, [f32]>),
    /// As binary16.
    Halves(&'a [[u8; 2]]),
}

impl<'a> StoredComponents<'a> {
    /// Looks at the bytes of whole vectors.
    pub(super) fn new(shape: VectorsShape, bytes: &'a [u8]) -> StoredComponents<'a> {
        match shape.components {
            Components::F32 => StoredComponents::Singles(view_components(bytes)),
            Components::F16 => StoredComponents::Halves(view_halves(bytes)),
        }
    }

    /// The components of a range: in place, or in `buffer`, whose content is replaced.
    pub(super) fn get<'b>(&'b self, range: Range<usize>, buffer: &'b mut Vec<f32>) -> &'b [f32] {
        match self {
            StoredComponents::Singles(components) => &components[range],
            StoredComponents::Halves(halves) => {
                // What is in it is overwritten, so only what is new is filled.
                buffer.resize(range.len(), 0.0);
                kernel::widen(&halves[range], buffer);
                buffer
            }
        }
    }

    /// All components, borrowed if they can be.
    pub(super) fn all(self) -> Cow<'a, [f32]> {
        match self {
            StoredComponents::Singles(components) => components,
            StoredComponents::Halves(halves) => {
                let mut components = vec![0.0; halves.len()];
                kernel::widen(halves, &mut components);
                Cow::Owned(components)
            }
        }
    }

    /// Calls `read` with all components. Those that are widened lie in memory that the thread keeps for it.
    pub(super) fn with_all<T>(&self, read: impl FnOnce(&[f32]) -> T) -> T {
        thread_local! {
            static WIDENED: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
        }
        let halves = match self {
            StoredComponents::Singles(components) => return read(components),
            StoredComponents::Halves(halves) => halves,
        };
        // A call inside of `read` finds an empty buffer and makes another.
        let mut buffer = WIDENED.take();
        let result = read(self.get(0..halves.len(), &mut buffer));
        WIDENED.set(buffer);
        result
    }
}
