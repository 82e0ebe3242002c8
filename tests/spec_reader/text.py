"""The text index: terms, postings, lengths, statistics, and the analyzer (format-spec.md, section 11)."""

import re
import struct
from collections import Counter

from fst import Fst
from wire import Cursor, Layout

LONG_TERM = Layout("LongTermEntry", "offset:u64 length:u32 ordinal:u32")
TERM_INFO = Layout("TermInfoEntry", "location:u64 document_frequency:u32 length:u32")
BLOCK = Layout("PostingBlock", "first_row:u32 last_row:u32 end:u32 row_bits:u8 frequency_bits:u8 reserved:2")
STATISTICS = Layout("TextStatistics", "documents:u64 tokens:u64 terms:u64 postings:u64 analyzer:32")
FINGERPRINT = b"word/1,unicode/14.0.0"
FST_KEY_MAX = 1024
BLOCK_POSTINGS = 128

WORD = re.compile(r"\b\w+\b")


def tokens(text):
    """Section 11.6, with the tables of this Python: those of Unicode 14 in 3.11. A later one differs in characters that 14 does not assign."""
    return WORD.findall(text.lower())


def unpack(payload, bits):
    """128 integers of `bits` bits in four lanes (11.3)."""
    values = [0] * BLOCK_POSTINGS
    for lane in range(4):
        words = b"".join(payload[16 * w + 4 * lane:16 * w + 4 * lane + 4] for w in range(bits))
        stream = int.from_bytes(words, "little")
        for k in range(32):
            values[4 * k + lane] = stream >> (bits * k) & ((1 << bits) - 1)
    return values


class TextIndex:
    """The five sections of a segment, decoded whole: terms with their postings, and lengths."""

    def __init__(self, segment):
        s = self.sections = segment.sections
        self.file, self.rows = segment.file, segment.rows
        self.terms = self.read_terms(s["Terms"])
        self.postings = self.read_postings(s["TermInfos"], s["Postings"])
        self.lengths = self.read_lengths(s["Lengths"])
        self.check_statistics(s["Statistics"])

    def read_terms(self, s):
        s.whole()
        s.need(s.aux <= s.length, "aux")
        pairs = Fst(self.file, s.start, s.aux, s.prefix).pairs()
        long_terms = s.items - len(pairs)
        s.need(long_terms >= 0, "more keys than items")
        table, at = [], s.start + s.aux
        for i in range(long_terms):
            table.append(self.file.read(at + i * LONG_TERM.size, LONG_TERM, f"{s.prefix}.long term {i}"))
        base, end = at + long_terms * LONG_TERM.size, 0
        for e in table:
            s.need(e.offset == end and e.length > FST_KEY_MAX, "a long term")
            pairs.append((self.file.take(base + e.offset, e.length, f"{s.prefix}.long term bytes"), e.ordinal))
            end += e.length
        s.need(base + end == s.end, "bytes after the last long term")
        s.need(sorted(o for _, o in pairs) == list(range(s.items)), "ordinals")
        pairs.sort(key=lambda p: p[1])
        terms = [t for t, _ in pairs]
        s.need(all(a < b for a, b in zip(terms, terms[1:])), "terms do not ascend by ordinal")
        return terms

    def read_postings(self, infos, s):
        infos.whole(), s.whole()
        infos.need(infos.items == len(self.terms) and infos.length == 16 * infos.items and infos.aux == 0, "items, aux and length")
        s.need(s.aux == 1, f"layout {s.aux}")
        postings, at = [], s.start
        for i in range(infos.items):
            e = self.file.read(infos.start + 16 * i, TERM_INFO, f"{infos.prefix}[{i}]")
            infos.need(e.document_frequency >= 1, "a term in no row", 16 * i)
            if e.document_frequency == 1:
                infos.need(e.length == 0, "a list of one row", 16 * i)
                postings.append([(e.location & 0xFFFFFFFF, e.location >> 32)])
                continue
            infos.need(s.start + e.location == at, "lists do not follow each other", 16 * i)
            postings.append(self.read_list(s, at, e))
            at += e.length
        s.need(at == s.end, "bytes after the last list")
        s.need(sum(map(len, postings)) == s.items, "items")
        return postings

    def read_list(self, s, start, info):
        blocks = info.document_frequency // BLOCK_POSTINGS
        end = start + info.length
        self.file.need(end <= s.end, start, "a list leaves Postings")
        headers = []
        for i in range(blocks):
            headers.append(self.file.read(start + i * BLOCK.size, BLOCK, f"{s.prefix}.block"))
            self.file.reserved_is_zero(headers[-1], start + i * BLOCK.size, BLOCK)
        found, base, at = [], start + blocks * BLOCK.size, 0
        for h in headers:
            size = 16 * (h.row_bits + h.frequency_bits)
            s.need(h.row_bits <= 32 and h.frequency_bits <= 32 and h.end == at + size, "a block's bits")
            payload = self.file.take(base + at, size, f"{s.prefix}.payload")
            at += size
            deltas, frequencies = unpack(payload[:16 * h.row_bits], h.row_bits), unpack(payload[16 * h.row_bits:], h.frequency_bits)
            row = h.first_row
            s.need(deltas[0] == 0, "first delta of a block")
            for i, delta in enumerate(deltas):
                row += delta + (i > 0)
                found.append((row, frequencies[i] + 1))
            s.need(row == h.last_row, "last row of a block")
        c = Cursor(self.file, base + at, end, s.prefix + ".tail")
        row = found[-1][0] + 1 if found else 0
        for _ in range(info.document_frequency % BLOCK_POSTINGS):
            head = c.varint("posting", (1 << 35) - 1)
            row += head >> 1
            found.append((row, 1 if head & 1 else c.varint("frequency", (1 << 32) - 3) + 2))
            row += 1
        c.finish("the last posting")
        s.need(all(a[0] < b[0] for a, b in zip(found, found[1:])) and found[-1][0] < self.rows, "rows of a list")
        return found

    def read_lengths(self, s):
        s.need(s.items == self.rows and s.aux in (2, 4) and s.length == s.items * s.aux, "items, aux and length")
        lengths = list(struct.unpack(f"<{s.items}{'H' if s.aux == 2 else 'I'}", s.whole()))
        s.claim(0, s.length, "lengths")
        s.need((s.aux == 2) == (max(lengths, default=0) < 65536), "width")
        return lengths

    def check_statistics(self, s):
        s.need(s.items == 1 and s.aux == 0 and s.length == STATISTICS.size, "items, aux and length")
        s.whole()
        t = self.statistics = self.file.read(s.start, STATISTICS, s.prefix)
        s.need(t.analyzer == FINGERPRINT.ljust(32, b"\0"), f"analyzer {t.analyzer!r}")
        s.need(t.documents == self.rows and t.tokens == sum(self.lengths), "documents and tokens")
        s.need(t.terms == len(self.terms) and t.postings == sum(map(len, self.postings)), "terms and postings")

    def verify(self, texts):
        """Compares everything with the texts of the rows, tokenised again."""
        expected = {}
        for row, text in enumerate(texts):
            found = Counter(tokens(text))
            self.sections["Lengths"].need(sum(found.values()) == self.lengths[row], f"length of row {row}")
            for token, frequency in found.items():
                expected.setdefault(token.encode(), []).append((row, frequency))
        self.sections["Terms"].need(sorted(expected) == self.terms, "the terms are not those of the texts")
        for term, found in zip(self.terms, self.postings):
            self.sections["Postings"].need(expected[term] == found, f"postings of {term!r}")
