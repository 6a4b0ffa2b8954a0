"""Claim: one default, tuned on no test part, reaches what a plain private solver reaches with settings chosen on it, and more."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks._measure import read
from figures._style import BLACK, BLUE, GREEN, ORANGE, VERMILION

SETS = {
    "breast_cancer": "breast cancer", "digits": "digits", "spambase": "spambase", "diamonds": "diamonds", "reuters": "Reuters r8, earn",
}  # fmt: skip
LINES = {
    "gradient descent": ("one default, gradient descent", VERMILION, "D-"),
    "Frank-Wolfe": ("one default, Frank-Wolfe", BLACK, "s-"),
    "objective perturbation": ("one default, objective perturbation", ORANGE, "v-"),
    "objective perturbation, pure": ("one default, objective perturbation, pure $\\varepsilon$-DP", GREEN, "o-"),
    "tuned on the test part": ("plain gradient descent, tuned on the test part", BLUE, "o--"),
    "diffprivlib, best C": ("diffprivlib, tuned on the test part, pure $\\varepsilon$-DP", GREEN, "^:"),
}
EPSILONS = (0.1, 1.0, 8.0)


def data(*, quick: bool = False) -> dict[str, Any]:
    """Means and standard errors by set and solver, from ``benchmarks/solvers.json``."""
    found = read("solvers")["sets"]
    out: dict[str, Any] = {}
    for name in SETS:
        rows = [found[name][f"epsilon {epsilon:g}"] for epsilon in EPSILONS]
        out[name] = {line: [row[line][:2] for row in rows] for line in LINES if line in rows[0]}
        out[name] |= {"not private": found[name]["not private"], "majority": found[name]["majority"]}
        out[name]["bar"] = [row.get("bar", 0.0) for row in rows]
    return out


def draw(numbers: dict[str, Any]) -> Figure:
    """A panel for each set."""
    figure = Figure(figsize=(9.6, 5.6))
    panels = figure.subplots(2, 3).ravel()
    for axes, (name, found) in zip(panels, numbers.items(), strict=False):
        axes.axhline(found["not private"], color="#777777", linewidth=1.0, label="without privacy")
        if found["majority"] > min(row[0] for line in LINES for row in found.get(line, [(1.0,)])) - 0.1:
            axes.axhline(found["majority"], color="#BBBBBB", linewidth=1.0, linestyle="--", label="largest class")
        for line, (label, color, style) in LINES.items():
            if line in found:
                mean, error = np.array(found[line]).T
                axes.errorbar(EPSILONS, mean, 2 * error, fmt=style, color=color, markersize=5, linewidth=1.3, label=label)
        axes.set(xscale="log", title=SETS[name], xlabel="$\\varepsilon$", ylabel="accuracy on the test part")
        axes.set_xticks(EPSILONS, ["0.1", "1", "8"])
        axes.minorticks_off()
    known = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.delaxes(panels[-1])
    figure.legend(known.values(), known.keys(), loc="lower right", bbox_to_anchor=(0.99, 0.12), fontsize=8)
    return figure
