//! What tidies a database on request or before it closes: compacting, folding small segments, removing files that nothing names.

use super::background::Damage;
use super::core::Core;
use super::policy::{self, Field};
use crate::error::Result;
use std::sync::atomic::Ordering;

impl Core {
    /// See [`Database::compact`].
    pub(super) fn compact(&self) -> Result<()> {
        self.checkpoint()?;
        // What the background is at would be merged once more, and by fewer threads.
        let merging = self.background.give_way(|| self.merging.lock());
        let compacted = self.merge_whole();
        drop(merging);
        // What it gave up may still be due.
        self.background.call();
        compacted
    }

    /// Merges each collection into one segment, and removes what that left. The caller holds `merging`.
    fn merge_whole(&self) -> Result<()> {
        let mut damage = Damage::default();
        while self.merge_pass(&mut damage, policy::whole)? {}
        let removed = self.wait_for_garbage();
        damage.into_result()?;
        removed.map_err(|e| {
            e.noting(
                "what was compacted stands; only removing files that nothing names any more failed, and the next compaction tries again",
            )
        })
    }

    /// Folds small young segments, at most as many bytes as this handle wrote, so that many short sessions leave few segments.
    pub(super) fn fold(&self) -> Result<()> {
        let _merging = self.merging.lock();
        let mut budget = 2 * self.bytes_flushed.load(Ordering::Relaxed);
        let mut damage = Damage::default();
        let within = |field: Field<'_>, budget: &mut u64| {
            let plans = policy::fold(field, *budget);
            *budget -= plans.iter().flat_map(|p| &p.inputs).map(|s| s.entry.length).sum::<u64>();
            plans
        };
        while self.merge_pass(&mut damage, |field| within(field, &mut budget))? {}
        damage.into_result()
    }

    /// Removes what nothing reaches, waiting up to 5 s for processes that are opening.
    pub(super) fn wait_for_garbage(&self) -> Result<()> {
        for _ in 0..500 {
            // Not held while waiting: commits may need a checkpoint meanwhile.
            let collected = {
                let _maintenance = self.maintenance.lock();
                self.collect_garbage()?
            };
            if collected {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(())
    }
}
