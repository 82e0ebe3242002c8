//! `triune inspect`: what each file of a database is and holds. Reads the files themselves, so it works when `open` refuses.
//!
//! Without FILE it says what every file is. With FILE it goes through that one structure by structure: the offset and the bytes of every
//! field, what stands there, and whether checksums hold; of a log, every record with what it did.

use crate::args::InspectArgs;
use crate::output::{Failure, Out, Outcome};
use serde::Serialize;
use serde_json::{Map, Value};
use triune::inspect::{FileDescription, Structure, describe, structures};

#[derive(Serialize)]
struct FileLine<'a> {
    file: &'a str,
    kind: &'a str,
    bytes: u64,
    fields: Map<String, Value>,
    problem: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structures: Option<Vec<StructureObject<'a>>>,
}

#[derive(Serialize)]
struct StructureObject<'a> {
    offset: u64,
    bytes: u64,
    name: &'a str,
    problem: Option<&'a str>,
    says: &'a str,
    fields: Vec<FieldObject<'a>>,
}

#[derive(Serialize)]
struct FieldObject<'a> {
    offset: u64,
    bytes: u64,
    field: &'a str,
    value: &'a str,
}

pub(crate) fn run(args: &InspectArgs, out: &mut Out) -> Outcome<()> {
    let description = describe(&args.database)?;
    let Some(name) = &args.file else {
        return description.files.iter().try_for_each(|file| one(file, None, out));
    };
    let Some(file) = description.files.iter().find(|file| file.name == *name) else {
        let names: Vec<&str> = description.files.iter().map(|f| f.name.as_str()).collect();
        return Err(Failure::not_found(format!("{} has no file {name}; it has {}", args.database.display(), names.join(", "))));
    };
    // A file that is missing is described too.
    let parts = match structures(&args.database, name) {
        Err(triune::Error::NotFound(_)) => Vec::new(),
        other => other?,
    };
    one(file, Some(&parts), out)
}

fn one(file: &FileDescription, parts: Option<&[Structure]>, out: &mut Out) -> Outcome<()> {
    if !out.json() {
        print(file, out)?;
        return parts.unwrap_or_default().iter().try_for_each(|part| print_structure(part, out));
    }
    out.object(&FileLine {
        file: &file.name,
        kind: &file.kind,
        bytes: file.bytes,
        fields: file.fields.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect(),
        problem: file.problem.as_deref(),
        structures: parts.map(|parts| parts.iter().map(object).collect()),
    })
}

fn object(part: &Structure) -> StructureObject<'_> {
    StructureObject {
        offset: part.offset,
        bytes: part.bytes,
        name: &part.name,
        problem: part.problem.as_deref(),
        says: &part.says,
        fields: part.fields.iter().map(|f| FieldObject { offset: f.offset, bytes: f.bytes, field: f.name, value: &f.value }).collect(),
    }
}

fn print(file: &FileDescription, out: &mut Out) -> Outcome<()> {
    out.line(format_args!("{}  {}, {} bytes", file.name, file.kind, file.bytes))?;
    let width = file.fields.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    for (key, value) in &file.fields {
        out.line(format_args!("    {key:width$}  {value}"))?;
    }
    match &file.problem {
        Some(problem) => out.line(format_args!("    PROBLEM: {problem}")),
        None => Ok(()),
    }
}

/// Rows of offset, bytes, field, value; the verdict stands on the structure's own row.
fn print_structure(part: &Structure, out: &mut Out) -> Outcome<()> {
    let verdict = part.problem.as_deref().map_or("sound".to_string(), |problem| format!("BAD: {problem}"));
    out.line(format_args!("{:>10} {:>8}  {}  {verdict}", part.offset, part.bytes, part.name))?;
    if !part.says.is_empty() {
        out.line(format_args!("{:>21}{}", "", part.says))?;
    }
    let width = part.fields.iter().map(|f| f.name.len()).max().unwrap_or(0);
    for f in &part.fields {
        out.line(format_args!("{:>10} {:>8}    {:width$}  {}", f.offset, f.bytes, f.name, f.value))?;
    }
    Ok(())
}
