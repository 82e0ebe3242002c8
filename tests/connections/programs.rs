//! Programs as embedders: real ones, written in Python, that do what the protocol says or do not.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use triune::connections::command::{CommandEmbedder, CommandOptions};
use triune::models::{Call, Embedder, ModelError, ModelErrorKind, TextRole};

/// The vector of a text is its length, and 1 for a question. A text that is a word of command does something else.
const PROGRAM: &str = r#"
import json, os, sys, time
def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
starts = sys.argv[1] + "/starts"
with open(starts, "a") as f:
    f.write("x")
n = os.path.getsize(starts)
say(json.dumps({"fingerprint": "python-%s" % (n if "changes" in sys.argv else "v1"), "dimension": 2}))
for line in sys.stdin:
    asked = json.loads(line)
    first = asked["texts"][0]
    sys.stderr.write("hidden " * 20000 + line)
    if first == "crash":
        sys.exit(7)
    elif first == "never":
        time.sleep(3600)
    elif first == "refuse":
        say(json.dumps({"error": "I do not like hidden"}))
    elif first == "garble":
        say("hidden")
    elif first == "neither":
        say("{}")
    elif first == "few":
        say(json.dumps({"vectors": []}))
    elif first == "short":
        say(json.dumps({"vectors": [[1]] * len(asked["texts"])}))
    elif first == "nan":
        say('{"vectors": [[1, 1e300]]}')
    elif first == "long":
        say("x" * 100000)
    elif first == "chatty":
        say(json.dumps({"vectors": [[6, 0]]}))
        say(json.dumps({"vectors": [[0, 0]]}))
    elif first == "leave":
        say(json.dumps({"vectors": [[5, 0]]}))
        sys.exit(0)
    else:
        say(json.dumps({"vectors": [[len(t), 1 if asked["role"] == "query" else 0] for t in asked["texts"]]}))
"#;

/// A folder with the program, and how it is called.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
        std::fs::write(folder.path().join("program.py"), PROGRAM).unwrap();
        Folder(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn line(&self, argument: &str) -> String {
        format!("cmd:python3 '{}' \"{}\" {argument}", self.path("program.py").display(), self.0.path().display())
    }

    fn start(&self, options: CommandOptions) -> CommandEmbedder {
        CommandEmbedder::start(&self.line(""), options, &Call::default()).unwrap()
    }

    /// How often the program was started.
    fn starts(&self) -> u64 {
        std::fs::metadata(self.path("starts")).map_or(0, |m| m.len())
    }
}

fn ask(embedder: &CommandEmbedder, text: &str) -> Result<Vec<f32>, ModelError> {
    embedder.embed_one(&Call::default(), text, TextRole::Document)
}

#[test]
fn a_program_is_started_once_and_asked_in_batches() {
    let folder = Folder::new();
    let embedder = folder.start(CommandOptions { batch_texts: 2, ..CommandOptions::default() });
    assert_eq!((embedder.fingerprint(), embedder.dimension()), ("python-v1", 2));
    let texts = ["", "a", "语", "line\nbreak \"quoted\"", "12345"];
    let documents = embedder.embed(&Call::default(), &texts, TextRole::Document).unwrap();
    assert_eq!(documents, [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [19.0, 0.0], [5.0, 0.0]]);
    assert_eq!(embedder.embed_one(&Call::default(), "why", TextRole::Query).unwrap(), [3.0, 1.0]);
    assert_eq!(embedder.embed(&Call::default(), &[], TextRole::Query), Ok(Vec::new()));
    assert_eq!(folder.starts(), 1);
}

#[test]
fn a_program_that_ends_is_an_error_and_is_started_again_by_the_next_call() {
    let folder = Folder::new();
    let embedder = folder.start(CommandOptions::default());
    let error = ask(&embedder, "crash").unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unavailable);
    assert_eq!(error.message, "the program python3 ended with the exit code 7 before an answer; the next call starts it again");
    assert_eq!(ask(&embedder, "four").unwrap(), [4.0, 0.0]);
    assert_eq!(folder.starts(), 2);
}

#[test]
fn a_program_that_left_between_two_calls_or_spoke_on_its_own_is_started_again() {
    let folder = Folder::new();
    let embedder = folder.start(CommandOptions::default());
    for (starts, text) in [(1, "leave"), (2, "chatty")] {
        assert_eq!(ask(&embedder, text).unwrap(), [text.len() as f32, 0.0]);
        assert_eq!(folder.starts(), starts);
        // So that it has left, or spoken.
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(ask(&embedder, "four").unwrap(), [4.0, 0.0], "after {text}");
        assert_eq!(folder.starts(), starts + 1);
    }
}

#[test]
fn a_program_that_does_not_answer_in_time_is_ended() {
    let folder = Folder::new();
    let embedder = folder.start(CommandOptions { timeout: Duration::from_secs(1), ..CommandOptions::default() });
    let error = ask(&embedder, "never").unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::TimedOut);
    assert!(error.message.contains("gave no line in 1s as an answer, and was ended"), "{error}");
    assert_eq!(ask(&embedder, "four").unwrap(), [4.0, 0.0]);
    assert_eq!(folder.starts(), 2);
}

#[test]
fn a_call_ends_with_its_deadline_or_its_cancellation_and_so_does_the_program() {
    let folder = Folder::new();
    let embedder = folder.start(CommandOptions { timeout: Duration::from_secs(3600), ..CommandOptions::default() });
    let hurried = Call { deadline: Some(Instant::now() + Duration::from_millis(200)), ..Call::default() };
    assert_eq!(embedder.embed_one(&hurried, "never", TextRole::Query).unwrap_err().kind, ModelErrorKind::TimedOut);
    let call = Call::default();
    let cancellation = call.cancellation.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        cancellation.cancel();
    });
    assert_eq!(embedder.embed_one(&call, "never", TextRole::Query).unwrap_err().kind, ModelErrorKind::Cancelled);
    assert_eq!(ask(&embedder, "four").unwrap(), [4.0, 0.0]);
}

#[test]
fn an_answer_that_is_none_is_an_error_that_does_not_repeat_it() {
    let folder = Folder::new();
    let embedder = folder.start(CommandOptions { line_bytes_max: 50_000, ..CommandOptions::default() });
    for (text, kind, what) in [
        ("refuse", ModelErrorKind::Refused, "answers with an error"),
        ("garble", ModelErrorKind::Malformed, "is not JSON"),
        ("neither", ModelErrorKind::Malformed, "neither vectors nor an error"),
        ("few", ModelErrorKind::Malformed, "0 vectors for 1 texts"),
        ("short", ModelErrorKind::Malformed, "has 1 components, not 2"),
        ("nan", ModelErrorKind::Malformed, "not finite"),
        ("long", ModelErrorKind::Malformed, "more than 50000 bytes"),
    ] {
        let error = ask(&embedder, text).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(what) && !error.message.contains("hidden"), "{error}");
        assert_eq!(ask(&embedder, "four").unwrap(), [4.0, 0.0], "after {text}");
    }
    assert_eq!(folder.starts(), 7, "a refusal alone leaves the program running");
}

#[test]
fn a_program_that_comes_back_as_another_one_is_refused() {
    let folder = Folder::new();
    let embedder = CommandEmbedder::start(&folder.line("changes"), CommandOptions::default(), &Call::default()).unwrap();
    assert_eq!(embedder.fingerprint(), "python-1");
    ask(&embedder, "crash").unwrap_err();
    let error = ask(&embedder, "four").unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Configuration);
    assert!(error.message.contains("is another than before"), "{error}");
}

#[test]
fn a_program_that_cannot_be_started_or_does_not_introduce_itself_is_told() {
    let start = |line: &str, start_timeout: Duration| {
        let options = CommandOptions { start_timeout, ..CommandOptions::default() };
        CommandEmbedder::start(line, options, &Call::default()).map(|_| ()).unwrap_err()
    };
    let python = |code: &str| format!("cmd:python3 -c '{code}'");
    for (line, kind, what) in [
        ("cmd:/no/such/program --key=hidden".to_string(), ModelErrorKind::Configuration, "there is no program program"),
        ("cmd:".to_string(), ModelErrorKind::Configuration, "names no program"),
        ("cmd:python3 'hidden".to_string(), ModelErrorKind::Configuration, "has no end"),
        (python("print(\"hidden\")"), ModelErrorKind::Configuration, "the first line of the program python3 is not JSON"),
        (python("print(\"{}\")"), ModelErrorKind::Configuration, "it says fingerprint and dimension"),
        (python("print(\"{\\\"fingerprint\\\": \\\"x\\\", \\\"dimension\\\": 0}\")"), ModelErrorKind::Configuration, "its dimension 0"),
        (python("print(\"{\\\"fingerprint\\\": \\\"\\\", \\\"dimension\\\": 3}\")"), ModelErrorKind::Configuration, "must not be empty"),
        (python("pass"), ModelErrorKind::Unavailable, "ended with the exit code 0 before its first line"),
    ] {
        let error = start(&line, Duration::from_secs(600));
        assert_eq!(error.kind, kind, "{line}: {error}");
        assert!(error.message.contains(what) && !error.message.contains("hidden"), "{line}: {error}");
    }
    let error = start(&python("import time; time.sleep(3600)"), Duration::from_millis(500));
    assert_eq!(error.kind, ModelErrorKind::TimedOut);
    assert!(error.message.contains("gave no line in 500ms as its first line"), "{error}");
}

#[test]
fn threads_share_a_program_and_each_gets_its_own_vectors() {
    let folder = Folder::new();
    let embedder = folder.start(CommandOptions { batch_texts: 1, ..CommandOptions::default() });
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 1..=4_usize {
            let (embedder, done) = (&embedder, &done);
            scope.spawn(move || {
                let text = "x".repeat(thread);
                let vectors = embedder.embed(&Call::default(), &[text.as_str(); 20], TextRole::Document).unwrap();
                assert!(vectors.iter().all(|v| *v == [thread as f32, 0.0]));
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    assert_eq!((done.into_inner(), folder.starts()), (4, 1));
}
