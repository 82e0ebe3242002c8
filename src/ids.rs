//! Numbers with a meaning: one newtype each, so that none is mistaken for another.

use crate::options::limits::COUNTER_MAX;
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// The number after this one. Panics at 2^64, which no database reaches.
            pub fn next(self) -> Self {
                $name(self.0.checked_add(1).expect("a 64-bit counter does not run out"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        // 64-bit numbers stand as strings in JSON, where a double would round them.
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
                let number = text.parse().ok().filter(|n| *n <= COUNTER_MAX).map($name);
                number.ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a number of 0 to {COUNTER_MAX}")))
            }
        }
    };
}

number!(
    /// Log sequence number: one per commit, ascending without gaps. 0 is the state before the first commit.
    Lsn
);
number!(
    /// The number of a stored document version. Ascending in commit order and never reused; it breaks ties between equal scores.
    Seq
);
number!(
    /// A collection's life: a new one begins when the collection is created and each time it is cleared. Never reused.
    Incarnation
);
number!(
    /// How often the state of the database on disk was published.
    Generation
);

/// The 128-bit identity of a database, or of one of its logs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// A random identity, from the operating system by way of the standard library's hash keys.
    pub fn random() -> Uuid {
        use std::hash::{BuildHasher, Hasher};
        let mut bytes = [0; 16];
        for (i, half) in bytes.chunks_exact_mut(8).enumerate() {
            let mut h = std::collections::hash_map::RandomState::new().build_hasher();
            h.write_usize(i);
            h.write_u128(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos()));
            half.copy_from_slice(&h.finish().to_le_bytes());
        }
        Uuid(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
