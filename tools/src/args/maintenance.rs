//! The commands that keep a database in order: compacting, looking at its files, dumps, backups, repairs.

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

#[derive(Debug, clap::Args)]
pub(crate) struct BackupArgs {
    /// The directory of the database; it may be in use
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// The directory of the backup, which does not exist or is empty
    #[arg(value_name = "DEST")]
    pub(crate) destination: PathBuf,
    /// Hard-link the database's own files instead of copying them: quick, but both share bytes on one disk
    #[arg(long)]
    pub(crate) link: bool,
    /// Hard-link what this earlier backup holds already, and copy the rest
    #[arg(long, value_name = "PREVIOUS")]
    pub(crate) link_from: Option<PathBuf>,
    /// Check every byte of linked files too, and not only of copied ones
    #[arg(long)]
    pub(crate) verify: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RebuildArgs {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// This collection only. Default: all of them
    #[arg(long, value_name = "NAME")]
    pub(crate) collection: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SalvageArgs {
    /// The directory of the damaged database; nothing in it is changed
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// The directory of the new database
    #[arg(long, value_name = "NEW")]
    pub(crate) out: PathBuf,
    /// Make it although something is lost
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Write what is lost to this new file, one JSON object a line. Default: stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) ledger: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UpgradeArgs {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompactArgs {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct InspectArgs {
    /// The directory of the database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// One file of it, by name. Default: all
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<String>,
}
