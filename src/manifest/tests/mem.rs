//! A directory in memory that notes every operation and fails one on request. Included by the tests of `manifest` and of `wal`.

use crate::io::{Bytes, Directory, File, LockGuard, LockMode};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    operations: Vec<String>,
    /// The operation with this beginning fails, once; a write then leaves this many of its bytes.
    fail: Option<(String, ErrorKind, usize)>,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Mem(Arc<Mutex<State>>);

#[derive(Debug)]
struct MemFile {
    name: String,
    state: Mem,
}

impl Mem {
    /// Another directory with the same files.
    pub(crate) fn copy(&self) -> Mem {
        let files = self.0.lock().files.clone();
        Mem(Arc::new(Mutex::new(State { files, ..State::default() })))
    }

    pub(crate) fn edit<R>(&self, name: &str, change: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        change(self.0.lock().files.get_mut(name).expect("the test made this file"))
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        self.edit(name, |bytes| bytes.clone())
    }

    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>) {
        self.0.lock().files.insert(name.into(), bytes);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.0.lock().files.remove(name);
    }

    /// What was done since the last call.
    pub(crate) fn operations(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().operations)
    }

    pub(crate) fn fail(&self, operation: &str, kind: ErrorKind, keep: usize) {
        self.0.lock().fail = Some((operation.into(), kind, keep));
    }

    /// Notes an operation; how many of `len` bytes it does before it fails, if it does.
    fn note(&self, operation: String, len: usize) -> (usize, Result<()>) {
        let mut state = self.0.lock();
        let failing = state.fail.take_if(|f| operation.starts_with(&f.0));
        state.operations.push(operation);
        match failing {
            Some((_, kind, keep)) => (keep.min(len), Err(Error::from(kind))),
            None => (len, Ok(())),
        }
    }
}

impl Directory for Mem {
    fn describe(&self) -> String {
        "memory".into()
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.0.lock().files.keys().cloned().collect())
    }

    fn create_new(&self, name: &str) -> Result<Arc<dyn File>> {
        self.note(format!("create {name}"), 0).1?;
        match self.0.lock().files.entry(name.into()) {
            std::collections::btree_map::Entry::Occupied(_) => return Err(ErrorKind::AlreadyExists.into()),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(Vec::new()),
        };
        self.open(name)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>> {
        if !self.0.lock().files.contains_key(name) {
            return Err(ErrorKind::NotFound.into());
        }
        Ok(Arc::new(MemFile { name: name.into(), state: self.clone() }))
    }

    fn open_writable(&self, name: &str) -> Result<Arc<dyn File>> {
        self.open(name)
    }

    fn unlink(&self, name: &str) -> Result<()> {
        self.0.lock().files.remove(name).map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn sync(&self) -> Result<()> {
        self.note("sync directory".into(), 0).1
    }

    fn sync_parent(&self) -> Result<()> {
        Ok(())
    }

    fn try_lock(&self, _name: &str, _mode: LockMode) -> Result<Option<LockGuard>> {
        Ok(Some(LockGuard(Box::new(()))))
    }
}

impl File for MemFile {
    fn len(&self) -> Result<u64> {
        Ok(self.state.bytes(&self.name).len() as u64)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let (_, outcome) = self.state.note(format!("read {}", self.name), 0);
        outcome?;
        self.state.edit(&self.name, |bytes| {
            let from = usize::try_from(offset).map_err(Error::other)?;
            let there = bytes.get(from..from + buf.len()).ok_or(ErrorKind::UnexpectedEof)?;
            buf.copy_from_slice(there);
            Ok(())
        })
    }

    fn write_all_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let (done, outcome) = self.state.note(format!("write {} {offset}+{}", self.name, buf.len()), buf.len());
        self.state.edit(&self.name, |bytes| {
            let from = usize::try_from(offset).expect("tests are small");
            if bytes.len() < from + done {
                bytes.resize(from + done, 0);
            }
            bytes[from..from + done].copy_from_slice(&buf[..done]);
        });
        outcome
    }

    fn sync(&self) -> Result<()> {
        self.state.note(format!("sync {}", self.name), 0).1
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.state.note(format!("set_len {} {len}", self.name), 0).1?;
        self.state.edit(&self.name, |bytes| bytes.resize(usize::try_from(len).expect("tests are small"), 0));
        Ok(())
    }

    fn map(&self, len: u64) -> Result<Bytes> {
        Bytes::new(self.state.bytes(&self.name)).slice(0, len).ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }
}
