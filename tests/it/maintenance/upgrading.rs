//! Upgrade: it says the version, and refuses what is newer; opening changes no version.

use super::fixture::{copy, fixture};
use std::sync::Arc;
use triune::ErrorCode;
use triune::format::checksum::crc32;
use triune::maintenance::upgrade_directory;

#[test]
fn an_upgrade_says_the_version_writes_nothing_and_refuses_a_newer_one() {
    let (disk, db) = fixture();
    db.close().unwrap();
    let (before, operations) = (disk.image_hash(), disk.operations());
    let report = upgrade_directory(Arc::new(disk.clone())).unwrap();
    assert_eq!((report.version, report.changed), ((1, 0), false));
    assert_eq!((disk.image_hash(), disk.operations()), (before, operations));

    let newer = copy(&disk);
    let mut head = newer.read_file("HEAD").unwrap();
    for slot in head.chunks_mut(4096) {
        slot[16] = 7;
        slot[20..24].fill(0);
        let crc = crc32(slot);
        slot[20..24].copy_from_slice(&crc.to_le_bytes());
    }
    newer.write_file("HEAD", head);
    let error = upgrade_directory(Arc::new(newer)).unwrap_err();
    assert!(
        error.code() == ErrorCode::UnsupportedVersion && error.to_string().contains("7.0") && error.to_string().contains("1.0"),
        "{error}"
    );
}
