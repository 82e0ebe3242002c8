"""The layouts and constants of this reader are those of format-spec.md."""

import re
import unittest

import effects
import fst
import graph
import head
import log
import manifest
import metadata
import rows
import segment
import spec
import text
import tombstones
import vector_graph
import wire

LAYOUTS = [head.SLOT, head.WITNESS, manifest.HEADER, log.HEADER, log.RECORD, segment.HEADER, segment.ENTRY, segment.FOOTER, rows.INDEX_ENTRY,
           text.LONG_TERM, text.TERM_INFO, text.BLOCK, text.STATISTICS, metadata.ENTRY, metadata.LIST, tombstones.HEADER, tombstones.ENVELOPE,
           vector_graph.HEADER]
SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
# The reader takes these apart without a layout.
OTHERWISE = {"TombstonesBody"}


class Layouts(unittest.TestCase):
    def test_every_structure_has_the_fields_of_its_table(self):
        structures = spec.structures()
        self.assertEqual({x.name for x in LAYOUTS} | OTHERWISE, set(structures))
        for layout in LAYOUTS:
            size, fields = structures[layout.name]
            with self.subTest(layout.name):
                self.assertEqual(size, layout.size)
                self.assertEqual([(o, n, f) for o, n, f, _ in fields],
                                 [(layout.offsets[f], n, f) for f, _, n in layout.fields])
                for (_, n, _, kind), (_, code, _) in zip(fields, layout.fields):
                    array = re.fullmatch(r"\[(u\d+); (\d+)\]", kind)
                    size = SIZES[array.group(1)] * int(array.group(2)) if array else SIZES[kind]
                    self.assertEqual(code, f"{size}s" if array else wire.Layout.CODES[kind])
                    self.assertEqual(n, size)

    def test_the_constants_are_those_of_its_tables(self):
        c = spec.constants()
        ours = {
            "HEAD_MAGIC": head.HEAD_MAGIC, "FORMAT_MAJOR": head.FORMAT_MAJOR, "FORMAT_MINOR": head.FORMAT_MINOR,
            "UNFINISHED_MAGIC": head.UNFINISHED_MAGIC,
            "WITNESS_MAGIC": head.WITNESS_MAGIC, "MANIFEST_MAGIC": manifest.MANIFEST_MAGIC, "MANIFEST_MAJOR": manifest.MANIFEST_MAJOR,
            "WAL_MAGIC": log.WAL_MAGIC, "WAL_MAJOR": log.WAL_MAJOR, "RECORD_MAGIC": log.RECORD_MAGIC, "SEGMENT_MAGIC": segment.SEGMENT_MAGIC,
            "FOOTER_MAGIC": segment.FOOTER_MAGIC, "SEGMENT_MAJOR": segment.SEGMENT_MAJOR, "SECTION_CRITICAL": segment.CRITICAL,
            "SECTION_DERIVED": segment.DERIVED, "TOMBSTONES_MAGIC": tombstones.MAGIC, "TOMBSTONES_MAJOR": tombstones.MAJOR,
            "ENVELOPE_MAGIC": tombstones.ENVELOPE_MAGIC.to_bytes(4, "little"), "ENVELOPE_ALIGN": tombstones.ALIGN,
            "COUNTER_MAX": wire.COUNTER_MAX, "NAME_BYTES_MAX": wire.NAME_BYTES_MAX, "METADATA_BYTES_MAX": wire.METADATA_BYTES_MAX, "TEXT_BYTES_MAX": wire.TEXT_BYTES_MAX,
            "GRAPH_BYTES_MAX": wire.GRAPH_BYTES_MAX, "DIMENSION_MAX": wire.DIMENSION_MAX, "SEGMENT_ROWS_MAX": wire.SEGMENT_ROWS_MAX,
            "RECORD_BYTES_MAX": wire.RECORD_BYTES_MAX, "BLOCK_BYTES": wire.BLOCK_BYTES, "SECTIONS_MAX": wire.SECTIONS_MAX,
            "SECTION_PAGE_THRESHOLD": wire.SECTION_PAGE_THRESHOLD, "BLOCK_RAW_MAX": rows.BLOCK_RAW_MAX,
            "LISTS_PER_BLOCK": graph.LISTS_PER_BLOCK, "METADATA_PATH_BYTES_MAX": metadata.PATH_MAX,
            "METADATA_STRING_BYTES_MAX": metadata.STRING_MAX, "METADATA_PLAIN_ROWS_MAX": metadata.PLAIN_MAX, "METADATA_SOLE_ROW": metadata.SOLE,
            "FST_VERSION": fst.VERSION, "FST_KEY_BYTES_MAX": fst.KEY_BYTES_MAX,
        }
        # What binds writers only, and has no place in a reader.
        writers = {"METADATA_DEPTH_MAX", "K_MAX", "UNSYNCED_BYTES_MAX", "BLOCK_RAW_TARGET", "BUILD_THREADS_MAX"}
        self.assertEqual({k: v for k, v in c.items() if k not in writers}, ours)

    def test_the_sections_are_those_of_its_table(self):
        table = [r for r in spec.rows_after("### 9.4", 5) if r[4] != "reserved"]
        self.assertEqual({int(r[0]): r[1] for r in table}, segment.KINDS)
        self.assertEqual({r[1]: r[2] for r in table}, {n: "primary" if k < 32 else "derived" for k, n in segment.KINDS.items()})

    def test_the_flags_of_a_document_have_six_bits(self):
        self.assertEqual(63, effects.SOURCE | effects.METADATA | effects.VECTOR | effects.SOURCE_GIVEN | effects.ENTITIES | effects.RELATIONS)


class TestVectors(unittest.TestCase):
    def test_checksums_are_those_of_section_3(self):
        table = {r[0]: int(r[1], 16) for r in spec.rows_after("## 3. Checksum", 2)}
        data = {"none": b"", "123456789` (ASCII)": b"123456789", "The quick brown fox jumps over the lazy dog` (ASCII)": b"The quick brown fox jumps over the lazy dog",
                "one byte `00": b"\0", "32 bytes `00": bytes(32), "32 bytes `FF": b"\xff" * 32, "4,096 bytes `00": bytes(4096),
                "the 256 bytes 00 to FF": bytes(range(256))}
        self.assertEqual(table, {k: wire.crc32(v) for k, v in data.items()})

    def test_seeded_checksums_are_those_of_section_3(self):
        values = [int(r[1], 16) for r in spec.rows_after("*With a field zero*", 2) or spec.rows_after("bytes of that identity", 2)]
        seed = bytes(range(16))
        self.assertEqual(values, [wire.crc32(b"123456789", seed), wire.crc32(b"", seed), wire.crc_with_zero(b"123456789", 2)])

    def test_varints_are_those_of_section_2(self):
        numbers = {"2^64 - 1": wire.MASK64}
        table = spec.rows_after("### 2.2", 2)
        self.assertEqual(len(table), 5)
        for number, data in table:
            data = bytes.fromhex(data)
            c = wire.Cursor(wire.File("f", data), 0, len(data), "")
            self.assertEqual(c.varint("v"), numbers.get(number) if number in numbers else int(number))
            self.assertEqual(c.pos, c.end)

    def test_hashes_of_ids_are_those_of_section_10(self):
        for text_, value in spec.rows_after("**Hash of an id.**", 2):
            self.assertEqual(rows.hash_of_id("" if text_.startswith("none") else text_), int(value, 16))

    def test_content_hashes_are_those_of_section_10(self):
        import struct
        values = [int(r[1], 16) for r in spec.rows_after("The content hash is finalise", 2)]
        plain = wire.Record(id="a", text="", time_ms=0, source=None, metadata=None, vector=None, source_given=False, entities=None, relations=None)
        other = wire.Record(plain, id="guide#0", text="Compaction rewrites segments.", metadata='{"page":1}', vector=struct.pack("<3f", 1, -2, 0.5),
                            source="guide.md", source_given=True, time_ms=1700000000000)
        self.assertEqual(values, [effects.content_hash(plain), effects.content_hash(other)])

    def test_numbers_are_those_of_section_12a(self):
        numbers = {"-1": [-1, -1.0], "0, -0.0": [0, -0.0], "2, 2.0": [2, 2.0], "2^60 + 1": [2**60 + 1], "2^64 - 1": [2**64 - 1]}
        table = spec.rows_after("### 12a.3", 2)
        self.assertEqual({r[0] for r in table}, set(numbers))
        for key, data in table:
            for n in numbers[key]:
                self.assertEqual(metadata.number(n), bytes.fromhex(data), n)

    def test_the_canonical_kernel_is_that_of_section_12(self):
        import struct
        import vectors

        def f32(x):
            return struct.unpack("<f", struct.pack("<f", x))[0]

        def bits(x):
            return struct.unpack("<Q", struct.pack("<d", x))[0]

        a = [f32(f32(f32(7 * i % 11) / f32(10)) - f32(0.3)) for i in range(37)]
        b = [f32(f32(f32(5 * i % 13) / f32(7)) - f32(0.9)) for i in range(37)]
        said = re.search(r"`dot\(a, b\)` has the bits (0x\w+), `squared_distance\(a, b\)` (0x\w+), `inverse_norm\(a\)` (0x\w+)", spec.text())
        self.assertEqual([int(x, 16) for x in said.groups()], [bits(vectors.dot(a, b)), bits(vectors.squared_distance(a, b)), bits(vectors.inverse_norm(a))])

    def test_the_checksum_of_an_fst_is_that_of_section_21(self):
        import fst
        said = re.search(r"`123456789` has the CRC-32C 0xE3069283 and, masked, (0x\w+)", spec.text())
        self.assertEqual(int(said.group(1), 16), fst.masked_crc32c(b"123456789"))

    def test_the_common_inputs_are_those_of_section_21(self):
        import fst
        line = re.search(r"COMMON\[1\] to COMMON\[63\].*?```\n(.*?)\n```", spec.text(), re.S).group(1)
        self.assertEqual(line.encode(), fst.COMMON)
        self.assertEqual(len(set(fst.COMMON)), 63)


if __name__ == "__main__":
    unittest.main()
