//! Connections to models, against a server and programs that misbehave. `cargo test --test connections --features http,command` runs all of
//! it; without features there is nothing to test.
//!
//! | file | what is tested |
//! | --- | --- |
//! | `server.rs` | the server: it answers, until it is told not to |
//! | `embedding.rs`, `chatting.rs`, `reranking.rs` | the three endpoints |
//! | `failing.rs` | tries, waits, limits, cancellation |
//! | `programs.rs` | programs as embedders |
//! | `secrets.rs` | what is never told |

#![allow(clippy::unwrap_used, reason = "a test stops where it stands, helpers included")]
#![allow(unreachable_pub, reason = "the helpers are public to the modules of this binary, which has no outside")]

#[cfg(feature = "http")]
mod chatting;
#[cfg(feature = "http")]
mod embedding;
#[cfg(feature = "http")]
mod failing;
#[cfg(feature = "command")]
mod programs;
#[cfg(feature = "http")]
mod reranking;
#[cfg(all(feature = "http", feature = "command"))]
mod secrets;
#[cfg(feature = "http")]
mod server;
