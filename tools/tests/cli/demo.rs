//! `demo`: the first thing anyone runs.

use crate::support::{Db, exists, triune};

#[test]
fn the_demo_shows_the_main_job_and_leaves_a_database() {
    let db = Db::absent();
    let directory = db.directory.path().join("demo");
    let shown = directory.to_str().expect("the path is UTF-8");
    let text = triune(&["demo", shown]).ok().stdout;
    for words in ["committed", "by text", "by vector", "by hybrid", "text #", "vector #", "deleted", "opened it again", "Try next"] {
        assert!(text.contains(words), "the demo should say {words:?}:\n{text}");
    }
    if cfg!(feature = "static-embedder") {
        assert!(text.contains("Now without a model") && text.contains("by both"), "{text}");
    }
    let made = directory.join("db");
    assert!(exists(&made));
    let path = made.to_str().expect("the path is UTF-8");
    let questions = directory.join("questions.jsonl");
    let answers = triune(&["search", path, "--queries", questions.to_str().expect("the path is UTF-8"), "--json"]).ok().objects();
    assert!(!answers.is_empty() && answers.iter().all(|a| a["hits"].as_array().is_some_and(|h| !h.is_empty())));
    if cfg!(feature = "static-embedder") {
        let run = triune(&["search", path, "--collection", "static", "a ruler who lost the throne", "--explain"]).ok();
        assert!(run.stderr.contains("answered by vector, text"), "{}", run.stderr);
    }
    triune(&["demo", shown]).refused(11, "AlreadyExists", &["not empty", "nothing was changed"]);
    triune(&["search", shown, "film"]).refused(10, "NotFound", &["did you mean", path]);
}

#[test]
fn with_json_the_demo_says_the_same_to_programs() {
    let db = Db::absent();
    let directory = db.directory.path().join("demo");
    let objects = triune(&["demo", directory.to_str().expect("the path is UTF-8"), "--json"]).ok().objects();
    assert!(objects[0]["committed"].as_u64().is_some_and(|n| n > 0));
    assert!(objects.iter().any(|o| o["deleted"] == 1));
    let hybrid: Vec<_> = objects.iter().filter(|o| o["mode"] == "hybrid").collect();
    let (before, deleted, again) = (hybrid[0], hybrid[hybrid.len() - 2], hybrid[hybrid.len() - 1]);
    assert_ne!(before["hits"][0]["id"], deleted["hits"][0]["id"]);
    assert_eq!(deleted, again, "a restart changes no answer");
}
