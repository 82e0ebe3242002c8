"""Manifests: the header, the JSON body and its invariants (format-spec.md, section 6)."""

import json

from wire import COUNTER_MAX, DIMENSION_MAX, NAME_BYTES_MAX, SEGMENT_ROWS_MAX, Layout, Newer, Record, crc32, crc_with_zero

MANIFEST_MAGIC = b"TRIUNEMF"
MANIFEST_MAJOR, MANIFEST_MINOR = 1, 0
HEADER = Layout("ManifestHeader", "magic:8 major:u16 minor:u16 crc:u32 database:16 number:u64 body_length:u64 body_crc:u32 reserved:12")
SCHEMA_KEYS = ("dimension", "metric", "analyzer", "scorer", "extractor", "source_key", "embedder", "hnsw", "components", "leg_weights")
HNSW = {"m": 16, "ef_construction": 200, "quantisation": "sq7"}
LEG_WEIGHTS = {"vector": 1000, "text": 1000, "graph": 1000}


def read_manifest(file, slot):
    """The body of the manifest that a slot names, as records, after every check of section 6."""
    need = file.need
    need(len(file) == slot.manifest_length, 0, f"{len(file)} bytes and not {slot.manifest_length}")
    need(len(file) >= HEADER.size, 0, "shorter than its header")
    need(crc32(file.data) == slot.manifest_crc, 0, "the checksum of the file is not that of HEAD")
    need(file.data[:8] == MANIFEST_MAGIC, 0, "magic")
    header = file.read(0, HEADER, "manifest")
    need(crc_with_zero(file.raw(0, HEADER), HEADER.offsets["crc"]) == header.crc, 0, "checksum of the header")
    need(header.major >= 1, 8, "version 0 was never released")
    if header.major > MANIFEST_MAJOR:
        raise Newer(file.name, 8, f"manifest version {header.major}")
    if header.minor <= MANIFEST_MINOR:
        file.reserved_is_zero(header, 0, HEADER)
    need(header.database == slot.database, 16, "of another database")
    need(header.number == slot.manifest_number, 32, "of another number")
    need(header.body_length == len(file) - HEADER.size, 40, "the body does not end the file")
    body = file.take(HEADER.size, header.body_length, "manifest.body")
    need(crc32(body) == header.body_crc, 48, "checksum of the body")
    try:
        parsed = Body(file).manifest(json.loads(body.decode("utf-8"), object_pairs_hook=once))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise file.damage(HEADER.size, f"the body: {error!r}") from None
    check(file, parsed, slot)
    return parsed


def once(pairs):
    """A JSON object in which no key stands twice."""
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


class Body:
    """Section 6.2: turns the JSON object into records, with 64-bit numbers as numbers."""

    def __init__(self, file):
        self.file = file

    def long(self, value):
        ok = isinstance(value, str) and value.isascii() and value.isdigit() and int(value) < 1 << 64
        self.file.need(ok, HEADER.size, f"{value!r} is no 64-bit number")
        return int(value)

    def counter(self, value):
        number = self.long(value)
        self.file.need(number <= COUNTER_MAX, HEADER.size, f"{number} is above what is counted")
        return number

    def short(self, value):
        self.file.need(type(value) is int and 0 <= value < 1 << 32, HEADER.size, f"{value!r} is no 32-bit number")
        return value

    def manifest(self, o):
        return Record(applied_lsn=self.counter(o["applied_lsn"]), next_seq=self.counter(o["next_seq"]),
                      next_incarnation=self.counter(o["next_incarnation"]), collections=[self.collection(c) for c in o["collections"]])

    def collection(self, o):
        numbers = {k: self.long(o[k]) for k in ("documents", "vectors", "tokens")} | {"incarnation": self.counter(o["incarnation"])}
        return Record(numbers, name=o["name"], schema=schema(self.file, HEADER.size, o["schema"]),
                      segments=[self.segment(s) for s in o["segments"]])

    def segment(self, o):
        numbers = {k: self.long(o[k]) for k in ("file", "offset", "length", "base_seq", "last_seq", "rows", "vectors", "tokens", "content_hash")}
        numbers |= {k: self.counter(o[k]) for k in ("file", "base_seq", "last_seq")}
        dead = o.get("tombstones")
        return Record(numbers, crc=self.short(o["crc"]), tombstones=self.tombstones(dead) if dead is not None else None)

    def tombstones(self, o):
        return Record({k: self.long(o[k]) for k in ("file", "offset", "length", "dead")}, crc=self.short(o["crc"]))


def schema(file, at, o):
    """A valid schema, reduced to the keys of section 6.2 in their order."""
    known = {k: o[k] for k in SCHEMA_KEYS if k in o and o[k] is not None}
    need = file.need
    need(known.get("metric") in ("cosine", "dot", "l2"), at, "metric")
    need(known.get("analyzer") == "word", at, "analyzer")
    need(known.get("scorer") in ("lucene", "okapi"), at, "scorer")
    need(known.get("extractor") in ("none", "compat"), at, "extractor")
    key = known.get("source_key")
    need(isinstance(key, str) and 1 <= len(key.encode()) <= NAME_BYTES_MAX, at, "source_key")
    need(len((known.get("embedder") or "").encode()) <= NAME_BYTES_MAX, at, "embedder")
    dimension = known.get("dimension", 1)
    need(type(dimension) is int and 1 <= dimension <= DIMENSION_MAX, at, "dimension")
    need(known.get("components", "f32") in ("f32", "f16"), at, "components")
    if known.get("components") == "f32":
        del known["components"]
    if "hnsw" in known:
        known["hnsw"] = hnsw = {k: known["hnsw"][k] for k in HNSW}
        need(type(hnsw["m"]) is int and 2 <= hnsw["m"] <= 64, at, "m")
        need(type(hnsw["ef_construction"]) is int and 1 <= hnsw["ef_construction"] <= 65536, at, "ef_construction")
        need(hnsw["quantisation"] in ("none", "sq7"), at, "quantisation")
        if hnsw == HNSW:
            del known["hnsw"]
    if "leg_weights" in known:
        known["leg_weights"] = weights = {k: known["leg_weights"][k] for k in LEG_WEIGHTS}
        need(all(type(w) is int and 0 <= w <= 1_000_000 for w in weights.values()), at, "leg_weights")
        if weights == LEG_WEIGHTS:
            del known["leg_weights"]
    return known


def check(file, m, slot):
    """The invariants of section 6.3."""
    def need(condition, what):
        file.need(condition, HEADER.size, what)

    need(m.applied_lsn == slot.applied_lsn, "applied_lsn is not that of HEAD")
    names = [c.name for c in m.collections]
    lives = [c.incarnation for c in m.collections]
    need(len(set(names)) == len(names), "two collections of one name")
    need(len(set(lives)) == len(lives), "two collections of one incarnation")
    claimed, dead = [], []
    for c in m.collections:
        need(1 <= len(c.name.encode()) <= NAME_BYTES_MAX, "a collection's name")
        need(1 <= c.incarnation < m.next_incarnation, "an incarnation that is 0 or not below next_incarnation")
        check_segments(need, m, c)
        for s in c.segments:
            claimed.append((s.file, s.offset, s.length))
            if s.tombstones:
                dead.append((s.tombstones.file, s.tombstones.offset, s.tombstones.length))
    for ranges in (claimed, dead):
        ranges.sort()
        need(all(o + n <= COUNTER_MAX for _, o, n in ranges), "bytes beyond any file")
        for (f, o, n), (g, p, _) in zip(ranges, ranges[1:]):
            need(f != g or o + n <= p, "two share bytes of a file")


def check_segments(need, m, c):
    before = None
    live = 0
    for s in c.segments:
        need(before is None or s.base_seq > before, "segments do not ascend")
        need(s.base_seq <= s.last_seq < m.next_seq, "seqs of a segment")
        need(1 <= s.rows <= SEGMENT_ROWS_MAX and s.rows <= s.last_seq - s.base_seq + 1, "rows of a segment")
        need(s.vectors <= s.rows, "more vectors than rows")
        need(s.offset % 4096 == 0, "a segment does not start at a multiple of 4,096")
        need(s.tombstones is None or 1 <= s.tombstones.dead <= s.rows, "dead rows")
        need(s.vectors == 0 or "dimension" in c.schema, "vectors without a dimension")
        live += s.rows - (s.tombstones.dead if s.tombstones else 0)
        before = s.last_seq
    need(c.documents == live, "documents is not the sum of live rows")
    need(c.vectors <= min(c.documents, sum(s.vectors for s in c.segments)), "vectors")
    need(c.tokens <= sum(s.tokens for s in c.segments), "tokens")
