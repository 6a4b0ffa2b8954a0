"""The Bayesian joint region (Zanella-Beguelin et al. 2023): posterior mass of the error rates that (eps, delta)-DP allows.

With Jeffreys priors FNR ~ Beta(1/2 + FN, 1/2 + TP) and FPR ~ Beta(1/2 + FP, 1/2 + TN) are independent. In the square of
(FNR, FPR) = (x, y) the region is lo(x) <= y <= 1 - lo(1 - x) with lo(x) = max(0, 1 - delta - e^eps x, e^-eps (1 - delta - x)).
Its mass is one integral over x of a difference of Beta distribution functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import betainc, betaincc

Array = npt.NDArray[np.float64]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(14)
SPREAD = np.linspace(-13.0, 13.0, 27)  # panels: every standard deviation, out to masses of 1e-38


class Posterior(NamedTuple):
    """Beta(a, b), a, b >= 1/2."""

    a: float
    b: float

    def angles(self) -> Array:
        """Points of theta in [0, pi/2], x = sin^2 theta, about a standard deviation apart: there the spread is 1/(2 sqrt(a + b))."""
        centre = math.atan2(math.sqrt(self.a), math.sqrt(self.b))
        return np.clip(centre + SPREAD / (2.0 * math.sqrt(self.a + self.b)), 0.0, math.pi / 2)

    def log_density(self, theta: Array) -> Array:
        """log of the density in theta up to a constant, about its mode: (2a - 1) log sin + (2b - 1) log cos."""
        s, c = 2.0 * self.a - 1.0, 2.0 * self.b - 1.0
        mode = math.atan2(math.sqrt(s), math.sqrt(c)) if s + c > 0.0 else math.pi / 4
        move = theta - mode
        out = np.zeros_like(theta)
        with np.errstate(divide="ignore"):
            if s > 0.0:  # sin(mode + move)/sin(mode), as a departure from 1
                out += s * np.log1p(np.maximum(np.sin(move) / math.tan(mode) - 2.0 * np.sin(move / 2) ** 2, -1.0))
            if c > 0.0:
                out += c * np.log1p(np.maximum(-np.sin(move) * math.tan(mode) - 2.0 * np.sin(move / 2) ** 2, -1.0))
        return out


def floor(x: Array, epsilon: float, delta: float) -> Array:
    """The least rate that (eps, delta)-DP allows beside x; an involution where it is positive."""
    grown = np.exp(np.minimum(epsilon + np.log(np.maximum(x, 1e-300)), 1.0)) * (x > 0.0)
    return np.maximum(np.maximum(1.0 - delta - grown, math.exp(-epsilon) * (1.0 - delta - x)), 0.0)


def mass(epsilon: float, delta: float, misses: Posterior, alarms: Posterior) -> float:
    """Posterior probability that (FNR, FPR) lies in the region."""
    kink = (1.0 - delta) / (1.0 + math.exp(min(epsilon, 700.0)))
    levels = np.sin(alarms.angles()) ** 2
    rests = np.cos(alarms.angles()) ** 2
    marks = np.concatenate([
        floor(levels, epsilon, delta), 1.0 - floor(rests, epsilon, delta), [kink, 1.0 - kink, delta, 1.0 - delta],
    ])
    own = misses.angles()
    cuts = np.concatenate([own, np.arcsin(np.sqrt(np.clip(marks, 0.0, 1.0)))])
    cuts = np.unique(cuts[(cuts >= own[0]) & (cuts <= own[-1])])
    half, middle = np.diff(cuts)[:, None] / 2, (cuts[1:] + cuts[:-1])[:, None] / 2
    theta = (middle + half * NODES).ravel()
    weight = (half * WEIGHTS).ravel() * np.exp(misses.log_density(theta))
    low, high = floor(np.sin(theta) ** 2, epsilon, delta), floor(np.cos(theta) ** 2, epsilon, delta)
    below = betainc(alarms.a, alarms.b, low)
    above = betainc(alarms.b, alarms.a, high)  # P[FPR > 1 - high]
    inside = np.maximum(1.0 - below - above, 0.0)
    # where the region is a sliver far out in a tail, the complements cancel and the difference is taken there instead
    tail = inside < 0.5
    if tail.any():
        lo, hi = low[tail], high[tail]
        left = betaincc(alarms.a, alarms.b, lo) - betainc(alarms.b, alarms.a, hi)
        right = betaincc(alarms.b, alarms.a, hi) - betainc(alarms.a, alarms.b, lo)
        inside[tail] = np.maximum(np.where(below[tail] > 0.5, left, right), 0.0)
    return float(weight @ inside / weight.sum())


def quantile(probability: float, delta: float, misses: Posterior, alarms: Posterior) -> float:
    """The smallest eps >= 0 whose region holds so much posterior mass."""

    def excess(epsilon: float) -> float:
        return mass(epsilon, delta, misses, alarms) - probability

    return _first_root(excess)


def _first_root(rising: Callable[[float], float]) -> float:
    if rising(0.0) >= 0.0:
        return 0.0
    high = 2.0
    while rising(high) < 0.0:
        high *= 2.0
        if high > 1400.0:
            return math.inf
    return float(brentq(rising, high / 2 if high > 2.0 else 0.0, high, xtol=1e-13, rtol=1e-14))
