//! `triune compact`: one segment a collection, nothing dead, no file that nothing names.

use super::progress::Stages;
use crate::args::CompactArgs;
use crate::output::{Failure, Out, Outcome};
use triune::{Database, Options};

pub(crate) fn run(args: &CompactArgs, out: &mut Out) -> Outcome<()> {
    let stages = Stages::new();
    let options = Options { observer: Some(stages.observer()), ..Options::default() };
    let database = super::open_for_writing_with(&args.database, options)?;
    let before = Size { bytes: database.bytes_on_disk()?, of_graphs: of_graphs(&database) };
    let compacted = database.compact();
    stages.clear();
    let of_graphs = of_graphs(&database);
    let compacted = compacted.map_err(Failure::from).and_then(|()| {
        let counted = database.bytes_on_disk().map_err(Failure::from);
        counted.map_err(|f| f.reworded(|m| format!("{m}. The compaction stands; only the bytes of its files could not be counted")))
    });
    super::tell_and_close(database, compacted, |bytes| tell(&before, &Size { bytes, of_graphs }, out))
}

/// What a database takes on the disk.
struct Size {
    bytes: u64,
    /// Links and codes of its vector graphs.
    of_graphs: u64,
}

/// What vector graphs take. A collection whose files are damaged counts nothing here: compacting says what is wrong with it.
fn of_graphs(database: &Database) -> u64 {
    let snapshot = database.snapshot();
    let of = |name: &String| snapshot.collection(name).and_then(|c| c.vector_bytes()).map_or(0, |bytes| bytes.links + bytes.codes);
    snapshot.collections().iter().map(of).sum()
}

fn tell(before: &Size, after: &Size, out: &mut Out) -> Outcome<()> {
    if out.json() {
        return out.object(&serde_json::json!({
            "bytes_before": before.bytes, "bytes": after.bytes,
            "graph_bytes_before": before.of_graphs, "graph_bytes": after.of_graphs,
        }));
    }
    out.line(format_args!("compacted: {} bytes before, {} after", before.bytes, after.bytes))?;
    let Some(grown) = after.bytes.checked_sub(before.bytes).filter(|grown| *grown > 0) else { return Ok(()) };
    if after.of_graphs > before.of_graphs {
        return out.line(format_args!(
            "{grown} bytes more: vector graphs, which make vector searches quick, take {} bytes now and took {} before",
            after.of_graphs, before.of_graphs
        ));
    }
    out.line(format_args!("{grown} bytes more: the segments that were written take more than what they replace, indexes included"))
}
