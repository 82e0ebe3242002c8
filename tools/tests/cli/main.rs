//! The real binary: every command, every exit status that can be provoked, every promise about what is printed.
//!
//! | file | holds |
//! | --- | --- |
//! | `support.rs` | running the binary, temporary databases, `.npy` files |
//! | `build.rs` | databases built at once; recall and what graphs take; Ctrl-C |
//! | `cut_short.rs` | Ctrl-C: what each command says and leaves |
//! | `demo.rs` | the demo |
//! | `documents.rs` | create, put, get, scan, count, patch, delete, stats, compact, inspect, analyze |
//! | `embedder.rs` | vectors from the first run on; two kinds of them are never mixed |
//! | `eval.rs` | measured answers, and why a document is not in one |
//! | `fsck.rs` | checking: statuses, reports; a file field by field |
//! | `graph.rs` | filters, the entity graph, sources, collections |
//! | `ingest/` | files and folders: what is taken, what is passed over, what a second run does |
//! | `load.rs` | JSON lines and vectors, positions of errors, Ctrl-C |
//! | `maintenance.rs` | dump and restore, backup, rebuild, salvage, upgrade |
//! | `readme.rs` | the commands of the README |
//! | `search.rs` | one question and many |
//! | `status.rs` | exit statuses and the form of errors |

mod build;
#[cfg(unix)]
mod cut_short;
mod demo;
mod documents;
#[cfg(all(feature = "ingest", feature = "static-embedder"))]
mod embedder;
mod eval;
mod fsck;
mod graph;
#[cfg(feature = "ingest")]
mod ingest;
mod load;
mod maintenance;
mod readme;
mod search;
mod status;
mod support;
