//! Which embedder a command works with: what `--embedder` says, what the collection names, and whether the two are the same.
//!
//! Vectors of two embedders are never mixed. A collection names its embedder when it is made; one that names none has vectors of unknown
//! origin, or none at all, and no embedder's come in beside them.

use crate::output::{Failure, Outcome, note};
use std::sync::LazyLock;
use triune::models::{Call, Cancellation, Embedder, ModelError, ModelErrorKind, Purpose, TextRole};
use triune::{ErrorCode, Schema};

/// What `--embedder` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// It was not given.
    Default,
    /// None: texts get no vectors.
    Nothing,
    /// The one that is part of this program.
    Static,
    /// A program that is asked line by line; its command.
    Command(String),
}

impl Wanted {
    /// Reads `--embedder`.
    pub(crate) fn parse(given: Option<&str>) -> Outcome<Wanted> {
        match given {
            None => Ok(Wanted::Default),
            Some("none") => Ok(Wanted::Nothing),
            Some("static") => Ok(Wanted::Static),
            Some(line) if line.starts_with("cmd:") => Ok(Wanted::Command(line.into())),
            // It may hold a key, so it is not repeated.
            Some(_) => Err(Failure::invalid("--embedder is static, none or cmd:PROGRAM. Nothing was changed")),
        }
    }

    /// Whether it asks for one, and not for the usual.
    fn is_explicit(&self) -> bool {
        matches!(self, Wanted::Static | Wanted::Command(_))
    }

    /// Reads the weights, or starts the program.
    fn open(&self) -> Outcome<Box<dyn Embedder>> {
        match self {
            Wanted::Command(line) => command(line),
            Wanted::Default | Wanted::Nothing | Wanted::Static => built_in(),
        }
    }

    /// The embedder of a collection that is about to be made.
    pub(crate) fn for_new_collection(&self) -> Outcome<Option<Box<dyn Embedder>>> {
        match self {
            Wanted::Nothing => Ok(None),
            Wanted::Default if !cfg!(feature = "static-embedder") => Ok(None),
            Wanted::Default | Wanted::Static | Wanted::Command(_) => self.open().map(Some),
        }
    }

    /// The embedder of documents for a collection that is there.
    pub(crate) fn for_documents(&self, collection: &str, schema: &Schema) -> Outcome<Option<Box<dyn Embedder>>> {
        if *self == Wanted::Nothing || !self.is_explicit() && schema.embedder.is_none() {
            return Ok(None);
        }
        let embedder = self.open()?;
        same(&*embedder, collection, schema)?;
        Ok(Some(embedder))
    }

    /// The embedder of questions to a collection. Nothing when the collection names one that is not at hand, unless it was asked for.
    pub(crate) fn for_questions(&self, collection: &str, schema: &Schema) -> Outcome<Option<Box<dyn Embedder>>> {
        if self.is_explicit() {
            return self.for_documents(collection, schema);
        }
        let Some(named) = schema.embedder.as_ref().filter(|_| *self == Wanted::Default) else { return Ok(None) };
        if cfg!(feature = "static-embedder") {
            let embedder = built_in()?;
            if embedder.fingerprint() == named {
                return Ok(Some(embedder));
            }
        }
        note(format_args!(
            "the vectors of {collection} are {named:?}'s, which is not part of this program, so the question gets none: give its program (--embedder cmd:PROGRAM), or the vector itself (--vector; --query-vectors for many questions)"
        ));
        Ok(None)
    }
}

/// A collection names its embedder when it is made, and not afterwards.
const ANOTHER: &str = "Make a collection with it (create --embedder)";

/// Refuses an embedder that the collection does not name.
fn same(embedder: &dyn Embedder, collection: &str, schema: &Schema) -> Outcome<()> {
    let ours = embedder.fingerprint();
    let (message, way) = match (&schema.embedder, schema.dimension) {
        (Some(named), _) if named == ours => return Ok(()),
        (Some(named), _) => (
            format!("the vectors of {collection} are {named:?}'s, and the embedder here is {ours:?}; their vectors do not compare"),
            "Give the program that made them (--embedder cmd:PROGRAM)",
        ),
        (None, Some(dimension)) => (
            format!(
                "{collection} is for vectors of {dimension} components of an embedder that it does not name, and the embedder here is {ours:?}"
            ),
            ANOTHER,
        ),
        (None, None) => (format!("{collection} was made without an embedder, and the embedder here is {ours:?}"), ANOTHER),
    };
    let advice = format!("Nothing was changed. {way}, name another --collection, or --embedder none");
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

#[cfg(feature = "command")]
fn command(line: &str) -> Outcome<Box<dyn Embedder>> {
    use triune::connections::command::{CommandEmbedder, CommandOptions};
    Ok(Box::new(CommandEmbedder::start(line, CommandOptions::default(), &Call::default())?))
}

#[cfg(not(feature = "command"))]
fn command(_: &str) -> Outcome<Box<dyn Embedder>> {
    Err(Failure::invalid("this program was built without programs as embedders. Nothing was changed"))
}

/// Writes into a schema which embedder its vectors will be of: the name, the dimension, and weights that suit it.
pub(crate) fn name(embedder: &dyn Embedder, schema: &mut Schema) {
    schema.dimension = Some(embedder.dimension());
    named(embedder.fingerprint(), schema);
}

/// Writes into a schema whose vectors it will hold, and weights that suit them.
pub(crate) fn named(name: &str, schema: &mut Schema) {
    schema.embedder = Some(name.into());
    #[cfg(feature = "static-embedder")]
    if schema.leg_weights == triune::LegWeights::default() && name.starts_with("triune-static-") {
        schema.leg_weights = triune::connections::static_embedder::StaticEmbedder::LEG_WEIGHTS;
    }
}

/// The wish of whoever pressed Ctrl-C. A program that makes vectors is ended by it at once, and not when it has made them.
pub(crate) static STOP: LazyLock<Cancellation> = LazyLock::new(Cancellation::new);

/// The vectors of texts that are stored; none for a text of which the embedder knows nothing. `Interrupted` once [`STOP`] is wished.
pub(crate) fn of_documents(embedder: &dyn Embedder, texts: &[&str]) -> Outcome<Vec<Option<Vec<f32>>>> {
    let call = Call { purpose: Purpose::EMBED_DOCUMENTS, cancellation: STOP.clone(), ..Call::default() };
    let vectors = embedder.embed(&call, texts, TextRole::Document)?;
    if vectors.len() != texts.len() {
        let message = format!("{} gave {} vectors for {} texts", embedder.fingerprint(), vectors.len(), texts.len());
        return Err(ModelError::malformed(message).into());
    }
    Ok(vectors.into_iter().map(telling).collect())
}

/// The vector of a question; none when the embedder knows nothing of it. `Interrupted` as above.
pub(crate) fn of_question(embedder: &dyn Embedder, text: &str) -> Outcome<Option<Vec<f32>>> {
    let call = Call { purpose: Purpose::EMBED_QUERY, cancellation: STOP.clone(), ..Call::default() };
    Ok(telling(embedder.embed_one(&call, text, TextRole::Query)?))
}

/// A vector of zeros is equally near to all, so it says nothing.
fn telling(vector: Vec<f32>) -> Option<Vec<f32>> {
    vector.iter().any(|x| *x != 0.0).then_some(vector)
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Failure {
        let stopped = error.kind == ModelErrorKind::Cancelled;
        let code = if stopped { ErrorCode::Interrupted } else { ErrorCode::Model };
        Failure::Refused { code, message: if stopped { "stopped by Ctrl-C".into() } else { error.to_string() } }
    }
}
