"""Tables of characters as Rust source: what `unicode_table.py` and `bert_characters.py` share. Standard library only."""


def scalars():
    """Every Unicode scalar value, as a string of one character."""
    return (chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF)


def ranges(codes):
    """Inclusive ranges of ascending code points."""
    found = []
    for code in codes:
        if found and found[-1][1] + 1 == code:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def emit(visibility, name, doc, kind, items, per_line):
    """Prints a table, so many items a line."""
    print(f"\n/// {doc}")
    print(f"{visibility} static {name}: [{kind}; {len(items)}] = [")
    for i in range(0, len(items), per_line):
        print("    " + ", ".join(items[i : i + per_line]) + ",")
    print("];")


def emit_ranges(visibility, name, doc, codes, per_line):
    """Prints a table of inclusive ranges."""
    emit(visibility, name, doc, "(u32, u32)", [f"({a:#x}, {b:#x})" for a, b in ranges(codes)], per_line)
