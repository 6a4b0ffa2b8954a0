"""Roots on a privacy curve: epsilon at a given delta, and the point where Q[L > eps] is a given alpha."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dpaccount.engines import auto, line
from dpaccount.pair import DominatingPair
from dpaccount.results import LogDelta

Curve = Callable[[float], LogDelta]
MAX_EVALUATIONS = 80


class Root(NamedTuple):
    """An epsilon with a bracket, and the engine's answer there."""

    lower: float
    estimate: float
    upper: float
    answer: LogDelta


def curve_of(pair: DominatingPair, method: str = "auto") -> Curve:
    """log delta of a directed pair as a function of epsilon, remembering what it has computed."""
    known: dict[float, LogDelta] = {}

    def curve(epsilon: float) -> LogDelta:
        if epsilon not in known:
            known[epsilon] = auto.log_delta(pair, epsilon, method)
        return known[epsilon]

    return curve


def guess_epsilon(pair: DominatingPair, log_delta: float) -> float:
    """A rough epsilon for a delta, from the saddle-point approximation or a normal one; any positive number is allowed."""
    try:
        return line.approximate_epsilon(pair, log_delta)
    except ArithmeticError:
        return 1.0


def solve(curve: Curve, log_delta: float, guess: float) -> Root:
    """The epsilon >= 0 where log delta falls to `log_delta`, with a bracket from the curve's own bounds.

    Guarantee
    ---------
    The curve's upper bound at `upper` is at most log_delta, its lower bound at `lower` at least
    (or `lower` is 0); both are evaluated, not extrapolated.
    """
    zero = curve(0.0)
    if zero.upper <= log_delta:
        return Root(0.0, 0.0, 0.0, zero)
    middle = _root(curve, log_delta, guess, lambda a: a.estimate)
    answer = curve(middle)
    slope = float(np.exp(min(answer.log_tail + middle - answer.estimate, 700.0)))
    if not (np.isfinite(slope) and slope > 0):
        slope = 1.0
    upper = _walk(curve, log_delta, middle, slope, lambda a: a.upper, 1.0)
    lower = _walk(curve, log_delta, middle, slope, lambda a: a.lower, -1.0)
    return Root(min(lower, middle), middle, max(upper, middle), answer)


def _walk(curve: Curve, target: float, start: float, slope: float, side: Callable[[LogDelta], float], sign: float) -> float:
    """Step from the root until the bound is on the safe side of the target."""
    gap = (side(curve(start)) - target) * sign
    if gap <= 0.0:
        return start
    step = max(1.5 * gap / slope, 4e-16 * max(start, 1e-300))
    here = start
    for _ in range(60):
        here = max(start + sign * step, 0.0)
        if here == 0.0 and sign < 0:
            return 0.0
        if (side(curve(here)) - target) * sign <= 0.0:
            return here
        step *= 2.0
    return np.inf if sign > 0 else 0.0


def _root(curve: Curve, target: float, guess: float, side: Callable[[LogDelta], float]) -> float:
    """Newton on log delta, whose slope is e^eps Q[L > eps]/delta, kept inside a bracket."""
    low, high = 0.0, np.inf
    here = max(guess, 1e-12)
    for _ in range(MAX_EVALUATIONS):
        answer = curve(here)
        gap = side(answer) - target
        if gap > 0:
            low = here
        else:
            high = here
        slope = float(np.exp(min(answer.log_tail + here - answer.estimate, 700.0)))
        if abs(gap) < 1e-15 * max(1.0, abs(target)):
            return here
        new = here + gap / slope if np.isfinite(gap) and slope > 0 and np.isfinite(slope) else np.inf
        if not low < new < high:
            new = (low + high) / 2 if np.isfinite(high) else 2 * here
        if abs(gap) <= 0.05 * (answer.upper - answer.lower):
            return here  # the engine's own error is larger than the rest
        if abs(new - here) <= 4e-16 * here or (np.isfinite(high) and high - low <= 4e-16 * high):
            return new if side(curve(new)) <= target else here
        here = new
    return high if np.isfinite(high) else here


def tangent_point(tail: Callable[[float], float], log_alpha: float, guess: float, low: float, high: float) -> float:
    """The real epsilon where the decreasing function log Q[L > eps] crosses log_alpha (a jump counts as crossing)."""
    here = min(max(guess, low), high) if np.isfinite(low) or np.isfinite(high) else guess
    step = 1.0
    left, right = low, high
    f_left = f_right = np.nan
    for _ in range(MAX_EVALUATIONS):
        f = tail(here) - log_alpha
        if f > 0:
            left, f_left = here, f
        else:
            right, f_right = here, f
        if abs(f) < 1e-9:
            return here
        if not np.isfinite(right):
            here, step = left + step, 2 * step
        elif not np.isfinite(left):
            here, step = right - step, 2 * step
        else:
            if right - left <= 1e-10 * max(1.0, abs(left)):
                break
            if np.isfinite(f_left) and np.isfinite(f_right) and f_left > f_right:
                share = f_left / (f_left - f_right)
                here = left + (right - left) * min(max(share, 0.02), 0.98)
            else:
                here = (left + right) / 2
    return (left + right) / 2 if np.isfinite(left) and np.isfinite(right) else here
