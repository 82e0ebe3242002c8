//! The layer table: a module imports from lower floors only, and modules on one floor do not know each other.
//!
//! One crate cannot make the compiler enforce this, so the table is here and every path that starts at `crate` or climbs there by `super`
//! is held against it. Test files and `mod tests` blocks may look anywhere.

use crate::source::{SourceFile, Spanned, Token, closing, files, lex, matches_at, without_test_modules, word_at};
use std::collections::BTreeMap;

/// Module of `src/`, floor. Floors are in tenths, so that a half floor is an integer.
const FLOORS: &[(&str, u32)] = &[
    ("error", 0),
    ("ids", 0),
    ("options", 0),
    ("progress", 0),
    ("models", 0),
    ("document", 0),
    ("filter", 0),
    ("ranking", 0),
    ("unicode", 0),
    ("workers", 0),
    ("format", 10),
    ("io", 20),
    ("wal", 30),
    ("manifest", 30),
    ("segment", 40),
    ("vector", 50),
    ("text", 50),
    ("graph", 50),
    ("docstore", 50),
    ("metadata", 50),
    ("tombstones", 50),
    ("memtable", 55),
    ("engine", 60),
    ("inspect", 60),
    ("retrieval", 70),
    ("connections", 70),
    ("maintenance", 70),
];

/// Pairs that the floors would allow and the design does not: `retrieval` sees snapshots, never what lies below them.
const STRANGERS: &[(&str, &[&str])] =
    &[("retrieval", &["io", "format", "segment", "wal", "manifest", "docstore", "tombstones", "inspect"])];

/// Checks every import of `sources` (files below `src/`) and returns the offending edges, one line each.
fn check(sources: &[SourceFile]) -> Vec<String> {
    let floors: BTreeMap<&str, u32> = FLOORS.iter().copied().collect();
    let mut offences = Vec::new();
    for file in sources.iter().filter(|f| !f.is_tests() && f.path != "src/lib.rs") {
        let home = module_path(&file.path);
        let from = home[0].clone();
        let Some(floor) = floors.get(from.as_str()) else {
            offences.push(format!("{}: module `{from}` has no floor in tests/it/layers.rs", file.path));
            continue;
        };
        for (to, line) in imports(&without_test_modules(lex(&file.text)), &home) {
            let place = format!("{}:{line}: `{from}` imports `{to}`", file.path);
            match floors.get(to.as_str()) {
                _ if to == from => {}
                None => offences.push(format!("{place}: import it from the module that defines it, not through lib.rs")),
                Some(other) if other > floor => offences.push(format!("{place}, which is a floor above")),
                Some(other) if other == floor && *floor > 0 => offences.push(format!("{place}, which is on the same floor")),
                Some(_) if STRANGERS.iter().any(|(a, bs)| *a == from && bs.contains(&to.as_str())) => {
                    offences.push(format!("{place}, which it must not see"));
                }
                Some(_) => {}
            }
        }
    }
    offences
}

/// `src/text/bm25.rs` -> `text`, `bm25`.
fn module_path(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    inner.split('/').map(String::from).collect()
}

/// The top-level modules (or names of lib.rs) that the paths in `tokens` reach, with their lines. `home` is the module the tokens are in.
fn imports(tokens: &[Spanned], home: &[String]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    // Where each inline module that is open now ends: inside it, `super` is one step shorter.
    let mut inline_ends: Vec<usize> = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        inline_ends.retain(|end| i < *end);
        if matches_at(tokens, i, &["mod"]) && matches_at(tokens, i + 2, &["{"]) {
            inline_ends.push(closing(tokens, i + 2));
        }
        let starts_path = matches!(word_at(tokens, i), Some("crate" | "super")) && (i < 2 || !matches_at(tokens, i - 1, &[":"]));
        if !starts_path {
            i += 1;
            continue;
        }
        let line = tokens[i].1;
        let mut depth = home.len() + inline_ends.len();
        while let Some(word @ ("crate" | "super" | "self")) = word_at(tokens, i) {
            depth = match word {
                "crate" => 0,
                "super" => depth.saturating_sub(1),
                _ => depth,
            };
            i += 1;
            if !matches_at(tokens, i, &[":", ":"]) {
                break;
            }
            i += 2;
        }
        if depth == 0 {
            found.extend(first_names(tokens, i).into_iter().map(|name| (name, line)));
        }
    }
    found
}

/// The names that follow `crate::`: one, or one for each member of a `{...}` list. A glob is the name `*`.
fn first_names(tokens: &[Spanned], i: usize) -> Vec<String> {
    match tokens.get(i) {
        Some((Token::Word(word), _)) if word != "in" => vec![word.clone()],
        Some((Token::Punct('*'), _)) => vec!["*".into()],
        Some((Token::Punct('{'), _)) => {
            let end = closing(tokens, i) - 1;
            let (mut names, mut k) = (Vec::new(), i + 1);
            while k < end {
                names.extend(first_names(tokens, k));
                while k < end && !matches_at(tokens, k, &[","]) {
                    k = if matches_at(tokens, k, &["{"]) { closing(tokens, k) } else { k + 1 };
                }
                k += 1;
            }
            names
        }
        _ => Vec::new(),
    }
}

#[test]
fn imports_point_down() {
    let sources = files("src", ".rs");
    assert!(sources.len() > 10, "src/ was not found");
    let offences = check(&sources);
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn the_layer_check_finds_every_way_up() {
    let offence_in = |path: &str, text: &str| check(&[SourceFile::new(path, text)]).join("\n");
    let up = [
        ("src/format/wal.rs", "use crate::engine::Database;", "src/format/wal.rs:1: `format` imports `engine`"),
        ("src/format/wal.rs", "\n\nfn f() { crate::io::names::parse() }", "src/format/wal.rs:3: `format` imports `io`"),
        ("src/io/fs.rs", "use super::super::wal::WalWriter;", "`io` imports `wal`"),
        ("src/io/fs.rs", "mod inner { use super::super::super::wal::WalWriter; }", "`io` imports `wal`"),
        ("src/text/mod.rs", "use crate::{ids::Seq, error::{Error, Result}, vector::Kernel};", "`text` imports `vector`"),
        ("src/wal/mod.rs", "use crate::manifest::read_head;", "on the same floor"),
        ("src/inspect/mod.rs", "use crate::engine::Database;", "on the same floor"),
        ("src/retrieval/hybrid.rs", "use crate::segment::Section;", "must not see"),
        ("src/engine/mod.rs", "use crate::Error;", "not through lib.rs"),
        ("src/engine/mod.rs", "use crate::*;", "not through lib.rs"),
        ("src/cellar/mod.rs", "", "module `cellar` has no floor"),
    ];
    for (path, text, expected) in up {
        let found = offence_in(path, text);
        assert!(found.contains(expected), "{text:?} in {path} gave {found:?}");
    }
    let down = [
        ("src/engine/mod.rs", "use crate::{ids::Seq, wal::WalWriter, memtable::Memtable};"),
        ("src/memtable/mod.rs", "use crate::text::Analyzer;"),
        ("src/document.rs", "use crate::error::Error;"),
        ("src/io/fs.rs", "use super::Directory; mod inner { use super::super::File; } pub(in crate::io) fn f() {}"),
        ("src/io/fs.rs", "//! See [`crate::engine`].\nconst S: &str = \"crate::engine\"; mod tests { use crate::engine::Database; }"),
        ("src/io/tests.rs", "use crate::engine::Database;"),
    ];
    for (path, text) in down {
        assert_eq!(offence_in(path, text), "", "{text:?} in {path}");
    }
}
