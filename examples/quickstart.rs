//! From an empty directory to an answer, and through a restart: `cargo run --example quickstart`.

#![allow(clippy::print_stdout, reason = "an example prints what it found")]

use std::path::Path;
use triune::{Collection, Database, Document, Metadata, Mode, Patch, Schema, Search, WriteBatch};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("kitchen");

    write(&path)?;
    read(&path)?;
    Ok(())
}

/// Two commits: one that fills a collection, and one that changes two things at once.
fn write(path: &Path) -> triune::Result<()> {
    let db = Database::create(path)?;
    // The vectors of a real collection come from a model; here they have three components: bread, soup, patience.
    db.create_collection("recipes", Schema { dimension: Some(3), ..Schema::default() })?;
    db.put(
        "recipes",
        vec![
            recipe("rye", "Rye bread wants a sour starter and a long, cool night.", [0.9, 0.0, 0.8]).source("bread.md"),
            recipe("flat", "Flat bread is mixed, rolled and baked in ten minutes.", [0.9, 0.0, 0.1]).source("bread.md"),
            recipe("broth", "Broth simmers for hours; the surface hardly moves.", [0.0, 0.9, 0.9])
                .metadata(Metadata::from_json(r#"{"serves": 6}"#)?),
            recipe("pea", "Pea soup thickens while nobody looks.", [0.1, 0.9, 0.4]),
        ],
    )?;

    // A snapshot sees what was there when it was taken, whatever is committed later.
    let before = db.snapshot();

    // Both changes or neither.
    let mut batch = WriteBatch::new();
    batch.delete("recipes", vec!["pea".into()]);
    batch.patch("recipes", vec![Patch::new("broth").metadata(r#"{"tested": true}"#)?]);
    let commit = db.commit(batch)?;
    println!("commit {}: {:?}", commit.lsn, commit.outcomes);

    assert_eq!(before.collection("recipes")?.count(), 4);
    assert_eq!(db.snapshot().collection("recipes")?.count(), 3);
    db.close()
}

/// The same database later, in another process for all it knows.
fn read(path: &Path) -> triune::Result<()> {
    let db = Database::open_read_only(path)?;
    let snapshot = db.snapshot();
    let recipes = snapshot.collection("recipes")?;

    let broth = recipes.get("broth")?.expect("it was committed");
    println!("broth: {}", broth.metadata.expect("it has metadata").as_str());

    let slow_bread = Some(vec![1.0, 0.0, 1.0]);
    let words = Some("bread for a patient baker".to_string());
    ask(&recipes, "by words", Search { query: words.clone(), mode: Mode::Text, ..Search::default() })?;
    ask(&recipes, "by meaning", Search { vector: slow_bread.clone(), mode: Mode::Vector, ..Search::default() })?;
    let best = ask(&recipes, "by both", Search { query: words, vector: slow_bread, ..Search::default() })?;
    assert_eq!(best.as_deref(), Some("rye"));
    Ok(())
}

/// Prints the three best answers and gives the id of the first.
fn ask(collection: &Collection, how: &str, search: Search) -> triune::Result<Option<String>> {
    let found = collection.search(&Search { k: 3, ..search })?;
    println!("{how}:");
    for hit in &found.hits {
        let ranks: Vec<String> = hit.retrievers.iter().map(|r| format!("{} {}", r.name, r.rank)).collect();
        println!("  {}. {:.4} {} ({})", hit.rank, hit.score, hit.id, ranks.join(", "));
    }
    Ok(found.hits.into_iter().next().map(|hit| hit.id))
}

fn recipe(id: &str, text: &str, vector: [f32; 3]) -> Document {
    Document::new(id).text(text).vector(vector.to_vec())
}
