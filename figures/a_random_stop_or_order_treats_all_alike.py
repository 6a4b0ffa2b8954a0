"""Claim: stopping at a random step, or a random order, gives every record one bound near the mean over fixed places."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from figures._iteration import CAPTION, CONVEX, TITLES
from figures._style import BLUE, GREEN, VERMILION

EPSILON = 0.5


def data(*, quick: bool = False) -> dict[str, Any]:
    """delta at epsilon = 0.5 by contraction against the record's index, and against epsilon for the worst record."""
    index = np.arange(1, 41, 3 if quick else 1)
    index = np.union1d(index, [39, 40])
    level = np.linspace(0.0, 4.0, 9 if quick else 61)
    kinds = {"fixed": CONVEX, "stopped": CONVEX.random_stopping(), "permuted": CONVEX.random_permutation()}
    found: dict[str, Any] = {"index": index, "epsilon": level}
    for name, run in kinds.items():
        found[name] = np.asarray(run.delta(EPSILON, index, method="contraction").upper)
        found[f"{name}, worst"] = np.asarray(run.delta(level, method="contraction").upper)
    orders = np.asarray(kinds["stopped"].log_delta(level, method="rdp").upper)
    return {**found, "stopped, rdp": np.exp(orders), "max_order": kinds["stopped"].max_order()}


def draw(numbers: dict[str, Any]) -> Figure:
    """delta by place on the left, delta of the worst place against epsilon on the right."""
    figure = Figure(figsize=(10.6, 5.2))
    left, right = figure.subplots(1, 2)
    index, level = numbers["index"], numbers["epsilon"]
    fixed, stopped = {"color": VERMILION}, {"color": BLUE, "linestyle": (0, (5, 2))}
    permuted = {"color": GREEN, "linestyle": (0, (1, 1)), "linewidth": 3.0}
    left.plot(index, numbers["fixed"], label="fixed order", **fixed)
    left.plot(index, numbers["permuted"], label="random order", **permuted)
    left.plot(index, numbers["stopped"], label=r"stopped after $T$ steps, $T$ uniform", **stopped)
    left.set(
        yscale="log", ylim=(1e-12, 1.0), xlim=(0.0, 41.0), xlabel=r"the record's place $i$ in the data set of $n = 40$",
        ylabel=rf"$\delta$ at $\varepsilon = {EPSILON:g}$, by contraction",
    )
    left.legend(loc="center left")
    left.set_title("by record", loc="left")
    right.plot(level, numbers["fixed, worst"], label="fixed order: the last record", **fixed)
    right.plot(level, numbers["permuted, worst"], label="random order: every record", **permuted)
    right.plot(level, numbers["stopped, worst"], label="random stopping: the first record", **stopped)
    right.plot(
        level, numbers["stopped, rdp"], color="#666666", linewidth=1.4,
        label=f"random stopping by Rényi divergence,\norders up to {numbers['max_order']:.3g} only",
    )
    right.set(
        yscale="log", ylim=(1e-8, 1.0), xlim=(0.0, level[-1]), xlabel=r"privacy budget $\varepsilon$",
        ylabel=r"$\delta$ of the worst record",
    )
    right.legend(loc="lower left")
    right.set_title("the worst record", loc="left")
    figure.supxlabel(f"{TITLES['convex']}; {CAPTION}", fontsize=11)
    return figure
