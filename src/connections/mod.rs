//! Connections to models: what implements the traits of [`crate::models`] by asking a server, a program or the weights in a folder, or by weights
//! that are part of the build.
//!
//! Each is behind a cargo feature, so that a database that needs none depends on none. How to use them: `docs/connections.md`.
//!
//! | module | feature | what it connects to |
//! | --- | --- | --- |
//! | `http` | `http` | servers that speak the dialect of OpenAI: embeddings, chat, reranking |
//! | `local` | `local-model` | a model directory (BERT class, safetensors), run in this process |
//! | `command` | `command` | a program that is asked line by line |
//! | `static_embedder` | `static-embedder` | a table of token vectors that is part of the build: no network, no file, no setting |
//! | `tokens` | `cl100k` | the vocabulary cl100k, for counting |
//!
//! Never in an error, an event or what `Debug` prints: a key, an address beyond its host, the arguments of a command, a text that was sent, a
//! reply that may repeat it.

#[cfg(any(feature = "http", feature = "command"))]
mod batches;
#[cfg(feature = "command")]
pub mod command;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "local-model")]
pub mod local;
#[cfg(any(feature = "http", feature = "command", feature = "local-model"))]
mod replies;
#[cfg(feature = "static-embedder")]
pub mod static_embedder;
#[cfg(feature = "cl100k")]
pub mod tokens;
#[cfg(any(feature = "http", feature = "command"))]
mod waiting;
