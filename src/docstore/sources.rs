//! Sources and their rows.

use super::reader::{RowsReader, located, text};
use crate::error::Result;
use crate::format::ids::name_range;
use std::borrow::Cow;
use std::cmp::Ordering;

impl RowsReader {
    /// How many sources have rows here.
    pub fn source_count(&self) -> u32 {
        self.inner.sources_layout.sources
    }

    /// The rows of `source`, ascending; none when it has none here. O(log sources + rows).
    pub fn source_rows(&self, source: &str) -> Result<Vec<u32>> {
        let (mut low, mut high) = (0, self.source_count());
        while low < high {
            let middle = low + (high - low) / 2;
            match (*self.source_name(middle)?).cmp(source) {
                Ordering::Equal => return self.rows_of_ordinal(middle),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Ok(Vec::new())
    }

    /// The source of `row`, if it has one. O(1).
    ///
    /// # Errors
    /// `Corrupt` on damage, and when there is no such row.
    pub fn source_of(&self, row: u32) -> Result<Option<Cow<'_, str>>> {
        let (section, layout) = (&self.inner.sources, &self.inner.sources_layout);
        self.check_row(section, row)?;
        if layout.sources == 0 {
            return Ok(None);
        }
        let at = layout.ordinal_of_row(row);
        let ordinal = layout.decode_ordinal(&section.read(at.clone())?).map_err(located(section, at.start))?;
        ordinal.map(|ordinal| self.source_name(ordinal)).transpose()
    }

    /// Every source with its rows, ascending by name. Reads as it goes; stop at the first error.
    pub fn sources(&self) -> impl Iterator<Item = Result<(String, Vec<u32>)>> + '_ {
        (0..self.source_count()).map(|ordinal| Ok((self.source_name(ordinal)?.into_owned(), self.rows_of_ordinal(ordinal)?)))
    }

    fn source_name(&self, ordinal: u32) -> Result<Cow<'_, str>> {
        let (section, layout) = (&self.inner.sources, &self.inner.sources_layout);
        let bounds = layout.name_bounds(ordinal);
        let name = name_range(&section.read(bounds.clone())?, layout.text_bytes).map_err(located(section, bounds.start))?;
        text(section, layout.text_start() + name.start..layout.text_start() + name.end)
    }

    fn rows_of_ordinal(&self, ordinal: u32) -> Result<Vec<u32>> {
        let (section, layout) = (&self.inner.sources, &self.inner.sources_layout);
        let bounds = layout.row_bounds(ordinal);
        let range = layout.decode_row_bounds(&section.read(bounds.clone())?).map_err(located(section, bounds.start))?;
        let at = layout.members(range);
        layout.decode_rows(&section.read(at.clone())?).map_err(located(section, at.start))
    }
}
