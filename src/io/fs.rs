//! A directory of the operating system.
#[derive(Debug)]
/// A directory of the operating system.
pub struct FsDirectory;
