//! Manifests: the header as it is, and the JSON body behind a header that fits it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::Uuid;
use triune::format::manifest::{Manifest, decode_manifest, encode_manifest};

fuzz_target!(|bytes: &[u8]| {
    let _ = decode_manifest(bytes);
    let Ok(manifest) = serde_json::from_slice::<Manifest>(bytes) else { return };
    let file = encode_manifest(7, Uuid([1; 16]), &manifest);
    let (header, again) = decode_manifest(&file).expect("what was written can be read");
    assert_eq!((header.number.get(), &again), (7, &manifest));
    assert_eq!(encode_manifest(7, Uuid([1; 16]), &again), file);
});
