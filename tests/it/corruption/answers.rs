//! Questions to a database and what it answers, for comparing one image of it with another bit by bit.

use triune::{
    Collection, CollectionStats, Database, Effort, EntityView, Error, ErrorCode, Filter, Hit, Hnsw, Mode, Neighbour, Result, Schema,
    Scorer, Search, Seq, Snapshot, SourceInfo, StoredDocument,
};

/// One question, asked and judged on its own.
#[derive(Debug, Clone)]
pub enum Question {
    Collections,
    Schema(String),
    Count(String),
    Scan(String),
    ScanAfter(String, Seq),
    Get(String, String),
    Sources(String),
    Stats(String),
    Search(String, Box<Search>),
    Filtered(String, &'static str),
    CountWhere(String, &'static str),
    DocumentsOfSource(String, String),
    Entity(String, String),
    Neighbours(String, String),
    PageRank(String),
    Cooccurrences(String),
}

/// What it was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Names(Vec<String>),
    Schema(Schema),
    Count(u64),
    Documents(Vec<(Seq, StoredDocument)>),
    Document(Option<StoredDocument>),
    Sources(Vec<SourceInfo>),
    Stats(CollectionStats),
    Hits(Vec<Hit>),
    Entity(Option<EntityView>),
    Neighbours(Vec<Neighbour>),
    Ranks(Vec<(String, f64)>),
}

impl Question {
    /// The answer of a snapshot.
    pub fn ask(&self, snapshot: &Snapshot) -> Result<Answer> {
        let collection = |name: &String| -> Result<Collection> { snapshot.collection(name) };
        Ok(match self {
            Question::Collections => Answer::Names(snapshot.collections()),
            Question::Schema(c) => Answer::Schema(collection(c)?.schema().clone()),
            Question::Count(c) => Answer::Count(collection(c)?.count()),
            Question::Scan(c) => {
                Answer::Documents(collection(c)?.scan().with_vectors(true).map(|d| d.map(timeless)).collect::<Result<_>>()?)
            }
            Question::ScanAfter(c, seq) => {
                Answer::Documents(collection(c)?.scan_after(*seq)?.map(|d| d.map(timeless)).collect::<Result<_>>()?)
            }
            Question::Get(c, id) => Answer::Document(collection(c)?.get(id)?.map(|d| timeless((Seq(0), d)).1)),
            // Their times change with every write, and a write is among what is tried.
            Question::Sources(c) => {
                Answer::Sources(collection(c)?.sources()?.into_iter().map(|s| SourceInfo { time_ms: 0, ..s }).collect())
            }
            // How many segments there are is no answer: a recovery writes one more.
            Question::Stats(c) => Answer::Stats(CollectionStats { segments: 0, ..collection(c)?.stats()? }),
            Question::Search(c, search) => Answer::Hits(collection(c)?.search(search)?.hits),
            Question::Filtered(c, filter) => {
                let matching = collection(c)?.scan().filtered(&Filter::parse(filter)?)?;
                Answer::Documents(matching.map(|d| d.map(timeless)).collect::<Result<_>>()?)
            }
            Question::CountWhere(c, filter) => Answer::Count(collection(c)?.count_where(&Filter::parse(filter)?)?),
            Question::DocumentsOfSource(c, source) => {
                let documents = collection(c)?.documents_of_source(source)?;
                Answer::Documents(documents.into_iter().map(|d| timeless((Seq(0), d))).collect())
            }
            Question::Entity(c, name) => Answer::Entity(collection(c)?.entity(name)?),
            Question::Neighbours(c, name) => Answer::Neighbours(collection(c)?.neighbours(name)?),
            Question::PageRank(c) => Answer::Ranks(collection(c)?.pagerank(&[])?),
            Question::Cooccurrences(c) => Answer::Count(collection(c)?.cooccurrences()?),
        })
    }
}

/// A document that a test adds after the damage carries the time of the run.
fn timeless((seq, document): (Seq, StoredDocument)) -> (Seq, StoredDocument) {
    let time_ms = if document.id.starts_with("added") { 0 } else { document.time_ms };
    (seq, StoredDocument { time_ms, ..document })
}

/// Every question worth asking of the database: each document and some absent ones by id, each term with both scorers, vectors, both.
pub fn questions(db: &Database) -> Vec<Question> {
    let snapshot = db.snapshot();
    let mut all = vec![Question::Collections];
    for name in snapshot.collections() {
        let collection = snapshot.collection(&name).unwrap();
        let n = || name.clone();
        all.extend([Question::Schema(n()), Question::Count(n()), Question::Scan(n()), Question::Sources(n()), Question::Stats(n())]);
        let documents: Vec<(Seq, StoredDocument)> = collection.scan().map(Result::unwrap).collect();
        if let Some((seq, _)) = documents.get(documents.len() / 2) {
            all.push(Question::ScanAfter(n(), *seq));
        }
        let absent = ["absent", "dead-0", "gone-1", "added-main-1", "é-1", "one-0", "three-0"];
        let some = documents.iter().step_by(documents.len().div_ceil(25).max(1));
        all.extend(some.map(|(_, d)| &*d.id).chain(absent).map(|id| Question::Get(n(), id.to_string())));
        // Where nothing is stored, one term tells as much as all.
        let terms = if documents.is_empty() { 1 } else { usize::MAX };
        let search = |search: Search| Question::Search(n(), Box::new(search));
        for scorer in [Scorer::Lucene, Scorer::Okapi] {
            for term in super::fixture::WORDS.iter().chain(&["zebra", "résumé torn torn", "the log and the tail of it"]).take(terms) {
                let query = Some(term.to_string());
                all.push(search(Search { query, mode: Mode::Text, k: 1000, scorer: Some(scorer), bodies: false, ..Search::default() }));
            }
        }
        derived(&name, &collection, documents.is_empty(), &mut all);
        let Some(dimension) = collection.schema().dimension else { continue };
        let vector: Vec<f32> = (0..dimension).map(|i| 0.5 - i as f32 / 3.0).collect();
        all.push(search(Search { vector: Some(vector.clone()), mode: Mode::Vector, k: 1000, ..Search::default() }));
        if collection.schema().hnsw != Hnsw::default() {
            // Walks so wide that they meet every node: what they find is what a scan finds.
            let effort = Effort::Ef(documents.len());
            let walks = [1, 7].map(|k| Search { vector: Some(vector.clone()), mode: Mode::Vector, k, effort, ..Search::default() });
            all.extend(walks.map(search));
        }
        let query = Some("torn tail of the log".to_string());
        all.push(search(Search { query, vector: Some(vector), mode: Mode::Hybrid, k: 7, ..Search::default() }));
    }
    all
}

/// Filters, sources and the graph. Where nothing is stored, few tell as much as all.
fn derived(name: &str, collection: &Collection, empty: bool, all: &mut Vec<Question>) {
    let n = || name.to_string();
    all.extend([Question::CountWhere(n(), r#"{"page": {"$gte": 0}}"#), Question::PageRank(n())]);
    if empty {
        return;
    }
    let filters = [r#"{"file_hash": "h1"}"#, r#"{"page": {"$gt": 1}}"#, r#"{"tags": {"$exists": true}}"#];
    all.extend(filters.map(|filter| Question::Filtered(n(), filter)));
    let sources = collection.sources().unwrap();
    all.extend(sources.iter().take(2).map(|s| Question::DocumentsOfSource(n(), s.source.clone())));
    all.extend(["Torn Tail", "узел"].map(|entity| Question::Entity(n(), entity.into())));
    all.extend([Question::Neighbours(n(), "torn tail".into()), Question::Cooccurrences(n())]);
    for (mode, filter) in [(Mode::Graph, None), (Mode::Ppr, None), (Mode::Text, Some(filters[1]))] {
        let query = Some("the Torn Tail of a log".to_string());
        let filter = filter.map(|f| Filter::parse(f).unwrap());
        all.push(Question::Search(n(), Box::new(Search { query, mode, filter, k: 1000, bodies: false, ..Search::default() })));
    }
}

/// What a sound database answers. A question about a collection that does not exist yet has the code of its error.
pub fn answers(db: &Database, questions: &[Question]) -> Vec<std::result::Result<Answer, ErrorCode>> {
    let snapshot = db.snapshot();
    questions.iter().map(|q| q.ask(&snapshot).map_err(|e| e.code())).collect()
}

/// Whether an error is one that damage may lead to, with its address: the file, and the offset when the error has a field for it.
pub fn address(error: &Error) -> Option<(&str, u64)> {
    match error {
        Error::Corrupt(c) if !c.what.is_empty() => Some((&c.file, c.offset)),
        _ => None,
    }
}
