//! One writer, which is killed and started again, and other processes that read meanwhile: every moment they see is whole, none goes back,
//! nobody waits for anybody, and nothing is left over.
//!
//! Each document holds units; every commit moves some between two documents, so that their sum never changes.

use crate::support::{Random, checked, nothing_left_over, run, size, triune};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use triune::{Database, Document, Filter, Generation, Lsn, Metadata, Mode, Search, Snapshot};

const DOCUMENTS: u64 = 24;
const UNITS: i64 = 100;
const READERS: usize = 4;

/// Tells a reading process which database to read; its end comes with a file of this name and `.stop`.
const READ: &str = "TRIUNE_REAL_READ";

fn document(id: u64, units: i64) -> Document {
    Document::new(format!("d{id}"))
        .text(format!("document {id} has {units} units of Paris"))
        .metadata(Metadata::from_json(format!(r#"{{"units":{units}}}"#)).unwrap())
        .vector(vec![units as f32, 1.0])
}

fn line(id: u64, units: i64) -> String {
    let d = document(id, units);
    format!("{}\n", serde_json::json!({"id": d.id, "text": d.text, "metadata": {"units": units}, "vector": d.vector}))
}

/// The units by document. Panics unless everything of one moment agrees with everything else of it.
fn units(snapshot: &Snapshot) -> Vec<i64> {
    let collection = snapshot.collection("main").unwrap();
    let mut units = vec![0; DOCUMENTS as usize];
    let mut count = 0;
    for item in collection.scan().with_vectors(true) {
        let d = item.unwrap().1;
        let id: u64 = d.id[1..].parse().unwrap();
        let of_it = d.metadata.unwrap().to_object()["units"].as_i64().unwrap();
        let wanted = document(id, of_it);
        assert!(*d.text == wanted.text && d.vector.as_deref() == wanted.vector.as_deref(), "{} is not whole", d.id);
        units[id as usize] = of_it;
        count += 1;
    }
    let rich = Filter::parse(&format!(r#"{{"units":{{"$gt":{UNITS}}}}}"#)).unwrap();
    let searched = collection
        .search(&Search {
            query: Some("Paris".into()),
            vector: Some(vec![0.0, 1.0]),
            mode: Mode::Hybrid,
            k: 1000,
            bodies: false,
            ..Search::default()
        })
        .unwrap();
    let counts = [count, collection.count(), searched.hits.len() as u64, collection.entity("paris").unwrap().unwrap().documents];
    assert_eq!(counts, [DOCUMENTS; 4], "documents by scan, count, search and entity at lsn {}", snapshot.lsn());
    assert_eq!(collection.count_where(&rich).unwrap(), units.iter().filter(|u| **u > UNITS).count() as u64);
    assert_eq!(units.iter().sum::<i64>(), UNITS * DOCUMENTS as i64, "the sum of the units at lsn {}", snapshot.lsn());
    units
}

/// What a reader saw.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    refreshes: u64,
    opens: u64,
    commits: u64,
    generations: u64,
}

/// Reads until `stop` says so. Refreshes mostly, and opens anew now and then.
fn read_until(path: &Path, mut stop: impl FnMut() -> bool) -> Seen {
    let mut seen = Seen::default();
    let (mut lsn, mut generation) = (Lsn(0), Generation(0));
    let mut db = Database::open_read_only(path).unwrap();
    while !stop() {
        if seen.refreshes % 20 == 19 {
            db = Database::open_read_only(path).unwrap();
            seen.opens += 1;
        }
        let before = db.snapshot();
        db.refresh().unwrap();
        let snapshot = db.snapshot();
        assert!(snapshot.lsn() >= lsn, "lsn {} after {lsn}", snapshot.lsn());
        assert!(snapshot.generation() >= generation, "generation {:?} after {generation:?}", snapshot.generation());
        units(&snapshot);
        // The older one is still what it was.
        units(&before);
        seen.refreshes += 1;
        seen.commits += u64::from(snapshot.lsn() > lsn);
        seen.generations += u64::from(snapshot.generation() > generation);
        (lsn, generation) = (snapshot.lsn(), snapshot.generation());
    }
    seen
}

/// With [`READ`] in the environment this is what a reading process runs. Without, it reads beside a writer of the same process.
#[test]
fn a_reader_sees_whole_moments_only() {
    if let Some(path) = std::env::var_os(READ).map(PathBuf::from) {
        let stop = path.with_extension("stop");
        println!("{:?}", read_until(&path, || stop.exists()));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    create(&path);
    let writer = Database::open(&path).unwrap();
    let mut moves = 0;
    let seen = read_until(&path, || {
        moves += 1;
        writer.put("main", vec![document(0, UNITS - moves), document(1, UNITS + moves)]).unwrap();
        moves == 25
    });
    assert_eq!((seen.refreshes, seen.commits), (24, 24), "a reader sees every commit");
}

/// A database in which every document has the same units.
fn create(path: &Path) {
    run(path, "create", &[]);
    let mut child = triune(path, "load", &["-"]).stdin(Stdio::piped()).spawn().unwrap();
    let lines: String = (0..DOCUMENTS).map(|id| line(id, UNITS)).collect();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

#[derive(Debug, Default)]
struct Counts {
    seconds: u64,
    writers: u64,
    killed: u64,
    commits: u64,
    compactions: u64,
    stats: u64,
    checks: u64,
    backups: u64,
}

/// The writing side: loads of one move a commit, each ended by a kill or by the end of its input.
struct Writer {
    path: PathBuf,
    random: Random,
    counts: Counts,
}

impl Writer {
    /// One writing process from its start to its end.
    fn one(&mut self) {
        let mut now = units(&Database::open_read_only(&self.path).unwrap().snapshot());
        let mut child = triune(&self.path, "load", &["-", "--batch", "2", "--json"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let moves = 1 + self.random.below(60);
        for _ in 0..moves {
            let (from, to) = (self.random.below(DOCUMENTS), self.random.below(DOCUMENTS));
            if from == to {
                continue;
            }
            let moved = self.random.below(20) as i64;
            now[from as usize] -= moved;
            now[to as usize] += moved;
            stdin.write_all([line(from, now[from as usize]), line(to, now[to as usize])].concat().as_bytes()).unwrap();
            let mut said = String::new();
            stdout.read_line(&mut said).unwrap();
            assert!(said.starts_with("{\"committed\":"), "a commit is acknowledged, not {said:?}; {}", stderr_of(&mut child));
            self.counts.commits += 1;
        }
        self.counts.writers += 1;
        if self.random.below(3) == 0 {
            drop(stdin);
            let status = child.wait().unwrap();
            assert!(status.success(), "{status}: {}", stderr_of(&mut child));
        } else {
            // One more move is under way when the kill comes.
            let _ = stdin.write_all([line(0, now[0] - 1), line(1, now[1] + 1)].concat().as_bytes());
            thread::sleep(Duration::from_micros(self.random.below(3000)));
            child.kill().unwrap();
            child.wait().unwrap();
            self.counts.killed += 1;
        }
        if self.random.below(4) == 0 {
            run(&self.path, "compact", &[]);
            self.counts.compactions += 1;
        }
        let after = units(&Database::open_read_only(&self.path).unwrap().snapshot());
        let differs = now.iter().zip(&after).any(|(a, b)| a != b);
        (now[0], now[1]) = (now[0] - 1, now[1] + 1);
        assert!(!differs || now == after, "what was acknowledged is there, and no more than the move under way");
    }
}

fn stderr_of(child: &mut Child) -> String {
    let _ = child.kill();
    let mut said = String::new();
    let _ = child.stderr.take().map(|mut stderr| std::io::Read::read_to_string(&mut stderr, &mut said));
    said
}

#[test]
fn readers_beside_a_writer_that_dies_see_whole_moments_and_nothing_is_left_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    create(&path);
    let mut readers: Vec<Child> = (0..READERS).map(|_| reader(&path)).collect();
    let mut writer = Writer { path: path.clone(), random: Random::new("processes"), counts: Counts::default() };
    let seconds = size("TRIUNE_SECONDS", 5, 120);
    let end = Instant::now() + Duration::from_secs(seconds);
    let beside = [Beside::Stats, Beside::Check, Beside::Backup].map(|what| {
        let path = path.clone();
        thread::spawn(move || {
            let mut runs = 0;
            while Instant::now() < end {
                what.once(&path);
                runs += 1;
            }
            runs
        })
    });
    while Instant::now() < end {
        writer.one();
        readers.iter_mut().for_each(|r| assert!(r.try_wait().unwrap().is_none(), "a reader ended by itself"));
    }
    let mut counts = writer.counts;
    counts.seconds = seconds;
    [counts.stats, counts.checks, counts.backups] = beside.map(|thread| thread.join().unwrap());
    fs::write(path.with_extension("stop"), b"").unwrap();
    for reader in readers {
        let output = reader.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        println!("processes: {}", said.lines().find(|l| l.contains("Seen")).unwrap_or_else(|| panic!("{said}")));
    }
    // A clean close at the end, and every file is there for a reason.
    run(&path, "compact", &[]);
    nothing_left_over(&path);
    units(&Database::open_read_only(&path).unwrap().snapshot());
    println!("processes: {counts:?}");
    assert!(counts.commits > 0 && counts.stats > 0 && counts.checks > 0 && counts.backups > 0, "{counts:?}");
}

/// What other commands do beside the writer.
#[derive(Clone, Copy)]
enum Beside {
    Stats,
    Check,
    Backup,
}

impl Beside {
    fn once(self, path: &Path) {
        match self {
            Beside::Stats => {
                let stats: Value = serde_json::from_slice(&run(path, "stats", &["--json"]).stdout).unwrap();
                assert_eq!(stats["collections"]["main"]["documents"], DOCUMENTS, "{stats}");
            }
            // What a killed writer left may be found, damage not.
            Beside::Check => checked(path, 1, "beside the writer"),
            Beside::Backup => {
                let copy = path.with_extension("backup");
                run(path, "backup", &[copy.to_str().unwrap()]);
                checked(&copy, 0, "the backup");
                units(&Database::open_read_only(&copy).unwrap().snapshot());
                // It is a database of its own.
                units(&Database::open(&copy).unwrap().snapshot());
                fs::remove_dir_all(&copy).unwrap();
            }
        }
    }
}

/// This binary again, as a process that reads.
fn reader(path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::a_reader_sees_whole_moments_only", "--nocapture"]).env(READ, path);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}
