"""Claim: with few samples, few steps or a big jump, most deltas above 1e-20 are still known to four digits within a second."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks._measure import read
from figures._style import BLUE, GREEN, ORANGE, PURPLE, VERMILION

EDGES = (0.0, -20.0, -50.0, -100.0, -300.0, -np.inf)
COLORS = (BLUE, GREEN, ORANGE, VERMILION, PURPLE)
LINES: tuple[Any, ...] = ("-", (0, (6, 1.5)), (0, (4, 1, 1, 1)), (0, (2, 1)), (0, (1, 1)))


def data(*, quick: bool = False) -> dict[str, Any]:
    """Widths and times of ``benchmarks/corner.json`` by range of delta; a case without an answer is in the first range, without end."""
    found = read("corner")
    rows = [dict(zip(found["fields"], row, strict=True)) for row in found["rows"]]
    log10 = np.array([-np.inf if r["log_delta"] is None else r["log_delta"] / np.log(10.0) for r in rows])
    lost = np.array([r["method"] in ("TooSlow", "NumericalFailure") for r in rows])
    width = np.array([np.inf if r["log_width"] is None else r["log_width"] for r in rows])
    taken = np.array([r["seconds"] for r in rows])
    groups = {}
    for high, low in itertools.pairwise(EDGES):
        inside = ~lost & (log10 <= high) & ((log10 > low) if low > -np.inf else (log10 > -np.inf))
        name = f"$\\delta\\geq 10^{{{low:.0f}}}$" if low > -np.inf else "below"
        groups[name] = {"width": np.sort(width[inside]), "seconds": np.sort(taken[inside])}
    return {"groups": groups, "lost": int(lost.sum()), "cases": len(rows)}


def draw(numbers: dict[str, Any]) -> Figure:
    """The share of cases below each width, and within each time."""
    figure = Figure(figsize=(10.0, 4.6))
    left, right = figure.subplots(1, 2, sharey=True)
    for (name, group), color, line in zip(numbers["groups"].items(), COLORS, LINES, strict=True):
        for axes, field, least in ((left, "width", 1e-13), (right, "seconds", 1e-4)):
            values = np.maximum(group[field], least)
            share = np.arange(1, len(values) + 1) / max(len(values), 1)
            style = {"color": color, "linestyle": line, "label": f"{name}  ({len(values)})"}
            axes.step(np.r_[values[:1], values], np.r_[np.zeros_like(share[:1]), share], where="post", **style)
    left.set(xscale="log", xlim=(1e-13, 1e3), ylim=(0.0, 1.02), xlabel=r"$\log(\mathrm{upper}/\mathrm{lower})$ of $\delta$")
    left.set_ylabel("share of cases")
    right.set(xscale="log", xlim=(1e-3, 6.0), xlabel="seconds, one direction", ylabel="share of cases")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure
