//! The integration tests, one binary. What belongs where:
//!
//! | module | what it holds |
//! | --- | --- |
//! | `ann` | vector graphs: what they find of the true nearest, with deaths, filters, merges and damage |
//! | `api` | what the library promises, through its public names: one test a promise |
//! | `golden` | the golden answers, through the library |
//! | `examples` | the examples, run: each asserts what it tells |
//! | `stages` | stages of retrieval: pre-screen, rerank, aggregate |
//! | `pipeline` | three retrievers, merged and reranked in one call |
//! | `extraction` | entities and relations by a language model |
//! | `entity_vectors` | the vectors of entities' names |
//! | `stand_ins` | helper: models that work by rules, and ones that misbehave |
//! | `corruption` | damage: every byte, length and file of a small database changed, cut and removed; nothing but located errors or exact answers |
//! | `interleavings` | the interleavings that a model of the protocol found fatal, each tried with and without the rule that forbids it |
//! | `fsck` | checking: what is sound is clean, what is damaged is found, named and graded, checksums mended or not |
//! | `images` | writes what crashes and damages leave to real directories, for the reader in `tests/spec_reader` |
//! | `maintenance` | dump and restore, backup, rebuild, salvage: what they keep, what they refuse, what a crash leaves |
//! | `compat` | databases that earlier versions wrote: read and written further |
//! | `layers` | the layer table: every import points down |
//! | `tidy` | the other house rules: unsafe code, file sizes, links, guarantees that have a test |
//! | `format_spec` | `format-spec.md` against the structs, constants and limits in `src/` |
//! | `review` | scenarios in which the engine once went wrong |
//! | `properties` | random sequences of operations against a model |
//! | `threads` | many threads on one database in a real directory |
//! | `layout` | helper of `format_spec`: structs and constants out of Rust source |
//! | `recovery` | a crash at every operation, and every failing operation, on the simulated disk |
//! | `reports` | what public reports of lost data in other engines would take here |
//! | `retrieval` | the retrieval layer: retrievers, dispatcher, screenings, and what is configured of sources |
//! | `source` | helper: reads the repository and cuts Rust into tokens |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it stands")]
#![allow(unreachable_pub, reason = "the helpers are public to the modules of this binary, which has no outside")]
#![allow(clippy::wildcard_enum_match_arm, reason = "the helpers look for a few tokens among many")]

mod ann;
mod api;
mod compat;
mod corruption;
mod entity_vectors;
mod examples;
mod extraction;
mod format_spec;
mod fsck;
mod golden;
mod images;
mod interleavings;
mod layers;
mod layout;
mod maintenance;
mod pipeline;
mod properties;
mod recovery;
mod reports;
mod retrieval;
mod review;
mod source;
mod stages;
mod stand_ins;
mod threads;
mod tidy;
