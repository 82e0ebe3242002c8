"""Changes with checksums that fit: what a newer version, another program or a defect would write. Each says what the specification asks for.

`cases(db)` gives (name, change, status): `change(path)` edits a copy of the database, `status` is the exit status that a reader answers with.
The database that they are applied to was killed, so that its log holds records after the manifest.
"""

import json
import os
import struct

import head
import log
import manifest
import tombstones
from recovery import Database
from wire import File, align, crc32

OK, NOT_FOUND, CORRUPT, NEWER = 0, 10, 13, 14


def load(path):
    with open(path, "rb") as f:
        return bytearray(f.read())


def store(path, data):
    with open(path, "wb") as f:
        f.write(data)


def values(layout, data, at=0):
    return dict(zip((f[0] for f in layout.fields), layout.struct.unpack_from(data, at)))


def packed(layout, v):
    """The structure with its checksum set."""
    raw = bytearray(layout.struct.pack(*(dict(v, crc=0)[f[0]] for f in layout.fields)))
    at = layout.offsets["crc"]
    raw[at:at + 4] = struct.pack("<I", crc32(bytes(raw)))
    return bytes(raw)


def slot(which, **changes):
    """Changes fields of the chosen slot, of the other one, or of both."""
    def change(db):
        data = load(f"{db}/HEAD")
        chosen = head.choose(File("HEAD", bytes(data)))[1]
        for i in {"chosen": (chosen,), "other": (1 - chosen,), "both": (0, 1)}[which]:
            v = values(head.SLOT, data, i * head.SLOT.size)
            v.update((k, c(v[k]) if callable(c) else c) for k, c in changes.items())
            data[i * head.SLOT.size:(i + 1) * head.SLOT.size] = packed(head.SLOT, v)
        store(f"{db}/HEAD", data)
    return change


def body(edit=None, raw=None, **header):
    """Changes the manifest, and the slots so that they name it as it is then."""
    def change(db):
        number = Database(db).slot.manifest_number
        path = f"{db}/m-{number:016x}.manifest"
        data = load(path)
        v, text = values(manifest.HEADER, data), bytes(data[manifest.HEADER.size:])
        if edit:
            o = json.loads(text)
            edit(o)
            text = json.dumps(o).encode()
        if raw:
            text = raw(text)
        v.update(body_length=len(text), body_crc=crc32(text))
        v.update(header)
        data = packed(manifest.HEADER, v) + text
        store(path, data)
        slot("both", manifest_length=len(data), manifest_crc=crc32(data))(db)
    return change


def top(key, value):
    return body(lambda o: o.update({key: value}))


def collection(key, value):
    return body(lambda o: o["collections"][0].update({key: value}))


def schema(key, value):
    return body(lambda o: o["collections"][0]["schema"].update({key: value}))


def segment(key, value):
    return body(lambda o: o["collections"][0]["segments"][0].update({key: value}))


def active(db):
    scan = Database(db).logs[-1]
    return scan, f"{db}/{scan.file.name}"


def log_header(**changes):
    def change(db):
        _, path = active(db)
        data = load(path)
        data[:log.HEADER.size] = packed(log.HEADER, dict(values(log.HEADER, data), **changes))
        store(path, data)
    return change


def encoded(identity, at, lsn, previous, payload, kind=log.COMMIT, flags=0, reserved=0, durable=0):
    raw = bytearray(log.RECORD.struct.pack(log.RECORD_MAGIC, 0, crc32(payload, identity), len(payload), lsn, durable, at, previous, kind, flags, reserved))
    raw[4:8] = struct.pack("<I", crc32(bytes(raw[8:]), identity))
    return bytes(raw) + payload + bytes(-len(payload) % 8)


def record(payload, place=lambda end: end, **fields):
    """Appends a record to the active log."""
    def change(db):
        scan, path = active(db)
        at, last = place(scan.end), scan.records[-1].header_crc if scan.records else 0
        data = load(path)[:at].ljust(at, b"\0")
        store(path, data + encoded(scan.header.id, at, scan.next_lsn, last, payload, **fields))
    return change


def other_log(at=log.START, number=0xFFFF, break_header=False, **changes):
    """Puts another log beside, with a record at some offset."""
    def change(db):
        scan, path = active(db)
        v = dict(values(log.HEADER, load(path)), sequence=number, id=b"i" * 16, has_link=0, link_id=bytes(16), link_sequence=0, link_last_lsn=0,
                 link_end_offset=0, first_lsn=100, **changes)
        raw = bytearray(packed(log.HEADER, v))
        raw[200] ^= break_header
        store(f"{db}/w-{number:016x}.wal", bytes(raw).ljust(at, b"\0") + encoded(b"i" * 16, at, 100, 0, b"abc"))
    return change


def rotated(records=(), number=0x9999, before=None, **changes):
    """Continues the active log in another, as a rotation does, and lets the slots name that; `before` changes the predecessor first."""
    def change(db):
        scan, path = active(db)
        identity = b"r" * 16
        v = dict(values(log.HEADER, load(path)), sequence=number, id=identity, first_lsn=scan.next_lsn, has_link=1, link_id=scan.header.id,
                 link_sequence=scan.header.sequence, link_last_lsn=scan.next_lsn - 1, link_end_offset=scan.end)
        v.update(changes)
        data, at, last = packed(log.HEADER, v), log.START, 0
        for i, some in enumerate(records):
            raw = encoded(identity, at, v["first_lsn"] + i, last, some)
            last = struct.unpack_from("<I", raw, 4)[0]
            data, at = data + raw, at + len(raw)
        if before:
            before(db)
        store(f"{db}/w-{number:016x}.wal", data)
        slot("both", wal_sequence=number, wal_id=identity)(db)
    return change


def with_active(edit):
    """Changes the bytes of the active log: `edit(data, scan)` answers them, or None to remove the file."""
    def change(db):
        scan, path = active(db)
        data = edit(load(path), scan)
        if data is None:
            os.remove(path)
        else:
            store(path, data)
    return change


def dying_file(file_number, seqs, named=None, kind=tombstones.SEQS, **header):
    """A d- file with one envelope of dying seqs, and a record that names it."""
    def change(db):
        low = struct.pack("<HH", 0, len(seqs) - 1) + struct.pack("<I", 16) + struct.pack(f"<{len(seqs)}H", *seqs)
        inner = struct.pack("<QI", 1, 0) + struct.pack("<II", 12346, 1) + low
        v = {"magic": tombstones.ENVELOPE_MAGIC, "kind": kind, "body_length": len(inner), "items": len(seqs), "body_crc": crc32(inner), "crc": 0}
        raw = tombstones.ENVELOPE.struct.pack(*v.values())[:28]
        raw += struct.pack("<I", crc32(raw))
        database = Database(db)
        h = {"magic": tombstones.MAGIC, "major": 1, "minor": 0, "database": database.slot.database, "number": file_number, "reserved": bytes(24)}
        h.update(header)
        store(f"{db}/d-{file_number:016x}.tombstones", packed(tombstones.HEADER, h) + raw + inner)
        main = next(c.incarnation for c in database.manifest.collections if c.name == "main")
        dead = b"\2" + varints(file_number, len(raw) + len(inner)) + (named or raw[28:])
        commit(effects=effects(main, dead=dead))(db)
    return change


def varint(n):
    out = b""
    while n >= 128:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def varints(*numbers):
    return b"".join(map(varint, numbers))


def name(text):
    return varint(len(text.encode())) + text.encode()


def commit(change=None, effects=None):
    return record(payload(change, effects))


def payload(change=None, effects=None):
    some = [b"\0" if part is None else b"\1" + part for part in (change, effects)]
    return varints(1, 1 << 20, 1 << 20) + some[0] + some[1]


def effects(incarnation, rows=b"\0", landed=b"\0", dead=b"\0"):
    return varint(incarnation) + rows + landed + dead


def row(flags=0, identity="new", seq=150):
    return b"\1" + varint(seq) + bytes([flags]) + varint(5) + name(identity) + name("text")


SCHEMA = '{"metric":"dot","analyzer":"word","scorer":"okapi","extractor":"none","source_key":"k"}'
NEXT = 49
ZEROS = bytes(3968)


def slots():
    yield "chosen slot: padding", slot("chosen", padding=b"\1" + ZEROS[1:]), CORRUPT
    yield "other slot: padding", slot("other", padding=b"\1" + ZEROS[1:]), CORRUPT
    yield "chosen slot: reserved", slot("chosen", reserved=1), CORRUPT
    yield "chosen slot: minor 1 uses padding", slot("chosen", minor=1, padding=b"\1" + ZEROS[1:]), OK
    yield "other slot: minor 1 uses padding", slot("other", minor=1, padding=b"\1" + ZEROS[1:]), OK
    yield "chosen slot: major 2", slot("chosen", major=2), NEWER
    yield "chosen slot: major 0", slot("chosen", major=0), CORRUPT
    yield "other slot: major 2", slot("other", major=2), OK
    yield "other slot: major 0", slot("other", major=0), CORRUPT
    yield "chosen slot: incompatible flag", slot("chosen", incompatible=4), NEWER
    yield "other slot: incompatible flag", slot("other", incompatible=1 << 63), OK
    yield "chosen slot: read-only flag", slot("chosen", read_only_compatible=4), OK
    yield "chosen slot: compatible flag", slot("chosen", compatible=4), OK
    yield "slots: of one generation and content", slot("both", generation=77), OK
    yield "slots: of one generation, different", lambda db: (slot("both", generation=77)(db), slot("other", durable_lsn=0)(db)), CORRUPT
    yield "slots: of two databases", slot("other", database=b"x" * 16), CORRUPT
    yield "slots: of two databases, one newer", slot("other", database=b"x" * 16, major=2), OK
    yield "other slot: names no manifest", slot("other", manifest_number=0x7777), OK
    yield "chosen slot: names no manifest", slot("chosen", manifest_number=0x7777), CORRUPT
    yield "chosen slot: names no log", slot("chosen", wal_sequence=0x7777), CORRUPT
    yield "chosen slot: durable lsn beyond the log", slot("chosen", durable_lsn=1 << 40), CORRUPT
    yield "chosen slot: durable lsn 0", slot("chosen", durable_lsn=0), OK


def marks():
    mark = head.UNFINISHED_MAGIC.ljust(4096, b"\0")
    yield "HEAD: zeros, and files of a database", lambda db: store(f"{db}/HEAD", bytes(8192)), CORRUPT
    yield "HEAD: missing, and files of a database", lambda db: os.remove(f"{db}/HEAD"), CORRUPT
    yield "HEAD: the unfinished mark twice", lambda db: store(f"{db}/HEAD", mark + mark), NOT_FOUND
    yield "HEAD: the unfinished mark once", lambda db: store(f"{db}/HEAD", bytes(4096) + mark), NOT_FOUND
    yield "HEAD: the unfinished mark, and more", lambda db: store(f"{db}/HEAD", mark[:-1] + b"\1" + bytes(4096)), CORRUPT
    yield "HEAD: the unfinished mark, cut", lambda db: store(f"{db}/HEAD", mark[:-1]), CORRUPT
    yield "HEAD: a valid slot and the unfinished mark", mark_beside(mark), OK
    yield "HEAD and logs missing", lambda db: keep(db, "LOCK", "WITNESS"), NOT_FOUND
    yield "HEAD and all but an empty log missing", lambda db: (keep(db, "LOCK"), store(f"{db}/w-{77:016x}.wal", bytes(5000))), NOT_FOUND
    yield "HEAD and all but a log missing", lambda db: (keep(db), store(f"{db}/w-{77:016x}.wal", bytes(5000) + b"\1")), CORRUPT
    yield "HEAD missing, and a file of others", lambda db: (keep(db, "LOCK"), store(f"{db}/notes.txt", b"x")), NOT_FOUND
    yield "HEAD missing, a log, and a file of others", lambda db: (keep(db, "LOCK"), store(f"{db}/notes.txt", b"x"), store(f"{db}/w-{77:016x}.wal", b"")), CORRUPT


def mark_beside(mark):
    def change(db):
        data = load(f"{db}/HEAD")
        other = 1 - head.choose(File("HEAD", bytes(data)))[1]
        data[other * 4096:(other + 1) * 4096] = mark
        store(f"{db}/HEAD", data)
    return change


def keep(db, *names):
    """Removes all files but these."""
    for file in os.listdir(db):
        if file not in names:
            os.remove(f"{db}/{file}")


def manifests():
    yield "manifest: as it is, spaced otherwise", body(lambda o: None), OK
    yield "manifest: major 2", body(major=2), NEWER
    yield "manifest: minor 1 uses reserved", body(minor=1, reserved=b"\1" * 12), OK
    yield "manifest: reserved", body(reserved=b"\1" * 12), CORRUPT
    yield "manifest: number", body(number=0x7777), CORRUPT
    yield "manifest: database", body(database=b"x" * 16), CORRUPT
    yield "manifest: unknown keys", top("unknown", [1]), OK
    yield "segment: unknown keys", segment("unknown", {}), OK
    yield "schema: unknown keys", schema("unknown", 1), OK
    yield "manifest: applied_lsn", top("applied_lsn", "1"), CORRUPT
    yield "manifest: a number that is no string", top("next_seq", 9999), CORRUPT
    yield "manifest: next_seq below a segment", top("next_seq", "3"), CORRUPT
    yield "manifest: next_incarnation", top("next_incarnation", "1"), CORRUPT
    yield "manifest: incarnation 0", collection("incarnation", "0"), CORRUPT
    yield "segment: a length beyond any file", segment("length", str(2**64 - 1)), CORRUPT
    yield "segment: base_seq 0", segment("base_seq", "0"), CORRUPT
    yield "manifest: a key twice", body(raw=lambda t: t.replace(b'{"applied_lsn"', b'{"next_seq":"1","applied_lsn"', 1)), CORRUPT
    yield "manifest: white space around", body(raw=lambda t: b" " + t + b"\n"), OK
    yield "manifest: something after it", body(raw=lambda t: t + b"x"), CORRUPT
    yield "manifest: an array", body(raw=lambda t: b"[]"), CORRUPT
    for key, value, status in (("analyzer", "nope", CORRUPT), ("metric", 5, CORRUPT), ("source_key", "", CORRUPT), ("source_key", "k" * 1025, CORRUPT),
                               ("embedder", "", OK), ("embedder", None, OK), ("embedder", "é" * 512, OK), ("embedder", "e" * 1025, CORRUPT), ("dimension", 0, CORRUPT), ("dimension", 65536, CORRUPT),
                               ("components", "f8", CORRUPT), ("components", "f16", CORRUPT), ("components", "f32", OK),
                               ("leg_weights", {"vector": 0, "text": 1000000, "graph": 1}, OK),
                               ("leg_weights", {"vector": 1000001, "text": 1, "graph": 1}, CORRUPT),
                               ("leg_weights", {"vector": -1, "text": 1, "graph": 1}, CORRUPT),
                               ("leg_weights", {"vector": 1.5, "text": 1, "graph": 1}, CORRUPT),
                               ("dimension", "3", CORRUPT), ("dimension", None, CORRUPT)):
        yield f"schema: {key} {str(value)[:9]!r}", schema(key, value), status
    yield "collection: documents", collection("documents", "999"), CORRUPT
    yield "collection: no name", collection("name", ""), CORRUPT
    for key, value in (("rows", "5"), ("vectors", "1"), ("offset", "1"), ("crc", 1), ("crc", "1"), ("crc", -1), ("length", "64"), ("last_seq", "99999"),
                       ("file", "7777")):
        yield f"segment: {key} {value!r}", segment(key, value), CORRUPT


def logs():
    yield "log: major 2", log_header(major=2), NEWER
    yield "log: minor 1 uses padding", log_header(minor=1, padding=b"\1" * 3984), OK
    yield "log: padding", log_header(padding=b"\1" * 3984), CORRUPT
    yield "log: first lsn 0", log_header(first_lsn=0), CORRUPT
    yield "log: another database", log_header(database=b"x" * 16), CORRUPT
    yield "log: another identity", log_header(id=b"x" * 16), CORRUPT
    yield "log: link flag 2", log_header(has_link=2), CORRUPT
    yield "log: link fields without a link", log_header(link_last_lsn=4), CORRUPT
    yield "log: starts too late", log_header(first_lsn=50), CORRUPT
    for at in (4096, 4104, 8192):
        yield f"higher log: record at {at}", other_log(at), CORRUPT
    yield "higher log: another database", other_log(database=b"x" * 16), CORRUPT
    yield "higher log: newer", other_log(major=2), NEWER
    yield "higher log: header fails", other_log(break_header=True), OK
    yield "lower log", other_log(number=1), OK
    yield "record: at the next block", record(payload(), lambda end: align(end, 4096)), OK
    yield "record: 8 bytes late", record(payload(), lambda end: end + 8), OK
    yield "record: reserved", record(payload(), reserved=1), OK
    yield "record: flags", record(payload(), flags=1), NEWER
    yield "record: critical kind", record(payload(), kind=0x82), NEWER
    yield "record: kind that may be skipped", record(b"?", kind=1, flags=3), OK
    yield "record: proves lsns that are not there", record(payload(), durable=1 << 30), CORRUPT


def links():
    cut = with_active(lambda data, scan: data[:scan.end - 8])
    flip = with_active(lambda data, scan: data[:scan.end - 9] + bytes([data[scan.end - 9] ^ 1]) + data[scan.end - 8:])
    yield "link: to the log before", rotated(), OK
    yield "link: and records after it", rotated([payload(), payload()]), OK
    yield "link: bytes after the predecessor's end", rotated(before=record(payload())), OK
    yield "link: zeros after the predecessor's end gone", rotated(before=with_active(lambda data, scan: data[:scan.end])), OK
    yield "link: predecessor cut", rotated(before=cut), CORRUPT
    yield "link: predecessor changed", rotated(before=flip), CORRUPT
    yield "link: predecessor missing", rotated(before=with_active(lambda data, scan: None)), CORRUPT
    yield "link: another identity", rotated(link_id=b"x" * 16), CORRUPT
    yield "link: another sequence", rotated(link_sequence=1), CORRUPT
    yield "link: forward", rotated(number=2), CORRUPT
    yield "link: another end", rotated(link_end_offset=log.START), CORRUPT
    yield "link: an end that is no multiple of 8", rotated(link_end_offset=log.START + 4), CORRUPT
    yield "link: another last lsn", rotated(link_last_lsn=1), CORRUPT
    yield "link: lsns left out", rotated(first_lsn=100, link_last_lsn=99), CORRUPT


def dying(live):
    yield "dead: in a file", dying_file(0x8888, [live]), OK
    yield "dead: in a file, of a seq of no row", dying_file(0x8888, [60000]), CORRUPT
    yield "dead: in a file of another number", dying_file(0x8888, [live], number=0x8889), CORRUPT
    yield "dead: in a file of another database", dying_file(0x8888, [live], database=b"x" * 16), CORRUPT
    yield "dead: in a newer file", dying_file(0x8888, [live], major=2), NEWER
    yield "dead: in a file with reserved bytes", dying_file(0x8888, [live], minor=1, reserved=b"\1" * 24), OK
    yield "dead: another checksum", dying_file(0x8888, [live], named=bytes(4)), CORRUPT
    yield "dead: envelope of rows", dying_file(0x8888, [live], kind=tombstones.ROWS), CORRUPT
    yield "dead: envelope of an unknown kind", dying_file(0x8888, [live], kind=9), CORRUPT


def commits(main):
    yield "commit: nothing", commit(), OK
    yield "commit: a byte after it", record(payload() + b"x"), CORRUPT
    yield "commit: long varint", record(b"\x81\0" + varints(1 << 20, 1 << 20) + b"\0\0"), OK
    yield "row: new", commit(effects=effects(main, row())), OK
    yield "row: unknown flag", commit(effects=effects(main, row(64))), NEWER
    yield "row: source given without a source", commit(effects=effects(main, row(8))), CORRUPT
    yield "row: no id", commit(effects=effects(main, row(identity=""))), CORRUPT
    yield "row: a seq that was given before", commit(effects=effects(main, row(seq=1))), CORRUPT
    yield "row: a seq of the next commit", commit(effects=effects(main, row(seq=1 << 20))), CORRUPT
    yield "row: a vector", commit(effects=effects(main, row(4) + varint(3) + struct.pack("<3f", 1, 2, 3))), OK
    yield "row: a vector of another dimension", commit(effects=effects(main, row(4) + varint(4) + struct.pack("<4f", 1, 2, 3, 4))), CORRUPT
    twice = [effects(main, row(seq=seq, identity=f"new {seq}")) for seq in (150, 151)]
    begin = varints(1, 1 << 20, 1 << 20) + b"\0\2"
    yield "effects: a collection twice", record(begin + twice[0] + twice[1]), OK
    yield "effects: a collection twice, seqs that do not ascend", record(begin + twice[1] + twice[0]), CORRUPT
    yield "commit: next_seq goes back", record(varints(1, 1, 1 << 20) + b"\0\0"), CORRUPT
    yield "commit: next_incarnation goes back", record(varints(1, 1 << 20, 1) + b"\0\0"), CORRUPT
    yield "create: an incarnation of the next commit", commit(b"\1" + name("new") + varint(1 << 20) + name(SCHEMA)), CORRUPT
    yield "rename: onto its own name", commit(b"\4" + name("main") + name("main") + varint(main)), CORRUPT
    yield "effects: incarnation 0", commit(effects=effects(0)), CORRUPT
    yield "create: incarnation 0", commit(b"\1" + name("new") + varint(0) + name(SCHEMA)), CORRUPT
    yield "effects: no such incarnation", commit(effects=effects(NEXT)), CORRUPT
    yield "dead: unknown kind", commit(effects=effects(main, dead=b"\3")), NEWER
    yield "dead: a seq of no row", commit(effects=effects(main, dead=b"\1" + varint(30) + struct.pack("<QIIIHHIH", 1, 0, 12346, 1, 0, 0, 16, 9999))), CORRUPT
    yield "dead: file missing", commit(effects=effects(main, dead=b"\2" + varints(9999, 64) + bytes(4))), CORRUPT
    landed = b"\1" + varints(9999, 0, 4096) + bytes(4) + varints(150, 160, 1, 0, 0, 0)
    yield "landed: file missing", commit(effects=effects(main, landed=landed)), CORRUPT
    yield "catalog: unknown change", commit(b"\7" + bytes(20)), NEWER
    yield "create", commit(b"\1" + name("new") + varint(NEXT) + name(SCHEMA)), OK
    yield "create: half a schema", commit(b"\1" + name("new") + varint(NEXT) + name('{"metric":"dot"}')), CORRUPT
    yield "drop", commit(b"\2" + name("main") + varint(main)), OK
    yield "drop: unknown", commit(b"\2" + name("nobody") + varint(main)), CORRUPT
    yield "drop: another life", commit(b"\2" + name("main") + varint(NEXT)), CORRUPT
    yield "clear", commit(b"\3" + name("main") + varints(main, NEXT)), OK
    yield "clear: another life", commit(b"\3" + name("main") + varints(NEXT, NEXT + 1)), CORRUPT
    yield "rename", commit(b"\4" + name("main") + name("new") + varint(main)), OK
    yield "rename: unknown", commit(b"\4" + name("nobody") + name("new") + varint(main)), CORRUPT
    yield "swap", commit(b"\5" + name("main") + name("other")), OK
    yield "swap: with itself", commit(b"\5" + name("main") + name("main")), OK
    yield "swap: unknown", commit(b"\5" + name("main") + name("nobody")), CORRUPT
    yield "fix: the same dimension", commit(b"\6" + varints(main, 3)), OK
    yield "fix: 0", commit(b"\6" + varints(main, 0)), CORRUPT
    yield "fix: unknown", commit(b"\6" + varints(NEXT, 3)), CORRUPT


def stricter(db):
    """What the specification calls damage and the program lets pass: no program writes it, and no accident makes it."""
    main = next(c.incarnation for c in Database(db).manifest.collections if c.name == "main")
    yield "manifest: major 0", body(major=0), CORRUPT
    yield "log: major 0", log_header(major=0), CORRUPT
    yield "manifest: a number with a sign", top("next_seq", "+99999"), CORRUPT
    yield "create: a name that is there", commit(b"\1" + name("main") + varint(NEXT) + name(SCHEMA)), CORRUPT
    yield "create: an incarnation that is there", commit(b"\1" + name("new") + varint(main) + name(SCHEMA)), CORRUPT
    yield "rename: onto a name that is there", commit(b"\4" + name("main") + name("other") + varint(main)), CORRUPT
    yield "fix: another dimension", commit(b"\6" + varints(main, 4)), CORRUPT


def cases(db):
    """All of them, for a database with collections `main` and `other` of 3 components."""
    database = Database(db)
    main = next(c.incarnation for c in database.manifest.collections if c.name == "main")
    database.load()
    live = max(s for s in database.collections[main].live if s < 60000)
    for group in (slots(), marks(), manifests(), logs(), links(), commits(main), dying(live)):
        yield from group
