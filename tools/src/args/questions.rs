//! What `search` and `eval` take.

use super::{Leg, ModeName, RerankName, ScorerName, Target, Which};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct SearchArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The words to search for
    #[arg(value_name = "QUERY")]
    pub(crate) query: Option<String>,
    /// Further words, for a message that says how several are one query
    #[arg(value_name = "WORD", hide = true)]
    pub(crate) words: Vec<String>,
    /// `hybrid` fuses several; without a query vector, given or made by the collection's embedder, it is `text`. `docsgpt` is the walk that `ppr` takes so far
    #[arg(long, value_enum, default_value_t = ModeName::Hybrid)]
    pub(crate) mode: ModeName,
    /// What `hybrid` fuses. Default: vector,text
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LEG,LEG")]
    pub(crate) legs: Vec<Leg>,
    /// The query vector: a JSON array, or @FILE with one (or with the one row of a .npy file)
    #[arg(long, value_name = "JSON|@FILE", allow_hyphen_values = true)]
    pub(crate) vector: Option<String>,
    /// What makes the query vector that is not given: static (part of this program), cmd:PROGRAM, or none. Default: static, if the collection names it
    #[arg(long, value_name = "E")]
    pub(crate) embedder: Option<String>,
    #[command(flatten)]
    pub(crate) which: Which,
    /// How many hits. Their ranks are counted from 1 for people, and from 0 in JSON
    #[arg(short, alias = "limit", value_name = "N", allow_negative_numbers = true, default_value_t = 10)]
    pub(crate) k: usize,
    /// Compare with every vector, so that none of the nearest is missing, instead of walking the vector graph
    #[arg(long, conflicts_with_all = ["ef", "recall"])]
    pub(crate) exact: bool,
    /// The share of the true nearest that a walk of the vector graph is to find, by what was measured when it was built. Default: 0.98
    #[arg(long, value_name = "0..1", conflicts_with = "ef", allow_negative_numbers = true)]
    pub(crate) recall: Option<f64>,
    /// The scorer of the text search. Default: the collection's
    #[arg(long, value_enum)]
    pub(crate) scorer: Option<ScorerName>,
    /// Steps of the graph search: 1 stays with the question's entities, 2 goes on to what stands beside them. Default: 2
    #[arg(long, value_name = "1|2", value_parser = clap::value_parser!(u32).range(1..=2))]
    pub(crate) hops: Option<u32>,
    /// How many candidates a walk of the vector graph keeps, instead of as many as `--recall` takes
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) ef: Option<u64>,
    /// Multiply the scores of the first 50 hits of `graph` or `ppr` by what this retriever says of them
    #[arg(long, value_enum)]
    pub(crate) rerank: Option<RerankName>,
    /// Say on stderr what shaped the answer: mode, retrievers, entities of the question, matches of the filter, scorer
    #[arg(long)]
    pub(crate) explain: bool,
    /// Say at which step this document fell out of the answer, or where it stands in it
    #[arg(long, value_name = "ID", conflicts_with = "queries", allow_hyphen_values = true)]
    pub(crate) why_not: Option<String>,
    /// Answer each line {"id","query","vector","mode","k","filter","scorer","hops","exact","ef","recall","rerank"} with one line of JSON, all from one snapshot: its "id", if it has one, "hits", "retrievers", "took_us". `-` reads stdin
    #[arg(long, value_name = "FILE.jsonl|-", conflicts_with = "query")]
    pub(crate) queries: Option<String>,
    /// Copy links and codes of vector graphs into memory of their own before they are walked
    #[arg(long, requires = "queries", conflicts_with = "query")]
    pub(crate) pinned: bool,
    /// Query vectors in a NumPy file; row i belongs to line i of --queries
    #[arg(long, value_name = "FILE.npy", requires = "queries")]
    pub(crate) query_vectors: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(override_usage = EVAL_USAGE, after_help = EVAL_NOTES)]
pub(crate) struct EvalArgs {
    /// The directory of the database
    #[arg(value_name = "DB", required_unless_present = "corpus", conflicts_with = "corpus")]
    pub(crate) database: Option<PathBuf>,
    /// The collection
    #[arg(long, value_name = "NAME", default_value = "main", conflicts_with = "corpus")]
    pub(crate) collection: String,
    /// Instead of a database: JSON lines {"id","title","text",...}, from which a temporary one is made; its vectors are the embedder's of title and text
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) corpus: Option<String>,
    /// Vectors of the corpus in a NumPy file, instead of the embedder's; row i belongs to line i
    #[arg(long, value_name = "FILE.npy", requires = "corpus")]
    pub(crate) vectors: Option<PathBuf>,
    /// JSON lines {"id","text"}: the questions
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) queries: String,
    /// The judgements: question, document and grade, apart by tabs; a grade above 0 is relevant. Four columns as TREC has them are taken too
    #[arg(long, value_name = "FILE.tsv")]
    pub(crate) qrels: String,
    /// Query vectors in a NumPy file, instead of the embedder's; row i belongs to line i of --queries
    #[arg(long, value_name = "FILE.npy")]
    pub(crate) query_vectors: Option<PathBuf>,
    /// What makes query vectors (and those of --corpus): static, cmd:PROGRAM, or none. Default: static, for --corpus or if the collection names it
    #[arg(long, value_name = "E")]
    pub(crate) embedder: Option<String>,
    /// What is measured. Default: text, and vector and hybrid where there are vectors
    #[arg(long, value_enum, value_delimiter = ',', value_name = "MODE,MODE")]
    pub(crate) modes: Vec<ModeName>,
    /// How many hits of each answer count
    #[arg(short, value_name = "N", allow_negative_numbers = true, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) k: u32,
    /// What vector, text and graph weigh in mode hybrid. Default: what the collection says
    #[arg(long, value_name = "V,T,G")]
    pub(crate) leg_weights: Option<String>,
}

const EVAL_USAGE: &str = "triune eval [OPTIONS] (DB | --corpus FILE.jsonl) --queries FILE.jsonl --qrels FILE.tsv";

const EVAL_NOTES: &str = "Averages over the questions that have a relevant document. nDCG: gain is the grade, discount log2(1 + rank), over the best order of all\n\
    that is judged. Recall: relevant documents found over all that are judged so. MRR: 1 over the rank of the first relevant one, 0 without one.\n\
    Latency is one question at a time, the making of its vector included.";
