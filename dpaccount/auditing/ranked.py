"""Order statistics of a channel: the r most telling of m canaries (Xiang et al. 2025), with the formulas of a Gaussian one.

A canary's score is N(0, 1) when out and N(mu, 1) when in, and |x - mu/2| ranks it. Given the (r + 1)-th largest rank s the r
released guesses are independent, each wrong with probability
``g = Phi(-s - mu/2)/[Phi(mu/2 - s) + Phi(-s - mu/2)]``; the fraction W = P(|x - mu/2| <= s) is Beta(m - r, r + 1). So
``P[errors <= u] = E BinCDF(u; r, g(W))``, exactly; for r = m, g = Phi(-mu/2).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import betainc, log_ndtr, ndtr

from dpaccount.auditing.region import NODES, WEIGHTS, Posterior

Array = npt.NDArray[np.float64]


def released_share(s: Array, mu: float) -> Array:
    """P(|x - mu/2| > s) = Phi(mu/2 - s) + Phi(-s - mu/2): the share of canaries more telling than s."""
    return np.asarray(ndtr(mu / 2 - s) + ndtr(-s - mu / 2))


def cut(share: Array, mu: float) -> Array:
    """The s at which so large a share is released: bisection from a bracket, then it is exact to rounding."""
    low, high = np.zeros_like(share), np.full_like(share, mu / 2 + 40.0)
    for _ in range(70):
        middle = (low + high) / 2
        over = released_share(middle, mu) > share
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    return (low + high) / 2


def released_p_value(m: int, r: int, errors: int, right: Callable[[Array], Array]) -> float:
    """P[at most so many errors among the r most telling of m canaries], if a share of them is right with probability ``right``."""
    if errors >= r:
        return 1.0
    if r == m:
        return float(betainc(r - errors, errors + 1, right(np.ones(1))[0]))
    kept = Posterior(r + 1.0, float(m - r))  # 1 - W, the released share
    cuts = np.unique(kept.angles())
    half, middle = np.diff(cuts)[:, None] / 2, (cuts[1:] + cuts[:-1])[:, None] / 2
    theta = (middle + half * NODES).ravel()
    weight = (half * WEIGHTS).ravel() * np.exp(kept.log_density(theta))
    return float(weight @ betainc(r - errors, errors + 1, right(np.sin(theta) ** 2)) / weight.sum())


def ranked_p_value(m: int, r: int, errors: int, mu: float) -> float:
    """The same of a Gaussian channel at mu."""

    def right(share: Array) -> Array:
        s = cut(share, mu) if r < m else np.zeros(1)
        return np.asarray(1.0 / (1.0 + np.exp(log_ndtr(-s - mu / 2) - log_ndtr(mu / 2 - s))))

    return released_p_value(m, r, errors, right)


def ranked_mu(m: int, r: int, errors: int, alpha: float) -> float:
    """The largest mu whose p-value is below alpha."""

    def excess(mu: float) -> float:
        return ranked_p_value(m, r, errors, mu) - alpha

    if r == 0 or excess(0.0) >= 0.0:
        return 0.0
    high = 1.0
    while excess(high) < 0.0:
        high *= 2.0
        if high > 1e3:
            return math.inf
    return float(brentq(excess, high / 2 if high > 1.0 else 0.0, high, xtol=1e-13))
