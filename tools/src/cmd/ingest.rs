//! `triune ingest`: files and folders into a collection, one commit a file.
//!
//! A file is in whole or not at all: its chunks replace the ones stored under its name in one commit, and a file that can't be taken leaves
//! what is stored as it was. Memory is one file with its chunks, and the names of all files.

mod fate;

use super::interrupt::Interrupt;
use crate::args::IngestArgs;
use crate::embedder::{self, Wanted};
use crate::ingest::kind::SourceType;
use crate::ingest::regular;
use crate::ingest::walk::{self, Found, Root, Rules};
use crate::ingest::worker::Worker;
use crate::ingest::{Chunk, Extracted};
use crate::output::{Counted, Failure, Name, Out, Outcome, aside, note};
use fate::{Counts, Fate, Status};
use indicatif::{ProgressBar, ProgressStyle};
use md5::{Digest, Md5};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;
use triune::models::Embedder;
use triune::{Database, Document, Durability, Error, ErrorCode, ExtractorKind, Metadata, Schema, StoredDocument, WriteBatch};

type MaybeEmbedder = Option<Box<dyn Embedder>>;

pub(crate) fn run(args: &IngestArgs, out: &mut Out) -> Outcome<()> {
    let wanted = Wanted::parse(args.embedder.as_deref())?;
    args.cutting.check().map_err(Failure::invalid)?;
    walk::check(&args.glob).map_err(|e| Failure::invalid(format!("--glob: {e}")))?;
    let prefix = args.prefix.as_deref().map(|p| p.trim_matches('/')).filter(|p| !p.is_empty());
    let roots = args.paths.iter().map(|path| root(path)).collect::<Outcome<Vec<Root>>>()?;

    // Where nothing is yet, an embedder that does not answer leaves nothing.
    let first = match args.target.database.exists() {
        true => None,
        false => Some(new_collection(&args.target.collection, &wanted)?),
    };
    let (database, made) = open_or_create(&args.target.database)?;
    let (schema, embedder) = collection(&database, &args.target.collection, &wanted, first)
        .map_err(|f| if made { super::in_new_database(f, &args.target.database) } else { f })?;
    let input = args.paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
    let interrupt = Interrupt::install(&input, "file", out.json())?;
    if embedder.is_none() {
        say_retrievers(&schema);
    }
    let started = Instant::now();
    let (done, counts) = {
        let mut ingest = Ingest {
            database: &database,
            args,
            prefix,
            schema,
            embedder,
            worker: Worker::new(args.cutting, args.max_bytes, args.max_seconds),
            claimed: HashMap::new(),
            interrupt: &interrupt,
            progress: ProgressBar::hidden(),
            counts: Counts::default(),
            out,
            reading: true,
        };
        let done = ingest.run(&roots);
        ingest.progress.finish_and_clear();
        (done, ingest.counts)
    };
    let closed = interrupt.close(|| database.close());
    done?;
    counts.say(&args.target.collection, started, out)?;
    closed?;
    if counts.passed_over > 0 { Err(Failure::Incomplete) } else { Ok(()) }
}

/// A path that was given, which must be there.
fn root(path: &Path) -> Outcome<Root> {
    // The current directory is still found as `.` when it was removed, and is empty then: nobody who asks to --prune means that.
    if path.is_dir() && path.canonicalize().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
        let message =
            format!("{:?} is a directory that was removed. Nothing was changed; name one that is there", path.display().to_string());
        return Err(Failure::not_found(message));
    }
    Root::at(path).map_err(|e| Failure::file(path.display(), &e).reworded(|m| format!("{m}. Nothing was changed")))
}

/// The database, and whether it was made.
fn open_or_create(path: &Path) -> Outcome<(Database, bool)> {
    match Database::create(path) {
        Ok(database) => Ok((database, true)),
        Err(Error::AlreadyExists(_)) => Ok((super::open_for_writing(path)?, false)),
        Err(other) => Err(other.into()),
    }
}

/// The embedder of a collection that is about to be made, once it gave a vector: a collection that nobody can fill is not made.
fn answering(wanted: &Wanted) -> Outcome<MaybeEmbedder> {
    let embedder = wanted.for_new_collection()?;
    if let Some(embedder) = &embedder {
        embedder::of_documents(&**embedder, &["Does it answer?"])?;
    }
    Ok(embedder)
}

/// The schema of a collection that is to be made, and the embedder of what comes into it.
fn new_collection(name: &str, wanted: &Wanted) -> Outcome<(Schema, MaybeEmbedder)> {
    let mut schema = Schema { source_key: "file_path".into(), ..Schema::default() };
    let embedder = answering(wanted)?;
    if let Some(embedder) = &embedder {
        embedder::name(&**embedder, &mut schema);
    }
    triune::check_new_collection(name, &schema)?;
    Ok((schema, embedder))
}

/// The schema of the collection, which is made when it is not there, and the embedder of what comes into it, unless both are at hand.
fn collection(
    database: &Database,
    name: &str,
    wanted: &Wanted,
    at_hand: Option<(Schema, MaybeEmbedder)>,
) -> Outcome<(Schema, MaybeEmbedder)> {
    let snapshot = database.snapshot();
    if snapshot.collections().iter().any(|c| c == name) {
        let schema = snapshot.collection(name)?.schema().clone();
        let embedder = wanted.for_documents(name, &schema)?;
        return Ok((schema, embedder));
    }
    let (schema, embedder) = at_hand.map_or_else(|| new_collection(name, wanted), Ok)?;
    database.create_collection(name, schema.clone())?;
    Ok((schema, embedder))
}

/// What will find the chunks.
fn say_retrievers(schema: &Schema) {
    let found_by = if schema.extractor == ExtractorKind::None { "text search alone finds" } else { "text and graph search find" };
    note(format_args!("no embedder: the chunks get no vectors, so {found_by} them"));
}

struct Ingest<'a> {
    database: &'a Database,
    args: &'a IngestArgs,
    prefix: Option<&'a str>,
    schema: Schema,
    embedder: MaybeEmbedder,
    worker: Worker,
    /// The sources of this run, with the file each is read from.
    claimed: HashMap<String, PathBuf>,
    interrupt: &'a Interrupt,
    progress: ProgressBar,
    counts: Counts,
    out: &'a mut Out,
    /// Whether someone still reads the `--json` lines. The files go on without.
    reading: bool,
}

impl Ingest<'_> {
    fn run(&mut self, roots: &[Root]) -> Outcome<()> {
        let rules =
            Rules { no_ignore: self.args.no_ignore, hidden: self.args.hidden, follow: self.args.follow, globs: self.args.glob.clone() };
        let found: Vec<Found> = roots.iter().flat_map(|root| walk::find(root, &rules)).collect();
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}").expect("the template is constant and parses");
        self.progress = ProgressBar::new(found.len() as u64).with_style(style);
        for file in found {
            self.interrupt.check()?;
            let source = self.source(&file.name);
            self.progress.set_message(source.clone());
            let fate = self.file(&source, file).map_err(|f| self.at(&source, f))?;
            if let Some(fate) = fate {
                self.tell(&source, fate)?;
            }
            self.progress.inc(1);
        }
        if self.args.prune {
            self.prune(roots)?;
        }
        Ok(())
    }

    fn source(&self, name: &str) -> String {
        self.prefix.map_or_else(|| name.to_string(), |prefix| format!("{prefix}/{name}"))
    }

    /// Takes one file. Nothing: it was taken before, under the same name.
    fn file(&mut self, source: &str, file: Found) -> Outcome<Option<Fate>> {
        if let Some(reason) = file.refused {
            return Ok(Some(Fate::passed_over(reason)));
        }
        if let Some(first) = self.claimed.get(source) {
            if first.canonicalize().ok() == file.path.canonicalize().ok() {
                return Ok(None);
            }
            let reason = format!("{} has that name already; give each folder its own --prefix or --collection", first.display());
            return Ok(Some(Fate::passed_over(reason)));
        }
        self.claimed.insert(source.to_string(), file.path.clone());
        let stored = self.stored(source)?;
        let mut fate = match regular::read(&file.path, self.args.max_bytes, "--max-bytes") {
            Ok(bytes) => self.take(source, &file.path, &bytes, stored.as_ref())?,
            Err(reason) => Fate::passed_over(reason),
        };
        if let (Status::PassedOver, Some(_), Some(reason)) = (fate.status, stored, &mut fate.reason) {
            reason.push_str("; what is stored of it stays");
        }
        Ok(Some(fate))
    }

    /// The first chunk that is stored of a source.
    fn stored(&self, source: &str) -> Outcome<Option<StoredDocument>> {
        let first = self.database.snapshot().collection(&self.args.target.collection)?.get(&format!("{source}#0"))?;
        Ok(first.filter(|d| d.source.as_deref() == Some(source)))
    }

    fn take(&mut self, source: &str, path: &Path, bytes: &[u8], stored: Option<&StoredDocument>) -> Outcome<Fate> {
        let hash = Md5::digest(bytes).iter().map(|b| format!("{b:02x}")).collect::<String>();
        let before = stored.and_then(|d| d.metadata.as_ref()).and_then(|m| m.string(self.hash_key()));
        if before.as_ref() == Some(&hash) && !self.args.force {
            self.interrupt.commit(1, || Ok(()))?;
            return Ok(Fate::new(Status::Unchanged));
        }
        let origin = origin(path);
        if let Some(other) = other_file(stored, &origin).filter(|_| !self.args.force) {
            return Ok(Fate::passed_over(format!(
                "{other} has that name already, and {origin} differs; --prefix keeps both, --force replaces the one by the other"
            )));
        }
        let kind = SourceType::of(source, bytes);
        let answer = self.worker.ask(kind, bytes).map_err(|e| Failure::Refused {
            code: ErrorCode::Io,
            message: format!("the process that reads files can't be started: {e}"),
        })?;
        self.interrupt.check()?;
        let Extracted { chunks, remark } = match answer {
            Ok(extracted) => extracted,
            Err(reason) => return Ok(Fate::passed_over(reason)),
        };
        let mut batch = WriteBatch::new();
        let written = chunks.len() as u64;
        let (status, reason) = match (written, stored) {
            (0, None) => {
                self.interrupt.commit(1, || Ok(()))?;
                return Ok(Fate { reason: Some("it has no text".into()), ..Fate::new(Status::Empty) });
            }
            (0, Some(_)) => (Status::Removed, Some("it has no text any more".to_string())),
            (_, None) => (Status::Added, remark),
            (_, Some(_)) => (Status::Replaced, remark),
        };
        match self.documents(source, &origin, kind, &hash, chunks) {
            Ok(documents) => batch.replace_source(&self.args.target.collection, source, documents),
            Err(refused) => {
                self.interrupt.check()?;
                return refusal_of_this_file(refused);
            }
        };
        let database = self.database;
        let committed = self.interrupt.commit(1, || database.commit_with(batch, Durability::Sync).map(|_| ()).map_err(Failure::from));
        match committed {
            Ok(()) => Ok(Fate { status, chunks: written, reason }),
            Err(refused) => refusal_of_this_file(refused),
        }
    }

    /// Under which key the content hash is kept: the usual one, unless the collection reads the source there.
    fn hash_key(&self) -> &'static str {
        if self.schema.source_key == "file_hash" { "content_hash" } else { "file_hash" }
    }

    fn documents(&self, source: &str, origin: &str, kind: SourceType, hash: &str, chunks: Vec<Chunk>) -> Outcome<Vec<Document>> {
        let total = chunks.len();
        let mut vectors = match &self.embedder {
            Some(embedder) => embedder::of_documents(&**embedder, &chunks.iter().map(|c| c.text.as_str()).collect::<Vec<_>>())?,
            None => vec![None; total],
        };
        let name = source.rsplit('/').next().unwrap_or(source);
        let mut document = |(index, chunk): (usize, Chunk)| -> Outcome<Document> {
            let mut metadata = Map::new();
            // What a passage is cited by.
            metadata.insert("title".into(), name.into());
            metadata.insert("file_name".into(), name.into());
            metadata.insert("file_path".into(), source.into());
            metadata.insert(ORIGIN.into(), origin.into());
            metadata.insert(self.hash_key().into(), hash.into());
            metadata.insert("chunk_index".into(), index.into());
            metadata.insert("total_chunks".into(), total.into());
            metadata.insert("source_type".into(), json!(kind));
            if let Some(page) = chunk.page {
                metadata.insert("page".into(), page.into());
            }
            // Where the collection reads the source, only the source may stand.
            let key = &self.schema.source_key;
            if metadata.get(key).is_some_and(|v| v != &Value::from(source)) {
                metadata.remove(key);
            }
            let metadata = Metadata::from_json(Value::Object(metadata).to_string())?;
            let mut document = Document::new(format!("{source}#{index}")).text(chunk.text).metadata(metadata).source(source);
            document.vector = vectors[index].take();
            Ok(document)
        };
        chunks.into_iter().enumerate().map(&mut document).collect()
    }

    /// Removes what was ingested under the prefix and is in none of the folders any more.
    fn prune(&mut self, roots: &[Root]) -> Outcome<()> {
        let folders: Vec<&Root> = roots.iter().filter(|r| r.is_folder).collect();
        if folders.is_empty() {
            note("--prune removes what vanished from a folder; none was given, so nothing was removed");
            return Ok(());
        }
        let name = self.args.target.collection.clone();
        let stored = self.database.snapshot().collection(&name).and_then(|c| c.sources());
        let stored = stored.map_err(|e| self.at("--prune", e.into()))?;
        for source in stored.into_iter().map(|s| s.source) {
            self.interrupt.check()?;
            let Some(below) = self.below_prefix(&source) else { continue };
            if self.claimed.contains_key(&source) || !folders.iter().all(|folder| folder.lacks(below)) {
                continue;
            }
            // What came here by another way than `ingest` is left alone.
            let path = self.stored(&source).map_err(|f| self.at(&source, f))?.and_then(|d| d.metadata).and_then(|m| m.string("file_path"));
            if path.as_ref() != Some(&source) {
                continue;
            }
            let mut batch = WriteBatch::new();
            batch.delete_source(&name, &source);
            let database = self.database;
            self.interrupt
                .commit(0, || database.commit_with(batch, Durability::Sync).map_err(Failure::from))
                .map_err(|f| self.at(&source, f))?;
            self.tell(&source, Fate::new(Status::Removed))?;
        }
        Ok(())
    }

    fn below_prefix<'s>(&self, source: &'s str) -> Option<&'s str> {
        self.prefix.map_or(Some(source), |prefix| source.strip_prefix(prefix)?.strip_prefix('/'))
    }

    /// Counts a file and says what became of it.
    fn tell(&mut self, source: &str, fate: Fate) -> Outcome<()> {
        self.counts.count(&fate);
        if self.out.json() && self.reading {
            let line = json!({ "file": source, "status": fate.status.name(), "chunks": fate.chunks, "reason": fate.reason });
            match self.out.object(&line).and_then(|()| self.out.flush()) {
                // Nobody reads the lines any more: from here on stderr has the reasons.
                Err(Failure::OutputClosed) => self.reading = false,
                other => return other,
            }
        }
        match (fate.status, &fate.reason) {
            (Status::PassedOver, Some(reason)) => {
                self.progress.suspend(|| aside("passed over", format_args!("{}: {reason}", Name(source))))
            }
            (_, Some(reason)) => self.progress.suspend(|| note(format_args!("{}: {reason}", Name(source)))),
            (_, None) => {}
        }
        Ok(())
    }

    /// A failure that ends the run at this file.
    fn at(&self, source: &str, failure: Failure) -> Failure {
        if matches!(failure, Failure::Refused { code: ErrorCode::Interrupted, .. }) {
            return failure;
        }
        let before = self.interrupt.committed();
        let failure = if before > 0 { failure.after_commits() } else { failure };
        failure.reworded(|message| {
            format!("{source}: {message}. {} before it {} in", Counted(before, "file"), if before == 1 { "is" } else { "are" })
        })
    }
}

/// The metadata key that holds which file of this machine a chunk was read from: names below two folders may be the same.
const ORIGIN: &str = "file_origin";

/// The absolute path of a file, free of links.
fn origin(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf()).display().to_string()
}

/// The file that a stored chunk was read from, when it is another one than `origin`.
fn other_file(stored: Option<&StoredDocument>, origin: &str) -> Option<String> {
    stored?.metadata.as_ref()?.string(ORIGIN).filter(|other| other != origin)
}

/// A name that is too long costs a file its place; what is wrong with the database ends the run.
fn refusal_of_this_file(failure: Failure) -> Outcome<Fate> {
    if let Failure::Refused { code: ErrorCode::InvalidArgument | ErrorCode::LimitExceeded, message } = failure {
        return Ok(Fate::passed_over(message));
    }
    Err(failure)
}
