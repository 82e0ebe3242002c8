//! Approximate neighbours: a navigable graph in levels (HNSW, Malkov and Yashunin 2016) over the vectors of a segment.
//!
//! | file | role |
//! | --- | --- |
//! | `space.rs` | `Space`: points, and how far apart they are |
//! | `images.rs` | `Images`: what is compared in place of vectors, for every metric |
//! | `floats.rs` `codes.rs` | spaces of components, and of codes of 7 bits |
//! | `graph.rs` | `Graph`: links in memory; `Links`: what a walk needs of them |
//! | `sealed.rs` | `Sealed`: a finished graph, as a segment holds it |
//! | `build.rs` `select.rs` `reach.rs` | the same graph for any number of threads, in which every point can be reached |
//! | `search.rs` `scratch.rs` | walks, and what they keep between calls |

pub mod build;
pub mod codes;
pub mod floats;
pub mod graph;
pub mod images;
mod reach;
mod scratch;
pub mod sealed;
pub mod search;
mod select;
pub mod space;

#[cfg(test)]
mod tests;
