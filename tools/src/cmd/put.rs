//! `triune put`: documents given on the command line or on stdin, inserted or replaced in one commit.

use crate::args::PutArgs;
use crate::jsonl::{Form, read_all};
use crate::output::{Counted, Failure, Out, Outcome, note};
use serde_json::value::RawValue;
use triune::WriteBatch;

pub(crate) fn run(args: &PutArgs, out: &mut Out) -> Outcome<()> {
    let mut batch = WriteBatch::new();
    let (mut documents, mut bare) = (0, 0);
    let mut add = |json: &str| -> Outcome<()> {
        // One put a document, as `load` does: of two with one id the later one stays.
        let document = Form::default().document(json)?;
        bare += u64::from(document.vector.is_none());
        batch.put(&args.target.collection, vec![document]);
        documents += 1;
        Ok(())
    };
    if args.document == "-" {
        each(&read_all("-")?, &mut add)?;
    } else {
        add(&args.document)?;
    }
    let database = super::open_for_writing(&args.target.database)?;
    let embedder = super::collection(&database.snapshot(), &args.target)?.schema().embedder.clone();
    let committed = database.commit(batch).map_err(Failure::from);
    super::tell_and_close(database, committed, |_| {
        if let Some(named) = embedder.filter(|_| bare > 0) {
            let name = &args.target.collection;
            let bare = Counted(bare, "document");
            note(format_args!(
                "{name} names the embedder {named:?}, and {bare} came without a vector: `triune load DATABASE FILE --embedder static` (or `cmd:PROGRAM`) makes them"
            ));
        }
        match out.json() {
            true => out.object(&serde_json::json!({ "written": documents })),
            false => out.line(format_args!("wrote {} in one commit", Counted(documents, "document"))),
        }
    })
}

/// Calls `add` with each of the JSON values that follow one another in `text`, on one line or on several.
fn each(text: &str, add: &mut impl FnMut(&str) -> Outcome<()>) -> Outcome<()> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    loop {
        let start = values.byte_offset();
        let Some(value) = values.next() else { return Ok(()) };
        let line = 1 + text[..start].matches('\n').count() + leading_lines(&text[start..]);
        let added = match value {
            Ok(json) => add(json.get()),
            Err(e) => Err(Failure::invalid(format!("not JSON: {e}"))),
        };
        added.map_err(|f| f.reworded(|m| format!("stdin, line {line}: {m}. Nothing was committed")))?;
    }
}

/// Line breaks before the first visible character.
fn leading_lines(text: &str) -> usize {
    let blank = text.len() - text.trim_start().len();
    text[..blank].matches('\n').count()
}
