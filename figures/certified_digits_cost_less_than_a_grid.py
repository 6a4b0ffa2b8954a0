"""Claim: a grid accountant pays for every digit; the contour has ten certified ones for less time than a grid needs for two."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from benchmarks._measure import read
from figures._style import BLACK, BLUE, GREEN, ORANGE, VERMILION

LOOKS = {
    "dpaccount": (VERMILION, "D"), "dpaccount, lattice": (ORANGE, "s"), "dp-accounting": (BLUE, "o"), "opake-accounting": (GREEN, "^"),
    "prv-accountant": (BLACK, "v"),
}


def data(*, quick: bool = False) -> dict[str, Any]:
    """For each run and accountant: time, and by how much the upper bound lies above the truth, from ``benchmarks/cost.json``."""
    runs: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in read("cost")["rows"]:
        if row.get("upper") is None:
            continue
        title = f"({row['sigma']:g}, {row['q']:g}, {row['steps']:g}), $\\varepsilon={row['epsilon']:g}$"
        excess = row["upper"] / row["delta"] - 1.0
        runs.setdefault(title, {}).setdefault(row["who"], []).append((row["seconds"], excess))
    return {"runs": runs}


def draw(numbers: dict[str, Any]) -> Figure:
    """A panel for each run: to the left is cheap, below is tight."""
    figure = Figure(figsize=(11.0, 4.6))
    panels = figure.subplots(1, len(numbers["runs"]), sharey=True)
    for axes, (title, points) in zip(panels, numbers["runs"].items(), strict=True):
        for who, (color, marker) in LOOKS.items():
            known = [(taken, excess) for taken, excess in points.get(who, ()) if excess > 0]  # from the coarsest grid on
            taken, excess = zip(*known, strict=True) if known else ((), ())
            axes.plot(taken, excess, marker=marker, color=color, markersize=7, linewidth=1.4, label=who)
        axes.set(xscale="log", yscale="log", xlim=(1e-3, 5e1), ylim=(1e-13, 30.0), xlabel="seconds")
        axes.set_ylabel("relative excess of the upper bound").set_visible(axes is panels[0])
        axes.set_title(title, loc="left")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5)
    return figure
