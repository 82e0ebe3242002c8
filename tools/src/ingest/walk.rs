//! Which files there are under the paths given, and what each is called.
//!
//! A file is called by its path below the folder given, with `/` between its steps; a file given itself, by its name. Every entry is either
//! a regular file, to be read, or comes with the reason why it is passed over. Only what an ignore rule or the dot of a hidden name leaves
//! out goes unsaid, and the folders of version control and of databases. An ignore file that cannot be read is an entry too.

use super::ignored::Ignored;
use super::regular;
use ignore::Match;
use ignore::overrides::{Override, OverrideBuilder};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

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

/// Everything under `root`, in the order of names; last the ignore files that could not be read.
pub(crate) fn find(root: &Root, rules: &Rules) -> Vec<Found> {
    if !root.is_folder {
        let name = root.path.file_name().map(OsStr::to_os_string).unwrap_or_default();
        return vec![found(Path::new(&name), &root.path, fs::metadata(&root.path).map(|m| m.file_type()))];
    }
    let mut sieve = Sieve::at(root, rules);
    let mut walk = WalkDir::new(&root.path).follow_links(rules.follow).sort_by_file_name().into_iter();
    let mut all = Vec::new();
    while let Some(entry) = walk.next() {
        match entry {
            // What was given is followed, also when it is a link.
            Ok(entry) if entry.depth() == 0 => {}
            Ok(entry) => {
                let (below, is_folder) = (below(root, entry.path()), entry.file_type().is_dir());
                if sieve.drops(below, is_folder) || is_folder && !wanted(&entry) {
                    if is_folder {
                        walk.skip_current_dir();
                    }
                } else if is_folder {
                    sieve.enter(below);
                } else {
                    all.push(found(below, entry.path(), Ok(entry.file_type())));
                }
            }
            // A link that leads nowhere is left out as any other.
            Err(error) => {
                let link = error.path().filter(|path| error.loop_ancestor().is_none() && path.is_symlink());
                if !link.is_some_and(|path| sieve.drops(below(root, path), false)) {
                    all.push(broken(&root.path, &error));
                }
            }
        }
    }
    all.extend(sieve.unread());
    all
}

fn below<'p>(root: &Root, path: &'p Path) -> &'p Path {
    path.strip_prefix(&root.path).unwrap_or(path)
}

/// What is left out without a word, at one place of a walk after the other.
struct Sieve<'a> {
    rules: &'a Rules,
    /// The root, absolute: ignore files above it count too.
    root: PathBuf,
    globs: Override,
    ignored: Option<Ignored>,
}

impl Sieve<'_> {
    fn at<'a>(root: &Root, rules: &'a Rules) -> Sieve<'a> {
        let root = root.path.canonicalize().unwrap_or_else(|_| root.path.clone());
        let globs = overrides(&root, &rules.globs).unwrap_or_else(|_| Override::empty());
        Sieve { ignored: (!rules.no_ignore).then(|| Ignored::at(&root)), globs, rules, root }
    }

    fn enter(&mut self, below: &Path) {
        if let Some(ignored) = &mut self.ignored {
            ignored.enter(&self.root.join(below));
        }
    }

    /// The globs that were given decide, then the ignore files, then the dot.
    fn drops(&mut self, below: &Path, is_folder: bool) -> bool {
        let path = self.root.join(below);
        let said = match (self.globs.matched(&path, is_folder).map(drop), &mut self.ignored) {
            (Match::None, Some(ignored)) => ignored.judge(&path, is_folder),
            (given, _) => given,
        };
        let hidden = || !self.rules.hidden && path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        said.is_ignore() || said.is_none() && hidden()
    }

    fn unread(self) -> impl Iterator<Item = Found> {
        let unread = self.ignored.map(Ignored::unread).unwrap_or_default();
        unread.into_iter().map(move |(path, reason)| {
            let name = path.strip_prefix(&self.root).unwrap_or(&path).display().to_string();
            Found { name, refused: Some(reason), path }
        })
    }
}

/// Neither version control's own folder nor a database: the one that is written to may well lie here.
fn wanted(folder: &DirEntry) -> bool {
    folder.file_name() != ".git" && !is_database(folder.path())
}

fn is_database(folder: &Path) -> bool {
    let mut magic = [0; 8];
    regular::open(&folder.join("HEAD")).and_then(|mut f| f.read_exact(&mut magic)).is_ok_and(|()| &magic == b"TRIUNEHD")
}

fn found(below: &Path, path: &Path, file_type: io::Result<fs::FileType>) -> Found {
    let steps: Option<Vec<&str>> = below.components().filter(|c| *c != Component::CurDir).map(|c| c.as_os_str().to_str()).collect();
    let name = steps.as_ref().map_or_else(|| below.display().to_string(), |s| s.join("/"));
    let refused = match file_type {
        _ if steps.is_none() => Some("its name is not UTF-8".into()),
        Err(e) => Some(e.to_string()),
        Ok(t) if t.is_symlink() => Some("it is a symbolic link; --follow takes what it leads to".into()),
        Ok(t) if !t.is_file() => Some(regular::NOT_REGULAR.into()),
        Ok(_) => None,
    };
    Found { name, path: path.to_path_buf(), refused }
}

/// What the walk could not enter.
fn broken(root: &Path, error: &walkdir::Error) -> Found {
    let path = error.path().unwrap_or(root);
    let below = path.strip_prefix(root).unwrap_or(path).display().to_string();
    let reason = match (error.loop_ancestor(), error.io_error()) {
        (Some(ancestor), _) => format!("it is a symbolic link that leads back to {}", ancestor.display()),
        (None, Some(e)) => e.to_string(),
        (None, None) => error.to_string(),
    };
    Found { name: if below.is_empty() { path.display().to_string() } else { below }, path: path.to_path_buf(), refused: Some(reason) }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
