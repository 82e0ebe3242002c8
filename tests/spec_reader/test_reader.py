"""The parts that are this format's own: varints, slots, keys of metadata, extraction, the text of a dump."""

import unittest

import dump
import graph
import head
import metadata
import text
from wire import Cursor, Damage, File, Newer, Record


class Varints(unittest.TestCase):
    def test_too_long_too_large_and_cut_are_damage(self):
        for data in (b"", b"\x80", b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\0"):
            with self.assertRaises(Damage):
                Cursor(File("f", data), 0, len(data), "").varint("v")

    def test_longer_encodings_are_taken(self):
        self.assertEqual(Cursor(File("f", b"\x81\x80\x00"), 0, 3, "").varint("v"), 1)

    def test_a_count_beyond_the_bytes_there_are_is_damage(self):
        with self.assertRaises(Damage):
            Cursor(File("f", b"\xff\xff\x03ab"), 0, 5, "").count("n")


class Claims(unittest.TestCase):
    def test_neighbours_of_one_name_are_one_claim(self):
        file = File("f", bytes(9))
        for a, b, what in ((0, 3, "x"), (3, 5, "x"), (5, 9, "y")):
            file.claim(a, b, what)
        self.assertEqual(file.claims, [(0, 5, "x"), (5, 9, "y")])


class Slots(unittest.TestCase):
    def slot(self, **fields):
        v = {f: bytes(n) if code.endswith("s") else 0 for f, code, n in head.SLOT.fields}
        v.update(magic=head.HEAD_MAGIC, major=1, generation=1, **fields)
        raw = bytearray(head.SLOT.struct.pack(*v.values()))
        from wire import crc32
        raw[20:24] = crc32(bytes(raw)).to_bytes(4, "little")
        return bytes(raw)

    def choose(self, *slots):
        return head.choose(File("HEAD", b"".join(slots)))

    def test_the_greatest_generation_is_chosen_and_a_bad_slot_is_passed_over(self):
        a, b = self.slot(), self.slot(durable_lsn=5)
        b = bytearray(b)
        self.assertEqual(self.choose(a, bytes(4096))[1], 0)
        b[4000] ^= 1
        self.assertEqual(self.choose(a, bytes(b))[1], 0)
        self.assertIsNone(self.choose(bytes(8192)))
        self.assertEqual(self.choose(a)[1], 0)

    def test_a_newer_slot_is_never_a_reason_to_use_the_other(self):
        older = self.slot()
        newer = head.SLOT.struct.unpack(self.slot(incompatible=1))
        self.assertEqual(newer[1], 1)
        with self.assertRaises(Newer):
            self.choose(self.slot(incompatible=1))
        with self.assertRaises(Damage):
            self.choose(older, self.slot(durable_lsn=9))


class Keys(unittest.TestCase):
    def paths(self, o):
        return metadata.paths(o)

    def test_paths_go_into_objects_but_not_into_arrays(self):
        self.assertEqual(set(self.paths({"a": {"b": {"c": 1}, "x.y": 2}, "l": [{"m": 1}]})), {"a", "a.b", "a.b.c", "l"})

    def test_a_key_of_its_own_hides_one_path_and_no_longer_one(self):
        found = self.paths({"a": {"b": {"c": 1}}, "a.b": 5, "d.e": {"f": 1}, "": {"": 2}})
        self.assertEqual(found["a.b"], 5)
        self.assertEqual(found["a.b.c"], 1)
        self.assertEqual(found["."], 2)
        self.assertNotIn("d.e.f", found)

    def test_keys_have_the_bytes_of_the_specification(self):
        self.assertEqual(metadata.keys('{"a":[true,"x",null]}'), {b"a\xff\x01", b"a\xff\x13\x01", b"a\xff\x15x", b"a\xff\x12"})
        self.assertEqual(metadata.keys('{"a":1,"a":false}'), {b"a\xff\x01", b"a\xff\x03\x00"})
        self.assertEqual(len(max(metadata.keys('{"%s":"%s"}' % ("k" * 257, "v" * 129)), key=len)), 256 + 1 + 8 + 1 + 1 + 128 + 1 + 8)


class Text(unittest.TestCase):
    def test_the_analyzer_has_the_tokens_of_the_specification(self):
        self.assertEqual(text.tokens("İstanbul ΑΣ. e\u0301a\u200db snake_case ²"), ["i", "stanbul", "ας", "e", "a", "b", "snake_case", "²"])

    def test_the_extractor_finds_in_the_order_of_the_text(self):
        found = graph.extract("NASA met Acme Corp. The dataBase of Acme  Corp and NASA This")
        self.assertEqual(found, [("NASA", 2), ("Acme Corp", 1), ("dataBase", 1), ("Acme  Corp", 1)])

    def test_given_entities_are_added_up_and_nothing_is_extracted(self):
        e = [Record(name="X", kind=None, mentions=2), Record(name="x", kind="", mentions=1), Record(name="X", kind=None, mentions=3)]
        self.assertEqual(graph.mentioned(Record(entities=e, text="NASA"), "compat"), [("X", 5), ("x", 1)])
        self.assertEqual(graph.mentioned(Record(entities=[], text="NASA"), "compat"), [])
        self.assertEqual(graph.mentioned(Record(entities=None, text="NASA"), "none"), [])


class Dump(unittest.TestCase):
    def test_weights_have_the_form_of_section_20(self):
        for value, said in ((1.0, "1.0"), (0.000025, "0.000025"), (1e16, "1e16"), (2.5e-7, "2.5e-7"), (0.1, "0.1"), (1e15, "1000000000000000.0"), (1e-5, "0.00001"),
                            (1e-6, "1e-6"), (123456.789, "123456.789"), (5e-324, "5e-324"), (1.7976931348623157e308, "1.7976931348623157e308"), (100.0, "100.0"),
                            (9007199254740993.0, "9007199254740992.0"), (12345678901234567.0, "1.2345678901234568e16")):
            self.assertEqual(dump.weight(value), said)
            self.assertEqual(float(said), value)

    def test_strings_escape_what_they_must_and_nothing_else(self):
        self.assertEqual(dump.string('a"\\\b\f\n\r\t\0\x1f\x7fé\u2028/😀'), '"a\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\x7fé\u2028/😀"')


if __name__ == "__main__":
    unittest.main()
