//! Documents of binary formats.

use std::io::{Cursor, Write};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A PDF with one line of Helvetica a string, one page a slice.
pub(super) fn pdf(pages: &[&[&str]]) -> Vec<u8> {
    let kids: Vec<String> = (0..pages.len()).map(|i| format!("{} 0 R", 4 + 2 * i)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_string(),
        format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_string(),
    ];
    for (i, lines) in pages.iter().enumerate() {
        let shown: String = lines.iter().map(|line| format!("({line}) Tj 0 -14 Td ")).collect();
        let content = format!("BT /F1 12 Tf 72 720 Td {shown}ET");
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {} 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
            5 + 2 * i
        ));
        objects.push(format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()));
    }
    pdf_of(&objects)
}

/// A PDF of these objects, the first of which is its catalog.
pub(super) fn pdf_of(objects: &[String]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (i, object) in objects.iter().enumerate() {
        places.push(bytes.len());
        bytes.extend(format!("{} 0 obj\n{object}\nendobj\n", i + 1).bytes());
    }
    let table = bytes.len();
    bytes.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    bytes.extend(places.iter().flat_map(|at| format!("{at:010} 00000 n \n").into_bytes()));
    bytes.extend(format!("trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n", objects.len() + 1).bytes());
    bytes
}

pub(super) fn docx(document: &[u8]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    archive.start_file("word/document.xml", SimpleFileOptions::default()).expect("a part can be begun");
    archive.write_all(document).expect("a part can be written");
    archive.finish().expect("an archive can be ended").into_inner()
}

pub(super) fn paragraphs(of: &[&str]) -> String {
    let body: String = of.iter().map(|p| format!("<w:p><w:r><w:t>{p}</w:t></w:r></w:p>")).collect();
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?><w:document xmlns:w=\"w\"><w:body>{body}</w:body></w:document>")
}
