//! What questions cost beside their alternatives, in one run: filtered vector search beside the scan of everything, PageRank beside networkx,
//! and a fresh process that opens, walks and closes.
//!
//! `cargo run --release -p triune-benches --bin questions -- --data FOLDER [--python PYTHON --networkx benches/peers/pagerank.py]`: FOLDER
//! holds `docs.jsonl`, `vectors.npy` and `relations.tsv` (the WordNet glosses, their vectors and pointers). Every answer that is timed is
//! also checked.

#![allow(clippy::print_stdout, reason = "a measuring program prints what it measured")]

use clap::Parser;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use triune::graph::ppr::{Adjacency, personalized_pagerank};
use triune::graph::walk::ALPHA;
use triune::{Collection, Database, Document, Effort, Filter, Metadata, Mode, Relation, Schema, Search, WriteBatch};
use triune_benches::{Corpus, Failure, Timings};

/// Entities of the graph that PageRank walks.
const NODES: usize = 500;
/// Documents of the database that a fresh process opens.
const DOCUMENTS: usize = 100_000;

#[derive(Parser)]
struct Arguments {
    /// Folder with docs.jsonl, vectors.npy and relations.tsv.
    #[arg(long)]
    data: PathBuf,
    /// Python with networkx installed.
    #[arg(long)]
    python: Option<PathBuf>,
    /// The peer's program, benches/peers/pagerank.py.
    #[arg(long)]
    networkx: Option<PathBuf>,
    /// Used by the program itself: open this database, ask once, close.
    #[arg(long, hide = true)]
    once: Option<PathBuf>,
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    if let Some(path) = &arguments.once {
        return ask_once(path);
    }
    let corpus = Corpus::read(&arguments.data)?;
    let pointers = Pointers::read(&arguments.data)?;
    let folder = tempfile::tempdir()?;
    println!("{} documents, {} components, {} relations", corpus.texts.len(), corpus.dimension, pointers.count);
    filtered(&corpus, &folder.path().join("filtered"))?;
    pagerank(&pointers, folder.path(), &arguments)?;
    fresh_process(&corpus, &pointers, &folder.path().join("walked"))
}

/// The relations of WordNet: for each synset, where it points, and how.
struct Pointers {
    keys: Vec<String>,
    of: HashMap<String, Vec<(String, String)>>,
    count: usize,
}

impl Pointers {
    fn read(folder: &Path) -> Result<Pointers, Failure> {
        let mut of: HashMap<String, Vec<(String, String)>> = HashMap::new();
        let mut count = 0;
        for line in std::fs::read_to_string(folder.join("relations.tsv"))?.lines() {
            let [source, kind, target] = line.split('\t').collect::<Vec<_>>()[..] else {
                return Err("a relation without three fields".into());
            };
            of.entry(source.into()).or_default().push((kind.into(), target.into()));
            count += 1;
        }
        let id = |line: &str| Ok::<_, Failure>(serde_json::from_str::<serde_json::Value>(line)?["id"].as_str().ok_or("no id")?.to_string());
        let keys = std::fs::read_to_string(folder.join("docs.jsonl"))?.lines().map(id).collect::<Result<_, _>>()?;
        Ok(Pointers { keys, of, count })
    }

    fn relations(&self, key: &str) -> Vec<Relation> {
        self.of.get(key).into_iter().flatten().map(|(kind, target)| Relation::new(key, target).kind(kind)).collect()
    }
}

/// A collection `main` of these documents, in one segment.
fn filled(path: &Path, documents: impl Iterator<Item = Result<Document, Failure>>) -> Result<Database, Failure> {
    let db = Database::create(path)?;
    db.create_collection("main", Schema::default())?;
    let mut documents = documents.peekable();
    while documents.peek().is_some() {
        let mut batch = WriteBatch::new();
        batch.put("main", documents.by_ref().take(1_000).collect::<Result<Vec<_>, _>>()?);
        db.commit(batch)?;
    }
    db.compact()?;
    db.close()?;
    Ok(Database::open(path)?)
}

/// Vector search where half, a hundredth and a ten-thousandth of the documents match, in turns with the search of all of them.
fn filtered(corpus: &Corpus, path: &Path) -> Result<(), Failure> {
    let document = |row: usize| {
        let metadata = Metadata::from_json(format!(r#"{{"half":{},"cent":{},"myriad":{}}}"#, row % 2, row % 100, row % 10_000))?;
        Ok(Document::new(row.to_string()).metadata(metadata).vector(corpus.vector(row)))
    };
    let db = filled(path, (0..corpus.texts.len()).map(document))?;
    let collection = db.snapshot().collection("main")?;
    for (name, key, modulus) in [("50 %", "half", 2), ("1 %", "cent", 100), (".01 %", "myriad", 10_000)] {
        let (mut all, mut some) = (Timings::default(), Timings::default());
        for round in 0..33 {
            let query = corpus.vector(round * 3_001);
            let rest = (round * 7) % modulus;
            let filter = Filter::parse(&format!(r#"{{"{key}":{rest}}}"#))?;
            let mut warm_up = Timings::default();
            let (all, some) = if round < 3 { (&mut warm_up, &mut Timings::default()) } else { (&mut all, &mut some) };
            let unfiltered = all.time(|| collection.nearest_with(query, None, 10, Effort::Exact))?;
            let hits = some.time(|| collection.nearest_with(query, Some(&filter), 10, Effort::Exact))?;
            assert_eq!(unfiltered.len(), 10, "the scan of everything fills its answer");
            check_filtered(&collection, query, &hits, modulus, rest)?;
        }
        println!("exact scan of everything, beside a filter that {name} match: {}", all.summary());
        println!("vector search where {name} match:                     {}", some.summary());
        println!("ratio of the medians: {:.1}", all.median_ms() / some.median_ms());
    }
    Ok(db.close()?)
}

/// The filtered answer is the ranking of everything with the others left out, to the last bit of every score.
fn check_filtered(
    collection: &Collection,
    query: &[f32],
    hits: &[triune::ranking::Scored],
    modulus: usize,
    rest: usize,
) -> Result<(), Failure> {
    let mut expected = Vec::new();
    for hit in collection.nearest_with(query, None, usize::try_from(collection.count())?, Effort::Exact)? {
        if collection.id_of(&hit)?.parse::<usize>()? % modulus == rest {
            expected.push((hit.seq, hit.score.to_bits()));
            if expected.len() == 10 {
                break;
            }
        }
    }
    let found: Vec<_> = hits.iter().map(|hit| (hit.seq, hit.score.to_bits())).collect();
    if found == expected { Ok(()) } else { Err(format!("a filtered answer differs from brute force: {found:?}, {expected:?}").into()) }
}

/// The first [`NODES`] synsets around a frequent one, and every relation between two of them.
fn neighbourhood(pointers: &Pointers) -> Vec<(String, String, String)> {
    let mut both: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (source, targets) in &pointers.of {
        for (_, target) in targets {
            both.entry(source).or_default().insert(target);
            both.entry(target).or_default().insert(source);
        }
    }
    let (mut taken, mut queue) = (BTreeSet::new(), std::collections::VecDeque::from(["n02084071"]));
    while let Some(node) = queue.pop_front() {
        if taken.len() < NODES && taken.insert(node) {
            queue.extend(both.get(node).into_iter().flatten());
        }
    }
    let inside = |(kind, target): &(String, String), source: &&str| {
        taken.contains(target.as_str()).then(|| (source.to_string(), kind.clone(), target.clone()))
    };
    taken.iter().flat_map(|source| pointers.of.get(*source).into_iter().flatten().filter_map(move |p| inside(p, source))).collect()
}

/// PageRank over a graph of [`NODES`] entities, and networkx over the same.
fn pagerank(pointers: &Pointers, folder: &Path, arguments: &Arguments) -> Result<(), Failure> {
    let edges = neighbourhood(pointers);
    let document = |(i, (source, kind, target)): (usize, &(String, String, String))| {
        Ok(Document::new(i.to_string()).relations([Relation::new(source, target).kind(kind)]))
    };
    let db = filled(&folder.join("graph"), edges.iter().enumerate().map(document))?;
    let collection = db.snapshot().collection("main")?;
    let seeds = [("n02084071".to_string(), 2.0), (edges[0].0.clone(), 1.0)];
    let mut ours = Timings::default();
    let scores = collection.pagerank(&seeds)?;
    for _ in 0..100 {
        ours.time(|| collection.pagerank(&seeds))?;
    }
    println!("PageRank, {} entities, {} relations:                 {}", scores.len(), edges.len(), ours.summary());
    let number: HashMap<&str, u32> = scores.iter().map(|(name, _)| name.as_str()).zip(0u32..).collect();
    let numbered: Vec<_> = edges.iter().map(|(a, _, b)| (number[a.as_str()], number[b.as_str()], 1.0)).collect();
    let adjacency = Adjacency::from_edges(scores.len() as u32, &numbered);
    let mut weights = vec![0.0; scores.len()];
    seeds.iter().for_each(|(name, weight)| weights[number[name.as_str()] as usize] = *weight);
    let (mut building, mut solving) = (Timings::default(), Timings::default());
    for _ in 0..300 {
        building.time(|| Adjacency::from_edges(scores.len() as u32, &numbered));
        solving.time(|| personalized_pagerank(&adjacency, &weights, ALPHA));
    }
    println!("of that, from edges to rows:                          {}", building.summary());
    println!("of that, from rows to ranks:                          {}", solving.summary());
    if let (Some(python), Some(program)) = (&arguments.python, &arguments.networkx) {
        let mut weights: BTreeMap<(&str, &str), f64> = BTreeMap::new();
        for (source, _, target) in &edges {
            *weights.entry((source.min(target), source.max(target))).or_default() += 1.0;
        }
        let given = serde_json::json!({
            "edges": weights.iter().map(|((a, b), w)| serde_json::json!([a, b, w])).collect::<Vec<_>>(),
            "seeds": seeds.iter().cloned().collect::<BTreeMap<String, f64>>(),
        });
        let file = folder.join("graph.json");
        std::fs::write(&file, given.to_string())?;
        let printed = Command::new(python).arg(program).arg(&file).output()?;
        let theirs: serde_json::Value = serde_json::from_slice(&printed.stdout)?;
        let figure = |key: &str| theirs[key].as_f64().ok_or("networkx printed no time");
        let (median, with_graph) = (figure("median_ms")?, figure("with_graph_ms")?);
        let difference = scores.iter().map(|(name, score)| (score - theirs["scores"][name].as_f64().unwrap_or(f64::NAN)).abs());
        println!("networkx on the graph as it stands: median {median:.3} ms; ratio to ours from rows {:.0}", median / solving.median_ms());
        println!(
            "networkx from edges to ranks: median {with_graph:.3} ms; ratio to ours from segments to names {:.1}",
            with_graph / ours.median_ms()
        );
        println!("greatest difference of a score: {:e}", difference.fold(0.0, f64::max));
        for _ in 0..100 {
            ours.time(|| collection.pagerank(&seeds))?;
        }
        println!("PageRank, before and after networkx:                  {}", ours.summary());
    }
    Ok(db.close()?)
}

/// A process that opens a database of [`DOCUMENTS`] documents with their relations, walks the graph once and closes.
fn fresh_process(corpus: &Corpus, pointers: &Pointers, path: &Path) -> Result<(), Failure> {
    let document = |row: usize| {
        let key = &pointers.keys[row];
        Ok(Document::new(key).text(corpus.texts[row].clone()).vector(corpus.vector(row)).relations(pointers.relations(key)))
    };
    filled(path, (0..DOCUMENTS.min(corpus.texts.len())).map(document))?.close()?;
    let mut processes = Timings::default();
    for round in 0..21 {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--data").arg("-").arg("--once").arg(path);
        if round == 20 {
            command.env("TRIUNE_ONCE_SAYS", "1");
        }
        let status = processes.time(|| command.status())?;
        assert!(status.success(), "the process that asks once succeeds");
    }
    println!("a fresh process that opens, walks once and closes at {DOCUMENTS}: {}", processes.summary());
    Ok(())
}

fn ask_once(path: &Path) -> Result<(), Failure> {
    let db = Database::open(path)?;
    let collection = db.snapshot().collection("main")?;
    let query = "An Old World dog of the genus Canis, said the American Kennel Club";
    let answer = collection.search(&Search { query: Some(query.into()), mode: Mode::Ppr, ..Search::default() })?;
    if answer.hits.is_empty() {
        return Err("the walk found nothing".into());
    }
    if std::env::var_os("TRIUNE_ONCE_SAYS").is_some() {
        println!("its answer: {} hits, the first of them {} with {:.4}", answer.hits.len(), answer.hits[0].id, answer.hits[0].score);
    }
    db.close()?;
    Ok(())
}
