//! The Rust of docs/filters.md, as it is printed there.

use triune::{Database, Document, Filter, Metadata, Schema, Search};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?; // any path will do
    let db = Database::create(folder.path().join("notes"))?;
    db.create_collection("main", Schema::default())?;
    let page = |id: &str, metadata: &str| -> triune::Result<Document> {
        Ok(Document::new(id).text("A torn tail is dropped.").metadata(Metadata::from_json(metadata)?))
    };
    db.put("main", vec![page("a", r#"{"page": 3}"#)?, page("b", r#"{"page": 12}"#)?])?;

    let filter = Filter::parse(r#"{"page": {"$gte": 3, "$lt": 10}}"#)?;
    let notes = db.snapshot().collection("main")?;
    assert_eq!(notes.count_where(&filter)?, 1);
    let search = Search { query: Some("torn tail".into()), filter: Some(filter), ..Search::default() };
    let found = notes.search(&search)?;
    assert_eq!((found.hits.len(), found.hits[0].id.as_str()), (1, "a"));
    Ok(())
}

#[test]
fn the_rust_of_the_page_on_filters_runs_as_printed() {
    super::printed_in("docs/filters.md", include_str!("filters.rs"));
    main().expect("it runs");
}
