"""Claim: mean excess risks of draws stay below the theorem's bound, and gradient descent is better on absolute deviations alone."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks._measure import read
from figures._style import BLACK, BLUE, VERMILION

SETS = {
    "absolute": "absolute deviation, synthetic", "breast_cancer": "logistic, breast cancer", "digits": "digits",
}  # fmt: skip
COLUMNS = ("n", "d", "excess", "error", "bound", "DP-GD", "DP-GD error", "at 0")


def data(*, quick: bool = False) -> dict[str, Any]:
    """Rows (n, d, excess, its error, bound, DP-GD, its error, excess at 0) of each data set, from ``benchmarks/sampler.json``."""
    found: dict[str, list[list[float]]] = {name: [] for name in SETS}
    for case, row in read("sampler")["utility"].items():
        name, n, d = re.fullmatch(r"(\w+), n (\d+), d (\d+)", case).groups()  # type: ignore[union-attr]
        found[name].append([float(n), float(d), *(row[key] for key in COLUMNS[2:])])
    return {name: np.array(sorted(rows, key=lambda row: (row[1], row[0]))) for name, rows in found.items()}


def draw(numbers: dict[str, Any]) -> Figure:
    """A panel a data set; cases in order of dimension, then of records."""
    figure = Figure(figsize=(11.0, 5.0))
    panels = figure.subplots(1, 3, sharey=True, gridspec_kw={"width_ratios": [max(len(rows), 3) for rows in numbers.values()]})
    for axes, (name, rows) in zip(panels, numbers.items(), strict=True):
        place = np.arange(len(rows))
        axes.plot(place, rows[:, 4], "_", color=BLACK, markersize=16, markeredgewidth=2, label="bound of the theorem")
        axes.errorbar(place, rows[:, 2], 2 * rows[:, 3], fmt="o", color=BLUE, label="the regularised exponential mechanism")
        axes.errorbar(place, rows[:, 5], 2 * rows[:, 6], fmt="D", color=VERMILION, label="DP-GD, its default")
        axes.plot(place, rows[:, 7], "x", color="#777777", label=r"$\theta = 0$, no data at all")
        axes.set(yscale="log", title=SETS[name], xlabel="$n$ above $d$", ylabel="mean excess empirical risk")
        axes.set_xticks(place, [f"{int(n)}\n{int(d)}" for n, d in rows[:, :2]], fontsize=10)
        axes.set_xlim(-0.6, len(rows) - 0.4)
    caption = r"$\varepsilon = 1$, $\delta = 10^{-5}$, replace-one; $n$ records, $d$ dimensions; bars are two standard errors"
    figure.supxlabel(caption, fontsize=11)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=10)
    return figure
