//! Level 0: which files the state reaches, and what the others are.

use super::codes::FindingCode as Code;
use super::report::FsckReport;
use super::state::{Commit, State, recover_other};
use crate::error::Result;
use crate::format::effects::{CatalogChange, CommitEffects, DeadSet};
use crate::format::head::HeadState;
use crate::format::manifest::Manifest;
use crate::ids::Incarnation;
use crate::io::Directory;
use crate::io::names::{self, FileName};
use crate::manifest::is_unfinished;
use crate::manifest::{HeadView, read_manifest};
use crate::wal::{Recovered, has_no_records};
use std::collections::{BTreeMap, BTreeSet};

/// The numbered files that a valid slot reaches.
pub(super) struct Names {
    reached: BTreeSet<FileName>,
    /// The active log.
    active: u64,
    /// Whether all of them are known.
    whole: bool,
    /// Why the older slot's state is not whole.
    fallback: Option<(u64, String)>,
}

impl Names {
    /// Follows both slots.
    pub(super) fn of(dir: &dyn Directory, view: &HeadView, state: &State, recovered: Option<&Recovered>) -> Names {
        let mut names = Names { reached: BTreeSet::new(), active: view.chosen.wal_sequence, whole: state.log_whole, fallback: None };
        names.reached.insert(FileName::Manifest(view.chosen.manifest_number));
        names.manifest(&state.manifest);
        names.logs(recovered);
        state.commits.iter().for_each(|Commit { effects, .. }| names.effects(effects));
        let same = |other: &HeadState| HeadState { generation: view.chosen.generation, ..other.clone() } == view.chosen;
        if let Some(other) = view.other.as_ref().filter(|other| !same(other))
            && let Err(e) = names.follow_other(dir, other)
        {
            names.whole = false;
            names.fallback = Some(((1 - view.chosen_slot as u64) * 4096, e.to_string()));
        }
        names
    }

    /// What the older slot reaches too: a writer that published one slot only stopped right there.
    fn follow_other(&mut self, dir: &dyn Directory, other: &HeadState) -> Result<()> {
        self.reached.insert(FileName::Manifest(other.manifest_number));
        self.manifest(&read_manifest(dir, other)?);
        let recovered = recover_other(dir, other)?;
        self.logs(Some(&recovered));
        for record in &recovered.records {
            let effects = CommitEffects::decode(&record.payload).map_err(|e| e.in_file(&record.file, record.offset))?;
            self.effects(&effects);
        }
        Ok(())
    }

    fn manifest(&mut self, manifest: &Manifest) {
        for segment in manifest.collections.iter().flat_map(|c| &c.segments) {
            self.reached.insert(FileName::Segments(segment.file));
            self.reached.extend(segment.tombstones.as_ref().map(|t| FileName::Tombstones(t.file)));
        }
    }

    fn logs(&mut self, recovered: Option<&Recovered>) {
        self.reached.extend(recovered.into_iter().flat_map(|r| &r.logs).map(|&n| FileName::Wal(n)));
    }

    fn effects(&mut self, effects: &CommitEffects) {
        for c in &effects.collections {
            self.reached.extend(c.landed.iter().map(|entry| FileName::Segments(entry.file)));
            if let DeadSet::File { number, .. } = c.dead {
                self.reached.insert(FileName::Tombstones(number));
            }
        }
    }

    /// Notes every file that nothing reaches. A log before the active one is no leftover worth a word: a writer leaves the last one of the
    /// process before there until it next removes files.
    pub(super) fn check(&self, present: &[String], report: &mut FsckReport) {
        if let Some((at, why)) = &self.fallback {
            report.note(Code::FallbackState, names::HEAD, *at, why.clone());
        }
        if !self.whole {
            return;
        }
        let superseded = |name: FileName| matches!(name, FileName::Wal(sequence) if sequence < self.active);
        let unreached = |name: FileName| !self.reached.contains(&name) && !superseded(name);
        let orphans = present.iter().filter(|name| FileName::parse(name).is_some_and(unreached));
        orphans.for_each(|name| report.note(Code::Orphan, name.clone(), 0, "neither slot of HEAD reaches it; the next writer removes it"));
    }
}

/// Keeps the names of collections in step with a change.
pub(super) fn follow(collections: &mut BTreeMap<Incarnation, String>, change: &CatalogChange) {
    match change {
        CatalogChange::Create { name, incarnation, .. } => drop(collections.insert(*incarnation, name.clone())),
        CatalogChange::Drop { incarnation, .. } => drop(collections.remove(incarnation)),
        CatalogChange::Clear { name, old, new } => {
            collections.remove(old);
            collections.insert(*new, name.clone());
        }
        CatalogChange::Rename { to, incarnation, .. } => drop(collections.insert(*incarnation, to.clone())),
        CatalogChange::Swap { a, b } => {
            for name in collections.values_mut() {
                let swapped = if name == a { Some(b) } else { Some(a).filter(|_| name == b) };
                if let Some(other) = swapped {
                    name.clone_from(other);
                }
            }
        }
        CatalogChange::FixDimension { .. } => {}
    }
}

/// Whether the files are those of a create, a restore or a backup that was cut short: nothing in it counts. Spec §14.8.
pub(super) fn unfinished(dir: &dyn Directory, present: &[String]) -> bool {
    if is_unfinished(dir).unwrap_or(false) {
        return true;
    }
    present.iter().all(|name| match FileName::parse(name) {
        None => is_ours(name),
        Some(FileName::Manifest(1)) => true,
        // A log that cannot be read may hold a commit.
        Some(FileName::Wal(sequence)) => has_no_records(dir, sequence).unwrap_or(false),
        Some(FileName::Manifest(_) | FileName::Segments(_) | FileName::Tombstones(_)) => false,
    })
}

/// Whether a name is one that a database gives.
pub(super) fn is_ours(name: &str) -> bool {
    [names::HEAD, names::LOCK, names::WITNESS, names::BALLAST].contains(&name) || FileName::parse(name).is_some()
}
