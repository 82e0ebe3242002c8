//! The commands that keep a database safe: dumps, backups, repairs.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct DumpArgs {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// This collection only; may be repeated. Default: all of them
    #[arg(long, value_name = "NAME")]
    pub(crate) collection: Vec<String>,
    /// Write to this file, which must not exist. Default: stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RestoreArgs {
    /// The directory of the new database
    #[arg(value_name = "NEW")]
    pub(crate) database: PathBuf,
    /// The dump; `-` reads stdin
    #[arg(value_name = "FILE|-")]
    pub(crate) file: String,
}
