//! The target `input`: see `src/input.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| triune_fuzz::run(triune_fuzz::input::fuzz, bytes));
