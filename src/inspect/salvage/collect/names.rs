//! Names of collections: those that were given, and those that are made up because a commit or the manifest is lost.

use crate::ids::Incarnation;
use crate::options::limits;
use std::collections::HashSet;

/// The name of a collection.
#[derive(Debug, Clone)]
pub(super) enum Name {
    /// The one that it has.
    Said(String),
    /// One that is made up of nothing.
    MadeUp(String),
    /// It had this one, until another collection had it: what became of it is lost.
    Taken { name: String, by: Incarnation },
}

impl Name {
    /// Whether it has this name, and nobody made it up.
    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self, Name::Said(said) if said == name)
    }

    /// Its parts: what may be shortened, and what says that it is made up.
    fn parts(&self) -> (&str, String) {
        match self {
            Name::Said(name) | Name::MadeUp(name) => (name, String::new()),
            Name::Taken { name, by } => (name, format!(" (before collection {by})")),
        }
    }
}

/// One name for each, valid and no other one's. Those that were given stay as they are; one that is made up yields, by a number.
pub(super) fn settled(names: &[Name]) -> Vec<String> {
    let said = |name: &Name| matches!(name, Name::Said(_));
    let mut taken: HashSet<String> = names.iter().filter(|name| said(name)).map(|name| name.parts().0.to_string()).collect();
    let settle = |name: &Name| {
        let (text, suffix) = name.parts();
        if said(name) {
            return text.to_string();
        }
        let numbered = |n: u64| shortened(text, &if n == 1 { suffix.clone() } else { format!("{suffix} {n}") });
        let free = (1..).map(numbered).find(|name| !taken.contains(name)).expect("numbers do not end");
        taken.insert(free.clone());
        free
    };
    names.iter().map(settle).collect()
}

/// Both parts, the first one without its end where they would be longer than a name may be.
fn shortened(text: &str, suffix: &str) -> String {
    let mut end = text.len().min(limits::NAME_BYTES_MAX.saturating_sub(suffix.len()));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_name_is_valid_and_free() {
        let long = "é".repeat(limits::NAME_BYTES_MAX / 2);
        let taken = |by| Name::Taken { name: long.clone(), by: Incarnation(by) };
        let said = |name: &str| Name::Said(name.into());
        let names =
            settled(&[Name::MadeUp("salvaged 7 0".into()), said("salvaged 7 0"), said("salvaged 7 0 2"), taken(3), taken(3), taken(12)]);
        assert_eq!(names[..3], ["salvaged 7 0 3", "salvaged 7 0", "salvaged 7 0 2"]);
        assert!(names[3..].iter().all(|name| name.len() <= limits::NAME_BYTES_MAX && name.starts_with("éé")), "{names:?}");
        assert!(names[3].ends_with("é (before collection 3)") && names[4].ends_with("é (before collection 3) 2"), "{names:?}");
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    }
}
