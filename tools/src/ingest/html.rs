//! The text that a reader of an HTML page sees: no markup, no scripts, no link targets; its title first.

use super::EXPANDED_BYTES_MAX;
use html2text::config;
use html2text::render::TrivialDecorator;

/// Columns after which a paragraph is broken; a break is white space to whoever cuts or searches the text.
const COLUMNS: usize = 2000;

pub(super) fn text(page: &str) -> Result<String, String> {
    let reader = config::with_decorator(TrivialDecorator::new()).raw_mode(true).no_table_borders().allow_width_overflow();
    let failed = |e: html2text::Error| format!("it can't be read as HTML: {e}");
    let dom = reader.parse_html(page.as_bytes()).map_err(failed)?;
    let title = title(page);
    let tree = reader.dom_to_render_tree(&dom).map_err(failed)?;
    let rendered = reader.render_to_string(tree, COLUMNS).map_err(failed)?;
    if rendered.len() > EXPANDED_BYTES_MAX {
        return Err(format!("its text has more than {EXPANDED_BYTES_MAX} bytes"));
    }
    // A rule is drawn as a line of box characters; it says nothing.
    let body: Vec<&str> = rendered.lines().map(str::trim_end).filter(|line| line.is_empty() || !line.chars().all(|c| c == '─')).collect();
    let body = body.join("\n");
    match title {
        Some(title) if !body.trim_start().starts_with(&title) => Ok(format!("{title}\n\n{body}")),
        _ => Ok(body),
    }
}

/// The words of the `title` element, which the renderer leaves out with the rest of the head.
fn title(page: &str) -> Option<String> {
    let lower = page.to_ascii_lowercase();
    let open = lower.find("<title")?;
    let start = open + lower[open..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let fragment = format!("<p>{}</p>", page[start..end].replace('<', "&lt;"));
    let words = config::with_decorator(TrivialDecorator::new()).string_from_read(fragment.as_bytes(), COLUMNS).ok()?;
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_sees_and_nothing_else() {
        let page = "<!DOCTYPE html><html><head><title>Tea &amp;\n cake</title><style>p{color:red}</style></head><body><h1>Menu</h1>\
                    <script>alert('no')</script><p>Fresh <b>scones</b> &mdash; <a href='http://x.example/hidden'>daily</a>.</p><hr>\
                    <table><tr><td>Tea</td><td>2.10</td></tr></table><ul><li>one</li></ul><!-- not this --></body></html>";
        let text = text(page).expect("it is HTML");
        assert!(text.starts_with("Tea & cake\n\n"), "{text}");
        assert!(text.contains("Fresh scones — daily."), "{text}");
        for seen in ["Menu", "Tea", "2.10", "one"] {
            assert!(text.contains(seen), "{text}");
        }
        for hidden in ["alert", "color", "hidden", "not this", "─", "<", "|"] {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
    }

    #[test]
    fn broken_and_deep_pages_are_read_all_the_same() {
        assert!(text("<p>open <b>never closed").is_ok_and(|t| t.contains("open never closed")));
        assert_eq!(text("").map(|t| t.trim().to_string()), Ok(String::new()));
        let deep = format!("{}deep{}", "<div>".repeat(2_000), "</div>".repeat(2_000));
        assert!(text(&deep).is_ok_and(|t| t.contains("deep")));
    }
}
