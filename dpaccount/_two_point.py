"""The largest E_gamma over all two-point pairs with D_a <= rho (ALCKS21), from above: the `optimal` conversion at one order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq


def _softplus(t: float) -> float:
    return max(t, 0.0) + math.log1p(math.exp(-abs(t)))


class _Corner(NamedTuple):
    """The least q with D_a(Ber(p)||Ber(q)) <= rho at one p: x = log(p/q), and E = d log q/d log p along the boundary."""

    x: float
    log_elasticity: float


def _corner(a: float, budget: float, log_p: float, log_not_p: float) -> _Corner:
    """x >= 0 where p^a q^{1-a} + (1-p)^a (1-q)^{1-a} reaches e^budget, budget = (a-1) rho > 0.

    The sum must exceed the budget by its own rounding, so that q is never too large. Near 1 it is summed less 1.
    """
    b, odds = a - 1, log_p - log_not_p

    def other(x: float) -> float:
        """y = log((1-p)/(1-q)) <= 0."""
        return -_softplus(odds + math.log(-math.expm1(-x))) if x > 0.0 else 0.0

    def excess(x: float) -> float:
        y = other(x)
        first, second = log_p + b * x, log_not_p + b * y if log_not_p > -math.inf else -math.inf
        if budget >= 1.0 or first > 1.0:
            size = 1.0 + abs(log_p) + b * x + budget + (abs(log_not_p) + b * abs(y) if second > first - 40.0 else 0.0)
            return float(np.logaddexp(first, second)) - budget - 2e-15 * size
        p, rest = math.exp(log_p), math.exp(log_not_p)
        rise = p * math.expm1(b * x) if b * x < 1.0 else math.exp(first) - p
        fall = rest * math.expm1(b * y) if rest > 0.0 else 0.0
        return rise + fall - math.expm1(budget) - 2e-15 * (rise * (1.0 + abs(log_p) + b * x) + abs(fall) * (1.0 + b * abs(y)))

    top = (budget - log_p) / b * (1 + 1e-12)
    step = 1e-9
    while excess(top) <= 0.0:
        top, step = top * (1 + step), 2 * step
    x = float(brentq(excess, 0.0, top, xtol=1e-300, rtol=8.9e-16, maxiter=500)) * (1 + 4e-15)
    w = x - other(x)
    return _Corner(x, math.log(a / b) + math.log(-math.expm1(-b * w)) - math.log(-math.expm1(-a * w)))


def _sign_change(rising: Callable[[float], float]) -> tuple[float, float] | None:
    """Two near points around the root of a function that falls from positive to negative; None if it stays positive.

    What is maximised is (quasi-)concave and this is the sign of its slope, so the maximum lies between the two.
    """
    low, high = -2.0, 2.0
    while not rising(low) > 0.0:
        low, high = 2 * low, low
    while rising(high) > 0.0:
        if high > 80.0:
            return None
        low, high = high, 2 * high + 1.0
    root, step = float(brentq(rising, low, high, xtol=1e-9, rtol=8.9e-16)), 1e-8 * max(1.0, abs(low))
    left, right = root - step, root + step
    while not rising(left) > 0.0:
        left -= step
        step *= 2
    while rising(right) > 0.0:
        right += step
        step *= 2
    return left, right


def joint_log_delta(a: float, rho: float, epsilon: float) -> tuple[float, float]:
    """log of the largest p - e^eps q over two-point pairs with D_a <= rho, from above, and log q there.

    q(p) is convex, so p - e^eps q(p) is concave: tangents from both sides of its maximum bound it.
    """
    if not math.isfinite(rho):
        return 0.0, math.nan
    if rho <= 0.0:
        return (math.log(-math.expm1(epsilon)), 0.0) if epsilon < 0.0 else (-math.inf, -math.inf)
    budget = (a - 1) * rho

    def corner(t: float) -> tuple[float, _Corner]:
        log_p = -_softplus(-t)
        return log_p, _corner(a, budget, log_p, -_softplus(t))

    def rising(t: float) -> float:
        _, found = corner(t)
        return -(epsilon - found.x + found.log_elasticity)

    def tangent(t: float, reach: float) -> float:
        """log of the tangent at t, followed to where p is e^reach times as large."""
        log_p, found = corner(t)
        if found.x <= epsilon:
            return math.inf
        left = -math.expm1(epsilon - found.x)
        slope = -math.expm1(epsilon - found.x + found.log_elasticity)
        return log_p + math.log(left) + math.log1p(max(slope * math.expm1(reach) / left, 0.0))

    ends = _sign_change(rising)
    if ends is None:
        ends = 81.0, 81.0
        best = tangent(81.0, -corner(81.0)[0])
    else:
        width = -_softplus(-ends[1]) + _softplus(-ends[0])
        best = min(tangent(ends[0], width), tangent(ends[1], -width))
    log_p, found = corner(ends[0])
    return best + 1e-13 * (1.0 + abs(best)), log_p - found.x


def joint_epsilon(a: float, rho: float, log_delta: float) -> float:
    """Largest log((p - delta)/q) over two-point pairs with D_a <= rho, from above: below it some pair exceeds delta.

    With q(p) convex the ratio rises, then falls; a tangent of q from either side of its maximum bounds it.
    """
    if not math.isfinite(rho):
        return math.inf
    log_left = math.log1p(-math.exp(log_delta))
    if rho <= 0.0:
        return log_left
    budget = (a - 1) * rho

    def corner(t: float) -> tuple[float, float, _Corner]:
        """log p, log(p - delta) and the corner at p = delta + (1 - delta)/(1 + e^-t)."""
        gain = log_left - _softplus(-t)
        log_p = min(float(np.logaddexp(log_delta, gain)), 0.0)
        return log_p, gain, _corner(a, budget, log_p, log_left - _softplus(t))

    def rising(t: float) -> float:
        log_p, gain, found = corner(t)
        return -(gain - log_p + found.log_elasticity)

    ends = _sign_change(rising)
    if ends is None:
        log_p, _, found = corner(81.0)
        best = log_left - (log_p - found.x)
    else:
        (log_p1, gain1, first), (log_p2, gain2, second) = corner(ends[0]), corner(ends[1])
        # p2 - p1 is the difference of the gains
        up = math.exp(gain1 - log_p1) * math.expm1(gain2 - gain1) * math.exp(first.log_elasticity)
        down = -math.exp(gain2 - log_p2) * math.expm1(gain1 - gain2) * math.exp(second.log_elasticity)
        best = gain2 - (log_p1 - first.x) - math.log1p(up)
        if down < 1.0:
            best = min(best, gain1 - (log_p2 - second.x) - math.log1p(-down))
    return best + 1e-15 * (10.0 + abs(log_delta)) + 1e-14 * abs(best)
