//! What is kept in the end, and what is told of the rest.

use super::gathering::{Gathering, Life, Row};
use super::names::{self, Name};
use super::{Collector, Gathered};
use crate::ids::Seq;
use crate::inspect::salvage::ledger::{Loss, LossKind};
use crate::inspect::salvage::segment::OpenSegment;
use crate::options::{Components, Schema};
use roaring::RoaringTreemap;
use std::collections::{BTreeMap, HashMap};

impl Collector<'_> {
    /// What is kept, by name; the newest version of an id wins. Tells what is lost of it.
    pub(in crate::inspect::salvage) fn finish(self) -> (Vec<Gathered>, Vec<OpenSegment>) {
        let given: Vec<Name> = self.collections.values().map(|c| c.name.clone()).collect();
        let mut gaps = Gaps::new(self.ledger, &self.applied);
        let mut kept = Vec::new();
        let mut lines = Vec::new();
        for (collection, name) in self.collections.into_values().zip(names::settled(&given)) {
            let (schema, rows, losses) = collection.settle(&mut gaps);
            lines.extend(losses.into_iter().map(|loss| loss.collection(&name)));
            kept.push(Gathered { name, schema, rows });
        }
        gaps.say(self.ledger);
        self.ledger.append(&mut lines);
        kept.sort_by(|a, b| a.name.cmp(&b.name));
        (kept, self.segments)
    }
}

/// Commits that are lost, and how many documents they are taken to have killed.
struct Gaps<'a> {
    /// From the first to the last, by their line in the ledger.
    lines: Vec<(usize, u64, u64)>,
    applied: &'a RoaringTreemap,
    killed: BTreeMap<usize, u64>,
}

impl Gaps<'_> {
    fn new<'a>(ledger: &[Loss], applied: &'a RoaringTreemap) -> Gaps<'a> {
        let range = |(i, loss): (usize, &Loss)| {
            let first = loss.first_lsn.filter(|_| loss.kind == LossKind::Commits)?;
            Some((i, first, loss.last_lsn.unwrap_or(u64::MAX)))
        };
        Gaps { lines: ledger.iter().enumerate().filter_map(range).collect(), applied, killed: BTreeMap::new() }
    }

    /// Whether a row that lived after one commit may have been killed before another one wrote a newer version, though nothing that can be read
    /// says so. The newer one's own commit would have killed it, had it lived until then.
    fn killed(&mut self, older: Life, newer: Life) -> bool {
        if older.doubt.is_some_and(|lsn| lsn <= newer.since) {
            return true;
        }
        let between = (older.since.0.saturating_add(1), newer.since.0.saturating_sub(1));
        let line = self.lines.iter().find(|line| self.holds(line, between)).map(|line| line.0);
        line.inspect(|line| *self.killed.entry(*line).or_default() += 1).is_some()
    }

    /// Whether a line tells of a lost commit between two.
    fn holds(&self, (_, first, last): &(usize, u64, u64), between: (u64, u64)) -> bool {
        let (from, to) = (between.0.max(*first), between.1.min(*last));
        // One that is whole and that nobody understands has a line of its own; a line of a missing log may tell of some that are in another.
        from <= to && (first == last || self.applied.range_cardinality(from..=to) <= to - from)
    }

    /// Tells what lost commits are taken to have done.
    fn say(self, ledger: &mut [Loss]) {
        for (line, documents) in self.killed {
            let reason = &mut ledger[line].reason;
            *reason =
                format!("{reason}; of {documents} documents that live beside a newer one of their id it is taken that they ended here");
        }
    }
}

impl Gathering {
    /// Drops older versions of ids, and tells what is lost.
    fn settle(mut self, gaps: &mut Gaps<'_>) -> (Schema, BTreeMap<Seq, Row>, Vec<Loss>) {
        let mut losses = Vec::new();
        let newest: HashMap<Box<str>, (Seq, Life)> = self.rows.iter().map(|(seq, row)| (row.id.clone(), (*seq, row.life))).collect();
        self.rows.retain(|seq, row| {
            let (newer, life) = newest[&row.id];
            if newer != *seq && !gaps.killed(row.life, life) {
                let reason = format!("it lives beside a newer document of this id, which is kept; nothing replaced it (seq {seq})");
                losses.push(Loss::new(LossKind::Document, reason).id(Some(&row.id)));
            }
            newer == *seq
        });
        let schema = self.settled_schema(&mut losses);
        self.tell_segments(&mut losses);
        for row in self.rows.values_mut() {
            losses.append(&mut row.losses);
        }
        // A lost row that a newer one replaced is not missed.
        for (seq, (life, loss)) in self.lost {
            let newer = loss.id.as_deref().and_then(|id| newest.get(id)).filter(|(newer, _)| *newer > seq);
            if !newer.is_some_and(|(_, newer)| gaps.killed(life, *newer)) {
                losses.push(loss);
            }
        }
        losses.append(&mut self.lost_without_seq);
        (schema, self.rows, losses)
    }

    /// The schema that fits what is kept; and what it is made up of, where it is not the one that was said.
    fn settled_schema(&self, losses: &mut Vec<Loss>) -> Schema {
        let mut schema = self.schema.clone();
        let mut say = |reason: String| losses.push(Loss::new(LossKind::Collection, reason));
        if let Name::Taken { name, by } = &self.name {
            say(format!("collection {by} has its name {name:?}: what became of this one was in a lost commit, and its name is made up"));
        }
        if !self.rows.is_empty() {
            // It is one number, and they are there.
            if let Some((said, found)) = schema.dimension.zip(self.dimension).filter(|(said, found)| said != found) {
                say(format!("the schema says {said} components, the vectors that are here have {found}: it is made to say that"));
            }
            schema.dimension = self.dimension.or(schema.dimension);
            if self.wide {
                let wide = Components::F32;
                say(format!("vectors are here that are not of the form {}; all are kept as {wide}", schema.components));
                schema.components = wide;
            }
        }
        if let Some(made_up) = &self.made_up {
            let key = made_up.keys.key();
            losses.push(self.made_up_schema(&made_up.why, key.as_deref()));
            schema.source_key = key.unwrap_or(schema.source_key);
        }
        schema
    }

    fn made_up_schema(&self, why: &Loss, key: Option<&str>) -> Loss {
        let what = if matches!(self.name, Name::MadeUp(_)) { "name and schema are" } else { "schema is" };
        let key = match key {
            Some(key) if key == self.schema.source_key => String::new(),
            Some(key) => format!("; its source key is {key:?}, which fits every document"),
            None => "; no source key fits every document, so that a dump of it cannot be restored".into(),
        };
        Loss { reason: format!("{}; its {what} made up{key}", why.reason), ..why.clone() }
    }

    /// Tells of segments that cannot be opened or are not what was stored, as far as rows of them live.
    fn tell_segments(&mut self, losses: &mut Vec<Loss>) {
        for unread in self.unread.drain(..) {
            let rows = unread.rows.saturating_sub(unread.dead.len());
            if rows > 0 {
                losses.push(unread.loss.rows(rows));
            }
        }
        for (segment, loss) in self.altered.drain(..) {
            let rows = self.rows.values().filter(|row| row.is_in(segment)).count() as u64;
            if rows > 0 {
                losses.push(loss.rows(rows));
            }
        }
    }
}
