//! `format-spec.md` against the code: every fixed structure both ways, every magic and version, every limit, every kind of section.
//!
//! What is compared:
//! - a heading `### 9.1 SegmentHeader (64 bytes)` with a table `| offset | bytes | field | type | meaning |` is the struct of that name in
//!   `src/format`, and every `#[repr(C)]` struct there has such a table;
//! - a row of a table `| constant | value | meaning |` is the constant of that name in `src/format` or in `options::limits`, and every
//!   magic, every version and every limit has such a row;
//! - a row of the table `| kind | name | class |` is a `SectionKind`, and every kind has a row;
//! - a section that a comment cites, as in "Spec §9.1", is there.

use crate::layout::{Layout, Value, constants, layouts, number};
use crate::source::{self, SourceFile, files};
use std::collections::BTreeMap;
use triune::format::segment::SectionKind;

/// A row of a Markdown table, without its bars; code marks are dropped.
type Row = Vec<String>;

/// The tables whose header starts with `columns`: the heading above each, and its rows.
fn tables(spec: &str, columns: &[&str]) -> Vec<(String, Vec<Row>)> {
    let mut found = Vec::new();
    let mut heading = String::new();
    let mut open = false;
    for line in spec.lines() {
        if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim().to_string();
        }
        let row: Option<Row> = line.starts_with('|').then(|| cells(line));
        match row {
            None => open = false,
            Some(row) if !open && row.iter().map(String::as_str).take(columns.len()).eq(columns.iter().copied()) => {
                open = true;
                found.push((heading.clone(), Vec::new()));
            }
            Some(row) if open && !row[0].starts_with("---") => found.last_mut().unwrap().1.push(row),
            Some(_) => {}
        }
    }
    found
}

fn cells(line: &str) -> Row {
    line.trim().trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect()
}

/// `9.1 SegmentHeader (64 bytes)` -> the name and the size.
fn struct_heading(heading: &str) -> Option<(String, u64)> {
    let (before, after) = heading.rsplit_once('(')?;
    let bytes = number(after.strip_suffix(" bytes)")?)?;
    let name = before.split_whitespace().last()?.replace('`', "");
    Some((name, u64::try_from(bytes).ok()?))
}

/// Differences between the tables of structs in `spec` and the structs themselves.
fn compare_structs(spec: &str, structs: &BTreeMap<String, Layout>) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut described = Vec::new();
    for (heading, rows) in tables(spec, &["offset", "bytes", "field", "type"]) {
        // Under a heading without a size stands a layout that is no struct, such as an array; a struct that lost its size is missed below.
        let Some((name, bytes)) = struct_heading(&heading) else { continue };
        described.push(name.clone());
        match structs.get(&name) {
            None => complaints.push(format!("{heading:?}: src/format has no #[repr(C)] struct of this name")),
            Some(layout) => compare_fields(&name, bytes, &rows, layout, &mut complaints),
        }
    }
    for (name, layout) in structs.iter().filter(|(name, _)| described.iter().filter(|d| d == name).count() != 1) {
        complaints.push(format!("{}: {name} needs exactly one table in format-spec.md", layout.file));
    }
    complaints
}

fn compare_fields(name: &str, bytes: u64, rows: &[Row], layout: &Layout, complaints: &mut Vec<String>) {
    if bytes != layout.bytes {
        complaints.push(format!("{name}: the heading says {bytes} bytes, {} has {}", layout.file, layout.bytes));
    }
    for (row, field) in rows.iter().zip(&layout.fields) {
        let [offset, bytes, spelled, kind] = [0, 1, 2, 3].map(|i| row.get(i).cloned().unwrap_or_default());
        let expected = (field.offset.to_string(), field.bytes.to_string(), field.name.clone(), field.kind.clone());
        let found = (offset.replace(',', ""), bytes.replace(',', ""), spelled, kind);
        if expected != found {
            complaints.push(format!("{name}: the specification says {found:?}, {} says {expected:?}", layout.file));
        }
    }
    if rows.len() != layout.fields.len() {
        complaints.push(format!("{name}: the specification has {} fields, {} has {}", rows.len(), layout.file, layout.fields.len()));
    }
}

/// Differences between the tables of constants in `spec` and `known`; every name in `required` must have a row.
fn compare_constants(spec: &str, known: &BTreeMap<String, Value>, required: &[String]) -> Vec<String> {
    let rows: Vec<Row> = tables(spec, &["constant", "value"]).into_iter().flat_map(|(_, rows)| rows).collect();
    let mut complaints = Vec::new();
    for row in &rows {
        let (name, stated) = (&row[0], &row[1]);
        let agrees = match known.get(name) {
            None => false,
            Some(Value::Number(n)) => number(stated) == Some(*n) || hex_bytes(stated).is_some_and(|b| little_endian(&b) == *n),
            Some(Value::Bytes(bytes)) => hex_bytes(stated).as_ref() == Some(bytes),
        };
        if !agrees {
            complaints.push(format!("{name}: the specification says {stated:?}, the code {:?}", known.get(name)));
        }
    }
    let missing = required.iter().filter(|name| !rows.iter().any(|row| row[0] == **name));
    complaints.extend(missing.map(|name| format!("{name}: no table of constants in format-spec.md has it")));
    complaints
}

/// `89 54 52 49` -> four bytes.
fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    text.split(' ').map(|pair| if pair.len() == 2 { u8::from_str_radix(pair, 16).ok() } else { None }).collect()
}

fn little_endian(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |n, b| n << 8 | u128::from(*b))
}

/// Differences between the table of section kinds and the kinds, given as (number, name).
fn compare_kinds(spec: &str, kinds: &[(u16, &str)]) -> Vec<String> {
    let rows: Vec<(Option<u128>, String)> = tables(spec, &["kind", "name", "class"])
        .into_iter()
        .flat_map(|(_, rows)| rows)
        .map(|row| (number(&row[0]), row[1].clone()))
        .collect();
    let mut complaints = Vec::new();
    for (kind, name) in kinds {
        if rows.iter().filter(|row| **row == (Some(u128::from(*kind)), name.to_string())).count() != 1 {
            complaints.push(format!("section kind {kind} {name} needs exactly one row in format-spec.md"));
        }
    }
    for (kind, name) in &rows {
        if !kinds.iter().any(|(k, n)| *kind == Some(u128::from(*k)) && n == name) {
            complaints.push(format!("format-spec.md names section kind {kind:?} {name}, which src/format/segment.rs does not have"));
        }
    }
    complaints
}

/// Sections that comments of `sources` cite and `spec` does not have.
fn compare_citations(spec: &str, sources: &[SourceFile]) -> Vec<String> {
    let numbers: Vec<&str> = spec
        .lines()
        .filter(|line| line.starts_with("##"))
        .filter_map(|line| line.trim_start_matches('#').split_whitespace().next())
        .map(|number| number.trim_end_matches('.'))
        .collect();
    let mut complaints = Vec::new();
    for file in sources {
        for (number, line) in file.text.lines().enumerate() {
            for cited in line.split('§').skip(1) {
                let end = cited.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(cited.len());
                let cited = cited[..end].trim_end_matches('.');
                if !numbers.contains(&cited) {
                    complaints.push(format!("{}:{}: cites §{cited}, which format-spec.md does not have", file.path, number + 1));
                }
            }
        }
    }
    complaints
}

fn spec() -> String {
    source::read("format-spec.md").text
}

fn assert_clean(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn every_struct_on_disk_is_the_one_the_specification_describes() {
    let structs = layouts(&files("src/format", ".rs")).unwrap();
    assert!(structs["SegmentHeader"].bytes == 64, "the reader of structs lost its way");
    assert_clean(&compare_structs(&spec(), &structs));
}

#[test]
fn every_magic_version_and_limit_is_the_one_the_specification_states() {
    let format = constants(&files("src/format", ".rs"));
    let options = source::read("src/options.rs");
    let limits_start = options.text.find("pub mod limits").unwrap();
    let limits_end = limits_start + options.text[limits_start..].find("\n}").unwrap();
    let limits = constants(&[SourceFile::new("src/options.rs", &options.text[limits_start..limits_end])]);
    assert_eq!(limits["NAME_BYTES_MAX"], Value::Number(triune::limits::NAME_BYTES_MAX as u128));
    let fixed = |name: &&String| ["MAGIC", "MAJOR", "MINOR"].iter().any(|part| name.split('_').any(|word| word == *part));
    let required: Vec<String> = format.keys().filter(fixed).chain(limits.keys()).cloned().collect();
    assert_clean(&compare_constants(&spec(), &format.into_iter().chain(limits).collect(), &required));
}

#[test]
fn every_section_kind_stands_in_the_specification_with_its_number() {
    let kinds: Vec<(u16, &str)> = SectionKind::ALL.iter().map(|k| (*k as u16, k.name())).collect();
    assert_clean(&compare_kinds(&spec(), &kinds));
}

#[test]
fn every_section_that_a_comment_cites_is_there() {
    assert_clean(&compare_citations(&spec(), &files("src", ".rs")));
    let sources = [SourceFile::new("src/x.rs", "//! Spec §4.1 and §12, not §4.2.\n")];
    assert_eq!(
        compare_citations("## 12. Last\n### 4.1 Pair (8 bytes)\n", &sources),
        ["src/x.rs:1: cites §4.2, which format-spec.md does not have"]
    );
}

#[test]
fn the_comparison_finds_every_difference() {
    let sources = [SourceFile::new("src/format/x.rs", "#[repr(C)] pub struct Pair { pub a: U32, pub b: [u8; 4] }")];
    let structs = layouts(&sources).unwrap();
    let good = "### 4.1 Pair (8 bytes)\n\nProse.\n\n| offset | bytes | field | type | meaning |\n| --- | --- | --- | --- | --- |\n\
                | 0 | 4 | `a` | `u32` | first |\n| 4 | 4 | `b` | `[u8; 4]` | second |\n";
    assert_clean(&compare_structs(good, &structs));
    for (from, to) in [
        ("(8 bytes)", "(12 bytes)"),
        ("Pair", "Pear"),
        ("| 4 | 4 |", "| 8 | 4 |"),
        ("| 0 | 4 |", "| 0 | 8 |"),
        ("`b`", "`c`"),
        ("`u32`", "`u64`"),
        ("| 4 | 4 | `b` | `[u8; 4]` | second |\n", ""),
        ("| offset ", "| place "),
    ] {
        assert!(!compare_structs(&good.replace(from, to), &structs).is_empty(), "{from} -> {to} went unnoticed");
    }
    assert!(!compare_structs(&good.repeat(2), &structs).is_empty(), "two tables of one struct went unnoticed");

    let known = BTreeMap::from([("X_MAGIC".to_string(), Value::Bytes(vec![1, 0xab])), ("Y_MAX".to_string(), Value::Number(65_535))]);
    let required = ["X_MAGIC".to_string(), "Y_MAX".to_string()];
    let good = "| constant | value | meaning |\n| --- | --- | --- |\n| `X_MAGIC` | `01 AB` | x |\n| `Y_MAX` | 65,535 | y |\n";
    assert_clean(&compare_constants(good, &known, &required));
    for (from, to) in [("01 AB", "01 AC"), ("65,535", "65,536"), ("`Y_MAX`", "`Z_MAX`"), ("| `X_MAGIC` | `01 AB` | x |\n", "")] {
        assert!(!compare_constants(&good.replace(from, to), &known, &required).is_empty(), "{from} -> {to} went unnoticed");
    }

    let good = "| kind | name | class |\n| --- | --- | --- |\n| 1 | `Docs` | primary |\n| 2 | `Ids` | primary |\n";
    assert_clean(&compare_kinds(good, &[(1, "Docs"), (2, "Ids")]));
    assert_eq!(compare_kinds(good, &[(1, "Docs"), (3, "Ids")]).len(), 2);
    assert_eq!(compare_kinds(good, &[(1, "Docs")]).len(), 1);
}
