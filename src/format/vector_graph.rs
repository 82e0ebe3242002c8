//! The links of a vector graph: section `VectorGraph`. Spec §12.7.

use super::error::FormatError;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Levels of a graph, at most.
pub const LEVELS_MAX: usize = 16;
/// Links on the levels above 0, at least and at most.
pub const M_RANGE: std::ops::RangeInclusive<u16> = 2..=64;
/// Widths of walks that are measured.
pub const EF_STEPS: usize = 10;
/// How widely walks look, by the place of their measurement in a header.
pub const EF_LADDER: [u32; EF_STEPS] = [16, 24, 32, 48, 64, 96, 128, 192, 256, 512];
/// Pads a row of links.
pub const NO_LINK: u32 = u32::MAX;
const LAYOUT: u16 = 1;

/// Spec §12.8: the first bytes of the section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct VectorGraphHeader {
    /// 1.
    pub layout: U16,
    /// Links of a node on the levels above 0, at most; twice as many on level 0.
    pub m: U16,
    /// Candidates among which neighbours were chosen.
    pub ef_construction: U32,
    /// How many levels there are, 1 to 16.
    pub levels: U32,
    /// Questions by which `recall` and `compared` were measured; 0 when that was not done.
    pub sample: U32,
    /// Nodes that have each level, from level 0 on.
    pub level_counts: [U32; LEVELS_MAX],
    /// The share of the true ten nearest that a walk with each of [`EF_LADDER`] finds, in 1/10,000.
    pub recall: [U16; EF_STEPS],
    /// Distances that such a walk computes, on average.
    pub compared: [U32; EF_STEPS],
    /// Zero.
    pub reserved: [u8; 52],
}
const _: () = assert!(size_of::<VectorGraphHeader>() == 192);

/// What walks of one width find and cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The share of the true ten nearest that is found, 0 to 1.
    pub recall: f64,
    /// Distances that are computed, on average.
    pub compared: u32,
}

/// What the header says, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphShape {
    /// Links on the levels above 0; twice as many on level 0.
    pub m: usize,
    /// Candidates among which neighbours were chosen.
    pub ef_construction: u32,
    /// Nodes of each level: at least one level, each at most the one before and at least 1.
    pub level_counts: Vec<u32>,
    /// Questions behind `measured`.
    pub sample: u32,
    /// By the place in [`EF_LADDER`].
    pub measured: [Measured; EF_STEPS],
}

impl GraphShape {
    /// Nodes.
    pub fn count(&self) -> u32 {
        self.level_counts[0]
    }

    /// Where the positions start; they end at a multiple of 64 with zeros.
    pub const fn positions_offset() -> u64 {
        size_of::<VectorGraphHeader>() as u64
    }

    /// Where the rows of level 0 start.
    pub fn base_offset(&self) -> u64 {
        Self::positions_offset() + (u64::from(self.count()) * 4).next_multiple_of(64)
    }

    /// Bytes of a row of a level.
    pub fn row_bytes(&self, level: usize) -> usize {
        self.m * if level == 0 { 8 } else { 4 }
    }

    /// Where the rows of a level start.
    pub fn level_offset(&self, level: usize) -> u64 {
        let counts = self.level_counts.iter().take(level).enumerate();
        self.base_offset() + counts.map(|(l, &n)| u64::from(n) * self.row_bytes(l) as u64).sum::<u64>()
    }

    /// Bytes of the section.
    pub fn length(&self) -> u64 {
        self.level_offset(self.level_counts.len())
    }

    /// The header's bytes.
    pub fn encode(&self) -> VectorGraphHeader {
        let count = |level: usize| self.level_counts.get(level).copied().unwrap_or(0);
        VectorGraphHeader {
            layout: U16::new(LAYOUT),
            m: U16::new(self.m as u16),
            ef_construction: U32::new(self.ef_construction),
            levels: U32::new(self.level_counts.len() as u32),
            sample: U32::new(self.sample),
            level_counts: std::array::from_fn(|level| U32::new(count(level))),
            recall: self.measured.map(|m| U16::new((m.recall.clamp(0.0, 1.0) * 10_000.0).round() as u16)),
            compared: self.measured.map(|m| U32::new(m.compared)),
            reserved: [0; 52],
        }
    }

    /// Reads the header in the section's first bytes, and holds it against the numbers of its table entry and the number of vectors.
    pub fn decode(header: &[u8], items: u64, aux: u64, length: u64, vectors: u32) -> Result<GraphShape, FormatError> {
        let Ok((header, _)) = VectorGraphHeader::ref_from_prefix(header) else {
            return Err(FormatError::new(0, format!("a vector graph starts with a header of 192 bytes, and {} are here", header.len())));
        };
        if header.layout.get() != LAYOUT {
            return Err(FormatError::new(0, format!("the layout of the vector graph is {}, and this version knows {LAYOUT}", header.layout)));
        }
        if !M_RANGE.contains(&header.m.get()) {
            return Err(FormatError::new(2, format!("a node has 2 to 64 links a level, not {}", header.m)));
        }
        if header.reserved != [0; 52] {
            return Err(FormatError::new(140, "reserved bytes of the vector graph are not zero"));
        }
        let shape = GraphShape {
            m: usize::from(header.m.get()),
            ef_construction: header.ef_construction.get(),
            level_counts: level_counts(header)?,
            sample: header.sample.get(),
            measured: measured(header)?,
        };
        if items != u64::from(vectors) || aux != 0 || shape.count() != vectors {
            let what = format!("{vectors} vectors need as many nodes; {} are in the header, {items} and {aux} in the table", shape.count());
            return Err(FormatError::new(16, what));
        }
        if shape.length() != length {
            return Err(FormatError::new(0, format!("a vector graph of this shape has {} bytes, not {length}", shape.length())));
        }
        Ok(shape)
    }
}

fn level_counts(header: &VectorGraphHeader) -> Result<Vec<u32>, FormatError> {
    let levels = header.levels.get() as usize;
    if levels == 0 || levels > LEVELS_MAX {
        return Err(FormatError::new(8, format!("a vector graph has 1 to {LEVELS_MAX} levels, not {levels}")));
    }
    let counts: Vec<u32> = header.level_counts.iter().map(|c| c.get()).collect();
    let (there, beyond) = counts.split_at(levels);
    let falls = there.is_sorted_by(|a, b| a >= b);
    if there[levels - 1] == 0 || !falls || beyond.iter().any(|&count| count != 0) {
        return Err(FormatError::new(16, format!("the nodes of {levels} levels are {counts:?}: they do not fall from level to level")));
    }
    Ok(there.to_vec())
}

fn measured(header: &VectorGraphHeader) -> Result<[Measured; EF_STEPS], FormatError> {
    if let Some(i) = header.recall.iter().position(|r| r.get() > 10_000) {
        return Err(FormatError::new(80 + 2 * i, format!("a recall is at most 10,000, not {}", header.recall[i])));
    }
    Ok(std::array::from_fn(|i| Measured { recall: f64::from(header.recall[i].get()) / 10_000.0, compared: header.compared[i].get() }))
}

/// Numbers of four bytes, as they stand in a section; `None` where this host can't look at them in place.
#[inline]
pub fn view_numbers(bytes: &[u8]) -> Option<&[u32]> {
    if cfg!(target_endian = "little") { <[u32]>::ref_from_bytes(bytes).ok() } else { None }
}

/// The bytes of links or positions.
pub fn encode_numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// Checks that a row has links to nodes that have its level, none to itself, none twice, and nothing after the first [`NO_LINK`].
pub fn check_row(node: u32, links: &[u32], nodes: u32) -> Result<(), String> {
    let end = links.iter().position(|&link| link == NO_LINK).unwrap_or(links.len());
    for (i, &link) in links[..end].iter().enumerate() {
        if link >= nodes {
            return Err(format!("node {node} links to {link}, of {nodes} that have the level"));
        }
        if link == node {
            return Err(format!("node {node} links to itself"));
        }
        if links[..i].contains(&link) {
            return Err(format!("node {node} links twice to {link}"));
        }
    }
    match links[end..].iter().find(|&&link| link != NO_LINK) {
        Some(link) => Err(format!("node {node} has the link {link} after the end of its row")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> GraphShape {
        let measured = std::array::from_fn(|i| Measured { recall: (5_000 + 100 * i) as f64 / 10_000.0, compared: 100 * (1 + i as u32) });
        GraphShape { m: 2, ef_construction: 200, level_counts: vec![17, 4, 1], sample: 9, measured }
    }

    fn decode(header: &VectorGraphHeader) -> Result<GraphShape, FormatError> {
        GraphShape::decode(header.as_bytes(), 17, 0, shape().length(), 17)
    }

    #[test]
    fn a_header_comes_back_and_says_where_everything_is() {
        let shape = shape();
        assert_eq!(decode(&shape.encode()), Ok(shape.clone()));
        assert_eq!((shape.base_offset(), shape.level_offset(1), shape.level_offset(2)), (320, 320 + 17 * 16, 320 + 17 * 16 + 4 * 8));
        assert_eq!(shape.length(), 320 + 17 * 16 + 5 * 8);
    }

    #[test]
    fn a_header_that_lies_is_refused_where_it_does() {
        let good = shape().encode();
        let at = |change: &dyn Fn(&mut VectorGraphHeader)| {
            let mut header = good;
            change(&mut header);
            decode(&header).map_err(|e| e.offset).expect_err("it lies")
        };
        assert_eq!(at(&|h| h.layout = U16::new(2)), 0);
        assert_eq!(at(&|h| h.m = U16::new(1)), 2);
        assert_eq!(at(&|h| h.m = U16::new(65)), 2);
        assert_eq!(at(&|h| h.m = U16::new(3)), 0, "another length");
        assert_eq!(at(&|h| h.levels = U32::new(0)), 8);
        assert_eq!(at(&|h| h.levels = U32::new(17)), 8);
        assert_eq!(at(&|h| h.levels = U32::new(2)), 16);
        assert_eq!(at(&|h| h.level_counts[1] = U32::new(18)), 16);
        assert_eq!(at(&|h| h.level_counts[2] = U32::new(0)), 16);
        assert_eq!(at(&|h| h.level_counts[0] = U32::new(16)), 16);
        assert_eq!(at(&|h| h.recall[3] = U16::new(10_001)), 86);
        assert_eq!(at(&|h| h.reserved[0] = 1), 140);
        assert!(GraphShape::decode(&good.as_bytes()[..191], 17, 0, shape().length(), 17).is_err());
        assert!(GraphShape::decode(good.as_bytes(), 17, 1, shape().length(), 17).is_err());
        assert!(GraphShape::decode(good.as_bytes(), 16, 0, shape().length(), 17).is_err());
    }

    #[test]
    fn a_row_that_no_writer_makes_is_refused() {
        assert_eq!(check_row(3, &[1, 2, NO_LINK, NO_LINK], 4), Ok(()));
        assert_eq!(check_row(3, &[NO_LINK; 4], 4), Ok(()));
        for row in [[1, 4, NO_LINK, NO_LINK], [1, 3, NO_LINK, NO_LINK], [1, 2, 1, NO_LINK], [1, NO_LINK, 2, NO_LINK]] {
            assert!(check_row(3, &row, 4).is_err(), "{row:?}");
        }
    }

    #[test]
    fn numbers_are_little_endian() {
        assert_eq!(encode_numbers(&[1, NO_LINK]), [1, 0, 0, 0, 255, 255, 255, 255]);
    }
}
