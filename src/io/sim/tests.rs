//! What the simulated disk promises to those who prove things with it.

mod durability;
mod failures;
mod images;

use std::sync::Arc;

use super::SimDirectory;
use crate::io::{Directory, File};

/// A file with these bytes whose bytes and name are durable.
fn durable_file(disk: &SimDirectory, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.create_new(name).expect("created");
    file.write_all_at(0, bytes).expect("written");
    file.sync().expect("synced");
    disk.sync().expect("synced");
    file
}

fn bytes_of(disk: &SimDirectory, name: &str) -> Vec<u8> {
    disk.read_file(name).unwrap_or_else(|| panic!("there is no {name}"))
}
