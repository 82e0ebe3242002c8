//! What a file is: by the end of its name, and where that says nothing, by its first bytes. And its bytes as text.

use serde::{Deserialize, Serialize};

/// The kinds that are told apart, by the names that stand in the metadata as `source_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SourceType {
    Pdf,
    Text,
    Markdown,
    Docx,
    Json,
    Csv,
    Html,
    Code,
    /// Text of a kind that the name does not tell.
    Unknown,
}

/// Ends of names, or whole names, of plain text.
const TEXT: &str = "txt text log rst adoc asciidoc org tex srt vtt readme license licence notice copying authors changelog changes";
/// The same of source code and configuration.
const CODE: &str = "rs py pyi js mjs cjs jsx ts tsx java kt kts scala go c h cc cpp cxx hh hpp hxx cs fs vb swift m mm rb php pl pm lua r jl hs ml mli \
    ex exs erl clj lisp el scm dart zig nim v d sh bash zsh fish ps1 bat cmd sql graphql proto css scss sass less vue svelte toml yaml \
    yml ini cfg conf properties xml xsd xsl svg gradle cmake mk tf asm s dockerfile makefile rakefile gemfile vagrantfile jenkinsfile \
    lock";

impl SourceType {
    /// By the name alone: `report.PDF`, `src/Makefile`.
    pub(crate) fn of_name(name: &str) -> SourceType {
        let lower = name.rsplit('/').next().unwrap_or(name).to_lowercase();
        let end = lower.rsplit_once('.').map_or(&*lower, |(_, end)| end);
        match end {
            "pdf" => SourceType::Pdf,
            "md" | "markdown" | "mdown" | "mkd" | "mdx" => SourceType::Markdown,
            "docx" | "docm" => SourceType::Docx,
            "json" | "jsonl" | "ndjson" | "geojson" | "webmanifest" => SourceType::Json,
            "csv" | "tsv" => SourceType::Csv,
            "html" | "htm" | "xhtml" => SourceType::Html,
            _ if TEXT.split(' ').any(|known| known == end) => SourceType::Text,
            _ if CODE.split(' ').any(|known| known == end) => SourceType::Code,
            _ => SourceType::Unknown,
        }
    }

    /// By the name, and for a name that says nothing by the first bytes.
    pub(crate) fn of(name: &str, bytes: &[u8]) -> SourceType {
        let kind = SourceType::of_name(name);
        if kind == SourceType::Unknown && bytes.starts_with(b"%PDF-") { SourceType::Pdf } else { kind }
    }
}

/// Bytes that are looked at for a zero byte, which no text has.
const PROBED_BYTES: usize = 8 << 10;
/// What to do about text of another encoding.
const CONVERT: &str = ". If it is text of another encoding, convert it (iconv -f LATIN1 -t UTF-8) and ingest it again";

/// Bytes as text, with a remark when some had to be replaced. Not text: an error that says so.
///
/// UTF-8 with or without a byte order mark, and UTF-16 with one. Text with some bytes that are not UTF-8 is taken, each of them as U+FFFD;
/// where more than a tenth would be replaced it is binary, or in an encoding that nothing here could guess.
pub(crate) fn decode(bytes: &[u8]) -> Result<(String, Option<String>), String> {
    let (text, encoding) = match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => (String::from_utf8_lossy(rest).into_owned(), "UTF-8"),
        [0xff, 0xfe, rest @ ..] => (utf16(rest, u16::from_le_bytes), "UTF-16"),
        // A file's own byte order, not this host's.
        [0xfe, 0xff, rest @ ..] => (utf16(rest, |b| u16::from_le_bytes([b[1], b[0]])), "UTF-16"),
        _ if bytes[..bytes.len().min(PROBED_BYTES)].contains(&0) => return Err("it is binary: it holds zero bytes".into()),
        _ => (String::from_utf8_lossy(bytes).into_owned(), "UTF-8"),
    };
    let (mut all, mut replaced, mut control) = (0u64, 0u64, 0u64);
    for c in text.chars() {
        all += 1;
        replaced += u64::from(c == '\u{fffd}');
        control += u64::from(c.is_control() && !c.is_ascii_whitespace() && c != '\u{1b}' && c != '\u{8}');
    }
    // A replacement character may stand in the file as such.
    let genuine = if encoding == "UTF-8" && replaced > 0 { occurrences(bytes, "\u{fffd}".as_bytes()) } else { 0 };
    replaced = replaced.saturating_sub(genuine);
    if (replaced + control) * 10 > all {
        return Err(format!(
            "it is binary, or text in an encoding other than {encoding}: {replaced} of its {all} characters are not valid, {control} are control characters{CONVERT}"
        ));
    }
    let remark = (replaced > 0).then(|| match replaced {
        1 => format!("one place is not valid {encoding}; it was read as U+FFFD{CONVERT}"),
        n => format!("{n} places are not valid {encoding}; each was read as U+FFFD, and words with it are not found{CONVERT}"),
    });
    Ok((text, remark))
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    // Half a unit at the end is read as half a pair of units, which is no character.
    let pairs = bytes.chunks(2).map(|pair| pair.get(1).map_or(0xd800, |second| unit([pair[0], *second])));
    char::decode_utf16(pairs).map(|c| c.unwrap_or('\u{fffd}')).collect()
}

fn occurrences(bytes: &[u8], of: &[u8]) -> u64 {
    bytes.windows(of.len()).filter(|w| *w == of).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_first_bytes_tell_the_kind() {
        for (name, kind) in [
            ("a.PDF", SourceType::Pdf),
            ("README", SourceType::Text),
            ("v1.2/README", SourceType::Text),
            ("README.md", SourceType::Markdown),
            ("a.tar.jsonl", SourceType::Json),
            ("Makefile", SourceType::Code),
            ("x.unheard-of", SourceType::Unknown),
            ("notes", SourceType::Unknown),
        ] {
            assert_eq!(SourceType::of_name(name), kind, "{name}");
        }
        assert_eq!(SourceType::of("scan", b"%PDF-1.4"), SourceType::Pdf);
        assert_eq!(SourceType::of("scan.txt", b"%PDF-1.4"), SourceType::Text);
    }

    #[test]
    fn a_few_bad_bytes_are_replaced_and_said_many_are_binary() {
        assert_eq!(decode("größer \u{fffd}".as_bytes()), Ok(("größer \u{fffd}".into(), None)));
        let (text, remark) = decode(b"a long enough line with one \xff in it").expect("it is text");
        assert!(text.contains("one \u{fffd} in") && remark.is_some_and(|r| r.contains("one place")));
        assert!(decode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").is_err_and(|e| e.contains("binary")));
        assert!(decode(&[0xc3, 0x28, 0xa0, 0xa1, b'a', b'b']).is_err_and(|e| e.contains("binary")));
        assert!(decode(&[1, 2, 3, 4, 5, 6, 7, b'a']).is_err());
        assert_eq!(decode(b""), Ok((String::new(), None)));
    }

    #[test]
    fn byte_order_marks_are_no_text() {
        assert_eq!(decode(b"\xef\xbb\xbfabc"), Ok(("abc".into(), None)));
        assert_eq!(decode(b"\xff\xfea\0b\0"), Ok(("ab".into(), None)));
        assert_eq!(decode(b"\xfe\xff\0a\0b"), Ok(("ab".into(), None)));
        let cut = [b"\xff\xfe".as_slice(), &b"a\0".repeat(20), b"a"].concat();
        assert!(decode(&cut).is_ok_and(|(text, remark)| text.starts_with("aaa") && remark.is_some()), "{:?}", decode(&cut));
    }
}
