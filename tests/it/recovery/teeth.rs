//! Whether the sweep would notice a sync that is missing: each one is left out in turn, and some image has to break a promise.

use std::sync::Arc;

use triune::io::sim::{FailureKind, SimDirectory};

use super::oracle::{Allowed, check};
use super::probe::Moment;
use super::run::Run;
use super::workloads::{Step, Workload};

/// How many images of a moment are looked at, where those that are left when nothing pending survived show nothing.
const IMAGES: usize = 12;

/// Carries out a workload whose operation `n` is left out, and looks for an image that breaks a promise.
pub fn is_noticed(workload: &Workload, n: usize) -> bool {
    let disk = SimDirectory::newly_made();
    disk.fail(n, FailureKind::Skip);
    let run = Run::create(disk, workload.options.clone()).expect("a missing sync is no error");
    is_noticed_in(&run, &workload.steps, n)
}

/// The same for the next process after a kill at `moment`, and its first sync of HEAD.
pub fn is_settling_noticed(workload: &Workload, moment: &Moment, steps: &[Step]) -> bool {
    let resume = |missing: Option<usize>| {
        let disk = moment.disk.after_kill();
        missing.iter().for_each(|&n| disk.fail(n, FailureKind::Skip));
        Run::resume(disk, workload.options.clone(), moment.progress.clone())
    };
    let run = resume(None);
    steps.iter().for_each(|step| run.step(step));
    let trace = run.probe.take_moments().last().expect("the end is a moment").disk.trace();
    let n = trace.iter().position(|o| o.to_string() == "sync HEAD").expect("a writer settles HEAD");
    is_noticed_in(&resume(Some(n)), steps, n)
}

fn is_noticed_in(run: &Arc<Run>, steps: &[Step], n: usize) -> bool {
    steps.iter().for_each(|step| run.step(step));
    assert!(run.take_failures().is_empty(), "a missing sync is no error");
    let moments = run.probe.take_moments();
    let from = moments.iter().position(|m| m.disk.operations() > n).unwrap_or(moments.len());
    let breaks = |moment: &Moment, images: usize| {
        // Torn slots of HEAD are valid, since all that they say lies in one sector: without garbage their syncs are not needed.
        moment.disk.set_garbage(true);
        let allowed = Allowed::after_power_cut(&moment.progress);
        moment.disk.survivor_images(images).any(|image| check(&image, &allowed).is_err())
    };
    // What is left when nothing pending survived shows most of them at a fraction of the cost.
    moments[from..].iter().any(|m| breaks(m, 1)) || moments[from..].iter().any(|m| breaks(m, IMAGES))
}
