//! `triune sources`: the registry of sources, each with what is stored of it.

use crate::args::SourcesArgs;
use crate::output::{Counted, Name, Out, Outcome};
use serde::{Serialize, Serializer};
use time::OffsetDateTime;
use triune::SourceInfo;

pub(crate) fn run(args: &SourcesArgs, out: &mut Out) -> Outcome<()> {
    let database = super::open_for_reading(&args.target.database)?;
    let collection = super::collection(&database.snapshot(), &args.target)?;
    if args.registry {
        return registry(collection.sources()?, out);
    }
    for s in collection.sources()? {
        match out.json() {
            true => out.object(&serde_json::json!({
                "source": s.source, "name": s.display_name, "chunks": s.documents, "vectors": s.vectors, "entities": s.entities,
                "mentions": s.mentions, "bytes": s.bytes, "time_ms": s.time_ms,
            }))?,
            false => out.line(format_args!(
                "{}: {}, {}, {} bytes",
                Name(&s.source),
                Counted(s.documents, "chunk"),
                Counted(s.entities, "distinct entity name"),
                s.bytes
            ))?,
        }
    }
    Ok(())
}

/// The registry as knowledge-base applications keep it in a file: one object, indented by two, an entry of seven keys for each source. `edges` are
/// the edges between the source's documents and entities, those of this source alone.
fn registry(mut sources: Vec<SourceInfo>, out: &mut Out) -> Outcome<()> {
    // Stable: sources of one moment stay in the order of their names.
    sources.sort_by_key(|s| std::cmp::Reverse(s.time_ms));
    out.pretty(&Registry(sources))
}

/// Sources, in the order in which they are printed.
struct Registry(Vec<SourceInfo>);

/// What an application keeps of a source.
#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    name: &'a str,
    uploaded_at: String,
    chunks: u64,
    vectors: u64,
    entities: u64,
    edges: u64,
}

impl Serialize for Registry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|s| {
            let (id, name, uploaded_at) = (s.source.as_str(), s.display_name.as_str(), iso_8601(s.time_ms));
            (id, Entry { id, name, uploaded_at, chunks: s.documents, vectors: s.vectors, entities: s.entities, edges: s.mentions })
        }))
    }
}

/// A time in UTC with microseconds. One that no calendar has is that of the first moment.
fn iso_8601(time_ms: u64) -> String {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(time_ms) * 1_000_000).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (date, time) = (at.date(), at.time());
    let (hour, minute, second, micros) = time.as_hms_micro();
    format!("{:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+00:00", date.year(), u8::from(date.month()), date.day())
}

#[cfg(test)]
mod tests {
    use super::iso_8601;

    #[test]
    fn times_are_written_as_a_calendar_has_them() {
        assert_eq!(iso_8601(0), "1970-01-01T00:00:00.000000+00:00");
        assert_eq!(iso_8601(1_709_164_799_007), "2024-02-28T23:59:59.007000+00:00");
        assert_eq!(iso_8601(1_709_164_800_000), "2024-02-29T00:00:00.000000+00:00");
        assert_eq!(iso_8601(u64::MAX), "1970-01-01T00:00:00.000000+00:00");
    }
}
