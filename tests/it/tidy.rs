//! The house rules that a machine can check. Each check takes files and returns complaints, so that a test can hand it a file that breaks
//! the rule; the layer table has a module of its own.

use crate::source::{self, SourceFile, Token, closing, files, lex, matches_at, without_test_modules, word_at};
use std::collections::BTreeSet;

/// Lines a file may have; files of unit tests may have more.
const FILE_LINES_MAX: usize = 500;
const TEST_FILE_LINES_MAX: usize = 900;

fn assert_clean(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

fn code_of(file: &SourceFile) -> Vec<source::Spanned> {
    if file.is_tests() { Vec::new() } else { without_test_modules(lex(&file.text)) }
}

/// Files, maps and sockets: `std::fs` and `memmap2` belong to `src/io`, and `std::net` to nobody.
fn doors_outside_io(sources: &[SourceFile]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in sources {
        let tokens = code_of(file);
        for (i, (_, line)) in tokens.iter().enumerate() {
            let std_names: Vec<&str> = if !matches_at(&tokens, i, &["std", ":", ":"]) {
                Vec::new()
            } else if matches_at(&tokens, i + 3, &["{"]) {
                (i + 4..closing(&tokens, i + 3))
                    .filter(|k| !matches_at(&tokens, k - 1, &[":"]))
                    .filter_map(|k| word_at(&tokens, k))
                    .collect()
            } else {
                word_at(&tokens, i + 3).into_iter().collect()
            };
            let in_io = file.path.starts_with("src/io/");
            if !in_io && (std_names.contains(&"fs") || matches_at(&tokens, i, &["memmap2"])) {
                complaints.push(format!("{}:{line}: files are opened in src/io only; take a `Directory`", file.path));
            }
            if std_names.contains(&"net") {
                complaints.push(format!("{}:{line}: the library opens no socket", file.path));
            }
        }
    }
    complaints
}

/// `unsafe` has two addresses: the map of a file, and the vector kernels.
fn unsafe_outside_its_places(sources: &[SourceFile]) -> Vec<String> {
    let allowed = |path: &str| path == "src/io/mmap.rs" || path.starts_with("src/vector/kernel");
    let offends = |file: &SourceFile| {
        lex(&file.text)
            .iter()
            .filter(|(token, _)| *token == Token::Word("unsafe".into()))
            .map(|(_, line)| format!("{}:{line}: unsafe code belongs to src/io/mmap.rs and src/vector/kernel*.rs", file.path))
            .collect::<Vec<_>>()
    };
    sources.iter().filter(|f| !allowed(&f.path)).flat_map(offends).collect()
}

/// Every file opens with its purpose, and fits its room.
fn headers_and_sizes(sources: &[SourceFile]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in sources {
        if !file.text.starts_with("//! ") {
            complaints.push(format!("{}:1: opens without a `//!` line that says what it is for", file.path));
        }
        let limit = if file.is_tests() { TEST_FILE_LINES_MAX } else { FILE_LINES_MAX };
        let lines = file.text.lines().count();
        if lines > limit {
            complaints.push(format!("{}: {lines} lines; at most {limit}", file.path));
        }
    }
    complaints
}

/// Words that mark unfinished work. Spelled in halves, so that this file does not find itself.
fn leftovers(sources: &[SourceFile]) -> Vec<String> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("for ", "now"), concat!("place", "holder")];
    let mut complaints = Vec::new();
    for file in sources {
        for (number, line) in file.text.lines().enumerate() {
            for mark in marks.iter().filter(|m| contains_word(line, m)) {
                complaints.push(format!("{}:{}: says {mark:?}; finish it or leave it out", file.path, number + 1));
            }
        }
    }
    complaints
}

/// Upper-case marks stand alone as written; others match in any case.
fn contains_word(line: &str, word: &str) -> bool {
    let lowered = line.to_lowercase();
    let line = if word.chars().any(char::is_lowercase) { &lowered } else { line };
    line.match_indices(word).any(|(at, _)| {
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_word(line[..at].chars().next_back()) && !is_word(line[at + word.len()..].chars().next())
    })
}

/// Relative links of Markdown pages lead to a file, and to a heading of it where they name one.
fn broken_links(pages: &[SourceFile], exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut complaints = Vec::new();
    for page in pages {
        let mut in_fence = false;
        for (number, line) in page.text.lines().enumerate() {
            in_fence ^= line.trim_start().starts_with("```");
            for target in link_targets(line).into_iter().filter(|_| !in_fence) {
                if target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                let to = if path.is_empty() { page.path.clone() } else { resolve(&page.path, path) };
                let place = format!("{}:{}: link to {target:?}", page.path, number + 1);
                if !exists(&to) {
                    complaints.push(format!("{place} leads nowhere"));
                } else if let Some(other) = pages.iter().find(|p| p.path == to)
                    && !anchor.is_empty()
                    && !headings(&other.text).contains(anchor)
                {
                    complaints.push(format!("{place}: that page has no such heading"));
                }
            }
        }
    }
    complaints
}

/// Files and folders that a page names in code marks are there.
fn missing_paths(pages: &[SourceFile], exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut complaints = Vec::new();
    for page in pages {
        for (number, line) in page.text.lines().enumerate() {
            let named = line.split('`').skip(1).step_by(2).filter(|name| {
                ["src/", "tools/", "tests/", "docs/", "demo/"].iter().any(|folder| name.starts_with(folder))
                    && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c))
            });
            for name in named.filter(|name| !exists(name.trim_end_matches('/'))) {
                complaints.push(format!("{}:{}: names `{name}`, which is not there", page.path, number + 1));
            }
        }
    }
    complaints
}

/// The targets of `[text](target)` in a line, outside of code spans.
fn link_targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for (index, prose) in line.split('`').enumerate() {
        if index % 2 == 0 {
            targets.extend(prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
        } else if let Some(rest) = line.split('`').nth(index + 1).and_then(|after| after.strip_prefix("](")) {
            targets.extend(rest.split(')').next());
        }
    }
    targets.sort_unstable();
    targets.dedup();
    targets
}

fn resolve(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for step in path.trim_end_matches('/').split('/') {
        match step {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// The anchors of a page's headings: lower case, spaces as hyphens, punctuation dropped.
fn headings(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim().to_lowercase())
        .map(|title| title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect())
        .collect()
}

/// Every guarantee of the README stands, word for word, in the table of `docs/testing.md` beside tests that exist.
fn guarantees_without_a_test(readme: &str, testing: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let section = |text: &str, heading: &str| -> String {
        text.lines().skip_while(|l| *l != heading).skip(1).take_while(|l| !l.starts_with("## ")).map(|l| format!("{l}\n")).collect()
    };
    let promised: Vec<String> = section(readme, "## Guarantees")
        .split("\n- ")
        .skip(1)
        .map(|item| item.split("\n\n").next().unwrap_or(item).split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let rows: Vec<(String, String)> = section(testing, "## Guarantees")
        .lines()
        .filter(|l| l.starts_with("| ") && !l.starts_with("| ---") && !l.starts_with("| guarantee"))
        .filter_map(|l| l.trim_matches('|').rsplit_once(" | ").map(|(a, b)| (a.trim().to_string(), b.trim().to_string())))
        .collect();
    let mut complaints = Vec::new();
    if promised.is_empty() {
        complaints.push("README.md: no list under `## Guarantees`".to_string());
    }
    for promise in &promised {
        if !rows.iter().any(|(guarantee, _)| guarantee == promise) {
            complaints.push(format!("docs/testing.md: no row for the guarantee {promise:?}"));
        }
    }
    for (guarantee, names) in &rows {
        if !promised.contains(guarantee) {
            complaints.push(format!("README.md: does not give the guarantee {guarantee:?} of docs/testing.md"));
        }
        for name in names.split(',').map(|n| n.trim().trim_matches('`')) {
            if !tests.contains(name) {
                complaints.push(format!("docs/testing.md: there is no test `{name}` for {guarantee:?}"));
            }
        }
    }
    complaints
}

/// The names of all functions marked `#[test]`, and of the tests that `proptest!` makes.
fn test_names(sources: &[SourceFile]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in sources {
        let tokens = lex(&file.text);
        for i in (0..tokens.len()).filter(|i| matches_at(&tokens, *i, &["#", "[", "test", "]"])) {
            let function = (i..tokens.len()).find(|k| matches_at(&tokens, *k, &["fn"]));
            names.extend(function.and_then(|k| word_at(&tokens, k + 1)).map(String::from));
        }
    }
    names
}

#[test]
fn files_are_opened_in_io_only() {
    assert_clean(&doors_outside_io(&files("src", ".rs")));
    let bad = |text: &str| doors_outside_io(&[SourceFile::new("src/wal/mod.rs", text)]).len();
    assert_eq!(bad("fn f() { std::fs::remove_file(p) }"), 1);
    assert_eq!(bad("use std::{fmt, fs};"), 1);
    assert_eq!(bad("use memmap2::Mmap;"), 1);
    assert_eq!(bad("use std::net::TcpStream;"), 1);
    assert_eq!(bad("use std::{fmt, io};\n// std::fs\nmod tests { use std::fs; }"), 0);
}

#[test]
fn unsafe_code_has_two_addresses() {
    assert_clean(&unsafe_outside_its_places(&files("src", ".rs")));
    let bad = |path: &str| unsafe_outside_its_places(&[SourceFile::new(path, "fn f() { unsafe { g() } }")]).len();
    assert_eq!((bad("src/wal/mod.rs"), bad("src/io/fs.rs"), bad("src/io/mmap.rs"), bad("src/vector/kernel_avx2.rs")), (1, 1, 0, 0));
}

#[test]
fn every_file_says_what_it_is_for_and_fits_its_room() {
    let sources: Vec<SourceFile> = ["src", "tools/src", "tests/it", "benches/src"].iter().flat_map(|f| files(f, ".rs")).collect();
    assert_clean(&headers_and_sizes(&sources));
    let bad = |path: &str, text: &str| headers_and_sizes(&[SourceFile::new(path, text)]).len();
    assert_eq!(bad("src/x.rs", "use std::fmt;\n"), 1);
    assert_eq!(bad("src/x.rs", &format!("//! Purpose.\n{}", "\n".repeat(FILE_LINES_MAX))), 1);
    assert_eq!(bad("src/x/tests.rs", &format!("//! Purpose.\n{}", "\n".repeat(FILE_LINES_MAX))), 0);
}

#[test]
fn nothing_is_left_unfinished() {
    let sources: Vec<SourceFile> = ["src", "tools/src"].iter().flat_map(|f| files(f, ".rs")).collect();
    assert_clean(&leftovers(&sources));
    let bad = |text: &str| leftovers(&[SourceFile::new("src/x.rs", text)]).len();
    assert_eq!(bad(concat!("// TO", "DO: later\n// For ", "now it is slow")), 2);
    assert_eq!(bad("// for nowhere, todo"), 0);
}

#[test]
fn every_relative_link_leads_somewhere() {
    assert_clean(&broken_links(&files("", ".md"), &|path| source::root().join(path).exists()));
    let bad = |text: &str| broken_links(&[SourceFile::new("docs/a.md", text)], &|path| ["docs/a.md", "README.md"].contains(&path)).len();
    assert_eq!(bad("# A b\n[x](gone.md) [y](../README.md) [z](#a-b) [w](https://example.org/gone) `[v](gone.md)`"), 1);
    assert_eq!(bad("# A b\n[x](#c) and [`code`](gone.rs)"), 2);
}

#[test]
fn every_path_that_a_page_names_is_there() {
    assert_clean(&missing_paths(&files("", ".md"), &|path| source::root().join(path).exists()));
    let bad = |text: &str| missing_paths(&[SourceFile::new("a.md", text)], &|path| path == "src/io").len();
    assert_eq!(bad("`src/io/`, `src/gone.rs`, `src/vector/kernel*.rs`, src/gone.rs, `docs/x/NNNN-title.md`"), 1);
}

#[test]
fn every_guarantee_has_a_test_of_its_name() {
    let all: Vec<SourceFile> = ["src", "tests", "tools"].iter().flat_map(|f| files(f, ".rs")).collect();
    let (readme, testing) = (source::read("README.md").text, source::read("docs/testing.md").text);
    assert_clean(&guarantees_without_a_test(&readme, &testing, &test_names(&all)));
    let tests = test_names(&[SourceFile::new("tests/x.rs", "#[test]\n#[cfg(unix)]\nfn it_holds() {}\nfn helper() {}")]);
    let table = |name: &str| format!("## Guarantees\n| guarantee | test |\n| --- | --- |\n| It holds **always**. | `{name}` |\n");
    let bad = |readme: &str, name: &str| guarantees_without_a_test(readme, &table(name), &tests).len();
    assert_eq!(bad("## Guarantees\n\n- It holds\n  **always**.\n\n## Next", "it_holds"), 0);
    assert_eq!(bad("## Guarantees\n\n- It holds\n  **always**.\n\n## Next", "helper"), 1);
    assert_eq!(bad("## Guarantees\n\n- It may hold.\n", "it_holds"), 2);
    assert_eq!(bad("", "it_holds"), 2);
}
