//! The codec of commit effects: round trips, limits, hostile bytes.

use super::*;
use crate::format::document::tests::documents;
use proptest::prelude::*;

fn names() -> impl Strategy<Value = String> {
    "\\PC{1,12}"
}

fn counters() -> impl Strategy<Value = u64> {
    0..=limits::COUNTER_MAX
}

fn changes() -> impl Strategy<Value = CatalogChange> {
    let id = || (1..=limits::COUNTER_MAX).prop_map(Incarnation);
    prop_oneof![
        (names(), id(), prop::option::of(1u32..=65_535)).prop_map(|(name, incarnation, dimension)| CatalogChange::Create {
            name,
            incarnation,
            schema: Schema { dimension, ..Schema::default() }
        }),
        (names(), id()).prop_map(|(name, incarnation)| CatalogChange::Drop { name, incarnation }),
        (names(), id(), id()).prop_map(|(name, old, new)| CatalogChange::Clear { name, old, new }),
        (names(), names(), id()).prop_map(|(from, to, incarnation)| CatalogChange::Rename { from, to, incarnation }),
        (names(), names()).prop_map(|(a, b)| CatalogChange::Swap { a, b }),
        (id(), 1u32..=65_535).prop_map(|(incarnation, dimension)| CatalogChange::FixDimension { incarnation, dimension }),
    ]
}

fn segments() -> impl Strategy<Value = SegmentEntry> {
    (any::<[u32; 6]>(), any::<[u64; 3]>(), any::<u64>()).prop_map(|(n, wide, base)| SegmentEntry {
        file: wide[0] >> 1,
        offset: u64::from(n[0]) * 4096,
        length: u64::from(n[1]),
        crc: n[2],
        base_seq: Seq(base >> 2),
        last_seq: Seq((base >> 2) + u64::from(n[3])),
        rows: u64::from(n[4]),
        vectors: u64::from(n[5]),
        tokens: wide[1],
        content_hash: wide[2],
        tombstones: None,
        unknown: UnknownKeys::new(),
    })
}

fn dead() -> impl Strategy<Value = DeadSet> {
    prop_oneof![
        Just(DeadSet::None),
        prop::collection::btree_set(any::<u64>(), 0..20).prop_map(|s| DeadSet::Inline(s.into_iter().collect())),
        (counters(), any::<u64>(), any::<u32>()).prop_map(|(number, length, crc)| DeadSet::File { number, length, crc }),
    ]
}

fn effects() -> impl Strategy<Value = CommitEffects> {
    let rows = (any::<u32>(), prop::collection::vec((1u64..1000, documents()), 0..4)).prop_map(|(first, rows)| {
        let mut seq = u64::from(first);
        let row = |(step, document)| {
            seq += step;
            RowEffect { seq: Seq(seq), document: Arc::new(document) }
        };
        rows.into_iter().map(row).collect()
    });
    let collection = (1..=limits::COUNTER_MAX, rows, prop::collection::vec(segments(), 0..3), dead())
        .prop_map(|(i, rows, landed, dead)| CollectionEffects { incarnation: Incarnation(i), rows, landed, dead });
    (any::<u64>(), counters(), counters(), prop::collection::vec(changes(), 0..4), prop::collection::vec(collection, 0..3)).prop_map(
        |(time_ms, next_seq, next_incarnation, catalog, collections)| CommitEffects {
            time_ms,
            next_seq: Seq(next_seq),
            next_incarnation: Incarnation(next_incarnation),
            catalog,
            collections,
        },
    )
}

fn encoded(effects: &CommitEffects) -> Vec<u8> {
    let mut out = Vec::new();
    effects.encode(&mut out);
    out
}

proptest! {
    #[test]
    fn a_commit_reads_as_it_was_written(effects in effects()) {
        let bytes = encoded(&effects);
        prop_assert!(bytes.len() <= effects.encoded_len_estimate());
        prop_assert_eq!(CommitEffects::decode(&bytes), Ok(effects));
    }

    #[test]
    fn every_cut_is_refused_and_no_flipped_byte_panics(effects in effects(), mask in 1u8..) {
        let mut bytes = encoded(&effects);
        for cut in 0..bytes.len() {
            prop_assert!(CommitEffects::decode(&bytes[..cut]).is_err(), "cut at {}", cut);
        }
        for at in 0..bytes.len() {
            bytes[at] ^= mask;
            let _ = CommitEffects::decode(&bytes);
            bytes[at] ^= mask;
        }
        bytes.push(0);
        prop_assert!(CommitEffects::decode(&bytes).is_err());
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = CommitEffects::decode(&bytes);
    }
}

#[test]
fn unknown_kinds_are_newer_and_hostile_counts_are_damage() {
    // time, next seq, next incarnation, one change of kind 99.
    assert!(CommitEffects::decode(&[0, 0, 0, 1, 99, 0, 0, 0, 0]).is_err_and(|e| e.newer && e.offset == 4));
    // No change, one collection without rows and segments, dying seqs of kind 9.
    assert!(CommitEffects::decode(&[0, 0, 0, 0, 1, 1, 0, 0, 9]).is_err_and(|e| e.newer));
    let mut huge = vec![0, 0, 0];
    write_varint(&mut huge, u64::MAX / 2);
    assert!(CommitEffects::decode(&huge).is_err_and(|e| !e.newer && e.what.contains("changes")));
    // A set of 2^20 + 1 bytes may not stand in a record.
    let mut large = vec![0, 0, 0, 0, 1, 1, 0, 0, DEAD_INLINE];
    write_varint(&mut large, DEAD_INLINE_BYTES_MAX as u64 + 1);
    large.resize(large.len() + DEAD_INLINE_BYTES_MAX + 1, 0);
    assert!(CommitEffects::decode(&large).is_err_and(|e| e.what.contains("at most")));
}

#[test]
fn a_schema_that_no_collection_can_have_is_refused() {
    let with = |dimension| {
        let schema = Schema { dimension, ..Schema::default() };
        let create = CatalogChange::Create { name: "a".into(), incarnation: Incarnation(1), schema };
        CommitEffects::decode(&encoded(&CommitEffects { catalog: vec![create], ..CommitEffects::default() }))
    };
    assert!(with(Some(4)).is_ok());
    assert!(with(Some(0)).is_err());
    assert!(with(Some(65_536)).is_err());
}

#[test]
fn a_number_that_no_counter_reaches_is_refused() {
    let with = |next_seq, next_incarnation, first: u64, step: u64| {
        let document = Arc::new(StoredDocument {
            id: "a".into(),
            text: "".into(),
            metadata: None,
            vector: None,
            source: None,
            source_given: false,
            time_ms: 0,
            entities: None,
            relations: None,
        });
        let rows = [first, first + step].map(|seq| RowEffect { seq: Seq(seq), document: document.clone() }).to_vec();
        let collection = CollectionEffects { incarnation: Incarnation(1), rows, landed: Vec::new(), dead: DeadSet::None };
        let (next_seq, next_incarnation) = (Seq(next_seq), Incarnation(next_incarnation));
        CommitEffects::decode(&encoded(&CommitEffects { next_seq, next_incarnation, collections: vec![collection], ..CommitEffects::default() }))
    };
    let most = limits::COUNTER_MAX;
    assert!(with(most, most, most - 1, 1).is_ok());
    for (next_seq, next_incarnation, first, step) in [(most + 1, 1, 1, 1), (1, most + 1, 1, 1), (1, 1, most + 1, 1), (1, 1, most, 1), (1, 1, 1, most)] {
        let refused = with(next_seq, next_incarnation, first, step);
        assert!(refused.is_err_and(|e| !e.newer), "{next_seq} {next_incarnation} {first} {step}");
    }
}
