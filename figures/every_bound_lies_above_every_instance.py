"""Claim: in 210 random one-dimensional instances the exact curve of the last iterate lies below every bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from figures._instances import EPSILON, KINDS, cases, exact
from figures._style import BLACK, BLUE, GREEN, VERMILION

COUNT, COLUMNS = 210, 15
BOTTOM = 1e-9  # delta at the foot of a panel
LEVEL = EPSILON[EPSILON >= 0.0]
CURVES = {"rdp": VERMILION, "shifted": GREEN, "contraction": BLUE, "exact": BLACK}
LABELS = {"rdp": "Rényi, improved", "shifted": "shifted interpolation", "contraction": "contraction", "exact": "exact curve"}


def data(*, quick: bool = False) -> dict[str, Any]:
    """delta of every bound, and the exact curve, at epsilons from 0 to 4; the kinds one after another."""
    found = cases(30 if quick else COUNT)
    ordered = [case for j in range(3) for case in found[j::3]]
    panels = []
    for case in ordered:
        run, index = case.run, case.index
        bounds = {m: np.asarray(run.delta(LEVEL, index, method=m).upper) for m in run.methods if m != "best"}
        panels.append({"exact": exact(case, LEVEL), "title": f"{index}/{run.num_records}", **bounds})
    return {"panels": panels}


def draw(numbers: dict[str, Any]) -> Figure:
    """One contact sheet: a small panel an instance, drawn on common axes so that the file stays small."""
    panels = numbers["panels"]
    rows = -(-len(panels) // COLUMNS)
    figure = Figure(figsize=(13.0, 1.6 + 0.82 * rows))
    axes = figure.subplots()
    height = -np.log10(BOTTOM)
    lines: dict[str, list[Any]] = {kind: [] for kind in CURVES}
    frames = []
    for k, panel in enumerate(panels):
        x0, y0 = k % COLUMNS, -(k // COLUMNS) - 1
        frames.append([(x0 + 0.08, y0 + 0.86), (x0 + 0.08, y0 + 0.06), (x0 + 0.94, y0 + 0.06)])
        axes.text(x0 + 0.94, y0 + 0.86, panel["title"], fontsize=6, ha="right", va="top", color="#666666")
        for kind in CURVES:
            if kind in panel:
                seen = panel[kind] > BOTTOM
                scaled = np.log10(np.maximum(panel[kind][seen], BOTTOM)) / height
                lines[kind].append(np.column_stack([x0 + 0.08 + 0.86 * LEVEL[seen] / LEVEL[-1], y0 + 0.86 + 0.8 * scaled]))
    axes.add_collection(LineCollection(frames, colors="#AAAAAA", linewidths=0.6))
    for kind, colour in CURVES.items():
        width = 1.4 if kind == "exact" else 1.1
        axes.add_collection(LineCollection(lines[kind], colors=colour, linewidths=width, label=LABELS[kind]))
    axes.set(xlim=(0, COLUMNS), ylim=(-rows, 0), xticks=[], yticks=[])
    axes.grid(visible=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel(
        rf"each panel: $\varepsilon$ from 0 to {LEVEL[-1]:g}, and $\delta$ from $10^{{-9}}$ at the foot to 1; "
        r"above it the record's place $i/n$." + "\nFirst third: " + "; second: ".join(KINDS[:2]) + "; last: " + KINDS[2]
        + ". Quadratic losses with random constants, curvatures and centres, seed 20260"
    )
    axes.set_ylabel(f"{len(panels)} instances")
    figure.legend(loc="outside lower center", ncols=4)
    return figure
