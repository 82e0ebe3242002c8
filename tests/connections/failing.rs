//! A server that is slow, busy, broken or gone: what is tried again, what is waited for, and what ends a call.

use crate::server::{Server, Step};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use triune::connections::http::{ChatOptions, HttpLanguageModel, HttpOptions, OpenAiCompatible};
use triune::models::{Call, Cancellation, LanguageModel, ModelError, ModelErrorKind, Prompt};

/// So long that a test which has to wait for it does not end.
const HOUR: Duration = Duration::from_secs(3600);

fn ask(options: HttpOptions, call: &Call<'_>) -> Result<String, ModelError> {
    HttpLanguageModel::new(&OpenAiCompatible::new(options).unwrap(), ChatOptions::new("talker")).complete(call, &Prompt::new("x"))
}

fn status(status: u16) -> Step {
    Step::Status(status, vec![], "{\"error\": {\"message\": \"hidden\", \"code\": \"server_error\"}}".into())
}

fn wait(status: u16, header: &'static str, value: &str) -> Step {
    Step::Status(status, vec![(header, value.into())], String::new())
}

/// Cancels in a moment, from another thread.
fn soon(cancellation: &Cancellation) {
    let cancellation = cancellation.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        cancellation.cancel();
    });
}

#[test]
fn a_server_that_fails_twice_is_asked_a_third_time() {
    for failure in [
        status(500),
        status(502),
        status(503),
        status(529),
        status(429),
        status(408),
        Step::Half { length: true },
        Step::Half { length: false },
    ] {
        let server = Server::with([failure.clone(), failure.clone()]);
        assert_eq!(ask(server.options(), &Call::default()).unwrap(), "You said: x", "{failure:?}");
        assert_eq!(server.seen().len(), 3, "{failure:?}");
    }
}

#[test]
fn a_server_that_goes_on_failing_is_given_up_after_the_tries_that_are_set() {
    for (step, kind, what) in [
        (status(500), ModelErrorKind::Unavailable, "status 500 (server_error), after 4 tries"),
        (status(429), ModelErrorKind::RateLimited, "status 429 (server_error), after 4 tries"),
        (Step::Half { length: true }, ModelErrorKind::Unavailable, "after 4 tries"),
        (Step::Half { length: false }, ModelErrorKind::Unavailable, "the reply ends early"),
        (Step::Body(String::new()), ModelErrorKind::Unavailable, "the reply ends early"),
        (Step::Raw(b"".to_vec()), ModelErrorKind::Unavailable, "after 4 tries"),
        (Step::Raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n".to_vec()), ModelErrorKind::Unavailable, "after 4 tries"),
    ] {
        let server = Server::always(step.clone());
        let error = ask(server.options(), &Call::default()).unwrap_err();
        assert_eq!(error.kind, kind, "{step:?}: {error}");
        assert!(error.message.contains(what), "{step:?}: {error}");
        assert_eq!(server.seen().len(), 4, "{step:?}: {error}");
        let server = Server::always(step);
        ask(HttpOptions { tries: 1, ..server.options() }, &Call::default()).unwrap_err();
        assert_eq!(server.seen().len(), 1);
    }
}

#[test]
fn a_server_that_refuses_is_not_asked_again() {
    for code in [400, 401, 403, 404, 413, 422, 501] {
        let server = Server::always(status(code));
        let error = ask(server.options(), &Call::default()).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Refused, "{error}");
        assert!(
            error.message.contains(&format!("chat/completions of 127.0.0.1:{}: status {code} (server_error)", server.port())),
            "{error}"
        );
        assert!(!error.message.contains("hidden"), "{error}");
        assert_eq!(server.seen().len(), 1, "{code}");
    }
    // No money is no matter of waiting.
    let server = Server::always(Step::Status(429, vec![], "{\"error\": {\"code\": \"insufficient_quota\"}}".into()));
    assert_eq!(ask(server.options(), &Call::default()).unwrap_err().kind, ModelErrorKind::Refused);
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn what_the_server_asks_to_wait_is_waited() {
    for (step, least) in [(wait(429, "retry-after", "1"), 1000), (wait(503, "retry-after-ms", "300"), 300)] {
        let server = Server::with([step]);
        let begun = Instant::now();
        ask(server.options(), &Call::default()).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(least), "{:?}", begun.elapsed());
        assert_eq!(server.seen().len(), 2);
    }
}

#[test]
fn a_wait_that_is_too_long_ends_the_call_and_is_told() {
    let server = Server::always(wait(429, "retry-after", "3600"));
    let error = ask(server.options(), &Call::default()).unwrap_err();
    assert_eq!((error.kind, error.retry_after), (ModelErrorKind::RateLimited, Some(HOUR)));
    assert_eq!(server.seen().len(), 1);
    // It would be waited for, but the call ends before.
    let patient = HttpOptions { retry_after_max: 2 * HOUR, ..server.options() };
    let call = Call { deadline: Some(Instant::now() + HOUR / 2), ..Call::default() };
    let error = ask(patient, &call).unwrap_err();
    assert_eq!((error.kind, error.retry_after), (ModelErrorKind::RateLimited, Some(HOUR)));
}

#[test]
fn a_slow_answer_is_an_answer() {
    let server = Server::with([Step::Slow(Duration::from_millis(300))]);
    assert_eq!(ask(server.options(), &Call::default()).unwrap(), "You said: x");
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_server_that_never_answers_costs_the_time_of_its_tries() {
    for step in [Step::Never, Step::Drip] {
        let server = Server::always(step);
        let options = HttpOptions { try_timeout: Duration::from_millis(250), tries: 2, ..server.options() };
        let error = ask(options, &Call::default()).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::TimedOut);
        assert!(error.message.contains("no answer in the time of a try, after 2 tries"), "{error}");
        assert_eq!(server.seen().len(), 2);
    }
}

#[test]
fn a_call_ends_with_its_deadline_whatever_a_try_may_take() {
    for step in [Step::Never, Step::Drip] {
        let server = Server::always(step);
        let call = Call { deadline: Some(Instant::now() + Duration::from_millis(300)), ..Call::default() };
        let error = ask(HttpOptions { try_timeout: HOUR, ..server.options() }, &call).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ModelErrorKind::TimedOut, "the request had no answer before its deadline"));
        assert_eq!(server.seen().len(), 1);
        let late = Call { deadline: Some(Instant::now()), ..Call::default() };
        assert_eq!(ask(server.options(), &late).unwrap_err().kind, ModelErrorKind::TimedOut);
        assert_eq!(server.seen().len(), 1, "nothing is sent for a call that is over");
    }
}

#[test]
fn a_cancelled_call_ends_while_it_waits_for_an_answer() {
    let server = Server::always(Step::Never);
    let call = Call::default();
    soon(&call.cancellation);
    let error = ask(HttpOptions { try_timeout: HOUR, ..server.options() }, &call).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Cancelled);
}

#[test]
fn a_cancelled_call_ends_while_it_waits_for_another_try() {
    let server = Server::always(status(503));
    let call = Call::default();
    soon(&call.cancellation);
    let error = ask(HttpOptions { backoff_first: HOUR, backoff_max: HOUR, ..server.options() }, &call).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Cancelled);
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_cancelled_call_ends_while_it_waits_for_its_turn() {
    let server = Server::start();
    let client = OpenAiCompatible::new(HttpOptions { requests_per_minute: Some(1), ..server.options() }).unwrap();
    let model = HttpLanguageModel::new(&client, ChatOptions::new("talker"));
    model.complete(&Call::default(), &Prompt::new("x")).unwrap();
    // A model that shares the client shares its limit.
    let other = HttpLanguageModel::new(&client, ChatOptions::new("other"));
    let call = Call::default();
    soon(&call.cancellation);
    assert_eq!(other.complete(&call, &Prompt::new("x")).unwrap_err().kind, ModelErrorKind::Cancelled);
    let hurried = Call { deadline: Some(Instant::now() + Duration::from_secs(5)), ..Call::default() };
    let error = other.complete(&hurried, &Prompt::new("x")).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::RateLimited);
    assert!(error.retry_after.is_some());
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_reply_without_end_is_not_read_to_its_end() {
    let server = Server::with([Step::Endless, Step::Body(" ".repeat(70_000))]);
    let options = HttpOptions { reply_bytes_max: 65_536, ..server.options() };
    for _ in 0..2 {
        let error = ask(options.clone(), &Call::default()).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed, "{error}");
        assert!(error.message.contains("longer than 65536 bytes"), "{error}");
    }
    assert!(ask(options, &Call::default()).is_ok());
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = Server::start();
    for code in [301, 302, 303, 307, 308] {
        let server = Server::always(wait(code, "location", &format!("{}/chat/completions", elsewhere.address())));
        let error = ask(server.options(), &Call::default()).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Configuration, "{error}");
        assert!(error.message.contains("configure the address that it leads to"), "{error}");
        assert!(!error.message.contains(&elsewhere.port().to_string()), "{error}");
        assert_eq!(server.seen().len(), 1);
    }
    assert!(elsewhere.seen().is_empty() && elsewhere.connections() == 0);
}

#[test]
fn a_server_that_is_not_there_is_unavailable() {
    let port = Server::start().port();
    let gone = HttpOptions { backoff_first: Duration::from_millis(1), ..HttpOptions::new(&format!("http://127.0.0.1:{port}/v1")).unwrap() };
    // The server above may take a moment to close its door.
    std::thread::sleep(Duration::from_millis(100));
    let error = ask(gone, &Call::default()).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unavailable);
    assert!(error.message.contains("connection refused") && error.message.contains("after 4 tries"), "{error}");
    let nowhere = HttpOptions { tries: 1, ..HttpOptions::new("http://no-such-host.invalid/v1").unwrap() };
    assert_eq!(ask(nowhere, &Call::default()).unwrap_err().kind, ModelErrorKind::Unavailable);
}

#[test]
fn a_secure_connection_to_a_server_without_one_is_a_matter_of_configuration() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        // It takes what comes for a request, and says that it is none.
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        let _ = stream.read(&mut [0]);
    });
    let error = ask(HttpOptions::new(&format!("https://127.0.0.1:{port}/v1")).unwrap(), &Call::default()).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Configuration, "{error}");
    assert!(error.message.contains("no secure connection") && error.message.contains("after 1 try"), "{error}");
}
