#!/usr/bin/env python3
"""Writes tests/golden/wordpiece.jsonl, {"text","ids"}: what the reference tokenizer makes of texts in many scripts, and of glosses of WordNet.

    python3 tools/scripts/wordpiece_golden.py TOKENIZER.json GLOSSES.jsonl > tests/golden/wordpiece.jsonl

TOKENIZER.json is that of all-MiniLM-L6-v2 (the uncased BERT vocabulary), GLOSSES.jsonl has a "text" a line. The last line has no text but the
FNV-1a 64 of the ids of every Unicode scalar value between an a and a b, each id as two bytes, each text ended by 0xffff. Needs `tokenizers`.
"""

import json
import random
import sys

from tokenizers import Tokenizer

BY_HAND = [
    "", "   ", "\t\n", "Hello, World!", "H\u00e9llo \u00c0\u00c9\u00ce\u00d5\u00dc na\u00efve \u00c5ngstr\u00f6m \u0130stanbul \u1e9etra\u00dfe",
    "\u0391\u03a3 \u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2 \u03a6\u0391\u03a1\u039c\u0391\u039a\u039f",
    "don't re-enter e.g. U.S.A. 3.14 1,000,000 $5 50% x_y a+b=c",
    "\u5317\u4eac\u662f\u4e2d\u56fd\u7684\u9996\u90fd\u3002\u6771\u4eac\u30bf\u30ef\u30fc \u3072\u3089\u304c\u306a \u30ab\u30bf\u30ab\u30ca",
    "\ud55c\uad6d\uc5b4 \ucc98\ub9ac\uc640 \uc11c\uc6b8\ud2b9\ubcc4\uc2dc \uac01 \ud7a3", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u0639\u0627\u0644\u0645 \u0645\u0631\u062d\u0628\u0627",
    "a\u200bb\u00adc\ufeffd\u0000e\ufffdf\u0085g\u2028h\u00a0i\u3000j", "\u2167 \u00bd \ufb01 \ufb02 \u00b2 \u2116 \u2122 \u2103 \u212b \u2126",
    "\U0001f600 emoji \U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea",
    "unaffable supercalifragilisticexpialidocious pneumonoultramicroscopicsilicovolcanoconiosis", "x" * 100, "x" * 101, "\u00e9" * 100, "\u00e9" * 101,
    "word" + "\u0301" * 300, "\uac01" * 33, "\uac01" * 34, "#hash ##ing # ##", "--- ... ((())) \u00abquoted\u00bb \u201ccurly\u201d \u2018single\u2019 \u2013 \u2014 \u2026",
    "e\u0301 \u00e9 a\u030a \u00e5 \u1e9b\u0323 \u212b", "\u037e\u0387\u1fef\u2329\u232a", "\uf900\uf901\uf902 \U0002f800\U0002f801", "\u0bca\u0b94",
    "HIV-1 gp120/CD4 IL-2R\u03b1 \u03b2-catenin NF-\u03baB p<0.05", "covid-19 SARS\u2011CoV\u20112 mRNA", "MiXeD CaSe", "tab\tseparated\r\nlines",
    "\u01c5 \u01c8 \u01cb \u01c4", "\ua66e \ua657 \u13e3\u13b3\u13a9 \u1c90\u1c91", "\ue000 private \uf8ff", "a\u0345b \u1f80 \u1fb3", "1\u20e3 \u24b6 \u2170",
    "\u0663 \u0969 \u3007 \u4e00\u4e8c\u4e09", "https://example.org/a?b=c&d=%20#frag user@mail.com", "C++ C# .NET f(x)[i]{j}", "\u3131\u1100\u1161\u11a8",
]


def drawn(rng):
    """Texts of random characters, some plain ones among them."""
    low, high = range(0x80, 0x3000), [c for c in range(0x3000, 0x30000) if not 0xD800 <= c <= 0xDFFF]
    for codes, share, texts in ((low, 0.7, 160), (high, 0.6, 100)):
        for _ in range(texts):
            length = rng.randint(3, 24)
            yield "".join(chr(rng.choice(codes)) if rng.random() < share else rng.choice(" aeTX-") for _ in range(length))


def digest(ids_of):
    value = 0xCBF29CE484222325
    texts = [f"a{chr(c)}b" for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    for begin in range(0, len(texts), 20000):
        for ids in ids_of(texts[begin : begin + 20000]):
            for byte in b"".join(i.to_bytes(2, "little") for i in [*ids, 0xFFFF]):
                value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def main():
    tokenizer = Tokenizer.from_file(sys.argv[1])
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def ids_of(texts):
        return [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]

    rng = random.Random(11)
    with open(sys.argv[2], encoding="utf-8") as file:
        glosses = [json.loads(line)["text"] for line in file]
    texts = BY_HAND + list(drawn(rng)) + rng.sample(glosses, 150)
    for text, ids in zip(texts, ids_of(texts)):
        print(json.dumps({"text": text, "ids": ids}))
    print(json.dumps({"every_scalar": f"{digest(ids_of):016x}"}))


main()
