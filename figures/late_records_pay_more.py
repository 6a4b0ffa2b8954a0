"""Claim: with hidden iterates delta falls by orders of magnitude with the number of steps after a record's own."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from figures._iteration import CAPTION, LINES, SETTINGS, TITLES

EPSILON = 0.5
METHODS = ("contraction", "shifted", "best")


def data(*, quick: bool = False) -> dict[str, Any]:
    """log delta at epsilon = 0.5 against the record's index, for both settings."""
    found: dict[str, dict[str, Any]] = {}
    for name, (run, _) in SETTINGS.items():
        index = np.arange(1, 41, 3 if quick else 1)
        found[name] = {"index": index, "exact": np.asarray(run.log_delta(EPSILON, index, method="contraction", instance=True).lower)}
        for method in METHODS:
            found[name][method] = np.asarray(run.log_delta(EPSILON, index, method=method).upper)
        for conversion in ("mironov", "improved"):
            found[name][conversion] = np.asarray(run.log_delta(EPSILON, index, method="rdp", conversion=conversion).upper)
    return found


def draw(numbers: dict[str, Any]) -> Figure:
    """Two panels that share an axis."""
    figure = Figure(figsize=(10.6, 5.4))
    grid = figure.subplots(1, 2, sharey=True)
    for axes, (name, curves) in zip(grid, numbers.items(), strict=True):
        for kind in ("best", "mironov", "improved", "shifted", "contraction"):
            axes.plot(curves["index"], curves[kind] / np.log(10.0), **LINES[kind])
        seen = np.isfinite(curves["exact"])
        marks = {"color": "black", "marker": "o", "markersize": 4.5, "linestyle": "none", "label": LINES["exact"]["label"]}
        axes.plot(curves["index"][seen], curves["exact"][seen] / np.log(10.0), **marks)
        axes.set(xlabel=r"the record's place $i$ in the pass of $n = 40$", xlim=(0.0, 41.0), ylim=(-30.0, 1.0))
        axes.set_ylabel(rf"$\log_{{10}}\,\delta$ at $\varepsilon = {EPSILON:g}$")
        axes.set_title(TITLES[name], loc="left")
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, title=CAPTION)
    return figure
