//! Levels 2 and 3 of the vectors of a segment.

use super::check::At;
use super::codes::FindingCode as Code;
use crate::error::Result;
use crate::format::segment::SectionKind;
use crate::options::Schema;
use crate::segment::SegmentReader;
use crate::vector::VectorsReader;
use crate::vector::kernel::inverse_norm;
use roaring::RoaringBitmap;

/// Counts against the rows, the manifest and the schema.
pub(super) fn counts(reader: &SegmentReader, vectors: Option<&VectorsReader>, rows: u32, schema: &Schema, at: &mut At<'_>) {
    let expected = at.segment.entry.vectors;
    let Some(vectors) = vectors else {
        if expected != 0 {
            at.note(Code::SegmentCounts, None, 0, format!("the segment has no vectors, the manifest says {expected}"));
        }
        for kind in [SectionKind::VectorRows, SectionKind::VectorNorms] {
            if reader.section(kind).is_some() {
                at.note(Code::Vectors, Some(kind), 0, format!("the segment has a section {} and no vectors", kind.name()));
            }
        }
        for kind in [SectionKind::VectorGraph, SectionKind::VectorCodes] {
            if reader.section(kind).is_some() {
                at.note(Code::VectorGraph, Some(kind), 0, format!("the segment has a section {} and no vectors", kind.name()));
            }
        }
        return;
    };
    if u64::from(vectors.count()) != expected {
        at.note(Code::SegmentCounts, Some(SectionKind::Vectors), 0, format!("{} vectors, the manifest says {expected}", vectors.count()));
    }
    if vectors.rows() != rows {
        let what = format!("the vectors are of {} rows, the segment has {rows}", vectors.rows());
        at.note(Code::Vectors, Some(SectionKind::VectorRows), 0, what);
    }
    if reader.section(SectionKind::VectorRows).is_some() == (vectors.count() == rows) {
        let what = format!("VectorRows stands exactly where not every row has a vector; {} of {rows} have one", vectors.count());
        at.note(Code::Vectors, Some(SectionKind::VectorRows), 0, what);
    }
    if schema.dimension != Some(vectors.dimension()) {
        let schema = schema.dimension.map_or("none".to_string(), |d| d.to_string());
        let what = format!("vectors of {} components, the schema says {schema}", vectors.dimension());
        at.note(Code::Vectors, Some(SectionKind::Vectors), 0, what);
    }
    if let Err(e) = vectors.check_components(schema.components) {
        at.error(Code::Vectors, &e);
    }
}

/// Rows ascend and components are finite. Answers how many living rows have a vector.
pub(super) fn values(reader: &SegmentReader, vectors: &VectorsReader, dead: &RoaringBitmap) -> Result<u64> {
    let section = reader.require(SectionKind::Vectors)?;
    let width = vectors.components().bytes();
    let (mut position, mut live) = (0u64, 0u64);
    vectors.for_each(|row, vector| {
        if let Some(i) = vector.iter().position(|c| !c.is_finite()) {
            let at = (position * vector.len() as u64 + i as u64) * width;
            return Err(section.corrupt(at, format!("component {i} of the vector of row {row} is {}", vector[i])));
        }
        live += u64::from(!dead.contains(row));
        position += 1;
        Ok(())
    })?;
    Ok(live)
}

/// Inverse norms: those of the vectors to the bit when `exact`, else numbers that some vector may have.
pub(super) fn norms(reader: &SegmentReader, vectors: &VectorsReader, exact: bool, at: &mut At<'_>) -> Result<()> {
    let Some(section) = reader.section(SectionKind::VectorNorms) else {
        at.note(Code::VectorNorms, None, 0, "the segment has vectors and no section VectorNorms");
        return Ok(());
    };
    vectors.shape().decode_norms_entry(section.items(), section.len()).map_err(|e| section.corrupt(0, e.what))?;
    let norms = section.whole()?;
    let norm =
        |position: usize| norms.get(position * 8..position * 8 + 8).and_then(|b| b.first_chunk::<8>()).map(|b| f64::from_le_bytes(*b));
    for position in 0..vectors.count() as usize {
        let found = norm(position).unwrap_or(f64::NAN);
        if !found.is_finite() || found < 0.0 {
            return Err(section.corrupt(position as u64 * 8, format!("the inverse norm of vector {position} is {found}")));
        }
    }
    if !exact {
        return Ok(());
    }
    let mut position = 0;
    vectors.for_each(|row, vector| {
        let (found, expected) = (norm(position).unwrap_or(f64::NAN), inverse_norm(vector));
        if found.to_bits() != expected.to_bits() {
            return Err(
                section.corrupt(position as u64 * 8, format!("the inverse norm of row {row} is {found}, its vector has {expected}"))
            );
        }
        position += 1;
        Ok(())
    })
}
