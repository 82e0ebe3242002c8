//! Which embedder a command works with: what `--embedder` says, what the collection names, and whether the two are the same.
//!
//! Vectors of two embedders are never mixed. A collection names its embedder when it is made; one that names none has vectors of unknown
//! origin, or none at all, and no embedder's come in beside them.

use crate::output::{Failure, Outcome, note};
use triune::models::{Call, Embedder, ModelError, Purpose, TextRole};
use triune::{ErrorCode, Schema};

/// What `--embedder` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// It was not given.
    Default,
    /// None: texts get no vectors.
    Nothing,
    /// The one that is part of this program.
    Static,
}

impl Wanted {
    /// Reads `--embedder`.
    pub(crate) fn parse(given: Option<&str>) -> Outcome<Wanted> {
        match given {
            None => Ok(Wanted::Default),
            Some("none") => Ok(Wanted::Nothing),
            Some("static") => Ok(Wanted::Static),
            // It may hold a key, so it is not repeated.
            Some(_) => Err(Failure::invalid("--embedder is static or none. Nothing was changed")),
        }
    }

    /// The embedder of a collection that is about to be made.
    pub(crate) fn for_new_collection(self) -> Outcome<Option<Box<dyn Embedder>>> {
        match self {
            Wanted::Nothing => Ok(None),
            Wanted::Default if !cfg!(feature = "static-embedder") => Ok(None),
            Wanted::Default | Wanted::Static => built_in().map(Some),
        }
    }

    /// The embedder of documents for a collection that is there.
    pub(crate) fn for_documents(self, collection: &str, schema: &Schema) -> Outcome<Option<Box<dyn Embedder>>> {
        match (self, &schema.embedder) {
            (Wanted::Nothing, _) | (Wanted::Default, None) => Ok(None),
            (Wanted::Default | Wanted::Static, _) => {
                let embedder = built_in()?;
                same(&*embedder, collection, schema)?;
                Ok(Some(embedder))
            }
        }
    }

    /// The embedder of questions to a collection. Nothing when the collection names one that is not at hand, unless it was asked for.
    pub(crate) fn for_questions(self, collection: &str, schema: &Schema) -> Outcome<Option<Box<dyn Embedder>>> {
        match (self, &schema.embedder) {
            (Wanted::Nothing, _) | (Wanted::Default, None) => Ok(None),
            (Wanted::Default, Some(_)) if !cfg!(feature = "static-embedder") => Ok(None),
            (Wanted::Default, Some(named)) => {
                let embedder = built_in()?;
                if embedder.fingerprint() == named {
                    return Ok(Some(embedder));
                }
                note(format_args!(
                    "the vectors of {collection} are {named:?}'s, which this program does not have, so it makes no query vector: give --vector"
                ));
                Ok(None)
            }
            (Wanted::Static, _) => {
                let embedder = built_in()?;
                same(&*embedder, collection, schema)?;
                Ok(Some(embedder))
            }
        }
    }
}

/// Refuses an embedder that the collection does not name.
fn same(embedder: &dyn Embedder, collection: &str, schema: &Schema) -> Outcome<()> {
    let ours = embedder.fingerprint();
    let message = match (&schema.embedder, schema.dimension) {
        (Some(named), _) if named == ours => return Ok(()),
        (Some(named), _) => {
            format!("the vectors of {collection} are {named:?}'s, and the embedder here is {ours:?}; their vectors do not compare")
        }
        (None, Some(_)) => format!("{collection} has vectors of an embedder that it does not name, and the embedder here is {ours:?}"),
        (None, None) => format!("{collection} was made without an embedder, and the embedder here is {ours:?}"),
    };
    let advice = "Nothing was changed. Name another --collection, or --embedder none";
    Err(Failure::Refused { code: ErrorCode::EmbedderMismatch, message: format!("{message}. {advice}") })
}

#[cfg(feature = "static-embedder")]
fn built_in() -> Outcome<Box<dyn Embedder>> {
    let embedder = triune::connections::static_embedder::StaticEmbedder::built_in()?;
    Ok(Box::new(embedder))
}

#[cfg(not(feature = "static-embedder"))]
fn built_in() -> Outcome<Box<dyn Embedder>> {
    Err(Failure::invalid("this program was built without the embedder static. Nothing was changed"))
}

/// Writes into a schema which embedder its vectors will be of: the name, the dimension, and weights that suit it.
pub(crate) fn name(embedder: &dyn Embedder, schema: &mut Schema) {
    schema.embedder = Some(embedder.fingerprint().into());
    schema.dimension = Some(embedder.dimension());
    #[cfg(feature = "static-embedder")]
    if schema.leg_weights == triune::LegWeights::default() {
        schema.leg_weights = triune::connections::static_embedder::StaticEmbedder::LEG_WEIGHTS;
    }
}

/// The vectors of texts that are stored; none for a text of which the embedder knows nothing.
pub(crate) fn of_documents(embedder: &dyn Embedder, texts: &[&str]) -> Outcome<Vec<Option<Vec<f32>>>> {
    let call = Call { purpose: Purpose::EMBED_DOCUMENTS, ..Call::default() };
    let vectors = embedder.embed(&call, texts, TextRole::Document)?;
    if vectors.len() != texts.len() {
        let message = format!("{} gave {} vectors for {} texts", embedder.fingerprint(), vectors.len(), texts.len());
        return Err(ModelError::malformed(message).into());
    }
    Ok(vectors.into_iter().map(telling).collect())
}

/// The vector of a question; none when the embedder knows nothing of it.
pub(crate) fn of_question(embedder: &dyn Embedder, text: &str) -> Outcome<Option<Vec<f32>>> {
    let call = Call { purpose: Purpose::EMBED_QUERY, ..Call::default() };
    Ok(telling(embedder.embed_one(&call, text, TextRole::Query)?))
}

/// A vector of zeros is equally near to all, so it says nothing.
fn telling(vector: Vec<f32>) -> Option<Vec<f32>> {
    vector.iter().any(|x| *x != 0.0).then_some(vector)
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Failure {
        Failure::Refused { code: ErrorCode::Model, message: error.to_string() }
    }
}
