//! The examples, run as a reader runs them: each asserts what it tells.

#[path = "../../examples/rag_pipeline.rs"]
mod rag_pipeline;

#[test]
fn from_files_to_cited_answers_over_three_sources_without_a_network() {
    rag_pipeline::main().unwrap();
}
