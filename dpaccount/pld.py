"""A step's pair on a loss lattice, rounded to one side: the universal fallback.

The curve gamma -> E_gamma(P||Q) is convex. Connecting its values at the lattice points gives a pair on
the lattice that is *pessimistic* (chords lie above; DGKKM22). Joining points that lie on or below both
neighbouring tangents gives an *optimistic* one (such chords lie below the tangent). Both are off by O(step^2).
Only losses in (first point, cut] enter; what lies above the cut is split off by `engines.jump`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount.pair import Step

Array = npt.NDArray[np.float64]
ULPS = 1e-15  # tails and curves are used as accurate to this, relative: four ulps and their argument's rounding


class LostDigits(ArithmeticError):
    """Rounding leaves nothing of a lattice distribution."""


class Grid(NamedTuple):
    """Loss lattice: point k stands for offset + k step; the points run from first to first + size - 1."""

    offset: float
    step: float
    first: int
    size: int

    def losses(self) -> Array:
        return np.asarray(self.offset + self.step * (self.first + np.arange(self.size)), dtype=np.float64)


class PrivacyLossDistribution(NamedTuple):
    """P-masses on a grid (the Q-mass of a point is e^{-loss} times its P-mass), pessimistic or optimistic.

    The masses sum to at most one: losses above the last point are elsewhere, and an optimistic one may lose mass.
    """

    grid: Grid
    mass: Array
    pessimistic: bool


class _Curve(NamedTuple):
    """The curve of {L <= last point} at the half-points of a grid, in the form that does not cancel there.

    Right of `pivot` (a node index) value is E_gamma = P[L > l] - gamma Q[L > l] and slope gamma Q[L > l];
    left of it they are gamma Q[L <= l] - P[L <= l] and gamma Q[L <= l], which differ from the former
    by a linear function of gamma, so that kinks are the same. `error` is the absolute error of value.
    """

    pivot: int
    right: Array
    right_slope: Array
    right_error: Array
    left: Array
    left_slope: Array
    left_error: Array
    total: float  # P[L <= last point]
    q_total: float  # gamma at the pivot times Q[L <= last point]


def discretise(step: Step, grid: Grid, count: int = 1) -> tuple[PrivacyLossDistribution, PrivacyLossDistribution]:
    """The (optimistic, pessimistic) distributions of {L <= last point}.

    Guarantee
    ---------
    optimistic <= true <= pessimistic as hockey-stick curves of the sub-probabilities, in floating point too:
    node values are moved by their rounding error, and the curve of the masses that come out is
    compared with the values it must not cross and scaled until it does not.
    `count` is how often the step will be composed: it decides how small errors must be kept.
    """
    curve = _curve(step, grid, count)
    return (
        PrivacyLossDistribution(grid, _optimistic(curve, grid.step, 1e-5 / count), False),
        PrivacyLossDistribution(grid, _pessimistic(curve, grid.step), True),
    )


def _curve(step: Step, grid: Grid, count: int) -> _Curve:
    loss = grid.offset + grid.step * (grid.first + np.arange(2 * grid.size - 1) / 2)
    tails = step.tails(loss)
    with np.errstate(under="ignore", over="ignore"):
        above, below = np.exp(tails.p_above), np.exp(tails.p_below)
        right_slope = np.minimum(np.exp(loss + tails.q_above), above)
        left_slope = np.maximum(np.exp(loss + tails.q_below), below)
        right, right_error = _difference(step, loss, above, right_slope, count, False)
        left, left_error = _difference(step, loss, left_slope, below, count, True)
        # the pivot is where both forms are equally exact
        pivot = min(int(np.searchsorted(left_slope + below >= above + right_slope, True)) // 2, grid.size - 1)
        # leave out what lies beyond the last point
        shrink = np.exp(np.minimum(loss - loss[-1], 0.0))
        p_end, slope_end = float(above[-1]), float(right_slope[-1])
        right = np.maximum(right - (p_end - shrink * slope_end), 0.0)
        right_slope = np.maximum(right_slope - shrink * slope_end, 0.0)
        right_error = right_error + ULPS * p_end
        q_total = float(np.exp(loss[2 * pivot] + float(tails.q_below[-1])))
    right[-1] = right_slope[-1] = 0.0
    return _Curve(
        pivot, right, right_slope, right_error, left, left_slope, left_error,
        float(below[-1]), q_total,
    )


def _difference(step: Step, loss: Array, larger: Array, smaller: Array, count: int, left: bool) -> tuple[Array, Array]:
    """larger - smaller and its error: from a closed form of the curve where the plain difference cancels too much."""
    value = np.maximum(larger - smaller, 0.0)
    error = ULPS * np.minimum(larger + smaller, 1e300)
    middle = int(np.argmin(np.abs(loss)))
    if count * error[middle] > 1e-6 * value[middle]:
        exact = step.reversed().log_delta(-loss) if left else step.log_delta(loss)
        if exact is not None:
            logs = np.asarray(exact) + (loss if left else 0.0)
            value = np.exp(logs)
            error = ULPS * (4 + np.abs(np.maximum(exact, -700.0))) * value
    return value, error


def _masses(curve: _Curve, right: Array, left: Array, h: float) -> Array:
    """P-masses of the piecewise linear curve through node values (right of the pivot, left of it).

    A kink is gamma times the rise of the slope there; both forms are scaled so that nothing overflows.
    """
    k, grow, step = curve.pivot, float(np.expm1(h)), float(np.exp(h))
    falls, rises = -np.diff(right) / grow, np.diff(left) / grow  # gamma_k times the slope of cell k, in each form
    mass = np.zeros(right.size)
    mass[k + 1 :] = step * falls[k:]
    mass[k + 1 : -1] -= falls[k + 1 :]
    if k == 0:
        mass[0] = curve.total - right[0] - (falls[0] if falls.size else 0.0)
        return mass
    mass[0] = rises[0] - left[0]
    mass[1:k] = rises[1:k] - step * rises[: k - 1]
    mass[k] = curve.q_total - step * rises[k - 1] - (falls[k] if k < falls.size else 0.0)
    return mass


def _from_above(mass: Array, h: float) -> Array:
    """Node values sum over j > k of m_j (1 - e^{l_k - l_j}), by doubling: positive terms only."""
    return np.asarray(_swept(mass[::-1], -h)[::-1])


def _from_below(mass: Array, h: float) -> Array:
    """Node values sum over j < k of m_j (e^{l_k - l_j} - 1)."""
    return _swept(mass, h)


def _swept(mass: Array, h: float) -> Array:
    beyond = np.concatenate([[0.0], np.cumsum(mass)[:-1]])
    value, weight, shift = beyond * abs(float(np.expm1(h))), float(np.exp(h)), 1
    while shift < value.size and 1e-300 < weight < 1e300:
        value[shift:] = value[shift:] + weight * value[:-shift]
        shift, weight = shift * 2, weight * weight
    return np.asarray(value)


def _ratio(a: Array, b: Array) -> Array:
    """a/b, and 1 where b is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(b > 0.0, a / b, 1.0)


def _q_ratio(curve: _Curve, mass: Array, h: float) -> float:
    """The masses' Q-total over the true one."""
    with np.errstate(over="ignore", under="ignore"):
        return float(mass @ np.exp(h * (curve.pivot - np.arange(mass.size)))) / curve.q_total if curve.q_total > 0 else 1.0


def _pessimistic(curve: _Curve, h: float) -> Array:
    k = curve.pivot
    right = curve.right[::2] + curve.right_error[::2]
    left = curve.left[::2] + curve.left_error[::2]
    left[k] = curve.left[2 * k] + curve.right_error[2 * k]
    right[-1] = 0.0
    mass = np.maximum(_masses(curve, right, left, h), 0.0)
    mass[-1] += 4 * float(curve.right_error[-1]) / -np.expm1(-h)
    short = float(np.max(_ratio(right[k:-1], _from_above(mass, h)[k:-1]), initial=1.0)) - 1.0
    with np.errstate(over="ignore"):  # Q-mass left at loss -inf adds a line through gamma = 0
        lost = left[0] * np.exp(np.minimum(h * np.arange(k + 1), 700.0))
    low = _ratio(left[1:k], lost[1:k] + _from_below(mass, h)[1:k])
    short += 4 * max(float(np.max(low, initial=1.0)) - 1.0, 0.0)
    kept = _q_ratio(curve, mass, h) + (float(lost[k]) / curve.q_total if k else 0.0)
    short += max(curve.total / float(mass.sum()) - 1.0, 0.0) + 2 * max(kept - 1.0, 0.0)
    if not short < 1.0:
        raise LostDigits("the pessimistic lattice lost all digits")
    return np.asarray(mass * (1.0 + short + 4e-15))


def _optimistic(curve: _Curve, h: float, share: float) -> Array:
    """Node values at or below both neighbouring tangents; where one is negative at its cell's end the curve is flat."""
    end_error, start_error = curve.right_error[1::2], curve.left_error[1::2]
    right, end = _tangents(curve.right[1::2], -curve.right_slope[1::2], h)
    left, _ = _tangents(curve.left[1::2], curve.left_slope[1::2], h)
    start = curve.left[1::2] + np.expm1(-h / 2) * curve.left_slope[1::2]
    ceiling = np.maximum(right - _widest(end_error), 0.0)
    floor = np.maximum(left - _widest(start_error), 0.0)
    # in the cell that holds the largest loss the tangent turns negative: the curve must have ended before it
    ended = np.flatnonzero(end < -end_error)
    last = int(ended[0]) if ended.size else ceiling.size - 1
    curve = _moved(curve, min(curve.pivot, last), h)
    k = curve.pivot
    started = np.flatnonzero(start[:k] < -start_error[:k])
    first = int(started[-1]) + 1 if started.size else 0
    ceiling[last:], floor[: first + 1] = 0.0, 0.0
    true_right, true_left = curve.right[::2], curve.left[::2]
    drop = np.where(np.arange(ceiling.size) < k, true_left - floor, true_right - ceiling)
    drop[k] = max(float(true_right[k] - ceiling[k]), float(true_left[k] - floor[k]))
    drop = _convex_drop(drop, true_right, true_left, k, h)
    upper, lower = np.maximum(true_right - drop, 0.0), true_left - drop
    if lower[k] <= 0.0:
        lower[: k + 1] = 0.0  # some P-mass is lost instead
    mass = np.maximum(_masses(curve, upper, np.maximum(lower, 0.0), h), 0.0)
    mass[last + 1 :] = 0.0
    for _ in range(8):
        over = 1.0 - _ratio(ceiling[k:], _from_above(mass, h)[k:])
        bad = np.flatnonzero(over > share) + k
        if not bad.size or mass[bad[0] + 1 :].sum() > 1e-3 * mass.sum():
            break
        mass[bad[0] + 1 :] = 0.0
    much = max(float(over.max(initial=0.0)), 0.0) + _left_excess(curve, mass, floor, h)
    return np.asarray(mass * max(1.0 - much - 4e-15, 0.0))


JOIN = 4000  # nodes on the other side of the pivot that a hull may reach


def _convex_drop(drop: Array, right: Array, left: Array, k: int, h: float) -> Array:
    """How far the nodes lie below the true curve once it is made convex, each side in its own form."""
    drop = drop.copy()
    for _ in range(2):
        part = slice(0, min(k + JOIN, drop.size))
        before = left[part] - drop[part]
        after = _convex(before, h)
        drop[part] = np.where(after < before, left[part] - after, drop[part])
        part = slice(max(k - JOIN, 0), drop.size)
        before = right[part] - drop[part]
        after = _convex(before, h)
        drop[part] = np.where(after < before, right[part] - after, drop[part])
    return drop


def _left_excess(curve: _Curve, mass: Array, floor: Array, h: float) -> float:
    """By how much, relative to it, the masses' curve exceeds its ceiling left of the pivot."""
    k = curve.pivot
    if k == 0:
        return 0.0
    gamma = np.exp(h * np.minimum(np.arange(k) - k, 0.0)) * curve.q_total
    excess = max(float(mass.sum()) - curve.total, 0.0) + gamma * max(1.0 - _q_ratio(curve, mass, h), 0.0)
    excess = excess + np.maximum(_from_below(mass, h)[:k] - floor[:k], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(excess > 0.0, excess / np.maximum(curve.right[: 2 * k : 2] - curve.right_error[: 2 * k : 2], 0.0), 0.0)
    return 1.01 * float(np.max(share, initial=0.0))


def _moved(curve: _Curve, pivot: int, h: float) -> _Curve:
    """The same curve with the two forms joined at another node."""
    return curve._replace(pivot=pivot, q_total=curve.q_total * float(np.exp(h * (pivot - curve.pivot))))


def _tangents(middle: Array, slope: Array, h: float) -> tuple[Array, Array]:
    """At every node the lesser of the tangents of its two cells (taken at their half-points), and each at its right end."""
    right_end = middle + np.expm1(h / 2) * slope
    node = np.full(middle.size + 1, np.inf)
    node[:-1] = middle + np.expm1(-h / 2) * slope
    node[1:] = np.minimum(node[1:], right_end)
    return node, right_end


def _widest(error: Array) -> Array:
    """At every node the larger error of its two cells."""
    return np.asarray(np.maximum(np.append(error, 0.0), np.concatenate([[0.0], error])))


def _convex(node: Array, h: float) -> Array:
    """The lower convex hull in gamma of node values; the first and the last stay.

    Only few nodes ever violate convexity, so the hull is mended around each of them.
    """
    share = 1 / (1 + np.exp(h))  # a node lies on its neighbours' chord at this share of the right one
    bad = np.flatnonzero(node[1:-1] > ((1 - share) * node[:-2] + share * node[2:]) * (1 + 1e-15)) + 1
    if not bad.size:
        return node
    value = node.tolist()
    end, reach = 0, float(np.exp(h))
    for index in bad.tolist():
        if index < end:
            continue
        low, high = index - 1, index + 1
        moved = True
        while moved:
            moved = False
            # slopes in units of 1/gamma at `low`
            chord = (value[high] - value[low]) / math.expm1(h * (high - low))
            if low > 0 and (value[low] - value[low - 1]) / (1 - 1 / reach) > chord:
                low, moved = low - 1, True
            elif high < len(value) - 1 and (value[high + 1] - value[high]) / (reach - 1) < chord * math.exp(h * (high - low)):
                high, moved = high + 1, True
        top = math.expm1(h * (high - low))
        for k in range(low + 1, high):
            part = math.expm1(h * (k - low)) / top
            value[k] = (1 - part) * value[low] + part * value[high]
        end = high
    return np.asarray(value)
