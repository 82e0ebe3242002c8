//! One history that a [`Chooser`] decides: which workload, where it stops, whether the power goes with the process, what survives, whether the
//! recovery is stopped too, and what survives that. An odometer plays every history, a property test and a fuzzer play any.

use triune::Database;
use triune::io::sim::{Chooser, SimDirectory};

use super::oracle::{self, Allowed, Found};
use super::probe::{Moment, Probe, Progress};
use super::sweep::{Checked, moments_of};
use super::workloads::Workload;

/// Every moment at which one of some workloads can be stopped.
pub struct Histories {
    runs: Vec<(&'static str, Vec<Moment>)>,
    /// The most images that a moment may leave; moments that leave more are left out.
    images: Option<usize>,
    /// At every how many moments the recovery may be stopped too.
    nested_every: usize,
}

/// What was played.
#[derive(Debug, Clone, Copy, Default)]
pub struct Played {
    pub kills: usize,
    pub cuts: usize,
    /// Of both, those whose recovery was stopped too.
    pub nested: usize,
}

impl Played {
    pub fn add(&mut self, other: Played) {
        self.kills += other.kills;
        self.cuts += other.cuts;
        self.nested += other.nested;
    }
}

impl Histories {
    /// Carries out the workloads once.
    pub fn of(workloads: &[Workload], images: Option<usize>, nested_every: usize) -> Histories {
        let few = |moment: &Moment| is_small(&moment.disk, images);
        let run = |w: &Workload| (w.name, moments_of(w).1.into_iter().filter(few).collect());
        Histories { runs: workloads.iter().map(run).collect(), images, nested_every }
    }

    pub fn name(&self) -> String {
        self.runs.iter().map(|(name, moments)| format!("{name} ({} moments)", moments.len())).collect::<Vec<_>>().join(", ")
    }
}

fn is_small(disk: &SimDirectory, images: Option<usize>) -> bool {
    images.is_none_or(|limit| disk.survivor_images(limit).is_exhaustive())
}

/// How a machine stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Kill,
    Cut,
    /// A power cut that may leave sectors with neither the old nor the new bytes.
    Garbage,
}

/// What is left of a disk.
fn leave(disk: &SimDirectory, images: Option<usize>, chooser: &mut dyn Chooser) -> (End, SimDirectory) {
    let disk = disk.snapshot();
    disk.set_garbage(true);
    // With garbage there are many more images: an odometer takes it only where there are few all the same.
    let ends: &[End] = if is_small(&disk, images) { &[End::Kill, End::Cut, End::Garbage] } else { &[End::Kill, End::Cut] };
    let end = ends[chooser.pick(ends.len())];
    disk.set_garbage(end == End::Garbage);
    let image = if end == End::Kill { disk.after_kill() } else { disk.survivors(chooser) };
    (end, image)
}

/// Plays the history that `chooser` decides, and holds every promise against what it leaves. Images that `checked` has seen are not opened again.
pub fn play(histories: &Histories, chooser: &mut dyn Chooser, checked: &mut Checked) -> Result<Played, String> {
    let (name, moments) = &histories.runs[chooser.pick(histories.runs.len())];
    let at = chooser.pick(moments.len());
    let moment = &moments[at];
    let nestable = at % histories.nested_every == 0;
    let (end, image) = leave(&moment.disk, histories.images, chooser);
    let (of_cut, of_kill) = (Allowed::after_power_cut(&moment.progress), Allowed::after_kill(&moment.progress));
    let here = |what: String| format!("{name}, {end:?} before operation {}: {what}", moment.disk.operations());
    let mut played = Played { kills: usize::from(end == End::Kill), cuts: usize::from(end != End::Kill), nested: 0 };
    if !nestable || chooser.pick(2) == 0 {
        let allowed = if end == End::Kill { &of_kill } else { &of_cut };
        checked.check(&image, allowed).map_err(here)?;
        return Ok(played);
    }
    played.nested = 1;
    let allowed = if end == End::Kill { (of_cut, of_kill) } else { exactly_found(&image, &of_cut, checked).map_err(here)? };
    stop_recovery(histories, &image, allowed, chooser, checked).map_err(here)?;
    Ok(played)
}

/// After a power cut nothing is pending, so a first recovery settles what any later one finds.
fn exactly_found(image: &SimDirectory, of_cut: &Allowed, checked: &mut Checked) -> Result<(Allowed, Allowed), String> {
    let found = checked.check(&image.snapshot(), of_cut)?;
    Ok((of_cut.exactly(found), of_cut.exactly(found)))
}

/// Opens for writing, stops that somewhere, and opens what it leaves.
fn stop_recovery(
    histories: &Histories,
    image: &SimDirectory,
    (of_cut, of_kill): (Allowed, Allowed),
    chooser: &mut dyn Chooser,
    checked: &mut Checked,
) -> Result<(), String> {
    let probe = Probe::new(image.snapshot(), Progress::default());
    if let Ok(db) = Database::open_with(probe.directory(), oracle::options()) {
        db.sync().map_err(|e| format!("a sync after a recovery: {e}"))?;
        probe.learn(|p| (p.created, p.synced) = (true, db.snapshot().lsn().0 as usize));
    }
    let moments: Vec<Moment> = probe.take_moments().into_iter().filter(|m| is_small(&m.disk, histories.images)).collect();
    if moments.is_empty() {
        return Ok(());
    }
    let moment = &moments[chooser.pick(moments.len())];
    let of_cut = if moment.progress.created { of_cut.exactly(Found::At(moment.progress.synced)) } else { of_cut };
    let (end, image) = leave(&moment.disk, histories.images, chooser);
    let found = checked.check(&image, if end == End::Kill { &of_kill } else { &of_cut });
    found.map(drop).map_err(|e| format!("recovery, {end:?} before operation {}: {e}", moment.disk.operations()))
}
