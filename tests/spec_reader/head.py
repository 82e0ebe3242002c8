"""HEAD and WITNESS (format-spec.md, sections 4 and 5)."""

from wire import COUNTER_MAX, Damage, Layout, Newer, crc_with_zero

HEAD_MAGIC = b"TRIUNEHD"
UNFINISHED_MAGIC = b"TRIUNEUF"
WITNESS_MAGIC = b"TRIUNEWT"
FORMAT_MAJOR, FORMAT_MINOR = 1, 0
SLOT_BYTES = 4096

SLOT = Layout("HeadSlot", """magic:8 generation:u64 major:u16 minor:u16 crc:u32 compatible:u64 read_only_compatible:u64 incompatible:u64
    database:16 manifest_number:u64 manifest_length:u64 manifest_crc:u32 reserved:u32 applied_lsn:u64 wal_sequence:u64 wal_id:16
    durable_lsn:u64 padding:3968""")
WITNESS = Layout("WitnessSlot", "magic:8 wal_id:16 durable_lsn:u64 durable_offset:u64 crc:u32 padding:468")


def valid_slot(file, at):
    """The slot at `at`, or None: section 4.2."""
    raw = file.raw(at, SLOT)
    if len(raw) < SLOT.size or raw[:8] != HEAD_MAGIC:
        return None
    slot = file.read(at, SLOT, f"slot {at // SLOT_BYTES}", claim=False)
    return slot if crc_with_zero(raw, SLOT.offsets["crc"]) == slot.crc else None


def unfinished(file):
    """Whether HEAD carries the unfinished mark (4.4)."""
    mark = UNFINISHED_MAGIC.ljust(SLOT_BYTES, b"\0")
    return any(file.data[i * SLOT_BYTES:(i + 1) * SLOT_BYTES] == mark for i in (0, 1))


def newer(slot):
    """Whether a valid slot may not be touched by this version."""
    return slot.major > FORMAT_MAJOR or slot.incompatible != 0


def choose(file):
    """Section 4.2: (the chosen slot, its index, the other valid slot), or None when no slot is valid."""
    slots = [valid_slot(file, i * SLOT_BYTES) for i in (0, 1)]
    found = [i for i in (0, 1) if slots[i]]
    if not found:
        return None
    if len(found) == 2:
        a, b = slots
        if a.generation == b.generation and a != b:
            raise Damage("HEAD", 0, f"two slots of generation {a.generation} differ")
        # Where the database stands is known only in a version that is understood.
        if not newer(a) and not newer(b) and a.database != b.database:
            raise Damage("HEAD", 0, "two slots of two databases")
    index = max(found, key=lambda i: slots[i].generation)
    slot, at = slots[index], index * SLOT_BYTES
    if newer(slot):
        raise Newer("HEAD", at, f"version {slot.major}.{slot.minor}, incompatible flags {slot.incompatible:#x}")
    for i in found:
        if not newer(slots[i]):
            file.need(slots[i].major >= 1, i * SLOT_BYTES, "version 0 was never released")
            counters = ("generation", "manifest_number", "applied_lsn", "wal_sequence", "durable_lsn")
            file.need(all(slots[i][k] <= COUNTER_MAX for k in counters), i * SLOT_BYTES, "above what is counted")
            if slots[i].minor <= FORMAT_MINOR:
                file.reserved_is_zero(slots[i], i * SLOT_BYTES, SLOT)
    return slot, index, slots[1 - index]


def claim_head(file):
    for i in (0, 1):
        at = i * SLOT_BYTES
        if valid_slot(file, at):
            file.claim_record(at, SLOT, f"slot {i}")
        elif at < len(file):
            file.claim(at, min(at + SLOT_BYTES, len(file)), f"slot {i} (not valid)")
    if len(file) > 2 * SLOT_BYTES:
        file.claim(2 * SLOT_BYTES, len(file), "after the slots")


def witness(file):
    """The greatest durable lsn that WITNESS proves; 0 without evidence (section 5)."""
    best = 0
    for i in (0, 1):
        at = i * WITNESS.size
        raw = file.raw(at, WITNESS)
        record = None
        if len(raw) == WITNESS.size and raw[:8] == WITNESS_MAGIC:
            record = file.read(at, WITNESS, f"record {i}", claim=False)
            if crc_with_zero(raw, WITNESS.offsets["crc"]) != record.crc or record.durable_lsn > COUNTER_MAX:
                record = None
        if record:
            file.claim_record(at, WITNESS, f"record {i}")
            best = max(best, record.durable_lsn)
        elif at < len(file):
            file.claim(at, min(at + WITNESS.size, len(file)), f"record {i} (none)")
    if len(file) > 2 * WITNESS.size:
        file.claim(2 * WITNESS.size, len(file), "after the records")
    return best
