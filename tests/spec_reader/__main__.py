"""python3 tests/spec_reader DB (dump | verdict | account | fields): reads a Triune database by format-spec.md alone."""

import json
import sys

from account import Account
from dump import dump
from recovery import Database
from wire import Problem

STATUS = {"clean": 0, "torn-tail": 0, "not-found": 10, "corrupt": 13, "unsupported": 14}


def verdict(path, deep=True):
    """What opening says; with `deep`, also what reading every byte says. `remarks` are bytes that must be zero and are not, or that nothing explains."""
    try:
        database = Database(path)
        remarks = Account(path).errors if deep else []
    except Problem as p:
        return {"verdict": p.kind, "file": p.file, "offset": p.offset, "what": p.what}
    scan = database.logs[-1]
    return {"verdict": "torn-tail" if database.torn else "clean", "lsn": str(scan.next_lsn - 1), "applied_lsn": str(database.slot.applied_lsn),
            "slot": database.index, "logs": [s.file.name for s in database.logs], "remarks": remarks}


def main(arguments):
    if len(arguments) != 2 or arguments[1] not in ("dump", "verdict", "account", "fields"):
        print(__doc__, file=sys.stderr)
        return 2
    path, command = arguments
    if command == "verdict":
        said = verdict(path)
        print(json.dumps(said))
        return STATUS[said["verdict"]]
    try:
        if command == "dump":
            sys.stdout.buffer.write(dump(path))
            return 0
        account = Account(path)
    except Problem as p:
        print(f"{p.kind}: {p}", file=sys.stderr)
        return STATUS[p.kind]
    if command == "fields":
        for name in account.database.names:
            for start, end, what in sorted(account.database.file(name).claims):
                print(f"{name} {start} {end} {what}")
    for error in account.errors:
        print(error, file=sys.stderr)
    print(f"{account.claimed} of {account.total} bytes in {len(account.database.names)} files are accounted for", file=sys.stderr)
    return 13 if account.errors or account.claimed != account.total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
