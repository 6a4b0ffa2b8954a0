"""Private Frank-Wolfe on a text-like sparse matrix: 5,000 rows, 20,000 columns, 60 draws of words a row by Zipf's law, 200 steps.

Run ``python -m benchmarks.frank_wolfe``; ``benchmarks/frank_wolfe.json`` is written. Seconds of processor time, medians of rounds,
noise from the operating system. Both paths pick the same vertices; a third row draws a Gumbel variate for every vertex.
Where the package is there (`benchmarks._data`), the same on reuters-r8, 5,485 x 19,956.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from benchmarks._data import Missing, load
from benchmarks._measure import median_seconds, write
from solvers import random
from solvers.algorithms import frank_wolfe
from solvers.losses import Logistic
from solvers.problem import Problem
from solvers.sets import L1Ball

STEPS, ROUNDS = 200, 5


def text(rows: int = 5000, columns: int = 20_000, length: int = 60) -> Problem:
    """Counts of words clipped to 1; 40 of the usual words tell the classes apart."""
    rng = np.random.default_rng(0)
    share = 1.0 / np.arange(1.0, columns + 1.0)
    words = rng.choice(columns, size=rows * length, p=share / share.sum())
    x: Any = scipy.sparse.csr_array((np.ones(words.size), (np.repeat(np.arange(rows), length), words)), shape=(rows, columns))
    x.data[:] = 1.0
    weights = np.zeros(columns)
    weights[rng.choice(300, 40, replace=False)] = 3.0 * rng.standard_normal(40)
    labels = np.where(x @ weights + rng.standard_normal(rows) > 0, 1, -1)
    return Problem(x, labels, Logistic(), L1Ball(20.0), row_norm="linf")


def main() -> None:
    """Measure and write."""
    problem, found = text(), {}

    def run(scores: str, problem: Problem = problem) -> float:
        return median_seconds(lambda: frank_wolfe(problem, selection_epsilon=0.03, steps=STEPS, scores=scores, progress=False), ROUNDS)[0]

    found["incremental"], found["plain"] = run("incremental"), run("plain")
    few, random.FEW = random.FEW, 1 << 30
    try:
        found["plain, a variate for every vertex"] = run("plain")
    finally:
        random.FEW = few
    try:
        split = load("reuters")
        news = Problem(split.x, 2 * split.y - 1, Logistic(), L1Ball(20.0), row_norm="linf")
        found |= {f"reuters-r8, {scores}": run(scores, news) for scores in ("incremental", "plain")}
    except Missing as missing:
        print(f"reuters-r8 is left out: {missing}")
    for name, seconds in found.items():
        print(f"{name}: {seconds:.3f} s")
    shape = {"rows": problem.num_records, "columns": problem.columns, "stored": problem.rows.nnz}
    write("frank_wolfe", {"steps": STEPS, **shape, "seconds": found})


if __name__ == "__main__":
    main()
