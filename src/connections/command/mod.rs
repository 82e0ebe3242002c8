//! A program as embedder: `cmd:PROGRAM ARGS`, asked line by line and kept running between calls.
//!
//! The program writes one line when it is ready, and then one line for every line that it reads; everything is JSON in UTF-8:
//!
//! ```text
//! program   {"fingerprint": "my-model-v2", "dimension": 384}
//! triune    {"texts": ["first", "second"], "role": "document"}
//! program   {"vectors": [[0.1, ...], [0.2, ...]]}
//! triune    {"texts": ["a question"], "role": "query"}
//! program   {"error": "out of memory"}
//! ```
//!
//! No shell is asked: the line is cut into words at blanks, with quotes. A program that does not answer in time, or that answers something else, is
//! ended; one that ends is started again by the next call, and has to show the same fingerprint and dimension. What it writes to its error output
//! is read and dropped.
//!
//! | file | role |
//! | --- | --- |
//! | `mod.rs` | [`CommandEmbedder`] |
//! | `child.rs` | the running program and its pipes |
//! | `words.rs` | from a line to words, pure |

mod child;
mod words;

use crate::connections::batches::{Bounds, batches};
use crate::connections::replies::{Components, checked, fault};
use crate::models::{Call, Embedder, ModelError, ModelErrorKind, TextRole};
use crate::options::limits;
use child::{NoLine, Running};
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The most components that a program may promise for a vector, as in the schema of a collection.
const DIMENSION_MAX: u32 = limits::DIMENSION_MAX as u32;

/// How a program is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOptions {
    /// The longest that the program takes until its first line: it may have to load a model. 120 s.
    pub start_timeout: Duration,
    /// The longest that it takes for one answer. 60 s.
    pub timeout: Duration,
    /// Texts of one line, at least 1. 64.
    pub batch_texts: usize,
    /// Bytes of text of one line; a longer text goes alone. 256 KiB.
    pub batch_bytes: usize,
    /// The longest line that it may write, in bytes. 64 MiB.
    pub line_bytes_max: u64,
}

impl Default for CommandOptions {
    fn default() -> Self {
        CommandOptions {
            start_timeout: Duration::from_secs(120),
            timeout: Duration::from_secs(60),
            batch_texts: 64,
            batch_bytes: 256 << 10,
            line_bytes_max: 64 << 20,
        }
    }
}

/// A program that makes vectors. Calls of several threads go through it one after the other. Dropping it ends the program.
pub struct CommandEmbedder {
    words: Vec<String>,
    /// The program without its folder and arguments: all of it that messages hold.
    name: String,
    options: CommandOptions,
    hello: Hello,
    running: Mutex<Option<Running>>,
    /// Questions so far.
    asked: AtomicU64,
}

/// What a program says first.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Hello {
    fingerprint: String,
    dimension: u32,
}

#[derive(Deserialize)]
struct Answer {
    /// The question that it answers; a program may leave it out.
    id: Option<u64>,
    vectors: Option<Vec<Components>>,
    error: Option<serde_json::Value>,
}

impl CommandEmbedder {
    /// Starts the program that `line` names, `cmd:PROGRAM ARGS` or `PROGRAM ARGS`, and waits for its first line.
    ///
    /// # Errors
    /// `Configuration` when the line or the first line is wrong or there is no such program; `Unavailable` when it ends before its first line;
    /// `TimedOut`, `Cancelled`.
    pub fn start(line: &str, options: CommandOptions, call: &Call<'_>) -> Result<CommandEmbedder, ModelError> {
        call.check()?;
        let words = words::words(line.trim_start().strip_prefix("cmd:").unwrap_or(line))?;
        let name: String = words.first().and_then(|w| w.rsplit(['/', '\\']).next()).unwrap_or_default().chars().take(64).collect();
        let nothing = Hello { fingerprint: String::new(), dimension: 0 };
        let mut embedder = CommandEmbedder { words, name, options, hello: nothing, running: Mutex::new(None), asked: AtomicU64::new(0) };
        let (running, hello) = embedder.run(call)?;
        embedder.hello = hello;
        *embedder.running.get_mut() = Some(running);
        Ok(embedder)
    }

    /// Starts the program and hears its first line.
    fn run(&self, call: &Call<'_>) -> Result<(Running, Hello), ModelError> {
        let configuration = |what: String| ModelError::new(ModelErrorKind::Configuration, what);
        let started = Running::start(&self.words, self.options.line_bytes_max);
        let mut running = started.map_err(|e| {
            let missing = e.kind() == std::io::ErrorKind::NotFound;
            configuration(if missing {
                format!("there is no program {}", self.name)
            } else {
                format!("the program {} cannot be started: {}", self.name, e.kind())
            })
        })?;
        let line = self.hear(&mut running, call, self.options.start_timeout, "its first line")?;
        let hello: Hello = serde_json::from_slice(&line).map_err(|e| {
            configuration(format!("the first line of the program {} {}: it says fingerprint and dimension", self.name, fault(&e)))
        })?;
        if hello.fingerprint.is_empty() || hello.dimension == 0 || hello.dimension > DIMENSION_MAX {
            let dimension = hello.dimension;
            let limit = format!("its fingerprint must not be empty, its dimension {dimension} is to lie between 1 and {DIMENSION_MAX}");
            return Err(configuration(format!("the first line of the program {} is wrong: {limit}", self.name)));
        }
        Ok((running, hello))
    }

    /// The next line of the program. One that does not come, or is too long, ends it.
    fn hear(&self, running: &mut Running, call: &Call<'_>, timeout: Duration, what: &str) -> Result<Vec<u8>, ModelError> {
        // A time that is longer than there is ends with the call.
        let deadline = [call.deadline, Instant::now().checked_add(timeout)].into_iter().flatten().min();
        let within = Call { deadline, ..call.clone() };
        let error = match running.hear(&within) {
            Ok(Ok(line)) => return Ok(line),
            Ok(Err(NoLine::TooLong)) => {
                let max = self.options.line_bytes_max;
                ModelError::malformed(format!("the program {} wrote a line of more than {max} bytes as {what}", self.name))
            }
            Ok(Err(NoLine::Ended)) => {
                let how = running.ended().unwrap_or_else(|| "its output".into());
                let message = format!("the program {} ended {how} before {what}; the next call starts it again", self.name);
                ModelError::new(ModelErrorKind::Unavailable, message)
            }
            Err(over) => match call.check() {
                Err(of_the_call) => of_the_call,
                Ok(()) => ModelError {
                    message: format!("the program {} gave no line in {timeout:?} as {what}, and was ended", self.name),
                    ..over
                },
            },
        };
        running.kill();
        Err(error)
    }

    /// The place of the running program, which this call now has for itself.
    fn place(&self, call: &Call<'_>) -> Result<MutexGuard<'_, Option<Running>>, ModelError> {
        loop {
            match self.running.try_lock_for(Duration::from_millis(10)) {
                Some(guard) => return Ok(guard),
                None => call.check()?,
            }
        }
    }

    /// Starts the program again.
    fn again(&self, call: &Call<'_>) -> Result<Running, ModelError> {
        let (mut running, hello) = self.run(call)?;
        if hello == self.hello {
            return Ok(running);
        }
        running.kill();
        let (old, new) = (self.hello.dimension, hello.dimension);
        let message = format!(
            "the program {} is another than before: its fingerprint or its dimension ({old}, now {new}) changed; connect to it anew",
            self.name
        );
        Err(ModelError::new(ModelErrorKind::Configuration, message))
    }

    /// One line there and one back.
    fn ask<T: DeserializeOwned>(&self, running: &mut Running, call: &Call<'_>, line: &serde_json::Value) -> Result<T, ModelError> {
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        running.say(bytes);
        let answer = self.hear(running, call, self.options.timeout, "an answer")?;
        serde_json::from_slice(&answer).map_err(|e| ModelError::malformed(format!("the answer of the program {} {}", self.name, fault(&e))))
    }

    fn batch(&self, running: &mut Running, call: &Call<'_>, texts: &[&str], role: TextRole) -> Result<Vec<Vec<f32>>, ModelError> {
        let role = match role {
            TextRole::Query => "query",
            TextRole::Document => "document",
        };
        let id = self.asked.fetch_add(1, Ordering::Relaxed);
        let answer: Answer = self.ask(running, call, &json!({"id": id, "texts": texts, "role": role}))?;
        match answer {
            Answer { id: Some(other), .. } if other != id => {
                Err(ModelError::malformed(format!("the program {} answers question {other}, and was asked {id}", self.name)))
            }
            // Its words are not repeated: they may be those of a text.
            Answer { error: Some(_), .. } => {
                Err(ModelError::new(ModelErrorKind::Refused, format!("the program {} answers with an error", self.name)))
            }
            Answer { vectors: Some(vectors), .. } => {
                let vectors = vectors.into_iter().map(|v| v.0).collect();
                checked(&format!("the program {}", self.name), vectors, texts.len(), self.hello.dimension)
            }
            Answer { .. } => {
                Err(ModelError::malformed(format!("the answer of the program {} has neither vectors nor an error", self.name)))
            }
        }
    }
}

impl Embedder for CommandEmbedder {
    fn fingerprint(&self) -> &str {
        &self.hello.fingerprint
    }

    fn dimension(&self) -> u32 {
        self.hello.dimension
    }

    fn embed(&self, call: &Call<'_>, texts: &[&str], role: TextRole) -> Result<Vec<Vec<f32>>, ModelError> {
        call.check()?;
        let bounds = Bounds { texts: self.options.batch_texts.max(1), bytes: self.options.batch_bytes };
        let mut vectors = Vec::with_capacity(texts.len());
        for range in batches(texts, bounds) {
            // Between two batches others may ask.
            let mut place = self.place(call)?;
            let mut running = match place.take().and_then(Running::if_ready) {
                Some(running) => running,
                // It ended, or spoke without being asked, since the last answer.
                None => self.again(call)?,
            };
            let answer = self.batch(&mut running, call, &texts[range], role);
            // After a refusal it goes on; after anything else nobody knows where in its answers it is.
            if answer.as_ref().map_or_else(|error| error.kind == ModelErrorKind::Refused, |_| true) {
                *place = Some(running);
            } else {
                running.kill();
            }
            vectors.extend(answer?);
        }
        Ok(vectors)
    }
}

impl fmt::Debug for CommandEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandEmbedder").field("program", &self.name).field("hello", &self.hello).finish_non_exhaustive()
    }
}
