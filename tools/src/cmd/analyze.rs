//! `triune analyze`: one line `{"text"}` in, one line `{"tokens"}` or `{"entities"}` out. Needs no database.

use crate::args::AnalyzeArgs;
use crate::jsonl::{Fields, Lines, value};
use crate::output::{Failure, Out, Outcome};
use serde::Serialize;
use triune::{Analyzer, AnalyzerKind, ExtractorKind};

#[derive(Serialize)]
struct Tokens {
    tokens: Vec<String>,
}

pub(crate) fn run(args: &AnalyzeArgs, out: &mut Out) -> Outcome<()> {
    let by = match (&args.analyzer, &args.extractor) {
        (Some(name), _) => By::Analyzer(Analyzer::new(name.parse::<AnalyzerKind>()?)),
        (None, Some(name)) if name == "rules" => return Err(Failure::not_yet("the extractor rules (known: compat, none)")),
        (None, name) => By::Extractor(name.as_deref().unwrap_or("none").parse::<ExtractorKind>()?),
    };
    let mut lines = Lines::open(&args.file)?;
    loop {
        let text = match lines.next_line() {
            Ok(None) => return Ok(()),
            Ok(Some(line)) => text(line),
            Err(failure) => Err(failure),
        };
        let text = text.map_err(|f| f.reworded(|m| format!("{}, line {}: {m}", lines.name(), lines.number())))?;
        match &by {
            By::Analyzer(analyzer) => {
                let mut tokens = Vec::new();
                analyzer.tokens(&text, &mut |token: &str| tokens.push(token.to_string()));
                out.object(&Tokens { tokens })?;
            }
            By::Extractor(extractor) => {
                let entities = triune::extract_entities(*extractor, &text);
                let entities = entities.into_iter().map(|(name, mentions)| Entity { name, mentions, variants: 1 });
                out.object(&Entities { entities: entities.collect() })?;
            }
        }
    }
}

/// What a text is analyzed by.
enum By {
    Analyzer(Analyzer),
    Extractor(ExtractorKind),
}

#[derive(Serialize)]
struct Entities {
    entities: Vec<Entity>,
}

/// One spelling of an entity.
#[derive(Serialize)]
struct Entity {
    name: String,
    mentions: u32,
    variants: u32,
}

fn text(line: &str) -> Outcome<String> {
    let fields = Fields::parse(line)?;
    if let Some((key, _)) = fields.0.iter().find(|(key, _)| key != "text") {
        return Err(Failure::invalid(format!("unknown key {key:?}; a line has text")));
    }
    fields.get("text").map_or(Ok(String::new()), |raw| value("text", raw, "a string"))
}
