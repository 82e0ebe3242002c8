"""Vectors, VectorRows, VectorNorms, and the canonical kernel (format-spec.md, section 12)."""

import math
import struct

from wire import DIMENSION_MAX


def lanes(terms):
    """Section 12.4: the sum of the terms, in sixteen lanes."""
    lane = [0.0] * 16
    for i, term in enumerate(terms):
        lane[i & 15] += term
    s = [(lane[j] + lane[j + 4]) + (lane[j + 8] + lane[j + 12]) for j in range(4)]
    return (s[0] + s[2]) + (s[1] + s[3])


def dot(a, b):
    return lanes(x * y for x, y in zip(a, b))


def squared_distance(a, b):
    return lanes((x - y) * (x - y) for x, y in zip(a, b))


def inverse_norm(v):
    square = dot(v, v)
    return 0.0 if square == 0 else 1.0 / math.sqrt(square)


class Vectors:
    """The vectors of a segment by row; None when it has none."""

    def __init__(self, segment, dimension):
        self.sections, self.by_row = segment.sections, {}
        self.section = self.sections.get("Vectors")
        rows = self.sections.get("VectorRows")
        self.count = self.section.items if self.section else 0
        if not self.section:
            segment.file.need(rows is None and segment.named.vectors == 0, segment.start, "VectorRows without Vectors")
            return
        s = self.section
        s.need(s.aux == dimension and 1 <= s.aux <= DIMENSION_MAX, f"{s.aux} components and not {dimension}")
        s.need(s.length == s.items * s.aux * 4, "length")
        s.need(s.items == segment.named.vectors, "items")
        s.need((rows is not None) == (s.items != segment.rows), "VectorRows is there exactly when some row has no vector")
        positions = range(segment.rows)
        if rows:
            rows.need(rows.items == s.items and rows.aux == segment.rows and rows.length == 4 * rows.items, "items and aux")
            positions = struct.unpack(f"<{rows.items}I", rows.whole())
            rows.claim(0, rows.length, "rows")
            ascend = all(a < b for a, b in zip(positions, positions[1:]))
            rows.need(ascend and (not positions or positions[-1] < rows.aux), "rows do not ascend")
        self.by_row = {row: position for position, row in enumerate(positions)}

    def get(self, row):
        """The little-endian components of a row's vector, or None."""
        if row not in self.by_row:
            return None
        size = 4 * self.section.aux
        return self.section.part(self.by_row[row] * size, size)

    def all(self):
        """The components of the vector at every position."""
        size = 4 * self.section.aux
        data = self.section.whole()
        return [struct.unpack_from(f"<{self.section.aux}f", data, at) for at in range(0, self.count * size, size)]

    def verify(self):
        """Every component finite, every inverse norm that of its vector."""
        if not self.section:
            return
        s, norms = self.section, self.sections["VectorNorms"]
        s.claim(0, s.length, "components")
        s.need(all(map(math.isfinite, struct.unpack(f"<{s.items * s.aux}f", s.whole()))), "a component is not finite")
        norms.need(norms.items == s.items and norms.aux == 0 and norms.length == 8 * s.items, "items and aux")
        stored = struct.unpack(f"<{norms.items}Q", norms.whole())
        norms.claim(0, norms.length, "inverse norms")
        for row, position in self.by_row.items():
            v = struct.unpack(f"<{s.aux}f", self.get(row))
            bits = struct.unpack("<Q", struct.pack("<d", inverse_norm(v)))[0]
            norms.need(bits == stored[position], f"inverse norm of row {row}", 8 * position)
