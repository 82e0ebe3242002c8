//! What `tracing` is told: that things happened, and nothing of what is stored or asked.

use super::{json, options};
use parking_lot::Mutex;
use std::fmt::{Debug, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use triune::io::SimDirectory;
use triune::io::sim::FailureKind;
use triune::{Database, Document, Entity, Filter, Mode, Options, Patch, Schema, Search, WriteBatch};

/// In every text, id, name and value of the workload.
const MARKER: &str = "xyzzy";
/// In every vector.
const NUMBER: f32 = 77_123.5;

/// Writes down every span and event, one line each.
#[derive(Debug, Clone, Default)]
struct Ears {
    heard: Arc<Mutex<String>>,
    next: Arc<AtomicU64>,
}

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Ears {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut heard = self.heard.lock();
        heard.push_str(span.metadata().name());
        span.record(&mut Line(&mut heard));
        heard.push('\n');
        Id::from_u64(self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Line(&mut self.heard.lock()));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut heard = self.heard.lock();
        let _ = write!(heard, "{}", event.metadata().level());
        event.record(&mut Line(&mut heard));
        heard.push('\n');
    }

    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A document in which everything that can be named holds the marker.
fn marked(i: u32) -> Document {
    let metadata = format!(r#"{{"{MARKER}key":"{MARKER}value{i}"}}"#);
    let entity = Entity::new(format!("{MARKER}Entity"));
    Document::new(format!("{MARKER}{i}"))
        .text(format!("{MARKER} text {i}"))
        .metadata(json(&metadata))
        .source(format!("{MARKER}source"))
        .entities(vec![entity])
        .vector([NUMBER, i as f32])
}

/// Opens, commits of every kind, checkpoints, merges, searches, refreshes, refusals, failures.
fn workload() {
    let name = format!("{MARKER}collection");
    let disk = SimDirectory::new();
    let small = Options { merge_fan_in: 2, ..options() };
    let open = || Database::open_with(Arc::new(disk.clone()), small.clone()).unwrap();
    let db = Database::create_with(Arc::new(disk.clone()), small.clone()).unwrap();
    db.create_collection(&name, Schema::default()).unwrap();
    for round in 0..3 {
        db.put(&name, (0..5).map(|i| marked(round * 5 + i)).collect()).unwrap();
        db.checkpoint().unwrap();
    }
    let reader = Database::open_read_only_with(Arc::new(disk.clone()), options()).unwrap();
    db.delete(&name, vec![format!("{MARKER}3")]).unwrap();
    db.patch(&name, vec![Patch::new(format!("{MARKER}4")).text(format!("{MARKER} again"))]).unwrap();
    db.insert(&name, vec![marked(1)]).unwrap_err();
    reader.refresh().unwrap();
    reader.refresh().unwrap();
    let filter = Filter::parse(&format!(r#"{{"{MARKER}key":"{MARKER}value2"}}"#)).unwrap();
    let search = Search {
        query: Some(format!("{MARKER} text")),
        vector: Some(vec![NUMBER, 1.0]),
        filter: Some(filter),
        mode: Mode::Hybrid,
        ..Search::default()
    };
    assert_eq!(db.snapshot().collection(&name).unwrap().search(&search).unwrap().hits.len(), 1);
    db.merge().unwrap();
    db.delete_source(&name, &format!("{MARKER}source")).unwrap();
    // A batch that lands as a segment.
    let mut batch = WriteBatch::new();
    batch.put(&name, vec![Document::new(format!("{MARKER}large")).text(format!("{MARKER} ").repeat(2 << 20))]);
    db.commit(batch).unwrap();
    drop(db);
    // A recovery; a full disk; a disk that fails.
    let db = open();
    db.put(&name, vec![marked(50)]).unwrap();
    disk.disk_limit(1);
    db.put(&name, vec![marked(51)]).unwrap_err();
    disk.disk_limit(u64::MAX);
    disk.fail_from(disk.operations(), FailureKind::Eio);
    db.put(&name, vec![marked(52)]).unwrap_err();
}

#[test]
fn events_tell_what_happened_and_nothing_of_what_is_stored_or_asked() {
    // Once unheard, so that every event is known to `tracing` before anybody listens: other tests of this process meet some of them for the
    // first time at any moment, and one that is met just while a subscriber comes would stay silent.
    workload();
    let ears = Ears::default();
    tracing::subscriber::with_default(ears.clone(), workload);
    let heard = ears.heard.lock().clone();
    for told in
        ["opened", "committed", "landed", "flushed", "checkpointed", "merged", "collected garbage", "refreshed", "stopped", "replayed="]
    {
        assert!(heard.contains(told), "{told:?} was not told:\n{heard}");
    }
    for told in ["open ", "checkpoint\n", "merge "] {
        assert!(heard.lines().any(|l| format!("{l}\n").starts_with(told)), "there is no span {told:?}:\n{heard}");
    }
    let lower = heard.to_lowercase();
    for secret in [MARKER, "77123.5", "7.71235"] {
        assert!(!lower.contains(secret), "{secret:?} was told:\n{heard}");
    }
}
