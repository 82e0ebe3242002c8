//! `triune inspect`: what each file of a database is and holds. Reads the files themselves, so it works when `open` refuses.

use crate::args::InspectArgs;
use crate::output::{Failure, Out, Outcome};
use serde::Serialize;
use serde_json::{Map, Value};
use triune::inspect::{FileDescription, describe};

#[derive(Serialize)]
struct FileLine<'a> {
    file: &'a str,
    kind: &'a str,
    bytes: u64,
    fields: Map<String, Value>,
    problem: Option<&'a str>,
}

pub(crate) fn run(args: &InspectArgs, out: &mut Out) -> Outcome<()> {
    let description = describe(&args.database)?;
    let asked: Vec<&FileDescription> = description.files.iter().filter(|f| args.file.as_ref().is_none_or(|name| f.name == *name)).collect();
    if let (Some(name), []) = (&args.file, &asked[..]) {
        let names: Vec<&str> = description.files.iter().map(|f| f.name.as_str()).collect();
        return Err(Failure::not_found(format!("{} has no file {name}; it has {}", args.database.display(), names.join(", "))));
    }
    for file in asked {
        match out.json() {
            true => out.object(&FileLine {
                file: &file.name,
                kind: &file.kind,
                bytes: file.bytes,
                fields: file.fields.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect(),
                problem: file.problem.as_deref(),
            })?,
            false => print(file, out)?,
        }
    }
    Ok(())
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
