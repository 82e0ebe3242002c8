//! Reading the files of a folder that anybody may have filled: only regular ones, and no more of them than was asked for.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file. A pipe is never waited for, also when it takes a file's place at this moment, and a device is not touched.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    regular(&std::fs::metadata(path)?)?;
    let file = without_waiting(OpenOptions::new().read(true)).open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

/// All bytes of a regular file that has at most so many, or why they are not taken. `limit` is what the limit is called.
pub(crate) fn read(path: &Path, bytes_max: u64, limit: &str) -> Result<Vec<u8>, String> {
    let read = || -> io::Result<(u64, Vec<u8>)> {
        let file = open(path)?;
        let (length, mut bytes) = (file.metadata()?.len(), Vec::new());
        if length <= bytes_max {
            // A file may grow while it is read.
            file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        }
        Ok((length.max(bytes.len() as u64), bytes))
    };
    match read().map_err(|e| e.to_string())? {
        (length, _) if length > bytes_max => Err(format!("it has {length} bytes; {limit} is {bytes_max}")),
        (_, bytes) => Ok(bytes),
    }
}

/// What is said of everything else.
pub(crate) const NOT_REGULAR: &str = "it is not a regular file";

fn regular(found: &Metadata) -> io::Result<()> {
    if found.is_file() { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, NOT_REGULAR)) }
}

/// Opening a pipe for reading waits for somebody who writes to it, unless it is told not to.
#[cfg(unix)]
fn without_waiting(options: &mut OpenOptions) -> &OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
}

#[cfg(not(unix))]
fn without_waiting(options: &mut OpenOptions) -> &OpenOptions {
    options
}
