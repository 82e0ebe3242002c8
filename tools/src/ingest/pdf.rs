//! The text of a PDF, page by page.

use super::{EXPANDED_BYTES_MAX, Text};
use pdf_extract::{Document, PlainTextOutput, output_doc_page};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(super) fn text(bytes: &[u8]) -> Result<Text, String> {
    let mut document = Document::load_mem(bytes).map_err(|e| format!("it is no PDF, or a broken one: {e}"))?;
    // Many files are encrypted with an empty password: anyone may read them.
    if document.is_encrypted() {
        document.decrypt("").map_err(|e| format!("it is encrypted and asks for a password: {e}"))?;
    }
    let (mut pieces, mut bytes, mut rough) = (Vec::new(), 0, 0);
    for number in document.get_pages().into_keys() {
        let text = match page(&document, number) {
            Some(text) => text,
            None => {
                rough += 1;
                // Knows fewer fonts and no positions, but fails less.
                document.extract_text(&[number]).map_err(|e| format!("page {number} can't be read: {e}"))?
            }
        };
        bytes += text.len();
        if bytes > EXPANDED_BYTES_MAX {
            return Err(format!("its text has more than {EXPANDED_BYTES_MAX} bytes"));
        }
        pieces.push((Some(number), text));
    }
    if pieces.is_empty() {
        return Err("it is a broken PDF: it has no page".into());
    }
    let blank = pieces.iter().filter(|(_, text)| text.trim().is_empty()).count();
    if blank == pieces.len() {
        return Err("no text was found in it: its pages may be scanned images".into());
    }
    let mut remarks = Vec::new();
    if blank > 0 {
        remarks.push(format!("{blank} of its {} pages have no text; they may be images", pieces.len()));
    }
    if rough > 0 {
        remarks.push(format!("the layout of {rough} of its {} pages could not be followed; their words may run together", pieces.len()));
    }
    Ok(Text { pieces, remark: (!remarks.is_empty()).then(|| remarks.join("; ")) })
}

/// The text of a page in reading order. Nothing when the page, or what the parser makes of it, is broken.
fn page(document: &Document, number: u32) -> Option<String> {
    let read = || {
        let mut text = String::new();
        output_doc_page(document, &mut PlainTextOutput::new(&mut text), number).map(|()| text)
    };
    // The parser panics where it meets what it did not expect.
    catch_unwind(AssertUnwindSafe(read)).ok()?.ok()
}
