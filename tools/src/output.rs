//! What the commands say: results to stdout, notes and errors to stderr, and the exit status that an error means.

use serde::Serialize;
use std::fmt::{self, Display, Write as _};
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::path::Path;
use triune::{Error, ErrorCode};

/// The result of a command, or of a part of one.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// With a message for the user, and the exit status of `code`.
    Refused {
        /// The stable code that the library, the command line and other bindings share.
        code: ErrorCode,
        /// What happened, what was not changed, what to do next.
        message: String,
    },
    /// The reader of our stdout went away.
    OutputClosed,
    /// Stdout could not be written, and this is why. What the command did is done: [`Failure::unwritten`] says so.
    OutputFailed(String),
    /// Everything is said already, and this is the exit status that says it.
    Status(u8),
    /// Everything that could be done is done, and what could not is said already.
    #[cfg_attr(not(feature = "ingest"), expect(dead_code, reason = "only `ingest` ends so"))]
    Incomplete,
}

impl Failure {
    /// An argument, or a line of input, that has no meaning.
    pub(crate) fn invalid(message: impl Into<String>) -> Failure {
        Failure::Refused { code: ErrorCode::InvalidArgument, message: message.into() }
    }

    /// Something that was named does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Failure {
        Failure::Refused { code: ErrorCode::NotFound, message: message.into() }
    }

    /// A stable form whose meaning a later version brings.
    pub(crate) fn not_yet(what: impl Display) -> Failure {
        Failure::invalid(format!("not yet: this version does not know {what}. Nothing was changed"))
    }

    /// For a failure of stdout alone, what the user is to know of it: `stands` says what became of the command's work.
    pub(crate) fn unwritten(self, stands: &str) -> Failure {
        let Failure::OutputFailed(why) = self else { return self };
        Failure::Refused { code: ErrorCode::Io, message: format!("writing to standard output: {why}{stands}") }
    }

    /// What the operating system said about a new file that the user named: should something be missing, it is the directory.
    pub(crate) fn new_file(path: &Path, error: &io::Error) -> Failure {
        match path.parent().filter(|parent| error.kind() == io::ErrorKind::NotFound && !parent.is_dir()) {
            Some(parent) => {
                Failure::not_found(format!("there is no directory {} for the file {}; make it first", parent.display(), path.display()))
            }
            None => Failure::file(path.display(), error),
        }
    }

    /// What the operating system said about a file that the user named.
    pub(crate) fn file(name: impl Display, error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::NotFound {
            return Failure::not_found(format!("there is no file {name}"));
        }
        Error::io(name.to_string(), io::Error::new(error.kind(), error.to_string())).into()
    }

    /// The same after commits that stand: damage says only of its own commit that it changed nothing.
    pub(crate) fn after_commits(self) -> Failure {
        self.reworded(|message| message.replacen("Nothing was changed.", "This commit changed nothing.", 1))
    }

    /// The same failure with a message made from its message.
    pub(crate) fn reworded(self, reword: impl FnOnce(String) -> String) -> Failure {
        match self {
            Failure::Refused { code, message } => Failure::Refused { code, message: reword(message) },
            Failure::OutputClosed => Failure::OutputClosed,
            Failure::OutputFailed(why) => Failure::OutputFailed(why),
            Failure::Status(status) => Failure::Status(status),
            Failure::Incomplete => Failure::Incomplete,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let (code, text) = (error.code(), error.to_string());
        // The code stands before the message, so the words that say the same are left out.
        let message = match error {
            Error::NotFound(m) => absent(&m),
            Error::AlreadyExists(m) => present(&m),
            Error::Locked(m)
            | Error::UnsupportedVersion(m)
            | Error::SchemaMismatch(m)
            | Error::EmbedderMismatch(m)
            | Error::InvalidArgument(m)
            | Error::DuplicateId(m)
            | Error::LimitExceeded(m)
            | Error::ReadOnly(m)
            | Error::DiskFull(m)
            | Error::OutcomeUnknown(m)
            | Error::Poisoned(m)
            | Error::Interrupted(m) => m,
            Error::Corrupt(_) => text.trim_start_matches("corrupt: ").to_string(),
            Error::Io { .. } | _ => text,
        };
        Failure::Refused { code, message }
    }
}

/// The library names what is absent, "a database in /x; create one first": people get a sentence, and the command says what to do.
fn absent(what: &str) -> String {
    let what = what.trim_end_matches("; create it first").trim_end_matches("; create one first");
    let named =
        ["a database ", "a collection ", "a file ", "collection ", "document ", "entity "].iter().any(|noun| what.starts_with(noun));
    if named { format!("there is no {}", what.strip_prefix("a ").unwrap_or(what)) } else { what.to_string() }
}

/// The same for what exists: "collection "main"; nothing of the batch was written".
fn present(what: &str) -> String {
    if let Some(database) = what.strip_prefix("a database ") {
        let place = database.trim_end_matches(". Open it instead");
        return format!("there is a database {}", place.replacen("; ", " already; ", 1));
    }
    if what.starts_with("files of a database ") {
        return format!("there are {what}");
    }
    match what.split_once("; ") {
        Some((name, rest)) if what.starts_with("collection ") || what.starts_with("document ") => format!("{name} exists already; {rest}"),
        _ => what.to_string(),
    }
}

/// Stdout, buffered.
pub(crate) struct Out {
    writer: BufWriter<StdoutLock<'static>>,
    json: bool,
    /// Whether a terminal shows it, which obeys what stands in a document.
    terminal: bool,
}

impl Out {
    /// Takes stdout for the whole run.
    pub(crate) fn new(json: bool) -> Out {
        let stdout = io::stdout();
        Out { terminal: stdout.is_terminal(), writer: BufWriter::with_capacity(64 << 10, stdout.lock()), json }
    }

    /// Whether `--json` was given.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// One line of text: to a terminal with its control characters spelled out, else as it is.
    pub(crate) fn line(&mut self, text: impl Display) -> Outcome<()> {
        let written = if self.terminal { writeln!(self.writer, "{}", Harmless(text)) } else { writeln!(self.writer, "{text}") };
        written.map_err(closed)
    }

    /// One line of JSON.
    pub(crate) fn object(&mut self, value: &impl Serialize) -> Outcome<()> {
        serde_json::to_writer(&mut self.writer, value).map_err(|e| closed(e.into()))?;
        self.writer.write_all(b"\n").map_err(closed)
    }

    /// Lets the library write to stdout what is neither a line of text nor of JSON. Should stdout fail, that is no failure of the library.
    pub(crate) fn stream<T>(&mut self, write: impl FnOnce(&mut Stream<'_>) -> triune::Result<T>) -> Outcome<T> {
        let mut stream = Stream { writer: &mut self.writer, failed: None };
        let written = write(&mut stream);
        match (written, stream.failed) {
            (Err(_), Some(failure)) => Err(failure),
            (written, _) => Ok(written?),
        }
    }

    /// JSON for people and files: indented by two.
    pub(crate) fn pretty(&mut self, value: &impl Serialize) -> Outcome<()> {
        serde_json::to_writer_pretty(&mut self.writer, value).map_err(|e| closed(e.into()))?;
        self.writer.write_all(b"\n").map_err(closed)
    }

    /// Hands everything to the reader now.
    pub(crate) fn flush(&mut self) -> Outcome<()> {
        self.writer.flush().map_err(closed)
    }
}

/// What became of stdout. Its full disk is not that of the database, so none of this is an error of the library.
fn closed(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe { Failure::OutputClosed } else { Failure::OutputFailed(error.to_string()) }
}

/// Stdout, remembering why it could not be written.
pub(crate) struct Stream<'a> {
    writer: &'a mut BufWriter<StdoutLock<'static>>,
    failed: Option<Failure>,
}

impl Stream<'_> {
    /// Keeps what the failure means, and passes on its kind.
    fn keep<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            // Tried again, it is no failure.
            if kind != io::ErrorKind::Interrupted {
                self.failed = Some(closed(error));
            }
            kind.into()
        })
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes);
        self.keep(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.writer.flush();
        self.keep(flushed)
    }
}

/// Whether stdout was closed when this program was started, so that what is written there is lost without an error.
///
/// The runtime opens the null device in the place of a stream that is closed, for reading too; `>/dev/null`, which somebody chose, is open
/// for writing alone.
#[cfg(unix)]
pub(crate) fn born_closed() -> bool {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let Ok(owned) = io::stdout().as_fd().try_clone_to_owned() else { return true };
    let mut file = std::fs::File::from(owned);
    let device = |m: std::fs::Metadata| m.rdev();
    let null = std::fs::metadata("/dev/null").map(device).ok();
    null.is_some() && file.metadata().map(device).ok() == null && matches!(file.read(&mut [0]), Ok(0))
}

/// Elsewhere nobody can tell.
#[cfg(not(unix))]
pub(crate) fn born_closed() -> bool {
    false
}

/// Says on stderr why the command ended, as text or with `--json` as a line of JSON.
pub(crate) fn report(json: bool, code: ErrorCode, message: &str) {
    // Nobody is left to tell when stderr fails too.
    let mut stderr = io::stderr().lock();
    let _ = match json {
        true => writeln!(stderr, "{}", serde_json::json!({ "error": ErrorObject { code: code.as_str(), message } })),
        // What a library says may take lines of its own; an error takes one.
        false => {
            let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            writeln!(stderr, "error[{code}]: {}", Harmless(lines.join(" ")))
        }
    };
}

/// The JSON form of an error.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorObject<'a> {
    pub(crate) code: &'a str,
    pub(crate) message: &'a str,
}

/// A remark for people, on stderr.
pub(crate) fn note(text: impl Display) {
    aside("note", text);
}

/// A remark of some kind, on stderr.
pub(crate) fn aside(kind: &str, text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{kind}: {}", Harmless(text));
}

/// Text in which no terminal finds a command: control characters but for line ends and tabs are spelled out, as in `\x1b`.
///
/// Documents come from anywhere; one that is shown must not retitle the window, write into the clipboard or hide other lines.
struct Harmless<T>(T);

impl<T: Display> Display for Harmless<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Spelling(f, "\n\t"), "{}", self.0)
    }
}

/// A name in a line for people, wherever that goes: all its control characters are spelled out, so that the line stays one.
pub(crate) struct Name<'a>(pub(crate) &'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Spelling(f, "").write_str(self.0)
    }
}

/// Writes on what comes, spelling out control characters but for these.
struct Spelling<'a, 'b>(&'a mut fmt::Formatter<'b>, &'static str);

impl fmt::Write for Spelling<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c.is_control() && !self.1.contains(c)) {
            let (before, from) = rest.split_at(at);
            self.0.write_str(before)?;
            let control = from.chars().next().unwrap_or_default();
            write!(self.0, "\\x{:02x}", u32::from(control))?;
            rest = &from[control.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// A number of things, with the right form of the noun: `1 line`, `2 lines`.
pub(crate) struct Counted<'a>(pub(crate) u64, pub(crate) &'a str);

impl Display for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.0, self.1, if self.0 == 1 { "" } else { "s" })
    }
}

/// As a shell reads it back.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@=".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_string() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// The beginning of `text` on one line: at most `chars` characters, runs of white space as one space.
pub(crate) fn excerpt(text: &str, chars: usize) -> String {
    let mut short = String::new();
    let mut left = chars;
    for (i, word) in text.split_whitespace().enumerate() {
        let gap = usize::from(i > 0);
        if left <= gap {
            short.push('…');
            return short;
        }
        if gap == 1 {
            short.push(' ');
        }
        left -= gap;
        let end = word.char_indices().nth(left).map_or(word.len(), |(at, _)| at);
        short.push_str(&word[..end]);
        if end < word.len() {
            short.push('…');
            return short;
        }
        left -= word.chars().count();
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_ends_on_a_character_and_says_that_it_is_one() {
        assert_eq!(excerpt("a  b\n\tc", 10), "a b c");
        assert_eq!(excerpt("straße überall", 5), "straß…");
        assert_eq!(excerpt("ab cd", 4), "ab c…");
        assert_eq!(excerpt("ab cd", 2), "ab…");
        assert_eq!(excerpt("日本語", 3), "日本語");
        assert_eq!(excerpt("", 3), "");
    }

    #[test]
    fn a_terminal_is_told_nothing_by_a_document() {
        let shown = |text: &str| Harmless(text).to_string();
        assert_eq!(shown("\u{1b}]0;owned\u{7}\rhidden\u{9b}2J\u{7f}"), r"\x1b]0;owned\x07\x0dhidden\x9b2J\x7f");
        assert_eq!(shown("straße\tdé\n日本語"), "straße\tdé\n日本語");
        assert_eq!(Name("two\nlines\tand \u{1b}[2J").to_string(), r"two\x0alines\x09and \x1b[2J");
        assert_eq!(format!("{}", Harmless(format_args!("{} {}", "\u{1b}", 2))), r"\x1b 2");
    }

    #[test]
    fn a_library_error_keeps_its_code_and_says_it_once() {
        let Failure::Refused { code, message } = Failure::from(Error::NotFound("nothing at /x".into())) else {
            panic!("an error is a refusal");
        };
        assert_eq!((code, message.as_str()), (ErrorCode::NotFound, "nothing at /x"));
        let Failure::Refused { code, message } = Failure::from(Error::corrupt("HEAD", 7, "bad magic")) else {
            panic!("an error is a refusal");
        };
        assert_eq!(code, ErrorCode::Corrupt);
        assert!(message.starts_with("HEAD at byte 7: bad magic"), "{message}");
    }
}
