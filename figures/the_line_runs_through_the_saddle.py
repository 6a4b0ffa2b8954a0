"""Claim: on the vertical line through the saddle point of K(z) the integrand for delta is a single smooth bump."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize_scalar

from dpaccount import Gaussian, PoissonSampled, PrivacyProfile
from figures._style import BLACK, BLUE, VERMILION

RUN = 1000 * PoissonSampled(Gaussian(1.0), 0.01)
EPSILON = 1.0


def exponent(z: Any) -> Any:
    """F(z) = K(z) - eps z - log(z (z + 1)), whose exponential is the integrand."""
    return RUN.log_mgf(z) - EPSILON * np.asarray(z) - np.log(np.asarray(z)) - np.log(np.asarray(z) + 1)


def data(*, quick: bool = False) -> dict[str, Any]:
    """The exponent on the real axis, on the line through its minimum, and over a piece of the plane."""
    found = minimize_scalar(exponent, bounds=(0.2, 8.0), method="bounded", options={"xatol": 1e-9})
    saddle = float(found.x)
    c = np.linspace(0.15, 8.0, 31 if quick else 201)
    s = np.linspace(-12.0, 12.0, 61 if quick else 401)
    line = np.exp(exponent(saddle + 1j * s))
    size = 25 if quick else 161
    x, y = np.linspace(-2.0, 8.0, size), np.linspace(-6.0, 6.0, size)
    with np.errstate(divide="ignore"):
        plane = np.real(exponent(x + 1j * y[:, None])) / np.log(10.0)
    delta = float(PrivacyProfile(RUN, adjacency="as-written").delta(EPSILON).estimate)
    integral = float(np.trapezoid(np.real(line), s)) / (2 * np.pi)
    return {
        "saddle": saddle, "c": c, "axis": np.asarray(exponent(c)), "s": s, "line": line,
        "x": x, "y": y, "plane": plane, "delta": delta, "integral": integral,
    }


def draw(numbers: dict[str, Any]) -> Figure:
    """The real axis, the plane with the contour, and the integrand along it."""
    figure = Figure(figsize=(9.2, 7.6))
    panels = figure.subplot_mosaic([["axis", "line"], ["plane", "plane"]], height_ratios=(1.0, 1.15))
    axis, plane, line = (panels[name] for name in ("axis", "plane", "line"))
    saddle, low = numbers["saddle"], float(exponent(numbers["saddle"]))
    axis.plot(numbers["c"], numbers["axis"], color=BLUE)
    axis.plot([saddle], [low], "o", color=VERMILION, markersize=8)
    axis.annotate(f"saddle point\n$c={saddle:.2f}$", (saddle, low), (0, 22), textcoords="offset points", ha="center")
    axis.set(xlabel=r"$c$ on the real axis", ylabel=r"$F(c)$")
    axis.set_title(r"$F(c)=K(c)-\varepsilon c-\log c(c+1)$", loc="left")
    _plane(figure, plane, numbers)
    line.plot(numbers["s"], 1e3 * np.real(numbers["line"]), color=BLUE, label="real part")
    line.plot(numbers["s"], 1e3 * np.abs(numbers["line"]), color=BLACK, linestyle="--", linewidth=1.4, label="modulus")
    line.set(xlabel=r"$s$, with $z=c+is$", ylabel=r"$10^3\,e^{F(c+is)}$", xlim=(-8.0, 8.0), ylim=(-0.3, 5.2))
    line.set_title(rf"area $/\,2\pi$ = $\delta({EPSILON:g})$ = {numbers['delta']:.5f}", loc="left")
    line.legend(loc="upper right")
    return figure


def _plane(figure: Figure, axes: Any, numbers: dict[str, Any]) -> None:
    saddle, middle = numbers["saddle"], float(exponent(numbers["saddle"])) / np.log(10.0)
    levels = np.arange(-4.0, 4.51, 0.5)
    shown = np.clip(numbers["plane"] - middle, -4.0, 4.5)
    filled = axes.contourf(numbers["x"], numbers["y"], shown, levels=levels, cmap="cividis")
    figure.colorbar(filled, ax=axes, label=r"$\log_{10}|e^{F(z)}|$ above the saddle", ticks=[-4, -2, 0, 2, 4])
    axes.axvline(saddle, color="white", linewidth=2.2)
    axes.plot([saddle], [0.0], "o", color=VERMILION, markersize=8)
    axes.plot([0.0, -1.0], [0.0, 0.0], "x", color="black", markersize=8, markeredgewidth=2.4)
    axes.annotate("poles", (-0.5, -0.45), ha="center", va="top")
    axes.annotate("contour", (saddle - 0.15, -5.6), color="white", ha="right")
    axes.set(xlabel=r"Re $z$", ylabel=r"Im $z$")
    axes.grid(False)
    axes.set_title("over the plane: the line crosses a pass", loc="left")
