//! From a filter to its rows.

use super::lookup::Lookup;
use super::{KeyRange, MetadataIndex};
use crate::error::Result;
use crate::filter::{Filter, Node, SourceTest, Test};
use roaring::RoaringBitmap;

/// What an index of metadata does not know of the rows.
pub trait Beside {
    /// Whether the document of a row matches every one of these filters. It is asked rows in ascending order within one conjunction.
    fn matches(&mut self, row: u32, filters: &[&Filter]) -> Result<bool>;

    /// The rows of documents of this source; of any, without a name.
    fn of_source(&mut self, source: Option<&str>) -> Result<RoaringBitmap>;
}

/// How many keys of an index are looked at in the time that one document takes to be read.
const DOCUMENT_COST: u64 = 100;

/// Lists of values longer than this are not looked up to learn what they cost.
const VALUES_COSTED: usize = 64;

/// The rows of `index` that match `filter`, dead ones included. Documents are read through `beside`, for `$regex`, `$text` and values
/// too long for a key, and where few rows are left and reading them costs less than a wide range of keys.
pub fn evaluate(filter: &Filter, index: &impl MetadataIndex, beside: &mut impl Beside) -> Result<RoaringBitmap> {
    let mut all = RoaringBitmap::new();
    all.insert_range(0..index.rows());
    evaluate_within(filter, index, &all, beside)
}

/// As [`evaluate`], of the rows in `within` alone, such as the living ones. They are below [`MetadataIndex::rows`].
pub fn evaluate_within(
    filter: &Filter,
    index: &impl MetadataIndex,
    within: &RoaringBitmap,
    beside: &mut impl Beside,
) -> Result<RoaringBitmap> {
    Evaluation { index, beside }.rows(filter, within)
}

struct Evaluation<'a, I, B> {
    index: &'a I,
    beside: &'a mut B,
}

/// What a filter asks for: documents, and so many keys. Ordered by what is better done first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    documents: bool,
    keys: u64,
}

impl<I: MetadataIndex, B: Beside> Evaluation<'_, I, B> {
    /// The rows of `within` that match.
    fn rows(&mut self, filter: &Filter, within: &RoaringBitmap) -> Result<RoaringBitmap> {
        if within.is_empty() {
            return Ok(RoaringBitmap::new());
        }
        match filter.node() {
            Node::All(all) => self.all(all, within),
            Node::Any(any) => self.any(any, within),
            Node::Not(f) => Ok(within - self.rows(f, within)?),
            Node::Text(_) => self.check(&[filter], within.clone()),
            Node::Source(SourceTest::Exists) => Ok(self.beside.of_source(None)? & within),
            Node::Source(SourceTest::In(sources)) => {
                let mut rows = RoaringBitmap::new();
                for source in sources {
                    rows |= self.beside.of_source(Some(source))?;
                }
                Ok(rows & within)
            }
            Node::Field(path, test) => {
                let lookup = Lookup::of(path, test);
                let sure = self.collect(&lookup.sure)? & within;
                let maybe = (self.collect(&lookup.maybe)? & within) - &sure;
                Ok(sure | self.check(&[filter], maybe)?)
            }
        }
    }

    /// The rows that match every filter: the cheapest first, and the documents of what is left last.
    fn all(&mut self, all: &[Filter], within: &RoaringBitmap) -> Result<RoaringBitmap> {
        let mut steps = Vec::new();
        plan(all, &mut steps);
        let mut steps = steps.into_iter().map(|step| Ok((self.step_cost(&step)?, step))).collect::<Result<Vec<_>>>()?;
        steps.sort_by_key(|(cost, _)| *cost);
        let mut left = within.clone();
        let mut deferred: Vec<&Filter> = Vec::new();
        for (cost, step) in steps {
            if left.is_empty() {
                return Ok(left);
            }
            let cheap = cost.keys < left.len().saturating_mul(DOCUMENT_COST);
            match step {
                Step::Range { range, .. } if cheap => left &= self.collect([&range])?,
                Step::Range { filters, .. } => deferred.extend(filters),
                Step::Other(filter) if asks_documents_only(filter) => {
                    // A regular expression is asked only of documents that have the key.
                    if let Node::Field(path, test) = filter.node()
                        && cheap
                    {
                        left &= self.collect(Lookup::of(path, test).ranges())?;
                    }
                    deferred.push(filter);
                }
                Step::Other(filter) if cheap => left = self.rows(filter, &left)?,
                Step::Other(filter) => deferred.push(filter),
            }
        }
        if deferred.is_empty() { Ok(left) } else { self.check(&deferred, left) }
    }

    /// The rows with a key in one of these ranges.
    fn collect<'k>(&self, ranges: impl IntoIterator<Item = &'k KeyRange>) -> Result<RoaringBitmap> {
        let mut rows = RoaringBitmap::new();
        for range in ranges {
            self.index.collect(range, &mut rows)?;
        }
        Ok(rows)
    }

    /// The rows that match some filter: each is asked only for the rows that those before did not find.
    fn any(&mut self, any: &[Filter], within: &RoaringBitmap) -> Result<RoaringBitmap> {
        let mut found = RoaringBitmap::new();
        let mut left = within.clone();
        let mut order = any.iter().map(|f| Ok((self.cost(f)?, f))).collect::<Result<Vec<_>>>()?;
        order.sort_by_key(|(cost, _)| *cost);
        for (_, filter) in order {
            let rows = self.rows(filter, &left)?;
            left -= &rows;
            found |= rows;
        }
        Ok(found)
    }

    /// The rows of `rows` whose documents match every filter.
    fn check(&mut self, filters: &[&Filter], rows: RoaringBitmap) -> Result<RoaringBitmap> {
        let mut kept = RoaringBitmap::new();
        for row in rows {
            if self.beside.matches(row, filters)? {
                kept.insert(row);
            }
        }
        Ok(kept)
    }

    fn step_cost(&self, step: &Step<'_>) -> Result<Cost> {
        match step {
            Step::Range { range, .. } => Ok(Cost { documents: false, keys: self.index.cost(range, self.enough())? }),
            Step::Other(filter) => self.cost(filter),
        }
    }

    /// Beyond so many keys, reading every document costs less.
    fn enough(&self) -> u64 {
        u64::from(self.index.rows()).saturating_mul(DOCUMENT_COST)
    }

    fn cost(&self, filter: &Filter) -> Result<Cost> {
        match filter.node() {
            Node::All(filters) | Node::Any(filters) => {
                let mut sum = Cost { documents: false, keys: 0 };
                for filter in filters {
                    let cost = self.cost(filter)?;
                    sum = Cost { documents: sum.documents || cost.documents, keys: sum.keys.saturating_add(cost.keys) };
                }
                Ok(sum)
            }
            Node::Not(f) => self.cost(f),
            Node::Text(_) => Ok(Cost { documents: true, keys: 0 }),
            Node::Source(SourceTest::In(sources)) => Ok(Cost { documents: false, keys: sources.len() as u64 }),
            // Every entry of the list of sources is read.
            Node::Source(SourceTest::Exists) => Ok(Cost { documents: false, keys: u64::from(self.index.rows()) }),
            Node::Field(_, Test::In(values)) if values.len() > VALUES_COSTED => Ok(Cost { documents: false, keys: values.len() as u64 }),
            Node::Field(path, test) => {
                let lookup = Lookup::of(path, test);
                let mut keys = 0u64;
                for range in lookup.ranges() {
                    keys = keys.saturating_add(self.index.cost(range, self.enough())?);
                }
                Ok(Cost { documents: !lookup.maybe.is_empty(), keys })
            }
        }
    }
}

/// One thing to do for a conjunction.
enum Step<'f> {
    /// These comparisons of the value at one path: what they have in common is one range.
    Range { path: &'f str, range: KeyRange, filters: Vec<&'f Filter> },
    /// Anything else.
    Other(&'f Filter),
}

/// The steps of a conjunction, those inside it included. Comparisons of one path are joined: between two bounds are few keys, although
/// many are above the one and many below the other. A value has one key, so that it is in both ranges only if its key is.
fn plan<'f>(all: &'f [Filter], steps: &mut Vec<Step<'f>>) {
    for filter in all {
        match filter.node() {
            Node::All(inner) => plan(inner, steps),
            Node::Field(path, test @ Test::Compare(..)) => {
                let Some(range) = Lookup::of(path, test).only_range() else {
                    steps.push(Step::Other(filter));
                    continue;
                };
                let same = steps.iter_mut().find_map(|step| match step {
                    Step::Range { path: other, range, filters } if *other == &**path => Some((range, filters)),
                    Step::Range { .. } | Step::Other(_) => None,
                });
                match same {
                    Some((common, filters)) => {
                        common.intersect(&range);
                        filters.push(filter);
                    }
                    None => steps.push(Step::Range { path, range, filters: vec![filter] }),
                }
            }
            Node::Any(_) | Node::Not(_) | Node::Text(_) | Node::Source(_) | Node::Field(..) => steps.push(Step::Other(filter)),
        }
    }
}

/// Whether an index tells nothing of this filter, or only where the key is.
fn asks_documents_only(filter: &Filter) -> bool {
    match filter.node() {
        Node::Text(_) | Node::Field(_, Test::Regex(_)) => true,
        Node::Not(f) => matches!(f.node(), Node::Text(_)),
        Node::Field(..) | Node::Source(_) | Node::All(_) | Node::Any(_) => false,
    }
}
