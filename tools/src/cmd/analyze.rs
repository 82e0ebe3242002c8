//! `triune analyze`: one line `{"text"}` in, one line `{"tokens"}` out. Needs no database.

use crate::args::AnalyzeArgs;
use crate::jsonl::{Fields, Lines, value};
use crate::output::{Failure, Out, Outcome};
use serde::Serialize;
use triune::{Analyzer, AnalyzerKind};

#[derive(Serialize)]
struct Tokens {
    tokens: Vec<String>,
}

pub(crate) fn run(args: &AnalyzeArgs, out: &mut Out) -> Outcome<()> {
    let Some(name) = &args.analyzer else { return Err(Failure::not_yet("--extractor")) };
    let analyzer = Analyzer::new(name.parse::<AnalyzerKind>()?);
    let mut lines = Lines::open(&args.file)?;
    loop {
        let tokens = match lines.next_line() {
            Ok(None) => return Ok(()),
            Ok(Some(line)) => tokens(&analyzer, line),
            Err(failure) => Err(failure),
        };
        let tokens = tokens.map_err(|f| f.reworded(|m| format!("{}, line {}: {m}", lines.name(), lines.number())))?;
        out.object(&Tokens { tokens })?;
    }
}

fn tokens(analyzer: &Analyzer, line: &str) -> Outcome<Vec<String>> {
    let fields = Fields::parse(line)?;
    if let Some((key, _)) = fields.0.iter().find(|(key, _)| key != "text") {
        return Err(Failure::invalid(format!("unknown key {key:?}; a line has text")));
    }
    let text: String = fields.get("text").map_or(Ok(String::new()), |raw| value("text", raw, "a string"))?;
    let mut tokens = Vec::new();
    analyzer.tokens(&text, &mut |token: &str| tokens.push(token.to_string()));
    Ok(tokens)
}
