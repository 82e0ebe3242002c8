//! Cuts the line that names a program into its words. No shell reads it: no variable, no glob, no pipe.

use crate::models::{ModelError, ModelErrorKind};

/// Cuts `line` at blanks. `'...'` is taken as it stands; in `"..."` a backslash makes `"` and `\` plain; outside of both it makes a blank, a
/// quote or a backslash plain, and is itself before anything else, so that `C:\models\embed.exe` is one word as it stands.
///
/// # Errors
/// `Configuration` when a quote has no end or there is no word; the message holds nothing of the line.
pub(super) fn words(line: &str) -> Result<Vec<String>, ModelError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let escapes = match quote {
            None => chars.peek().is_some_and(|next| next.is_whitespace() || "\"'\\".contains(*next)),
            Some('"') => chars.peek().is_some_and(|next| "\"\\".contains(*next)),
            Some(_) => false,
        };
        if c == '\\' && escapes {
            word.get_or_insert_default().extend(chars.next());
        } else if quote == Some(c) {
            quote = None;
        } else if quote.is_none() && (c == '"' || c == '\'') {
            quote = Some(c);
            word.get_or_insert_default();
        } else if quote.is_none() && c.is_whitespace() {
            words.extend(word.take());
        } else {
            word.get_or_insert_default().push(c);
        }
    }
    if quote.is_some() {
        return Err(ModelError::new(ModelErrorKind::Configuration, "a quote in the command has no end"));
    }
    words.extend(word);
    if words.first().is_none_or(String::is_empty) {
        return Err(ModelError::new(ModelErrorKind::Configuration, "the command names no program"));
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_at_blanks_outside_of_quotes() {
        for (line, expected) in [
            ("python3 embed.py --fast", &["python3", "embed.py", "--fast"][..]),
            ("  a\t b  ", &["a", "b"]),
            ("run 'a b' \"c d\"", &["run", "a b", "c d"]),
            ("run a'b c'd \"\" ''", &["run", "ab cd", "", ""]),
            (r#"run "say \"hi\" \n" 'as\is'"#, &["run", r#"say "hi" \n"#, r"as\is"]),
            (r"run a\ b \'c\' d\\e", &["run", "a b", "'c'", r"d\e"]),
            (r"C:\models\embed.exe -m C:\m", &[r"C:\models\embed.exe", "-m", r"C:\m"]),
            ("run $HOME *.txt | cat; ls > x", &["run", "$HOME", "*.txt", "|", "cat;", "ls", ">", "x"]),
            ("run naïve 語", &["run", "naïve", "語"]),
            (r"run end\", &["run", r"end\"]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn a_line_without_a_program_or_with_an_open_quote_is_refused_without_repeating_it() {
        for line in ["", "   ", "''", "hidden 'x", "hidden \"x\\\""] {
            let error = words(line).unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Configuration);
            assert!(!error.message.contains("hidden"), "{error}");
        }
    }
}
