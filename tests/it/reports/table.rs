//! The tables of public reports in `docs/fault-model.md` and `docs/testing.md`: every report has a line, and every test that a line names exists.

use crate::source::files;
use std::collections::BTreeSet;
use std::path::Path;

/// The reports, by number.
const REPORTS: usize = 30;

/// The first report of each line about vector indexes.
const VECTOR_REPORTS: [&str; 20] = [
    "hnswlib #608",
    "hnswlib #309",
    "hnswlib #352",
    "USearch #735",
    "qdrant PR 10239",
    "GrafeoDB #391",
    "lucene #12627",
    "lucene #16552",
    "hannoy #52",
    "MemPalace #1716",
    "matrixone #29082",
    "lance #7352",
    "lucene #13519",
    "USearch #447",
    "qdrant #3094",
    "opensearch k-NN #1003",
    "chroma #7510",
    "yugabyte #32319",
    "USearch #770",
    "pgvector PR 1010",
];

/// The rows under the heading, as cells.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let after = page.split(&format!("\n## {heading}\n")).nth(1).expect("the page has the section");
    let section = after.split("\n## ").next().unwrap_or(after);
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    rows.skip(1).map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_string()).collect()).collect()
}

/// Names in code marks that look like a test's.
fn tests_in(cell: &str) -> Vec<&str> {
    let marked = cell.split('`').skip(1).step_by(2);
    marked.filter(|name| name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')).collect()
}

/// What is wrong with the table of vector indexes.
fn vector_complaints(page: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let rows = rows(page, "Public reports of vector indexes");
    let mut found = Vec::new();
    for report in VECTOR_REPORTS {
        // As a cell names it, and not as the beginning of a longer number.
        let named = |cell: &String| {
            let after = cell.match_indices(report).map(|(at, _)| cell[at + report.len()..].chars().next());
            after.into_iter().any(|next| next.is_none_or(|c| !c.is_ascii_digit()))
        };
        if rows.iter().filter(|row| named(&row[0])).count() != 1 {
            found.push(format!("{report} does not stand in one line"));
        }
    }
    for row in &rows {
        if row.len() != 3 {
            found.push(format!("a line has {} cells: {row:?}", row.len()));
            continue;
        }
        let named = tests_in(&row[2]);
        if named.is_empty() {
            found.push(format!("{} names no test", row[0]));
        }
        found.extend(named.iter().filter(|name| !tests.contains(**name)).map(|name| format!("{}: there is no test {name}", row[0])));
    }
    found
}

/// What is wrong with the table.
fn complaints(page: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let rows = rows(page, "Public reports");
    let mut found = Vec::new();
    for number in 1..=REPORTS {
        if !rows.iter().any(|row| row[0] == number.to_string()) {
            found.push(format!("report {number} has no line"));
        }
    }
    for row in &rows {
        if row.len() != 4 {
            found.push(format!("a line has {} cells: {row:?}", row.len()));
            continue;
        }
        let named = tests_in(&row[3]);
        if named.is_empty() && !row[3].starts_with("cannot happen: ") {
            found.push(format!("report {} names neither a test nor a reason", row[0]));
        }
        found.extend(named.iter().filter(|name| !tests.contains(**name)).map(|name| format!("report {}: there is no test {name}", row[0])));
    }
    found
}

/// The names of all functions that follow a `#[test]`.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in ["src", "tests", "tools"].iter().flat_map(|folder| files(folder, "rs")) {
        for after in file.text.split("#[test]").skip(1) {
            let name = after.split("fn ").nth(1).and_then(|rest| rest.split('(').next());
            names.extend(name.map(String::from));
        }
    }
    names
}

#[test]
fn every_public_report_ends_in_a_test_or_a_reason() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fault-model.md")).unwrap();
    let found = complaints(&page, &tests());
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn every_public_report_of_a_vector_index_names_tests_that_there_are() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/testing.md")).unwrap();
    let found = vector_complaints(&page, &tests());
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn a_line_without_a_test_or_with_one_that_is_not_there_is_seen() {
    let page = "\n## Public reports\n\n| # | report | what happened | held by |\n| --- | --- | --- | --- |\n| 1 | a | b | `no_such_test` |\n| 2 | a | b | c |\n";
    let found = complaints(page, &BTreeSet::from(["another_test".into()]));
    assert_eq!(found.len(), REPORTS - 2 + 2, "{found:?}");
    assert!(
        found.contains(&"report 1: there is no test no_such_test".into())
            && found.contains(&"report 2 names neither a test nor a reason".into())
    );
}

#[test]
fn a_report_of_a_vector_index_without_a_line_or_with_a_test_that_is_not_there_is_seen() {
    let page = "\n## Public reports of vector indexes\n\n| report | what happened | held here by |\n| --- | --- | --- |\n\
        | hnswlib #608, #321 | a | `no_such_test` |\n| hnswlib #3090 | a | b |\n";
    let found = vector_complaints(page, &BTreeSet::from(["another_test".into()]));
    assert_eq!(found.len(), VECTOR_REPORTS.len() - 1 + 2, "{found:?}");
    for wanted in
        ["hnswlib #608, #321: there is no test no_such_test", "hnswlib #3090 names no test", "hnswlib #309 does not stand in one line"]
    {
        assert!(found.contains(&wanted.into()), "{found:?}");
    }
}
