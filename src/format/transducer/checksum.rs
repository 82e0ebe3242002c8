//! The checksum of an fst: CRC-32C (Castagnoli), masked.

/// What each byte does to the remainder.
const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut remainder, mut bit) = (byte as u32, 0);
        while bit < 8 {
            remainder = remainder >> 1 ^ if remainder & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
}

/// The CRC-32C of `bytes`, rotated right by 15 bits, plus 0xA282EAD8: what stands at the end of an fst of these bytes.
pub fn masked_crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8;
    (!bytes.iter().fold(u32::MAX, step)).rotate_right(15).wrapping_add(0xa282_ead8)
}
