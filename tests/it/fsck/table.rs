//! The codes in `docs/fsck.md` are those of the program, with the same severity, level and meaning.

use triune::inspect::FindingCode;

#[test]
fn the_documented_codes_are_those_of_the_program() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/fsck.md")).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| `") && line.matches('|').count() == 7)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let documented: Vec<(String, &str, String, &str)> =
        rows.iter().map(|row| (row[0].trim_matches('`').to_string(), row[1], row[2].to_string(), row[3])).collect();
    let known: Vec<(String, &str, String, &str)> = FindingCode::ALL
        .iter()
        .map(|code| (code.as_str().to_string(), code.severity().as_str(), code.level().to_string(), code.meaning()))
        .collect();
    assert_eq!(documented, known);
    for row in rows {
        assert!(!row[4].is_empty() && !row[5].is_empty(), "{row:?} says what is lost and what to do");
    }
    let mut names: Vec<&str> = FindingCode::ALL.iter().map(|code| code.as_str()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|w| w[0] != w[1]), "a code stands twice");
}
