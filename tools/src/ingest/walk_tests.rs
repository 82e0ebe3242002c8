//! The rules of ignore files are those of the crate `ignore`, whose own walk is the measure here.

use super::*;
use ignore::WalkBuilder;
use std::collections::BTreeSet;

/// A work tree of a repository elsewhere, with every kind of ignore file, below a folder that has rules too.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let files = [
        ("above/.gitignore", "*.up\n/top/anchored.txt\n!saved.low\nfolder/\n"),
        ("above/.ignore", "*.bak\n"),
        ("above/top/.gitignore", "\u{feff}*.log\r\n!keep.log\n/build/\n!.shown\n*.low\n# a remark\n[\n"),
        ("above/top/.ignore", "!again.log\n"),
        ("above/top/.git/info/exclude", "*.excluded\n"),
        ("above/top/deep/.gitignore", "!*.bak\n!back.log\n*.here\n"),
        ("above/top/deep/.ignore", "*.txt\n!yes.txt\n"),
        ("above/top/tree/.git", "gitdir: GIT/worktrees/tree\n"),
        ("git/worktrees/tree/commondir", "../..\n"),
        ("git/info/exclude", "*.shared\n"),
    ];
    let names = ["a.txt", "yes.txt", "anchored.txt", "x.log", "keep.log", "again.log", "back.log", "x.up", "x.bak", "x.low", "saved.low"];
    let more = ["x.excluded", "x.here", "x.shared", ".shown", ".hidden", "build/b.rs", "folder/f.rs", "é.log"];
    let write = |path: PathBuf, text: &str| {
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder can be made");
        fs::write(path, text).expect("a file can be written");
    };
    let git = dir.path().join("git").display().to_string();
    files.iter().for_each(|(name, text)| write(dir.path().join(name), &text.replace("GIT", &git)));
    for folder in ["", "deep", "deep/deeper", "tree", "tree/below"] {
        names.iter().chain(&more).for_each(|name| write(dir.path().join("above/top").join(folder).join(name), name));
    }
    #[cfg(unix)]
    for (link, to) in [("nowhere.log", "nowhere"), ("nowhere.rs", "nowhere"), ("round", ".."), ("link", "deep")] {
        std::os::unix::fs::symlink(to, dir.path().join("above/top").join(link)).expect("a link can be made");
    }
    dir
}

/// What the crate's walk meets: names, and the paths of what it cannot enter.
fn by_the_crate(root: &Root, rules: &Rules) -> BTreeSet<String> {
    let mut walk = WalkBuilder::new(&root.path);
    walk.standard_filters(!rules.no_ignore)
        .hidden(!rules.hidden)
        .require_git(false)
        .follow_links(rules.follow)
        .overrides(overrides(&root.path, &rules.globs).expect("the globs are sound"))
        .filter_entry(|entry| entry.file_name() != ".git" || !entry.path().is_dir());
    let name = |path: &Path| below(root, path).display().to_string();
    let met = walk.build().filter(|entry| !entry.as_ref().is_ok_and(|e| e.file_type().is_some_and(|t| t.is_dir())));
    met.map(|entry| entry.map_or_else(|e| name(place(&e)), |e| name(e.path()))).collect()
}

fn place(error: &ignore::Error) -> &Path {
    use ignore::Error::{Loop, WithDepth, WithPath};
    if let WithDepth { err, .. } = error {
        return place(err);
    }
    if let WithPath { path, .. } | Loop { child: path, .. } = error {
        return path;
    }
    panic!("{error}")
}

#[test]
fn what_is_left_out_is_what_the_crates_own_walk_leaves_out() {
    let dir = tree();
    let root = Root::at(&dir.path().join("above/top")).expect("it is a folder");
    let mut answers = BTreeSet::new();
    for bits in 0..8 {
        for globs in [&[][..], &["*.log", "!keep.log"], &["!*.txt"]] {
            let globs = globs.iter().map(|glob| glob.to_string()).collect();
            let rules = Rules { no_ignore: bits & 1 > 0, hidden: bits & 2 > 0, follow: bits & 4 > 0, globs };
            let found: BTreeSet<String> = find(&root, &rules).into_iter().map(|found| found.name).collect();
            assert_eq!(found, by_the_crate(&root, &rules), "{rules:?}");
            answers.insert(found);
        }
    }
    assert!(answers.len() >= 16, "the choices make a difference, {}", answers.len());
}
