//! HEAD, its publisher, and the manifest store.

mod mem;
mod publish;
mod store;

use super::*;
use crate::ids::{Generation, Lsn, Uuid};
use mem::Mem;

fn state(manifest_number: u64) -> HeadState {
    HeadState {
        generation: Generation(0),
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
fn created() -> Mem {
    let dir = Mem::default();
    let file = create_head(&dir).expect("memory takes it");
    Publisher::first_publish(file, &state(1)).expect("memory takes it");
    dir.operations();
    dir
}

fn view(dir: &Mem) -> HeadView {
    match read_head(dir, true) {
        Ok(HeadVerdict::Valid(view)) => view,
        other => panic!("HEAD is not valid: {other:?}"),
    }
}

/// Generation and manifest of the chosen slot, and its index.
fn chosen(dir: &Mem) -> (u64, u64, usize) {
    let view = view(dir);
    (view.chosen.generation.0, view.chosen.manifest_number, view.chosen_slot)
}
