"""One vector index of a peer, asked over a pipe so that it can take turns with another program.

    python ann.py --folder FOLDER --engine hnswlib|faiss|usearch|usearch-i8|faiss-sq8 [--m 16 --efc 200 --threads 2] [--keep FILE]

FOLDER holds base.npy, queries.npy and truth.npy, vectors of length 1. The first line printed says how long building took. Then each line of
input is a width; the answer is one line with recall@10 and the mean microseconds of a query: one at a time, on one thread. The width 0 asks an
index that holds a single vector instead: what a call from Python costs by itself. With --keep the index is saved, and read the next time.
"""
import argparse, json, os, sys, time
import numpy as np

ap = argparse.ArgumentParser()
ap.add_argument("--folder", required=True)
ap.add_argument("--engine", required=True)
ap.add_argument("--m", type=int, default=16)
ap.add_argument("--efc", type=int, default=200)
ap.add_argument("--threads", type=int, default=2)
ap.add_argument("--keep")
a = ap.parse_args()
K = 10
load = lambda name: np.load(os.path.join(a.folder, name))
base, queries, truth = load("base.npy"), load("queries.npy"), load("truth.npy")[:, :K]


class Hnswlib:
    def __init__(self, rows, kept=None):
        import hnswlib
        self.ix = hnswlib.Index("ip", base.shape[1])
        if kept:
            self.ix.load_index(kept, max_elements=len(rows))
        else:
            self.ix.init_index(len(rows), M=a.m, ef_construction=a.efc)
            self.ix.set_num_threads(a.threads)
            self.ix.add_items(rows)
        self.ix.set_num_threads(1)

    def width(self, ef):
        self.ix.set_ef(ef)

    def ask(self, q, k):
        return self.ix.knn_query(q, k)[0][0]

    def save(self, path):
        self.ix.save_index(path)


class Usearch:
    def __init__(self, rows, kept=None, dtype="f32"):
        from usearch.index import Index
        self.ix = Index(ndim=base.shape[1], metric="ip", dtype=dtype, connectivity=a.m, expansion_add=a.efc)
        if kept:
            self.ix.load(kept)
        else:
            self.ix.add(np.arange(len(rows)), rows, threads=a.threads)

    def width(self, ef):
        self.ix.expansion_search = ef

    def ask(self, q, k):
        return self.ix.search(q, k, threads=1).keys

    def save(self, path):
        self.ix.save(path)


class Faiss:
    def __init__(self, rows, kept=None, sq8=False):
        import faiss
        self.faiss = faiss
        faiss.omp_set_num_threads(a.threads)
        if kept:
            self.ix = faiss.read_index(kept)
        else:
            ip = faiss.METRIC_INNER_PRODUCT
            d = base.shape[1]
            self.ix = faiss.IndexHNSWSQ(d, faiss.ScalarQuantizer.QT_8bit, a.m, ip) if sq8 else faiss.IndexHNSWFlat(d, a.m, ip)
            if sq8:
                self.ix.train(base)
            self.ix.hnsw.efConstruction = a.efc
            self.ix.add(rows)
        faiss.omp_set_num_threads(1)

    def width(self, ef):
        self.ix.hnsw.efSearch = ef

    def ask(self, q, k):
        return self.ix.search(q[None], k)[1][0]

    def save(self, path):
        self.faiss.write_index(self.ix, path)


MAKE = {
    "hnswlib": Hnswlib,
    "usearch": Usearch,
    "usearch-i8": lambda rows, kept=None: Usearch(rows, kept, "i8"),
    "faiss": Faiss,
    "faiss-sq8": lambda rows, kept=None: Faiss(rows, kept, True),
}


def say(**what):
    print(json.dumps(what), flush=True)


note = a.keep and a.keep + ".json"
if a.keep and os.path.exists(a.keep) and os.path.exists(note):
    index = MAKE[a.engine](base, a.keep)
    built = json.load(open(note))
else:
    begun, cpu = time.perf_counter(), time.process_time()
    index = MAKE[a.engine](base)
    built = {"build_s": time.perf_counter() - begun, "cpu_s": time.process_time() - cpu}
    if a.keep:
        index.save(a.keep)
        json.dump(built, open(note, "w"))
single = MAKE[a.engine](base[:1])
say(engine=a.engine, m=a.m, efc=a.efc, threads=a.threads, **built)

for line in sys.stdin:
    ef = int(line)
    asked, k = (index, K) if ef else (single, 1)
    asked.width(max(ef, 1))
    for q in queries[:20]:
        asked.ask(q, k)
    found, took = [], 0.0
    for q in queries:
        begun = time.perf_counter()
        hits = asked.ask(q, k)
        took += time.perf_counter() - begun
        found.append(hits)
    right = sum(len(np.intersect1d(hits, true)) for hits, true in zip(found, truth)) if ef else 0
    say(ef=ef, recall=right / (K * len(queries)), us=took * 1e6 / len(queries))
