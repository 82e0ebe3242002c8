"""Tables of format-spec.md, for tests that hold this reader against it."""

import os
import re

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "format-spec.md")


def text():
    with open(PATH, encoding="utf-8") as f:
        return f.read()


def rows_after(heading, columns):
    """The rows of the first table of so many columns after a line that begins with `heading`."""
    lines = text().split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(heading))
    found = []
    for line in lines[start + 1:]:
        cells = [c.strip() for c in line.strip().strip("|").split(" | ")] if line.startswith("| ") else []
        if len(cells) == columns and cells[0] != "---":
            found.append([c.strip("` ") for c in cells])
        elif found and not line.startswith("|"):
            break
    return found[1:]


def structures():
    """{name: [(offset, bytes, field, type)]} of every structure with a size in its heading."""
    found, name = {}, None
    for line in text().split("\n"):
        heading = re.match(r"#+ [\w.]+ (\w+) \((\d+) bytes\)$", line)
        if heading:
            name = heading.group(1)
            found[name] = (int(heading.group(2)), [])
        elif line.startswith("#"):
            name = None
        elif name:
            row = re.match(r"\| (\d+) \| (\d+) \| `(\w+)` \| `([^`]+)` \|", line)
            if row:
                found[name][1].append((int(row.group(1)), int(row.group(2)), row.group(3), row.group(4)))
    return found


def constants():
    """{name: value} of every table of constants; bytes where it is written in hexadecimal."""
    found = {}
    tables = re.findall(r"^\| constant \| value \| meaning \|\n((?:\|.*\n)+)", text(), re.M)
    for name, value in re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \|", "".join(tables), re.M):
        value = value.strip("` ")
        if value.startswith("0x"):
            found[name] = int(value, 16)
        elif re.fullmatch(r"[\d,]+", value):
            found[name] = int(value.replace(",", ""))
        else:
            found[name] = bytes.fromhex(value)
    return found
