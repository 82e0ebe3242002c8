"""The decoders of foreign formats: fst, Roaring, LZ4; and of packed integers."""

import random
import struct
import unittest

import fst
import lz4
import roaring
import text
from wire import Cursor, Damage, File


def build(pairs):
    """An fst of a trie that is not minimal: enough to have nodes of every kind. Outputs stand at the end of keys."""
    out = bytearray(struct.pack("<QQ", 3, 0))

    def pack(n):
        return max(1, (n.bit_length() + 7) // 8)

    def node(items):
        final = items.pop(b"", None)
        groups = {}
        for key, value in items.items():
            groups.setdefault(key[0], {})[key[1:]] = value
        children = [(byte, node(group)) for byte, group in sorted(groups.items())]
        if final == 0 and not children:
            return 0
        start = len(out)
        if final is None and len(children) == 1:
            byte, target = children[0]
            number = fst.COMMON.find(bytes([byte])) + 1
            if target == start - 1 and target:
                out.extend(b"" if number else bytes([byte]))
                out.append(0xC0 | number)
            else:
                delta = start - target if target else 0
                out.extend(delta.to_bytes(pack(delta), "little"))
                out.append(pack(delta) << 4)
                out.extend(b"" if number else bytes([byte]))
                out.append(0x80 | number)
            return len(out) - 1
        narrow = pack(final) if final else 0
        deltas = [start - target if target else 0 for _, target in children]
        wide = max(map(pack, deltas), default=0)
        if narrow and final is not None:
            out.extend(final.to_bytes(narrow, "little"))
        out.extend(bytes(narrow * len(children)))
        for delta in reversed(deltas):
            out.extend(delta.to_bytes(wide, "little"))
        out.extend(bytes(byte for byte, _ in reversed(children)))
        if len(children) > 32:
            index = bytearray(b"\xff" * 256)
            for i, (byte, _) in enumerate(children):
                index[byte] = i
            out.extend(index)
        out.append(wide << 4 | narrow)
        few = len(children) if 0 < len(children) < 64 else 0
        if not few:
            out.append(1 if len(children) == 256 else len(children))
        out.append((0x40 if final is not None else 0) | few)
        return len(out) - 1

    root = node(dict(pairs))
    out.extend(struct.pack("<QQ", len(pairs), root))
    return bytes(out) + struct.pack("<I", fst.masked_crc32c(bytes(out)))


class Fst(unittest.TestCase):
    def read(self, data):
        file = File("f", data)
        made = fst.Fst(file, 0, len(data), "t")
        pairs = made.pairs()
        covered = sum(b - a for a, b, _ in file.claims)
        return made, pairs, covered

    def test_the_example_of_the_specification_maps_hi_to_0(self):
        data = bytes.fromhex("0300000000000000 0000000000000000 001088 CE 0100000000000000 1300000000000000 8A0E8424".replace(" ", ""))
        made, pairs, covered = self.read(data)
        self.assertEqual(pairs, [(b"hi", 0)])
        self.assertEqual(covered, len(data))
        self.assertEqual([made.get(k) for k in (b"hi", b"h", b"", b"hi!")], [0, None, None, None])

    def test_the_empty_fst_of_the_specification_has_no_key(self):
        data = bytes.fromhex("0300000000000000 0000000000000000 000000 0000000000000000 1200000000000000 546B2D0F".replace(" ", ""))
        _, pairs, covered = self.read(data)
        self.assertEqual((pairs, covered), ([], len(data)))

    def test_nodes_of_every_kind_are_read(self):
        rng = random.Random(7)
        for width in (0, 1, 2, 31, 32, 33, 63, 64, 200, 255, 256):
            keys = {bytes([b]) + rng.randbytes(rng.randrange(3)) for b in rng.sample(range(256), width)}
            keys |= {b"prefix", b"prefixed"} if width < 200 else set()
            pairs = sorted((k, rng.choice([0, 1, 255, 256, 1 << 40])) for k in keys)
            made, found, covered = self.read(build(pairs))
            self.assertEqual(found, pairs)
            self.assertEqual(covered, made.length)
            for k, v in pairs:
                self.assertEqual(made.get(k), v)

    def test_a_changed_byte_is_damage(self):
        data = bytearray(build([(b"abc", 0), (b"abd", 5)]))
        for at in range(len(data)):
            data[at] ^= 4
            with self.assertRaises(Damage):
                self.read(bytes(data))
            data[at] ^= 4


def serialise(values, runs=False):
    """A 32-bit bitmap, written by section 22."""
    groups = {}
    for v in values:
        groups.setdefault(v >> 16, []).append(v & 0xFFFF)
    n, bodies, keys = len(groups), [], b""
    for key, low in sorted(groups.items()):
        keys += struct.pack("<HH", key, len(low) - 1)
        if runs:
            spans = []
            for v in low:
                if spans and v == spans[-1][1] + 1:
                    spans[-1][1] = v
                else:
                    spans.append([v, v])
            bodies.append(struct.pack("<H", len(spans)) + b"".join(struct.pack("<HH", a, b - a) for a, b in spans))
        elif len(low) <= 4096:
            bodies.append(struct.pack(f"<{len(low)}H", *low))
        else:
            bits = 0
            for v in low:
                bits |= 1 << v
            bodies.append(bits.to_bytes(8192, "little"))
    if runs:
        head = struct.pack("<I", 12347 | (n - 1) << 16) + (2**n - 1).to_bytes((n + 7) // 8, "little")
    else:
        head = struct.pack("<II", 12346, n)
    head += keys
    if not runs or n >= 4:
        at = len(head) + 4 * n
        for b in bodies:
            head += struct.pack("<I", at)
            at += len(b)
    return head + b"".join(bodies)


class Roaring(unittest.TestCase):
    def read(self, data):
        c = Cursor(File("f", data), 0, len(data), "t")
        found = roaring.read32(c)
        c.finish("the bitmap")
        return found

    def test_arrays_bits_and_runs_are_read(self):
        rng = random.Random(3)
        for values in ([], [0], [65535, 65536], list(range(100, 9000)), sorted(rng.sample(range(1 << 20), 30000)), [i << 16 | 7 for i in range(5)]):
            self.assertEqual(self.read(serialise(values)), values)
            if values:
                self.assertEqual(self.read(serialise(values, runs=True)), values)

    def test_what_does_not_ascend_is_damage(self):
        good = serialise([5, 6])
        for bad in (good[:-4] + good[-2:] + good[-4:-2], good[:-1], b"\0" + good[1:], serialise([1, 1 << 16])[:8] + b"\1\0" + serialise([1, 1 << 16])[10:]):
            with self.assertRaises(Damage):
                self.read(bad)

    def test_64_bits_are_read(self):
        data = struct.pack("<Q", 2) + struct.pack("<I", 0) + serialise([1]) + struct.pack("<I", 9) + serialise([0, 5])
        self.assertEqual(roaring.read64(Cursor(File("f", data), 0, len(data), "t")), [1, 9 << 32, 9 << 32 | 5])


class Lz4(unittest.TestCase):
    def test_literals_and_matches_are_read(self):
        self.assertEqual(lz4.decompress(b"\x30abc", 3), b"abc")
        # Three literals, a match of 3 back of length 4 + 15 + 2, then one literal.
        self.assertEqual(lz4.decompress(b"\x3fabc\x03\x00\x02\x10z", 25), (b"abc" * 8) + b"z")
        self.assertEqual(lz4.decompress(b"\xf0\xff\x00" + b"q" * 270, 270), b"q" * 270)

    def test_a_block_that_breaks_a_rule_is_refused(self):
        for data, length in ((b"", 1), (b"\x30ab", 3), (b"\x30abc", 4), (b"\x30abc", 2), (b"\x3fabc\x04\x00\x02\x10z", 25), (b"\x3fabc\x00\x00\x02\x10z", 25),
                             (b"\x3fabc\x03\x00\x02", 24), (b"\xf0\xff", 300), (b"\x3fabc\x03", 7)):
            self.assertIsNone(lz4.decompress(data, length), data)


class Packed(unittest.TestCase):
    def test_integers_of_every_width_are_unpacked(self):
        rng = random.Random(5)
        for bits in range(33):
            values = [rng.randrange(1 << bits) for _ in range(128)]
            words = [0] * (4 * bits)
            for i, v in enumerate(values):
                lane, at = i % 4, (i // 4) * bits
                for b in range(bits):
                    words[(at + b) // 32 * 4 + lane] |= (v >> b & 1) << (at + b) % 32
            self.assertEqual(text.unpack(struct.pack(f"<{len(words)}I", *words), bits), values)


if __name__ == "__main__":
    unittest.main()
