//! The target `indexes`: see `src/indexes.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| triune_fuzz::run(triune_fuzz::indexes::fuzz, bytes));
