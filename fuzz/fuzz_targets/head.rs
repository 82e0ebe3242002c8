//! Slots of HEAD and records of WITNESS. The checksum is made to fit, so that the checks behind it are reached.
#![no_main]

use libfuzzer_sys::fuzz_target;
use triune::format::head::{HEAD_MAGIC, HeadSlot};
use triune::format::witness::{WITNESS_SLOT_BYTES, WitnessSlot};
use zerocopy::{FromBytes, IntoBytes};

fuzz_target!(|bytes: &[u8]| {
    let _ = HeadSlot::decode(bytes);
    let mut block = [0; size_of::<HeadSlot>()];
    let length = bytes.len().min(block.len());
    block[..length].copy_from_slice(&bytes[..length]);
    let mut slot = HeadSlot::read_from_bytes(&block).expect("the size is right");
    slot.magic = HEAD_MAGIC;
    slot.seal();
    let slot = HeadSlot::decode(slot.as_bytes()).expect("its checksum was just made");
    let _ = slot.writable();
    if let Ok(state) = slot.understand() {
        let again = HeadSlot::encode(&state, slot.compatible.get());
        assert_eq!(again.understand(), Ok(state));
    }

    if let Ok(record) = WitnessSlot::decode(&block[..WITNESS_SLOT_BYTES]) {
        assert_eq!(WitnessSlot::decode(WitnessSlot::encode(&record).as_bytes()), Ok(record));
    }
});
