"""python3 tests/spec_reader DB (dump | verdict | account | fields): reads a Triune database by format-spec.md alone."""

import json
import sys

from account import Account
from dump import dump
from verdict import verdict
from wire import Problem

STATUS = {"clean": 0, "torn-tail": 0, "not-found": 10, "corrupt": 13, "unsupported": 14}


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
