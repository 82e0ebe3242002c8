//! The manifest: round trips, unknown keys, damage.

use super::*;
use crate::options::limits;

pub(crate) fn sample() -> Manifest {
    let segment = |base: u64, tombstones| SegmentEntry {
        file: 3,
        offset: 4096 * base,
        length: u64::MAX - base,
        crc: 77,
        base_seq: Seq(base),
        last_seq: Seq(base + 9),
        rows: 10,
        vectors: 4,
        tokens: 1 << 60,
        content_hash: u64::MAX,
        tombstones,
        unknown: UnknownKeys::new(),
    };
    let dead = TombstoneEntry { file: 4, offset: 64, length: 100, crc: 5, dead: 2, unknown: UnknownKeys::new() };
    let mut collection =
        CollectionEntry::empty("main", Incarnation(1), Schema { dimension: Some(3), embedder: Some("e".into()), ..Schema::default() });
    collection.segments = vec![segment(10, Some(dead)), segment(20, None)];
    collection.documents = 18;
    Manifest {
        applied_lsn: Lsn(9),
        next_seq: Seq(limits::COUNTER_MAX),
        next_incarnation: Incarnation(2),
        collections: vec![collection],
        ..Manifest::default()
    }
}

#[test]
fn a_manifest_reads_as_it_was_written_with_64_bit_numbers_whole() {
    let bytes = encode_manifest(8, Uuid([1; 16]), &sample());
    let (header, manifest) = decode_manifest(&bytes).expect("it decodes");
    assert_eq!((header.number.get(), header.database, manifest), (8, [1; 16], sample()));
    let body: serde_json::Value = serde_json::from_slice(&bytes[64..]).expect("the body is JSON");
    assert_eq!(body["next_seq"], serde_json::json!("9223372036854775807"));
    assert_eq!(body["collections"][0]["segments"][0]["crc"], serde_json::json!(77));
    assert_eq!(bytes, encode_manifest(8, Uuid([1; 16]), &sample()), "the same state gives the same bytes");
}

#[test]
fn a_number_that_no_counter_reaches_is_refused() {
    for at in ["/next_seq", "/next_incarnation", "/applied_lsn", "/collections/0/incarnation", "/collections/0/segments/0/last_seq"] {
        let mut body = serde_json::to_value(sample()).expect("a manifest has a JSON form");
        *body.pointer_mut(at).expect("it is there") = serde_json::json!("9223372036854775808");
        assert!(serde_json::from_value::<Manifest>(body).is_err_and(|e| e.to_string().contains("9223372036854775807")), "{at}");
    }
}

#[test]
fn keys_of_newer_versions_survive_a_rewrite_at_every_level() {
    let mut body = serde_json::to_value(sample()).expect("a manifest has a JSON form");
    let marks = ["/", "/collections/0", "/collections/0/schema", "/collections/0/segments/0", "/collections/0/segments/0/tombstones"];
    for mark in marks {
        let object = if mark == "/" { &mut body } else { body.pointer_mut(mark).expect("it is there") };
        object["zz_new"] = serde_json::json!({"at": mark, "n": [1, null, "2"]});
    }
    let read: Manifest = serde_json::from_value(body.clone()).expect("unknown keys are no error");
    assert_eq!(read.collections[0].schema_unknown.len(), 1);
    assert_eq!(serde_json::to_value(&read).expect("it has a JSON form"), body);
    assert_eq!(read.collections[0].schema, sample().collections[0].schema);
}

#[test]
fn no_flipped_byte_and_no_cut_passes() {
    let mut bytes = encode_manifest(8, Uuid([1; 16]), &sample());
    for at in 0..bytes.len() {
        bytes[at] ^= 0x20;
        assert!(decode_manifest(&bytes).is_err_and(|e| !e.newer), "byte {at}");
        bytes[at] ^= 0x20;
    }
    for len in 0..bytes.len() {
        assert!(decode_manifest(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn a_body_that_is_not_a_manifest_names_the_byte() {
    let with_body = |body: &[u8]| {
        let mut bytes = encode_manifest(8, Uuid([1; 16]), &Manifest::default());
        bytes.truncate(64);
        bytes.extend_from_slice(body);
        let mut header = ManifestHeader::read_from_bytes(&bytes[..64]).expect("64 bytes");
        header.body_length = U64::new(body.len() as u64);
        header.body_crc = U32::new(crc32(body));
        header.crc = U32::new(0);
        header.crc = U32::new(crc32(header.as_bytes()));
        bytes[..64].copy_from_slice(header.as_bytes());
        decode_manifest(&bytes).expect_err("it is no manifest")
    };
    assert_eq!(with_body(b"{\n  \"applied_lsn\": 5}").offset, 64 + 2 + 17);
    assert!(with_body(b"").what.contains("EOF"));
    let deep = [b"{\"x\":".as_slice(), &[b'['; 100_000]].concat();
    assert!(with_body(&deep).what.contains("recursion"));
}
