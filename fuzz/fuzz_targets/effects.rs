//! The payload of a commit record. What is accepted is written again as bytes that read as the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::format::effects::CommitEffects;

fuzz_target!(|bytes: &[u8]| {
    let Ok(effects) = CommitEffects::decode(bytes) else { return };
    let (mut once, mut twice) = (Vec::new(), Vec::new());
    effects.encode(&mut once);
    CommitEffects::decode(&once).expect("what was written can be read").encode(&mut twice);
    // Bytes are compared, not values: a vector may hold a number that does not equal itself.
    assert_eq!(once, twice);
    assert!(effects.encoded_len_estimate() >= once.len());
});
