"""Vector graphs and codes with checksums that fit, and something in them that the specification forbids or allows.

`cases()` gives (name, change, sound): `change(path)` edits a copy of the fixture `vector-graph`; those of `wide_cases()` one of `wide-codes`.
"""

import os
import struct

from forgeries import body, load, store
from recovery import Database
from segment import ENTRY, FOOTER, Segment
from vector_graph import HEADER, NO_LINK
from wire import BLOCK_BYTES, align, crc32

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "v1.0")
FIXTURE, WIDE_FIXTURE = os.path.join(FIXTURES, "vector-graph"), os.path.join(FIXTURES, "wide-codes")


def forged(collection, section, edit):
    """Changes bytes of a section of the first segment of a collection, and every checksum above them."""
    def change(db):
        database = Database(db)
        index = next(i for i, c in enumerate(database.manifest.collections) if c.name == collection)
        named = database.manifest.collections[index].segments[0]
        file = database.file(f"s-{named.file:016x}.segments")
        segment = Segment(file, named, database.slot.database)
        s = segment.sections[section]
        data = bytearray(file.data)
        part = bytearray(data[s.start:s.end])
        edit(part)
        data[s.start:s.end] = part
        crcs = b"".join(struct.pack("<I", crc32(bytes(part[at:at + BLOCK_BYTES]))) for at in range(0, len(part), BLOCK_BYTES))
        data[s.crcs_start:s.crcs_start + len(crcs)] = crcs
        size = ENTRY.size * segment.footer.sections
        place = list(segment.sections).index(section) * ENTRY.size + ENTRY.offsets["crcs_crc"]
        for offset in (segment.footer.table_offset, segment.footer.table_copy_offset):
            at = segment.at(offset)
            data[at + place:at + place + 4] = struct.pack("<I", crc32(crcs))
            table = bytes(data[at:at + size])
        at = segment.start + segment.length - FOOTER.size
        footer = dict(segment.footer, table_crc=crc32(table))
        raw = FOOTER.struct.pack(*(footer[f[0]] for f in FOOTER.fields))[:60]
        crc = crc32(raw)
        data[at:at + FOOTER.size] = raw + struct.pack("<I", crc)
        store(f"{db}/{file.name}", bytes(data))
        body(lambda o: o["collections"][index]["segments"][0].update(crc=crc))(db)
    return change


def number(at, value, code="I"):
    return lambda part: struct.pack_into("<" + code, part, at, value)


def field(name, value, code="I"):
    return number(HEADER.offsets[name], value, code)


def graph(edit):
    return forged("cosine", "VectorGraph", edit)


def codes(edit):
    return forged("dot", "VectorCodes", edit)


def base(part):
    """Where the rows of level 0 start, and the links of one."""
    m, = struct.unpack_from("<H", part, HEADER.offsets["m"])
    count, = struct.unpack_from("<I", part, HEADER.offsets["level_counts"])
    return align(HEADER.size + 4 * count, 64), 2 * m, count


def unreached(part):
    """No row leads to the last node any more."""
    start, width, count = base(part)
    for at in range(start, start + 4 * width * count, 4 * width):
        kept = [link for link in struct.unpack_from(f"<{width}I", part, at) if link not in (count - 1, NO_LINK)]
        struct.pack_into(f"<{width}I", part, at, *kept, *[NO_LINK] * (width - len(kept)))


def link(place, value):
    def edit(part):
        start, width, _ = base(part)
        struct.pack_into("<I", part, start + 4 * width + 4 * place, value)
    return edit


def twice(part):
    start, width, _ = base(part)
    part[start + 4 * width + 4:start + 4 * width + 8] = part[start + 4 * width:start + 4 * width + 4]


def positions_twice(part):
    part[HEADER.size:HEADER.size + 4] = part[HEADER.size + 4:HEADER.size + 8]


def padding(part):
    part[base(part)[0] - 1] = 1


def exchanged(part):
    a = HEADER.size
    part[a:a + 4], part[a + 20:a + 24] = part[a + 20:a + 24], part[a:a + 4]


def code(part):
    part[0] += 2 if part[0] < 64 else -2


def scaled(part):
    scale, = struct.unpack_from("<f", part, 56)
    struct.pack_into("<f", part, 56, scale * 1.01)


def rows_exchanged(part):
    part[:64], part[64:128] = part[64:128], part[:64]


def cases():
    yield "as it is", graph(lambda part: None), True
    yield "sample 0", graph(field("sample", 0)), True
    yield "ef_construction", graph(field("ef_construction", 77)), True
    yield "recall a little less", graph(number(HEADER.offsets["recall"], 9000, "H")), True
    yield "layout 2", graph(field("layout", 2, "H")), False
    yield "m 1", graph(field("m", 1, "H")), False
    yield "m 65", graph(field("m", 65, "H")), False
    yield "no levels", graph(field("levels", 0)), False
    yield "a level more", graph(field("levels", 16)), False
    yield "billions of nodes", graph(field("level_counts", 0xFFFFFFFF)), False
    yield "recall above 1", graph(number(HEADER.offsets["recall"] + 18, 10001, "H")), False
    yield "reserved", graph(field("reserved", 1)), False
    yield "a position twice", graph(positions_twice), False
    yield "a position beyond", graph(number(HEADER.size, 0x7FFFFFFF)), False
    yield "after the positions", graph(padding), False
    yield "a link beyond", graph(link(0, 0x7FFFFFFF)), False
    yield "a link to itself", graph(link(0, 1)), False
    yield "a link twice", graph(twice), False
    yield "a link after the end", graph(link(0, NO_LINK)), False
    yield "a node that is not reached", graph(unreached), False
    yield "positions exchanged", graph(exchanged), False
    yield "code 0", codes(number(0, 0, "B")), False
    yield "code 128", codes(number(1, 128, "B")), False
    yield "padding of a row", codes(number(5, 1, "B")), False
    yield "another code", codes(code), False
    yield "another scale", codes(scaled), False
    yield "scale 0", codes(number(56, 0)), False
    yield "another bias", codes(number(60, 5.0, "f")), False
    yield "rows exchanged", codes(rows_exchanged), False
    yield "another unit", codes(lambda part: struct.pack_into("<d", part, len(part) - 28, 1.25)), False
    yield "another centre", codes(lambda part: struct.pack_into("<f", part, len(part) - 4, 0.5)), False


def wide_cases():
    """48 rows of 64 codes, and scales and biases after them."""
    def none(edit):
        return forged("none", "VectorCodes", edit)
    meta = 47 * 64
    yield "wide: as it is", none(lambda part: None), True
    yield "wide: code 0", none(number(63, 0, "B")), False
    yield "wide: scale 0", none(number(meta, 0)), False
    yield "wide: no bias", none(number(meta + 4, float("nan"), "f")), False
    yield "wide: another scale", none(number(meta + 8, 3.0, "f")), False
    yield "wide: another bias", none(number(meta + 12, 3.0, "f")), False
    yield "wide: padding before a scale", forged("room", "VectorCodes", number(100, 1, "B")), False
