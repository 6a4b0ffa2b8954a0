"""Claim: for Poisson-sampled DP-SGD removal has the larger delta at every epsilon > 0, and RDP is far above both."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dpaccount import Gaussian, PoissonSampled, PrivacyProfile, RenyiBound
from figures._style import BLUE, GREEN, VERMILION

NOISE, PROBABILITY, STEPS = 1.0, 0.01, 1000


def data(*, quick: bool = False) -> dict[str, Any]:
    """log delta of each direction composed on its own, and of the run's Renyi curve by the improved conversion."""
    epsilon = np.linspace(0.05, 4.0, 9 if quick else 60)
    profile = PrivacyProfile(STEPS * PoissonSampled(Gaussian(NOISE), PROBABILITY))
    remove, add = (PrivacyProfile(side, adjacency="as-written") for side in profile.directions)
    renyi = profile.renyi()
    rdp = PrivacyProfile(RenyiBound.from_function(lambda order: float(renyi(order).upper), max_order=200.0))
    return {
        "epsilon": epsilon,
        "remove": np.asarray(remove.log_delta(epsilon).estimate),
        "add": np.asarray(add.log_delta(epsilon).estimate),
        "rdp": np.asarray(rdp.log_delta(epsilon).estimate),
    }


def draw(numbers: dict[str, Any]) -> Figure:
    """Three curves on one panel."""
    figure = Figure()
    axes = figure.subplots()
    epsilon = numbers["epsilon"]
    axes.plot(epsilon, np.exp(numbers["rdp"]), color=VERMILION, linestyle=(0, (5, 1.5)), label="RDP, improved conversion")
    axes.plot(epsilon, np.exp(numbers["remove"]), color=BLUE, label="a record is removed")
    axes.plot(epsilon, np.exp(numbers["add"]), color=GREEN, linestyle=(0, (3, 1, 1, 1)), label="a record is added")
    axes.axhline(1e-5, color="black", linewidth=1.0, linestyle=":")
    axes.annotate(r"$\delta=10^{-5}$", (0.05, 1.5e-5), va="bottom")
    axes.set(yscale="log", ylim=(1e-16, 2.0), xlim=(0.0, 4.0), xlabel=r"privacy budget $\varepsilon$", ylabel=r"$\delta$")
    axes.set_title(f"{STEPS} steps, noise multiplier {NOISE:g}, sampling probability {PROBABILITY:g}", loc="left")
    axes.legend(loc="lower left")
    return figure
