//! A reader between any two of whose calls a writer acts.

use crate::recovery::model::{Op, State, batch_of, document, documents};
use crate::recovery::oracle::options;
use crate::recovery::sweep::Budget;
use std::fmt;
use std::io::Result as IoResult;
use std::sync::{Arc, Mutex};
use triune::Database;
use triune::io::sim::SimDirectory;
use triune::io::{Bytes, Directory, File, LockGuard, LockMode};

type Act = Box<dyn FnOnce() + Send>;

/// A directory that lets a writer act before a certain call.
struct Between {
    disk: SimDirectory,
    /// How many calls are to come before it acts.
    left: Mutex<(usize, Option<Act>)>,
}

impl Between {
    fn call(&self) {
        let act = {
            let mut left = self.left.lock().unwrap();
            match left.0 {
                0 => left.1.take(),
                _ => {
                    left.0 -= 1;
                    None
                }
            }
        };
        if let Some(act) = act {
            act();
        }
    }
}

impl fmt::Debug for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Between({:?})", self.disk)
    }
}

#[derive(Debug, Clone)]
struct Reading(Arc<Between>);

#[derive(Debug)]
struct ReadingFile {
    between: Arc<Between>,
    inner: Arc<dyn File>,
}

impl Directory for Reading {
    fn describe(&self) -> String {
        self.0.disk.describe()
    }

    fn list(&self) -> IoResult<Vec<String>> {
        self.0.call();
        self.0.disk.list()
    }

    fn open(&self, name: &str) -> IoResult<Arc<dyn File>> {
        self.0.call();
        let inner = self.0.disk.open(name)?;
        Ok(Arc::new(ReadingFile { between: self.0.clone(), inner }))
    }

    fn create_new(&self, name: &str) -> IoResult<Arc<dyn File>> {
        self.0.disk.create_new(name)
    }

    fn open_writable(&self, name: &str) -> IoResult<Arc<dyn File>> {
        self.0.disk.open_writable(name)
    }

    fn unlink(&self, name: &str) -> IoResult<()> {
        self.0.disk.unlink(name)
    }

    fn sync(&self) -> IoResult<()> {
        self.0.disk.sync()
    }

    fn sync_parent(&self) -> IoResult<()> {
        self.0.disk.sync_parent()
    }

    fn try_lock(&self, name: &str, mode: LockMode) -> IoResult<Option<LockGuard>> {
        self.0.call();
        self.0.disk.try_lock(name, mode)
    }
}

impl File for ReadingFile {
    fn len(&self) -> IoResult<u64> {
        self.between.call();
        self.inner.len()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> IoResult<()> {
        self.between.call();
        self.inner.read_exact_at(offset, buf)
    }

    fn write_all_at(&self, offset: u64, buf: &[u8]) -> IoResult<()> {
        self.inner.write_all_at(offset, buf)
    }

    fn sync(&self) -> IoResult<()> {
        self.inner.sync()
    }

    fn set_len(&self, len: u64) -> IoResult<()> {
        self.inner.set_len(len)
    }

    fn map(&self, len: u64) -> IoResult<Bytes> {
        self.between.call();
        self.inner.map(len)
    }
}

/// What a writer does meanwhile.
#[derive(Debug, Clone, Copy)]
enum Meanwhile {
    Commit,
    Checkpoint,
    Merge,
    Several,
}

impl Meanwhile {
    const ALL: [Meanwhile; 4] = [Meanwhile::Commit, Meanwhile::Checkpoint, Meanwhile::Merge, Meanwhile::Several];

    fn act(self, db: &Database) {
        let commit = |id: &str| {
            db.commit(batch_of(&more(id))).unwrap();
        };
        match self {
            Meanwhile::Commit => commit("m0"),
            Meanwhile::Checkpoint => {
                commit("m0");
                db.checkpoint().unwrap();
            }
            Meanwhile::Merge => {
                commit("m0");
                db.checkpoint().unwrap();
                db.compact().unwrap();
            }
            Meanwhile::Several => {
                commit("m0");
                db.checkpoint().unwrap();
                commit("m1");
                db.checkpoint().unwrap();
                commit("m2");
            }
        }
    }
}

fn more(id: &str) -> Vec<Op> {
    vec![Op::Put("a", vec![document(id, "meanwhile")]), Op::Delete("a", vec!["x1".into()])]
}

/// A database with a writer at work: what it shows after each commit.
fn at_work() -> (SimDirectory, Database, Vec<State>) {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    let mut states = vec![State::default()];
    let batches = [
        vec![Op::Create("a"), Op::Put("a", documents("x", 3, "s"))],
        vec![Op::Put("a", documents("y", 2, "t"))],
        more("m0"),
        more("m1"),
        more("m2"),
    ];
    for (i, batch) in batches.iter().enumerate() {
        if i < 2 {
            db.commit(batch_of(batch)).unwrap();
        }
        if i == 0 {
            db.checkpoint().unwrap();
        }
        let mut next = states[i].clone();
        next.apply(batch).expect("the model takes it");
        states.push(next);
    }
    (disk, db, states)
}

/// Opens for reading, and reads everything, while a writer acts before each of the reader's calls in turn.
pub fn between_any_two_calls() -> Result<(), String> {
    // The first calls decide which state is read; of those that read it a slice is enough for every run.
    let (mut calls, step) = (0, if Budget::of_this_run().full { 1 } else { 4 });
    for (i, meanwhile) in Meanwhile::ALL.into_iter().enumerate() {
        for n in (0..40).chain((40 + i..).step_by(step)) {
            let (disk, writer, states) = at_work();
            let acted = Arc::new(Mutex::new(false));
            let act: Act = {
                let acted = acted.clone();
                Box::new(move || {
                    meanwhile.act(&writer);
                    *acted.lock().unwrap() = true;
                    // The writer lives on, as in another process.
                    std::mem::forget(writer);
                })
            };
            let between = Arc::new(Between { disk, left: Mutex::new((n, Some(act))) });
            let at = |e: String| format!("{meanwhile:?} before call {n} of a reader: {e}");
            let reader = Database::open_read_only_with(Arc::new(Reading(between)), options()).map_err(|e| at(e.to_string()))?;
            let lsn = reader.snapshot().lsn().0 as usize;
            if lsn < 2 || State::read(&reader).map_err(at)? != states[lsn] {
                return Err(at(format!("lsn {lsn} is not what was committed")));
            }
            calls += 1;
            if !*acted.lock().unwrap() {
                break;
            }
        }
    }
    assert!(calls > 60, "{calls}");
    Ok(())
}
