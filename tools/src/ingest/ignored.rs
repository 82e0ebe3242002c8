//! What ignore files leave out: those of a folder and of every folder above it, git's excludes of its repository and those of its user.
//!
//! The rules are those of the crate `ignore`; the files are read here. Its own walk waits for a pipe of such a name, and takes a file of any
//! length into memory whole. Here a file that cannot be read has no rules, as for git, and is told.

use super::regular;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};
use std::path::{Path, PathBuf};

/// What an ignore file may have: some ten thousand rules.
const BYTES_MAX: u64 = 1 << 20;

/// The rules that hold at one place of a walk.
#[derive(Default)]
pub(crate) struct Ignored {
    /// From the root of the file system on down.
    folders: Vec<Folder>,
    /// What the user's configuration of git names. It comes after all others.
    everywhere: Option<Gitignore>,
    /// Ignore files whose rules are not known, and why.
    unread: Vec<(PathBuf, String)>,
}

/// A folder with its rules, the strongest first: `.ignore`, `.gitignore`, `.git/info/exclude`.
struct Folder {
    path: PathBuf,
    rules: [Option<Gitignore>; 3],
}

impl Ignored {
    /// At `folder`, an absolute path.
    pub(crate) fn at(folder: &Path) -> Ignored {
        let mut ignored = Ignored::default();
        let excludes = gitconfig_excludes_path().filter(|path| path.is_file());
        if let (Some(path), Ok(here)) = (excludes, std::env::current_dir()) {
            ignored.everywhere = ignored.read(&path, &here);
        }
        let above: Vec<&Path> = folder.ancestors().collect();
        above.into_iter().rev().for_each(|folder| ignored.enter(folder));
        ignored
    }

    /// Goes on into a folder: what it says holds for what is below it.
    pub(crate) fn enter(&mut self, folder: &Path) {
        self.back_to(folder);
        let names = [Some(folder.join(".ignore")), Some(folder.join(".gitignore")), exclude(folder)];
        let rules = names.map(|path| self.read(&path?, folder));
        self.folders.push(Folder { path: folder.to_path_buf(), rules });
    }

    /// What the rules say of a path below the folder that was entered last, or below one above it.
    pub(crate) fn judge(&mut self, path: &Path, is_folder: bool) -> Match<()> {
        self.back_to(path);
        let of_kind = |kind: usize| self.folders.iter().rev().filter_map(move |f| f.rules[kind].as_ref());
        let all = (0..3).flat_map(of_kind).chain(&self.everywhere);
        all.map(|rules| rules.matched(path, is_folder).map(drop)).find(|found| !found.is_none()).unwrap_or(Match::None)
    }

    /// The ignore files that could not be read, each with the reason.
    pub(crate) fn unread(self) -> Vec<(PathBuf, String)> {
        self.unread
    }

    fn back_to(&mut self, path: &Path) {
        while self.folders.last().is_some_and(|folder| !path.starts_with(&folder.path)) {
            self.folders.pop();
        }
    }

    /// The rules of an ignore file for what is below `folder`. None is there, mostly.
    fn read(&mut self, path: &Path, folder: &Path) -> Option<Gitignore> {
        path.metadata().ok()?;
        regular::read(path, BYTES_MAX, "the most that is read of an ignore file")
            .and_then(|bytes| compile(&bytes, folder))
            .map_err(|reason| self.unread.push((path.to_path_buf(), format!("{reason}; its rules do not count"))))
            .ok()
    }
}

/// A line that is no rule counts for nothing.
fn compile(bytes: &[u8], folder: &Path) -> Result<Gitignore, String> {
    let mut builder = GitignoreBuilder::new(folder);
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for line in bytes.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok()) {
        let _ = builder.add_line(None, line.strip_suffix('\r').unwrap_or(line));
    }
    builder.build().map_err(|e| e.to_string())
}

/// Where the repository of a folder keeps its excludes: in `.git`, or where a work tree's `.git` says that it is shared.
fn exclude(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    if !git.is_file() {
        return Some(git.join("info/exclude"));
    }
    let line = |path: &Path| -> Option<String> {
        let text = String::from_utf8(regular::read(path, BYTES_MAX, "").ok()?).ok()?;
        text.lines().next().map(String::from)
    };
    let own = folder.join(line(&git)?.strip_prefix("gitdir: ")?);
    let shared = own.join(line(&own.join("commondir"))?);
    Some(shared.join("info/exclude"))
}
