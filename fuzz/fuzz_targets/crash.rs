//! Crashes, nested ones too, decided by bytes: the same histories that `tests/it/recovery` plays exhaustively and at random, from the same
//! source. An input that fails is kept as a case of `any_history_ends_in_whole_commits`.
#![no_main]
#![allow(dead_code, reason = "the modules serve tests that are not here")]
#![allow(clippy::unwrap_used, reason = "a workload that cannot be carried out should stop where it stands")]

use libfuzzer_sys::fuzz_target;
use recovery::scenario::{Histories, play};
use recovery::{sweep::Checked, workloads};
use std::sync::OnceLock;
use triune::io::sim::FromBytes;

#[path = "../../tests/it/recovery"]
mod recovery {
    pub mod backups;
    pub mod model;
    pub mod oracle;
    pub mod probe;
    pub mod run;
    pub mod scenario;
    pub mod sweep;
    pub mod workloads;
}

static HISTORIES: OnceLock<Histories> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let histories = HISTORIES.get_or_init(|| Histories::of(&workloads::all(), None, 1));
    if let Err(e) = play(histories, &mut FromBytes::new(bytes), &mut Checked::default()) {
        panic!("{e}");
    }
});
