"""Aliasing: what the trapezoid rule on a line adds, by Chernoff's bound.

A sum of spacing h is the integral and sum over k != 0 of e^{ckP} g(eps + kP), P = 2 pi/h. Wherever log |g(x)| <= far - d x, with a
tilt d on one side of c, the terms of that side are at most e^{far - d eps} (r + r^2 + ...), r = e^{-P |d - c|}: right of c they are
those with k >= 1, left of it those with k <= -1. Such bounds are (g is delta right of 0, and that less the mass between the poles)
- kappa(d) E e^{dL} for any d > 0 (Chernoff), and the mass itself, which is the same with d = 0;
- between the poles min(1, e^x), which is d = 0 and d = -1.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP, log_geometric, log_kappa
from dpaccount.engines.line.axis import Axis
from dpaccount.engines.vouch import CannotVouch

Array = npt.NDArray[np.float64]
_WIDTHS = np.array([0.5, 1.0, 1.5, 2.0, 2.999, 4.0])  # between c and the tilts of Chernoff's bounds, in units of 1/spread
AIM = 26.0  # aliasing and truncation below e^-AIM of the answer
LEAST = 8.0  # of a period, in spreads


class Side(NamedTuple):
    """log |g(x)| <= log_far - tilt x."""

    tilt: float
    log_far: float

    def period(self, c: float, epsilon: float, goal: float) -> float:
        """The period that keeps this side's first alias below e^goal."""
        return (self.log_far - self.tilt * epsilon - goal) / abs(self.tilt - c)

    def log_bound(self, c: float, period: float, epsilon: Any) -> Any:
        """log of what this side's aliases add up to."""
        return self.log_far - self.tilt * epsilon + log_geometric(-period * abs(self.tilt - c))


class Alias(NamedTuple):
    """The period of a line through c and what bounds its aliases; `k_far` is K at the right side's tilt from above, with all errors."""

    c: float
    period: float
    right: Side
    left: Side
    k_far: float = 0.0
    proved: bool = True

    def log_bound(self, epsilon: Any) -> Any:
        """log of what all aliases add up to, at any epsilon (array)."""
        if type(epsilon) is float:
            low, high = sorted(side.log_bound(self.c, self.period, epsilon) for side in (self.right, self.left))
            return high + math.log1p(math.exp(low - high)) if high < math.inf else high
        return np.logaddexp(*(side.log_bound(self.c, self.period, epsilon) for side in (self.right, self.left)))


def between_poles(c: float, epsilon: float, goal: float, spread: float) -> Alias:
    """For -1 < c < 0."""
    right, left = Side(0.0, 0.0), Side(-1.0, 0.0)
    return Alias(c, max(right.period(c, epsilon, goal), left.period(c, epsilon, goal), LEAST * spread), right, left)


def beside(axis: Axis, c: float, epsilon: float, goal: float, spread: float) -> Alias:
    """For c > 0, with the mass for a bound on the left."""
    d = _guide(axis, c, epsilon, goal, spread)[1]
    k_far, proved = _largest(Axis(axis.parts, 0.0, d, 0.0) if axis.ends_only else axis, d)
    right = Side(d, k_far + log_kappa(d) + 4 * ULP * (1 + d))
    period = max(right.period(c, epsilon, goal), max(-goal, AIM) / c, LEAST * spread)
    return Alias(c, period, right, Side(0.0, axis.log_mass + axis.mass_error), k_far, proved)


def guessed_period(axis: Axis, c: float, epsilon: float, goal: float, spread: float) -> float:
    """The period of `beside`, but for its proof."""
    return max(_guide(axis, c, epsilon, goal, spread)[0], max(-goal, AIM) / c, LEAST * spread)


def on_both_sides(axis: Axis, c: float, epsilon: float, goal: float, spread: float) -> Alias:
    """For c > 0, with Chernoff's bounds on both sides where that on the left is better than the mass; goals may be anything."""
    right = _least(axis, [d for d in (c + _WIDTHS / spread).tolist() if d <= axis.high], c, epsilon, goal)
    if right is None:
        raise CannotVouch("no tilt bounds the aliasing")
    mass = Side(0.0, axis.log_mass + axis.mass_error)
    left = _least(axis, [d for d in (c - _WIDTHS / spread).tolist() if d > 0.0], c, epsilon, goal)
    if left is None or max(mass.period(c, epsilon, goal), 0.0) < left.period(c, epsilon, goal):
        left = mass
    return Alias(c, max(right.period(c, epsilon, goal), left.period(c, epsilon, goal), 1e-3 * spread), right, left)


def _guide(axis: Axis, c: float, epsilon: float, goal: float, spread: float) -> tuple[float, float]:
    """The least period on the right and its tilt, without errors."""
    tilts = c + _WIDTHS / spread
    tilts = tilts[tilts <= axis.high]  # nodes are made for tilts up to there
    if not tilts.size:
        raise CannotVouch("no tilt bounds the aliasing")
    kappa = np.array([log_kappa(d) for d in tilts.tolist()])
    periods = (axis.log_mass + axis.log_mgfs(tilts) + kappa - tilts * epsilon - goal) / (tilts - c)
    best = int(np.argmin(periods))
    if not math.isfinite(periods[best]):
        raise CannotVouch("no tilt bounds the aliasing")
    return float(periods[best]), float(tilts[best])


def _largest(axis: Axis, d: float) -> tuple[float, bool]:
    """K(d) from above, with all errors, and whether that is proved."""
    return axis.log_mass + axis.mass_error + axis.log_mgf(d) + axis.rounding(d), axis.proved


def _least(axis: Axis, tilts: list[float], c: float, epsilon: float, goal: float) -> Side | None:
    """The side with the least period; None if no tilt serves."""
    found = []
    for d in tilts:
        try:
            found.append(Side(d, _largest(axis, d)[0] + log_kappa(d) + 4 * ULP * (1 + d)))
        except CannotVouch:
            continue
    return min(found, key=lambda side: side.period(c, epsilon, goal), default=None)
