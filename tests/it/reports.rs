//! Public reports of lost or corrupted data in other engines, each as a test of what it would take here. Where another test already holds it,
//! the table in `docs/fault-model.md` names that one; `table.rs` holds the table against the tests that there are.
//!
//! | file | role |
//! | --- | --- |
//! | `reports.rs` | crashes, failures and files left behind |
//! | `forged.rs` | files whose checksums fit and whose contents do not |
//! | `table.rs` | every report has its line, and every test in it exists |

mod forged;
mod table;

use crate::recovery::model::{Op, State, documents};
use crate::recovery::oracle::{Allowed, options};
use crate::recovery::run::Run;
use crate::recovery::sweep::moments_of;
use crate::recovery::workloads::{self, Step, Workload, small};
use std::sync::Arc;
use triune::io::sim::{FailureKind, Operation, SimDirectory};
use triune::{Database, Document, ErrorCode, Metadata, Options, Schema};

fn writer(disk: &SimDirectory) -> triune::Result<Database> {
    Database::open_with(Arc::new(disk.clone()), options())
}

/// A database that a killed process left, and what it held.
fn killed() -> (SimDirectory, State) {
    let (_, moments) = moments_of(&Workload { steps: some_work(), ..workloads::commits() });
    let last = moments.last().unwrap();
    (last.disk.after_kill(), State::clone(last.progress.states.last().unwrap()))
}

fn some_work() -> Vec<Step> {
    vec![
        Step::Commit(vec![Op::Create("a"), Op::Put("a", documents("x", 3, "s"))]),
        Step::Checkpoint,
        Step::Commit(vec![Op::Put("a", documents("y", 2, "t")), Op::Delete("a", vec!["x0".into()])]),
    ]
}

/// chroma #7090: an index could not be read after a graceful restart once it held more than a threshold.
#[test]
fn a_clean_close_opens_again_at_every_size_around_a_threshold() {
    for size in [0usize, 1, 2, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097] {
        let disk = SimDirectory::new();
        let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
        db.create_collection("a", Schema::default()).unwrap();
        let document = |i: usize| Document::new(format!("d{i}")).text(format!("word{} common", i % 7)).vector(vec![i as f32, 1.0]);
        db.put("a", (0..size).map(document).collect()).unwrap();
        db.close().unwrap();
        let db = writer(&disk).unwrap();
        let a = db.snapshot().collection("a").unwrap();
        assert_eq!((a.count(), a.scan().count()), (size as u64, size));
        let found = a.best_texts("common", None, None, 10_000).unwrap().len();
        let near = if size == 0 { 0 } else { a.nearest(&[1.0, 0.0], None, 10_000).unwrap().len() };
        assert_eq!((found, near, db.recovery().replayed_commits), (size, size, 0));
    }
}

/// lance #8123, rocksdb #4990 (PR 5379): the commit had landed although its caller was told that it failed, and cleaning up after the failure
/// removed files that the landed state named.
#[test]
fn a_publish_that_landed_although_it_was_reported_failed_deletes_nothing() {
    let workload = workloads::checkpoints();
    let (creation, moments) = moments_of(&workload);
    let trace = moments.last().unwrap().disk.trace();
    let (begin, mut cases) = (creation.last().unwrap().disk.operations(), 0);
    let heads = trace.iter().enumerate().skip(begin).filter(|(_, o)| matches!(o, Operation::SyncFile { name } if name == "HEAD"));
    for (n, _) in heads {
        for kind in [FailureKind::Keep, FailureKind::Truthful, FailureKind::Revert] {
            let disk = SimDirectory::new();
            disk.fail(n, kind);
            let run = Run::create(disk.clone(), workload.options.clone()).unwrap();
            for step in &workload.steps {
                run.step(step);
                if !run.take_failures().is_empty() {
                    break;
                }
            }
            let removed = disk.trace()[n..].iter().filter(|o| matches!(o, Operation::Unlink { .. })).count();
            assert_eq!(removed, 0, "{kind:?} at operation {n}: files were removed by a writer that does not know what is durable");
            // The process ends; the next one reads the cache, and after that the power goes.
            let expected = run.probe.progress();
            drop(run);
            for left in [disk.after_kill(), disk.survivors_none(), disk.survivors_all()] {
                let db = writer(&left).unwrap_or_else(|e| panic!("{kind:?} at operation {n}: {e}"));
                let lsn = db.snapshot().lsn().0 as usize;
                assert!(lsn >= expected.synced, "{kind:?} at operation {n}: lsn {lsn} of {}", expected.synced);
                assert_eq!(State::read(&db).unwrap(), *expected.states[lsn]);
            }
            cases += 1;
        }
    }
    assert!(cases > 20, "{cases}");
}

/// lance #6623: a compaction and a second job at the same time left a table on which every call of the index panicked.
#[test]
fn whatever_happens_while_segments_are_merged_every_index_answers() {
    let commit = |ops: Vec<Op>| Step::Commit(ops);
    let meanwhile: Vec<Vec<Step>> = vec![
        vec![Step::Checkpoint],
        vec![commit(vec![Op::Drop("a")])],
        vec![commit(vec![Op::Clear("a")]), Step::Checkpoint],
        vec![commit(vec![Op::Swap("a", "b")]), Step::Checkpoint],
        vec![commit(vec![Op::Rename("a", "c")])],
        vec![commit(vec![Op::DeleteSource("a", "s")]), Step::Checkpoint],
        vec![commit(vec![Op::ReplaceSource("a", "s", documents("n", 3, "s"))]), Step::Sync],
        vec![Step::Checkpoint, commit(vec![Op::Put("a", documents("x", 3, "t"))]), Step::Checkpoint],
    ];
    for steps in meanwhile {
        let begin = [
            commit(vec![Op::Create("a"), Op::Create("b"), Op::Put("a", documents("x", 3, "s"))]),
            Step::Checkpoint,
            commit(vec![Op::Put("a", documents("y", 3, "t"))]),
            Step::Checkpoint,
        ];
        let all = begin.into_iter().chain([Step::MergeWith(steps), Step::Checkpoint, Step::Compact, Step::Reopen]).collect();
        // It reads everything after each step, and holds it against the model.
        let (_, moments) = moments_of(&Workload { name: "meanwhile", options: small(), steps: all });
        assert!(moments.len() > 20);
    }
}

/// redb #1332: a page that pointed to itself ended the process with a stack overflow.
#[test]
fn relations_in_a_circle_end() {
    use triune::{Entity, Relation};
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("a", Schema::default()).unwrap();
    let names: Vec<String> = ["Hub Town".into()].into_iter().chain((1..300).map(|i| format!("Node {i}"))).collect();
    let ring = (0..300).map(|i| Relation::new(&names[i], &names[(i + 1) % 300])).chain([Relation::new("Hub Town", "Hub Town")]);
    let document = Document::new("ring").text("At Hub Town and so on").entities(names.iter().map(Entity::new).collect::<Vec<_>>());
    db.put("a", vec![document.relations(ring.collect::<Vec<_>>())]).unwrap();
    let ask = |db: &Database| {
        let a = db.snapshot().collection("a").unwrap();
        let ranks = a.pagerank(&[("hub town".into(), 1.0)]).unwrap();
        let near = a.nearest_by_graph("where is Hub Town", 2, None, 10).unwrap().len();
        (ranks.len(), a.neighbours("Hub Town").unwrap().len(), near)
    };
    let before = ask(&db);
    assert_eq!(before, (300, 300, 1));
    db.close().unwrap();
    assert_eq!(ask(&writer(&disk).unwrap()), before);
}

/// sled #1527 and #1533, tantivy #3079, qdrant #1735 and #3090: a half-written file that a crash left behind kept the database from opening,
/// and users deleted files by guess.
#[test]
fn files_that_nothing_names_block_nothing_and_are_reported() {
    let (left, state) = killed();
    let names = ["s-000000000000ff01.segments", "d-000000000000ff02.tombstones", "m-000000000000ff03.manifest", "w-000000000000ff04.wal"];
    let like = |name: &str| {
        let kind = name.rsplit_once('.').unwrap().1;
        left.file_names().into_iter().find(|n| n.ends_with(kind)).map(|n| left.read_file(&n).unwrap())
    };
    for name in names {
        // A sound log with records above the active one is not garbage: HEAD would be older than it.
        let whole = like(name).filter(|_| !name.ends_with(".wal"));
        let header = like(name).map(|bytes| bytes[..bytes.len().min(4096)].to_vec());
        let contents = [Some(Vec::new()), Some(vec![0; 4096]), Some(vec![0xa5; 700]), header, whole];
        for bytes in contents.into_iter().flatten() {
            let disk = left.snapshot();
            disk.write_file(name, bytes.clone());
            let seen = triune::inspect::describe_directory(&disk).unwrap();
            let described = seen.files.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("{name} is not described"));
            assert!(described.problem.is_some() || described.fields.iter().any(|(key, _)| key == "orphan"), "{described:?}");
            let db = writer(&disk).unwrap_or_else(|e| panic!("{name} with {} bytes: {e}", bytes.len()));
            assert_eq!(State::read(&db).unwrap(), state);
            db.checkpoint().unwrap();
            db.compact().unwrap();
            assert!(!disk.file_names().contains(&name.to_string()), "{name} goes with the next collection");
        }
    }
}

/// rocksdb #6288: an error while the log was read was taken for its end.
#[test]
fn a_read_error_in_the_log_is_never_its_end() {
    let (left, state) = killed();
    let log = left.file_names().into_iter().rfind(|n| n.ends_with(".wal")).unwrap();
    let len = left.read_file(&log).unwrap().len();
    for offset in (0..len).step_by(512) {
        let disk = left.snapshot();
        disk.fail_reads(&log, offset as u64);
        let before = disk.read_file(&log);
        for opened in [writer(&disk), Database::open_read_only_with(Arc::new(disk.clone()), options())] {
            let e = opened.map(|db| db.snapshot().lsn()).unwrap_err();
            assert_eq!(e.code(), ErrorCode::Io, "sector at {offset}: {e}");
        }
        assert!(disk.read_file(&log) == before && disk.file_names() == left.file_names(), "sector at {offset}: something was changed");
        // The medium answers again.
        disk.write_file(&log, before.unwrap());
        assert_eq!(State::read(&writer(&disk).unwrap()).unwrap(), state);
    }
}

/// qdrant #9857 and #6758, redb #1101: a disk that acknowledged syncs and did not keep them left pointers into nothing, and a loop of panics.
#[test]
fn a_disk_that_lied_about_a_sync_gives_an_error_or_whole_commits_and_never_a_panic() {
    let workload = workloads::mixed();
    let (creation, moments) = moments_of(&workload);
    let trace = moments.last().unwrap().disk.trace();
    let begin = creation.last().unwrap().disk.operations();
    let (mut refused, mut whole) = (0, 0);
    for (n, _) in trace.iter().enumerate().skip(begin).filter(|(_, o)| o.is_sync()) {
        let disk = SimDirectory::new();
        disk.fail(n, FailureKind::Skip);
        let run = Run::create(disk, workload.options.clone()).unwrap();
        workload.steps.iter().for_each(|step| run.step(step));
        let moments = run.probe.take_moments();
        for moment in moments.iter().filter(|m| m.disk.operations() > n).take(12) {
            let states = Allowed::after_power_cut(&moment.progress).states;
            for image in [moment.disk.survivors_none()].into_iter().chain(moment.disk.survivor_images(2)) {
                let opened = writer(&image).map_err(|e| e.to_string());
                match opened.and_then(|db| State::read(&db)) {
                    Ok(found) => {
                        assert!(states.iter().any(|s| **s == found), "without operation {n}: {}", found.outline());
                        whole += 1;
                    }
                    Err(e) => {
                        assert!(e.contains("corrupt: ") || e.contains("not found"), "without operation {n}: {e}");
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(refused > 20 && whole > 100, "{refused} refused, {whole} whole");
}

/// SparrowDB #441: two handles each saved the whole index, and the second save undid the first.
#[test]
fn a_handle_that_lost_its_lock_to_another_process_cannot_exist() {
    let (left, state) = killed();
    let first = writer(&left).unwrap();
    assert_eq!(writer(&left).unwrap_err().code(), ErrorCode::Locked);
    let reader = Database::open_read_only_with(Arc::new(left.clone()), options()).unwrap();
    let refused = reader.put("a", documents("z", 1, "s")).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::ReadOnly, "{refused}");
    drop(first);
    let second = writer(&left).unwrap();
    second.put("a", vec![Document::new("later").text("kept")]).unwrap();
    drop((second, reader));
    let found = writer(&left).unwrap();
    let kept = State::read(&found).unwrap().0["a"].documents.len();
    assert_eq!(kept, state.0["a"].documents.len() + 1);
}

/// bbolt #105 and #701: the checker itself panicked or never ended on a damaged database.
#[test]
fn looking_at_a_damaged_database_ends_with_a_verdict() {
    let (left, _) = killed();
    let names = left.file_names();
    for (i, name) in names.iter().enumerate().filter(|(_, name)| *name != "BALLAST") {
        let bytes = left.read_file(name).unwrap();
        for at in (i % 7..bytes.len()).step_by(37) {
            let damaged = left.snapshot();
            let mut changed = bytes.clone();
            changed[at] ^= 0x41;
            damaged.write_file(name, changed);
            let seen = triune::inspect::describe_directory(&damaged).unwrap();
            assert!(seen.files.len() >= names.len(), "{name} byte {at}");
            let checked = triune::inspect::fsck_directory(&damaged, &triune::inspect::FsckOptions::level(2));
            let refused = checked.as_ref().err().map(triune::Error::code);
            assert!(matches!(refused, None | Some(ErrorCode::UnsupportedVersion | ErrorCode::NotFound)), "{name} byte {at}: {refused:?}");
        }
        let gone = left.snapshot();
        gone.remove_file(name);
        assert!(!triune::inspect::describe_directory(&gone).unwrap().files.is_empty());
    }
}

/// fjall #68: what was written after a recovery went to a log under a wrong name, and was lost at the next open.
#[test]
fn what_is_written_after_a_recovery_is_there_after_the_next_ones() {
    let (disk, mut state) = killed();
    for round in ["p", "q", "r", "s"] {
        let db = writer(&disk).unwrap();
        assert_eq!(State::read(&db).unwrap(), state, "{round}");
        let batch = vec![Op::Put("a", documents(round, 2, "s"))];
        state.apply(&batch).unwrap();
        db.commit(crate::recovery::model::batch_of(&batch)).unwrap();
    }
    let after = disk.survivors_none();
    assert_eq!(State::read(&writer(&after).unwrap()).unwrap(), state);
}

/// influxdb #24508, FirebirdSQL #8048: a file that was shorter than it had to be was mapped, and the process ended with SIGBUS.
#[test]
fn a_file_shorter_than_it_has_to_be_is_never_mapped() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("db");
    let db = Database::create(&path).unwrap();
    db.create_collection("a", Schema::default()).unwrap();
    let noise = Metadata::from_json(format!(r#"{{"n":"{}"}}"#, "x1".repeat(3000))).unwrap();
    db.put("a", (0..50).map(|i| Document::new(format!("d{i}")).text("common words").metadata(noise.clone())).collect()).unwrap();
    db.close().unwrap();
    let segments = std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()).find(|p| p.extension().is_some_and(|e| e == "segments"));
    let segments = segments.unwrap();
    let len = std::fs::metadata(&segments).unwrap().len();
    for cut in [len - 1, len / 2, 4096, 64, 1, 0] {
        let file = std::fs::OpenOptions::new().write(true).open(&segments).unwrap();
        file.set_len(cut).unwrap();
        for io_mode in [triune::IoMode::Mmap, triune::IoMode::Pread] {
            let dir = Arc::new(triune::io::FsDirectory::open(&path).unwrap());
            let answer = Database::open_read_only_with(dir, Options { io_mode, ..options() })
                .and_then(|db| db.snapshot().collection("a")?.scan().collect::<Result<Vec<_>, _>>());
            assert_eq!(answer.unwrap_err().code(), ErrorCode::Corrupt, "{cut} bytes, {io_mode:?}");
        }
    }
}
