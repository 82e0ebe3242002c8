//! What a batch does to collections as wholes: makes, drops, clears, renames and swaps them, their companions with them.

use super::batch::Prepared;
use super::companions::Companion;
use super::resolve::{Outcome, Resolver};
use crate::error::{Error, Result};
use crate::format::effects::CatalogChange;
use crate::options::{Schema, check_name};

/// What the name of a companion is called, when it is refused.
const BESIDE: &str = "the name of what is kept beside a collection";

impl Resolver<'_> {
    pub(super) fn create(&mut self, name: &str, schema: Schema) -> Result<Outcome> {
        self.refuse_taken(name)?;
        let incarnation = self.new_incarnation();
        self.change(CatalogChange::Create { name: name.into(), incarnation, schema })?;
        Ok(Outcome::default())
    }

    /// Empties a collection. What is counted are its own documents, not those of its companions.
    pub(super) fn clear(&mut self, name: &str) -> Result<Outcome> {
        let outcome = self.clear_one(name)?;
        for companion in self.companions(name) {
            self.clear_one(&companion.of(name))?;
        }
        Ok(outcome)
    }

    fn clear_one(&mut self, name: &str) -> Result<Outcome> {
        let old = self.info(name)?.incarnation;
        let deleted = self.live(name)?;
        let new = self.new_incarnation();
        self.change(CatalogChange::Clear { name: name.into(), old, new })?;
        Ok(Outcome { written: 0, deleted })
    }

    pub(super) fn drop_collection(&mut self, name: &str) -> Result<Outcome> {
        let outcome = self.drop_one(name)?;
        for companion in self.companions(name) {
            self.drop_one(&companion.of(name))?;
        }
        Ok(outcome)
    }

    fn drop_one(&mut self, name: &str) -> Result<Outcome> {
        let deleted = self.live(name)?;
        let incarnation = self.info(name)?.incarnation;
        self.change(CatalogChange::Drop { name: name.into(), incarnation })?;
        Ok(Outcome { written: 0, deleted })
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> Result<Outcome> {
        let companions = self.companions(from);
        self.rename_one(from, to)?;
        for companion in companions {
            self.rename_one(&companion.of(from), &companion.of(to))?;
        }
        Ok(Outcome::default())
    }

    fn rename_one(&mut self, from: &str, to: &str) -> Result<()> {
        check_name(if Companion::named(to).is_some() { BESIDE } else { "a collection's name" }, to)?;
        let incarnation = self.info(from)?.incarnation;
        self.refuse_taken(to)?;
        self.change(CatalogChange::Rename { from: from.into(), to: to.into(), incarnation })
    }

    pub(super) fn swap(&mut self, a: &str, b: &str) -> Result<Outcome> {
        self.info(a)?;
        self.info(b)?;
        self.change(CatalogChange::Swap { a: a.into(), b: b.into() })?;
        for companion in Companion::ALL {
            let (of_a, of_b) = (companion.of(a), companion.of(b));
            match (self.info(&of_a).is_ok(), self.info(&of_b).is_ok()) {
                (true, true) => self.change(CatalogChange::Swap { a: of_a, b: of_b })?,
                (true, false) => self.rename_one(&of_a, &of_b)?,
                (false, true) => self.rename_one(&of_b, &of_a)?,
                (false, false) => {}
            }
        }
        Ok(Outcome::default())
    }

    /// Writes to a companion, which is made when it is not there yet.
    pub(super) fn put_companion(
        &mut self,
        parent: &str,
        companion: Companion,
        embedder: Option<&str>,
        documents: Vec<Prepared>,
    ) -> Result<Outcome> {
        let of_parent = &self.info(parent)?.schema;
        let mut schema = companion.schema(of_parent);
        if let Some(embedder) = embedder {
            if of_parent.embedder.is_some() {
                refuse_other_embedder(parent, of_parent, embedder)?;
            }
            schema.embedder = Some(embedder.into());
        }
        let name = companion.of(parent);
        check_name(BESIDE, &name)?;
        schema.validate()?;
        match (self.info(&name), embedder) {
            (Err(_), _) => drop(self.create(&name, schema)?),
            (Ok(info), Some(embedder)) => refuse_other_embedder(&name, &info.schema, embedder)?,
            (Ok(_), None) => {}
        }
        self.put(&name, documents, false)
    }

    /// Deletes from a companion, if it is there.
    pub(super) fn delete_companion(&mut self, parent: &str, companion: Companion, ids: &[String]) -> Result<Outcome> {
        self.info(parent)?;
        let name = companion.of(parent);
        if self.info(&name).is_err() { Ok(Outcome::default()) } else { self.delete(&name, ids) }
    }

    /// Removes a companion, if it is there.
    pub(super) fn drop_companion(&mut self, parent: &str, companion: Companion) -> Result<Outcome> {
        self.info(parent)?;
        let name = companion.of(parent);
        if self.info(&name).is_err() { Ok(Outcome::default()) } else { self.drop_one(&name) }
    }

    /// The companions that a collection has now.
    fn companions(&self, name: &str) -> Vec<Companion> {
        Companion::ALL.into_iter().filter(|companion| self.info(&companion.of(name)).is_ok()).collect()
    }

    fn refuse_taken(&self, name: &str) -> Result<()> {
        if self.info(name).is_ok() {
            return Err(Error::AlreadyExists(format!("collection {name:?}; nothing of the batch was written")));
        }
        Ok(())
    }
}

/// Refuses vectors of another embedder than a collection's.
pub(super) fn refuse_other_embedder(name: &str, schema: &Schema, embedder: &str) -> Result<()> {
    match schema.embedder.as_deref() {
        Some(own) if own == embedder => Ok(()),
        own => Err(Error::EmbedderMismatch(format!(
            "the vectors of collection {name:?} were made by {}, these by {embedder:?}; nothing of the batch was written. Use that embedder, or \
             drop the old vectors and make all of them again",
            own.map_or("a model that is not known".into(), |own| format!("{own:?}"))
        ))),
    }
}
