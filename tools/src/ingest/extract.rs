//! A file's bytes to its chunks, by kind.

use super::chunk::Cutting;
use super::kind::{SourceType, decode};
use super::{Chunk, Extracted, Text, docx, html, pdf, records};

/// All chunks of a file, or why there are none.
pub(crate) fn extract(kind: SourceType, bytes: &[u8], cutting: Cutting) -> Result<Extracted, String> {
    let text = text(kind, bytes)?;
    let mut chunks = Vec::new();
    for (page, piece) in &text.pieces {
        chunks.extend(cutting.chunks(kind, piece)?.into_iter().map(|text| Chunk { text, page: *page }));
    }
    Ok(Extracted { chunks, remark: text.remark })
}

fn text(kind: SourceType, bytes: &[u8]) -> Result<Text, String> {
    if kind == SourceType::Pdf {
        return pdf::text(bytes);
    }
    if kind == SourceType::Docx {
        return docx::text(bytes);
    }
    let (text, remark) = decode(bytes)?;
    let (text, second) = if kind == SourceType::Html {
        (html::text(&text)?, None)
    } else if kind == SourceType::Json {
        records::json(&text)
    } else if kind == SourceType::Csv {
        records::csv(&text)
    } else {
        (text, None)
    };
    let remarks: Vec<String> = [remark, second].into_iter().flatten().collect();
    Ok(Text::whole(text, (!remarks.is_empty()).then(|| remarks.join("; "))))
}
