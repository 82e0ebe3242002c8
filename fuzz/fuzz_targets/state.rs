//! The target `state`: see `src/state.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| triune_fuzz::run(triune_fuzz::state::fuzz, bytes));
