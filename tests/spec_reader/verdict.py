"""What opening a database comes to (format-spec.md, sections 7.4, 14)."""

from account import Account
from recovery import Database
from wire import Problem


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
