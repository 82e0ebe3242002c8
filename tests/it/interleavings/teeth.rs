//! Rules that the model check showed to be necessary and that no interleaving of the list rests on alone.

use super::{Do, rests_on, two_documents, workload};
use crate::recovery::faults::{self, Fault};
use crate::recovery::model::{Op, State, documents};
use crate::recovery::oracle::{Allowed, check, options};
use crate::recovery::sweep::moments_of;
use crate::recovery::workloads::{Step, one};
use std::sync::Arc;
use triune::Database;
use triune::format::head::HEAD_SLOT_BYTES;
use triune::format::sabotage::Rule;
use triune::io::sim::{FailureKind, Operation};

/// A slot that rots later loses nothing, since the other says the same before anything rests on either.
#[test]
fn both_slots_say_it_before_anything_rests_on_it() {
    let w = workload("slots", vec![two_documents(), Step::Checkpoint, Do(vec![Op::Put("a", one("y", "more"))])]);
    let either_slot = || {
        let (_, moments) = moments_of(&w);
        let left = moments.last().unwrap();
        for slot in [0, 1] {
            let disk = left.disk.after_kill();
            let mut head = disk.read_file("HEAD").unwrap();
            head[slot * HEAD_SLOT_BYTES..(slot + 1) * HEAD_SLOT_BYTES].fill(0);
            disk.write_file("HEAD", head);
            let db = Database::open_read_only_with(Arc::new(disk), options()).map_err(|e| format!("without slot {slot}: {e}"))?;
            if State::read(&db)? != *left.progress.states[left.progress.acknowledged] {
                return Err(format!("without slot {slot} an older state is found"));
            }
        }
        Ok(())
    };
    rests_on(Rule::BothSlots, either_slot);
}

#[test]
fn a_failed_sync_is_not_tried_again() {
    let w = workload("retry", vec![two_documents(), Do(vec![Op::Put("a", one("y", "more"))])]);
    let (_, moments) = moments_of(&w);
    let trace = moments.last().unwrap().disk.trace();
    let n = trace.iter().rposition(|o| matches!(o, Operation::SyncFile { name } if name.ends_with(".wal"))).unwrap();
    rests_on(Rule::NoRetry, || faults::survive(&w, n, Fault::Once(FailureKind::Keep), 4, 8).map(drop));
}

/// Without this a crash could leave a hole: a commit without the one before it.
#[test]
fn what_follows_the_first_bad_record_is_dropped() {
    let put = |id: &str| Step::Buffered(vec![Op::Put("a", documents(id, 4, "s"))]);
    let w = workload("holes", vec![two_documents(), put("p"), put("q"), put("r")]);
    let no_hole = || {
        let (_, moments) = moments_of(&w);
        let moment = moments.last().unwrap();
        let allowed = Allowed::after_power_cut(&moment.progress);
        moment.disk.survivor_images(200).try_for_each(|image| check(&image, &allowed).map(drop))
    };
    rests_on(Rule::LaterRecordsDropped, no_hole);
}
