//! How the tests of graphs ask: whatever way an answer was come by, these things hold of it.

use std::collections::BTreeMap;
use triune::inspect::{FsckOptions, fsck_directory};
use triune::io::sim::SimDirectory;
use triune::{Collection, Database, Effort, Filter, Nearest, Seq};

pub fn main_of(db: &Database) -> Collection {
    db.snapshot().collection("main").unwrap()
}

/// What is found, and the share of the true nearest in it. There are as many hits as there can be, in order; none stands twice, is dead or is
/// left out by the filter, and each has the score that comparing all gives it, to the bit.
pub fn ask(collection: &Collection, query: &[f32], filter: Option<&Filter>, k: usize, effort: Effort) -> (Nearest, f64) {
    let all = collection.nearest_explained(query, filter, collection.count().max(1) as usize, Effort::Exact).unwrap();
    assert_eq!((all.walks, all.code_scans), (0, 0), "{effort:?}");
    let found = collection.nearest_explained(query, filter, k, effort).unwrap();
    let about = format!("k {k}, {effort:?}, {filter:?}: {found:?}");
    assert_eq!(found.hits.len(), k.min(all.hits.len()), "{about}");
    let scores: BTreeMap<Seq, u64> = all.hits.iter().map(|hit| (hit.seq, hit.score.to_bits())).collect();
    assert!(found.hits.iter().all(|hit| scores.get(&hit.seq) == Some(&hit.score.to_bits())), "{about}");
    assert!(found.hits.windows(2).all(|w| w[0].score > w[1].score || (w[0].score == w[1].score && w[0].seq < w[1].seq)), "{about}");
    let Some(last) = found.hits.len().checked_sub(1).map(|last| all.hits[last].score) else { return (found, 1.0) };
    let share = found.hits.iter().filter(|hit| hit.score >= last).count() as f64 / found.hits.len() as f64;
    (found, share)
}

pub fn ids_of(collection: &Collection, found: &Nearest) -> Vec<String> {
    found.hits.iter().map(|hit| collection.id_of(hit).unwrap()).collect()
}

/// `fsck` looks at all there is and has nothing to say.
#[track_caller]
pub fn is_clean(disk: &SimDirectory) {
    let report = fsck_directory(disk, &FsckOptions::level(3)).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}
