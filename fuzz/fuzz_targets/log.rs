//! The target `log`: see `src/log.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| triune_fuzz::run(triune_fuzz::log::fuzz, bytes));
