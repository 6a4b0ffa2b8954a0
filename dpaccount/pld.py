"""A step's pair on a loss lattice, rounded to one side: the universal fallback.

The curve gamma -> E_gamma(P||Q) is convex. Connecting its values at the lattice points gives a pair on
the lattice that is *pessimistic* (chords lie above; DGKKM22). Joining points that lie on or below both
neighbouring tangents gives an *optimistic* one (such chords lie below the tangent). Both are off by O(step^2).
Only losses in (first point, cut] enter; what lies above the cut is split off by `engines.jump`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount.pair import Step

Array = npt.NDArray[np.float64]
ULPS = 1e-15  # tails and curves are used as accurate to this, relative: four ulps and their argument's rounding


class Grid(NamedTuple):
    """Loss lattice: point k stands for offset + k step; the points run from first to first + size - 1."""

    offset: float
    step: float
    first: int
    size: int

    def losses(self) -> Array:
        return self.offset + self.step * (self.first + np.arange(self.size))


class PrivacyLossDistribution(NamedTuple):
    """P-masses on a grid (the Q-mass of a point is e^{-loss} times its P-mass), pessimistic or optimistic.

    The masses sum to at most one: losses above the last point are elsewhere, and an optimistic one may lose mass.
    """

    grid: Grid
    mass: Array
    pessimistic: bool


class _Curve(NamedTuple):
    """The curve of the pair restricted to losses up to the last point, at the half-points of a grid.

    `value` is E_gamma, `slope` is gamma Q[L > l], `error` the absolute error of value; `total` is P[L <= cut],
    `above_first` the part of it above the first point.
    """

    value: Array
    slope: Array
    error: Array
    total: float
    above_first: float


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
        PrivacyLossDistribution(grid, _optimistic(curve, grid.step), False),
        PrivacyLossDistribution(grid, _pessimistic(curve, grid.step), True),
    )


def _curve(step: Step, grid: Grid, count: int) -> _Curve:
    loss = grid.offset + grid.step * (grid.first + np.arange(2 * grid.size - 1) / 2)
    tails = step.tails(loss)
    with np.errstate(under="ignore"):
        above = np.exp(tails.p_above)
        slope = np.exp(np.minimum(loss + tails.q_above, 0.0))
        value = np.maximum(above - slope, 0.0)
        error = ULPS * (above + slope)
        middle = int(np.argmin(np.abs(loss)))
        if count * error[middle] > 1e-8 * value[middle]:
            exact = step.log_delta(loss)
            if exact is not None:  # the difference of the tails cancels, a closed form does not
                value = np.exp(exact)
                error = ULPS * (4 + np.abs(exact)) * value
        top_slope = float(slope[-1])
        beyond = np.exp(loss - loss[-1]) * top_slope  # gamma Q{beyond the cut}
        p_beyond = float(above[-1])
        error = error + ULPS * p_beyond
        value = np.maximum(value - (p_beyond - beyond), 0.0)
        slope = np.maximum(slope - beyond, 0.0)
    value[-1] = slope[-1] = 0.0
    total = float(np.exp(tails.p_below[-1]))
    lost = float(np.exp(tails.p_below[0]))
    return _Curve(value, slope, error, total * (1 + ULPS), max(total * (1 - ULPS) - lost * (1 + ULPS), 0.0))


def _masses(node: Array, total: float, h: float) -> Array:
    """P-masses of the piecewise linear curve through node values, 0 after the last node and `total` at gamma = 0."""
    fall = -np.diff(node) / np.expm1(h)  # gamma_k times the slope of the cell right of node k
    mass = np.zeros(node.size)
    mass[1:] = np.exp(h) * fall
    mass[:-1] -= fall
    mass[0] += total - node[0]
    return mass


def _values(mass: Array, h: float) -> Array:
    """Node values of the curve of given masses, sum over j > k of m_j (1 - e^{l_k - l_j}); positive terms only."""
    above = np.append(np.cumsum(mass[::-1])[::-1][1:], 0.0)
    value, shift, weight = above * -np.expm1(-h), 1, float(np.exp(-h))
    while shift < value.size and weight > 1e-300:
        value[:-shift] += weight * value[shift:].copy()
        shift, weight = shift * 2, weight * weight
    return np.asarray(value)


def _pessimistic(curve: _Curve, h: float) -> Array:
    target = curve.value[::2] + curve.error[::2]
    target[-1] = 0.0
    mass = np.maximum(_masses(target, curve.total, h), 0.0)
    mass[-1] += 4 * float(curve.error[-1]) / -np.expm1(-h)
    value = _values(mass, h)
    below = value < target
    if below.any():
        with np.errstate(divide="ignore", invalid="ignore"):
            short = np.max(np.where(below & (target > 0), target / value, 1.0)[:-1], initial=1.0)
        mass = mass * (float(short) if short < 2.0 else 1.0)
        if not short < 2.0:  # pragma: no cover - only if second differences lost all digits
            mass[-1] += float(np.max((target - value)[:-1])) / -np.expm1(-h)
    return np.asarray(mass * (1 + mass.size * 2.3e-16 if mass.size < 1e4 else 1 + 2e-12))


def _optimistic(curve: _Curve, h: float) -> Array:
    """Node values below both neighbouring tangents; where a tangent is negative at its cell's end the curve ends."""
    middle, lean, error = curve.value[1::2], curve.slope[1::2], curve.error[1::2]
    ceiling = np.full(curve.value.size // 2 + 1, np.inf)
    total = curve.above_first  # what lies at or below the first point is lost
    ceiling[:-1] = np.minimum(ceiling[:-1], middle - np.expm1(-h / 2) * lean - error)
    right_end = middle - np.expm1(h / 2) * lean - error
    ceiling[1:] = np.minimum(ceiling[1:], right_end)
    ended = np.flatnonzero((right_end < 0.0) | (ceiling[:-1] <= 0.0))
    last = int(ended[0]) if ended.size else ceiling.size - 1
    node = np.maximum(ceiling, 0.0)
    node[last:] = 0.0
    node = _convex(node, total, h)
    mass = np.maximum(_masses(node, total, h), 0.0)
    mass[last + 1 :] = 0.0
    value = _values(mass, h) * (1 + 2e-15)
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.where(value > 0.0, 1.0 - np.maximum(ceiling, 0.0) / value, 0.0)
    # far up, where little mass is left, single points with bad digits are dropped rather than everything scaled
    bad = np.flatnonzero(over > 1e-10)
    while bad.size and mass[bad[0] + 1 :].sum() < 1e-3 * mass.sum():
        mass[bad[0] + 1 :] = 0.0
        value = _values(mass, h) * (1 + 2e-15)
        with np.errstate(divide="ignore", invalid="ignore"):
            over = np.where(value > 0.0, 1.0 - np.maximum(ceiling, 0.0) / value, 0.0)
        bad = np.flatnonzero(over > 1e-10)
    return np.asarray(mass * max(0.0, 1.0 - max(float(over.max()), 0.0)))


def _convex(node: Array, total: float, h: float) -> Array:
    """The node values lowered until the curve through them, and through `total` at gamma = 0, is convex in gamma."""
    value = np.concatenate([[total], node])
    share = np.full(node.size - 1, 1 / (1 + np.exp(h)))  # a node lies on its neighbours' chord at this share of the right one
    share[0] = np.exp(-h)
    for sweep in range(400):
        chord = (1 - share) * value[:-2] + share * value[2:]
        bad = np.flatnonzero(value[1:-1] > chord * (1 + 1e-15))
        if not bad.size:
            break
        turn = bad[(bad + sweep) % 2 == 0]
        value[turn + 1] = chord[turn]
    return value[1:]
