"""Claim: in 210 random one-dimensional instances the exact curve of the last iterate lies below every bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from figures._instances import KINDS, cases, exact
from figures._style import BLACK, BLUE, GREEN, SKY, VERMILION

COUNT, COLUMNS = 210, 15
FOOT = 1e-9  # delta at the foot of a panel
FARTHEST = 8.0  # no panel goes beyond this epsilon
ENDS = np.geomspace(0.01, FARTHEST, 40)
CURVES = {"rdp": VERMILION, "shifted": GREEN, "contraction": BLUE, "nonlinear": SKY, "exact": BLACK}
LABELS = {
    "rdp": "Rényi, improved", "shifted": "shifted interpolation", "contraction": r"contraction of $\mathsf{E}_\gamma$",
    "nonlinear": "nonlinear contraction", "exact": "exact curve",
}


def data(*, quick: bool = False) -> dict[str, Any]:
    """delta of every bound and the exact curve, from epsilon = 0 to where the best bound is 1e-9; the kinds one after another."""
    found = cases(30 if quick else COUNT)
    panels = []
    for case in (case for j in range(3) for case in found[j::3]):
        run, index = case.run, case.index
        small = np.flatnonzero(np.asarray(run.delta(ENDS, index).upper) <= FOOT)
        end = float(ENDS[small[0]]) if small.size else FARTHEST
        level = end * np.linspace(0.0, 1.0, 9 if quick else 17) ** 1.5
        bounds = {m: np.asarray(run.delta(level, index, method=m).upper) for m in run.methods if m in CURVES}
        panels.append({"epsilon": level, "exact": exact(case, level), "title": f"{index}/{run.num_records}, {end:.2g}", **bounds})
    return {"panels": panels}


def draw(numbers: dict[str, Any]) -> Figure:
    """One contact sheet: a small panel an instance, drawn on common axes so that the file stays small."""
    panels = numbers["panels"]
    rows = -(-len(panels) // COLUMNS)
    figure = Figure(figsize=(13.0, 1.9 + 0.85 * rows))
    axes = figure.subplots()
    lines: dict[str, list[Any]] = {kind: [] for kind in CURVES}
    frames = []
    for k, panel in enumerate(panels):
        left, foot = k % COLUMNS + 0.08, -(k // COLUMNS) - 0.94
        frames.append([(left, foot + 0.72), (left, foot), (left + 0.86, foot)])
        axes.text(left + 0.86, foot + 0.74, panel["title"], fontsize=6.5, ha="right", va="bottom", color="#555555")
        across = left + 0.86 * panel["epsilon"] / panel["epsilon"][-1]
        for kind in CURVES:
            if kind in panel:
                seen = panel[kind] > FOOT
                up = foot + 0.72 * (1.0 - np.log10(panel[kind][seen]) / np.log10(FOOT))
                lines[kind].append(np.column_stack([across[seen], up]))
    axes.add_collection(LineCollection(frames, colors="#AAAAAA", linewidths=0.6))
    for kind, colour in CURVES.items():
        width = 1.5 if kind == "exact" else 1.1
        axes.add_collection(LineCollection(lines[kind], colors=colour, linewidths=width, label=LABELS[kind]))
    axes.set(xlim=(0, COLUMNS), ylim=(-rows, 0), xticks=[], yticks=[])
    axes.grid(visible=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel(
        r"Each panel: $\log\,\delta$ from $10^{-9}$ at the foot to 1, $\varepsilon$ from 0 to the number above it, after the record's "
        "place $i/n$.\nThree parts of equal length: " + "; ".join(KINDS) + ".\nQuadratic losses with random constants, curvatures and "
        "centres; seed 20260.", fontsize=11,
    )
    axes.set_ylabel(f"{len(panels)} instances")
    figure.legend(loc="outside lower center", ncols=5)
    return figure
