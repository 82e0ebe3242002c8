"""The LZ4 block format (format-spec.md, section 23): a block without frame, size or dictionary."""


def decompress(data, raw_length):
    """Exactly raw_length bytes, or None for a block that is not one."""
    out, pos, end = bytearray(), 0, len(data)

    def more(value):
        nonlocal pos
        while value >= 15:
            if pos >= end:
                return None
            byte = data[pos]
            pos += 1
            value += byte
            if byte != 255:
                break
        return value

    while pos < end:
        token = data[pos]
        pos += 1
        literals = more(token >> 4)
        if literals is None or pos + literals > end or len(out) + literals > raw_length:
            return None
        out += data[pos:pos + literals]
        pos += literals
        if pos == end:
            return bytes(out) if len(out) == raw_length else None
        if pos + 2 > end:
            return None
        distance = data[pos] | data[pos + 1] << 8
        pos += 2
        length = more(token & 15)
        if length is None or not 1 <= distance <= len(out) or len(out) + length + 4 > raw_length:
            return None
        start, length = len(out) - distance, length + 4
        while length > 0:
            piece = out[start:start + length]
            out += piece
            length -= len(piece)
            start += len(piece)
    return None
