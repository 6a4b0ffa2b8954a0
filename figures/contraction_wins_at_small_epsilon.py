"""Claim: for hidden iterates contraction gives the least delta at small epsilon, and for late records over a long range."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures._iteration import CAPTION, LINES, SETTINGS

SHORT = {"convex": r"$\rho = 0$, $\sigma = 2$", "strong": r"$\rho = 0.4$, $\sigma = 1$"}
CONVERSIONS = ("mironov", "improved", "optimal")
ENDS = {("convex", 1): 4.0, ("convex", 20): 4.0, ("convex", 39): 4.0, ("strong", 20): 0.5, ("strong", 30): 1.6, ("strong", 39): 5.0}


def data(*, quick: bool = False) -> dict[str, Any]:
    """log delta against epsilon for three records of both settings: every bound, the best, and the worst known instance."""
    panels: dict[tuple[str, int], dict[str, Any]] = {}
    for name, (run, records) in SETTINGS.items():
        for index in records:
            epsilon = np.linspace(0.0, ENDS[name, index], 9 if quick else 61)
            curves = {m: np.asarray(run.log_delta(epsilon, index, method=m).upper) for m in ("contraction", "shifted", "nonlinear", "best")}
            for conversion in CONVERSIONS:
                level = epsilon[:: 4 if conversion == "optimal" and not quick else 1]  # it takes a search for every point
                upper = run.log_delta(level, index, method="rdp", conversion=conversion).upper
                curves[conversion] = np.interp(epsilon, level, np.asarray(upper))
            curves["exact"] = np.asarray(run.log_delta(epsilon, index, method="contraction", instance=True).lower)
            panels[name, index] = {"epsilon": epsilon, **curves}
    return {"panels": panels}


def draw(numbers: dict[str, Any]) -> Figure:
    """Two rows of three panels with a common legend below."""
    figure = Figure(figsize=(11.0, 7.6))
    grid = figure.subplots(2, 3)
    for axes, ((name, index), panel) in zip(grid.flat, numbers["panels"].items(), strict=True):
        _panel(axes, panel)
        axes.set_title(f"{SHORT[name]}, record $i = {index}$", loc="left", fontsize=12)
    handles, labels = grid[1, 2].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, title=CAPTION)
    return figure


def _panel(axes: Axes, panel: dict[str, Any]) -> None:
    for kind in ("best", *CONVERSIONS, "shifted", "contraction", "nonlinear", "exact"):
        log10 = panel[kind] / np.log(10.0)
        seen = np.isfinite(log10)
        if not seen.any():  # an instance below what a quadrature resolves
            continue
        mark = {"marker": "o", "markersize": 4.0, "markevery": [0]} if kind == "exact" else {}
        axes.plot(panel["epsilon"][seen], log10[seen], **LINES[kind], **mark)
    bottom = max(1.08 * float(panel["best"].min()) / np.log(10.0), -60.0)
    axes.set(
        xlabel=r"privacy budget $\varepsilon$", ylabel=r"$\log_{10}\,\delta$", xlim=(-0.02 * panel["epsilon"][-1], panel["epsilon"][-1]),
        ylim=(bottom, -0.04 * bottom),
    )
