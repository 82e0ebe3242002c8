//! Makes the query vectors that a search needs and that nobody gave.

use super::search::Question;
use crate::args::{ModeName, RerankName};
use crate::embedder::{self, Wanted};
use crate::output::Outcome;
use triune::models::Embedder;
use triune::{Collection, Schema};

/// The embedder of questions, read when the first question needs it.
pub(crate) struct Asker {
    wanted: Wanted,
    collection: String,
    schema: Schema,
    embedder: Option<Option<Box<dyn Embedder>>>,
}

impl Asker {
    /// For questions to this collection.
    pub(crate) fn new(wanted: Wanted, collection: &Collection) -> Asker {
        Asker { wanted, collection: collection.name().into(), schema: collection.schema().clone(), embedder: None }
    }

    /// Gives the question a vector, if it is to have one, has none, and there is an embedder.
    pub(crate) fn complete(&mut self, question: &mut Question) -> Outcome<()> {
        let Some(query) = question.query.as_deref().filter(|_| question.vector.is_none() && needs_vector(question)) else { return Ok(()) };
        question.vector = match self.embedder()? {
            Some(embedder) => embedder::of_question(embedder, query)?,
            None => None,
        };
        Ok(())
    }

    /// The embedder, if there is one.
    pub(crate) fn embedder(&mut self) -> Outcome<Option<&dyn Embedder>> {
        if self.embedder.is_none() {
            self.embedder = Some(self.wanted.for_questions(&self.collection, &self.schema)?);
        }
        Ok(self.embedder.as_ref().and_then(|e| e.as_deref()))
    }
}

fn needs_vector(question: &Question) -> bool {
    match question.mode {
        ModeName::Vector => true,
        ModeName::Text => false,
        ModeName::Hybrid => question.wants_vector(),
        ModeName::Graph | ModeName::Ppr | ModeName::Docsgpt => question.rerank == Some(RerankName::Dense),
    }
}
