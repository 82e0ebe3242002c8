//! Approximate neighbours: a navigable graph in levels (HNSW, Malkov and Yashunin 2016) over the vectors of a segment.
//!
//! | file | role |
//! | --- | --- |
//! | `space.rs` | `Space`: points, and how far apart they are |
//! | `images.rs` | `Images`: what is compared in place of vectors, for every metric |
//! | `floats.rs` `codes.rs` | spaces of components, and of codes of 7 bits |
//! | `graph.rs` | `Graph`: links in memory; `Links`: what a walk needs of them |
//! | `sealed.rs` | `Sealed`: a finished graph, as a segment holds it |
//! | `build.rs` `worker.rs` `select.rs` `link.rs` | the same graph for any number of threads |
//! | `merge.rs` `heal.rs` | a graph made of older ones, some of whose points died |
//! | `reach.rs` | every point can be reached |
//! | `seal.rs` | a graph becomes a sealed one |
//! | `measure.rs` | how much a graph finds, by how widely it is walked |
//! | `search.rs` `admitted.rs` `scratch.rs` | walks, those of which only some nodes may be answers, and what they keep between calls |

pub mod admitted;
pub mod build;
pub mod codes;
pub mod floats;
pub mod graph;
mod heal;
pub mod images;
mod link;
pub mod measure;
pub mod merge;
mod reach;
mod scratch;
pub mod seal;
pub mod sealed;
pub mod search;
mod select;
pub mod space;
mod worker;

#[cfg(test)]
mod tests;
