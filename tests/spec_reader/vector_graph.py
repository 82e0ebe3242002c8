"""VectorGraph and VectorCodes (format-spec.md, sections 12.5 to 12.8)."""

import math
import struct
from array import array

from vectors import dot, inverse_norm
from wire import Layout, align

HEADER = Layout("VectorGraphHeader", """layout:u16 m:u16 ef_construction:u32 levels:u32 sample:u32 level_counts:64 recall:20 compared:40
    reserved:52""")
LAYOUT, LEVELS_MAX, NO_LINK = 1, 16, 0xFFFFFFFF
# What rounding in binary32 may change of a number, as a share of it; some times what it does.
ROUNDING = 1e-6
SMALLEST = 2.0 ** -126


def rounded(numbers):
    """In binary32."""
    return array("f", numbers).tolist()


class Images:
    """Section 12.5."""

    def __init__(self, metric, components):
        self.metric, self.unit = metric, 1.0
        if metric == "dot":
            self.unit = max(math.sqrt(dot(x, x)) for x in components) or 1.0
        elif metric == "l2":
            self.unit = max(max(map(abs, x)) for x in components) or 1.0

    def of(self, x):
        if self.metric == "cosine":
            factor = inverse_norm(x)
            return rounded(c * factor for c in x)
        y = rounded(c / self.unit for c in x)
        if self.metric == "dot":
            y += rounded([math.sqrt(max(0.0, 1.0 - dot(y, y)))])
        return y


class VectorGraph:
    """The graph of a segment and its codes; `section` is None when it has none."""

    def __init__(self, segment, vectors, schema):
        self.section, self.codes = segment.sections.get("VectorGraph"), segment.sections.get("VectorCodes")
        self.vectors, self.metric = vectors, schema["metric"]
        wanted = self.section is not None and schema.get("hnsw", {}).get("quantisation", "sq7") == "sq7"
        segment.file.need((self.codes is not None) == wanted, segment.start, "VectorCodes is there exactly beside VectorGraph, when the schema asks for it")

    def verify(self):
        if not self.section:
            return
        self.read_header()
        self.read_positions()
        self.read_levels()
        self.check_reachable()
        if self.codes:
            self.check_codes()

    def read_header(self):
        s = self.section
        s.need(s.length >= HEADER.size, "shorter than its header")
        s.check()
        h = s.file.read(s.start, HEADER, f"{s.prefix}.header")
        s.need(h.layout == LAYOUT, "layout")
        s.need(2 <= h.m <= 64, "m", HEADER.offsets["m"])
        s.need(1 <= h.levels <= LEVELS_MAX, "levels", HEADER.offsets["levels"])
        counts = struct.unpack("<16I", h.level_counts)
        at = HEADER.offsets["level_counts"]
        s.need(all(counts[:h.levels]) and not any(counts[h.levels:]), "nodes of levels that there are", at)
        s.need(all(a >= b for a, b in zip(counts, counts[1:])), "a level has more nodes than the one below", at)
        s.need(counts[0] == s.items == self.vectors.count and s.aux == 0, "items and aux", at)
        s.need(max(struct.unpack("<10H", h.recall)) <= 10000, "recall", HEADER.offsets["recall"])
        s.need(not any(h.reserved), "reserved", HEADER.offsets["reserved"])
        self.count, self.m, self.counts = counts[0], h.m, counts[:h.levels]

    def read_positions(self):
        s, end = self.section, HEADER.size + 4 * self.count
        self.base = align(end, 64)
        rows = [n * 4 * (2 * self.m if level == 0 else self.m) for level, n in enumerate(self.counts)]
        s.need(s.length == self.base + sum(rows), "length")
        self.positions = array("I", struct.unpack(f"<{self.count}I", s.part(HEADER.size, 4 * self.count)))
        s.need(sorted(self.positions) == list(range(self.count)), "a position stands not once", HEADER.size)
        s.need(not any(s.part(end, self.base - end)), "bytes after the positions", end)
        s.claim(HEADER.size, end, "positions")
        s.claim(end, self.base, "zeros after the positions")

    def read_levels(self):
        s, at, self.levels = self.section, self.base, []
        for level, nodes in enumerate(self.counts):
            width = 2 * self.m if level == 0 else self.m
            numbers, rows = struct.unpack(f"<{nodes * width}I", s.part(at, 4 * nodes * width)), []
            for node in range(nodes):
                row = numbers[node * width:(node + 1) * width]
                end = row.index(NO_LINK) if NO_LINK in row else width
                links = row[:end]
                right = all(link < nodes and link != node for link in links) and len(set(links)) == end and all(n == NO_LINK for n in row[end:])
                s.need(right, f"level {level}: links of node {node}", at + 4 * node * width)
                rows.append(links)
            s.claim(at, at + 4 * nodes * width, f"links of level {level}")
            at += 4 * nodes * width
            self.levels.append(rows)

    def check_reachable(self):
        reached, to_go = bytearray(self.count), [0]
        reached[0] = 1
        while to_go:
            for link in self.levels[0][to_go.pop()]:
                if not reached[link]:
                    reached[link] = 1
                    to_go.append(link)
        self.section.need(all(reached), f"node {reached.find(0)} is not reached", self.base)

    def check_codes(self):
        """Section 12.6: every row stands for the image of its vector."""
        s, dimension = self.codes, self.vectors.section.aux
        d = dimension + (self.metric == "dot")
        stride, earlier = align(d, 64), align(align(d, 32) + 8, 64)
        inside = d + 8 <= stride
        end = self.count * (stride if inside else stride + 8)
        if (s.aux, s.length) != (stride, end + 8 + 4 * d):
            stride, inside, end = earlier, True, self.count * earlier
        s.need(s.items == self.count and s.aux == stride and s.length == end + 8 + 4 * d, "items, aux and length")
        data = s.whole()
        unit, *centre = struct.unpack_from(f"<d{d}f", data, end)
        s.need(math.isfinite(unit) and unit > 0 and all(map(math.isfinite, centre)), "unit and centre", end)
        components = self.vectors.all()
        images = Images(self.metric, components)
        s.need(abs(unit - images.unit) <= ROUNDING * images.unit, f"unit {unit}, and not {images.unit}", end)
        sums = [0.0] * d
        for node, position in enumerate(self.positions):
            y = images.of(components[position])
            sums = [a + b for a, b in zip(sums, y)]
            at = node * stride
            meta = at + stride - 8 if inside else self.count * stride + node * 8
            self.check_row(node, data[at:at + stride - (8 if inside else 0)], at, meta, struct.unpack_from("<2f", data, meta), y, centre)
        means = [total / self.count for total in sums]
        s.need(all(abs(a - b) <= ROUNDING for a, b in zip(means, centre)), "the centre is not the mean of the images", end + 8)
        s.claim(0, self.count * stride, "rows")
        s.claim(self.count * stride, end, "scales and biases")
        s.claim(end, end + 8, "unit")
        s.claim(end + 8, s.length, "centre")

    def check_row(self, node, row, at, meta, scale_and_bias, y, centre):
        s, d, (scale, bias) = self.codes, len(y), scale_and_bias
        s.need(not any(row[d:]), f"padding of node {node}", at + d)
        s.need(all(1 <= code <= 127 for code in row[:d]), f"codes of node {node}", at)
        s.need(math.isfinite(scale) and scale > 0 and math.isfinite(bias), f"scale and bias of node {node}", meta)
        r = [a - b for a, b in zip(y, centre)]
        for code, residual, a, b in zip(row, r, y, centre):
            off = abs((code - 64) * scale - residual)
            s.need(off <= scale * (0.5 + 1e-4) + ROUNDING * (abs(a) + abs(b)), f"a code of node {node}", at)
        greatest = max(map(abs, r))
        expected = greatest / 63 if greatest else 1.0
        s.need(abs(scale - expected) <= ROUNDING * expected + SMALLEST, f"scale of node {node}", meta)
        terms = [x * x for x in r] if self.metric == "l2" else [-b * x for x, b in zip(r, centre)]
        s.need(abs(bias - sum(terms)) <= ROUNDING * (sum(map(abs, terms)) + SMALLEST), f"bias of node {node}", meta + 4)
