//! Every form of every command. These forms are stable: other programs rely on them.
//!
//! What a later version will know is accepted here under its final name, hidden from the help, and refused by the command as "not yet":
//! so a script learns from one InvalidArgument, not from a usage error, that it is ahead of its time.

mod contents;
mod maintenance;
mod names;
mod questions;

pub(crate) use contents::*;
pub(crate) use maintenance::*;
pub(crate) use names::*;
pub(crate) use questions::*;

use clap::{ArgGroup, Parser, Subcommand};
use std::path::{Path, PathBuf};
use triune::limits;

/// An embedded retrieval database: documents, vectors and full text in one directory, changed by one atomic commit.
#[derive(Debug, Parser)]
#[command(name = "triune", version, arg_required_else_help = true, after_help = EXIT_STATUSES)]
pub(crate) struct Args {
    /// Print JSON lines instead of text for people (`get`, `analyze` and `search --queries` always do)
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_STATUSES: &str = "Exit status: 0 success, 1 other, 2 usage, 10 NotFound, 11 AlreadyExists, 12 Locked, 13 Corrupt, 14 UnsupportedVersion,\n\
    15 SchemaMismatch, 16 EmbedderMismatch, 17 InvalidArgument, 18 DuplicateId, 19 LimitExceeded, 20 ReadOnly, 21 DiskFull,\n\
    22 OutcomeUnknown, 23 Io, 24 Model, 130 Interrupted.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the main job on real text: commit, search by text, by vector and by both, delete, restart
    Demo(DemoArgs),
    /// Make a database, or add a collection to one
    Create(CreateArgs),
    /// Cut files and folders into chunks and store them, one commit a file
    #[cfg(feature = "ingest")]
    Ingest(IngestArgs),
    #[cfg(feature = "ingest")]
    #[command(hide = true)]
    IngestWorker(crate::ingest::worker::WorkerArgs),
    /// Load documents from JSON lines
    Load(LoadArgs),
    /// Make a new database of many documents at once, in one commit, with its vector graph
    Build(Box<BuildArgs>),
    /// Search by text, by vector, by entities, or by several of these
    Search(Box<SearchArgs>),
    /// Measure how well judged questions are answered, by each retriever and by several together
    Eval(Box<EvalArgs>),
    /// Print documents by id, each as the JSON line that `load` reads
    Get(GetArgs),
    /// Print every document, in insertion order
    Scan(ScanArgs),
    /// Count the documents
    Count(CountArgs),
    /// Insert or replace documents in one commit
    Put(PutArgs),
    /// Merge metadata into one document, or replace its text, vector, entities or relations; it moves to the end of `scan`
    Patch(PatchArgs),
    /// Delete documents by id, by source or by filter, or all of them
    Delete(DeleteArgs),
    /// Print what the database holds
    Stats(StatsArgs),
    /// List the collections, or drop, rename or swap some
    Collections(CollectionsArgs),
    /// List the sources of a collection, with what is stored of each
    Sources(SourcesArgs),
    /// Look at the entity graph of a collection
    Graph(GraphArgs),
    /// Show how text is cut into tokens, or which entities it mentions
    Analyze(AnalyzeArgs),
    /// Merge each collection into one segment and remove what is dead
    Compact(CompactArgs),
    /// Check a database and say what is damaged, also when it does not open; writes nothing
    Fsck(crate::cmd::fsck::FsckArgs),
    /// Say what each file of a database is and holds, also when the database does not open
    Inspect(InspectArgs),
    /// Write the content of a database as text, the same bytes for the same content
    Dump(DumpArgs),
    /// Make a new database out of a dump
    Restore(RestoreArgs),
    /// Copy a database while it is in use; the copy is one that opens by itself
    Backup(BackupArgs),
    /// Make the indexes of a database anew from its documents, also when they are damaged
    Rebuild(RebuildArgs),
    /// Save what can be read of a damaged database into a new one
    Salvage(SalvageArgs),
    /// Bring a database to the newest version of the file format
    Upgrade(UpgradeArgs),
}

impl Command {
    /// What is said after its result could not be written: that what was done is done, of a command that does something.
    pub(crate) fn stands(&self) -> &'static str {
        let only_reads = matches!(
            self,
            Command::Search(_)
                | Command::Eval(_)
                | Command::Get(_)
                | Command::Scan(_)
                | Command::Count(_)
                | Command::Stats(_)
                | Command::Collections(CollectionsArgs { action: None, .. })
                | Command::Sources(_)
                | Command::Graph(_)
                | Command::Analyze(_)
                | Command::Fsck(_)
                | Command::Inspect(_)
                | Command::Dump(DumpArgs { out: None, .. })
        );
        if only_reads { "" } else { "; what the command did stands" }
    }

    /// Whether it makes the database that it is about, or may do so.
    pub(crate) fn makes(&self) -> bool {
        #[cfg(feature = "ingest")]
        if matches!(self, Command::Ingest(_)) {
            return true;
        }
        matches!(self, Command::Create(_) | Command::Build(_) | Command::Restore(_))
    }

    /// The database that the command is about, also one that it makes.
    pub(crate) fn database(&self) -> Option<&Path> {
        match self {
            Command::Load(args) => Some(&args.target.database),
            Command::Search(args) => Some(&args.target.database),
            Command::Eval(args) => args.database.as_deref(),
            Command::Get(args) => Some(&args.target.database),
            Command::Scan(args) => Some(&args.target.database),
            Command::Count(args) => Some(&args.target.database),
            Command::Put(args) => Some(&args.target.database),
            Command::Patch(args) => Some(&args.target.database),
            Command::Delete(args) => Some(&args.target.database),
            Command::Create(args) => Some(&args.target.database),
            Command::Build(args) => Some(&args.target.database),
            #[cfg(feature = "ingest")]
            Command::Ingest(args) => Some(&args.target.database),
            Command::Sources(args) => Some(&args.target.database),
            Command::Stats(args) => Some(&args.database),
            Command::Collections(args) => Some(&args.database),
            Command::Graph(args) => Some(&args.database),
            Command::Compact(args) => Some(&args.database),
            Command::Fsck(args) => Some(&args.database),
            Command::Inspect(args) => Some(&args.database),
            Command::Dump(args) => Some(&args.database),
            Command::Restore(args) => Some(&args.database),
            Command::Backup(args) => Some(&args.database),
            Command::Rebuild(args) => Some(&args.database),
            Command::Salvage(args) => Some(&args.database),
            Command::Upgrade(args) => Some(&args.database),
            _ => None,
        }
    }
}

/// The database and the collection that a command is about.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// The collection
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(crate) collection: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// A directory that does not exist or is empty: the database becomes DIR/db, its questions DIR/questions.jsonl. Default: a new directory
    /// among the temporary files
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) schema: SchemaArgs,
    /// What will make the vectors: static, or cmd:PROGRAM. Its name is stored, and no other embedder's vectors come in by `load` or `ingest`. Default: unknown
    #[arg(long, value_name = "E", conflicts_with = "dim")]
    pub(crate) embedder: Option<String>,
    /// The name of the model whose vectors will be loaded, so that no other's come in beside them
    #[arg(long, value_name = "NAME", conflicts_with = "embedder")]
    pub(crate) embedder_name: Option<String>,
}

/// What a collection holds.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// Components of every vector, 1 to 65,535. Default: as many as the first vector has
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) dim: Option<u32>,
    /// How vectors are compared
    #[arg(long, value_enum, default_value_t = MetricName::Cosine)]
    pub(crate) metric: MetricName,
    /// How vectors are stored: as they are given, or each component rounded to a binary16, at most 65,504 in magnitude, in half the room
    #[arg(long, value_enum, default_value_t = ComponentsName::F32)]
    pub(crate) components: ComponentsName,
    /// How text is cut into tokens: word
    #[arg(long, value_name = "A", default_value = "word")]
    pub(crate) analyzer: String,
    /// The scorer of text searches that do not name one
    #[arg(long, value_enum, default_value_t = ScorerName::Lucene)]
    pub(crate) scorer: ScorerName,
    /// How entities are found in text that comes without them
    #[arg(long, value_enum, default_value_t = ExtractorName::Compat)]
    pub(crate) extractor: ExtractorName,
    /// The metadata key that names a document's source. Default: file_hash
    #[arg(long, value_name = "K")]
    pub(crate) source_key: Option<String>,
    /// What the lists of vector, text and graph weigh when a hybrid search fuses them, 0 to 1000 each. Default: 1,1,1, or what suits the embedder
    #[arg(long, value_name = "V,T,G")]
    pub(crate) leg_weights: Option<String>,
    #[command(flatten)]
    pub(crate) hnsw: HnswArgs,
}

/// How vector graphs are built.
#[derive(Debug, clap::Args)]
pub(crate) struct HnswArgs {
    /// Links of a vector in the vector graph, 2 to 64; on the lowest level twice as many. Default: 16
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) m: Option<u16>,
    /// Candidates among which links are chosen, 1 to 65,536. Default: 200
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) ef_construction: Option<u32>,
    /// What walks of the vector graph compare: codes of seven bits a component, or the vectors themselves
    #[arg(long, value_enum, default_value_t = QuantisationName::Sq7)]
    pub(crate) quantisation: QuantisationName,
}

#[cfg(feature = "ingest")]
#[derive(Debug, clap::Args)]
#[command(after_help = INGEST_NOTES)]
pub(crate) struct IngestArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Files and folders. A file is stored under its path below the folder given; a file given itself under its name
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// What makes the vectors of the chunks: static (part of this program), cmd:PROGRAM, or none. Default: static, if the collection is new
    /// or names it
    #[arg(long, value_name = "E")]
    pub(crate) embedder: Option<String>,
    #[command(flatten)]
    pub(crate) cutting: crate::ingest::chunk::Cutting,
    /// Also remove every source that is in none of these folders any more; with --prefix only those below it
    #[arg(long)]
    pub(crate) prune: bool,
    /// Put P/ before the name of every file, so that several folders can share a collection
    #[arg(long, value_name = "P")]
    pub(crate) prefix: Option<String>,
    /// Take only files that match; with `!` before it, leave out those that do. As in .gitignore; may be repeated
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true)]
    pub(crate) glob: Vec<String>,
    /// Take what .gitignore, .ignore and git's own excludes leave out
    #[arg(long)]
    pub(crate) no_ignore: bool,
    /// Take files and folders whose names begin with a dot
    #[arg(long)]
    pub(crate) hidden: bool,
    /// Follow symbolic links inside the folders
    #[arg(long)]
    pub(crate) follow: bool,
    /// Ingest unchanged files again, say with another --chunk-size
    #[arg(long)]
    pub(crate) force: bool,
    /// Pass over files with more bytes than this
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 50 << 20)]
    pub(crate) max_bytes: u64,
    /// Pass over files that take longer to read than this
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_seconds: u64,
}

#[cfg(feature = "ingest")]
const INGEST_NOTES: &str = "Text, Markdown, HTML, JSON, CSV, PDF, DOCX and source code. A database or collection that is missing is made.\n\
    Unchanged files are skipped. Files that can't be taken are passed over and said, and the exit status is 1 then.";

#[derive(Debug, clap::Args)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// JSON lines, one document each: {"id","text","metadata","vector","source","entities","relations"}; `-` reads stdin. Blank lines are skipped
    #[arg(value_name = "FILE.jsonl|-")]
    pub(crate) file: String,
    /// Vectors in a NumPy file (f16, f32 or f64, C order); row i belongs to line i, blank lines not counted
    #[arg(long, value_name = "FILE.npy")]
    pub(crate) vectors: Option<PathBuf>,
    /// Make the vectors of the texts: static (part of this program), or cmd:PROGRAM. The collection names this embedder
    #[arg(long, value_name = "E", conflicts_with = "vectors")]
    pub(crate) embedder: Option<String>,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    /// Lines a commit
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) batch: u64,
    /// When a commit counts: `sync` survives a power cut, `buffered` the end of this process
    #[arg(long, value_enum, default_value_t = DurabilityName::Sync)]
    pub(crate) durability: DurabilityName,
}

/// How a line becomes a document.
#[derive(Debug, clap::Args)]
pub(crate) struct FormArgs {
    /// The fields whose texts, joined by a blank line, are the document's text
    #[arg(long, value_name = "F,F", value_delimiter = ',', default_value = "text")]
    pub(crate) text_field: Vec<String>,
    /// Take every other key of a line into the metadata, as it stands
    #[arg(long)]
    pub(crate) rest_to_metadata: bool,
}

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("from").args(["input", "vectors"]).required(true).multiple(true))]
pub(crate) struct BuildArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// JSON lines as `load` takes them, one document each; `-` reads stdin. No id may come twice
    #[arg(long, value_name = "FILE.jsonl|-")]
    pub(crate) input: Option<String>,
    /// Vectors in a NumPy file (f16, f32 or f64, C order). With --input row i belongs to line i, blank lines not counted; without it each row
    /// is a document
    #[arg(long, value_name = "FILE.npy")]
    pub(crate) vectors: Option<PathBuf>,
    /// Without --input: the ids of the rows of --vectors, a line each. Default: the numbers of the rows, from 0
    #[arg(long, value_name = "FILE|-", requires = "vectors", conflicts_with = "input")]
    pub(crate) ids: Option<String>,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    #[command(flatten)]
    pub(crate) schema: SchemaArgs,
    /// Make the vectors of the texts of --input: static (part of this program), or cmd:PROGRAM. Its name is stored. Default: no vectors are made
    #[arg(long, value_name = "E", conflicts_with_all = ["vectors", "dim"])]
    pub(crate) embedder: Option<String>,
    /// The name of the model whose vectors are given, which its embedder must have to ask questions or to add documents
    #[arg(long, value_name = "NAME", conflicts_with = "embedder")]
    pub(crate) embedder_name: Option<String>,
    /// Threads that derive what is derived from documents and build vector graphs; the database is the same with any number, 1 to 1,024. Default: all cores
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=limits::BUILD_THREADS_MAX as i64))]
    pub(crate) threads: Option<u16>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The ids
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Print vectors too
    #[arg(long)]
    pub(crate) vectors: bool,
}

/// Which documents are meant, of all that there are.
#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    /// Only documents that match: {"year":{"$gte":2020}}
    #[arg(long, value_name = "JSON")]
    pub(crate) filter: Option<String>,
    /// Only documents of this source; several times: of one of these
    #[arg(long = "source", value_name = "S", allow_hyphen_values = true)]
    pub(crate) sources: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Print vectors too (with --json)
    #[arg(long)]
    pub(crate) vectors: bool,
    /// Stop after so many documents. Default: all
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) which: Which,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// One document as `load` reads it; `-` reads one or many from stdin, all in one commit
    #[arg(value_name = "JSON|-")]
    pub(crate) document: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PatchArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The document to change
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// {"metadata","text","vector","entities","relations"}: metadata keys are merged, null deletes one; "vector":null removes the vector,
    /// "entities":null has them found in the text. `-` reads stdin
    #[arg(value_name = "JSON|-")]
    pub(crate) patch: String,
}

#[derive(Debug, clap::Args)]
#[command(override_usage = DELETE_USAGE)]
#[command(group = ArgGroup::new("what").args(["ids", "source", "filter", "all"]))]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// A document; may be repeated. An id that does not exist is no error
    #[arg(long = "id", value_name = "ID", allow_hyphen_values = true)]
    pub(crate) ids: Vec<String>,
    /// Every document of this source
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    pub(crate) source: Option<String>,
    /// Every document whose metadata match; {} is refused
    #[arg(long, value_name = "JSON")]
    pub(crate) filter: Option<String>,
    /// Every document; the collection and its schema stay
    #[arg(long)]
    pub(crate) all: bool,
    /// Ids without `--id`, for a message that says how they are named
    #[arg(value_name = "ID", hide = true)]
    pub(crate) bare: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StatsArgs {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// This collection only. Default: all of them
    #[arg(long, value_name = "NAME")]
    pub(crate) collection: Option<String>,
    /// Also what takes a pass over the collection to count
    #[arg(long)]
    pub(crate) full: bool,
    /// Also search N of the stored vectors, spread evenly, as a search does by itself and exactly, and say which share of the true ten nearest
    /// was found. Default: 100
    #[arg(long, value_name = "N", allow_negative_numbers = true, num_args = 0..=1, default_missing_value = "100", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) recall: Option<u64>,
}

/// What `triune delete` takes.
pub(crate) const DELETE_USAGE: &str = "triune delete [OPTIONS] DB ((--id ID)... | --source S | --filter JSON | --all)";

#[derive(Debug, clap::Args)]
#[command(override_usage = "triune analyze [OPTIONS] (--analyzer A | --extractor X) [FILE|-]")]
pub(crate) struct AnalyzeArgs {
    /// The analyzer: word
    #[arg(long, value_name = "A", required_unless_present = "extractor", conflicts_with = "extractor")]
    pub(crate) analyzer: Option<String>,
    /// The extractor: compat
    #[arg(long, value_name = "X")]
    pub(crate) extractor: Option<String>,
    /// JSON lines {"text"}; `-`, the default, reads stdin. Each is answered by one line {"tokens"} or {"entities"}
    #[arg(value_name = "FILE|-", default_value = "-")]
    pub(crate) file: String,
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
