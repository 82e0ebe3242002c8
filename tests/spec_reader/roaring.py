"""Roaring bitmaps in the portable serialisation (format-spec.md, section 22)."""

NO_RUNS, WITH_RUNS = 12346, 12347
ARRAY_MAX = 4096


def read32(cursor):
    """The members of a 32-bit bitmap, ascending; the cursor stands behind it afterwards."""
    start = cursor.pos
    need = cursor.file.need
    cookie = cursor.u32("cookie")
    if cookie & 0xFFFF == WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = cursor.take((count + 7) // 8, "run flags")
        runs = [flags[i // 8] >> (i % 8) & 1 for i in range(count)]
        has_offsets = count >= 4
    else:
        need(cookie == NO_RUNS, start, f"a bitmap begins with {cookie:#x}")
        count = cursor.u32("containers")
        need(count <= 65536, start, "too many containers")
        runs, has_offsets = [0] * count, True
    keys = [(cursor.u16("key"), cursor.u16("cardinality") + 1) for _ in range(count)]
    offsets = [cursor.u32("offset") for _ in range(count)] if has_offsets else None
    members, before = [], -1
    for i, (key, cardinality) in enumerate(keys):
        need(key > before, cursor.pos, "keys of containers do not ascend")
        before = key
        need(offsets is None or offsets[i] == cursor.pos - start, cursor.pos, "offset of a container")
        low = container(cursor, runs[i], cardinality)
        need(len(low) == cardinality, cursor.pos, "cardinality of a container")
        need(all(a < b for a, b in zip(low, low[1:])), cursor.pos, "a container does not ascend")
        members += [key << 16 | v for v in low]
    return members


def container(cursor, is_run, cardinality):
    if is_run:
        low = []
        for _ in range(cursor.u16("runs")):
            first, more = cursor.u16("run"), cursor.u16("run")
            cursor.file.need(first + more <= 65535, cursor.pos, "a run leaves its container")
            low += range(first, first + more + 1)
        return low
    if cardinality <= ARRAY_MAX:
        data = cursor.take(2 * cardinality, "array")
        return [data[i] | data[i + 1] << 8 for i in range(0, len(data), 2)]
    words = int.from_bytes(cursor.take(8192, "bits"), "little")
    return [i for i in range(65536) if words >> i & 1]


def read64(cursor):
    """Section 13.4: the members of a 64-bit bitmap, to the cursor's end."""
    members, before = [], -1
    for _ in range(cursor.u64("parts")):
        upper = cursor.u32("upper half")
        cursor.file.need(upper > before, cursor.pos, "upper halves do not ascend")
        before = upper
        low = read32(cursor)
        cursor.file.need(low, cursor.pos, "an empty part")
        members += [upper << 32 | v for v in low]
    cursor.finish("the last part")
    return members
