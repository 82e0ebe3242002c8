#!/usr/bin/env python3
"""Makes assets/static-256.bin: token vectors whose sums come near to what all-MiniLM-L6-v2 says of the same texts. docs/embedder.md explains.

    distil.py sentences --without CORPUS.jsonl FILE.tsv... > TEXTS.jsonl
    distil.py embed --model MODEL.onnx --tokenizer TOKENIZER.json [--limit N] TEXTS.jsonl VECTORS.npy
    distil.py embed --model MODEL.onnx --tokens 30522 TOKENS.npy
    distil.py fit --tokenizer TOKENIZER.json --vocabulary vocab.txt --tokens TOKENS.npy --out WEIGHTS.bin (TEXTS.jsonl VECTORS.npy)...

The same inputs give the same bytes, with one thread of BLAS (OMP_NUM_THREADS=1). `sentences` needs the standard library alone; the others
numpy, `embed` onnxruntime and tokenizers too, `fit` scipy and tokenizers.
"""

import argparse
import json
import random
import re
import struct
import sys
import zlib

WINDOW = 256  # tokens of a text that the encoder reads, the marks around it included
CLS, SEP, UNKNOWN = 101, 102, 100
OVERLAP = 8  # words in a row that no text may share with the collection left out


def words(text):
    return re.findall(r"[a-z0-9]+", text.lower())


def runs(of):
    return (" ".join(of[i : i + OVERLAP]) for i in range(len(of) - OVERLAP + 1))


def texts_of(path, limit=None):
    """The texts of JSON lines, each after its title, if it has one."""
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if limit is not None and len(found) == limit:
                break
            fields = json.loads(line)
            title = fields.get("title")
            found.append(f"{title} {fields['text']}" if title else fields["text"])
    return found


def sentences(args):
    """Sentences of files with a token a line and a blank line behind each sentence, and passages of eight in a row, shuffled."""
    held = set()
    for text in texts_of(args.without):
        held.update(runs(words(text)))
    seen, singles, passages, dropped = set(), [], [], 0
    for path in args.files:
        row, tokens = [], []
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
        for line in [*lines, ""]:
            token = line.split("\t")[0].strip()
            if token and token != "-DOCSTART-":
                tokens.append(token)
                continue
            text, tokens = " ".join(tokens), []
            bare = words(text)
            key = " ".join(bare)
            if len(bare) < 5 or key in seen:
                continue
            seen.add(key)
            if any(run in held for run in runs(bare)):
                dropped += 1
                continue
            singles.append(text)
            row.append(text)
        passages += [" ".join(row[i : i + 8]) for i in range(0, len(row), 8) if len(row) - i >= 4]
    rng = random.Random(7)
    rng.shuffle(singles)
    rng.shuffle(passages)
    passages = iter(passages[:4000])
    for i, text in enumerate(singles):
        print(json.dumps({"text": text}, ensure_ascii=False))
        if i % 15 == 14:
            for passage in passages:
                print(json.dumps({"text": passage}, ensure_ascii=False))
                break
    print(f"{len(singles)} sentences, {dropped} left out", file=sys.stderr)


def embed(args):
    """Vectors of the encoder: the mean of the last hidden states over the mask, of unit length, as float16 (tokens: float32)."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(args.model, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]

    def run(batch):
        ids = np.zeros((len(batch), max(map(len, batch))), np.int64)
        mask = np.zeros_like(ids)
        for i, row in enumerate(batch):
            ids[i, : len(row)], mask[i, : len(row)] = row, 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = session.run(None, {name: feed[name] for name in names})[0]
        mean = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def all_of(rows, room=2000):
        out, batch = np.zeros((len(rows), 384), np.float32), []
        for i in sorted(range(len(rows)), key=lambda i: len(rows[i])):
            if batch and (len(batch) + 1) * len(rows[i]) > room:
                out[batch] = run([rows[j] for j in batch])
                batch = []
            batch.append(i)
        if batch:
            out[batch] = run([rows[j] for j in batch])
        return out

    if args.tokens:
        np.save(args.files[0], all_of([[CLS, token, SEP] for token in range(args.tokens)]))
        return
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(args.tokenizer)
    tokenizer.no_padding()
    tokenizer.enable_truncation(WINDOW)
    texts, parts = texts_of(args.files[0], args.limit), []
    for begin in range(0, len(texts), 2048):
        rows = [e.ids for e in tokenizer.encode_batch(texts[begin : begin + 2048])]
        parts.append(all_of(rows).astype(np.float16))
        print(f"{begin + len(rows)} of {len(texts)}", file=sys.stderr)
    np.save(args.files[1], np.concatenate(parts))


def fit(args):
    import numpy as np
    import scipy.sparse as sparse
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(args.tokenizer)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    with open(args.vocabulary, "rb") as file:
        vocabulary = file.read()
    if not vocabulary.endswith(b"\n"):
        vocabulary += b"\n"
    size = vocabulary.count(b"\n")

    def counts(texts):
        columns, starts, values = [], [0], []
        for begin in range(0, len(texts), 4096):
            for encoded in tokenizer.encode_batch(texts[begin : begin + 4096], add_special_tokens=False):
                ids, times = np.unique(np.array(encoded.ids[: WINDOW - 2], np.int32), return_counts=True)
                columns.append(ids)
                values.append(times.astype(np.float32))
                starts.append(starts[-1] + len(ids))
        return sparse.csr_matrix((np.concatenate(values), np.concatenate(columns), starts), shape=(len(texts), size))

    def unit(rows):
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)

    matrices, targets = [], []
    for texts, vectors in zip(args.files[::2], args.files[1::2], strict=True):
        target = np.load(vectors).astype(np.float32)
        matrices.append(counts(texts_of(texts, len(target))))
        assert matrices[-1].shape[0] == len(target), f"{vectors} has more rows than {texts} has lines"
        targets.append(unit(target))
    matrix, target = sparse.vstack(matrices).tocsr(), np.concatenate(targets)
    frequency = np.asarray(matrix.sum(0)).ravel()
    frequency = frequency / frequency.sum()
    weight = (args.a / (args.a + frequency)).astype(np.float32)
    weighted = (matrix @ sparse.diags(weight)).tocsr()
    lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(1)).ravel())
    rows = (sparse.diags(1 / np.maximum(lengths, 1e-9)) @ weighted).tocsr().astype(np.float32)
    tokens = np.load(args.tokens).astype(np.float32)
    prior = (args.prior * (tokens - tokens.mean(0))).astype(np.float32)
    print(f"{rows.shape[0]} texts, {rows.nnz} entries", file=sys.stderr)
    found = ridge(rows, target, prior, args.ridge, args.rounds)
    # Sums are to have length one, as their targets: each text is scaled by the length that it came to, and the fit goes on.
    for _ in range(args.rescalings):
        scale = 1 / np.clip(np.linalg.norm(rows @ found, axis=1), 0.3, None)
        rows = (sparse.diags(scale) @ rows).tocsr().astype(np.float32)
        found = ridge(rows, target, found, args.ridge, args.rounds // 2)
    # The directions in which what the encoder says varies most.
    _, directions = np.linalg.eigh((target.T @ target).astype(np.float64))
    directions = directions[:, ::-1][:, : args.dimension]
    directions = directions * np.sign(directions[np.abs(directions).argmax(0), range(args.dimension)])
    write(args.out, vocabulary, (found * weight[:, None]) @ directions.astype(np.float32))


def ridge(rows, target, start, ridge_, rounds):
    """Least squares of `rows @ x - target`, with the squared distance to `start` times `ridge_`: conjugate gradients, column by column, with the
    diagonal as preconditioner."""
    import numpy as np

    across = rows.T.tocsr()
    diagonal = (1 / (np.asarray(rows.multiply(rows).sum(0)).ravel() + ridge_)).astype(np.float32)[:, None]
    x = start.copy()
    residue = across @ (target - rows @ x)
    scaled = diagonal * residue
    step, size = scaled.copy(), (residue * scaled).sum(0)
    for _ in range(rounds):
        image = across @ (rows @ step) + np.float32(ridge_) * step
        along = (size / np.maximum((step * image).sum(0), 1e-20)).astype(np.float32)
        x += along * step
        residue -= along * image
        scaled = diagonal * residue
        size, before = (residue * scaled).sum(0), size
        step = scaled + (size / np.maximum(before, 1e-30)).astype(np.float32) * step
    return x


def write(path, vocabulary, vectors):
    """The file as docs/embedder.md has it."""
    import numpy as np

    scales = (np.abs(vectors).max(1) / 127).astype(np.float32)
    codes = np.rint(vectors / np.maximum(scales[:, None], 1e-30)).clip(-127, 127).astype(np.int8)
    header = b"TRIUNESE" + struct.pack("<8I", 1, len(vectors), vectors.shape[1], len(vocabulary), UNKNOWN, 100, 0, 0)
    body = header + vocabulary + scales.astype("<f4").tobytes() + codes.tobytes()
    with open(path, "wb") as file:
        file.write(body + struct.pack("<I", zlib.crc32(body)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("sentences")
    one.add_argument("--without", required=True)
    one.add_argument("files", nargs="+")
    two = commands.add_parser("embed")
    two.add_argument("--model", required=True)
    two.add_argument("--tokenizer")
    two.add_argument("--tokens", type=int)
    two.add_argument("--limit", type=int)
    two.add_argument("files", nargs="+")
    three = commands.add_parser("fit")
    for name in ("--tokenizer", "--vocabulary", "--tokens", "--out"):
        three.add_argument(name, required=True)
    for name, default in (("--a", 1e-3), ("--ridge", 0.1), ("--prior", 0.3)):
        three.add_argument(name, type=float, default=default)
    for name, default in (("--rounds", 10), ("--rescalings", 1), ("--dimension", 256)):
        three.add_argument(name, type=int, default=default)
    three.add_argument("files", nargs="+")
    args = parser.parse_args()
    {"sentences": sentences, "embed": embed, "fit": fit}[args.command](args)


main()
