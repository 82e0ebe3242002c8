//! The target `dump`: see `src/dump.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| triune_fuzz::run(triune_fuzz::dump::fuzz, bytes));
