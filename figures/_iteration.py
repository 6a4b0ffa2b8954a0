"""The two settings of the source paper's figures, and how the bounds are drawn."""

from __future__ import annotations

from typing import Any

from dpaccount.iteration import PNSGD
from figures._style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION

CONVEX = PNSGD(40, lipschitz=1, smoothness=1, strong_convexity=0, step_size=0.5, diameter=1, noise="gaussian", noise_scale=2.0)
STRONG = PNSGD(40, lipschitz=1, smoothness=1, strong_convexity=0.4, step_size=0.5, diameter=1, noise="gaussian", noise_scale=1.0)
SETTINGS = {"convex": (CONVEX, (1, 20, 39)), "strong": (STRONG, (20, 30, 39))}
TITLES = {
    "convex": r"convex losses ($\rho = 0$), $\sigma = 2$",
    "strong": r"strongly convex losses ($\rho = 0.4$), $\sigma = 1$",
}
CAPTION = r"one pass over $n = 40$ records, $L = \beta = D = 1$, $\eta = 0.5$, Gaussian noise; replace-one"
LINES: dict[str, Any] = {
    "mironov": {"color": ORANGE, "linestyle": (0, (1, 1)), "linewidth": 1.6, "label": "Rényi, mironov"},
    "improved": {"color": VERMILION, "linestyle": (0, (5, 1.5)), "linewidth": 1.6, "label": "Rényi, improved"},
    "optimal": {"color": PURPLE, "linestyle": (0, (1, 1.5, 4, 1.5)), "linewidth": 1.6, "label": "Rényi, optimal"},
    "shifted": {"color": GREEN, "linestyle": (0, (7, 2)), "linewidth": 2.0, "label": "shifted interpolation"},
    "contraction": {"color": BLUE, "linestyle": "-", "linewidth": 2.0, "label": r"contraction of $\mathsf{E}_\gamma$"},
    "nonlinear": {"color": SKY, "linestyle": (0, (3, 1)), "linewidth": 2.0, "label": "nonlinear contraction"},
    "best": {"color": BLACK, "linestyle": "-", "linewidth": 5.0, "alpha": 0.18, "label": "best of the published"},
    "exact": {"color": BLACK, "linestyle": "-", "linewidth": 1.2, "label": "worst known instance, exact"},
}
