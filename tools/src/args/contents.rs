//! The commands that look at what stands beside the documents: collections, sources, the entity graph.

use super::Target;
use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct CollectionsArgs {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    #[command(subcommand)]
    pub(crate) action: Option<CollectionsAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CollectionsAction {
    /// Remove a collection with all its documents
    Drop {
        /// The collection to remove
        name: String,
    },
    /// Give a collection another name, which must be free
    Rename {
        /// The collection
        old: String,
        /// Its new name
        new: String,
    },
    /// Exchange the names of two collections at once
    Swap {
        /// One collection
        a: String,
        /// The other
        b: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct SourcesArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print the registry as one JSON object by source, the youngest first: {SOURCE: {"id","name","uploaded_at","chunks","vectors","entities","edges"}}
    #[arg(long)]
    pub(crate) registry: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GraphArgs {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// The collection
    #[arg(long, value_name = "NAME", default_value = "main", global = true)]
    pub(crate) collection: String,
    #[command(subcommand)]
    pub(crate) action: GraphAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GraphAction {
    /// Print one entity: how many documents mention it, how often, and its relations
    Entity {
        /// The entity, in any spelling of its letters' case
        name: String,
    },
    /// Print the entities that relations or shared documents join to one, the strongest first
    Neighbors {
        /// The entity, in any spelling of its letters' case
        name: String,
        /// How many. Default: 20 for people, all with --json
        #[arg(short, value_name = "N", allow_negative_numbers = true)]
        k: Option<usize>,
    },
    /// Rank every entity by personalised PageRank over the relations that documents came with
    Ppr {
        /// Entities with weights: {"NAME": WEIGHT}; {} means all alike
        #[arg(long, value_name = "JSON", default_value = "{}")]
        seeds: String,
        /// How many. Default: 20 for people, all with --json
        #[arg(short, value_name = "N", allow_negative_numbers = true)]
        k: Option<usize>,
    },
}
