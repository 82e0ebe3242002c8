"""Finite state transducers (format-spec.md, section 21): a map from byte strings to numbers.

`Fst.pairs` walks every node once and claims its bytes, so that an fst with unreachable bytes is noticed.
"""

VERSION, MAP_TYPE, HEADER_BYTES, FOOTER_BYTES = 3, 0, 16, 20
EMPTY = 0
KEY_BYTES_MAX = 4096
INDEX_ABOVE = 32
# The inputs with a number of their own, from 1 to 63.
COMMON = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"


def table():
    rows = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ 0x82F63B78 if n & 1 else n >> 1
        rows.append(n)
    return rows


TABLE = table()


def masked_crc32c(data):
    """CRC-32C, turned right by 15 bits, plus 0xA282EAD8."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF


class Node:
    """A state: whether it ends a key, with what output, and its transitions (byte, output, address)."""

    def __init__(self, final, output, transitions, start):
        self.final, self.output, self.transitions, self.start = final, output, transitions, start


class Fst:
    """The bytes from `start` to `start + length` of a file."""

    def __init__(self, file, start, length, what):
        self.file, self.start, self.length, self.what = file, start, length, what
        self.data = file.data[start:start + length]
        self.need(length >= HEADER_BYTES + FOOTER_BYTES, 0, "shorter than header and footer")
        self.need(self.number(0, 8) == VERSION, 0, f"version {self.number(0, 8)}")
        self.need(self.number(8, 8) == MAP_TYPE, 8, f"type {self.number(8, 8)}")
        self.keys = self.number(length - 20, 8)
        self.root = self.number(length - 12, 8)
        self.need(self.number(length - 4, 4) == masked_crc32c(self.data[:-4]), length - 4, "checksum")
        self.need(self.root == EMPTY or HEADER_BYTES <= self.root < length - FOOTER_BYTES, length - 12, "root")

    def need(self, condition, at, what):
        self.file.need(condition, self.start + at, f"{self.what}: fst {what}")

    def number(self, at, size):
        return int.from_bytes(self.data[at:at + size], "little")

    def node(self, address):
        """The node whose last byte is at `address`; it is read backwards."""
        if address == EMPTY:
            return Node(True, 0, [], None)
        self.need(HEADER_BYTES <= address < self.length - FOOTER_BYTES, 0, f"address {address}")
        state, at = self.data[address], address
        if state >= 0x80:
            return self.single(state, at)
        final, count = bool(state & 0x40), state & 0x3F
        if count == 0:
            at -= 1
            count = self.data[at]
            # One transition never needs this byte, so 1 stands for 256.
            count = 256 if count == 1 else count
        at -= 1
        wide, narrow = self.data[at] >> 4, self.data[at] & 15
        if count > INDEX_ABOVE:
            at -= 256
            index = at
        at -= count
        inputs = self.data[max(at, 0):at + count][::-1]
        if count > INDEX_ABOVE:
            slots = {byte: i for i, byte in enumerate(inputs)}
            self.need(all(self.data[index + b] == slots.get(b, 255) for b in range(256)), index, "index of inputs")
        addresses_end = at
        at -= wide * count
        outputs_end = at
        at -= narrow * count + (narrow if final else 0)
        self.need(at >= HEADER_BYTES, address, "a node leaves the fst")
        transitions = []
        for i, byte in enumerate(inputs):
            delta = self.number(addresses_end - wide * (i + 1), wide)
            output = self.number(outputs_end - narrow * (i + 1), narrow)
            transitions.append((byte, output, at - delta if delta else EMPTY))
        ordered = all(a[0] < b[0] for a, b in zip(transitions, transitions[1:]))
        self.need(len(transitions) == count and ordered, address, "inputs of a node")
        return Node(final, self.number(at, narrow) if final else 0, transitions, at)

    def single(self, state, at):
        """A node with one transition that ends no key."""
        number = state & 0x3F
        if number == 0:
            at -= 1
            byte = self.data[at]
        else:
            byte = COMMON[number - 1]
        if state & 0x40:
            return Node(False, 0, [(byte, 0, at - 1)], at)
        at -= 1
        wide, narrow = self.data[at] >> 4, self.data[at] & 15
        at -= wide
        delta = self.number(at, wide)
        at -= narrow
        self.need(at >= HEADER_BYTES, at, "a node leaves the fst")
        return Node(False, 0, [(byte, self.number(at, narrow), at - delta if delta else EMPTY)], at)

    def get(self, key):
        """The number of a key, or None."""
        node, total = self.node(self.root), 0
        for byte in key:
            step = next((t for t in node.transitions if t[0] == byte), None)
            if step is None:
                return None
            total += step[1]
            node = self.node(step[2])
        return total + node.output if node.final else None

    def pairs(self):
        """Every key with its number, ascending; claims header, nodes and footer."""
        claim, base = self.file.claim, self.start
        claim(base, base + 8, f"{self.what}.fst.version")
        claim(base + 8, base + 16, f"{self.what}.fst.type")
        end = base + self.length
        claim(end - 20, end - 12, f"{self.what}.fst.keys")
        claim(end - 12, end - 4, f"{self.what}.fst.root")
        claim(end - 4, end, f"{self.what}.fst.checksum")
        nodes, found = {}, []

        def load(address):
            if address not in nodes:
                nodes[address] = self.node(address)
                if address != EMPTY:
                    claim(base + nodes[address].start, base + address + 1, f"{self.what}.fst.node")
            return nodes[address]

        stack = [(self.root, b"", 0)]
        while stack:
            address, key, total = stack.pop()
            node = load(address)
            if node.final:
                found.append((key, total + node.output))
            self.need(len(key) <= KEY_BYTES_MAX, address, f"a key of more than {KEY_BYTES_MAX} bytes")
            for byte, output, target in reversed(node.transitions):
                self.need(target == EMPTY or target < address, address, "a transition leads forward")
                stack.append((target, key + bytes([byte]), total + output))
        self.need(len(found) == self.keys, self.length - 20, f"{len(found)} keys and not {self.keys}")
        return found
