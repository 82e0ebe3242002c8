#!/usr/bin/env python3
"""Packs the vocabulary cl100k into the file that Triune counts tokens with.

usage: pack_cl100k.py cl100k_base.tiktoken src/connections/tokens/data/cl100k.bin

The input is the file of OpenAI's tiktoken (MIT): a line for each token, its bytes in base64 and its rank, in the order of the ranks. The output
holds, for each token in the same order, one byte with its length and then its bytes; a rank is a position. Needs Python 3.8 and nothing else.
"""

import base64
import hashlib
import sys

# What tiktoken itself expects of the file.
EXPECTED = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"


def main(source: str, target: str) -> None:
    with open(source, "rb") as file:
        lines = file.read()
    if hashlib.sha256(lines).hexdigest() != EXPECTED:
        sys.exit(f"{source} is not the vocabulary cl100k: its SHA-256 is another")
    packed = bytearray()
    for rank, line in enumerate(lines.splitlines()):
        token, number = line.split()
        token = base64.b64decode(token)
        if int(number) != rank or not 0 < len(token) < 256:
            sys.exit(f"{source}: line {rank + 1} is out of order, or its token is empty or too long")
        packed.append(len(token))
        packed += token
    with open(target, "wb") as file:
        file.write(packed)
    print(f"{rank + 1} tokens, {len(packed)} bytes, SHA-256 {hashlib.sha256(packed).hexdigest()}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
