"""Logs: the header, the records, and what a log proves (format-spec.md, section 7)."""

from wire import COUNTER_MAX, RECORD_BYTES_MAX, Layout, Newer, align, crc32, crc_with_zero

WAL_MAGIC = b"TRIUNEWL"
WAL_MAJOR, WAL_MINOR = 1, 0
RECORD_MAGIC = 0x8D524C57
COMMIT = 0x81
START = 4096

HEADER = Layout("WalHeader", """magic:8 major:u16 minor:u16 crc:u32 database:16 sequence:u64 id:16 first_lsn:u64 has_link:u32 reserved:u32
    link_id:16 link_sequence:u64 link_last_lsn:u64 link_end_offset:u64 padding:3984""")
RECORD = Layout("RecordHeader", """magic:u32 header_crc:u32 payload_crc:u32 payload_length:u32 lsn:u64 durable_lsn:u64 self_offset:u64
    previous_header_crc:u32 kind:u8 flags:u8 reserved:u16""")


def read_header(file, database, claim=True):
    """Section 7.1, with the checks of section 3.1. Without a database, nothing is compared with a namer (7.3)."""
    need = file.need
    need(len(file) >= HEADER.size, 0, "shorter than its header")
    need(file.data[:8] == WAL_MAGIC, 0, "magic")
    h = file.read(0, HEADER, "log", claim)
    need(crc_with_zero(file.raw(0, HEADER), HEADER.offsets["crc"]) == h.crc, 0, "checksum of the header")
    need(h.major >= 1, 8, "version 0 was never released")
    if h.major > WAL_MAJOR:
        raise Newer(file.name, 8, f"log version {h.major}")
    if h.minor <= WAL_MINOR:
        file.reserved_is_zero(h, 0, HEADER)
    need(database in (None, h.database), 16, "of another database")
    need(database is None or file.name == f"w-{h.sequence:016x}.wal", 32, f"of sequence {h.sequence}")
    need(h.first_lsn >= 1, 56, "first_lsn is 0")
    need(max(h.first_lsn, h.sequence) <= COUNTER_MAX, 32, "above what is counted")
    need(h.has_link in (0, 1), 64, "has_link")
    link = (h.link_id, h.link_sequence, h.link_last_lsn, h.link_end_offset)
    if h.has_link:
        need(h.link_sequence < h.sequence, 88, "the link does not lead back")
        need(h.link_last_lsn == h.first_lsn - 1, 96, "link_last_lsn")
        need(h.link_end_offset >= START and h.link_end_offset % 8 == 0, 104, "link_end_offset")
    else:
        need(link == (bytes(16), 0, 0, 0), 72, "a link without has_link")
    return h


def valid_header(file, at, log_id):
    """The record header at `at` when it is valid (7.2), else None."""
    if at + RECORD.size > len(file):
        return None
    r = file.read(at, RECORD, "record", claim=False)
    ok = r.magic == RECORD_MAGIC and r.self_offset == at and r.payload_length <= RECORD_BYTES_MAX and r.reserved == 0 and max(r.lsn, r.durable_lsn) <= COUNTER_MAX
    return r if ok and crc32(file.data[at + 8:at + 48], log_id) == r.header_crc else None


def headers_anywhere(file, log_id):
    """Every valid record header at a multiple of 8 from the end of the header block on."""
    magic = RECORD_MAGIC.to_bytes(4, "little")
    at = file.data.find(magic, START)
    while at >= 0:
        if at % 8 == 0:
            header = valid_header(file, at, log_id)
            if header:
                yield header
        at = file.data.find(magic, at + 1)


class Scan:
    """The records that are whole and continue each other, and where they end (7.4)."""

    def __init__(self, file, header):
        self.file, self.header, self.records = file, header, []
        self.end, self.next_lsn, crc = START, header.first_lsn, 0
        while True:
            record = next((r for at in self.places() if (r := self.whole(at, crc))), None)
            if record is None:
                break
            at = record.self_offset
            self.records.append(record)
            self.end = align(at + RECORD.size + record.payload_length, 8)
            self.next_lsn, crc = record.lsn + 1, record.header_crc

    def places(self):
        """Where the next record may start: here, or at the next block."""
        yield self.end
        if self.end % 4096:
            yield align(self.end, 4096)

    def whole(self, at, previous_crc):
        r = valid_header(self.file, at, self.header.id)
        if not r or r.lsn != self.next_lsn or r.previous_header_crc != previous_crc:
            return None
        start = at + RECORD.size
        payload = self.file.data[start:start + r.payload_length]
        if len(payload) < r.payload_length or crc32(payload, self.header.id) != r.payload_crc:
            return None
        return r

    def durable(self):
        """The greatest durable lsn that any valid header of the log proves."""
        return max((r.durable_lsn for r in headers_anywhere(self.file, self.header.id)), default=0)

    def torn(self):
        """Whether anything but the zeros of the last record's block follows the records."""
        rest = self.file.data[self.end:]
        return any(rest) or len(rest) > align(self.end, 4096) - self.end

    def claim(self, last=None):
        """Claims records and the zeros between them; what follows the last one counted is named after what it is."""
        file, end = self.file, START
        for i, r in enumerate(self.records):
            if last is not None and r.lsn > last:
                break
            at = r.self_offset
            file.zeros(end, at, "between records")
            file.claim_record(at, RECORD, f"record {r.lsn}")
            end = at + RECORD.size + r.payload_length
            file.zeros(end, align(end, 8), "after a payload")
            end = align(end, 8)
        if end < len(file):
            if any(file.data[end:]):
                file.claim(end, len(file), "tail that does not count")
            else:
                file.zeros(end, len(file), "rest of the last block")
