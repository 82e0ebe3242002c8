//! The checksum of everything: CRC-32 (IEEE 802.3, as zlib's `crc32`). Spec §3.

/// CRC-32 of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// CRC-32 of `seed` followed by `bytes`: bytes written under another identity do not pass.
pub fn crc32_seeded(seed: &[u8], bytes: &[u8]) -> u32 {
    let mut h = crc32fast::Hasher::new();
    h.update(seed);
    h.update(bytes);
    h.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_vectors_of_the_specification_hold() {
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32_seeded(b"1234", b"56789"), 0xcbf4_3926);
    }
}
