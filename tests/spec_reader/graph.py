"""The graph sections and the extractor `compat` (format-spec.md, section 19)."""

import re
import struct

from fst import Fst
from wire import NAME_BYTES_MAX, Cursor

LISTS_PER_BLOCK = 16

PATTERNS = [re.compile(p) for p in (r"\b[A-Z][a-z]{2,}(?:\s+[A-Z][a-z]{2,})*\b", r"\b[A-Z]{2,6}\b", r"\b[a-z]+(?:[A-Z][a-z]+)+\b")]
STOP = frozenset("""The This That With From For And But Are Was Has Have Its Our Their Will Can May Also Such When Where How What
    Which""".split())


def extract(text):
    """Section 19.5: the spellings in the order of the text, each with its occurrences."""
    found = []
    for number, pattern in enumerate(PATTERNS):
        for match in pattern.finditer(text):
            name = match.group()
            if not (number == 0 and name in STOP) and len(name.encode()) <= NAME_BYTES_MAX:
                found.append((match.start(), number, name))
    counts = {}
    for _, _, name in sorted(found):
        counts[name] = counts.get(name, 0) + 1
    return list(counts.items())


def mentioned(body, extractor):
    """The spellings that a document mentions, with their occurrences, in order."""
    if body.entities is not None:
        counts = {}
        for e in body.entities:
            counts[e.name] = counts.get(e.name, 0) + e.mentions
        return list(counts.items())
    if extractor == "compat":
        return extract(body.text)
    return []


class Lists:
    """Section 19.1: the lists of a section, as cursors."""

    def __init__(self, section):
        s, self.items = section, []
        s.whole()
        blocks = (s.items + LISTS_PER_BLOCK - 1) // LISTS_PER_BLOCK
        s.need(s.aux in (4, 8), f"aux {s.aux}")
        base = s.aux * (blocks + 1)
        s.need(base <= s.length, "length")
        starts = struct.unpack(f"<{blocks + 1}{'I' if s.aux == 4 else 'Q'}", s.file.data[s.start:s.start + base])
        s.claim(0, base, "starts")
        s.need(all(a <= b for a, b in zip(starts, starts[1:])) and starts[0] == 0, "starts")
        s.need(base + starts[-1] == s.length, "length")
        s.need(s.aux == (4 if starts[-1] < 1 << 32 else 8), "width of starts")
        for b in range(blocks):
            c = Cursor(s.file, s.start + base + starts[b], s.start + base + starts[b + 1], s.prefix)
            lengths = [c.varint("length") for _ in range(min(LISTS_PER_BLOCK, s.items - b * LISTS_PER_BLOCK))]
            s.need(sum(lengths) == c.end - c.pos, "lengths of a block")
            at = c.pos
            for length in lengths:
                self.items.append(Cursor(s.file, at, at + length, s.prefix))
                at += length


def read_names(c):
    found = []
    while c.pos < c.end:
        found.append(c.name("spelling"))
    return found


def read_mentions(c):
    """(other end, variants, occurrences, spelling), ascending."""
    found, after = [], 0
    while c.pos < c.end:
        head = c.varint("edge")
        other, rest = after + (head >> 1), (1, 1, 0)
        if not head & 1:
            rest = (c.varint("variants"), c.varint("occurrences", 0xFFFFFFFF), c.varint("spelling"))
            c.file.need(1 <= rest[0] <= rest[1] and rest != (1, 1, 0), c.pos, f"{c.prefix}: a mention")
        found.append((other, *rest))
        after = other + 1
    return found


def read_relations(c):
    """(row, i, other end, spelling here, weight), ascending."""
    found, row = [], 0
    while c.pos < c.end:
        head = c.varint("relation")
        row += head >> 4
        flags = head & 15
        c.file.need(flags & 12 != 12, c.pos, f"{c.prefix}: weight of two widths")
        number = c.varint("number") if flags & 1 else 0
        other = c.varint("other end")
        spelling = c.varint("spelling") if flags & 2 else 0
        weight = c.f32("weight") if flags & 4 else c.f64("weight") if flags & 8 else 1.0
        found.append((row, number, other, spelling, weight))
    c.file.need(all(a[:2] < b[:2] for a, b in zip(found, found[1:])), c.pos, f"{c.prefix}: relations do not ascend")
    return found


class Graph:
    """The six sections, decoded whole."""

    def __init__(self, segment):
        s = self.sections = segment.sections
        self.rows = segment.rows
        e = s["Entities"]
        e.whole()
        e.need(e.aux == e.length, "aux")
        pairs = Fst(segment.file, e.start, e.length, e.prefix).pairs()
        e.need([o for _, o in pairs] == list(range(e.items)), "ordinals")
        self.keys = [k for k, _ in pairs]
        for name, items in (("EntityNames", e.items), ("Mentions", self.rows), ("EntityDocs", e.items), ("RelationsBySource", e.items),
                            ("RelationsByTarget", e.items)):
            s[name].need(s[name].items == items, "items")
        self.names = [read_names(c) for c in Lists(s["EntityNames"]).items]
        self.mentions = [read_mentions(c) for c in Lists(s["Mentions"]).items]
        self.docs = [read_mentions(c) for c in Lists(s["EntityDocs"]).items]
        self.by_source = [read_relations(c) for c in Lists(s["RelationsBySource"]).items]
        self.by_target = [read_relations(c) for c in Lists(s["RelationsByTarget"]).items]

    def verify(self, bodies, extractor):
        """Builds all of it again from the bodies and compares."""
        spellings, edges, relations = {}, [], []
        for row, body in enumerate(bodies):
            of_row = {}
            for name, count in mentioned(body, extractor):
                entry = of_row.setdefault(name.lower(), [0, 0, name])
                entry[0] += 1
                entry[1] = min(entry[1] + count, 0xFFFFFFFF)
            for key, (variants, occurrences, first) in of_row.items():
                edges.append((row, key, variants, occurrences, place(spellings, first)))
            for i, r in enumerate(body.relations or ()):
                ends = r.source.lower(), r.target.lower()
                relations.append((row, i, *ends, place(spellings, r.source), place(spellings, r.target), r.weight))
        keys = sorted(k.encode() for k in spellings)
        s = self.sections
        s["Entities"].need(keys == self.keys, "the entities are not those of the documents")
        ordinal = {k: i for i, k in enumerate(keys)}
        n = {k: ordinal[k.encode()] for k in spellings}
        s["EntityNames"].need(self.names == [spellings[k.decode()] for k in keys], "spellings")
        mentions, docs = [[] for _ in bodies], [[] for _ in keys]
        for row, key, *rest in sorted(edges, key=lambda e: (e[0], n[e[1]])):
            mentions[row].append((n[key], *rest))
            docs[n[key]].append((row, *rest))
        s["Mentions"].need(mentions == self.mentions, "edges by row")
        s["EntityDocs"].need(docs == self.docs, "edges by entity")
        by_source, by_target = [[] for _ in keys], [[] for _ in keys]
        for row, i, source, target, a, b, weight in relations:
            by_source[n[source]].append((row, i, n[target], a, weight))
            by_target[n[target]].append((row, i, n[source], b, weight))
        s["RelationsBySource"].need(by_source == self.by_source, "relations by source")
        s["RelationsByTarget"].need(by_target == self.by_target, "relations by target")


def place(spellings, name):
    """The place of a spelling in the list of its entity, added at the end when it is new."""
    some = spellings.setdefault(name.lower(), [])
    if name not in some:
        some.append(name)
    return some.index(name)
