//! What a failed try means, and how long to wait before the next one. Pure.

use crate::connections::waiting::LONGEST;
use crate::models::ModelErrorKind;
use std::time::{Duration, SystemTime};

/// Why one try gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: ModelErrorKind,
    /// Whether the same request may succeed.
    pub(super) again: bool,
    /// What happened: fixed words and numbers.
    pub(super) what: String,
    pub(super) status: Option<u16>,
    /// How long the server asks to wait.
    pub(super) retry_after: Option<Duration>,
}

impl Failure {
    /// A failure of the way to the server or back.
    pub(super) fn transport(kind: ModelErrorKind, what: impl Into<String>) -> Failure {
        Failure { again: kind.is_transient(), kind, what: what.into(), status: None, retry_after: None }
    }

    /// What a status other than success means. `code` is the machine's word for it out of [`known_code`].
    pub(super) fn of_status(status: u16, code: Option<&'static str>, retry_after: Option<Duration>) -> Failure {
        let (kind, again) = match status {
            // Out of money is no matter of waiting, though it has the number of it.
            429 if matches!(code, Some("insufficient_quota" | "billing_hard_limit_reached")) => (ModelErrorKind::Refused, false),
            429 => (ModelErrorKind::RateLimited, true),
            408 => (ModelErrorKind::TimedOut, true),
            409 | 425 => (ModelErrorKind::Unavailable, true),
            501 | 505 => (ModelErrorKind::Refused, false),
            500..=599 => (ModelErrorKind::Unavailable, true),
            300..=399 => (ModelErrorKind::Configuration, false),
            _ => (ModelErrorKind::Refused, false),
        };
        let hint = match status {
            300..=399 => ": it leads elsewhere, and is not followed; configure the address that it leads to",
            401 | 403 => ": it does not take the key",
            404 => ": it knows no such path or model",
            413 => ": the request is too large for it; ask with smaller batches",
            _ => "",
        };
        let code = code.map(|c| format!(" ({c})")).unwrap_or_default();
        Failure { kind, again, what: format!("status {status}{code}{hint}"), status: Some(status), retry_after }
    }
}

/// Machine's words for errors that are repeated in messages. A word that is not here is not repeated: a server can write what it likes there,
/// the key and the question included.
const CODES: &[&str] = &[
    "authentication_error",
    "billing_hard_limit_reached",
    "content_filter",
    "content_policy_violation",
    "context_length_exceeded",
    "engine_overloaded",
    "exceed_context_size_error",
    "insufficient_quota",
    "internal_error",
    "internal_server_error",
    "invalid_api_key",
    "invalid_model",
    "invalid_request_error",
    "invalid_type",
    "missing_required_parameter",
    "model_not_found",
    "not_found_error",
    "not_supported_error",
    "overloaded_error",
    "permission_error",
    "rate_limit_error",
    "rate_limit_exceeded",
    "request_too_large",
    "requests",
    "server_error",
    "string_above_max_length",
    "timeout",
    "tokens",
    "unavailable_error",
    "unsupported_parameter",
    "unsupported_value",
];

/// The machine's word in the body of a reply that refuses, when it is one that is known: `error.code`, else `error.type`.
pub(super) fn known_code(body: &[u8]) -> Option<&'static str> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let error = body.get("error")?;
    ["code", "type"].iter().filter_map(|field| error.get(field)?.as_str()).find_map(|word| CODES.iter().find(|c| **c == word).copied())
}

/// The wait after try number `tries` (from 1): what the server asks for, else `first` doubled with every try up to `max`, of which `jitter`
/// (of all 64 bits) takes away up to a half, so that many callers do not come back at once.
pub(super) fn delay(tries: u32, first: Duration, max: Duration, retry_after: Option<Duration>, jitter: u64) -> Duration {
    if let Some(asked) = retry_after {
        return asked;
    }
    let full = first.saturating_mul(1_u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX)).min(max).min(LONGEST);
    full.mul_f64(1.0 - 0.5 * (jitter >> 11) as f64 / (1_u64 << 53) as f64)
}

/// How long a header `Retry-After` asks to wait: seconds, or a date of HTTP; `retry-after-ms` is finer where it is given. A date that is past
/// is no wait. `None` for anything else.
pub(super) fn retry_after(seconds: Option<&str>, milliseconds: Option<&str>, now: SystemTime) -> Option<Duration> {
    let number =
        |text: Option<&str>| text.map(str::trim).filter(|text| text.starts_with(|c: char| c.is_ascii_digit()))?.parse::<f64>().ok();
    // More than there is time is as good as never.
    let wait = |seconds: f64| Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    if let Some(ms) = number(milliseconds) {
        return wait(ms / 1e3);
    }
    if let Some(s) = number(seconds) {
        return wait(s);
    }
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(http_date(seconds?.trim())?);
    Some(at.duration_since(now).unwrap_or(Duration::ZERO))
}

/// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7), the one form that is still written.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let parts: Vec<&str> = text.split_once(", ")?.1.split([' ', ':']).collect();
    let [day, month, year, hour, minute, second, "GMT"] = parts[..] else { return None };
    let number = |text: &str, max: u64| text.parse::<u64>().ok().filter(|n| *n <= max);
    let month = MONTHS.iter().position(|m| *m == month)? as u64;
    let (day, year) = (number(day, 31)?, number(year, 9999)?);
    if day == 0 || year < 1970 {
        return None;
    }
    let seconds = number(hour, 23)? * 3600 + number(minute, 59)? * 60 + number(second, 60)?;
    // Days before the month, with years that begin in March, so that the leap day is their last one.
    let (march_year, march_month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let days = march_year * 365 + march_year / 4 - march_year / 100 + march_year / 400 + (153 * march_month + 2) / 5 + day - 1;
    // 719,468 days lie between March of year 0 and 1970.
    Some((days - 719_468) * 86_400 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_up_to_a_bound_and_chance_takes_away_at_most_half() {
        let wait = |tries, jitter| delay(tries, SECOND, 10 * SECOND, None, jitter);
        assert_eq!([wait(1, 0), wait(2, 0), wait(3, 0), wait(4, 0), wait(5, 0)], [1, 2, 4, 8, 10].map(|s| s * SECOND));
        assert_eq!(wait(40, 0), 10 * SECOND);
        assert_eq!(wait(u32::MAX, 0), 10 * SECOND);
        for jitter in [1, u64::MAX / 3, u64::MAX] {
            let wait = wait(3, jitter);
            assert!(wait >= 2 * SECOND && wait <= 4 * SECOND, "{wait:?}");
        }
        assert!(wait(3, u64::MAX) < wait(3, u64::MAX / 2));
        assert_eq!(delay(1, SECOND, 10 * SECOND, Some(30 * SECOND), u64::MAX), 30 * SECOND, "what the server asks for is not shortened");
    }

    #[test]
    fn a_wait_is_read_as_seconds_milliseconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + 784_111_770 * SECOND;
        let read = |text| retry_after(Some(text), None, now);
        assert_eq!(read("7"), Some(7 * SECOND));
        assert_eq!(read(" 0.25 "), Some(SECOND / 4));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:37 GMT"), Some(7 * SECOND));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:01 GMT"), Some(Duration::ZERO));
        assert_eq!(retry_after(Some("7"), Some("150"), now), Some(Duration::from_millis(150)));
        assert_eq!(retry_after(Some("99999999999999999999999"), None, now), Some(Duration::MAX));
        assert_eq!(retry_after(Some("1e300"), Some("junk"), now), Some(Duration::MAX));
        assert_eq!(retry_after(Some("-1"), Some("NaN"), now), None);
        assert!(delay(40, Duration::MAX, Duration::MAX, None, 7) <= LONGEST);
        for bad in [
            "",
            "soon",
            "-1",
            "NaN",
            "inf",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "x, 06 Nov",
            "Sun, 06 Nov 0000 08:49:37 GMT",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(retry_after(None, None, now), None);
    }

    #[test]
    fn dates_fall_on_the_days_of_the_calendar() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600),
            ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
            ("Thu, 31 Dec 2026 23:59:59 GMT", 1_798_761_599),
        ] {
            assert_eq!(http_date(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn what_can_help_is_tried_again_and_nothing_else() {
        let again = |status| Failure::of_status(status, None, None).again;
        for status in [408, 409, 425, 429, 500, 502, 503, 504, 529] {
            assert!(again(status), "{status}");
        }
        for status in [301, 302, 307, 308, 400, 401, 403, 404, 405, 413, 422, 501, 505] {
            assert!(!again(status), "{status}");
        }
        assert!(!Failure::of_status(429, Some("insufficient_quota"), None).again);
        assert_eq!(Failure::of_status(429, None, None).kind, ModelErrorKind::RateLimited);
        assert_eq!(Failure::of_status(503, None, None).kind, ModelErrorKind::Unavailable);
        assert_eq!(Failure::of_status(401, Some("invalid_api_key"), None).what, "status 401 (invalid_api_key): it does not take the key");
    }

    #[test]
    fn only_known_words_of_a_server_are_repeated() {
        assert_eq!(
            known_code(br#"{"error":{"message":"hidden","type":"invalid_request_error","code":"model_not_found"}}"#),
            Some("model_not_found")
        );
        assert_eq!(known_code(br#"{"error":{"type":"server_error","code":null}}"#), Some("server_error"));
        assert_eq!(known_code(br#"{"error":{"type":"server_error","code":"hidden"}}"#), Some("server_error"));
        for body in [&br#"{"error":{"code":"sk-hidden"}}"#[..], br#"{"error":"hidden"}"#, b"hidden", b"", b"[]"] {
            assert_eq!(known_code(body), None);
        }
        assert!(CODES.is_sorted());
    }
}
