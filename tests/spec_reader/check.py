"""Holds a `triune` binary against the specification, by the reader in this folder.

    python3 tests/spec_reader/check.py --bin target/release/triune [--damages 200] [--only shapes,damages,forgeries,graphs,hexdump,images] [--shape NAME]
                                       [--first N] [--images DIR]

Databases of many shapes: the reader's dump is that of the binary byte for byte, and every byte of every file is accounted for. Random damages and
forgeries of a small one: both answer alike. So they do of the images of crashes and damages that `tests/it/images.rs` has written to a folder. Ends
with status 1 and a line for each difference.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter

import forgeries
import graph_forgeries
import hexdump
import shapes
from account import Account
from damages import Damaged
from dump import dump
from verdict import verdict
from wire import Problem

STATUS = {"not-found": 10, "corrupt": 13, "unsupported": 14}


def ours(db):
    """(exit status, dump or message) of the reader."""
    try:
        return 0, dump(db)
    except Problem as p:
        return STATUS[p.kind], f"{p.kind}: {p}"


def full(db):
    """What is wrong anywhere, also where a dump does not look; None when nothing is."""
    try:
        errors = Account(db).errors
    except Problem as p:
        return f"{p.kind}: {p}"
    return errors[0] if errors else None


def difference(t, db):
    """Where binary and reader differ on a database, or None; and the status that both answer."""
    status, answer = ours(db)
    done = t.run("dump", db, ok=False)
    theirs = done.returncode
    said = done.stderr.decode("utf-8", "replace").split("\n")[0][:300]
    if theirs == 0 and status == 0:
        return (None if done.stdout == answer else "the dumps differ"), 0
    if theirs == status:
        return None, status
    # The binary may read derived sections early: then the reader finds the damage when it reads everything.
    if status == 0 and theirs == 13 and full(db):
        return None, 13
    return f"the reader answers {status} ({answer if status else 'a dump'}), the binary {theirs} ({said})", status


def fsck_difference(t, db, status):
    """Where `triune fsck` grades a database otherwise than the reader, or None."""
    if status == 10:
        allowed = (1, 10)
    elif status == 14:
        allowed = (8, 14)
    elif status == 13:
        # What the reader finds only when it reads everything is derived.
        allowed = (8,) if ours(db)[0] == 13 else (4, 8)
    else:
        wrong = full(db)
        if wrong is None:
            # A missing LOCK stops writers and nothing else.
            allowed = (0, 1) if os.path.exists(os.path.join(db, "LOCK")) else (4,)
        else:
            allowed = (1,) if "zero: " in wrong else (4, 8)
    done = t.run("fsck", db, "--level", "3", ok=False)
    if done.returncode in allowed:
        return None
    said = " / ".join(done.stdout.decode("utf-8", "replace").split("\n")[:6])[:300]
    return f"the reader expects fsck to end with one of {allowed} ({full(db) or 'nothing wrong'}), it ends with {done.returncode} ({said})"


def check_shapes(t, directory, args):
    problems = []
    for shape in shapes.SHAPES:
        if args.shape and shape.__name__ != args.shape:
            continue
        db = os.path.join(directory, shape.__name__)
        shapes.make(t, shape, db)
        found, status = difference(t, db)
        problems += [f"{shape.__name__}: {p}" for p in (found, full(db), fsck_difference(t, db, status)) if p]
        print(f"shape {shape.__name__}: {sum(os.path.getsize(os.path.join(db, n)) for n in os.listdir(db)):,} bytes", flush=True)
        shutil.rmtree(db)
    return problems


def small(t, db, seed, kill):
    """A small database with every kind of file, and with records in its log when it is killed."""
    rng = random.Random(seed)
    t.run("create", db)
    t.run("create", db, "--collection", "other", "--dim", "3")
    for name in ("other", "main"):
        t.load(db, [shapes.document(rng, i, 3) for i in range(30)], "--collection", name)
    t.run("delete", db, "--id", "doc-3", "--collection", "other")
    t.run("delete", db, "--source", "file-3.md")
    if kill:
        t.load_and_kill(db, [shapes.document(rng, i + 20, 3) for i in range(12)], 8)


def bases(t, directory):
    """Three small databases: closed; with a live log; and with a live log of which nothing is known to be durable."""
    made = [os.path.join(directory, n) for n in ("closed", "killed", "buffered")]
    for i, db in enumerate(made[:2]):
        small(t, db, i, kill=i == 1)
    shapes.killed_buffered(t, made[2], random.Random(2))
    return made


def check_damages(t, directory, args):
    made, problems, seen = bases(t, directory), [], Counter()
    for number in range(args.first, args.first + args.damages):
        source, other = made[number % 3], made[(number + 1) % 3]
        damaged = Damaged(source, other, os.path.join(directory, "damaged"), number)
        found, status = difference(t, damaged.target)
        seen[status] += 1
        for problem in (found, fsck_difference(t, damaged.target, status)):
            if problem:
                problems.append(f"damage {number} ({damaged.said}): {problem}")
    print("damages, by exit status:", dict(seen), flush=True)
    if args.damages >= 100 and not (seen[0] and seen[13]):
        problems.append("the damages do nothing, or everything")
    return problems


def check_forgeries(t, directory, args):
    source = bases(t, directory)[1]
    target, problems, number = os.path.join(directory, "forged"), [], 0
    for name, change, expected in forgeries.cases(source):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("BALLAST"))
        change(target)
        found, status = difference(t, target)
        number += 1
        if status != expected:
            problems.append(f"forgery `{name}`: the specification asks for {expected}, the reader answers {status}")
        if found:
            problems.append(f"forgery `{name}`: {found}")
    lenient = []
    for name, change, expected in forgeries.stricter(source):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("BALLAST"))
        change(target)
        status = ours(target)[0]
        if status != expected:
            problems.append(f"forgery `{name}`: the specification asks for {expected}, the reader answers {status}")
        if t.run("dump", target, ok=False).returncode != expected:
            lenient.append(name)
    print(f"forgeries: {number}; passed by the binary though they are damage: {', '.join(lenient) or 'none'}", flush=True)
    return problems


def check_graphs(t, directory, args):
    """Forged vector graphs: the reader and `triune fsck` find the same."""
    target, problems, number = os.path.join(directory, "graphs"), [], 0
    cases = [(graph_forgeries.FIXTURE, *case) for case in graph_forgeries.cases()]
    cases += [(graph_forgeries.WIDE_FIXTURE, *case) for case in graph_forgeries.wide_cases()]
    for fixture, name, change, sound in cases:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(fixture, target, ignore=shutil.ignore_patterns("expected*"))
        change(target)
        found, status = full(target), t.run("fsck", target, "--level", "3", ok=False).returncode
        number += 1
        if (found is None) != sound:
            problems.append(f"graph `{name}`: the specification {'allows' if sound else 'forbids'} it, the reader says {found}")
        # Fixtures have no BALLAST, which is benign.
        if status not in ((0, 1) if sound else (4,)):
            problems.append(f"graph `{name}`: fsck ends with {status}")
    print(f"forged vector graphs: {number}", flush=True)
    return problems


def check_hexdump(t, directory, args):
    problems = []
    with open(hexdump.SPEC, encoding="utf-8") as f:
        spec = f.read()
    for name, _, lines in hexdump.make(t, directory):
        problems += hexdump.check(name, lines, spec)
    return problems


def image_difference(db, expected):
    """Where the reader differs from what the library said of an image, or None."""
    status, answer = ours(db)
    if status == 0:
        said = verdict(db, deep=False)
        if (said["verdict"], said["lsn"]) == (expected["verdict"], expected["lsn"]):
            return None if answer == expected["dump"].encode() else "the dumps differ"
        # As in `difference`: damage that the library has come by early.
        if expected["verdict"] == "corrupt" and full(db):
            return None
        return f"the reader says {said['verdict']} at lsn {said['lsn']}"
    if status == STATUS.get(expected["verdict"]):
        return None
    return f"the reader says {answer}"


def check_images(t, directory, args):
    if not args.images:
        return []
    problems, seen = [], Counter()
    for name in sorted(n for n in os.listdir(args.images) if n.endswith(".json")):
        with open(os.path.join(args.images, name), encoding="utf-8") as f:
            expected = json.load(f)
        found = image_difference(os.path.join(args.images, name[:-5]), expected)
        seen[expected["verdict"]] += 1
        if found:
            said = f"{expected['verdict']} at lsn {expected['lsn']}"
            problems.append(f"image {name[:-5]} ({expected['what']}): the library says {said}, {found}")
    print(f"images of crashes and damages: {sum(seen.values())}, by verdict:", dict(seen), flush=True)
    if not all(seen[v] for v in ("clean", "torn-tail", "not-found", "corrupt")):
        problems.append("the images do not reach every verdict")
    return problems


PARTS = {"shapes": check_shapes, "damages": check_damages, "forgeries": check_forgeries, "graphs": check_graphs, "hexdump": check_hexdump,
         "images": check_images}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", required=True, help="the binary")
    p.add_argument("--damages", type=int, default=200, help="how many")
    p.add_argument("--first", type=int, default=0, help="the number of the first damage")
    p.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    p.add_argument("--images", help="a folder that tests/it/images.rs has written")
    p.add_argument("--shape", help="this shape only")
    args = p.parse_args()
    t, problems = shapes.Triune(os.path.abspath(args.bin)), []
    for part in args.only.split(","):
        with tempfile.TemporaryDirectory(prefix="triune-spec-") as directory:
            problems += PARTS[part](t, directory, args)
    for problem in problems:
        print("DIFFERENCE", problem)
    print(f"{len(problems)} differences")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
