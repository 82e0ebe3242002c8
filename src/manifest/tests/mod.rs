//! HEAD, its publisher, and the manifest store.

mod crash;
mod publish;
mod store;

use super::*;
use crate::ids::{Generation, Lsn, Uuid};
use crate::io::SimDirectory;

fn state(manifest_number: u64) -> HeadState {
    HeadState {
        generation: Generation(1),
        database: Uuid([1; 16]),
        manifest_number,
        manifest_length: 100,
        manifest_crc: 7,
        applied_lsn: Lsn(manifest_number * 10),
        wal_sequence: manifest_number,
        wal_id: Uuid([2; 16]),
        durable_lsn: Lsn(manifest_number * 10),
    }
}

/// A directory whose HEAD says `state(1)`, generations 1 and 2.
fn created() -> SimDirectory {
    let dir = SimDirectory::new();
    let file = create_head(&dir).expect("memory takes it");
    Publisher::first_publish(file, &state(1)).expect("memory takes it");
    dir
}

fn view(dir: &SimDirectory) -> HeadView {
    match read_head(dir, true) {
        Ok(HeadVerdict::Valid(view)) => view,
        other => panic!("HEAD is not valid: {other:?}"),
    }
}

/// Generation and manifest of the chosen slot, and its index.
fn chosen(dir: &SimDirectory) -> (u64, u64, usize) {
    let view = view(dir);
    (view.chosen.generation.0, view.chosen.manifest_number, view.chosen_slot)
}

/// Changes the bytes of a file, durably.
fn edit<R>(dir: &SimDirectory, name: &str, change: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut bytes = bytes_of(dir, name);
    let answer = change(&mut bytes);
    dir.write_file(name, bytes);
    answer
}

fn bytes_of(dir: &SimDirectory, name: &str) -> Vec<u8> {
    dir.read_file(name).expect("the test made this file")
}

/// The operations from number `seen` on, which is moved to the end.
fn done(dir: &SimDirectory, seen: &mut usize) -> Vec<String> {
    let operations = dir.trace()[*seen..].iter().map(ToString::to_string).collect();
    *seen = dir.operations();
    operations
}
