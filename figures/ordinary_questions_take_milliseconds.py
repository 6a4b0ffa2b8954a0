"""Claim: delta, epsilon and a calibrated noise multiplier take milliseconds, at most a fiftieth of what dp-accounting takes."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from benchmarks._measure import read
from figures._style import BLACK, BLUE, GREEN, VERMILION

LOOKS = {"dp-accounting": (BLUE, "o"), "opake-accounting": (GREEN, "^"), "prv-accountant": (BLACK, "v")}
WORDS = {
    "delta (1, 0.01, 1000) at epsilon 1": "$\\delta$ at $\\varepsilon=1$\n(1, 0.01, 1000)",
    "delta (0.5, 1e-4, 10^6) at epsilon 3": "$\\delta$ at $\\varepsilon=3$\n(0.5, 0.0001, 1000000)",
    "epsilon (1, 0.01, 1000) at delta 1e-5": "$\\varepsilon$ at $\\delta=10^{-5}$\n(1, 0.01, 1000)",
    "noise multiplier for (2, 1e-5), 0.01, 1000": "noise multiplier\nfor (2, $10^{-5}$)",
}


def data(*, quick: bool = False) -> dict[str, Any]:
    """Seconds by question and accountant, from ``benchmarks/speed.json``."""
    found = read("speed")["questions"]
    return {
        name: {"dpaccount": found[name]["seconds"]} | {who: row["seconds"] for who, row in found[name]["peers"].items() if "seconds" in row}
        for name in WORDS
    }


def draw(numbers: dict[str, Any]) -> Figure:
    """A row for each question, time to the right."""
    figure = Figure(figsize=(8.4, 4.6))
    axes = figure.subplots()
    for row, times in enumerate(numbers.values()):
        own = times["dpaccount"]
        axes.plot([own, max(times.values())], [-row, -row], color="#BBBBBB", linewidth=1.2, zorder=1)
        axes.annotate(f"{1e3 * own:.3g} ms", (own, -row), (0, 9), textcoords="offset points", ha="center")
        axes.plot([own], [-row], "D", color=VERMILION, markersize=9, label="_" if row else "dpaccount, certified, both directions")
        for who, (color, marker) in LOOKS.items():
            label = "_" if row else f"{who}, its default grid"
            axes.plot([times.get(who, float("nan"))], [-row], marker, color=color, markersize=9, label=label)
    axes.set(xscale="log", xlim=(1e-3, 1e2), ylim=(-len(numbers) + 0.4, 0.6), xlabel="seconds of processor time", ylabel="question")
    axes.set_yticks([-i for i in range(len(numbers))], [WORDS[name] for name in numbers])
    figure.legend(loc="outside upper center", ncols=2)
    return figure
