//! The only place that maps files into memory.
//!
//! A mapped page of a file that somebody writes changes under a `&[u8]`, and one of a file that somebody truncates kills the process. So only
//! **sealed** files are mapped: files that were written once, synced and are never written or truncated again, by anybody (unlinking is
//! harmless). Their expected length comes from the manifest and is checked here first. Hosts that can't rely on other programs keeping their
//! hands off read by system calls instead (`IoMode::Pread`).

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::ops::{Deref, DerefMut};

use memmap2::{Mmap, MmapMut, MmapOptions};

use super::{Bytes, Memory, Usage};

/// Maps the first `len` bytes of a sealed file for reading; `name` is for messages.
///
/// # Errors
/// `UnexpectedEof` when the file is shorter than `len`, and whatever the operating system says to mapping it.
pub(crate) fn map(file: &File, name: &str, len: u64) -> Result<Bytes> {
    let actual = file.metadata()?.len();
    if actual < len {
        return Err(Error::new(ErrorKind::UnexpectedEof, format!("{name} has {actual} bytes, {len} were expected")));
    }
    // The operating system refuses to map nothing.
    if len == 0 {
        return Ok(Bytes::new(Vec::new()));
    }
    let len = usize::try_from(len).map_err(|_| Error::new(ErrorKind::OutOfMemory, format!("{name} has more bytes than fit in memory")))?;
    Ok(Bytes::of_memory(map_sealed(file, len)?))
}

/// Maps `len` bytes, which the caller has checked to be there.
#[allow(unsafe_code, reason = "mapping a file has no safe interface; this is its only use")]
fn map_sealed(file: &File, len: usize) -> Result<Mmap> {
    // SAFETY: the rule of this module: only sealed files are mapped, which nobody writes or truncates any more, and `len` lies within the
    // file, so the bytes neither change nor vanish while the mapping lives.
    unsafe { MmapOptions::new().len(len).map(file) }
}

impl Memory for Mmap {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn advise(&self, start: usize, len: usize, usage: Usage) {
        // Advice that is not taken costs time and nothing else.
        #[cfg(unix)]
        let _ = match usage {
            Usage::Soon => self.advise_range(memmap2::Advice::WillNeed, start, len),
            Usage::Random => self.advise_range(memmap2::Advice::Random, start, len),
        };
        #[cfg(not(unix))]
        let _ = (start, len, usage);
    }
}

/// A copy of bytes in memory of their own, in large pages where the operating system has them.
pub(crate) fn anonymous_copy(bytes: &[u8]) -> Result<Bytes> {
    if bytes.is_empty() {
        return Ok(Bytes::new(Vec::new()));
    }
    let mut copy = Pages::new(bytes.len())?;
    copy.copy_from_slice(bytes);
    Ok(Bytes::of_memory(copy.0.make_read_only()?))
}

/// Memory of its own, in large pages where the operating system has them: rows that are read in no order lie in few. It begins where a page does.
#[derive(Debug)]
pub(crate) struct Pages(MmapMut);

impl Pages {
    /// So many zeros, and at least one.
    pub(crate) fn new(len: usize) -> Result<Pages> {
        let memory = MmapMut::map_anon(len.max(1))?;
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        Ok(Pages(memory))
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
