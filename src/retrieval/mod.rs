//! From a question to ranked documents: how the answers of several retrievers become one list.
//!
//! | file | role |
//! | --- | --- |
//! | `fusion.rs` | reciprocal rank fusion: several ranked lists into one, pure |

pub mod fusion;
