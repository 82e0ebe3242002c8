//! Servers that speak the dialect of OpenAI: OpenAI itself, Ollama, vLLM, the server of llama.cpp, LM Studio.
//!
//! One [`OpenAiCompatible`] holds what a server's requests share: connections that are kept, the key, the limits a minute. Out of it come
//! [`HttpEmbedder`], [`HttpLanguageModel`] and [`HttpReranker`].
//!
//! ```no_run
//! use triune::connections::http::{EmbedderOptions, HttpEmbedder, HttpOptions, OpenAiCompatible};
//! use triune::models::{Call, Embedder, TextRole};
//!
//! let server = OpenAiCompatible::new(HttpOptions::new("https://api.openai.com/v1")?.key_from("OPENAI_API_KEY"))?;
//! let embedder = HttpEmbedder::new(&server, EmbedderOptions::new("text-embedding-3-small"), &Call::default())?;
//! let vector = embedder.embed_one(&Call::default(), "What is a torn tail?", TextRole::Query)?;
//! # Ok::<(), triune::models::ModelError>(())
//! ```
//!
//! Requests are tried again after 408, 409, 425, 429, most of 5xx, a lost connection, half a reply and a try's timeout; `Retry-After` is
//! honoured. Redirects are not followed. A call ends within 10 ms of its cancellation or deadline; a request that is out then runs to the end of
//! its try on a thread that nobody waits for.
//!
//! The HTTP library writes all it sends to the crate `log` at level `trace`, the key and the texts included. A logger that takes that level of
//! `ureq_proto` is therefore a reason not to send: see [`OpenAiCompatible`].
//!
//! | file | role |
//! | --- | --- |
//! | `mod.rs` | [`OpenAiCompatible`]: a request with its tries |
//! | `options.rs` | address, key, limits |
//! | `attempt.rs` | one try, through the HTTP library |
//! | `retry.rs` | what a failure means and how long to wait, pure |
//! | `pace.rs` | limits a minute |
//! | `embedder.rs`, `chat.rs`, `reranker.rs` | the three endpoints |
//! | `events.rs` | what is told to `tracing` |

mod attempt;
mod chat;
mod embedder;
mod events;
mod options;
mod pace;
mod reranker;
mod retry;

pub use chat::{ChatOptions, HttpLanguageModel};
pub use embedder::{EmbedderOptions, HttpEmbedder};
pub use options::{HttpOptions, ServerAddress};
pub use reranker::{HttpReranker, RerankerOptions};

use crate::connections::{replies, waiting};
use crate::models::{Call, ModelError, ModelErrorKind, Usage};
use attempt::Message;
use events::{Request, plain};
use options::Key;
use pace::Pace;
use retry::Failure;
use serde::de::DeserializeOwned;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server. Cloning is cheap, and clones share connections and limits.
///
/// It sends nothing, and says so in an error, while the application's logger takes the level `trace` of the target `ureq_proto`: the HTTP library
/// would write the key and every text to that log.
#[derive(Clone)]
pub struct OpenAiCompatible {
    shared: Arc<Shared>,
}

struct Shared {
    options: HttpOptions,
    key: Option<Arc<Key>>,
    agent: ureq::Agent,
    pace: Pace,
    chance: RandomState,
}

/// A reply of the protocol.
trait Reply: DeserializeOwned {
    /// What the reply says that it took.
    fn usage(&self) -> &serde_json::Value;
}

/// A request of the protocol.
struct Ask<'a> {
    /// Below the server's address.
    path: &'static str,
    body: &'a serde_json::Value,
    /// Bytes of text in it, for the limits a minute.
    text_bytes: usize,
}

impl OpenAiCompatible {
    /// A server that will be asked as `options` say. Nothing is sent yet; the key is read now.
    ///
    /// # Errors
    /// `Configuration` when the key's variable is not set, a header's name is none, or the environment's proxy is one of SOCKS.
    pub fn new(options: HttpOptions) -> Result<OpenAiCompatible, ModelError> {
        let key = options.key_variable.as_deref().map(Key::from_environment).transpose()?.map(Arc::new);
        for name in [&options.request_id_header, &options.purpose_header].into_iter().flatten() {
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
                return Err(ModelError::new(
                    ModelErrorKind::Configuration,
                    "the name of a header for the request or the purpose has other characters than letters, digits and hyphens",
                ));
            }
        }
        let agent = attempt::agent(&options)?;
        let pace = Pace::new(options.requests_per_minute, options.tokens_per_minute);
        Ok(OpenAiCompatible { shared: Arc::new(Shared { options, key, agent, pace, chance: RandomState::new() }) })
    }

    /// Its host and port.
    pub fn host(&self) -> &str {
        self.shared.options.address.host()
    }

    /// Sends `ask` until it is answered, tries are used up or the call is over, and adds what it took to the call's ledger.
    fn post<T: Reply>(&self, call: &Call<'_>, ask: &Ask<'_>) -> Result<T, ModelError> {
        let shared = &*self.shared;
        let body = serde_json::to_vec(ask.body).map_err(|e| self.error(ask.path, 0, &internal(&e)))?;
        let request = Request { call, path: ask.path, sent_bytes: body.len() };
        let body = Arc::new(body);
        let begun = Instant::now();
        let mut tries = 0;
        loop {
            if attempt::bytes_are_logged() {
                return Err(ModelError::new(
                    ModelErrorKind::Configuration,
                    "the application's logger takes the level trace of the target ureq_proto, to which keys and texts are written; nothing was \
                     sent; filter that target to debug",
                ));
            }
            let ticket = shared.pace.enter(call, ask.text_bytes as u64 / 4 + 1)?;
            tries += 1;
            let sent = attempt::attempt(&shared.agent, call, shared.options.try_timeout, self.message(call, ask.path, &body))?;
            let reply_bytes = sent.as_ref().map_or(0, Vec::len);
            let failure = match sent.and_then(|reply| read::<T>(&reply)) {
                Ok(reply) => {
                    let (prompt, completion) = tokens(reply.usage());
                    let spent = prompt.saturating_add(completion);
                    if spent > 0 {
                        shared.pace.settle(ticket, spent);
                    }
                    if let Some(ledger) = call.usage {
                        ledger.add(&call.purpose, Usage::of_call(prompt, completion));
                    }
                    request.answered(tries, reply_bytes, (prompt, completion), begun.elapsed());
                    return Ok(reply);
                }
                Err(failure) => failure,
            };
            // A try that ran into the call's own deadline is not the server's fault.
            call.check()?;
            let Some(wait) = self.wait_before_next(call, tries, &failure) else {
                request.failed(tries, &failure);
                return Err(self.error(ask.path, tries, &failure));
            };
            request.trying_again(tries, &failure, wait);
            waiting::rest(call, wait)?;
        }
    }

    /// How long to wait for another try; `None` when there will be none.
    fn wait_before_next(&self, call: &Call<'_>, tries: u32, failure: &Failure) -> Option<Duration> {
        let options = &self.shared.options;
        if !failure.again || tries >= options.tries || failure.retry_after.is_some_and(|asked| asked > options.retry_after_max) {
            return None;
        }
        let jitter = self.shared.chance.hash_one((tries, Instant::now()));
        let wait = retry::delay(tries, options.backoff_first, options.backoff_max, failure.retry_after, jitter);
        // A wait that ends after the deadline would be for nothing: the caller has more of the time and of the reason.
        call.remaining().is_none_or(|remaining| wait < remaining).then_some(wait)
    }

    fn message(&self, call: &Call<'_>, path: &str, body: &Arc<Vec<u8>>) -> Message {
        let options = &self.shared.options;
        let header = |name: &Option<String>, value: Option<&str>| Some((name.clone()?, plain(value?)));
        let named = [header(&options.request_id_header, call.request_id), header(&options.purpose_header, Some(call.purpose.as_str()))];
        Message {
            url: options.address.url(path),
            key: self.shared.key.clone(),
            headers: named.into_iter().flatten().filter(|(_, value)| !value.is_empty()).collect(),
            body: body.clone(),
            reply_bytes_max: options.reply_bytes_max,
        }
    }

    fn error(&self, path: &str, tries: u32, failure: &Failure) -> ModelError {
        let times = if tries == 1 { "1 try".to_string() } else { format!("{tries} tries") };
        let message = format!("{path} of {}: {}, after {times}", self.host(), failure.what);
        ModelError { retry_after: failure.retry_after, ..ModelError::new(failure.kind, message) }
    }
}

impl fmt::Debug for OpenAiCompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenAiCompatible").field(&self.shared.options).finish()
    }
}

/// A request that cannot be written at all.
fn internal(error: &serde_json::Error) -> Failure {
    Failure::transport(ModelErrorKind::Configuration, format!("the request's JSON {}", replies::fault(error)))
}

/// Reads a reply. One that ends early was cut off on its way, and may be whole the next time.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| {
        let kind = if error.is_eof() { ModelErrorKind::Unavailable } else { ModelErrorKind::Malformed };
        Failure::transport(kind, format!("the reply {}", replies::fault(&error)))
    })
}

/// Prompt and completion tokens of a reply's `usage`; a server that says only how many there were in all read them.
fn tokens(usage: &serde_json::Value) -> (u64, u64) {
    let number = |name: &str| usage.get(name).and_then(serde_json::Value::as_u64);
    let completion = number("completion_tokens").unwrap_or(0);
    let prompt = number("prompt_tokens").or(number("total_tokens").map(|all| all.saturating_sub(completion)));
    (prompt.unwrap_or(0), completion)
}
