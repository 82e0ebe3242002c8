//! Two 64-bit hashes with a specified value: of an id (for the `IdMap`), and of a whole document (for conservation checks). Spec §10.7.
//!
//! Neither resists an adversary, and none has to: a hit of the id map is confirmed against the id itself, and the content hash guards
//! against mistakes of ours, not against forgers.

use crate::document::{Entity, Relation, StoredDocument};

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;
/// 2^64 divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of an id: FNV-1a over its bytes, then the 64-bit finaliser of MurmurHash3.
///
/// FNV alone leaves the low bits of short ids related; the finaliser spreads them, so that any bits may choose the bucket.
pub fn id_hash(id: &str) -> u64 {
    finalise(id.bytes().fold(FNV_OFFSET, |h, b| (h ^ u64::from(b)).wrapping_mul(FNV_PRIME)))
}

/// The content hash of a document version, its vector included. Row numbers and seqs take no part, so a merge keeps it.
///
/// The content hash of a segment is the wrapping sum over its rows, and so does not depend on their order.
pub fn content_hash(document: &StoredDocument) -> u64 {
    let mut h = WordHash(GOLDEN);
    let present = u64::from(document.source.is_some())
        | u64::from(document.metadata.is_some()) << 1
        | u64::from(document.vector.is_some()) << 2
        | u64::from(document.source_given && document.source.is_some()) << 3
        | u64::from(document.entities.is_some()) << 4
        | u64::from(document.relations.is_some()) << 5;
    h.word(present);
    h.word(document.time_ms);
    h.bytes(document.id.as_bytes());
    if let Some(source) = &document.source {
        h.bytes(source.as_bytes());
    }
    if let Some(metadata) = &document.metadata {
        h.bytes(metadata.as_str().as_bytes());
    }
    h.bytes(document.text.as_bytes());
    if let Some(vector) = &document.vector {
        h.word(vector.len() as u64);
        for pair in vector.chunks(2) {
            let high = pair.get(1).map_or(0, |x| x.to_bits());
            h.word(u64::from(high) << 32 | u64::from(pair[0].to_bits()));
        }
    }
    if let Some(entities) = &document.entities {
        h.word(entities.len() as u64);
        entities.iter().for_each(|e| h.entity(e));
    }
    if let Some(relations) = &document.relations {
        h.word(relations.len() as u64);
        relations.iter().for_each(|r| h.relation(r));
    }
    finalise(h.0)
}

/// A running hash over 64-bit words.
struct WordHash(u64);

impl WordHash {
    fn word(&mut self, word: u64) {
        let h = (self.0 ^ word).wrapping_mul(GOLDEN);
        // A product carries upwards only; without this shift two flipped top bits would cancel.
        self.0 = h ^ (h >> 32);
    }

    fn entity(&mut self, entity: &Entity) {
        self.bytes(entity.name.as_bytes());
        self.optional(entity.kind.as_deref());
        self.word(u64::from(entity.mentions));
    }

    fn relation(&mut self, relation: &Relation) {
        self.bytes(relation.source.as_bytes());
        self.bytes(relation.target.as_bytes());
        self.optional(relation.kind.as_deref());
        self.optional(relation.description.as_deref());
        self.word(relation.weight.to_bits());
    }

    /// Whether it is there, then its bytes.
    fn optional(&mut self, text: Option<&str>) {
        self.word(u64::from(text.is_some()));
        if let Some(text) = text {
            self.bytes(text.as_bytes());
        }
    }

    /// The length, then the bytes as little-endian words, the last one filled up with zeros.
    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (words, tail) = bytes.as_chunks::<8>();
        words.iter().for_each(|w| self.word(u64::from_le_bytes(*w)));
        if !tail.is_empty() {
            let mut last = [0; 8];
            last[..tail.len()].copy_from_slice(tail);
            self.word(u64::from_le_bytes(last));
        }
    }
}

/// The 64-bit finaliser of MurmurHash3: a bijection after which every input bit moves about half of the output bits.
fn finalise(mut h: u64) -> u64 {
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Metadata;

    fn sample() -> StoredDocument {
        StoredDocument {
            id: "guide#0".into(),
            text: "Compaction rewrites segments.".into(),
            metadata: Some(Metadata::trusted(r#"{"page":1}"#.into())),
            vector: Some(vec![1.0, -2.0, 0.5].into()),
            source: Some("guide.md".into()),
            source_given: true,
            time_ms: 1_700_000_000_000,
            entities: None,
            relations: None,
        }
    }

    #[test]
    fn the_test_vectors_of_the_specification_hold() {
        assert_eq!(id_hash(""), 0xefd0_1f60_ba99_2926);
        assert_eq!(id_hash("guide#0"), 0xbf71_ed6c_4722_7f70);
        let bare = StoredDocument {
            id: "a".into(),
            text: "".into(),
            metadata: None,
            vector: None,
            source: None,
            source_given: false,
            time_ms: 0,
            entities: None,
            relations: None,
        };
        assert_eq!(content_hash(&bare), 0x4ceb_203f_1466_6984);
        assert_eq!(content_hash(&sample()), 0x43a6_2fb1_f977_19fa);
    }

    #[test]
    fn every_part_of_a_document_moves_its_content_hash() {
        let base = sample();
        let change = |f: &dyn Fn(&mut StoredDocument)| {
            let mut d = base.clone();
            f(&mut d);
            content_hash(&d)
        };
        let hashes = [
            content_hash(&base),
            change(&|d| d.id = "guide#1".into()),
            change(&|d| d.text = "Compaction rewrites segments".into()),
            change(&|d| d.text = "".into()),
            change(&|d| d.metadata = None),
            change(&|d| d.metadata = Some(Metadata::trusted("{}".into()))),
            change(&|d| d.vector = None),
            change(&|d| d.vector = Some(vec![1.0, -2.0].into())),
            change(&|d| d.vector = Some(vec![1.0, -2.0, 0.5, 0.0].into())),
            change(&|d| d.vector = Some(vec![-1.0, 2.0, 0.5].into())),
            change(&|d| d.source = None),
            change(&|d| d.source_given = false),
            change(&|d| d.time_ms += 1),
            change(&|d| d.entities = Some(Vec::new())),
            change(&|d| d.relations = Some(Vec::new())),
            change(&|d| d.entities = Some(vec![Entity::new("x")])),
            change(&|d| d.entities = Some(vec![Entity::new("y")])),
            change(&|d| d.entities = Some(vec![Entity::new("x").kind("")])),
            change(&|d| d.entities = Some(vec![Entity::new("x").mentions(2)])),
            change(&|d| d.relations = Some(vec![Relation::new("x", "y")])),
            change(&|d| d.relations = Some(vec![Relation::new("y", "x")])),
            change(&|d| d.relations = Some(vec![Relation::new("x", "y").kind("k")])),
            change(&|d| d.relations = Some(vec![Relation::new("x", "y").description("k")])),
            change(&|d| d.relations = Some(vec![Relation::new("x", "y").weight(2.0)])),
        ];
        for (i, a) in hashes.iter().enumerate() {
            assert!(!hashes[..i].contains(a), "change {i} left the hash of another");
        }
    }
}
