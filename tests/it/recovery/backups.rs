//! Backups that are stopped: the original, its power cut or killed with the backup, is as if there had been none, and the backup is whole, or
//! is refused by name and begins again.
//!
//! Original and backup lie on a disk each, so every pair of what either leaves may be what there is afterwards.

use std::collections::HashSet;
use std::sync::Arc;

use triune::io::Directory;
use triune::io::sim::SimDirectory;
use triune::maintenance::{BackupOptions, backup_into};
use triune::{Database, ErrorCode};

use super::oracle::{self, Allowed, Found};
use super::probe::{Moment, Probe, Progress};
use super::sweep::{Budget, Checked, Tally, crash_recovery, operation_after};

/// Images of the original that each image of a backup is paired with, by turns.
const ORIGINALS: usize = 5;

/// What was looked at of backups.
#[derive(Debug, Clone, Copy, Default)]
pub struct Paired {
    /// Pairs of an image of the original and one of the backup.
    pub pairs: usize,
    /// Of the backups in them, those that are whole, and those that began again.
    pub whole: usize,
    pub again: usize,
}

impl Paired {
    pub fn add(&mut self, other: Paired) {
        self.pairs += other.pairs;
        self.whole += other.whole;
        self.again += other.again;
    }
}

/// Makes a backup of one simulated disk on another.
pub fn back_up(source: &dyn Directory, dest: Arc<dyn Directory>, link: bool) -> triune::Result<usize> {
    let options = BackupOptions { link, ..BackupOptions::default() };
    backup_into(source, &dest, None, &options).map(|report| report.lsn.0 as usize)
}

/// What may be found where a backup was on its way, and the original beside it.
struct Pair<'a> {
    backup: SimDirectory,
    of_backup: &'a Allowed,
    /// Whether a power cut may still take away what the backup shows.
    pending: bool,
    original: SimDirectory,
    of_original: &'a Allowed,
}

/// Checks what every moment of a backup may leave of it and of its original, and what a crash of the second attempt may.
pub fn sweep_backup(name: &str, moments: &[Moment], link: bool, budget: Budget) -> Result<(Tally, Paired), String> {
    let (mut checked, mut paired) = (Checked::default(), Paired::default());
    let mut seen = HashSet::new();
    for (n, moment) in moments.iter().enumerate() {
        let at = |e: String| format!("{name}: backup stopped before {}: {e}", operation_after(moments, n));
        checked.tally.moments += 1;
        let original = moment.beside.as_deref().expect("a backup is made beside its original");
        let of_backup = allowed(&moment.progress);
        let (of_cut, of_kill) = (Allowed::after_power_cut(&original.progress), Allowed::after_kill(&original.progress));
        let killed = original.disk.after_kill();
        let originals: Vec<SimDirectory> = original.disk.survivor_images(ORIGINALS).collect();
        // Killed: both processes at once, or the one that makes the backup alone.
        let mut pairs =
            vec![Pair { backup: moment.disk.after_kill(), of_backup: &of_backup, pending: true, original: killed, of_original: &of_kill }];
        for (i, backup) in moment.disk.survivor_images(budget.images / 4).enumerate() {
            let original = originals[i % originals.len()].snapshot();
            pairs.push(Pair { backup, of_backup: &of_backup, pending: false, original, of_original: &of_cut });
        }
        for (i, pair) in pairs.into_iter().enumerate() {
            let nested = n % budget.nested_every == 0 && i <= budget.nested_images;
            check_pair(&pair, link, &mut checked, &mut paired, &mut seen).map_err(|e| at(format!("pair {i}: {e}")))?;
            if nested {
                let before = checked.tally.distinct;
                stop_again(&pair, link, budget, &mut checked, &mut paired, &mut seen).map_err(|e| at(format!("pair {i}: {e}")))?;
                checked.tally.nested += checked.tally.distinct - before;
            }
        }
    }
    Ok((checked.tally, paired))
}

/// Until it returned, a backup may be unfinished; it holds what the original showed when it began, whatever was committed meanwhile.
fn allowed(progress: &Progress) -> Allowed {
    Allowed { states: progress.states.clone(), least: progress.acknowledged, unfinished: !progress.created }
}

fn check_pair(
    pair: &Pair<'_>,
    link: bool,
    checked: &mut Checked,
    paired: &mut Paired,
    seen: &mut HashSet<(u64, u64)>,
) -> Result<(), String> {
    paired.pairs += 1;
    let original = checked.check(&pair.original.snapshot(), pair.of_original).map_err(|e| format!("the original: {e}"))?;
    let found = checked.check(&pair.backup.snapshot(), pair.of_backup).map_err(|e| format!("the backup: {e}"))?;
    if found != Found::Unfinished {
        paired.whole += 1;
        return Ok(());
    }
    paired.again += 1;
    if !seen.insert((pair.backup.state_hash(), pair.original.state_hash())) {
        return Ok(());
    }
    refused_by_name(&pair.backup)?;
    let (again, before) = (pair.backup.snapshot(), pair.original.operations());
    let lsn = back_up(&pair.original, Arc::new(again.clone()), link).map_err(|e| format!("a backup that begins again: {e}"))?;
    if pair.original.operations() != before || Found::At(lsn) != original {
        return Err(format!("a backup that began again holds lsn {lsn}, the original {original:?}"));
    }
    let exactly = pair.of_original.exactly(original);
    for (what, left) in [("after a power cut", again.survivors_none()), ("after a kill", again.after_kill())] {
        checked.check(&left, &exactly).map_err(|e| format!("a backup that began again, {what}: {e}"))?;
    }
    Ok(())
}

/// Where there is more than a lock, the error says what was cut short.
fn refused_by_name(backup: &SimDirectory) -> Result<(), String> {
    let refusal = Database::open_read_only_with(Arc::new(backup.snapshot()), oracle::options());
    match refusal {
        Err(e) if e.code() != ErrorCode::NotFound => Err(format!("an unfinished backup is told as {e}")),
        Err(e) if backup.file_names().is_empty() || e.to_string().contains("backup was cut short") => Ok(()),
        other => Err(format!("an unfinished backup is told as {other:?}")),
    }
}

/// Stops what comes next before each of its operations: the second attempt, or the recovery of a backup that is whole.
fn stop_again(
    pair: &Pair<'_>,
    link: bool,
    budget: Budget,
    checked: &mut Checked,
    paired: &mut Paired,
    seen: &mut HashSet<(u64, u64)>,
) -> Result<(), String> {
    let original = checked.check(&pair.original.snapshot(), pair.of_original)?;
    let found = checked.check(&pair.backup.snapshot(), pair.of_backup)?;
    if found != Found::Unfinished {
        let exactly = pair.of_backup.exactly(found);
        let of_cut = if pair.pending { pair.of_backup } else { &exactly };
        return crash_recovery(&pair.backup, of_cut, &exactly, budget, 1, checked);
    }
    let exactly = pair.of_original.exactly(original);
    let probe = Probe::new(pair.backup.snapshot(), Progress::default());
    back_up(&pair.original, probe.directory(), link).map_err(|e| format!("a backup that begins again: {e}"))?;
    probe.learn(|p| p.created = true);
    let moments = probe.take_moments();
    for (n, moment) in moments.iter().enumerate().step_by(if budget.full { 1 } else { 7 }) {
        let of_backup = Allowed { unfinished: !moment.progress.created, ..exactly.clone() };
        let images = [moment.disk.after_kill()].into_iter().chain(moment.disk.survivor_images(budget.nested_images));
        for (i, backup) in images.enumerate() {
            let next = Pair { backup, of_backup: &of_backup, pending: i == 0, original: pair.original.snapshot(), of_original: &exactly };
            let at = |e: String| format!("the second attempt stopped before {}, image {i}: {e}", operation_after(&moments, n));
            check_pair(&next, link, checked, paired, seen).map_err(at)?;
        }
    }
    Ok(())
}
