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

from dpaccount._lattice_curve import ULP, Grid, LatticeCurve, lattice_curve
from dpaccount.pair import Step

Array = npt.NDArray[np.float64]


class LostDigits(ArithmeticError):
    """Rounding leaves nothing of a lattice distribution."""


class PrivacyLossDistribution(NamedTuple):
    """P-masses on a grid (the Q-mass of a point is e^{-loss} times its P-mass), pessimistic or optimistic.

    The masses sum to at most one: losses above the last point are elsewhere, and an optimistic one may lose mass.
    An optimistic curve may exceed the true one by the absolute amount `leak`, a rounding error at the last point.
    """

    grid: Grid
    mass: Array
    pessimistic: bool
    leak: float = 0.0


def discretise(step: Step, grid: Grid, count: int = 1) -> tuple[PrivacyLossDistribution, PrivacyLossDistribution]:
    """The (optimistic, pessimistic) distributions of {L <= last point}.

    Guarantee
    ---------
    optimistic <= true <= pessimistic as hockey-stick curves of the sub-probabilities, in floating point too:
    node values are moved by their rounding error, and the curve of the masses that come out is
    compared with the values it must not cross and scaled until it does not.
    `count` is how often the step will be composed: it decides how small errors must be kept.
    """
    curve = lattice_curve(step, grid, count)
    pessimistic = PrivacyLossDistribution(grid, _pessimistic(curve, grid.step), True)
    return PrivacyLossDistribution(grid, _optimistic(curve, grid.step), False, curve.leak), pessimistic


def _masses(curve: LatticeCurve, right: Array, left: Array, h: float) -> Array:
    """P-masses of the piecewise linear curve through node values: `right` from the pivot on, `left` up to it.

    A kink is gamma times the rise of the slope there; both forms are scaled so that nothing overflows.
    """
    k, grow, step = curve.pivot, float(np.expm1(h)), float(np.exp(h))
    falls, rises = -np.diff(right) / grow, np.diff(left) / grow  # gamma times the slope of cells, in each form
    mass = np.zeros(k + right.size)
    mass[k + 1 :] = step * falls
    mass[k + 1 : -1] -= falls[1:]
    if k == 0:
        mass[0] = curve.total - right[0] - (falls[0] if falls.size else 0.0)
        return mass
    mass[0] = rises[0] - left[0]
    mass[1:k] = rises[1:] - step * rises[:-1]
    mass[k] = curve.q_total - step * rises[-1] - (falls[0] if falls.size else 0.0)
    return mass


def _from_above(mass: Array, h: float) -> Array:
    """Node values sum over j > k of m_j (1 - e^{l_k - l_j}).

    By y_k = e^{-h} y_{k+1} + (1 - e^{-h}) M_k with M_k the mass above k, both by doubling: only positive terms are
    added, and each passes through 2 log2(size) additions, so the relative error is at most `_sum_error`.
    """
    total = _doubled(np.append(mass[1:], 0.0), 0.0)
    return _doubled(total * -float(np.expm1(-h)), h)


def _doubled(x: Array, h: float) -> Array:
    """y_k = sum over j >= k of e^{-(j - k) h} x_j."""
    value, shift = x.copy(), 1
    while shift < value.size:
        weight = float(np.exp(-h * shift))
        if weight < 1e-300:
            break
        value[:-shift] += weight * value[shift:]
        shift *= 2
    return value


def _sum_error(size: int, h: float) -> float:
    """Relative error of `_from_above`: additions, and weights e^{-h 2^m} whose exponents are rounded."""
    levels = float(np.ceil(np.log2(max(size, 2))))
    return ULP * (6 * levels + 8 + 2 * min(h * size, 700.0))


def _ratio(a: Array, b: Array) -> Array:
    """a/b, and 1 where b is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(b > 0.0, a / b, 1.0)


def _pessimistic(curve: LatticeCurve, h: float) -> Array:
    """Masses whose curve is at least the true value at every node, hence (chords, convexity) everywhere."""
    k = curve.pivot
    right = curve.right + curve.right_error
    left = curve.left[: k + 1] + curve.left_error[: k + 1]
    left[k] = curve.left[k] + curve.right_error[k]
    right[-1] = 0.0
    mass = _masses(curve, right[k:], left, h)
    np.maximum(mass, 0.0, out=mass)
    mass[-1] += 4 * float(curve.right_error[-1]) / -np.expm1(-h)
    # a node value is a sum over the masses above it, so each mass grows by the largest ratio to its left
    ratio = np.maximum(_ratio(right[:-1], _from_above(mass, h)[:-1]), 1.0)
    mass *= np.maximum.accumulate(np.append(1.0, ratio))
    short = max((curve.total + curve.total_error) / float(mass.sum()), 1.0)
    if not (short < 2.0 and np.isfinite(mass).all()):
        raise LostDigits("the pessimistic lattice lost all digits")
    mass *= short * (1.0 + 2 * _sum_error(mass.size, h))
    return mass


def _optimistic(curve: LatticeCurve, h: float) -> Array:
    """Masses whose node values lie at or below both neighbouring tangents, so that every chord does.

    Where the tangent of a cell is negative at its right end the curve has ended before that cell; where the other
    form lies below gamma Q[L = -inf] at its left end the curve has not yet left that line. The curve's ceiling and floor
    are used up.
    """
    last, k = curve.last, min(curve.pivot, curve.last)
    curve = _moved(curve, k, h)
    started = np.flatnonzero(curve.unstarted[:k])
    first = int(started[-1]) + 1 if started.size else 0
    curve.ceiling[last:], curve.floor[: first + 1] = 0.0, curve.base[: first + 1]
    drop, limit = curve.floor, curve.ceiling
    at_pivot = max(float(curve.right[k] - curve.ceiling[k]), float(curve.left[k] - curve.floor[k]))
    np.subtract(curve.left[:k], curve.floor[:k], out=drop[:k])
    np.subtract(curve.right[k:], curve.ceiling[k:], out=drop[k:])
    drop[k] = at_pivot
    # what every node value must not exceed, whatever the masses came from
    np.subtract(curve.right, curve.right_error, out=limit)
    limit -= drop
    np.maximum(limit, 0.0, out=limit)
    limit[last:] = 0.0
    _make_convex(drop, curve, h)
    right, left = np.maximum(curve.right[k:] - drop[k:], 0.0), curve.left[: k + 1] - drop[: k + 1]
    if left[k] <= 0.0:
        left[:] = 0.0  # some P-mass is lost instead
    mass = _masses(curve, right, np.maximum(left, 0.0, out=left), h)
    np.maximum(mass, 0.0, out=mass)
    mass[last + 1 :] = 0.0
    return _lowered(mass, limit, curve.total - curve.total_error, h)


def _lowered(mass: Array, limit: Array, total: float, h: float) -> Array:
    """The masses scaled until no node value exceeds its limit: each by the least ratio to its left, which it enters."""
    slack = 1.0 + 2 * _sum_error(mass.size, h)
    ratio = np.minimum(_ratio(limit, _from_above(mass, h) * slack), 1.0)
    kept = mass * np.minimum.accumulate(np.append(1.0, ratio[:-1]))
    return np.asarray(kept * (min(total / max(float(kept.sum()) * slack, 1e-300), 1.0) * (1.0 - 2 * ULP)))


JOIN = 4000  # nodes on the other side of the pivot that a hull may reach


def _make_convex(drop: Array, curve: LatticeCurve, h: float) -> None:
    """Widen how far the nodes lie below the true curve until it is convex, each side in its own form."""
    k = curve.pivot
    for _ in range(2):
        for true, part in ((curve.left, slice(0, min(k + JOIN, drop.size))), (curve.right, slice(max(k - JOIN, 0), drop.size))):
            before = true[part] - drop[part]
            after = _convex(before, h)
            if after is not before:
                drop[part] = np.where(after < before, true[part] - after, drop[part])


def _moved(curve: LatticeCurve, pivot: int, h: float) -> LatticeCurve:
    """The same curve with the two forms joined at another node."""
    return curve._replace(pivot=pivot, q_total=curve.q_total * float(np.exp(h * (pivot - curve.pivot))))


def _convex(node: Array, h: float) -> Array:
    """The lower convex hull in gamma of node values; the first and the last stay.

    A node on or above the chord of its neighbours is no vertex of the hull, and neither is one on or above the chord of
    what such nodes leave behind.
    """
    index = np.arange(node.size)
    for _ in range(PASSES):
        value, gap = node[index], np.diff(index)
        share = _share(h, gap[:-1].astype(float), (gap[:-1] + gap[1:]).astype(float))
        vertex = value[1:-1] < ((1 - share) * value[:-2] + share * value[2:]) * (1 - 1e-15)
        if vertex.all():
            break
        index = index[np.concatenate([[True], vertex, [True]])]
    if index.size == node.size:
        return node
    place = np.clip(np.searchsorted(index, np.arange(node.size), side="right"), 1, index.size - 1)
    low, high = index[place - 1], index[place]
    share = _share(h, (np.arange(node.size) - low).astype(float), (high - low).astype(float))
    return np.asarray((1 - share) * node[low] + share * node[high])


PASSES = 100  # what they leave undone is left to `_lowered`


def _share(h: float, part: Array, whole: Array) -> Array:
    """(e^{h part} - 1)/(e^{h whole} - 1): where on a chord in gamma a node lies."""
    with np.errstate(under="ignore"):
        return np.asarray(np.exp(-h * (whole - part)) * np.expm1(-h * part) / np.expm1(-h * whole))
