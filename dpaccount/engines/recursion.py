"""Step by step over a grid: an independent check for a few steps, from nothing but tails and convexity.

With g_t(gamma) = E_gamma of the first t steps, g_0 = (1 - gamma)_+ and g_{t+1}(gamma) = E_P g_t(gamma e^{-L}): one step keeps a
function positive and convex. On the grid gamma_j = e^{jh}, which holds the kink of g_0, chords between values lie above a convex
function. Lowered at their ends by as much as a chord can exceed the extensions of its neighbours they lie below, and so does
their convex hull. The mean of a chord over a cell of losses needs the cell's P- and Q-mass alone, from the tails. Left of the grid
chords start at gamma = 0; right of it a function is at most its last value and at least 0. Both bounds lose O(h^2) a step.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP, log1m_exp
from dpaccount.engines.cells import masses
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import DominatingPair, Step
from dpaccount.results import LogDelta

Array = npt.NDArray[np.float64]
MOST_STEPS = 10
SIZES = (300, 1200, 4800)
AIM = 1e-4
LEFT = 1e-13  # what of a step's mass, and of the answer, may lie beyond the grid
TINY = 1e-280


def log_delta(pair: DominatingPair, epsilon: float, goal: float = np.nan) -> LogDelta:
    """log delta of at most ten steps at any real epsilon, as a certified bracket; raises `CannotVouch` for more.

    The grid is refined until the bracket is 1e-4 wide, excludes log delta = `goal`, or has 4800 points.
    """
    if sum(count for _, count in pair.terms) > MOST_STEPS:
        raise CannotVouch(f"the recursion is for at most {MOST_STEPS} steps")
    steps = [step for step, count in pair.terms for _ in range(count)]
    low, high, tail = math.exp(min(pair.log_p_only + 1e-13 * pair.log_p_only, 0.0)) * (1.0 - 1e-13), 1.0, 1.0
    for size in SIZES:
        x = _grid(steps, epsilon, size, max(low, TINY))
        found = _through(steps, epsilon, x)
        low, high, tail = max(low, found[0]), min(high, found[1]), found[2]
        ends = _log(low) - 4 * ULP * abs(_log(low)), min(_log(high) + 4 * ULP * abs(_log(high)), 0.0)
        value = LogDelta(ends[0], sum(ends) / 2 if low > 0.0 else ends[1], ends[1], True, "recursion", 1.0, min(_log(tail), 0.0))
        width = value.upper - value.lower
        if len(steps) == 1 or width <= AIM or (goal == goal and not value.lower <= goal <= value.upper):
            break
    if not high > TINY:
        raise CannotVouch("delta underflows")
    return value


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf


def _grid(steps: list[Step], epsilon: float, size: int, answer: float) -> Array:
    """Equally spaced points, one of them at 0, that cover what the partial sums can do to epsilon where it still matters."""
    down = min(_sum_reach(steps, LEFT, below=True), sum(-step.facts.min_loss for step in steps), 300.0)
    up = min(_sum_reach(steps, LEFT * answer, below=False), sum(step.facts.max_loss for step in steps), 300.0)
    low = min(max(-down, epsilon - up, -60.0), -1e-9 * (1.0 + abs(epsilon)))
    high = max(min(epsilon + down, up), 1e-9 * (1.0 + abs(epsilon)))
    high += 0.2 * (high - low)  # the lower function ends there, and bends down before
    h = (high - low) / size
    return np.asarray(h * np.arange(math.floor(low / h) - 1, math.ceil(high / h) + 2), dtype=np.float64)


def _sum_reach(steps: list[Step], mass: float, below: bool) -> float:
    """The same for the sum of all, whose way from the middle to the end grows with the root of their number.

    The way is a single step's own, or where its losses are bounded as many of its spreads as a Gaussian would need.
    """
    middle, spread, far = ([_reach(step, part, below) for step in steps] for part in (0.5, 0.16, mass))
    spreads = math.sqrt(2.0 * -math.log(mass))
    return sum(middle) + math.sqrt(len(steps)) * max(
        max(c - a, spreads * (b - a)) for a, b, c in zip(middle, spread, far, strict=True)
    )


def _reach(step: Step, mass: float, below: bool) -> float:
    """A loss that P hardly ever falls below (or exceeds), in size."""
    ends = np.geomspace(1e-9, 1e4, 131)
    tails = step.tails(-ends if below else ends)
    thin = np.asarray(tails.p_below if below else np.where(tails.p_above > step.facts.log_p_only + 1e-9, tails.p_above, -np.inf))
    enough = np.flatnonzero(thin <= math.log(mass))
    return float(ends[enough[0]]) if enough.size else 1e4


class _Function(NamedTuple):
    """Linear in gamma between grid points and from gamma = 0 to the first; constant beyond the last, never below the mass at
    an infinite loss."""

    at_zero: float
    values: Array
    floor: float = 0.0


class _Kernel:
    """What one step makes of a function: weights of the values at both ends of every cell, and of the two sides of the grid.

    For t = gamma e^{-L}, L in (e, e + h], `near` is E (t - t_low)/(t_high - t_low), on the value at e, and `far` the rest, at e + h.
    """

    def __init__(self, step: Step, edges: Array) -> None:
        tails = step.tails(edges)
        h, self.lift = np.diff(edges), np.exp(edges)
        (p, off_p, self.above_p, self.off_p, self.below_p), (q, off_q, self.above_q, self.off_q, _) = (
            masses(np.asarray(above), np.asarray(below), tails.error)
            for above, below in ((tails.p_above, tails.p_below), (tails.q_above, tails.q_below))
        )
        lifted = self.lift[:-1] * q
        self.far = np.maximum(p - lifted, 0.0) / -np.expm1(-h)
        self.near = np.maximum(lifted * np.exp(h) - p, 0.0) / np.expm1(h)
        self.off = (off_p + self.lift[1:] * off_q + 8 * ULP * p) / -np.expm1(-h)

    def left(self, first: float, at_zero: float, where: slice | int) -> tuple[Any, Any]:
        """The share of losses above an edge, where the function runs from `at_zero` to `first`, and its error."""
        p, q = self.above_p[where], self.lift[where] * self.above_q[where]
        off_p, off_q = self.off_p[where], self.lift[where] * self.off_q[where]
        value = at_zero * np.maximum(p - q, 0.0) + first * q
        return value, (at_zero + first) * (off_p + off_q + 4 * ULP * p)


def _through(steps: list[Step], epsilon: float, x: Array) -> tuple[float, float, float]:
    """(lower, upper, an estimate of Q[L > eps]) on one grid, from g_0."""
    n, gamma, h = x.size, np.exp(x), float(x[1] - x[0])
    start = np.maximum(-np.expm1(x), 0.0)
    upper = lower = _Function(1.0, start)
    kernels = {step: _Kernel(step, np.asarray(h * np.arange(1 - n, n), dtype=np.float64)) for step in dict.fromkeys(steps[:-1])}
    for step in steps[:-1]:
        value, error = _step(kernels[step], upper)
        upper = _Function(1.0, np.minimum(value + error, 1.0))
        value, error = _step(kernels[step], lower)
        floor = -math.expm1(math.log1p(-lower.floor) + float(log1m_exp(step.facts.log_p_only))) * (1.0 - 1e-13)
        lower = _below(gamma, lower.at_zero, np.maximum(value - error, floor), error, floor)
    last, beside = (_Kernel(steps[-1], at - x[::-1]) for at in (epsilon, epsilon + h))
    low, high = _last(last, lower, -1.0), _last(last, upper, 1.0)
    fall = high - _last(beside, upper, 1.0)  # a difference for the slope in gamma
    return low, high, max(fall, 0.0) / (math.exp(epsilon) * math.expm1(h))


def _step(kernel: _Kernel, function: _Function) -> tuple[Array, Array]:
    """The next function at every grid point, and its error."""
    v, n = function.values, function.values.size
    error = np.convolve(kernel.off, v[:-1] + v[1:], "valid")
    total = np.convolve(kernel.far, v[:-1], "valid") + np.convolve(kernel.near, v[1:], "valid") + v[-1] * kernel.below_p[:n]
    left, off = kernel.left(float(v[0]), function.at_zero, slice(n - 1, None))
    total = total + left
    return total, error + off + (n + 20) * ULP * total


def _last(kernel: _Kernel, function: _Function, sign: float) -> float:
    v = function.values[::-1]
    value = float(kernel.far @ v[1:] + kernel.near @ v[:-1]) + float(v[0] * kernel.below_p[0])
    left, off = kernel.left(float(v[-1]), function.at_zero, -1)
    value += float(left)
    error = float(kernel.off @ (v[1:] + v[:-1])) + float(off) + (v.size + 20) * ULP * value
    return min(max(value + sign * error, 0.0), 1.0)


def _below(gamma: Array, at_zero: float, v: Array, error: Array, floor: float) -> _Function:
    """The largest function of this kind that surely lies below a convex one within `error` above v at the points.

    On a cell of width d with slopes a, b, c of the chord before, its own and the one after, the chord exceeds the extensions of its
    neighbours by at most d (b - a)(c - b)/(c - a).
    """
    d = np.diff(gamma)
    slope = np.concatenate([[(v[0] - at_zero) / gamma[0]], np.diff(v) / d, [0.0]])
    rise = np.maximum(np.diff(slope), 0.0)
    before, after = rise[:-1], rise[1:]
    both = before + after
    depth = d * np.where(both > 0.0, before * after / np.where(both > 0.0, both, 1.0), 0.0)
    wrong = np.concatenate([error[:1], error, error[-1:]])
    noise = 24.0 * np.maximum(np.maximum(wrong[:-2], wrong[1:-1]), wrong[2:])
    # where that leaves little of the right end, the left end alone is lowered, to the extension of the right neighbour
    both_ends = depth < 0.5 * v[1:]
    lowest = np.where(both_ends, v[:-1] - depth, v[1:] - slope[2:] * d)
    lowered = np.minimum(np.append(lowest, v[-1]), np.concatenate([v[:1], v[1:] - np.where(both_ends, depth, 0.0)])) - noise
    # the slope next to 0 is off by 2 wrong/d, over a distance of gamma[0]
    zero = min(at_zero, float(v[0] - slope[1] * gamma[0]) - (float(v[0]) - float(lowered[0])) - 4.0 * float(wrong[0] * gamma[0] / d[0]))
    gone = np.flatnonzero(lowered <= floor)
    first = int(gone[0]) if gone.size else lowered.size
    lowered[max(first - 1, 0) :] = floor
    lowered[-1] = floor
    hull = _hull(np.concatenate([[0.0], gamma]), np.concatenate([[max(zero, float(lowered[0]))], lowered]))
    return _Function(float(hull[0]), hull[1:], floor)


def _hull(x: Array, y: Array) -> Array:
    """The lower convex hull's values at its own points."""
    keep: list[int] = []
    px, py = x.tolist(), y.tolist()
    for i in range(len(px)):
        while len(keep) > 1:
            j, k = keep[-1], keep[-2]
            if (py[j] - py[k]) * (px[i] - px[k]) <= (py[i] - py[k]) * (px[j] - px[k]):
                break
            keep.pop()
        keep.append(i)
    return np.asarray(np.interp(x, x[keep], y[keep]))
