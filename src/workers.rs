//! Calls side by side, answers in order.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Starts a thread of a scope; `None` when the system has none left. What it would have done is whoever calls to do.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work).ok()
}

/// Runs `job` for `0..jobs`, at most `workers` at once, and gives the results in that order. The caller's thread is one of them; when the system
/// has no further threads, those that there are do it all.
pub(crate) fn side_by_side<T: Send>(jobs: usize, workers: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    if jobs.min(workers) <= 1 {
        return (0..jobs).map(job).collect();
    }
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<T>>> = (0..jobs).map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = results.get(i) else { return };
            *slot.lock() = Some(job(i));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.min(workers) {
            if spawn(scope, work).is_none() {
                break;
            }
        }
        work();
    });
    results.into_iter().filter_map(Mutex::into_inner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn results_stand_in_the_order_of_the_jobs() {
        assert_eq!(side_by_side(100, 8, |i| i * i), (0..100).map(|i| i * i).collect::<Vec<_>>());
        assert_eq!(side_by_side(3, 1, |i| i), [0, 1, 2]);
        assert_eq!(side_by_side(0, 8, |i| i), [0usize; 0]);
    }

    #[test]
    fn as_many_as_workers_run_at_once_and_no_more() {
        // All of a wave meet, so that many run at once; were there more, the counter would say so.
        let (meet, running) = (Barrier::new(4), AtomicUsize::new(0));
        let most = side_by_side(16, 4, |_| {
            let now = running.fetch_add(1, Ordering::SeqCst) + 1;
            meet.wait();
            running.fetch_sub(1, Ordering::SeqCst);
            meet.wait();
            now
        });
        assert_eq!(most.into_iter().max(), Some(4));
    }
}
