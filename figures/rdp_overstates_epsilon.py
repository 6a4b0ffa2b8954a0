"""Claim: every conversion from Renyi divergences gives a larger delta than the exact curve, the older the larger."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dpaccount import Gaussian, PrivacyProfile, RenyiBound
from figures._style import BLACK, BLUE, GREEN, VERMILION

CONVERSIONS = {"mironov": VERMILION, "improved": BLUE, "optimal": GREEN}
LINES = {"mironov": "-", "improved": "-", "optimal": (0, (3, 2))}


def data(*, quick: bool = False) -> dict[str, Any]:
    """log delta of a Gaussian with noise multiplier 1: exact, and from its Renyi curve D_a = a/2."""
    epsilon = np.linspace(0.05, 8.0, 9 if quick else 61)
    bound = RenyiBound.zcdp(0.5)
    curves = {
        name: np.asarray(PrivacyProfile(bound, conversion=name).log_delta(epsilon).estimate) for name in CONVERSIONS
    }
    exact = PrivacyProfile(Gaussian(1.0))
    at = {name: float(PrivacyProfile(bound, conversion=name).epsilon(delta=1e-5)) for name in CONVERSIONS}
    return {
        "epsilon": epsilon, "exact": np.asarray(exact.log_delta(epsilon).estimate), "curves": curves,
        "epsilon_at_1e-5": at | {"exact": float(exact.epsilon(delta=1e-5))},
    }


def draw(numbers: dict[str, Any]) -> Figure:
    """delta against epsilon, and the ratio to the exact curve."""
    figure = Figure(figsize=(9.6, 4.4))
    left, right = figure.subplots(1, 2)
    epsilon, at = numbers["epsilon"], numbers["epsilon_at_1e-5"]
    for name, log_delta in numbers["curves"].items():
        style = {"color": CONVERSIONS[name], "linestyle": LINES[name]}
        left.plot(epsilon, np.exp(log_delta), label=f"{name}: {at[name]:.2f}", **style)
        right.plot(epsilon, np.exp(log_delta - numbers["exact"]), **style)
    left.plot(epsilon, np.exp(numbers["exact"]), color=BLACK, label=f"exact: {at['exact']:.2f}")
    left.axhline(1e-5, color="black", linewidth=1.0, linestyle=":")
    left.set(yscale="log", xlabel=r"privacy budget $\varepsilon$", ylabel=r"$\delta$", ylim=(1e-13, 2.0), xlim=(0.0, 8.0))
    left.legend(title=r"$\varepsilon$ at $\delta=10^{-5}$", loc="lower left")
    left.set_title("Gaussian, noise multiplier 1", loc="left")
    right.axhline(1.0, color=BLACK)
    right.set(yscale="log", xlabel=r"privacy budget $\varepsilon$", ylabel=r"$\delta$ over the exact $\delta$", xlim=(0.0, 8.0))
    right.set_title("how much is lost", loc="left")
    return figure
