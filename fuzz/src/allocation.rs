//! The allocator of the targets: that of the system, with a limit to what is held.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static ALLOCATOR: Limited = Limited { held: AtomicUsize::new(0), limit: AtomicUsize::new(usize::MAX) };

struct Limited {
    held: AtomicUsize,
    limit: AtomicUsize,
}

/// Lets this many more bytes be held than are now.
pub(crate) fn allow(more: usize) {
    ALLOCATOR.limit.store(ALLOCATOR.held.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// Lets any number of bytes be held.
pub(crate) fn allow_all() {
    ALLOCATOR.limit.store(usize::MAX, Ordering::Relaxed);
}

impl Limited {
    /// Whether `more` bytes may be held. What is refused ends the process, and its report needs memory: so there is no limit after that.
    fn take(&self, more: usize) -> bool {
        let held = self.held.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        if held > self.limit.load(Ordering::Relaxed) {
            self.held.fetch_sub(more, Ordering::Relaxed);
            allow_all();
            return false;
        }
        true
    }
}

#[allow(unsafe_code, reason = "an allocator is unsafe to implement; this one hands every request to that of the system or refuses it")]
// SAFETY: every block comes from `System` and goes back to it with the layout it came with; counting touches no block.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !self.take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the promises of `alloc`, which are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !self.take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.held.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the block came from `System` with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.take(size) {
            return std::ptr::null_mut();
        }
        self.held.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the block came from `System` with this layout, and the caller promises that `size` is not zero and not too large.
        unsafe { System.realloc(block, layout, size) }
    }
}
