"""Claim: at every epsilon, more Gaussian noise means a smaller delta, over hundreds of orders of magnitude."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dpaccount import Gaussian, PrivacyProfile
from figures._style import BLUE, GREEN, ORANGE, PURPLE, VERMILION

COLORS = {0.5: VERMILION, 1.0: ORANGE, 2.0: GREEN, 4.0: BLUE, 8.0: PURPLE}


def data(*, quick: bool = False) -> dict[str, Any]:
    """log10 of delta for each noise multiplier, on one grid of epsilon."""
    epsilon = np.linspace(0.0, 8.0, 17 if quick else 161)
    curves = {
        noise: np.asarray(PrivacyProfile(Gaussian(noise)).log_delta(epsilon).estimate) / np.log(10.0) for noise in COLORS
    }
    return {"epsilon": epsilon, "log10_delta": curves}


def draw(numbers: dict[str, Any]) -> Figure:
    """Two panels: the range of ordinary deltas, and how far the digits reach."""
    figure = Figure(figsize=(9.8, 4.4))
    near, far = figure.subplots(1, 2)
    for noise, log_delta in numbers["log10_delta"].items():
        near.plot(numbers["epsilon"], 10.0 ** np.maximum(log_delta, -300.0), color=COLORS[noise], label=f"{noise:g}")
        far.plot(numbers["epsilon"], log_delta, color=COLORS[noise])
    near.set(yscale="log", ylim=(1e-12, 2.0), xlabel=r"privacy budget $\varepsilon$", ylabel=r"$\delta$")
    near.axhline(1e-5, color="black", linewidth=1.0, linestyle=":")
    near.annotate(r"$\delta=10^{-5}$", (7.95, 1.35e-5), ha="right", va="bottom")
    far.set(xlabel=r"privacy budget $\varepsilon$", ylabel=r"$\log_{10}\,\delta$", ylim=(-1000.0, 20.0))
    near.set_title("one Gaussian release", loc="left")
    far.set_title("the same, far into the tail", loc="left")
    figure.legend(title="noise multiplier", loc="outside right center")
    return figure
