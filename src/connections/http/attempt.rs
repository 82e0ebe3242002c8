//! One try: bytes to the server, bytes back, on a thread of its own.
//!
//! The thread is what makes a call stop at once when it is cancelled, wherever it waits: for a name, a connection, a certificate, a byte. It
//! ends by itself with the time of its try. Nothing of the HTTP library's errors is handed on but their kind: their words may hold an address.

use super::options::{HttpOptions, Key};
use super::retry::{Failure, known_code, retry_after};
use crate::connections::waiting::{LONGEST, receive};
use crate::models::{Call, ModelError, ModelErrorKind};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Of a reply that refuses, as much is read as may hold the machine's word for why.
const REFUSAL_BYTES_MAX: u64 = 16 << 10;

/// What a try sends.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) url: String,
    pub(super) key: Option<Arc<Key>>,
    /// Names and values of further headers.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Arc<Vec<u8>>,
    pub(super) reply_bytes_max: u64,
}

/// The HTTP library, set up so that it decides nothing: no redirect, no proxy that was not asked for, no status that is an error.
///
/// # Errors
/// `Configuration` when the environment names a proxy that is not spoken to: it would be passed by.
pub(super) fn agent(options: &HttpOptions) -> Result<ureq::Agent, ModelError> {
    let proxy = if options.proxy_from_environment { ureq::Proxy::try_from_env() } else { None };
    if proxy.as_ref().is_some_and(|p| !matches!(p.protocol(), ureq::ProxyProtocol::Http | ureq::ProxyProtocol::Https)) {
        return Err(ModelError::new(ModelErrorKind::Configuration, "the proxy of the environment is neither of HTTP nor of HTTPS"));
    }
    Ok(ureq::Agent::config_builder()
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .proxy(proxy)
        .timeout_connect(Some(options.connect_timeout.min(LONGEST)))
        .user_agent(concat!("triune/", env!("CARGO_PKG_VERSION")))
        .build()
        .new_agent())
}

/// Whether a logger takes what the HTTP library writes at its finest level: every byte that goes out, the key and the texts among them.
pub(super) fn bytes_are_logged() -> bool {
    ["ureq_proto::util", "ureq::util"].iter().any(|target| log::log_enabled!(target: target, log::Level::Trace))
}

/// The body of a reply that says success.
///
/// # Errors
/// The outer one when nobody needs an answer any more; the inner one when the try failed.
pub(super) fn attempt(
    agent: &ureq::Agent,
    call: &Call<'_>,
    time: Duration,
    message: Message,
) -> Result<Result<Vec<u8>, Failure>, ModelError> {
    let time = call.remaining().map_or(time, |remaining| time.min(remaining)).min(LONGEST);
    let (send, from) = std::sync::mpsc::sync_channel(1);
    let agent = agent.clone();
    let work = move || {
        // Nobody listens any more when the call was cancelled.
        let _ = send.send(exchange(&agent, time, &message));
    };
    if std::thread::Builder::new().name("triune-http".into()).spawn(work).is_err() {
        return Ok(Err(Failure::transport(ModelErrorKind::Unavailable, "the system gives no thread for the request")));
    }
    let reply = receive(call, &from)?;
    Ok(reply.unwrap_or_else(|| Err(Failure::transport(ModelErrorKind::Unavailable, "the request was given up"))))
}

fn exchange(agent: &ureq::Agent, time: Duration, message: &Message) -> Result<Vec<u8>, Failure> {
    let mut request = agent.post(&message.url).header("content-type", "application/json").header("accept", "application/json");
    for (name, value) in &message.headers {
        request = request.header(name, value);
    }
    if let Some(key) = &message.key {
        request = request.header("authorization", key.header());
    }
    let request = request.config().timeout_global(Some(time)).build();
    let mut reply = request.send(&message.body[..]).map_err(|e| failure(&e, message.reply_bytes_max))?;
    let status = reply.status().as_u16();
    if (200..300).contains(&status) {
        let body = reply.body_mut().with_config().limit(message.reply_bytes_max).read_to_vec();
        return body.map_err(|e| failure(&e, message.reply_bytes_max));
    }
    let header = |name| reply.headers().get(name).and_then(|value| value.to_str().ok());
    let wait = retry_after(header("retry-after"), header("retry-after-ms"), SystemTime::now());
    let body = reply.body_mut().with_config().limit(REFUSAL_BYTES_MAX).read_to_vec().unwrap_or_default();
    Err(Failure::of_status(status, known_code(&body), wait))
}

/// What an error of the HTTP library means.
fn failure(error: &ureq::Error, reply_bytes_max: u64) -> Failure {
    use ureq::Error as E;
    let unavailable = |what: &str| Failure::transport(ModelErrorKind::Unavailable, what);
    if matches!(error, E::Timeout(_)) {
        return Failure::transport(ModelErrorKind::TimedOut, "no answer in the time of a try");
    }
    if matches!(error, E::BodyExceedsLimit(_)) {
        return Failure::transport(
            ModelErrorKind::Malformed,
            format!("the reply is longer than {reply_bytes_max} bytes, which is the most that is read"),
        );
    }
    if matches!(error, E::LargeResponseHeader(..)) {
        return Failure::transport(ModelErrorKind::Malformed, "the reply's headers are too long");
    }
    if matches!(error, E::HostNotFound) {
        return unavailable("the host was not found");
    }
    if matches!(error, E::Tls(_) | E::Rustls(_) | E::Pem(_) | E::TlsRequired) {
        return Failure::transport(
            ModelErrorKind::Configuration,
            "no secure connection: the server's certificate or protocol is not accepted",
        );
    }
    if matches!(error, E::Http(_) | E::BadUri(_) | E::InvalidProxyUrl | E::RequireHttpsOnly(_)) {
        return Failure::transport(
            ModelErrorKind::Configuration,
            "the request cannot be written: the address, a header's name or the proxy is wrong",
        );
    }
    if let E::Io(io) = error {
        return of_io(io);
    }
    if matches!(error, E::Protocol(_)) {
        return unavailable("what came back is no whole reply of HTTP");
    }
    unavailable("the connection failed")
}

fn of_io(error: &std::io::Error) -> Failure {
    // What the secure connection makes of bytes that it does not take, a certificate's among them; a plain one never says so.
    if error.kind() == ErrorKind::InvalidData {
        return Failure::transport(
            ModelErrorKind::Configuration,
            "no secure connection: the server's certificate or protocol is not accepted",
        );
    }
    if error.kind() == ErrorKind::TimedOut {
        return Failure::transport(ModelErrorKind::TimedOut, "no answer in the time of a try");
    }
    // The kind of an error has fixed words; the error itself may not.
    Failure::transport(ModelErrorKind::Unavailable, format!("the connection failed ({})", error.kind()))
}
