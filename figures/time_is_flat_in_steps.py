"""Claim: a certified delta takes the same few milliseconds at a billion steps as at a thousand, and keeps eight digits."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks._measure import read
from figures._style import BLUE, VERMILION


def data(*, quick: bool = False) -> dict[str, Any]:
    """The rows of ``benchmarks/steps.json``: one family whose cost in epsilon hardly changes, and three runs of their own."""
    found = read("steps")
    fields = ("sigma", "q", "steps", "seconds", "relative_width", "certified")
    return {name: {f: np.array([row[f] for row in found[name]]) for f in fields} for name in ("sampled", "fixed")}


def draw(numbers: dict[str, Any]) -> Figure:
    """Time above, width below, over nine orders of magnitude of steps."""
    figure = Figure(figsize=(7.2, 6.0))
    above, below = figure.subplots(2, 1, sharex=True)
    flat, others = numbers["sampled"], numbers["fixed"]
    for axes, field, scale in ((above, "seconds", 1e3), (below, "relative_width", 1.0)):
        axes.plot(flat["steps"], scale * flat[field], "o-", color=BLUE, label=r"noise multiplier 2, $q=2/\sqrt{\mathrm{steps}}$")
        axes.plot(others["steps"], scale * others[field], "D", color=VERMILION, markersize=7, label="other runs: noise multiplier, $q$")
        for x, y, sigma, q in zip(others["steps"], scale * others[field], others["sigma"], others["q"], strict=True):
            place = (-8, 11) if y > scale * flat[field][flat["steps"] == x].max() else (9, -14)  # clear of the line
            axes.annotate(f"{sigma:g}, {q:g}", (x, y), place, textcoords="offset points", color=VERMILION)
    above.set(xscale="log", ylim=(0.0, 1.6e3 * max(flat["seconds"].max(), others["seconds"].max())), ylabel="milliseconds")
    above.set_xlim(4e2, 2.5e9)
    above.set_xlabel("steps").set_visible(False)
    above.legend(loc="upper right")
    below.set(yscale="log", ylim=(1e-13, 1e-7), xlabel="steps", ylabel=r"certified relative width of $\delta$")
    return figure
