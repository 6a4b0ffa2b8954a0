"""Claim: the Gaussian DP theorem of strongly log-concave laws is attained by quadratics, and a kinked loss stays below it."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.special import ndtr, ndtri

from dpaccount import PrivacyProfile, StronglyLogConcave
from figures._style import BLACK, BLUE, VERMILION

LIPSCHITZ, CONVEXITY = 1.0, 1.0
FARTHEST = 12.0


def data(*, quick: bool = False) -> dict[str, Any]:
    """Exact curves by quadrature on a line: a linear change of a quadratic, and |x| changed to |x - 1|, both 1-Lipschitz or less."""
    law = StronglyLogConcave(LIPSCHITZ, CONVEXITY)
    epsilon = np.linspace(0.0, 3.0, 13 if quick else 61)
    alpha = np.linspace(0.0, 1.0, 21 if quick else 101)
    x = np.linspace(-FARTHEST, FARTHEST, 20_001 if quick else 60_001)
    pairs = {
        "quadratic": (0.0 * x, LIPSCHITZ * x),
        "kinked": (LIPSCHITZ / 2 * np.abs(x), LIPSCHITZ / 2 * np.abs(x - 1.0)),
    }
    found: dict[str, Any] = {"epsilon": epsilon, "alpha": alpha, "mu": law.mu}
    found["theorem"] = np.asarray(PrivacyProfile(law.pair).delta(epsilon=epsilon).estimate)
    found["theorem, trade-off"] = ndtr(-ndtri(np.clip(alpha, 1e-300, 1.0)) - law.mu)
    for name, (first, second) in pairs.items():
        p, q = (np.exp(-CONVEXITY * x * x / 2 - change) for change in (first, second))
        p, q = p / p.sum(), q / q.sum()
        found[name] = np.array([max(float(np.maximum(a - np.exp(e) * b, 0.0).sum()) for a, b in ((p, q), (q, p))) for e in epsilon])
        order = np.argsort(-(p / q), kind="stable")
        found[f"{name}, trade-off"] = np.interp(alpha, np.cumsum(q[order]), 1.0 - np.cumsum(p[order]), left=1.0)
    return found


def draw(numbers: dict[str, Any]) -> Figure:
    """delta against epsilon on the left, the trade-off on the right."""
    figure = Figure(figsize=(10.6, 4.8))
    left, right = figure.subplots(1, 2)
    styles = {
        "theorem": ({"color": BLACK, "linewidth": 5.0, "alpha": 0.25}, rf"the theorem: $G/\sqrt{{\mu}}$-GDP, here {numbers['mu']:g}"),
        "quadratic": ({"color": BLUE}, r"$\mu x^2/2$ against $\mu x^2/2 + Gx$"),
        "kinked": ({"color": VERMILION, "linestyle": (0, (5, 2))}, r"$\mu x^2/2 + G|x|/2$ against $\mu x^2/2 + G|x-1|/2$"),
    }
    for name, (style, label) in styles.items():
        left.plot(numbers["epsilon"], numbers[name], label=label, **style)
        right.plot(numbers["alpha"], numbers[f"{name}, trade-off"], label=label, **style)
    left.set(
        yscale="log", ylim=(1e-4, 1.0), xlim=(0.0, numbers["epsilon"][-1]), xlabel=r"privacy budget $\varepsilon$",
        ylabel=r"$\delta$, the larger of both directions",
    )
    right.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), xlabel=r"false positive rate $\alpha$", ylabel=r"least false negative rate $f(\alpha)$")
    right.legend(loc="upper right")
    left.set_title("privacy profile", loc="left")
    right.set_title("trade-off", loc="left")
    caption = r"Densities proportional to $e^{-F}$ with the functions $F$ shown, on the line; $G = \mu = 1$; by quadrature"
    figure.supxlabel(caption, fontsize=11)
    return figure
