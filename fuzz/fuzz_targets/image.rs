//! The target `image`: see `src/image/mod.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| triune_fuzz::run(triune_fuzz::image::fuzz, bytes));
