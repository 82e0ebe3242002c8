//! A simulated disk.
#[derive(Debug)]
/// A simulated disk.
pub struct SimDirectory;
