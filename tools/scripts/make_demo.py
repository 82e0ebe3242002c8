#!/usr/bin/env python3
"""Makes demo/: a small closed set of Wikipedia passages with questions, and the vectors of both.

Usage: python3 tools/scripts/make_demo.py DATA_FOLDER [OUT_FOLDER]

DATA_FOLDER holds `2wiki/{corpus.jsonl,queries.jsonl,qrels.tsv}` and `emb/2wiki_{corpus,queries}.npy`, row i of an array belonging to line i
of its file. OUT_FOLDER defaults to demo/ beside this repository's README. Needs numpy. The same input gives the same bytes.

The set is closed: it holds every passage that answers one of the questions. The rest are near neighbours of those passages and of the
questions, half of them by words and half by vectors, so that each retriever meets passages that look right to it and are not.
"""

import json
import math
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

PASSAGES = 360

# Chosen by reading, among the questions whose answering passages are all in the corpus: some are found by words (rare names, misspelt
# titles), some by meaning, most need both, and some have an answer that only the second passage of a chain gives. Of the first three, which the
# demo asks, one needs both, one is answered by meaning and one by words.
QUESTIONS = [
    "104c34700bde11eba7f7acde48001122",  # What nationality is the director of film To Walk With Lions?
    "196d76740bdc11eba7f7acde48001122",  # What is the date of death of Madhavrao Ii's father?
    "76a5bc0b08cd11ebbd93ac1f6bf848b6",  # Who is older, Mario Baccini or Béchir Sfar?
    "83bf3b5a0bd911eba7f7acde48001122",  # When did Lothair Ii's mother die?
    "b66d42be0bdd11eba7f7acde48001122",  # Where was the place of death of Neferneferure's mother?
    "701433f00baf11ebab90acde48001122",  # Who is the paternal grandfather of Engelbert Iii Of The Mark?
    "44e9813a0bdc11eba7f7acde48001122",  # Where was the place of burial of Osthryth's father?
    "3ce92df80bde11eba7f7acde48001122",  # Where does the director of film Talk About A Stranger work at?
    "c9a769c608be11ebbd8aac1f6bf848b6",  # Who was born first, Hywel Teifi Edwards or Felix Schuster?
    "f775073c086b11ebbd60ac1f6bf848b6",  # Are both The Pledge (Film) and Mother Of George from the same country?
    "fa11eeb4095a11ebbdaeac1f6bf848b6",  # Which film came out earlier, Return Of The Jedi or China Bound?
    "5effec28087111ebbd63ac1f6bf848b6",  # Which film was released earlier, Navavadhu or The January Man?
]


def read_lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def tokens(text):
    return re.findall(r"\b\w+\b", text.lower())


class Words:
    """BM25 over all passages, enough of it to find neighbours."""

    def __init__(self, texts):
        self.postings = defaultdict(list)
        self.lengths = np.zeros(len(texts))
        for row, text in enumerate(texts):
            counts = Counter(tokens(text))
            self.lengths[row] = sum(counts.values())
            for token, count in counts.items():
                self.postings[token].append((row, count))
        self.mean = self.lengths.mean()

    def rank(self, text):
        scores = np.zeros(len(self.lengths))
        n = len(self.lengths)
        for token in set(tokens(text)):
            rows = self.postings.get(token, [])
            idf = math.log(1 + (n - len(rows) + 0.5) / (len(rows) + 0.5))
            for row, count in rows:
                scores[row] += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * self.lengths[row] / self.mean))
        return np.argsort(-scores, kind="stable")


def main():
    data = Path(sys.argv[1])
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).resolve().parents[2] / "demo"
    corpus = read_lines(data / "2wiki/corpus.jsonl")
    queries = read_lines(data / "2wiki/queries.jsonl")
    passage_vectors = np.load(data / "emb/2wiki_corpus.npy")
    question_vectors = np.load(data / "emb/2wiki_queries.npy")
    assert len(corpus) == len(passage_vectors) and len(queries) == len(question_vectors)

    gold = defaultdict(list)
    for line in (data / "2wiki/qrels.tsv").read_text(encoding="utf-8").splitlines():
        question, passage, grade = line.split("\t")
        if int(grade) > 0:
            gold[question].append(passage)
    row_of_passage = {p["id"]: row for row, p in enumerate(corpus)}
    row_of_question = {q["id"]: row for row, q in enumerate(queries)}
    asked = [row_of_question[q] for q in QUESTIONS]

    chosen = {row_of_passage[p] for q in asked for p in gold[queries[q]["id"]]}
    answering = len(chosen)
    words = Words([p["title"] + " " + p["text"] for p in corpus])
    wide = passage_vectors.astype(np.float32)
    rankings = []
    for q in asked:
        rankings.append(words.rank(queries[q]["text"]))
        rankings.append(np.argsort(-(wide @ question_vectors[q].astype(np.float32)), kind="stable"))
    for row in sorted(chosen):
        rankings.append(words.rank(corpus[row]["title"]))
        rankings.append(np.argsort(-(wide @ wide[row]), kind="stable"))
    for depth in range(len(corpus)):
        for ranking in rankings:
            if len(chosen) < PASSAGES:
                chosen.add(int(ranking[depth]))

    rows = sorted(chosen)
    out.mkdir(exist_ok=True)
    with open(out / "passages.jsonl", "w", encoding="utf-8", newline="\n") as f:
        for row in rows:
            p = corpus[row]
            f.write(json.dumps({"id": p["id"], "title": p["title"], "text": p["text"]}, ensure_ascii=False) + "\n")
    with open(out / "questions.jsonl", "w", encoding="utf-8", newline="\n") as f:
        for q in asked:
            question = queries[q]
            line = {"id": question["id"], "text": question["text"], "gold": sorted(gold[question["id"]], key=int), "answer": question["answer"]}
            f.write(json.dumps(line, ensure_ascii=False) + "\n")
    np.save(out / "passages.npy", np.ascontiguousarray(passage_vectors[rows]))
    np.save(out / "questions.npy", np.ascontiguousarray(question_vectors[asked]))
    print(f"{len(rows)} passages ({answering} of them answer a question), {len(asked)} questions, {passage_vectors.shape[1]} components")


if __name__ == "__main__":
    main()
