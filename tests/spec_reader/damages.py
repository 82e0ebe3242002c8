"""Random damages to the files of a database, each reproducible by its number."""

import os
import random
import shutil


class Damaged:
    """A copy of a database with one damage, and a line that says which."""

    def __init__(self, source, other, target, number):
        self.rng, self.target = random.Random(number), target
        shutil.rmtree(target, ignore_errors=True)
        os.makedirs(target)
        for name in os.listdir(source):
            # BALLAST means nothing and is large.
            if name != "BALLAST":
                shutil.copyfile(os.path.join(source, name), os.path.join(target, name))
        self.other = other
        self.names = sorted(os.listdir(target))
        kinds = [self.flip, self.flip, self.flip, self.flip, self.truncate, self.zero, self.delete, self.swap, self.foreign, self.append, self.twice]
        self.said = self.rng.choice(kinds)()

    def pick(self):
        """A file, and its bytes."""
        name = self.rng.choice(self.names)
        with open(os.path.join(self.target, name), "rb") as f:
            return name, bytearray(f.read())

    def place(self, data):
        """An offset, more often one where something stands."""
        if not data:
            return 0
        if self.rng.random() < 0.7:
            used = [i for i, b in enumerate(data) if b]
            if used:
                return self.rng.choice(used)
        return self.rng.randrange(len(data))

    def write(self, name, data):
        with open(os.path.join(self.target, name), "wb") as f:
            f.write(data)

    def flip(self):
        name, data = self.pick()
        if not data:
            return "nothing"
        at, mask = self.place(data), 1 << self.rng.randrange(8)
        data[at] ^= mask
        self.write(name, data)
        return f"{name}: bits {mask:#x} of byte {at} flipped"

    def twice(self):
        return self.flip() + ", and " + self.flip()

    def truncate(self):
        name, data = self.pick()
        length = self.place(data)
        self.write(name, data[:length])
        return f"{name}: cut to {length} of {len(data)} bytes"

    def zero(self):
        name, data = self.pick()
        start = self.place(data) // 512 * 512
        end = min(start + 512 * self.rng.choice([1, 1, 2, 8]), len(data))
        data[start:end] = bytes(end - start)
        self.write(name, data)
        return f"{name}: bytes {start} to {end} are zeros"

    def delete(self):
        name, _ = self.pick()
        os.remove(os.path.join(self.target, name))
        return f"{name}: deleted"

    def swap(self):
        name, data = self.pick()
        kind = os.path.splitext(name)[1]
        other = self.rng.choice([n for n in self.names if os.path.splitext(n)[1] == kind])
        with open(os.path.join(self.target, other), "rb") as f:
            theirs = f.read()
        self.write(name, theirs)
        self.write(other, data)
        return f"{name} and {other}: swapped"

    def foreign(self):
        """A file of the same kind from another database."""
        name, _ = self.pick()
        kind = os.path.splitext(name)[1] or name
        some = sorted(n for n in os.listdir(self.other) if (os.path.splitext(n)[1] or n) == kind)
        if not some:
            return "nothing"
        theirs = self.rng.choice(some)
        shutil.copyfile(os.path.join(self.other, theirs), os.path.join(self.target, name))
        return f"{name}: replaced by {theirs} of another database"

    def append(self):
        name, data = self.pick()
        more = self.rng.choice([bytes(8), bytes(4096), self.rng.randbytes(40), bytes(data[:4096])])
        self.write(name, data + more)
        return f"{name}: {len(more)} bytes appended"
