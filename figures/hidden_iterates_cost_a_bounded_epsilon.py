"""Claim: if only the last iterate of noisy gradient descent is seen, epsilon stays below a limit while composition's grows for ever."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dpaccount.iteration import NoisyGD
from figures._style import BLACK, BLUE, ORANGE, VERMILION

DELTA = 1e-6
CONVEX = NoisyGD(
    num_records=20, lipschitz=1.0, smoothness=1.0, strong_convexity=0.0, step_size=0.5, noise_scale=0.5, steps=1, diameter=1.0
)
CURVED = replace(CONVEX, strong_convexity=0.1, diameter=math.inf)


def data(*, quick: bool = False) -> dict[str, Any]:
    """epsilon against steps by each bound, for convex losses on a bounded set and for strongly convex ones without projection."""
    steps = np.unique(np.round(np.geomspace(1, 1e5, 13 if quick else 81)).astype(int))
    numbers: dict[str, Any] = {"steps": steps}
    for panel, run in (("convex", CONVEX), ("curved", CURVED)):
        found: dict[str, Any] = {}
        for name in ("composition", "contraction", "shifted"):
            if name in run.methods:
                answers = [replace(run, steps=int(t)).epsilon(DELTA, method=name) for t in steps]
                found[name] = np.array([a.upper for a in answers])
                if name == "shifted":
                    found["exact"] = np.array([a.lower for a in answers])
        found["limit"] = float(run.limit().epsilon(DELTA).upper)
        numbers[panel] = found
    return numbers


def draw(numbers: dict[str, Any]) -> Figure:
    """Two panels on common axes."""
    figure = Figure(figsize=(10.4, 5.0))
    panels = figure.subplots(1, 2, sharey=True)
    titles = (r"convex, projected, $D=1$", r"$\rho=0.1$, not projected")
    steps = numbers["steps"]
    for axes, panel, title in zip(panels, ("convex", "curved"), titles, strict=True):
        found = numbers[panel]
        axes.plot(steps, found["composition"], color=BLACK, linestyle=":", label="every iterate released")
        if "contraction" in found:
            axes.plot(steps, found["contraction"], color=VERMILION, linestyle=(0, (5, 1.5)), label=r"contraction of $E_\gamma$")
        axes.plot(steps, found["shifted"], color=BLUE, label="shifted interpolation")
        axes.axhline(found["limit"], color=BLUE, linewidth=1.0, linestyle=(0, (1, 2)))
        axes.annotate(rf"limit {found['limit']:.2f}", (2e3, found["limit"] * 1.2), color=BLUE)
        if found["exact"].any():
            axes.plot(
                steps[::8], found["exact"][::8], "o", color=ORANGE, markersize=6, markeredgecolor=BLACK, label="exact, quadratic loss"
            )
        axes.set(xscale="log", yscale="log", xlabel="steps", ylabel=r"$\varepsilon$ at $\delta=10^{-6}$", xlim=(0.8, 1.3e5))
        axes.set_title(title, loc="left")
    handles = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=4)
    figure.suptitle(
        r"$n=20$ records, $L=\beta=1$, step size $0.5$, noise $0.5$ on the mean gradient, a record zeroed out", fontsize=12, x=0.5
    )
    return figure
