//! A server of the protocol on a port of this machine. It answers as a real one would, until a step says what it shall do instead.

use base64::Engine;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use triune::connections::http::{HttpOptions, OpenAiCompatible};

/// Components of the vectors that it gives.
pub const DIMENSION: usize = 4;

/// What the server does with a request instead of answering it.
#[derive(Debug, Clone)]
pub enum Step {
    /// It answers.
    Good,
    /// It answers after a while.
    Slow(Duration),
    /// A status with headers and a body.
    Status(u16, Vec<(&'static str, String)>, String),
    /// Success, with this as body.
    Body(String),
    /// Half of a good answer, then the connection closes; with its length before it, or without.
    Half { length: bool },
    /// These bytes, then the connection closes.
    Raw(Vec<u8>),
    /// A body without end, as fast as it is read.
    Endless,
    /// A byte of the body now and then.
    Drip,
    /// Nothing, until the client goes away.
    Never,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Default)]
struct State {
    steps: Mutex<VecDeque<Step>>,
    /// Done when the steps are used up; an answer if there is none.
    ever_after: Mutex<Option<Step>>,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    over: AtomicBool,
}

pub struct Server {
    port: u16,
    state: Arc<State>,
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.over.load(Ordering::SeqCst) {
                    return;
                }
                let state = shared.clone();
                state.connections.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    // A client that goes away is what many of these tests are about.
                    let _ = serve(stream.unwrap(), &state);
                });
            }
        });
        Server { port, state }
    }

    /// A server that does `steps` and then answers.
    pub fn with(steps: impl IntoIterator<Item = Step>) -> Server {
        let server = Server::start();
        server.then(steps);
        server
    }

    /// A server that does one thing, always.
    pub fn always(step: Step) -> Server {
        let server = Server::start();
        *server.state.ever_after.lock().unwrap() = Some(step);
        server
    }

    pub fn then(&self, steps: impl IntoIterator<Item = Step>) {
        self.state.steps.lock().unwrap().extend(steps);
    }

    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Options of somebody who has no time: waits are short, and a try is long enough for a slow machine.
    pub fn options(&self) -> HttpOptions {
        HttpOptions {
            try_timeout: Duration::from_secs(30),
            backoff_first: Duration::from_millis(2),
            backoff_max: Duration::from_millis(20),
            ..HttpOptions::new(&self.address()).unwrap()
        }
    }

    pub fn client(&self) -> OpenAiCompatible {
        OpenAiCompatible::new(self.options()).unwrap()
    }

    /// All requests so far, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn serve(stream: TcpStream, state: &State) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while let Some(seen) = read_request(&mut reader)? {
        let answer = good(&seen);
        state.seen.lock().unwrap().push(seen);
        let step = state.steps.lock().unwrap().pop_front().or_else(|| state.ever_after.lock().unwrap().clone()).unwrap_or(Step::Good);
        match step {
            Step::Good => write_reply(&mut stream, 200, &[], &answer)?,
            Step::Slow(time) => {
                std::thread::sleep(time);
                write_reply(&mut stream, 200, &[], &answer)?;
            }
            Step::Status(status, headers, body) => write_reply(&mut stream, status, &headers, &body)?,
            Step::Body(body) => write_reply(&mut stream, 200, &[], &body)?,
            Step::Half { length } => {
                let promise = if length { format!("content-length: {}\r\n", answer.len()) } else { "connection: close\r\n".into() };
                let half = &answer[..answer.len() / 2];
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{promise}\r\n{half}")?;
                return Ok(());
            }
            Step::Raw(bytes) => return stream.write_all(&bytes),
            Step::Endless => {
                write!(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
                loop {
                    write!(stream, "400\r\n{}\r\n", " ".repeat(1024))?;
                }
            }
            Step::Drip => {
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")?;
                loop {
                    stream.write_all(b" ")?;
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            Step::Never => {
                // Returns when the client closes.
                let _ = reader.read(&mut [0]);
                return Ok(());
            }
        }
    }
    Ok(())
}

fn read_request(reader: &mut impl BufRead) -> std::io::Result<Option<Seen>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let path = first.split(' ').nth(1).unwrap_or_default().to_string();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_string()));
    }
    let length = headers.iter().find(|(n, _)| n == "content-length").and_then(|(_, v)| v.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Seen { path, headers, body: serde_json::from_slice(&body).unwrap_or(Value::Null) }))
}

pub fn write_reply(stream: &mut TcpStream, status: u16, headers: &[(&str, String)], body: &str) -> std::io::Result<()> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    write!(stream, "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
}

/// The vector of a text: its bytes, its blanks, its vowels, and 1.
pub fn vector(text: &str) -> Vec<f32> {
    let count = |of: &str| text.chars().filter(|c| of.contains(*c)).count() as f32;
    vec![text.len() as f32, count(" ") + 0.5, count("aeiou"), 1.0]
}

/// How many words of the question a text has, less a half.
pub fn score(query: &str, text: &str) -> f64 {
    query.split(' ').filter(|word| text.contains(word)).count() as f64 - 0.5
}

/// What a server that does nothing wrong replies.
pub fn good(seen: &Seen) -> String {
    let texts = |field: &str| -> Vec<String> { serde_json::from_value(seen.body[field].clone()).unwrap_or_default() };
    let reply = if seen.path.ends_with("/embeddings") {
        let input = texts("input");
        let dimension = seen.body["dimensions"].as_u64().unwrap_or(DIMENSION as u64) as usize;
        let base64 = seen.body["encoding_format"] == "base64";
        let embed = |text: &String| -> Value {
            let vector = &vector(text)[..dimension];
            let bytes: Vec<u8> = vector.iter().flat_map(|f| f.to_le_bytes()).collect();
            if base64 { json!(base64::engine::general_purpose::STANDARD.encode(bytes)) } else { json!(vector) }
        };
        // Last first: the numbers say where each belongs.
        let data: Vec<Value> = input.iter().enumerate().rev().map(|(at, text)| json!({"index": at, "embedding": embed(text)})).collect();
        json!({"object": "list", "data": data, "model": seen.body["model"], "usage": {"prompt_tokens": 3 * input.len(), "total_tokens": 3 * input.len()}})
    } else if seen.path.ends_with("/chat/completions") {
        let question = seen.body["messages"].as_array().and_then(|m| m.last()).map(|m| m["content"].clone()).unwrap_or_default();
        let content = format!("You said: {}", question.as_str().unwrap_or_default());
        json!({
            "id": "1", "model": seen.body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        })
    } else {
        let query = seen.body["query"].as_str().unwrap_or_default().to_string();
        let mut results: Vec<(usize, f64)> = texts("documents").iter().enumerate().map(|(at, text)| (at, score(&query, text))).collect();
        results.sort_by(|a, b| b.1.total_cmp(&a.1));
        let results: Vec<Value> = results.iter().map(|(at, score)| json!({"index": at, "relevance_score": score})).collect();
        json!({"model": seen.body["model"], "results": results, "usage": {"total_tokens": 5}})
    };
    reply.to_string()
}
