//! How much of the true nearest a search finds, measured on the user's own vectors.

use super::snapshot::Collection;
use super::version::Part;
use crate::error::Result;
use crate::ids::Lsn;
use crate::options::Effort;
use crate::ranking::{RowAddress, Scored};
use std::time::{Duration, Instant};

/// The nearest that are looked for.
const K: usize = 10;
/// What rounding may make of a score, as a share of it: vectors of one direction score 1 or a hair less, and are equally near.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// What [`Collection::audit_recall`] measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct RecallAudit {
    /// Documents that have a vector.
    pub vectors: u64,
    /// How many of them were asked about; 0 when there is none, and then nothing else was measured.
    pub sampled: u64,
    /// The share of the true ten nearest that was found, 0 to 1, on average. A vector that is as near as the tenth, but for
    /// rounding, counts as one of them. 1 when nothing was sampled.
    pub recall: f64,
    /// How many of those asked about got all of the ten.
    pub perfect: u64,
    /// Vector graphs that were walked, on average of a question.
    pub walks: f64,
    /// Wall time of a search, on average.
    pub took: Duration,
    /// Wall time of an exact search, on average.
    pub exact_took: Duration,
}

impl Collection {
    /// Searches `n` of the stored vectors, spread evenly over all, with `effort` and exactly, each leaving itself out, and compares the ten
    /// nearest. On one thread. O(n x vectors x dimension).
    ///
    /// ```
    /// # use triune::{Database, Document, Effort, Schema};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Database::create(dir.path().join("db"))?;
    /// # db.create_collection("notes", Schema::default())?;
    /// db.put("notes", (0..50).map(|i| Document::new(i.to_string()).vector([i as f32, 1.0])).collect())?;
    /// let audit = db.snapshot().collection("notes")?.audit_recall(20, Effort::DEFAULT)?;
    /// // So few vectors are compared one by one.
    /// assert_eq!((audit.vectors, audit.sampled, audit.recall, audit.walks), (50, 20, 1.0, 0.0));
    /// # Ok::<(), triune::Error>(())
    /// ```
    pub fn audit_recall(&self, n: u64, effort: Effort) -> Result<RecallAudit> {
        self.audit_recall_with(n, effort, |_, _| {})
    }

    /// As [`Collection::audit_recall`], telling `progress` how many are measured, and of how many.
    pub fn audit_recall_with(&self, n: u64, effort: Effort, mut progress: impl FnMut(u64, u64)) -> Result<RecallAudit> {
        let mut audit = RecallAudit { vectors: self.parts.totals().vectors, recall: 1.0, ..RecallAudit::default() };
        let sample = self.sample(n.min(audit.vectors), audit.vectors)?;
        let (mut recall, mut walks) = (0.0, 0u64);
        let (mut took, mut exact_took) = (Duration::ZERO, Duration::ZERO);
        for (done, address) in (1u64..).zip(&sample) {
            let document = self.parts.parts[address.part as usize].document(address.row, true)?;
            let Some(vector) = &document.vector else { continue };
            let start = Instant::now();
            let found = self.nearest_explained(vector, None, K + 1, effort)?;
            took += start.elapsed();
            let start = Instant::now();
            let truth = self.nearest_explained(vector, None, K + 1, Effort::Exact)?;
            exact_took += start.elapsed();
            let share = share_found(&others(found.hits, *address), &others(truth.hits, *address));
            recall += share;
            walks += found.walks;
            audit.perfect += u64::from(share >= 1.0);
            audit.sampled += 1;
            progress(done, sample.len() as u64);
        }
        if audit.sampled > 0 {
            let by = audit.sampled as f64;
            (audit.recall, audit.walks) = (recall / by, walks as f64 / by);
            (audit.took, audit.exact_took) = (took.div_f64(by), exact_took.div_f64(by));
        }
        Ok(audit)
    }

    /// Where `n` of the `vectors` live vectors stand, spread evenly. O(rows).
    fn sample(&self, n: u64, vectors: u64) -> Result<Vec<RowAddress>> {
        let mut sample = Vec::with_capacity(n.min(1 << 20) as usize);
        // The middle of each of `n` equal pieces.
        let place = |i: u64| ((2 * i + 1) as f64 / (2 * n) as f64 * vectors as f64) as u64;
        let mut passed = 0;
        for (part, of) in self.parts.parts.iter().enumerate() {
            of.for_each_with_vector(self.parts.lsn, |row| {
                if (sample.len() as u64) < n && passed == place(sample.len() as u64) {
                    sample.push(RowAddress { part: part as u32, row });
                }
                passed += 1;
            })?;
        }
        Ok(sample)
    }
}

/// Without the vector that was asked about; at most as many as are looked for.
fn others(mut hits: Vec<Scored>, itself: RowAddress) -> Vec<Scored> {
    hits.retain(|hit| hit.address != itself);
    hits.truncate(K);
    hits
}

/// The share of `truth` that was found: what scores like its last belongs to it, whichever of several equals it is.
fn share_found(found: &[Scored], truth: &[Scored]) -> f64 {
    let Some(last) = truth.last() else { return 1.0 };
    let least = last.score - last.score.abs() * ROUNDING;
    let hits = found.iter().filter(|hit| hit.score >= least).count();
    (hits as f64 / truth.len() as f64).min(1.0)
}

impl Part {
    /// Calls `sink` with each row that has a vector and is seen at `lsn`, ascending. O(rows).
    fn for_each_with_vector(&self, lsn: Lsn, mut sink: impl FnMut(u32)) -> Result<()> {
        match self {
            Part::Segment(s) => {
                let rooms = s.rooms()?;
                let Some(vectors) = &rooms.vectors else { return Ok(()) };
                for position in 0..vectors.count() {
                    let row = vectors.row_at(position)?;
                    if rooms.deaths.lives(row, lsn) {
                        sink(row);
                    }
                }
            }
            Part::Memory(m) => m.rows_at(lsn).filter(|(_, r)| r.document.vector.is_some() && r.visible(lsn)).for_each(|(row, _)| sink(row)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Seq;

    #[test]
    fn equals_of_the_last_count_as_found_and_itself_does_not() {
        let at = |row: u32| RowAddress { part: 0, row };
        let hit = |row: u32, score: f64| Scored { score, seq: Seq(u64::from(row)), address: at(row) };
        let truth = [hit(1, 0.9), hit(2, 0.5)];
        assert_eq!(share_found(&[hit(1, 0.9), hit(3, 0.5)], &truth), 1.0);
        assert_eq!(share_found(&[hit(2, 0.5), hit(4, 0.4)], &truth), 0.5);
        assert_eq!(share_found(&[hit(1, 0.9), hit(5, 0.5 - f64::EPSILON)], &truth), 1.0);
        assert_eq!(share_found(&[hit(1, 0.9), hit(5, 0.5 - 1e-12)], &truth), 0.5);
        assert_eq!(share_found(&[], &truth), 0.0);
        assert_eq!(share_found(&[hit(1, 0.9)], &[]), 1.0);
        let twelve: Vec<Scored> = (0..12).map(|row| hit(row, 1.0 - f64::from(row))).collect();
        assert_eq!(others(twelve, at(3)).iter().map(|h| h.address.row).collect::<Vec<_>>(), [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]);
    }
}
