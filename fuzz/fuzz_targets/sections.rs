//! The target `sections`: see `src/sections.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| triune_fuzz::run(triune_fuzz::sections::fuzz, bytes));
