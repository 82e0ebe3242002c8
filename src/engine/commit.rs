//! The one path of every commit: resolve, append, sync, publish, acknowledge.
//!
//! Callers queue their staged batches and then take the writer's lock. Whoever gets it leads: it takes all that is queued as one group, writes
//! the group's records with one write, syncs once, and answers everyone. The others find their answer when the lock comes to them.
//!
//! Staged rows go into the memtable before the write, born at an lsn that no reader has: the next batch of the group sees them, readers do
//! not, and a group that fails is undone.

use super::batch::Staged;
use super::core::{Core, Writer};
use super::events::{self, Timer};
use super::resolve::{NEWEST, Outcome, Resolved, Resolver};
use super::version::{Catalog, Part};
use crate::error::{Error, Result};
use crate::format::effects::{CollectionEffects, CommitEffects, DeadSet, RowEffect};
use crate::format::wal::RECORD_COMMIT;
use crate::ids::Lsn;
use crate::options::{Durability, limits};
use crate::wal::NewRecord;
use parking_lot::Mutex;
use roaring::RoaringTreemap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a commit did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its log sequence number. A batch that changed nothing has that of the commit before it.
    pub lsn: Lsn,
    /// What each call of the batch did, in order.
    pub outcomes: Vec<Outcome>,
}

/// A staged batch waiting for its commit, and later its answer.
#[derive(Debug)]
pub(crate) struct Request {
    staged: Mutex<Option<Staged>>,
    durability: Durability,
    time_ms: u64,
    answer: Mutex<Option<Result<Commit>>>,
}

impl Request {
    pub(crate) fn new(staged: Staged, durability: Durability, time_ms: u64) -> Arc<Request> {
        Arc::new(Request { staged: Mutex::new(Some(staged)), durability, time_ms, answer: Mutex::new(None) })
    }

    /// Whether it may need room in memory.
    fn may_add_rows(&self) -> bool {
        self.staged.lock().as_ref().is_some_and(Staged::may_add_rows)
    }

    fn answer(&self, result: Result<Commit>) {
        *self.answer.lock() = Some(result);
    }

    fn is_answered(&self) -> bool {
        self.answer.lock().is_some()
    }

    pub(super) fn take_answer(&self) -> Option<Result<Commit>> {
        self.answer.lock().take()
    }
}

/// The commits that one write and one sync make durable.
struct Group {
    /// The lsn before the group.
    before: Lsn,
    catalog_before: Arc<Catalog>,
    members: Vec<(Arc<Request>, Commit)>,
    payloads: Vec<(Lsn, Vec<u8>)>,
    /// Parts in which a row was let die or was added, each once: taking a group back walks every row of each.
    touched: Vec<Part>,
    bytes: usize,
    /// Document versions that are written.
    documents: u64,
    sync: bool,
    /// Whether every record only takes away: such a group may use the ballast of a full disk.
    frees: bool,
}

impl Group {
    fn new(w: &Writer) -> Group {
        Group {
            before: w.lsn,
            catalog_before: w.catalog.clone(),
            members: Vec::new(),
            payloads: Vec::new(),
            touched: Vec::new(),
            bytes: 0,
            documents: 0,
            sync: false,
            frees: true,
        }
    }

    fn fail(self, error: &Error) {
        self.members.into_iter().for_each(|(request, _)| request.answer(Err(error.duplicate())));
    }
}

impl Core {
    /// Commits staged batches, which share a group, alone or with others that wait. Answers in their order.
    pub(crate) fn commit(&self, requests: &[Arc<Request>]) -> Vec<Result<Commit>> {
        for request in requests {
            if let Durability::Interval(interval) = request.durability {
                self.background.promise(interval);
            }
        }
        if let Err(e) = self.relieve_memory() {
            requests.iter().filter(|r| r.may_add_rows()).for_each(|r| r.answer(Err(e.duplicate())));
        }
        // All at once: whoever leads takes all of them, in this order.
        self.queue.lock().extend(requests.iter().filter(|r| !r.is_answered()).cloned());
        let answers = {
            let mut w = self.writer.lock();
            if requests.iter().any(|r| !r.is_answered()) {
                self.lead(&mut w);
            }
            requests.iter().map(|r| r.take_answer().expect("the leader answers all that was queued before")).collect()
        };
        self.after_commit();
        answers
    }

    /// Commits everything that is queued, and answers all of it. A panic stops the writer, since nobody knows what it left behind, and goes on
    /// to the caller once the others have their answer.
    fn lead(&self, w: &mut Writer) {
        let queued = std::mem::take(&mut *self.queue.lock());
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.lead_group(w, &queued))) else { return };
        let error = w.poison("a commit panicked".into());
        {
            let shown = self.published.read();
            (w.lsn, w.catalog) = (shown.lsn, shown.catalog.clone());
        }
        queued.iter().filter(|r| !r.is_answered()).for_each(|r| r.answer(Err(error.duplicate())));
        resume_unwind(panic)
    }

    fn lead_group(&self, w: &mut Writer, queued: &[Arc<Request>]) {
        let mut group = Group::new(w);
        for request in queued.iter().cloned() {
            let staged = request.staged.lock().take().expect("a request is led once");
            if let Err(e) = self.writable(w) {
                request.answer(Err(e));
                continue;
            }
            let resolver = Resolver::new(&w.version, &w.catalog, w.next_seq, w.next_incarnation, request.time_ms);
            match resolver.resolve(staged) {
                Err(e) => request.answer(Err(e)),
                Ok(resolved) => group = self.stage(w, group, request, resolved),
            }
        }
        self.finish(w, group);
        if w.poisoned.is_none() {
            // What was made for a record that was then refused is named by none.
            let lsn = w.lsn;
            w.logged.retain(|_, l| *l <= lsn);
        }
    }

    /// Adds a resolved batch to the group, finishing the group first when it is full or the batch lands on its own.
    fn stage(&self, w: &mut Writer, mut group: Group, request: Arc<Request>, resolved: Resolved) -> Group {
        if resolved.is_empty() {
            let commit = Commit { lsn: w.lsn, outcomes: resolved.outcomes };
            // It saw what the group staged, so it is answered with the group.
            group.members.push((request, commit));
            return group;
        }
        // A batch that only takes away may use the ballast of a full disk, for its files and the first log too.
        let frees = resolved.collections.iter().all(|c| c.rows.is_empty());
        let effects = match self.with_ballast(w, frees, |w| self.effects(w, &resolved, request.time_ms)) {
            Ok(effects) => effects,
            Err(e) => {
                request.answer(Err(e));
                return group;
            }
        };
        let mut payload = Vec::new();
        let record_bytes = self.options.thresholds.record_bytes.min(limits::RECORD_BYTES_MAX);
        if effects.encoded_len_estimate() <= record_bytes {
            effects.encode(&mut payload);
        }
        if payload.is_empty() || group.bytes + payload.len() > record_bytes {
            self.finish(w, group);
            group = Group::new(w);
            // The group before may have failed and taken the writer, or its own effects, with it.
            if let Err(e) = self.writable(w) {
                request.answer(Err(e));
                return group;
            }
            if let Some(e) = &w.undone {
                // It was resolved against commits that are gone.
                request.answer(Err(e.duplicate()));
                return group;
            }
        }
        if payload.is_empty() {
            let result = self.land(w, effects, &resolved);
            request.answer(result.map(|lsn| Commit { lsn, outcomes: resolved.outcomes }));
            return Group::new(w);
        }
        // Before anything is staged: a new log starts after the last commit.
        if let Err(e) = self.with_ballast(w, frees, |w| self.ensure_log(w)) {
            request.answer(Err(e));
            return group;
        }
        let lsn = w.lsn.next();
        // Taken even if the batch is taken back: rows that were staged keep their places, and a seq is never used twice.
        (w.next_seq, w.next_incarnation) = (resolved.next_seq, resolved.next_incarnation);
        group.sync |= self.syncs(request.durability);
        group.frees &= frees;
        if let Err(e) = self.apply(w, &resolved, lsn, &mut group.touched) {
            // Only a damaged segment comes here, and nothing of this batch was written.
            self.undo(w, lsn, &group.touched);
            request.answer(Err(e));
            return group;
        }
        (w.lsn, w.catalog) = (lsn, resolved.catalog);
        group.bytes += payload.len();
        group.documents += resolved.collections.iter().map(|c| c.rows.len() as u64).sum::<u64>();
        group.payloads.push((lsn, payload));
        group.members.push((request, Commit { lsn, outcomes: resolved.outcomes }));
        group
    }

    /// Whether a commit of this durability is synced before it is acknowledged: an interval is when no thread keeps it.
    fn syncs(&self, durability: Durability) -> bool {
        match durability {
            Durability::Sync => true,
            Durability::Buffered => false,
            Durability::Interval(_) => !self.options.background,
        }
    }

    /// The record of a batch. Dying seqs that would fill it go to a synced file first.
    fn effects(&self, w: &mut Writer, resolved: &Resolved, time_ms: u64) -> Result<CommitEffects> {
        let mut collections = Vec::with_capacity(resolved.collections.len());
        for c in &resolved.collections {
            let rows = c.rows.iter().map(|r| RowEffect { seq: r.seq, document: r.document.clone() }).collect();
            let dying: RoaringTreemap = c.dying.iter().map(|d| d.seq.0).collect();
            let dead = if dying.is_empty() { DeadSet::None } else { self.dead_set(w, dying)? };
            collections.push(CollectionEffects { incarnation: c.incarnation, rows, landed: Vec::new(), dead });
        }
        collections.retain(|c| !c.rows.is_empty() || c.dead != DeadSet::None);
        Ok(CommitEffects {
            time_ms,
            next_seq: resolved.next_seq,
            next_incarnation: resolved.next_incarnation,
            catalog: resolved.changes.clone(),
            collections,
        })
    }

    /// Puts a resolved batch into the memtable, born at `lsn`. Lets its dying rows die then.
    fn apply(&self, w: &mut Writer, resolved: &Resolved, lsn: Lsn, touched: &mut Vec<Part>) -> Result<()> {
        for c in &resolved.collections {
            for d in &c.dying {
                touch(touched, &d.part);
                kill(d.part.clone(), d.row, lsn, d.totals)?;
            }
            if c.rows.is_empty() {
                continue;
            }
            let memory = w.version.active.collection_or_new(c.incarnation, c.derivation);
            touch(touched, &Part::Memory(memory.clone()));
            for r in &c.rows {
                let (_, bytes) = memory.append(lsn, r.seq, r.document.clone(), &r.analysis);
                w.version.active.grow(bytes);
            }
        }
        Ok(())
    }

    /// Takes back everything staged at or after `lsn`.
    fn undo(&self, w: &mut Writer, lsn: Lsn, touched: &[Part]) {
        let mut failed = None;
        for part in touched {
            match part {
                Part::Memory(m) => m.undo_from(lsn),
                Part::Segment(s) => failed = s.undo_from(lsn).err().or(failed),
            }
        }
        if let Some(e) = failed {
            w.poison(format!("a failed commit could not be taken back: {e}"));
        }
    }

    /// Writes, syncs, publishes and answers a group.
    fn finish(&self, w: &mut Writer, group: Group) {
        w.undone = None;
        if group.payloads.is_empty() {
            return group.members.into_iter().for_each(|(request, commit)| request.answer(Ok(commit)));
        }
        let records: Vec<NewRecord<'_>> =
            group.payloads.iter().map(|(lsn, payload)| NewRecord { lsn: *lsn, kind: RECORD_COMMIT, payload }).collect();
        let clocks = match self.log(w, &records, group.sync, group.frees) {
            Ok(clocks) => clocks,
            Err(e) => return self.take_back(w, group, &e),
        };
        self.publish(w);
        events::committed(events::Group {
            commits: group.payloads.len(),
            last_lsn: w.lsn,
            documents: group.documents,
            bytes: group.bytes,
            synced: group.sync,
            write_us: clocks.0,
            sync_us: clocks.1,
        });
        group.members.into_iter().for_each(|(request, commit)| request.answer(Ok(commit)));
        self.witness(w);
    }

    /// Undoes a group that the log did not take, and tells its members.
    fn take_back(&self, w: &mut Writer, group: Group, e: &Error) {
        if w.poisoned.is_none() {
            self.undo(w, group.before.next(), &group.touched);
            w.undone = Some(e.duplicate());
        }
        // A poisoned writer's staged rows stay where they are, and invisible: a checkpoint or merge that is under way publishes this lsn.
        (w.lsn, w.catalog) = (group.before, group.catalog_before.clone());
        group.fail(e);
    }

    /// Makes records durable in the log. On an error of `Io` or `DiskFull` nothing of them is left in it; on `OutcomeUnknown` the writer is
    /// poisoned.
    ///
    /// Returns how many microseconds the write and the sync took, when somebody listens.
    pub(crate) fn log(&self, w: &mut Writer, records: &[NewRecord<'_>], sync: bool, frees: bool) -> Result<(u64, u64)> {
        let timer = Timer::start();
        self.with_ballast(w, frees, |w| self.append(w, records))?;
        let written = timer.us();
        let wal = w.wal.as_mut().expect("a log was made before anything was staged");
        self.log_bytes.store(wal.end_offset(), Ordering::Relaxed);
        if sync || wal.unsynced_bytes() > limits::UNSYNCED_BYTES_MAX / 2 {
            self.sync_log(w)?;
        }
        Ok((written, timer.us().saturating_sub(written)))
    }

    /// Tries once more with the room of the ballast, when the disk is full and `act` is to free some.
    fn with_ballast<T>(&self, w: &mut Writer, frees: bool, act: impl Fn(&mut Writer) -> Result<T>) -> Result<T> {
        let result = act(w);
        if frees && matches!(result, Err(Error::DiskFull(_))) && w.poisoned.is_none() && self.give_up_ballast() {
            return act(w);
        }
        result
    }

    fn append(&self, w: &mut Writer, records: &[NewRecord<'_>]) -> Result<()> {
        let wal = w.wal.as_mut().expect("a log was made before anything was staged");
        let Err(e) = wal.append(records) else { return Ok(()) };
        // What was written of the group must not come back after a crash: cut, and make the cut durable, before anyone hears of it.
        if let Err(cut) = wal.cut_back() {
            return Err(w.poison(format!("writing the log failed ({e}), and so did taking it back ({cut})")));
        }
        Err(e)
    }

    /// Syncs the log. A failure poisons the writer: what the disk holds is not known, and a second try would prove nothing.
    pub(crate) fn sync_log(&self, w: &mut Writer) -> Result<()> {
        let Some(wal) = w.wal.as_mut() else { return Ok(()) };
        // The bytes of a log that lost its name are synced, and nobody will read them.
        match wal.sync().and_then(|()| self.refuse_replaced()) {
            Ok(()) => {
                self.durable.store(wal.durable_lsn().0, std::sync::atomic::Ordering::Release);
                Ok(())
            }
            Err(e) => Err(w.poison(format!("syncing the log failed: {e}"))),
        }
    }

    /// Says outside the log how far it is synced, so that damage to its tail is seen.
    pub(crate) fn witness(&self, w: &mut Writer) {
        if let (Some(witness), Some(wal)) = (&mut w.witness, &w.wal)
            && wal.unsynced_bytes() == 0
        {
            witness.record(wal.id(), wal.durable_lsn(), wal.end_offset());
        }
    }
}

/// Adds a part, unless it is there: a batch that deletes a million rows touches a few parts.
fn touch(touched: &mut Vec<Part>, part: &Part) {
    let is_it = |other: &Part| match (other, part) {
        (Part::Memory(a), Part::Memory(b)) => Arc::ptr_eq(a, b),
        (Part::Segment(a), Part::Segment(b)) => Arc::ptr_eq(a, b),
        (Part::Memory(_), Part::Segment(_)) | (Part::Segment(_), Part::Memory(_)) => false,
    };
    // From the end: neighbours mostly die together.
    if !touched.iter().rev().any(is_it) {
        touched.push(part.clone());
    }
}

/// Lets one row die.
pub(crate) fn kill(part: Part, row: u32, lsn: Lsn, of: crate::memtable::Totals) -> Result<()> {
    debug_assert!(lsn < NEWEST);
    match part {
        Part::Memory(m) => {
            m.kill(row, lsn);
            Ok(())
        }
        Part::Segment(s) => s.kill(row, lsn, of),
    }
}
