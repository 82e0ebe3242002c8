//! Groups of commits, put together by hand: which callers meet in one group is otherwise the scheduler's choice.

use super::batch::Staged;
use super::commit::Request;
use super::{Database, WriteBatch};
use crate::document::Document;
use crate::error::ErrorCode;
use crate::io::sim::{FailureKind, SimDirectory};
use crate::options::{Durability, Options, Schema};
use std::sync::Arc;

fn options() -> Options {
    Options { background: false, ..Options::default() }
}

fn request(fill: impl for<'a> FnOnce(&'a mut WriteBatch) -> &'a mut WriteBatch) -> Arc<Request> {
    let mut batch = WriteBatch::new();
    fill(&mut batch);
    Request::new(Staged::prepare(batch, 0, |_| Some(Schema::default())).unwrap(), Durability::Sync, 0)
}

fn document(id: &str) -> Vec<Document> {
    vec![Document::new(id).text("red fox").vector([1.0, 0.0]).source("s")]
}

fn ids(db: &Database) -> Vec<String> {
    let snapshot = db.snapshot();
    let main = snapshot.collection("main").unwrap();
    let scanned: Vec<String> = main.scan().map(|item| item.unwrap().1.id.into()).collect();
    let found = |hits: Vec<crate::ranking::Scored>| hits.iter().map(|h| main.id_of(h).unwrap()).collect::<Vec<_>>();
    assert_eq!(found(main.nearest(&[1.0, 0.0], None, 100).unwrap()), scanned, "vectors");
    assert_eq!(found(main.best_texts("fox", None, None, 100).unwrap()), scanned, "texts");
    let stats = main.stats().unwrap();
    assert_eq!((stats.documents, stats.vectors, stats.tokens), (scanned.len() as u64, scanned.len() as u64, 2 * scanned.len() as u64));
    scanned
}

#[test]
fn a_group_that_the_disk_refuses_is_gone_whole_and_later_commits_take_its_lsns() {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", Schema::default()).unwrap();
    db.put("main", document("old")).unwrap();
    db.checkpoint().unwrap();
    db.put("main", document("young")).unwrap();
    let before = db.snapshot().lsn();

    // Each of the group sees the ones before it.
    let first = request(|b| b.put("main", document("a")));
    let second = request(|b| b.delete("main", vec!["old".into(), "young".into()]));
    let third = request(|b| b.put("main", document("b")).create_collection("other", Schema::default()));
    let fourth = request(|b| b.delete("main", vec!["a".into()]));
    db.core.queue.lock().extend([first.clone(), second.clone(), third.clone()]);
    disk.fail(disk.operations(), FailureKind::Enospc);
    assert_eq!(db.core.commit(&[fourth])[0].as_ref().unwrap_err().code(), ErrorCode::DiskFull);
    for request in [first, second, third] {
        assert_eq!(request.take_answer().expect("the leader answers all").unwrap_err().code(), ErrorCode::DiskFull);
    }
    assert_eq!((ids(&db), db.snapshot().collections()), (vec!["old".into(), "young".into()], vec!["main".into()]));

    let commit = db.put("main", document("c")).unwrap();
    assert_eq!(commit.lsn, before.next());
    let then = db.snapshot();
    assert_eq!(ids(&db), ["old", "young", "c"]);
    assert_eq!(db.delete("main", vec!["young".into()]).unwrap(), 1);
    assert_eq!(ids(&db), ["old", "c"]);
    db.put("main", document("d")).unwrap();
    assert_eq!(then.collection("main").unwrap().count(), 3);
    db.checkpoint().unwrap();
    assert_eq!(ids(&db), ["old", "c", "d"]);
    drop(db);
    let db = Database::open_with(Arc::new(disk), options()).unwrap();
    assert_eq!(ids(&db), ["old", "c", "d"]);
}
