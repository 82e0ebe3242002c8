"""Files of tombstones (format-spec.md, section 13)."""

import roaring
from wire import Cursor, Layout, Newer, crc32, crc_with_zero

MAGIC = b"\x89TRItmb\n"
MAJOR, MINOR = 1, 0
ENVELOPE_MAGIC = int.from_bytes(b"TENV", "little")
ALIGN = 64

HEADER = Layout("TombstonesHeader", "magic:8 major:u16 minor:u16 crc:u32 database:16 number:u64 reserved:24")
ENVELOPE = Layout("TombstonesEnvelope", "magic:u32 kind:u32 body_length:u64 items:u64 body_crc:u32 crc:u32")
ROWS, SEQS = 1, 2


def read_header(file, database, number, claim=True):
    need = file.need
    need(len(file) >= HEADER.size, 0, "shorter than its header")
    need(file.data[:8] == MAGIC, 0, "magic")
    h = file.read(0, HEADER, "header", claim)
    need(crc_with_zero(file.raw(0, HEADER), HEADER.offsets["crc"]) == h.crc, 0, "checksum of the header")
    need(h.major >= 1, 8, "version 0 was never released")
    if h.major > MAJOR:
        raise Newer(file.name, 8, f"version {h.major}")
    need(h.database == database, 16, "of another database")
    need(h.number == number, 32, "of another number")
    if h.minor <= MINOR:
        file.reserved_is_zero(h, 0, HEADER)


def open_envelope(file, named, kind, prefix):
    """The envelope that someone names by offset, length and checksum; answers it and a cursor on its body."""
    at, need = named.offset, file.need
    need(at % ALIGN == 0 and at >= HEADER.size and at + named.length <= len(file), at, "the envelope does not lie inside the file")
    need(named.length >= ENVELOPE.size, at, "shorter than an envelope")
    e = file.read(at, ENVELOPE, prefix + "envelope")
    need(e.magic == ENVELOPE_MAGIC, at, "magic of the envelope")
    need(crc32(file.data[at:at + 28]) == e.crc, at, "checksum of the envelope")
    need(e.crc == named.crc, at, "the envelope is not the one that was named")
    need(e.kind == kind, at, f"envelope of kind {e.kind}")
    need(e.body_length == named.length - ENVELOPE.size, at, "length of the body")
    start = at + ENVELOPE.size
    need(crc32(file.data[start:start + e.body_length]) == e.body_crc, start, "checksum of the body")
    return e, Cursor(file, start, start + e.body_length, prefix + "body")


def read_rows(file, named, rows, prefix=""):
    """Section 13.3: the dead rows of a segment, and {ordinal: dead document frequency}."""
    e, c = open_envelope(file, named, ROWS, prefix)
    length, terms = c.u32("bitmap_length"), c.u32("terms")
    start = c.pos
    dead = roaring.read32(c)
    file.need(c.pos - start == length, start, "bitmap_length")
    file.need(len(dead) == e.items == named.dead and dead and dead[-1] < rows, start, "dead rows")
    frequencies, ordinal = {}, 0
    for _ in range(terms):
        ordinal += c.varint("skipped")
        frequencies[ordinal] = c.varint("frequency", e.items)
        file.need(frequencies[ordinal] >= 1, c.pos, "a dead document frequency of 0")
        ordinal += 1
    c.finish("the last term")
    return dead, frequencies


def read_seqs(file, named, prefix=""):
    """Section 13.4: dying seqs."""
    e, c = open_envelope(file, named, SEQS, prefix)
    seqs = roaring.read64(c)
    file.need(len(seqs) == e.items, c.pos, "items")
    return seqs


def claim_padding(file, ends):
    """The zeros between envelopes, given where those that are named end."""
    end = HEADER.size
    for start, stop in sorted(ends):
        file.zeros(end, start, "between envelopes")
        end = stop
    if end < len(file):
        file.zeros(end, len(file), "after the last envelope")
