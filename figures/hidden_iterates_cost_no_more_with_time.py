"""Claim: noisy gradient descent with hidden iterates costs no more from some step on, while releasing them costs ever more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dpaccount.iteration import NoisyGD
from figures._style import BLACK, BLUE, GREEN, VERMILION

DELTA = 1e-6
STRONG = NoisyGD(100, lipschitz=1, smoothness=1, strong_convexity=0.05, step_size=1.0, noise_scale=0.1, steps=1, diameter=0.5)
RUNS = {"strong": STRONG, "convex": replace(STRONG, strong_convexity=0.0)}
TITLES = {"strong": r"strongly convex losses, $\rho = 0.05$", "convex": r"convex losses, $\rho = 0$"}
LINES: dict[str, Any] = {
    "composition": {"color": VERMILION, "linestyle": (0, (5, 1.5)), "label": "every iterate released"},
    "contraction": {"color": BLUE, "label": r"contraction of $\mathsf{E}_\gamma$"},
    "shifted": {"color": GREEN, "linestyle": (0, (7, 2)), "linewidth": 2.4, "label": "shifted interpolation"},
}


def data(*, quick: bool = False) -> dict[str, Any]:
    """epsilon at delta = 1e-6 against the number of full-batch steps, by each bound, and the limit of infinitely many."""
    steps = np.unique(np.geomspace(1, 100_000, 9 if quick else 41).astype(int))
    few = np.array([1, 2, 100, 100_000])  # contraction by the last step alone: the same from the second step on
    found: dict[str, Any] = {"steps": dict.fromkeys(LINES, steps) | {"contraction": few}}
    for name, run in RUNS.items():
        found[name] = {
            m: np.array([float(replace(run, steps=int(t)).epsilon(delta=DELTA, method=m)) for t in found["steps"][m]]) for m in LINES
        }
        found[name]["limit"] = float(run.limit().epsilon(delta=DELTA, method="shifted"))
    return found


def draw(numbers: dict[str, Any]) -> Figure:
    """Two panels on common axes."""
    figure = Figure(figsize=(10.6, 5.4))
    grid = figure.subplots(1, 2, sharey=True)
    for axes, name in zip(grid, RUNS, strict=True):
        curves = numbers[name]
        for method, line in LINES.items():
            axes.plot(numbers["steps"][method], curves[method], **line)
        axes.axhline(curves["limit"], color=BLACK, linestyle=(0, (1, 2)), linewidth=1.6, label=r"limit of infinitely many steps")
        axes.set(
            xscale="log", yscale="log", xlabel="full-batch steps", ylabel=r"$\varepsilon$ at $\delta = 10^{-6}$",
            xlim=(1, 1e5), ylim=(0.2, 200.0),
        )
        axes.set_title(f"{TITLES[name]}: limit {curves['limit']:.2f}", loc="left")
    handles, labels = grid[0].get_legend_handles_labels()
    caption = r"$n = 100$ records, $L = \beta = \eta = 1$, $D = 0.5$, noise $\sigma = 0.1$ on the mean gradient; add-or-remove"
    figure.legend(handles, labels, loc="outside lower center", ncols=4, title=caption)
    return figure
