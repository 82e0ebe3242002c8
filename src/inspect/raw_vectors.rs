//! What stands inside the sections of a vector graph, as it stands there: the header field by field, the levels, the codes. Spec §12.6 to §12.8.

use super::raw::{Field, Structure, fields};
use super::structures::problem;
use crate::format::segment::{SectionEntry, SectionKind};
use crate::format::vector_codes::{CodesShape, META_BYTES, MetaPlace, row_meta};
use crate::format::vector_graph::{EF_LADDER, GraphShape, NO_LINK, VectorGraphHeader};
use crate::io::File;
use zerocopy::FromBytes;

/// Components, links and positions of which a line shows the first.
const SHOWN: usize = 8;

/// The structures inside a section that starts at byte `start` of the file and lies inside it; none for sections of other kinds.
pub(super) fn inside(file: &dyn File, index: usize, start: u64, entry: &SectionEntry) -> std::io::Result<Vec<Structure>> {
    let section = Raw { file, index, start, entry };
    let kind = SectionKind::from_number(entry.kind.get());
    if kind == Some(SectionKind::VectorGraph) {
        section.graph()
    } else if kind == Some(SectionKind::VectorCodes) {
        section.codes()
    } else {
        Ok(Vec::new())
    }
}

struct Raw<'a> {
    file: &'a dyn File,
    index: usize,
    start: u64,
    entry: &'a SectionEntry,
}

impl Raw<'_> {
    /// At most `length` bytes, as far as the section goes.
    fn read(&self, at: u64, length: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.entry.length.get().saturating_sub(at).min(length as u64) as usize];
        self.file.read_exact_at(self.start + at, &mut bytes)?;
        Ok(bytes)
    }

    fn numbers(&self, at: u64, count: usize) -> std::io::Result<Vec<u32>> {
        Ok(self.read(at, count * 4)?.as_chunks::<4>().0.iter().map(|n| u32::from_le_bytes(*n)).collect())
    }

    fn structure(&self, at: u64, bytes: u64, what: &str, found: Option<String>, fields: Vec<Field>) -> Structure {
        Structure::new(self.start + at, bytes, format!("segment {} {what}", self.index), found, fields)
    }

    fn graph(&self) -> std::io::Result<Vec<Structure>> {
        let bytes = self.read(0, size_of::<VectorGraphHeader>())?;
        let Ok(header) = VectorGraphHeader::read_from_bytes(&bytes) else { return Ok(Vec::new()) };
        let own = fields!(
            self.start,
            header,
            VectorGraphHeader { layout, m, ef_construction, levels, sample, level_counts, recall, compared, reserved }
        );
        let SectionEntry { items, aux, length, .. } = self.entry;
        // How many vectors there are stands in another section; what the table says of this one is what the header is held against.
        let shape = GraphShape::decode(&bytes, items.get(), aux.get(), length.get(), u32::try_from(items.get()).unwrap_or(u32::MAX));
        let says = shape.as_ref().map_or_else(|_| String::new(), measured);
        let found = problem(shape.clone(), self.start);
        let mut all = vec![self.structure(0, bytes.len() as u64, "graph header (VectorGraphHeader)", found, own).saying(says)];
        let Ok(shape) = shape else { return Ok(all) };
        let positions = self.numbers(GraphShape::positions_offset(), SHOWN.min(shape.count() as usize))?;
        let says = format!("{} nodes; the first lie at {}", shape.count(), list(&positions));
        let (from, to) = (GraphShape::positions_offset(), shape.base_offset());
        all.push(self.structure(from, to - from, "positions of the nodes", None, Vec::new()).saying(says));
        for (level, &nodes) in shape.level_counts.iter().enumerate() {
            let (at, row) = (shape.level_offset(level), shape.row_bytes(level));
            let mut links = self.numbers(at, row / 4)?;
            links.retain(|&link| link != NO_LINK);
            let says = format!("{nodes} nodes, rows of {row} bytes; node 0 links to {}", list(&links));
            let what = format!("links of level {level}");
            all.push(self.structure(at, u64::from(nodes) * row as u64, &what, None, Vec::new()).saying(says));
        }
        Ok(all)
    }

    fn codes(&self) -> std::io::Result<Vec<Structure>> {
        let Some(shape) = CodesShape::of_table(self.entry.items.get(), self.entry.aux.get(), self.entry.length.get()) else {
            return Ok(Vec::new());
        };
        let (rows, unit_at, centre_at, length) = (shape.rows_bytes(), shape.unit_offset(), shape.centre_offset(), shape.length());
        let (scale, bias) = row_meta(&self.read(shape.meta_offset(0), META_BYTES)?);
        let row = self.read(0, SHOWN.min(shape.dimension as usize))?;
        let shown: Vec<u32> = row.iter().map(|&code| u32::from(code)).collect();
        let says = format!("{} rows of {} bytes; node 0: scale {scale}, bias {bias}, codes {}", shape.count, shape.stride, list(&shown));
        let unit = self.read(unit_at, 8)?.first_chunk::<8>().map_or(f64::NAN, |b| f64::from_le_bytes(*b));
        let field = Field { offset: self.start + unit_at, bytes: 8, name: "unit", value: unit.to_string() };
        let centre = self.numbers(centre_at, SHOWN)?.into_iter().map(f32::from_bits).collect::<Vec<f32>>();
        let more = if shape.dimension as usize > centre.len() { ", ..." } else { "" };
        let centre = format!("{} components: {}{more}", shape.dimension, centre.iter().map(f32::to_string).collect::<Vec<_>>().join(", "));
        let mut all = vec![self.structure(0, rows, "rows of codes", None, Vec::new()).saying(says)];
        if shape.meta == MetaPlace::After {
            all.push(self.structure(rows, unit_at - rows, "scale and bias of the rows", None, Vec::new()));
        }
        all.push(self.structure(unit_at, centre_at - unit_at, "unit of the images", None, vec![field]));
        all.push(self.structure(centre_at, length - centre_at, "centre of the images", None, Vec::new()).saying(centre));
        Ok(all)
    }
}

/// What walks of each width were measured to find, in a line.
fn measured(shape: &GraphShape) -> String {
    if shape.sample == 0 {
        return "recall was not measured".to_string();
    }
    let widths = EF_LADDER.iter().zip(&shape.measured);
    let each: Vec<String> = widths.map(|(ef, m)| format!("{:.2}% with {ef} ({} compared)", m.recall * 100.0, m.compared)).collect();
    format!("recall of the nearest 10, measured by {} questions: {}", shape.sample, each.join(", "))
}

fn list(numbers: &[u32]) -> String {
    if numbers.is_empty() { "nothing".to_string() } else { numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ") }
}
