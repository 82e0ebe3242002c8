"""The payload of a commit, and document versions (format-spec.md, section 8)."""

import json
import math
import struct

import roaring
from manifest import once, schema
from wire import (COUNTER_MAX, DIMENSION_MAX, GRAPH_BYTES_MAX, MASK64, METADATA_BYTES_MAX, NAME_BYTES_MAX, TEXT_BYTES_MAX, Cursor, Newer, Record, finalise)

GOLDEN = 0x9E3779B97F4A7C15
SOURCE, METADATA, VECTOR, SOURCE_GIVEN, ENTITIES, RELATIONS = 1, 2, 4, 8, 16, 32


def read_commit(file, start, end, prefix):
    """Section 8.1."""
    c = Cursor(file, start, end, prefix)
    commit = Record(time_ms=c.varint("time_ms"), next_seq=c.varint("next_seq", COUNTER_MAX), next_incarnation=c.varint("next_incarnation", COUNTER_MAX))
    commit["catalog"] = [read_change(c) for _ in range(c.count("catalog"))]
    commit["collections"] = [read_effects(c) for _ in range(c.count("collections"))]
    c.finish("the payload")
    return commit


def life_of(c):
    at = c.pos
    life = c.varint("incarnation", COUNTER_MAX)
    c.file.need(life >= 1, at, "incarnation 0")
    return life


def read_change(c):
    at = c.pos
    kind = c.u8("change")
    if kind == 1:
        name, life = c.name("name"), life_of(c)
        body = c.bytes("schema", 65536)
        try:
            return Record(kind=kind, name=name, incarnation=life, schema=schema(c.file, at, json.loads(body.decode("utf-8"), object_pairs_hook=once)))
        except (ValueError, TypeError, AttributeError) as error:
            raise c.file.damage(at, f"schema: {error!r}") from None
    if kind == 2:
        return Record(kind=kind, name=c.name("name"), incarnation=life_of(c))
    if kind == 3:
        return Record(kind=kind, name=c.name("name"), old=life_of(c), new=life_of(c))
    if kind == 4:
        return Record(kind=kind, name=c.name("name"), to=c.name("to"), incarnation=life_of(c))
    if kind == 5:
        return Record(kind=kind, a=c.name("name"), b=c.name("name"))
    if kind == 6:
        change = Record(kind=kind, incarnation=life_of(c), dimension=c.varint("dimension", DIMENSION_MAX))
        c.file.need(change.dimension >= 1, at, "dimension 0")
        return change
    raise Newer(c.file.name, at, f"change {kind}")


def read_effects(c):
    effects = Record(incarnation=life_of(c))
    rows, seq = [], 0
    for i in range(c.count("rows", 4)):
        step = c.varint("seq", COUNTER_MAX)
        c.file.need(i == 0 or step >= 1, c.pos, "seqs do not ascend")
        seq += step
        c.file.need(seq <= COUNTER_MAX, c.pos, f"seq {seq}")
        rows.append((seq, read_document(c)))
    landed = []
    for _ in range(c.count("landed", 13)):
        s = Record((k, c.varint(k)) for k in ("file", "offset", "length"))
        s["crc"] = c.u32("crc")
        s.update((k, c.varint(k)) for k in ("base_seq", "last_seq", "rows", "vectors", "tokens", "content_hash"))
        s["tombstones"] = None
        c.file.need(max(s.file, s.base_seq, s.last_seq, s.offset + s.length) <= COUNTER_MAX, c.pos, "a landed segment's numbers")
        landed.append(s)
    effects.update(rows=rows, landed=landed, dead=[], dead_file=None)
    at = c.pos
    kind = c.u8("dead")
    if kind == 1:
        length = c.varint("dead.length", 1 << 20)
        c.file.need(c.pos + length <= c.end, at, "the dying seqs do not fit")
        inner = Cursor(c.file, c.pos, c.pos + length, c.prefix + ".dead")
        effects["dead"] = roaring.read64(inner)
        c.pos = inner.pos
    elif kind == 2:
        effects["dead_file"] = Record(file=c.varint("dead.file", COUNTER_MAX), length=c.varint("dead.length"), crc=c.u32("dead.crc"), offset=64)
    elif kind != 0:
        raise Newer(c.file.name, at, f"dying seqs of kind {kind}")
    return effects


def read_document(c, body=False):
    """Section 8.2: a document version, or with `body` the part of it that Docs holds."""
    at = c.pos
    flags = c.u8("flags")
    if flags >= 64:
        raise Newer(c.file.name, at, f"flags {flags:#x} of a document")
    c.file.need(flags & SOURCE or not flags & SOURCE_GIVEN, at, "source_given without a source")
    c.file.need(not (body and flags & VECTOR), at, "a body with a vector")
    d = Record(flags=flags, time_ms=c.varint("time_ms"), id=None if body else c.name("id"))
    d["source"] = c.name("source") if flags & SOURCE else None
    d["source_given"] = bool(flags & SOURCE_GIVEN)
    d["metadata"] = c.text("metadata", METADATA_BYTES_MAX) if flags & METADATA else None
    d["text"] = c.text("text", TEXT_BYTES_MAX)
    d["entities"] = [read_entity(c) for _ in range(c.count("entities", 2))] if flags & ENTITIES else None
    d["relations"] = [read_relation(c) for _ in range(c.count("relations", 3))] if flags & RELATIONS else None
    d["vector"] = read_vector(c) if flags & VECTOR else None
    return d


def read_vector(c):
    dimension = c.varint("dimension", DIMENSION_MAX)
    at = c.pos
    c.file.need(dimension >= 1, at, "dimension 0")
    vector = c.take(4 * dimension, "vector")
    c.file.need(all(map(math.isfinite, struct.unpack(f"<{dimension}f", vector))), at, "a component is not finite")
    return vector


def flags_of(c, allowed, what):
    at = c.pos
    flags = c.u8(what)
    if flags & ~allowed:
        raise Newer(c.file.name, at, f"{what} {flags:#x}")
    return flags


def read_entity(c):
    flags = flags_of(c, 5, "entity.flags")
    e = Record(name=c.name("entity.name"), kind=c.text("entity.kind", NAME_BYTES_MAX) if flags & 1 else None)
    at = c.pos
    e["mentions"] = c.varint("entity.mentions", 0xFFFFFFFF) if flags & 4 else 1
    c.file.need(e.mentions >= 1, at, "no mentions")
    return e


def read_relation(c):
    flags = flags_of(c, 7, "relation.flags")
    r = Record(source=c.name("relation.source"), target=c.name("relation.target"))
    r["kind"] = c.text("relation.kind", NAME_BYTES_MAX) if flags & 1 else None
    r["description"] = c.text("relation.description", GRAPH_BYTES_MAX) if flags & 2 else None
    at = c.pos
    r["weight"] = c.f64("relation.weight") if flags & 4 else 1.0
    c.file.need(math.isfinite(r.weight) and r.weight > 0, at, "a weight")
    return r


class Hash:
    """The content hash of a document (10.7)."""

    def __init__(self):
        self.h = GOLDEN

    def word(self, w):
        h = ((self.h ^ w) * GOLDEN) & MASK64
        self.h = h ^ h >> 32

    def words(self, data):
        if len(data) % 8:
            data = data + bytes(8 - len(data) % 8)
        for (w,) in struct.iter_unpack("<Q", data):
            self.word(w)

    def bytes(self, data):
        self.word(len(data))
        self.words(data)

    def text(self, text):
        self.bytes(text.encode())

    def optional(self, text):
        if text is None:
            self.word(0)
        else:
            self.word(1)
            self.text(text)


def content_hash(d):
    """Of a document with its id and vector."""
    h = Hash()
    parts = (d.source, d.metadata, d.vector, d.source_given or None, d.entities, d.relations)
    h.word(sum(1 << i for i, part in enumerate(parts) if part is not None))
    h.word(d.time_ms)
    for text in (d.id, d.source, d.metadata, d.text):
        if text is not None:
            h.text(text)
    if d.vector is not None:
        h.word(len(d.vector) // 4)
        h.words(d.vector)
    if d.entities is not None:
        h.word(len(d.entities))
        for e in d.entities:
            h.text(e.name)
            h.optional(e.kind)
            h.word(e.mentions)
    if d.relations is not None:
        h.word(len(d.relations))
        for r in d.relations:
            h.text(r.source)
            h.text(r.target)
            h.optional(r.kind)
            h.optional(r.description)
            h.word(struct.unpack("<Q", struct.pack("<d", r.weight))[0])
    return finalise(h.h)
