//! Which files there are under the paths given, and what each is called.
//!
//! A file is called by its path below the folder given, with `/` between its steps; a file given itself, by its name. Every entry is either
//! a regular file, to be read, or comes with the reason why it is passed over. Only what an ignore rule or the dot of a hidden name leaves
//! out goes unsaid, and the folders of version control and of databases.

use ignore::overrides::{Override, OverrideBuilder};
use ignore::{DirEntry, WalkBuilder};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// A path that was given.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    pub(crate) is_folder: bool,
}

impl Root {
    /// Looks at `path`; what it leads to must be there, and be no database.
    pub(crate) fn at(path: &Path) -> io::Result<Root> {
        if is_database(path) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a database, and its files are no documents"));
        }
        Ok(Root { path: path.to_path_buf(), is_folder: fs::metadata(path)?.is_dir() })
    }

    /// Whether no file of that name is below this folder any more. Where that can't be told, it counts as there.
    pub(crate) fn lacks(&self, name: &str) -> bool {
        match fs::symlink_metadata(self.path.join(name)) {
            Ok(found) => found.is_dir(),
            Err(e) => matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }
}

/// What the walk passes by.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Not even `.gitignore`, `.ignore` and git's own excludes count.
    pub(crate) no_ignore: bool,
    /// Hidden files and folders are taken too.
    pub(crate) hidden: bool,
    /// Symbolic links are followed.
    pub(crate) follow: bool,
    /// Files to take, or with `!` to leave out, in the syntax of `.gitignore`.
    pub(crate) globs: Vec<String>,
}

/// An entry of a walk.
#[derive(Debug)]
pub(crate) struct Found {
    /// Its name below its root.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Why it is not read.
    pub(crate) refused: Option<String>,
}

/// Checks the globs.
pub(crate) fn check(globs: &[String]) -> Result<(), String> {
    overrides(Path::new("."), globs).map(|_| ())
}

fn overrides(root: &Path, globs: &[String]) -> Result<Override, String> {
    let mut builder = OverrideBuilder::new(root);
    for glob in globs {
        builder.add(glob).map_err(|e| e.to_string())?;
    }
    builder.build().map_err(|e| e.to_string())
}

/// Everything under `root`, in the order of names.
pub(crate) fn find(root: &Root, rules: &Rules) -> Vec<Found> {
    if !root.is_folder {
        let name = root.path.file_name().map(OsStr::to_os_string).unwrap_or_default();
        return vec![found(Path::new(&name), &root.path, fs::metadata(&root.path).map(|m| m.file_type()))];
    }
    let mut walk = WalkBuilder::new(&root.path);
    walk.standard_filters(!rules.no_ignore)
        .hidden(!rules.hidden)
        .require_git(false)
        .follow_links(rules.follow)
        .overrides(overrides(&root.path, &rules.globs).unwrap_or_else(|_| Override::empty()))
        .sort_by_file_name(|a, b| a.cmp(b))
        .filter_entry(|entry| !is_folder(entry) || entry.depth() == 0 || wanted(entry));
    let mut all = Vec::new();
    for entry in walk.build() {
        match entry {
            // What was given is followed, also when it is a link.
            Ok(entry) if entry.depth() == 0 || is_folder(&entry) => {}
            Ok(entry) => {
                let below = entry.path().strip_prefix(&root.path).unwrap_or(entry.path());
                all.push(found(below, entry.path(), entry.file_type().ok_or_else(|| io::Error::other("it has no type"))));
            }
            Err(error) => all.push(broken(&root.path, &error)),
        }
    }
    all
}

fn is_folder(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|t| t.is_dir())
}

/// Neither version control's own folder nor a database: the one that is written to may well lie here.
fn wanted(folder: &DirEntry) -> bool {
    folder.file_name() != ".git" && !is_database(folder.path())
}

fn is_database(folder: &Path) -> bool {
    let mut magic = [0; 8];
    File::open(folder.join("HEAD")).and_then(|mut f| f.read_exact(&mut magic)).is_ok_and(|()| &magic == b"TRIUNEHD")
}

fn found(below: &Path, path: &Path, file_type: io::Result<fs::FileType>) -> Found {
    let steps: Option<Vec<&str>> = below.components().filter(|c| *c != Component::CurDir).map(|c| c.as_os_str().to_str()).collect();
    let name = steps.as_ref().map_or_else(|| below.display().to_string(), |s| s.join("/"));
    let refused = match file_type {
        _ if steps.is_none() => Some("its name is not UTF-8".into()),
        Err(e) => Some(e.to_string()),
        Ok(t) if t.is_symlink() => Some("it is a symbolic link; --follow takes what it leads to".into()),
        Ok(t) if !t.is_file() => Some("it is not a regular file".into()),
        Ok(_) => None,
    };
    Found { name, path: path.to_path_buf(), refused }
}

/// What the walk could not enter.
fn broken(root: &Path, error: &ignore::Error) -> Found {
    let (path, reason) = reason(error);
    let path = path.unwrap_or_else(|| root.to_path_buf());
    let below = path.strip_prefix(root).unwrap_or(&path).display().to_string();
    Found { name: if below.is_empty() { path.display().to_string() } else { below }, path, refused: Some(reason) }
}

fn reason(error: &ignore::Error) -> (Option<PathBuf>, String) {
    use ignore::Error::{Loop, WithDepth, WithLineNumber, WithPath};
    if let WithPath { path, err } = error {
        return (Some(path.clone()), reason(err).1);
    }
    if let WithDepth { err, .. } | WithLineNumber { err, .. } = error {
        return reason(err);
    }
    if let Loop { ancestor, child } = error {
        return (Some(child.clone()), format!("it is a symbolic link that leads back to {}", ancestor.display()));
    }
    (None, error.to_string())
}
