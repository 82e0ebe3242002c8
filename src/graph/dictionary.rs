//! From an entity's key to its ordinal: an fst. Spec §19.2.

use crate::error::{Error, Result};
use crate::format::transducer::Transducer;
use crate::segment::{Section, TouchedBytes};
use fst::MapBuilder;
use std::fmt;

/// An error of the fst's builder, which writes to memory and is given ascending keys.
fn unexpected(e: fst::Error) -> Error {
    Error::InvalidArgument(format!("the entity dictionary refused a key: {e}"))
}

/// The fst of ascending, distinct keys, whose ordinals are their ranks.
pub(super) fn encode<'a>(keys: impl Iterator<Item = &'a str>) -> Result<Vec<u8>> {
    let mut fst = MapBuilder::new(Vec::new()).map_err(unexpected)?;
    for (ordinal, key) in keys.enumerate() {
        fst.insert(key, ordinal as u64).map_err(unexpected)?;
    }
    fst.into_inner().map_err(unexpected)
}

/// An open dictionary.
pub(super) struct Dictionary {
    section: Section,
    fst: Transducer<TouchedBytes>,
    entities: u32,
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dictionary({} entities)", self.entities)
    }
}

impl Dictionary {
    /// Opens an `Entities` section of `entities` keys. O(1); in `Pread` mode O(its bytes).
    pub(super) fn open(section: &Section, entities: u32) -> Result<Dictionary> {
        let fst = Transducer::open(section.touched(section.len())?)?;
        if fst.len() != u64::from(entities) {
            return Err(section.corrupt(0, format!("{} keys in the fst, {entities} entities in the segment", fst.len())));
        }
        Ok(Dictionary { section: section.clone(), fst, entities })
    }

    /// The ordinal of `key`, which is below the number of entities.
    pub(super) fn get(&self, key: &str) -> Result<Option<u32>> {
        self.fst.get(key.as_bytes())?.map(|ordinal| self.check_ordinal(ordinal)).transpose()
    }

    fn check_ordinal(&self, ordinal: u64) -> Result<u32> {
        u32::try_from(ordinal)
            .ok()
            .filter(|&o| o < self.entities)
            .ok_or_else(|| self.section.corrupt(0, format!("a key has the ordinal {ordinal}, the segment {} entities", self.entities)))
    }

    /// Gives all keys, ascending: each ordinal once, or `Corrupt`. Who walks all of it pays for its own checksum, too.
    pub(super) fn for_each(&self, sink: &mut dyn FnMut(u32, &str)) -> Result<()> {
        self.fst.verify()?;
        let mut stream = self.fst.stream();
        for expected in 0..self.entities {
            let wrong = || self.section.corrupt(0, format!("the key of ordinal {expected} is not where the order puts it"));
            let (key, ordinal) = stream.next()?.ok_or_else(wrong)?;
            let key = std::str::from_utf8(key).map_err(|_| self.section.corrupt(0, format!("key {expected} is not UTF-8")))?;
            if ordinal != u64::from(expected) {
                return Err(wrong());
            }
            sink(expected, key);
        }
        Ok(())
    }
}
