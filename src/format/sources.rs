//! The `Sources` section: the source of every row, and the rows of every source. Spec §10.5.
//!
//! For `S` sources, `R` rows of which `M` have a source: `S + 1` `u64` (where each name starts in the text), `S + 1` `u32` (where the rows
//! of each source start), `R` `u32` (of each row the ordinal of its source + 1, or 0), `M` `u32` (rows, ascending within a source), then
//! the names, in ascending order of their bytes. A segment without any source has an empty section.

use super::error::FormatError;
use std::ops::Range;

/// Where everything in a `Sources` section stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourcesLayout {
    /// How many sources there are.
    pub sources: u32,
    /// Rows of the segment.
    pub rows: u32,
    /// Rows that have a source.
    pub members: u32,
    /// Bytes of all names.
    pub text_bytes: u64,
}

impl SourcesLayout {
    /// Checks the sizes that the table entry gives (`items` sources, `aux` bytes of names) against the rows of the segment.
    pub fn decode(items: u64, aux: u64, length: u64, rows: u32) -> Result<SourcesLayout, FormatError> {
        let wrong = || FormatError::new(0, format!("{length} bytes do not hold {items} sources of {aux} bytes in all for {rows} rows"));
        if items == 0 {
            let empty = SourcesLayout { sources: 0, rows, members: 0, text_bytes: 0 };
            return if length == 0 && aux == 0 { Ok(empty) } else { Err(wrong()) };
        }
        let sources = u32::try_from(items).ok().filter(|s| *s <= rows).ok_or_else(wrong)?;
        let fixed = (u64::from(sources) + 1) * 12 + u64::from(rows) * 4;
        let members_bytes = length.checked_sub(fixed).and_then(|rest| rest.checked_sub(aux)).ok_or_else(wrong)?;
        let members = u32::try_from(members_bytes / 4).ok().filter(|m| members_bytes.is_multiple_of(4) && *m <= rows && *m >= sources);
        Ok(SourcesLayout { sources, rows, members: members.ok_or_else(wrong)?, text_bytes: aux })
    }

    /// The two `u64` that bound the name of `ordinal` in the text.
    pub fn name_bounds(&self, ordinal: u32) -> Range<u64> {
        let at = u64::from(ordinal) * 8;
        at..at + 16
    }

    /// The two `u32` that bound the rows of `ordinal`.
    pub fn row_bounds(&self, ordinal: u32) -> Range<u64> {
        let at = (u64::from(self.sources) + 1) * 8 + u64::from(ordinal) * 4;
        at..at + 8
    }

    /// The `u32` that names the source of `row`.
    pub fn ordinal_of_row(&self, row: u32) -> Range<u64> {
        let at = self.column_start() + u64::from(row) * 4;
        at..at + 4
    }

    /// The rows `range` of the list of all rows that have a source, as bytes of the section.
    pub fn members(&self, range: Range<u32>) -> Range<u64> {
        let start = self.members_start();
        start + u64::from(range.start) * 4..start + u64::from(range.end) * 4
    }

    /// Where the text of the names starts.
    pub fn text_start(&self) -> u64 {
        self.members_start() + u64::from(self.members) * 4
    }

    fn column_start(&self) -> u64 {
        (u64::from(self.sources) + 1) * 12
    }

    fn members_start(&self) -> u64 {
        self.column_start() + u64::from(self.rows) * 4
    }

    /// Reads what stands at [`SourcesLayout::row_bounds`].
    pub fn decode_row_bounds(&self, bytes: &[u8]) -> Result<Range<u32>, FormatError> {
        let (words, _) = bytes.as_chunks::<4>();
        let &[start, end] = words else {
            return Err(FormatError::new(0, "the bounds of a source's rows have 8 bytes"));
        };
        let (start, end) = (u32::from_le_bytes(start), u32::from_le_bytes(end));
        if start >= end || end > self.members {
            return Err(FormatError::new(0, format!("a source has rows {start}..{end} of a list of {}", self.members)));
        }
        Ok(start..end)
    }

    /// Reads the rows of one source; they ascend and are rows of the segment.
    pub fn decode_rows(&self, bytes: &[u8]) -> Result<Vec<u32>, FormatError> {
        let (words, _) = bytes.as_chunks::<4>();
        let rows: Vec<u32> = words.iter().map(|w| u32::from_le_bytes(*w)).collect();
        if let Some(i) = rows.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(FormatError::new(i * 4, format!("row {} of a source is followed by row {}", rows[i], rows[i + 1])));
        }
        match rows.last() {
            Some(&last) if last >= self.rows => {
                Err(FormatError::new(rows.len() * 4 - 4, format!("a source has row {last}; the segment has {}", self.rows)))
            }
            _ => Ok(rows),
        }
    }

    /// Reads what stands at [`SourcesLayout::ordinal_of_row`].
    pub fn decode_ordinal(&self, bytes: &[u8]) -> Result<Option<u32>, FormatError> {
        let mut word = [0; 4];
        word.copy_from_slice(bytes.get(..4).ok_or_else(|| FormatError::new(0, "the ordinal of a source has 4 bytes"))?);
        match u32::from_le_bytes(word) {
            0 => Ok(None),
            n if n <= self.sources => Ok(Some(n - 1)),
            n => Err(FormatError::new(0, format!("a row names source {}; there are {}", n - 1, self.sources))),
        }
    }
}

/// Encodes the section from the sorted names and, of every row, the position of its source in `names`. Answers the bytes and the bytes of
/// all names.
pub fn encode_sources(names: &[&str], of_row: &[Option<u32>]) -> (Vec<u8>, u64) {
    debug_assert!(names.is_sorted(), "names are sorted");
    if names.is_empty() {
        return (Vec::new(), 0);
    }
    let mut out = Vec::new();
    let mut text_bytes = 0u64;
    for name in names {
        out.extend_from_slice(&text_bytes.to_le_bytes());
        text_bytes += name.len() as u64;
    }
    out.extend_from_slice(&text_bytes.to_le_bytes());
    // A counting sort: how many rows each source has, where they start, and each row in its place.
    let mut next = vec![0u32; names.len() + 1];
    of_row.iter().flatten().for_each(|s| next[*s as usize + 1] += 1);
    for i in 1..next.len() {
        next[i] += next[i - 1];
    }
    next.iter().for_each(|start| out.extend_from_slice(&start.to_le_bytes()));
    of_row.iter().for_each(|s| out.extend_from_slice(&s.map_or(0, |s| s + 1).to_le_bytes()));
    let mut members = vec![0u32; next[names.len()] as usize];
    for (row, source) in of_row.iter().enumerate() {
        if let Some(s) = source {
            members[next[*s as usize] as usize] = row as u32;
            next[*s as usize] += 1;
        }
    }
    members.iter().for_each(|row| out.extend_from_slice(&row.to_le_bytes()));
    names.iter().for_each(|name| out.extend_from_slice(name.as_bytes()));
    (out, text_bytes)
}
