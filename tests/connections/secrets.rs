//! What is never told: keys, addresses beyond their host, arguments of commands, texts. Under every failure that the server and a program can make.

use crate::server::{Server, Step};
use serde_json::json;
use std::fmt::{Debug, Write};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use triune::connections::command::{CommandEmbedder, CommandOptions};
use triune::connections::http::{
    ChatOptions, EmbedderOptions, HttpEmbedder, HttpLanguageModel, HttpOptions, HttpReranker, OpenAiCompatible, RerankerOptions,
    ServerAddress,
};
use triune::models::{Call, Embedder, LanguageModel, ModelErrorKind, Prompt, Reranker, TextRole};

/// In every secret, so often that no sixteen bytes of one are without it.
const MARKER: &str = "xyzzy";
const KEY: &str = "sk-xyzzyxyzzyxyzzyxyzzyxyzzy";
const TEXT: &str = "xyzzyxyzzyxyzzy xyzzyxyzzyxyzzyxyzzyxyzzy";
const VARIABLE: &str = "TRIUNE_CONNECTIONS_TEST_KEY";

/// All that was told to `tracing` and to `log`.
static HEARD: Mutex<String> = Mutex::new(String::new());
/// Whether the logger takes what the HTTP library writes at its finest level.
static TAKES_BYTES: AtomicBool = AtomicBool::new(false);

struct Ears;

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Ears {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Line(&mut HEARD.lock().unwrap()));
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Line(&mut HEARD.lock().unwrap()));
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut heard = HEARD.lock().unwrap();
        heard.push_str("trace:");
        event.record(&mut Line(&mut heard));
        heard.push('\n');
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl log::Log for Ears {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        let bytes = metadata.level() == log::Level::Trace && metadata.target().starts_with("ureq");
        !bytes || TAKES_BYTES.load(Ordering::SeqCst)
    }
    fn log(&self, record: &log::Record<'_>) {
        if log::Log::enabled(self, record.metadata()) {
            let _ = writeln!(HEARD.lock().unwrap(), "log: {} {}", record.target(), record.args());
        }
    }
    fn flush(&self) {}
}

/// Every way in which a server can fail; wherever it can repeat something, it repeats the key and the text.
fn failures() -> Vec<Step> {
    let echo = json!({"error": {"message": format!("{KEY} {TEXT}"), "type": KEY, "code": TEXT}}).to_string();
    let statuses = [301, 302, 307, 400, 401, 403, 404, 408, 413, 418, 422, 429, 500, 501, 502, 503, 529];
    let location = vec![("location", format!("http://{MARKER}.invalid/{KEY}")), ("retry-after", "0".into()), ("x-echo", KEY.into())];
    let mut steps: Vec<Step> = statuses.iter().map(|status| Step::Status(*status, location.clone(), echo.clone())).collect();
    let bodies = [
        format!("\"{TEXT}\""),
        format!("{TEXT} {KEY}"),
        json!({"data": TEXT, "choices": TEXT, "results": TEXT}).to_string(),
        json!({"data": [{"index": 0, "embedding": TEXT}], "choices": [{"message": TEXT}], "results": [{"index": TEXT}]}).to_string(),
        json!({"data": [{"index": TEXT, "embedding": [1]}], "choices": [{"message": {"content": [TEXT]}}], "results": [{"index": 0, "score": TEXT}]}).to_string(),
        json!({"data": [{"index": 9, "embedding": [1]}], "choices": [], "results": [{"index": 9, "score": 1}]}).to_string(),
        json!({"data": [{"index": 0, "embedding": [1]}], "choices": [{"message": {"refusal": TEXT}}], "results": []}).to_string(),
        json!({"data": [{"index": 0, "embedding": [1e39, 1, 1, 1]}], "choices": [{}], "results": [{"index": 0, "score": 7}]}).to_string(),
        format!("{{\"{TEXT}\": [NaN]}}"),
    ];
    steps.extend(bodies.map(Step::Body));
    steps.push(Step::Half { length: true });
    steps.push(Step::Half { length: false });
    steps.push(Step::Raw(format!("{KEY} {TEXT}\r\n\r\n").into_bytes()));
    steps.push(Step::Raw(format!("HTTP/1.1 200 {KEY}\r\n{TEXT}: {TEXT}\r\ncontent-length: {TEXT}\r\n\r\n{TEXT}").into_bytes()));
    steps.push(Step::Endless);
    steps.push(Step::Never);
    steps
}

/// Asks all three endpoints of a server that fails by `step`, and gives back all that an application could show.
fn told_of(step: &Step) -> String {
    let server = Server::always(step.clone());
    let address = format!("http://127.0.0.1:{}/{MARKER}tenant/v1", server.port());
    let options = HttpOptions {
        tries: 2,
        try_timeout: Duration::from_millis(300),
        backoff_first: Duration::from_millis(1),
        reply_bytes_max: 20_000,
        purpose_header: Some("x-triune-purpose".into()),
        ..HttpOptions::new(&address).unwrap().key_from(VARIABLE)
    };
    let client = OpenAiCompatible::new(options.clone()).unwrap();
    let call = Call { request_id: Some("r-1"), ..Call::default() };
    let given = EmbedderOptions { dimension: Some(4), ..EmbedderOptions::new("tiny") };
    let embedder = HttpEmbedder::new(&client, given.clone(), &call).unwrap();
    let chat = HttpLanguageModel::new(
        &client,
        ChatOptions { extra: [("user".to_string(), json!(TEXT))].into_iter().collect(), ..ChatOptions::new("talker") },
    );
    let reranker = HttpReranker::new(&client, RerankerOptions { probabilities: true, ..RerankerOptions::new("judge") });
    let errors = [
        HttpEmbedder::new(&client, EmbedderOptions::new("tiny"), &call).map(|_| ()).err(),
        embedder.embed(&call, &[TEXT], TextRole::Document).err(),
        chat.complete(&call, &Prompt { system: TEXT.into(), ..Prompt::new(TEXT) }).err(),
        reranker.score(&call, TEXT, &[TEXT, TEXT]).err(),
    ];
    let mut told = format!("{options:?} {client:?} {embedder:?} {chat:?} {reranker:?} {:?}", ServerAddress::parse(&address));
    for error in errors.iter().skip(1) {
        let error = error.as_ref().unwrap_or_else(|| panic!("{step:?} is no failure"));
        let _ = write!(told, "\n{error} {error:?} {error:#?}");
    }
    for seen in server.seen() {
        assert_eq!(
            seen.header("authorization"),
            Some(format!("Bearer {KEY}").as_str()),
            "the key goes to the server, else nothing is tested"
        );
        assert!(seen.path.starts_with("/xyzzytenant/v1/"), "{}", seen.path);
    }
    assert!(server.seen().len() >= 4);
    told
}

/// As [`told_of`], for a program.
fn told_of_program() -> String {
    let program = format!(
        "import sys, json\nprint(json.dumps(dict(fingerprint=\"f\", dimension=2)), flush=True)\nfor line in sys.stdin:\n    sys.stderr.write(line)\n    \
         n = json.loads(line)[\"texts\"][0][-1]\n    print(dict(a=line[:-1], b=json.dumps(dict(error=line)), c=json.dumps(dict(vectors=line)), \
         d=json.dumps(dict(vectors=[[line]])))[n], flush=True) if n in \"abcd\" else sys.exit(\"{TEXT}\")"
    );
    let line = format!("cmd:python3 -c '{program}' --key={KEY}");
    let embedder = CommandEmbedder::start(&line, CommandOptions::default(), &Call::default()).unwrap();
    let mut told = format!("{embedder:?}");
    for end in ["a", "b", "c", "d", "e"] {
        let error = embedder.embed_one(&Call::default(), &format!("{TEXT}{end}"), TextRole::Document).unwrap_err();
        let _ = write!(told, "\n{error} {error:?}");
    }
    for wrong in
        [format!("cmd:/{MARKER}/nothing {KEY}"), format!("cmd:python3 '{KEY}"), format!("cmd:python3 -c 'print(\"{TEXT}\")' {KEY}")]
    {
        let error = CommandEmbedder::start(&wrong, CommandOptions::default(), &Call::default()).map(|_| ()).unwrap_err();
        let _ = write!(told, "\n{error} {error:?}");
    }
    told
}

/// Runs the test `name` in a process of its own, which has the key in its environment. Whether this is that process already.
fn in_own_process(name: &str) -> bool {
    if std::env::var_os(VARIABLE).is_some() {
        return true;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    let output = again.args(["--exact", name, "--nocapture"]).env(VARIABLE, KEY).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
    false
}

#[test]
fn no_log_line_error_or_trace_carries_a_key_or_document_text() {
    if !in_own_process("secrets::no_log_line_error_or_trace_carries_a_key_or_document_text") {
        return;
    }
    tracing::subscriber::set_global_default(Ears).unwrap();
    log::set_logger(&Ears).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let steps = failures();
    assert!(steps.len() > 25);
    for step in &steps {
        let told = told_of(step);
        assert!(told.contains("127.0.0.1") && told.contains("tries") && !told.contains(MARKER), "{step:?} told\n{told}");
    }
    let told = told_of_program();
    assert!(told.contains("python3") && !told.contains(MARKER), "{told}");
    for address in [format!("https://u:{KEY}@h/v1"), format!("https://h/v1?key={KEY}"), format!("{KEY}://h"), format!("https://{KEY} /")] {
        let error = HttpOptions::new(&address).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(MARKER), "{error}");
    }
    let misplaced = HttpOptions::new("http://localhost/v1").unwrap().key_from(KEY);
    assert!(!format!("{misplaced:?} {:?}", OpenAiCompatible::new(misplaced.clone()).unwrap_err()).contains(MARKER));
    let heard = HEARD.lock().unwrap().clone();
    assert!(heard.matches("model gave no answer").count() > 50 && heard.matches("trying again").count() > 20, "events were heard");
    assert!(heard.contains("request_id=\"r-1\"") && heard.contains("log: ureq"), "and what the HTTP library says");
    let secret: Vec<&str> = heard.lines().filter(|line| line.contains(MARKER)).collect();
    assert!(secret.is_empty(), "{} lines, the first: {}", secret.len(), secret[0]);
    nothing_is_sent_while_a_logger_takes_every_byte();
}

/// In the same process: there is one logger.
fn nothing_is_sent_while_a_logger_takes_every_byte() {
    let server = Server::start();
    let client = OpenAiCompatible::new(server.options().key_from(VARIABLE)).unwrap();
    let chat = HttpLanguageModel::new(&client, ChatOptions::new("talker"));
    assert!(chat.complete(&Call::default(), &Prompt::new(TEXT)).is_ok());
    TAKES_BYTES.store(true, Ordering::SeqCst);
    let error = chat.complete(&Call::default(), &Prompt::new(TEXT)).unwrap_err();
    TAKES_BYTES.store(false, Ordering::SeqCst);
    assert_eq!(error.kind, ModelErrorKind::Configuration);
    assert!(error.message.contains("ureq_proto") && error.message.contains("filter that target"), "{error}");
    assert_eq!(server.seen().len(), 1);
    assert!(!HEARD.lock().unwrap().contains(MARKER));
    assert!(
        chat.complete(&Call { deadline: Some(Instant::now() + Duration::from_secs(60)), ..Call::default() }, &Prompt::new(TEXT)).is_ok()
    );
}

#[test]
fn a_key_is_sent_from_the_environment_and_from_nowhere_else() {
    if !in_own_process("secrets::a_key_is_sent_from_the_environment_and_from_nowhere_else") {
        return;
    }
    let server = Server::start();
    let with = |options: HttpOptions| HttpLanguageModel::new(&OpenAiCompatible::new(options).unwrap(), ChatOptions::new("talker"));
    with(server.options().key_from(VARIABLE)).complete(&Call::default(), &Prompt::new("x")).unwrap();
    with(server.options()).complete(&Call::default(), &Prompt::new("x")).unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].header("authorization"), Some("Bearer sk-xyzzyxyzzyxyzzyxyzzyxyzzy"));
    assert_eq!(seen[1].header("authorization"), None);
}
