//! The text of a DOCX file: the paragraphs of its body, then its foot- and endnotes. Deleted text, field codes and headers are not text.

use super::{EXPANDED_BYTES_MAX, Text};
use quick_xml::Reader;
use quick_xml::events::Event;
use std::io::{Cursor, Read};
use zip::ZipArchive;
use zip::result::ZipError;

/// The parts that hold text; only the first must be there.
const PARTS: [&str; 3] = ["word/document.xml", "word/footnotes.xml", "word/endnotes.xml"];

pub(super) fn text(bytes: &[u8]) -> Result<Text, String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|e| format!("it is no DOCX file: {e}"))?;
    let mut text = String::new();
    for part in PARTS {
        let mut file = match archive.by_name(part) {
            Ok(file) => file.take(EXPANDED_BYTES_MAX as u64 + 1),
            Err(ZipError::FileNotFound) if part != PARTS[0] => continue,
            Err(e) => return Err(format!("it is no DOCX file: {part}: {e}")),
        };
        let mut xml = Vec::new();
        file.read_to_end(&mut xml).map_err(|e| format!("it is broken: {part}: {e}"))?;
        if xml.len() > EXPANDED_BYTES_MAX {
            return Err(format!("{part} in it unpacks to more than {EXPANDED_BYTES_MAX} bytes"));
        }
        let xml = String::from_utf8(xml).map_err(|_| format!("it is broken: {part} is not UTF-8"))?;
        paragraphs(&xml, &mut text).map_err(|e| format!("it is broken: {part}: {e}"))?;
    }
    Ok(Text::whole(text, None))
}

/// Appends the text of every paragraph, each followed by a blank line; cells of a table row are on one line.
fn paragraphs(xml: &str, out: &mut String) -> Result<(), String> {
    let mut reader = Reader::from_str(xml);
    let (mut in_text, mut cells, mut skipped, mut open) = (false, 0u32, 0u32, 0u32);
    loop {
        match reader.read_event().map_err(|e| e.to_string())? {
            Event::Eof if open > 0 => return Err("it ends in the middle".into()),
            Event::Eof => return Ok(()),
            Event::Start(e) => {
                open += 1;
                match e.local_name().as_ref() {
                    // The fallback says once more what the choice before it says.
                    "Fallback" => skipped += 1,
                    "t" => in_text = true,
                    "tc" => cells += 1,
                    _ => {}
                }
            }
            Event::Empty(e) if skipped == 0 => match e.local_name().as_ref() {
                "tab" => out.push('\t'),
                "br" | "cr" => out.push('\n'),
                "noBreakHyphen" => out.push('-'),
                _ => {}
            },
            Event::End(e) => {
                open = open.saturating_sub(1);
                match e.local_name().as_ref() {
                    "Fallback" => skipped = skipped.saturating_sub(1),
                    "t" => in_text = false,
                    "tc" => {
                        cells = cells.saturating_sub(1);
                        out.push('\t');
                    }
                    "tr" => {
                        out.truncate(out.trim_end().len());
                        out.push('\n');
                    }
                    "tbl" => out.push('\n'),
                    "p" if skipped == 0 => out.push_str(if cells > 0 { " " } else { "\n\n" }),
                    _ => {}
                }
            }
            Event::Text(e) if in_text && skipped == 0 => out.push_str(&e.xml10_content()),
            Event::CData(e) if in_text && skipped == 0 => out.push_str(&e),
            Event::GeneralRef(e) if in_text && skipped == 0 => match e.resolve_char_ref().map_err(|e| e.to_string())? {
                Some(c) => out.push(c),
                None => out.push_str(quick_xml::escape::resolve_predefined_entity(&e).ok_or("it names an entity that XML does not know")?),
            },
            Event::Empty(_) | Event::Text(_) | Event::CData(_) | Event::GeneralRef(_) => {}
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(xml: &str) -> Result<String, String> {
        let mut out = String::new();
        paragraphs(xml, &mut out).map(|()| out)
    }

    #[test]
    fn paragraphs_tables_and_entities_but_no_deleted_text() {
        let xml = r#"<w:document xmlns:w="w"><w:body>
            <w:p><w:r><w:t>One &amp; </w:t></w:r><w:r><w:t xml:space="preserve">t&#228;o</w:t><w:tab/><w:t>x</w:t></w:r></w:p>
            <w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:instrText>PAGE</w:instrText><w:t>kept</w:t></w:r></w:p>
            <w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
            </w:body></w:document>"#;
        assert_eq!(read(xml), Ok("One & täo\tx\n\nkept\n\na \tb\n\n".into()));
    }

    #[test]
    fn broken_xml_is_an_error() {
        assert!(read("<w:p><w:t>half").is_err());
        assert!(read("<w:p><w:t>&nosuch;</w:t></w:p>").is_err());
        assert!(text(b"PK\x03\x04 and nothing").is_err_and(|e| e.contains("no DOCX")));
    }
}
