//! Damage: whatever happens to one file of a small database, opening and every question after it give an error that says where the damage
//! is, or the exact answer. Never a panic, an empty store or a wrong answer.
//!
//! `cargo test` tries a sample with a fixed stride; `TRIUNE_SWEEP=full` tries everything and prints the counts (minutes).
//!
//! | file | role |
//! | --- | --- |
//! | `answers.rs` | questions, and the answers to compare |
//! | `fixture.rs` | the databases: closed cleanly, and killed |
//! | `mutation.rs` | what may happen to a file |
//! | `judge.rs` | opens, asks, counts |

mod answers;
mod fixture;
mod judge;
mod mutation;

use fixture::{Closed, closed, killed};
use judge::{Outcome, Reference, Report, WAYS, Written, judge, judge_creating, judge_writing, sweep};
use mutation::{Mutation, alone, replacements, swaps};
use triune::io::SimDirectory;
use triune::io::names::FileName;

fn whole() -> bool {
    std::env::var("TRIUNE_SWEEP").is_ok_and(|v| v == "full")
}

/// Every `stride`th, or all in a whole sweep.
fn sample(all: Vec<Mutation>, stride: usize) -> Vec<Mutation> {
    if whole() { all } else { all.into_iter().step_by(stride).collect() }
}

#[allow(clippy::print_stderr, reason = "a whole sweep reports what it counted")]
fn conclude(name: &str, report: &Report) {
    if whole() {
        eprintln!("{name}: {} cases", report.cases);
        report.counts.iter().for_each(|((what, outcome), n)| eprintln!("  {what}: {outcome:?} {n}"));
    }
    assert!(report.failures.is_empty(), "{name}: {} failures\n{}", report.failures.len(), report.failures.join("\n"));
    assert!(report.cases > 0);
}

/// What a file is, for counting.
fn kind_of(mutation: &Mutation) -> String {
    let file = mutation.to_string().split(' ').next().unwrap().to_string();
    match FileName::parse(&file) {
        Some(FileName::Manifest(_)) => "manifest".into(),
        Some(FileName::Wal(_)) => "log".into(),
        Some(FileName::Segments(_)) => "segments".into(),
        Some(FileName::Tombstones(_)) => "tombstones".into(),
        None => file,
    }
}

/// Judges a damage in every way of opening (in a sample, in one of them by turns), and now and then the writing and creating after it.
fn case(index: usize, mutation: &Mutation, image: &SimDirectory, references: &Written) -> Result<Vec<(String, Outcome)>, String> {
    let Some(damaged) = mutation.apply(image) else { return Ok(Vec::new()) };
    let rare = !matches!(mutation, Mutation::Byte { .. } | Mutation::Truncate { .. });
    let mut outcomes = Vec::new();
    for (turn, way) in WAYS.into_iter().enumerate() {
        if whole() || rare || index % WAYS.len() == turn {
            let outcome = judge(&damaged, way, &references.before, mutation, image).map_err(|why| format!("{way:?}: {why}"))?;
            outcomes.push((format!("{}, {}, {:?}", kind_of(mutation), mutation.kind(), way.0), outcome));
        }
    }
    if rare || index.is_multiple_of(7) {
        judge_writing(&damaged, references, mutation, image)?;
        judge_creating(&damaged)?;
    }
    Ok(outcomes)
}

#[test]
fn the_fixture_has_what_damage_can_hit() {
    let Closed { image, earlier } = closed();
    let list: Vec<String> = image.file_names().iter().map(|n| format!("{n} {}", image.read_file(n).unwrap().len())).collect();
    let count = |kind: &str| image.file_names().iter().filter(|n| n.ends_with(kind)).count();
    assert!(count(".segments") >= 3 && count(".tombstones") >= 1 && count(".manifest") == 1 && count(".wal") == 1, "{list:#?}");
    assert_eq!(earlier.len(), 2);
    let db = fixture::open(&image.snapshot());
    assert_eq!(db.recovery().replayed_commits, 0, "it was closed cleanly");
    let stats: Vec<_> =
        db.snapshot().collections().iter().map(|n| (n.clone(), db.snapshot().collection(n).unwrap().stats().unwrap())).collect();
    assert!(stats.iter().any(|(_, s)| s.segments >= 3), "{list:#?} {stats:#?}");
    assert!(stats.iter().any(|(_, s)| s.documents == 0 && s.segments == 0), "{stats:#?}");
    let reference = Reference::of(&image);
    assert!(reference.questions.len() > 150, "{}", reference.questions.len());
}

#[test]
fn damage_to_one_file_of_a_closed_database_is_located_or_harmless() {
    let Closed { image, .. } = closed();
    let references = Written::of(&image);
    let all = image.file_names().iter().flat_map(|file| alone(&image, file)).collect();
    let mutations = sample(all, 37);
    conclude("closed database, one file damaged", &sweep(&mutations, |index, m| case(index, m, &image, &references)));
}

#[test]
fn swapped_and_stale_and_foreign_files_are_located_or_harmless() {
    let Closed { image, earlier } = closed();
    let references = Written::of(&image);
    let mut mutations = swaps(&image);
    for (by, older) in &earlier {
        mutations.extend(replacements(&image, older, by));
    }
    mutations.extend(replacements(&image, &closed().image, "the same file of a twin"));
    conclude("closed database, files swapped or replaced", &sweep(&mutations, |index, m| case(index, m, &image, &references)));
}
