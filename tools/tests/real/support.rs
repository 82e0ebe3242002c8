//! Runs the binary, and knows what a database must hold: every document is told by one number, and a state is which number each id has.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use triune::{Database, Document, Filter, Metadata, StoredDocument};

/// A size from the environment, else the one of a whole sweep, else the one of every test run.
pub(crate) fn size(variable: &str, sample: u64, whole: u64) -> u64 {
    let given = std::env::var(variable).ok().and_then(|v| v.parse().ok());
    given.unwrap_or(if is_whole() { whole } else { sample })
}

/// Whether everything is asked for.
pub(crate) fn is_whole() -> bool {
    std::env::var("TRIUNE_SWEEP").is_ok_and(|v| v == "full")
}

/// Numbers that follow from a seed.
pub(crate) struct Random(u64);

impl Random {
    /// With the seed of the environment, or 1; it is printed.
    pub(crate) fn new(of: &str) -> Random {
        let seed = std::env::var("TRIUNE_SEED").ok().and_then(|v| v.parse().ok()).unwrap_or(1);
        println!("{of}: TRIUNE_SEED={seed}");
        Random(seed)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The number of each document, by id.
pub(crate) type State = BTreeMap<String, u64>;

/// How many ids there are: so few that most lines replace.
const IDS: u64 = 40;

pub(crate) fn id(number: u64) -> String {
    format!("k{}", number.wrapping_mul(7919) % IDS)
}

/// The document of a number; one in 211 is larger than a log record can be, and some are long.
pub(crate) fn document(number: u64) -> Document {
    let spaces = match number {
        n if n % 211 == 0 => 9 << 20,
        n if n % 23 == 0 => 100_000,
        n => (n % 7) as usize * 100,
    };
    Document::new(id(number))
        .text(format!("common Number and Paris word{number}{}", " ".repeat(spaces)))
        .metadata(Metadata::from_json(format!(r#"{{"n":{number}, "even":{}}}"#, number.is_multiple_of(2))).unwrap())
        .vector(vec![1.0, number as f32])
        .source(format!("source {}", number % 3))
}

/// The document as a line that `load` reads.
pub(crate) fn line(number: u64) -> String {
    let d = document(number);
    let metadata: serde_json::Value = serde_json::from_str(d.metadata.unwrap().as_str()).unwrap();
    format!("{}\n", serde_json::json!({"id": d.id, "text": d.text, "metadata": metadata, "vector": d.vector, "source": d.source}))
}

/// The states that lines lead to, one after another, the one before them first.
pub(crate) fn states_after(state: &State, lines: impl Iterator<Item = u64>) -> Vec<State> {
    let mut states = vec![state.clone()];
    for number in lines {
        let mut next = states[states.len() - 1].clone();
        next.insert(id(number), number);
        states.push(next);
    }
    states
}

/// What collection `main` holds. Every index has to agree, and every document has to be whole.
pub(crate) fn state_of(db: &Database) -> State {
    let collection = db.snapshot().collection("main").unwrap();
    let found: Vec<StoredDocument> = collection.scan().with_vectors(true).map(|item| item.unwrap().1).collect();
    let number_of = |d: &StoredDocument| d.metadata.as_ref().unwrap().to_object()["n"].as_u64().unwrap();
    for d in &found {
        let wanted = document(number_of(d));
        assert!(*d.id == wanted.id && *d.text == wanted.text && d.source.as_deref() == wanted.source.as_deref(), "{} is not whole", d.id);
        assert_eq!(d.vector.as_deref(), wanted.vector.as_deref(), "{}", d.id);
    }
    let count = found.len() as u64;
    let stats = collection.stats().unwrap();
    let sources: u64 = collection.sources().unwrap().iter().map(|s| s.documents).sum();
    let filter = Filter::parse(r#"{"n":{"$gte":0}}"#).unwrap();
    let by_text = collection.best_texts("common", None, None, 1000).unwrap().len() as u64;
    let by_vector = collection.nearest(&[1.0, 1.0], None, 1000).unwrap().len() as u64;
    let by_entity = collection.entity("paris").unwrap().map_or(0, |e| e.documents);
    let counts = [collection.count(), stats.vectors, sources, collection.count_where(&filter).unwrap(), by_text, by_vector, by_entity];
    assert_eq!(counts, [count; 7], "documents by count, vectors, sources, filter, text, nearest, entity");
    found.iter().map(|d| (d.id.to_string(), number_of(d))).collect()
}

/// The state on disk, read without writing anything.
pub(crate) fn read(path: &Path) -> State {
    state_of(&Database::open_read_only(path).unwrap())
}

/// Looks which of the possible states the database is in: one not before the one that was acknowledged. Gives its place.
#[track_caller]
pub(crate) fn settle(found: &State, possible: &[State], acknowledged: usize, about: &str) -> usize {
    let Some(at) = possible.iter().rposition(|state| state == found) else {
        let last = &possible[possible.len() - 1];
        panic!("{about}: no state that a prefix of the work leads to.\nfound  {found:?}\nbefore {:?}\nafter  {last:?}", possible[0]);
    };
    assert!(at >= acknowledged, "{about}: {acknowledged} were acknowledged, {at} are there");
    at
}

/// Opens for writing, twice: the first time may recover, the second has nothing to. Both see `state`, which the next step starts from.
#[track_caller]
pub(crate) fn opens_twice(path: &Path, state: &State, about: &str) -> (u64, bool) {
    let db = Database::open(path).unwrap_or_else(|e| panic!("{about}: {e}"));
    let recovered = (db.recovery().replayed_commits, db.recovery().torn_tail.is_some());
    assert_eq!(state_of(&db), *state, "{about}: after recovery");
    drop(db);
    let db = Database::open(path).unwrap_or_else(|e| panic!("{about}: the second time: {e}"));
    assert_eq!((db.recovery().replayed_commits, &db.recovery().torn_tail), (0, &None), "{about}: the second time");
    assert_eq!(state_of(&db), *state, "{about}: the second time");
    recovered
}

/// Asserts that `fsck` finds nothing worse than this: 0 nothing, 1 what a crash may leave.
#[track_caller]
pub(crate) fn checked(path: &Path, worst: i32, about: &str) {
    let output = triune(path, "fsck", &["--level", "3", "--json"]).output().unwrap();
    let said = || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.code().is_some_and(|code| code <= worst), "{about}: fsck: {}: {}", output.status, said());
}

/// Asserts that every file is there for a reason, and sound.
#[track_caller]
pub(crate) fn nothing_left_over(path: &Path) {
    checked(path, 0, "nothing is left over");
    for file in triune::inspect::describe(path).unwrap().files {
        assert!(file.problem.is_none(), "{}: {:?}", file.name, file.problem);
        assert!(file.fields.iter().all(|(key, _)| key != "orphan"), "{} is left over", file.name);
    }
}

/// A command that is about to run the binary.
pub(crate) fn triune(path: &Path, command: &str, rest: &[&str]) -> Command {
    with_pipes(Command::new(env!("CARGO_BIN_EXE_triune")), path, command, rest)
}

/// The same as arguments of another program, which runs the binary.
pub(crate) fn with_pipes(mut program: Command, path: &Path, command: &str, rest: &[&str]) -> Command {
    program.arg(command).arg(path).args(rest);
    program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    program
}

/// Runs the binary, which has to succeed.
#[track_caller]
pub(crate) fn run(path: &Path, command: &str, rest: &[&str]) -> Output {
    let output = triune(path, command, rest).output().unwrap();
    assert!(output.status.success(), "{command} {rest:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The last number of lines that a load said to be committed. A line that a kill cut short says nothing.
pub(crate) fn committed(stdout: &[u8]) -> usize {
    let whole = &stdout[..stdout.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1)];
    let last = std::str::from_utf8(whole).unwrap().lines().last();
    let number = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["committed"].as_u64().unwrap();
    last.map_or(0, |line| number(line) as usize)
}

/// Copies the files of a directory.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
