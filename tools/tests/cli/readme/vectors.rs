//! The Rust of docs/vectors.md, as it is printed there.

use triune::connections::static_embedder::StaticEmbedder;
use triune::models::{Call, Embedder, TextRole};
use triune::{Database, Document, Schema, Search};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?; // any path will do
    let (embedder, call) = (StaticEmbedder::built_in()?, Call::default());

    // The collection names its embedder, so that `triune ingest`, `load` and `search` let no other in.
    let db = Database::create(folder.path().join("notes"))?;
    let schema = Schema {
        embedder: Some(embedder.fingerprint().into()),
        dimension: Some(embedder.dimension()),
        leg_weights: StaticEmbedder::LEG_WEIGHTS,
        ..Schema::default()
    };
    db.create_collection("main", schema)?;

    let texts = ["A blocked artery starves the heart muscle of oxygen.", "The harvest of wheat was poor, and bread became expensive."];
    let vectors = embedder.embed(&call, &texts, TextRole::Document)?;
    let documents = ["heart", "wheat"].into_iter().zip(texts).zip(vectors);
    db.put("main", documents.map(|((id, text), vector)| Document::new(id).text(text).vector(vector)).collect())?;

    // No word of the question stands in the text that answers it.
    let question = "myocardial infarction";
    let vector = Some(embedder.embed_one(&call, question, TextRole::Query)?);
    let search = Search { query: Some(question.into()), vector, ..Search::default() };
    let found = db.snapshot().collection("main")?.search(&search)?;
    assert_eq!(found.hits[0].id, "heart");
    db.close()?;
    Ok(())
}

#[test]
fn the_rust_of_the_page_on_vectors_runs_as_printed() {
    super::printed_in("docs/vectors.md", include_str!("vectors.rs"));
    main().expect("it runs");
}
