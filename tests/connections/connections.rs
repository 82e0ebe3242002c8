//! Connections to models, against a server and programs that misbehave. A package of its own, because they are behind features of the library
//! that bring dependencies: `cargo test -p triune-connections`, and `cargo test --workspace` too.
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

mod chatting;
mod embedding;
mod failing;
mod programs;
mod reranking;
mod secrets;
mod server;
