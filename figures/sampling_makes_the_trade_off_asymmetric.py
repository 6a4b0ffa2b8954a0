"""Claim: Poisson sampling lifts the trade-off towards the diagonal, and both directions need the convex hull."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dpaccount import Gaussian, PoissonSampled, PrivacyProfile
from figures._style import BLACK, BLUE, GREEN, VERMILION

NOISE, PROBABILITY = 0.5, 0.3


def data(*, quick: bool = False) -> dict[str, Any]:
    """Least false negative rates of the unsampled step, of both directions of the sampled one, and of their hull."""
    even = np.linspace(0.0, 1.0, 21 if quick else 101)
    alpha = even * even * (3.0 - 2.0 * even)  # both ends are steep
    sampled = PrivacyProfile(PoissonSampled(Gaussian(NOISE), PROBABILITY))
    remove, add = (PrivacyProfile(side, adjacency="as-written") for side in sampled.directions)
    return {
        "alpha": alpha,
        "full": np.asarray(PrivacyProfile(Gaussian(NOISE)).trade_off(alpha).estimate),
        "one": np.asarray(remove.trade_off(alpha).estimate),
        "other": np.asarray(add.trade_off(alpha).estimate),
        "hull": np.asarray(sampled.trade_off(alpha).estimate),
    }


def draw(numbers: dict[str, Any]) -> Figure:
    """One square panel with direct labels."""
    figure = Figure(figsize=(6.4, 6.0))
    axes = figure.subplots()
    alpha = numbers["alpha"]
    axes.plot(alpha, 1.0 - alpha, color="#888888", linestyle="--", linewidth=1.2)
    axes.fill_between(alpha, numbers["hull"], np.minimum(numbers["one"], numbers["other"]), color=BLACK, alpha=0.12, linewidth=0)
    axes.plot(alpha, numbers["one"], color=BLUE, label="sampled, a record removed")
    axes.plot(alpha, numbers["other"], color=GREEN, label="sampled, a record added")
    axes.plot(alpha, numbers["hull"], color=BLACK, linestyle=(0, (4, 2)), label="sampled, both: convex hull of the minimum")
    axes.plot(alpha, numbers["full"], color=VERMILION, label="not sampled")
    axes.annotate("a blind guess", (0.66, 0.355), rotation=-45, rotation_mode="anchor", color="#666666")
    axes.set(
        xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal",
        xlabel=r"false positive rate $\alpha$", ylabel=r"least false negative rate $f(\alpha)$",
    )
    axes.set_title(f"Gaussian, noise multiplier {NOISE:g}; sampling probability {PROBABILITY:g}", loc="left")
    axes.legend(loc="upper right")
    return figure
