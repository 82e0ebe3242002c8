//! `triune create`: makes the database when it does not exist, and adds the collection when it does.

use crate::args::{CreateArgs, ExtractorName, HnswArgs, QuantisationName, SchemaArgs};
use crate::embedder::{self, Wanted};
use crate::output::{Failure, Out, Outcome};
use triune::{Database, Error, ErrorCode, ExtractorKind, Hnsw, LegWeights, Quantisation, Schema};

pub(crate) fn run(args: &CreateArgs, out: &mut Out) -> Outcome<()> {
    // Everything is checked before the first file is made.
    let mut schema = schema(&args.schema)?;
    if let Some(name) = &args.embedder_name {
        embedder::named(name, &mut schema);
    }
    if args.embedder.is_some() {
        let wanted = Wanted::parse(args.embedder.as_deref())?;
        if let Some(embedder) = wanted.for_new_collection()? {
            embedder::name(&*embedder, &mut schema);
        }
    }
    triune::check_new_collection(&args.target.collection, &schema)?;
    let (database, made) = match Database::create(&args.target.database) {
        Ok(database) => (database, true),
        Err(Error::AlreadyExists(what)) => match super::open_for_writing(&args.target.database) {
            // Without a HEAD nothing says that there ever was a database, so what stands in the way is told, and no damage.
            Err(_) if !args.target.database.join("HEAD").exists() => return Err(Error::AlreadyExists(what).into()),
            opened => (opened?, false),
        },
        Err(other) => return Err(other.into()),
    };
    let name = &args.target.collection;
    let created = database.create_collection(name, schema.clone()).map_err(|error| {
        let exists = error.code() == ErrorCode::AlreadyExists;
        Failure::from(error).reworded(|m| match exists {
            true => format!(
                "{}. Nothing was changed; `--collection NAME` adds another collection",
                m.trim_end_matches("; nothing of the batch was written")
            ),
            false => m,
        })
    });
    let created = created.map_err(|f| if made { super::in_new_database(f, &args.target.database) } else { f });
    super::tell_and_close(database, created, |_| tell(args, made, schema, out))
}

fn tell(args: &CreateArgs, made: bool, schema: Schema, out: &mut Out) -> Outcome<()> {
    let (path, name) = (args.target.database.display(), &args.target.collection);
    if out.json() {
        return out.object(&serde_json::json!({ "database": path.to_string(), "collection": name, "made": made, "schema": schema }));
    }
    let dimension = schema.dimension.map_or("vectors as long as the first".to_string(), |d| format!("{d}-dimensional vectors"));
    out.line(format_args!("{} {path}", if made { "created" } else { "opened" }))?;
    let embedder = schema.embedder.map(|e| format!(", embedder {e}")).unwrap_or_default();
    out.line(format_args!(
        "added collection {name}: {dimension}, components {}, metric {}, analyzer {}, scorer {}, extractor {}{embedder}",
        schema.components, schema.metric, schema.analyzer, schema.scorer, schema.extractor
    ))
}

/// Reads the flags of a schema.
pub(super) fn schema(args: &SchemaArgs) -> Outcome<Schema> {
    let extractor = match args.extractor {
        ExtractorName::None => ExtractorKind::None,
        ExtractorName::Compat => ExtractorKind::Compat,
        ExtractorName::Rules => return Err(Failure::not_yet("the extractor rules (known: compat, none)")),
    };
    let mut schema = Schema {
        dimension: args.dim,
        metric: args.metric.into(),
        analyzer: args.analyzer.parse()?,
        scorer: args.scorer.into(),
        extractor,
        hnsw: hnsw(&args.hnsw),
        components: args.components.into(),
        leg_weights: leg_weights(args.leg_weights.as_deref())?.unwrap_or_default(),
        ..Schema::default()
    };
    if let Some(key) = &args.source_key {
        schema.source_key = key.clone();
    }
    schema.validate()?;
    Ok(schema)
}

/// Reads `--leg-weights`.
pub(super) fn leg_weights(given: Option<&str>) -> Outcome<Option<LegWeights>> {
    let Some(given) = given else { return Ok(None) };
    let most = f64::from(LegWeights::MAX);
    let mut weights = Vec::new();
    for weight in given.split(',') {
        match weight.trim().parse::<f64>().map(|w| (w * 1000.0).round()) {
            Ok(thousandths) if (0.0..=most).contains(&thousandths) => weights.push(thousandths as u32),
            _ => return Err(Failure::invalid(format!("--leg-weights: a leg weighs 0 to {}; {weight:?} was given", most / 1000.0))),
        }
    }
    match weights[..] {
        [vector, text, graph] => Ok(Some(LegWeights { vector, text, graph })),
        _ => Err(Failure::invalid(format!("--leg-weights are three, of vector, text and graph; {} were given", weights.len()))),
    }
}

fn hnsw(args: &HnswArgs) -> Hnsw {
    let default = Hnsw::default();
    Hnsw {
        m: args.m.unwrap_or(default.m),
        ef_construction: args.ef_construction.unwrap_or(default.ef_construction),
        quantisation: match args.quantisation {
            QuantisationName::None => Quantisation::None,
            QuantisationName::Sq7 => Quantisation::Sq7,
        },
    }
}
