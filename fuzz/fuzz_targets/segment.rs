//! The target `segment`: see `src/segment.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| triune_fuzz::run(triune_fuzz::segment::fuzz, bytes));
