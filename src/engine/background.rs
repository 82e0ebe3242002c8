//! The threads that flush and merge, and that sync by intervals; and what commits do when there are none.

use super::core::Core;
use super::events;
use super::health::BackgroundError;
use super::merge::Plan;
use super::policy::{self, Field};
use crate::error::{Error, Result};
use crate::ids::Incarnation;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the thread sleeps when nobody calls it.
const IDLE: Duration = Duration::from_secs(60);
/// The shortest sleep between two syncs, so that an interval of nothing does not keep a core busy.
const SHORTEST: Duration = Duration::from_millis(1);

/// The name of the thread that flushes and merges.
const THREAD_NAME: &str = "triune";

/// How many full memtables may wait for their flush before commits that add documents do it themselves.
const FROZEN_MEMTABLES_MAX: usize = 4;

/// The thread's half that everyone sees.
#[derive(Debug, Default)]
pub(crate) struct Background {
    called: Mutex<bool>,
    wake: Condvar,
    stop: AtomicBool,
    /// Set while the thread's merge is to be given up, since somebody waits: who merges all of it, or stops the thread.
    give_way: AtomicBool,
    /// How many wait.
    waiting: Mutex<u32>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The thread that keeps the intervals: a long merge must not make it late. Started with the first promise.
    syncer: Mutex<Option<JoinHandle<()>>>,
    sync_called: Mutex<bool>,
    sync_wake: Condvar,
    core: OnceLock<Weak<Core>>,
    /// The shortest interval within which a commit was promised to be synced, if one was.
    interval: Mutex<Option<Duration>>,
    /// Why the last background work failed, until somebody takes it.
    last_error: Mutex<Option<Error>>,
    /// The same for `health`, until all background work was done once.
    last_failure: Mutex<Option<BackgroundError>>,
    failures: AtomicU64,
}

impl Background {
    /// Lets the thread look for work.
    pub(crate) fn call(&self) {
        *self.called.lock() = true;
        self.wake.notify_one();
    }

    /// Sees to it that what was committed up to now, and what will be, is synced within `interval`.
    pub(crate) fn promise(&self, interval: Duration) {
        let mut shortest = self.interval.lock();
        if shortest.is_none_or(|shortest| interval < shortest) {
            *shortest = Some(interval);
            drop(shortest);
            self.start_syncer();
            // The thread may be in a longer sleep.
            self.call_syncer();
        }
    }

    fn call_syncer(&self) {
        *self.sync_called.lock() = true;
        self.sync_wake.notify_one();
    }

    /// Starts the thread that keeps the intervals, if there is to be one. Without it the other one does so, between two merges.
    fn start_syncer(&self) {
        let mut syncer = self.syncer.lock();
        let Some(core) = self.core.get().filter(|_| syncer.is_none()).cloned() else { return };
        let run = move || {
            while let Some(core) = core.upgrade() {
                let background = &core.background;
                if background.stop.load(Ordering::Relaxed) {
                    return;
                }
                let synced = catch_unwind(AssertUnwindSafe(|| core.sync_promised()));
                let synced = synced.unwrap_or_else(|_| Err(core.writer.lock().poison("a sync in the background panicked".into())));
                synced.unwrap_or_else(|e| background.failed(e));
                let waiting = core.clone();
                drop(core);
                let background = &waiting.background;
                wait(&background.sync_called, &background.sync_wake, background.pause());
            }
        };
        match std::thread::Builder::new().name("triune-sync".into()).spawn(run) {
            Ok(thread) => *syncer = Some(thread),
            Err(e) => self.failed(Error::io("starting the thread that syncs", e)),
        }
    }

    /// Keeps a failure that no caller is told of.
    pub(crate) fn failed(&self, error: Error) {
        events::failed_in_background(&error);
        self.failures.fetch_add(1, Ordering::Relaxed);
        *self.last_failure.lock() = Some(BackgroundError::now(&error));
        *self.last_error.lock() = Some(error);
    }

    /// Carries out work. When it says that nothing is left, and nothing failed on the way, the failures before it are over.
    fn attempt(&self, work: impl FnOnce() -> Result<bool>) {
        let before = self.failures.load(Ordering::Relaxed);
        match work() {
            Ok(done) => {
                if done && self.failures.load(Ordering::Relaxed) == before {
                    *self.last_failure.lock() = None;
                }
            }
            Err(e) => self.failed(e),
        }
    }

    /// The last failure since all work was done.
    pub(crate) fn last_failure(&self) -> Option<BackgroundError> {
        self.last_failure.lock().clone()
    }

    fn pause(&self) -> Duration {
        self.interval.lock().map_or(IDLE, |interval| interval.clamp(SHORTEST, IDLE))
    }

    /// What cuts a merge of this thread short: set while the handle is closing, and for the thread in the background also while somebody is to
    /// be given way.
    pub(crate) fn stop_flag(&self) -> &AtomicBool {
        if self.is_own_thread() { &self.give_way } else { &self.stop }
    }

    /// Asks the thread to give up the merge that it is at, until `given` returns.
    pub(crate) fn give_way<T>(&self, given: impl FnOnce() -> T) -> T {
        let waiting = |change: fn(u32) -> u32| {
            let mut waiting = self.waiting.lock();
            *waiting = change(*waiting);
            self.give_way.store(*waiting > 0, Ordering::Relaxed);
        };
        waiting(|others| others + 1);
        let result = given();
        waiting(|with_me| with_me - 1);
        result
    }

    /// Whether this is the thread that works in the background.
    pub(crate) fn is_own_thread(&self) -> bool {
        std::thread::current().name() == Some(THREAD_NAME)
    }

    /// Stops the thread and waits for it.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.call();
        self.call_syncer();
        let threads = [self.thread.lock().take(), self.syncer.lock().take()];
        self.give_way(|| {
            for thread in threads.into_iter().flatten() {
                // The threads catch panics; whatever ends one all the same must not keep a database from closing.
                let _ = thread.join();
            }
        });
        self.stop.store(false, Ordering::Relaxed);
    }

    /// The error of the last background work, once.
    pub(crate) fn take_error(&self) -> Option<Error> {
        self.last_error.lock().take()
    }
}

/// Sleeps until called, or for `at_most`.
fn wait(called: &Mutex<bool>, wake: &Condvar, at_most: Duration) {
    let mut called = called.lock();
    if !*called {
        wake.wait_for(&mut called, at_most);
    }
    *called = false;
}

/// Collections that a series of merges found damaged, and the first damage.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    collections: BTreeSet<Incarnation>,
    first: Option<Error>,
}

impl Damage {
    /// The first damage as an error, once everything else is done.
    pub(crate) fn into_result(self) -> Result<()> {
        let others = "a collection with damaged files stays as it was; any others are merged";
        self.first.map_or(Ok(()), |damage| Err(damage.noting(others)))
    }
}

impl Core {
    /// Starts the thread.
    pub(crate) fn start_background(self: &Arc<Core>) -> Result<()> {
        let core = Arc::downgrade(self);
        let _ = self.background.core.set(core.clone());
        let run = move || {
            while let Some(core) = core.upgrade() {
                if core.background.stop.load(Ordering::Relaxed) {
                    return;
                }
                // A panic stops the writer: a checkpoint or merge may have been left halfway. The thread goes on, so that closing finds it.
                core.background.attempt(|| {
                    let done = catch_unwind(AssertUnwindSafe(|| core.background_work()));
                    done.unwrap_or_else(|_| Err(core.writer.lock().poison("a checkpoint or merge in the background panicked".into())))
                });
                let waiting = core.clone();
                drop(core);
                wait(&waiting.background.called, &waiting.background.wake, IDLE);
            }
        };
        let thread = std::thread::Builder::new().name(THREAD_NAME.into()).spawn(run);
        *self.background.thread.lock() = Some(thread.map_err(|e| Error::io("starting the background thread", e))?);
        Ok(())
    }

    /// Syncs what was committed since the last sync, when a commit was promised one.
    fn sync_promised(&self) -> Result<()> {
        if self.background.interval.lock().is_some() {
            let mut w = self.writer.lock();
            if w.poisoned.is_none() && w.wal.as_ref().is_some_and(|wal| wal.unsynced_bytes() > 0) {
                self.sync_log(&mut w)?;
                self.witness(&mut w);
            }
        }
        Ok(())
    }

    /// Syncs what a thread that was stopped can no longer sync in its time. Of a failure, nobody is left to be told.
    pub(crate) fn keep_promises(&self) {
        let synced = catch_unwind(AssertUnwindSafe(|| self.sync_promised()));
        let synced = synced.unwrap_or_else(|_| Err(self.writer.lock().poison("a sync while closing panicked".into())));
        synced.unwrap_or_else(|e| self.background.failed(e));
    }

    /// Lets a panic stop the writer before it goes on to the caller: nobody knows what was left halfway.
    pub(crate) fn guarded<T>(&self, what: &str, act: impl FnOnce() -> T) -> T {
        catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
            self.writer.lock().poison(what.into());
            resume_unwind(panic)
        })
    }

    /// What is due now: flushes, merges, garbage that had to wait. Whether all of it is done.
    fn background_work(&self) -> Result<bool> {
        if self.writer.lock().poisoned.is_some() {
            return Ok(false);
        }
        {
            let _maintenance = self.maintenance.lock();
            self.flush_frozen()?;
        }
        let mut damage = Damage::default();
        while !self.background.stop.load(Ordering::Relaxed) && self.merge_due(&mut damage)? {
            let _maintenance = self.maintenance.lock();
            self.flush_frozen()?;
        }
        if self.files.is_waiting() {
            let _maintenance = self.maintenance.lock();
            self.collect_garbage_or_tell();
        }
        damage.into_result().map(|()| true)
    }

    /// Carries out a pass of merges that are due. False when none was.
    pub(crate) fn merge_due(&self, damage: &mut Damage) -> Result<bool> {
        let _merging = self.merging.lock();
        match self.merge_pass(damage, |field| policy::due(field, self.options.merge_fan_in)) {
            Err(Error::Interrupted(_)) => Ok(false),
            other => other,
        }
    }

    /// Carries out the plans that `choose` finds now. False when it finds none. The caller holds `merging`.
    pub(crate) fn merge_pass(&self, damage: &mut Damage, choose: impl FnOnce(Field<'_>) -> Vec<Plan>) -> Result<bool> {
        let (version, catalog) = {
            let w = self.writer.lock();
            (w.version.clone(), w.catalog.clone())
        };
        let plans = choose(Field {
            version: &version,
            catalog: &catalog,
            skip: &damage.collections,
            graph_vectors: super::graphs::from(&self.options),
        });
        if plans.is_empty() {
            return Ok(false);
        }
        // Plans whose inputs were gone are none the next time: there may be others.
        for (incarnation, error) in self.merge(&plans)?.damaged {
            damage.collections.insert(incarnation);
            damage.first.get_or_insert(error);
        }
        Ok(true)
    }

    /// After a commit: freeze a full memtable, and let the thread flush it, or flush it here when there is no thread or it lags behind.
    pub(crate) fn after_commit(&self) {
        // What is published says enough: the writer's lock would keep the next group waiting.
        let (full, waiting) = {
            let shown = self.published.read();
            let log_bytes = self.log_bytes.load(Ordering::Relaxed);
            (shown.version.active.bytes() >= self.options.memtable_bytes || log_bytes >= self.options.wal_bytes, shown.version.frozen.len())
        };
        // A landed batch freezes what was before it, however little that was.
        let left = waiting > 0 && !self.options.background;
        if !full && !left {
            return;
        }
        if self.writable(&self.writer.lock()).is_err() {
            return;
        }
        // The commit itself is durable and was answered; what went wrong here is told by the next call that needs it done, and by `health`.
        self.background.attempt(|| self.guarded("a checkpoint or merge panicked", || self.relieve(full, left, waiting)));
    }

    /// Freezes, flushes or merges what [`Core::after_commit`] found. Whether all of it is done.
    fn relieve(&self, full: bool, left: bool, waiting: usize) -> Result<bool> {
        if left && !full {
            // Whoever holds it is flushing or publishing; a commit does not wait for that only to look for what is left. The next one looks again.
            let Some(_maintenance) = self.maintenance.try_lock() else { return Ok(false) };
            self.flush_frozen().map(|()| true)
        } else if self.options.background && waiting == 0 {
            let mut w = self.writer.lock();
            let again = w.wal.as_ref().is_some_and(|wal| wal.end_offset() >= self.options.wal_bytes)
                || w.version.active.bytes() >= self.options.memtable_bytes;
            let result = if again && w.version.frozen.is_empty() { self.freeze(&mut w) } else { Ok(()) };
            drop(w);
            self.background.call();
            result.map(|()| false)
        } else {
            self.checkpoint()?;
            if self.options.background {
                return Ok(false);
            }
            self.merge_all_due().map(|()| true)
        }
    }

    /// Before a commit: when what is frozen takes too much memory, because flushing it failed, tries again, and refuses new documents when
    /// that fails too. The published version says how much there is: the writer's lock would keep commits from sharing a group.
    pub(crate) fn relieve_memory(&self) -> Result<()> {
        let frozen: usize = self.published.read().version.frozen.iter().map(|f| f.memtable.bytes()).sum();
        if frozen < self.options.memtable_bytes.saturating_mul(FROZEN_MEMTABLES_MAX) {
            return Ok(());
        }
        let _maintenance = self.maintenance.lock();
        self.flush_frozen()
    }

    /// Carries out merges until none is due. Collections with damaged files are passed over; the first damage is the error, at the end.
    pub(crate) fn merge_all_due(&self) -> Result<()> {
        let mut damage = Damage::default();
        while self.merge_due(&mut damage)? {}
        damage.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_gives_way_until_nobody_waits_any_more() {
        let background = Background::default();
        let gives_way = || background.give_way.load(Ordering::Relaxed);
        background.give_way(|| {
            background.give_way(|| assert!(gives_way()));
            assert!(gives_way(), "one still waits");
            background.stop();
            assert!(gives_way(), "stopping ends for nobody else");
        });
        assert!(!gives_way() && !background.stop.load(Ordering::Relaxed));
    }
}
