//! Where a server is, and how it is asked.

use crate::models::{ModelError, ModelErrorKind};
use std::fmt;
use std::time::Duration;

/// Where a server is: `https://api.openai.com/v1`, `http://localhost:11434/v1`. The paths of the protocol (`embeddings`,
/// `chat/completions`, `rerank`) are appended to it. It shows itself as scheme and host alone, in `Debug` too: a path may name a tenant.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerAddress {
    secure: bool,
    /// With the port, where one is given.
    host: String,
    /// Empty, or beginning with `/` and not ending with it.
    path: String,
}

impl ServerAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// `Configuration` for another scheme than `http` and `https`, a user or password in it, a query or fragment, or characters that no
    /// address has. The message holds nothing of the address.
    pub fn parse(address: &str) -> Result<ServerAddress, ModelError> {
        let refuse = |why: &str| Err(ModelError::new(ModelErrorKind::Configuration, format!("the server's address {why}")));
        let Some((scheme, rest)) = address.trim().split_once("://") else {
            return refuse("does not begin with http:// or https://");
        };
        let secure = scheme.eq_ignore_ascii_case("https");
        if !secure && !scheme.eq_ignore_ascii_case("http") {
            return refuse("does not begin with http:// or https://");
        }
        if rest.contains(['?', '#']) {
            return refuse("has a query or a fragment; paths are appended to it, and keys come from the environment");
        }
        if rest.split('/').next().is_some_and(|authority| authority.contains('@')) {
            return refuse("has a user or password in it; a key comes from an environment variable");
        }
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if !is_host(host) {
            return refuse("has no valid host and port");
        }
        if !path.bytes().all(|b| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b)) {
            return refuse("has a path with characters that have to be encoded");
        }
        Ok(ServerAddress { secure, host: host.to_ascii_lowercase(), path: path.trim_end_matches('/').into() })
    }

    /// Host and port: all of it that a message may hold.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The whole address of one path of the protocol.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}://{}{}/{path}", self.scheme(), self.host, self.path)
    }

    fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }
}

impl fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.host)
    }
}

/// A name or an address of four or six parts, with or without a port.
fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((name, port)) if name.bytes().all(|b| b.is_ascii_hexdigit() || b == b':' || b == b'.') => {
            (name, port.strip_prefix(':').or(port.is_empty().then_some("80")))
        }
        Some(_) => return false,
        None => match host.split_once(':') {
            Some((name, port)) if is_name(name) => (name, Some(port)),
            None if is_name(host) => (host, Some("80")),
            Some(_) | None => return false,
        },
    };
    !name.is_empty() && port.is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()) && p.parse::<u16>().is_ok_and(|p| p > 0))
}

fn is_name(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
}

/// How a server is asked. Made by [`HttpOptions::new`]; every field may be changed.
#[derive(Clone)]
pub struct HttpOptions {
    /// Where the server is.
    pub address: ServerAddress,
    /// The name of the environment variable that holds the key, in upper case, digits and underscores: `OPENAI_API_KEY`. `None`: no key is
    /// sent. The key goes out as `Authorization: Bearer`, and nowhere else.
    pub key_variable: Option<String>,
    /// The longest that one try takes, from finding the host to the reply's last byte. 60 s.
    pub try_timeout: Duration,
    /// The longest that finding the host and connecting takes, of a try. 10 s.
    pub connect_timeout: Duration,
    /// Tries of one request, the first included; 0 counts as 1. 4.
    pub tries: u32,
    /// The wait before the second try; it doubles with every further one, and a random half of it is left out. 500 ms.
    pub backoff_first: Duration,
    /// The longest wait that the server did not ask for. 20 s.
    pub backoff_max: Duration,
    /// The longest `Retry-After` that is waited for; a longer one ends the call with an error that says how long. 60 s.
    pub retry_after_max: Duration,
    /// The most requests in any 60 seconds, tries included. Shared by all that comes from one client.
    pub requests_per_minute: Option<u32>,
    /// The most tokens in any 60 seconds: four bytes of text count as one until the reply says what it took.
    pub tokens_per_minute: Option<u32>,
    /// The longest reply, in bytes. 64 MiB.
    pub reply_bytes_max: u64,
    /// The header that carries [`crate::models::Call::request_id`]. `x-request-id`.
    pub request_id_header: Option<String>,
    /// The header that carries the call's purpose, for a gateway that routes or bills by it: `x-triune-purpose`. None.
    pub purpose_header: Option<String>,
    /// Whether the proxy of `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` is used. Not by default: nothing goes another way than the one named here.
    pub proxy_from_environment: bool,
}

impl HttpOptions {
    /// The defaults for the server at `address`.
    ///
    /// # Errors
    /// As [`ServerAddress::parse`].
    pub fn new(address: &str) -> Result<HttpOptions, ModelError> {
        Ok(HttpOptions {
            address: ServerAddress::parse(address)?,
            key_variable: None,
            try_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
            tries: 4,
            backoff_first: Duration::from_millis(500),
            backoff_max: Duration::from_secs(20),
            retry_after_max: Duration::from_secs(60),
            requests_per_minute: None,
            tokens_per_minute: None,
            reply_bytes_max: 64 << 20,
            request_id_header: Some("x-request-id".into()),
            purpose_header: None,
            proxy_from_environment: false,
        })
    }

    /// The same, with the key that the environment variable `name` holds.
    pub fn key_from(self, name: impl Into<String>) -> HttpOptions {
        HttpOptions { key_variable: Some(name.into()), ..self }
    }
}

impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions")
            .field("address", &self.address)
            // Not its name: who puts a key where the name belongs shall not find it in a log.
            .field("has_key", &self.key_variable.is_some())
            .field("try_timeout", &self.try_timeout)
            .field("tries", &self.tries)
            .field("requests_per_minute", &self.requests_per_minute)
            .field("tokens_per_minute", &self.tokens_per_minute)
            .field("reply_bytes_max", &self.reply_bytes_max)
            .finish_non_exhaustive()
    }
}

/// A key. It shows nothing of itself.
pub(super) struct Key(String);

impl Key {
    /// Reads the key out of the environment variable `name`.
    ///
    /// # Errors
    /// `Configuration` when that is no name, names nothing, or what it holds cannot be a key.
    pub(super) fn from_environment(name: &str) -> Result<Key, ModelError> {
        let refuse = |why: String| Err(ModelError::new(ModelErrorKind::Configuration, why));
        let is_name = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        // Held to be a name before it is repeated: a key in its place would be in the message.
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_name) {
            return refuse(
                "what should name the key's environment variable is no such name (upper case, digits, underscores); a key itself does not \
                 belong there"
                    .into(),
            );
        }
        let Ok(value) = std::env::var(name) else {
            return refuse(format!("the environment variable {name}, which holds the key, is not set; set it, or configure none"));
        };
        let value = value.trim();
        if value.is_empty() || !value.bytes().all(|b| b.is_ascii_graphic()) {
            return refuse(format!(
                "what the environment variable {name} holds is no key: it is empty, or has blanks or other characters than ASCII"
            ));
        }
        Ok(Key(format!("Bearer {value}")))
    }

    /// The value of the header `Authorization`.
    pub(super) fn header(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_scheme_host_port_and_path_and_nothing_else() {
        for (given, url) in [
            ("http://localhost:11434/v1", "http://localhost:11434/v1/embeddings"),
            ("HTTPS://API.Example.org/v1/", "https://api.example.org/v1/embeddings"),
            ("http://[::1]:8080", "http://[::1]:8080/embeddings"),
            ("http://10.0.0.7", "http://10.0.0.7/embeddings"),
            (" https://gateway.example/a/b-c_d//", "https://gateway.example/a/b-c_d/embeddings"),
        ] {
            assert_eq!(ServerAddress::parse(given).unwrap().url("embeddings"), url);
        }
    }

    #[test]
    fn an_address_with_a_user_a_query_or_no_host_is_refused_without_repeating_it() {
        for given in [
            "localhost:11434/v1",
            "ftp://hidden.example/v1",
            "https://hidden:word@example.org/v1",
            "https://hidden@example.org",
            "https://example.org/v1?key=hidden",
            "https://example.org/v1#hidden",
            "https:///hidden",
            "https://hid den.example/",
            "https://hidden.example:0/",
            "https://hidden.example:99999/",
            "https://hidden.example:/",
            "https://hidden.example:80:80/",
            "https://[hidden]/",
            "https://hidden.example/a b",
            "https://hidden.example/\r\nx: y",
            "",
        ] {
            let error = ServerAddress::parse(given).unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Configuration);
            assert!(!error.to_string().contains("hidden"), "{given}: {error}");
        }
    }

    #[test]
    fn a_key_where_its_name_belongs_is_refused_without_repeating_it() {
        for given in ["sk-proj-hidden", "gsk_hidden", "", "A B"] {
            let error = Key::from_environment(given).unwrap_err();
            assert!(error.message.contains("no such name") && !error.message.contains("hidden"), "{error}");
            let options = HttpOptions::new("http://localhost/tenant").unwrap().key_from(given);
            assert!(!format!("{options:?}").contains("hidden") && !format!("{options:?}").contains("tenant"));
        }
        let error = Key::from_environment("TRIUNE_NO_SUCH_VARIABLE").unwrap_err();
        assert!(error.message.contains("TRIUNE_NO_SUCH_VARIABLE"), "{error}");
        // Set in every process, and no key.
        let path = Key::from_environment("CARGO_PKG_DESCRIPTION");
        assert!(path.is_err_and(|e| !e.message.contains("embedded")));
    }
}
