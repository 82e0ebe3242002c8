//! Models that the library can reach by itself, each behind a cargo feature. Nothing here is part of a build that did not ask for it.
//!
//! | module | feature | what it is |
//! | --- | --- | --- |
//! | `static_embedder` | `static-embedder` | a table of token vectors that is part of the build: no network, no file, no setting |

#[cfg(feature = "static-embedder")]
pub mod static_embedder;
