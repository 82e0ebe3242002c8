"""The smallest databases, byte by byte: makes section 25 of format-spec.md, and holds the section against a binary.

    python3 tests/spec_reader/hexdump.py --bin target/release/triune            prints the section's listings
    python3 tests/spec_reader/hexdump.py --bin target/release/triune --check    compares them with format-spec.md

Bytes that differ from one database to the next (identities, times, and the checksums over them) are printed as `~`.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time

from account import Account
from shapes import Triune

SPEC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "format-spec.md")
DOCUMENT = {"id": "a", "text": "Hi"}
ENTRY_FIELDS = ("kind", "flags", "crcs_crc", "offset", "length", "items", "aux", "crcs_offset")
WIDTH = 24


def fields(db):
    """(file, start, end, what, bytes) of every claim, entries of section tables as one."""
    account = Account(db)
    if account.errors:
        raise RuntimeError(account.errors[0])
    found = []
    for name in account.database.names:
        file = account.database.file(name)
        for start, end, what in sorted(file.claims):
            table = re.match(r"(.*\.)?((?:copy of the )?section table\.\w+)\.(\w+)$", what)
            what = table.group(2) if table else re.sub(r"^main\[0\]\.", "", what)
            if table and found and found[-1][3] == what and found[-1][0] == name:
                start = found.pop()[1]
            found.append((name, start, end, what, file.data[start:end]))
    return found


def shown(data):
    if not any(data):
        return f"{len(data)} x 00" if len(data) > 8 else data.hex(" ").upper()
    if len(data) <= WIDTH:
        return data.hex(" ").upper()
    return data[:WIDTH].hex(" ").upper() + f" ... ({len(data)} bytes)"


def entry(data, other):
    """A table entry with its numbers, the checksum masked when it varies."""
    from segment import ENTRY
    values, others = ENTRY.struct.unpack(data), ENTRY.struct.unpack(other)
    pairs = [(f, f"{a:08X}" if f == "crcs_crc" else a, a == b) for (f, _, _), a, b in zip(ENTRY.fields, values, others) if f in ENTRY_FIELDS]
    return " ".join(f"{f} {a if same else '~'}" for f, a, same in pairs)


def varies(what, with_segments):
    """Whether a field is masked whatever two databases have there: lengths follow the digits of checksums in a manifest's body."""
    return with_segments and what.endswith(("manifest_length", "body_length"))


def body_lines(data):
    text = re.sub(r'"crc":\d+', '"crc":~', data.decode())
    text = re.sub(r'"content_hash":"\d+"', '"content_hash":"~"', text)
    return [" " * 19 + text[i:i + 100] for i in range(0, len(text), 100)]


def listing(a, b, only=""):
    """The lines for two databases that were made alike, of all files or of those whose names begin so."""
    lines, file = [], None
    seen, others = fields(a), fields(b)
    with_segments = any(name.endswith(".segments") for name, *_ in seen)
    for (name, start, end, what, data), (*_, other) in zip(seen, others, strict=True):
        if not name.startswith(only):
            continue
        loose = with_segments and name.endswith(".manifest")
        if name != file:
            size = "~" if loose else f"{os.path.getsize(os.path.join(a, name)):,}"
            lines += [""] * bool(lines) + [f"{name} ({size} bytes)"]
            file = name
        if what == "manifest.body":
            lines.append(f"{start:8} {'~' if loose else end:>8}  {what}")
            lines += body_lines(data)
            continue
        same = data == other and not varies(what, with_segments)
        text = entry(data, other) if "section table." in what else shown(data) if same else "~"
        lines.append(f"{start:8} {end:8}  {what:36} {text}".rstrip())
    return lines


def make(t, directory):
    """For each case the listing of two databases, made some time apart so that what varies does."""
    made = []
    for i in range(2):
        db = os.path.join(directory, f"db{i}")
        t.run("create", db)
        made.append(db)
        time.sleep(0.1)
    yield "empty", "A new database, after `triune create DB`", listing(*made)
    for db in made:
        live = db + "-live"
        shutil.copytree(db, live)
        t.load_and_kill(live, [DOCUMENT], 1)
        t.run("put", db, json.dumps(DOCUMENT))
        time.sleep(0.1)
    title = f"The same, after `triune put DB '{json.dumps(DOCUMENT)}'`"
    yield "one", title, listing(*made)
    title = "The active log of the first database with the commit of that document, before the process that made it has closed it"
    yield "log", title, listing(*(db + "-live" for db in made), only="w-0000000000000005")


def block(name, lines):
    return f"<!-- listing {name} -->\n```\n" + "\n".join(lines) + "\n```\n"


def matches(written, seen):
    """Whether a line of the specification allows one of a database: `~` stands for anything."""
    pattern = ".*".join(re.escape(part) for part in written.split("~"))
    return re.fullmatch(pattern, seen) is not None


def check(name, lines, spec):
    found = re.search(rf"<!-- listing {name} -->\n```\n(.*?)\n```\n", spec, re.S)
    if not found:
        return [f"format-spec.md has no listing {name}"]
    written = found.group(1).split("\n")
    if len(written) != len(lines):
        return [f"listing {name} has {len(written)} lines in format-spec.md, {len(lines)} here"]
    return [f"listing {name}: `{w}` in format-spec.md, `{s}` here" for w, s in zip(written, lines) if not matches(w, s)]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bin", required=True)
    p.add_argument("--check", action="store_true")
    args = p.parse_args()
    with open(SPEC, encoding="utf-8") as f:
        spec = f.read()
    problems = []
    with tempfile.TemporaryDirectory() as directory:
        for name, title, lines in make(Triune(os.path.abspath(args.bin)), directory):
            if args.check:
                problems += check(name, lines, spec)
            else:
                print(f"{title}:\n\n{block(name, lines)}")
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
