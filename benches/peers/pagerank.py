"""networkx beside Triune's PageRank: reads a graph and its seeds, prints how long a call takes, and exact scores.

    python pagerank.py GRAPH.json        {"edges": [[source, target, weight]...], "seeds": {name: weight}}

One line of JSON: {"median_ms": of 30 calls on a graph that stands, "with_graph_ms": of 30 that make it from its edges first, as an application does
that keeps edges in tables, "scores": {name: score}}. The calls that are timed stop where networkx stops by
default (tol 1e-6 a node); the scores are those of one more call that goes on to 1e-15 a node.
"""
import json
import statistics
import sys
import time

import networkx

with open(sys.argv[1], encoding="utf-8") as file:
    given = json.load(file)
times, with_graph = [], []
for _ in range(33):
    begun = time.perf_counter()
    graph = networkx.Graph()
    for source, target, weight in given["edges"]:
        graph.add_edge(source, target, weight=weight)
    made = time.perf_counter()
    networkx.pagerank(graph, personalization=given["seeds"])
    ended = time.perf_counter()
    times.append((ended - made) * 1e3)
    with_graph.append((ended - begun) * 1e3)
exact = networkx.pagerank(graph, personalization=given["seeds"], tol=1e-15, max_iter=10_000)
print(json.dumps({"median_ms": statistics.median(times[3:]), "with_graph_ms": statistics.median(with_graph[3:]), "scores": exact}))
