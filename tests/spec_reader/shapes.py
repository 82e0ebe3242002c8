"""Databases of different shapes, made through the command line."""

import json
import math
import os
import random
import signal
import struct
import subprocess

WORDS = """segment commit vector graph token merge snapshot Berlin Acme Corp NASA dataBase läuft straße Ωmega 数据 fox jumps over lazy dog index
    posting block row seq lsn witness ballast manifest Marie Curie radium Nobel HTTP TCP openFile This With größe İstanbul ΣΑΣ naïve 1234 a_b""".split()


class Triune:
    """The binary under test."""

    def __init__(self, binary):
        self.binary = binary

    def run(self, *arguments, text=None, ok=True):
        data = text.encode() if isinstance(text, str) else text
        done = subprocess.run([self.binary, *arguments], input=data, capture_output=True, check=False)
        if ok and done.returncode:
            raise RuntimeError(f"triune {' '.join(arguments)}: exit {done.returncode}\n{done.stderr.decode()}")
        return done

    def load(self, db, documents, *arguments):
        lines = "".join(json.dumps(d, ensure_ascii=False) + "\n" for d in documents)
        return self.run("load", db, "-", *arguments, text=lines)

    def load_and_kill(self, db, documents, commits, *arguments):
        """Loads one document a commit and kills the process after some commits: the log keeps a live tail."""
        command = [self.binary, "load", db, "-", "--batch", "1", "--json", *arguments]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            for d in documents[:commits]:
                process.stdin.write(json.dumps(d).encode() + b"\n")
            process.stdin.flush()
            for _ in range(commits):
                if not process.stdout.readline():
                    raise RuntimeError("the load ended before it was killed")
            process.send_signal(signal.SIGKILL)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def sentence(rng, words=12):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(words + 1)))


def document(rng, i, dimension=None, words=12):
    d = {"id": f"doc-{i}", "text": sentence(rng, words)}
    if rng.random() < 0.5:
        d["metadata"] = {"page": i, "tag": rng.choice(WORDS), "nested": {"deep": {"x": rng.random()}}, "list": [1, "a", None, True]}
    if rng.random() < 0.5:
        d["source"] = f"file-{i % 7}.md"
    if dimension and rng.random() < 0.9:
        d["vector"] = [f32(rng.uniform(-1, 1)) for _ in range(dimension)]
    return d


def empty(t, db, rng):
    t.run("create", db)


def bare(t, db, rng):
    t.run("create", db)
    t.run("collections", db, "drop", "main")


def one(t, db, rng):
    t.run("create", db)
    t.run("put", db, '{"id":"a","text":""}')


def collections(t, db, rng):
    t.run("create", db, "--scorer", "okapi", "--metric", "l2", "--extractor", "none", "--source-key", "tag")
    for name in ("b", "ä", "gone", "Z"):
        t.run("create", db, "--collection", name, "--dim", "3", "--metric", "dot")
        t.load(db, [document(rng, i, 3) for i in range(20)], "--collection", name)
    t.run("collections", db, "drop", "gone")
    t.run("collections", db, "rename", "Z", "zebra")
    t.run("collections", db, "swap", "b", "ä")
    t.run("put", db, '{"id":"x","text":"by key","metadata":{"tag":"from metadata"}}')


def deletes(t, db, rng):
    t.run("create", db)
    t.load(db, [document(rng, i, 3) for i in range(300)], "--batch", "100")
    t.run("delete", db, "--source", "file-3.md")
    t.run("delete", db, "--id", "doc-0", "--id", "doc-299", "--id", "nobody")
    t.run("put", db, '{"id":"doc-7","text":"replaced"}')
    t.run("patch", db, "doc-8", '{"metadata":{"new":1},"text":"patched"}')


def compacted(t, db, rng):
    deletes(t, db, rng)
    t.run("compact", db)
    t.run("put", db, '{"id":"after","text":"after the merge"}')


def cleared(t, db, rng):
    deletes(t, db, rng)
    t.run("delete", db, "--all")
    t.load(db, [document(rng, i, 3) for i in range(5)])


def many_logs(t, db, rng):
    t.run("create", db)
    for i in range(12):
        t.load(db, [document(rng, 10 * i + j, 1) for j in range(4)], "--batch", "1")
        if i % 4 == 3:
            t.run("delete", db, "--filter", json.dumps({"page": {"$lt": 5 * i}}))


def killed(t, db, rng):
    t.run("create", db)
    t.load(db, [document(rng, i, 3) for i in range(50)])
    t.load_and_kill(db, [document(rng, i + 40, 3) for i in range(40)], 25)


def last_log(db):
    return os.path.join(db, max(n for n in os.listdir(db) if n.endswith(".wal")))


def torn(t, db, rng):
    """A commit that no later evidence proves: the last record of a buffered log, cut in half, and WITNESS lost."""
    killed_buffered(t, db, rng)
    os.remove(os.path.join(db, "WITNESS"))
    path = last_log(db)
    with open(path, "rb") as f:
        used = len(f.read().rstrip(b"\0"))
    with open(path, "r+b") as f:
        f.truncate(used - 3)


def killed_buffered(t, db, rng):
    t.run("create", db, "--dim", "3")
    t.load_and_kill(db, [document(rng, i, 3) for i in range(20)], 10, "--durability", "buffered")


def zeroed(t, db, rng):
    """The last record is zeros, as a file system may leave it."""
    killed_buffered(t, db, rng)
    os.remove(os.path.join(db, "WITNESS"))
    path = last_log(db)
    with open(path, "rb") as f:
        data = f.read()
    at = data.rindex((0x8D524C57).to_bytes(4, "little"))
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(bytes(len(data) - at))


def large_batch(t, db, rng):
    """More than a record takes: segments are written first, and a small record names them."""
    t.run("create", db)
    first = [document(rng, i, 384) for i in range(30)]
    t.load(db, first)
    big = [{"id": f"big-{i}", "text": sentence(rng, 4000) * 3} for i in range(150)] + [document(rng, i, 384) for i in range(10)]
    t.run("put", db, "-", text="\n".join(json.dumps(d) for d in big))


def large_batch_killed(t, db, rng):
    """The same, with the record in the live tail of the log."""
    t.run("create", db)
    t.load(db, [document(rng, i, 3) for i in range(30)])
    lines = [json.dumps({"id": f"doc-{i}", "text": sentence(rng, 6000) * 4}) for i in range(120)]
    command = [t.binary, "load", db, "-", "--batch", "120", "--json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(("\n".join(lines) + "\n").encode())
        process.stdin.flush()
        if not process.stdout.readline():
            raise RuntimeError("the load ended before it was killed")
        process.send_signal(signal.SIGKILL)


def graph(t, db, rng):
    t.run("create", db)
    names = ["Acme Corp", "acme corp", "ACME", "Marie Curie", "marie curie", "x", "Straße", "STRASSE", "İ"]
    documents = []
    for i in range(60):
        d = document(rng, i)
        d["entities"] = [{"name": rng.choice(names), "type": rng.choice(["ORG", "", None]), "mentions": rng.choice([1, 2, 300])}
                         for _ in range(rng.randrange(5))]
        d["relations"] = [{"source": rng.choice(names), "target": rng.choice(names), "type": rng.choice(["knows", None]),
                           "description": rng.choice(["Ünïcode", None]), "weight": rng.choice([1, 0.5, 0.1, 1e16, 2.5e-7, 1e300, 5e-324, 123456.789])}
                          for _ in range(rng.randrange(4))]
        if i % 3 == 0:
            del d["entities"]
        if i % 4 == 0:
            del d["relations"]
        documents.append(d)
    t.load(db, documents)
    t.run("delete", db, "--id", "doc-1", "--id", "doc-3")


def metadata(t, db, rng):
    t.run("create", db, "--source-key", "s")
    values = [None, True, False, 0, -0.0, 1, -1, 2**53 + 1, 2**64 - 1, -(2**63), 2**64, 1e308, -1.5, 5e-324, 2**60 + 1, -(2**60) - 1, "", "x" * 128,
              "x" * 129, "ü" * 64, "ü" * 65, [], {}, [None, True, 1.5, "s", [1], {"a": 1}], {"a": {"b.c": 1, "d": [2]}}, {"a.b": 1}]
    documents = [{"id": f"v{i}", "text": "", "metadata": {"v": v, "v.a": i % 2, "k" * (250 + i): i, "s": "src"}} for i, v in enumerate(values)]
    lines = [json.dumps(d) for d in documents]
    lines.append('{"id":"twice","metadata":{"k":1,"k":2,"n":1E2,"big":123456789012345678901234567890,"esc":"\\u00e9\\ud83d\\ude00","sp" : [ 1 ]}}')
    lines += [json.dumps({"id": f"many{i}", "metadata": {"same": 1, "run": i // 40}}) for i in range(200)]
    t.run("load", db, "-", text="\n".join(lines))


def unicode_texts(t, db, rng):
    t.run("create", db)
    texts = ["İstanbul ΣΑΣ ΑΣ. ΑΣ'Σ", "a\u200db", "e\u0301", "数据库 データ", "𝔘𝔫𝔦 ² ½ ⅷ", "\x00\x01\x1f\x7f", "\u2028\ufeff\U0001F600", "line\r\nfeed\ttab\"\\/",
             "A" * 3000 + " b", "x" * 1024, "y" * 1025, "".join(chr(c) for c in range(0x20, 0x600) if not 0x40 <= c <= 0x60)]
    t.load(db, [{"id": f"ü{i}\n", "text": s, "source": s[:20] or "x"} for i, s in enumerate(texts)])


def dimensions(t, db, rng):
    for n in (1, 3, 384):
        t.run("create", db, "--collection", f"d{n}")
        documents = [document(rng, i, n) for i in range(40)]
        documents.append({"id": "zero", "vector": [0.0] * n})
        documents.append({"id": "tiny", "vector": [1e-45] * n})
        documents.append({"id": "huge", "vector": [3.4e38] * n})
        t.load(db, documents, "--collection", f"d{n}")


def blocks(t, db, rng):
    """Posting lists of several blocks, roaring containers of several kinds, sections above 64 KiB."""
    t.run("create", db)
    documents = []
    for i in range(2500):
        text = "common " * (1 + i % 5) + ("half " if i % 2 else "") + ("rare " if i % 300 == 0 else "") + sentence(rng, 6)
        d = {"id": f"{i:05}", "text": text, "metadata": {"even": i % 2 == 0, "n": i}, "vector": [math.sin(i), math.cos(i), 1.0]}
        documents.append(d)
    t.load(db, documents, "--batch", "2500")
    t.run("delete", db, "--filter", '{"n":{"$gte":100,"$lt":900}}')


def vector_graph(t, db, rng):
    """A merged segment with enough vectors for a graph, some of them dead since, and one whose walks compare no codes."""
    for name, metric, more in (("main", "dot", ()), ("plain", "l2", ("--m", "5", "--ef-construction", "40", "--quantisation", "none"))):
        t.run("create", db, "--collection", name, "--dim", "4", "--metric", metric, *more)
        documents = [{"id": f"{i}", "vector": [f32(rng.gauss(0, 1 + i % 3)) for _ in range(4)]} for i in range(10_050)]
        t.load(db, [{"id": "without"}] + documents, "--batch", "5000", "--collection", name)
    t.run("compact", db)
    t.run("delete", db, "--id", "17", "--id", "9000", "--collection", "main")


def backed_up(t, db, rng):
    """A backup of a database with a live log: the same files, and a log into which the records were written again."""
    killed(t, db + ".original", rng)
    t.run("backup", db + ".original", db)


def restored(t, db, rng):
    graph(t, db + ".original", rng)
    t.run("restore", db, "-", text=t.run("dump", db + ".original").stdout)


SHAPES = [empty, bare, one, collections, deletes, compacted, cleared, many_logs, killed, torn, zeroed, killed_buffered, large_batch,
          large_batch_killed, graph, metadata, unicode_texts, dimensions, blocks, vector_graph, backed_up, restored]


def make(t, shape, db):
    shape(t, db, random.Random(f"seed of {shape.__name__}"))
