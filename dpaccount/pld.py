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

from dpaccount.pair import Step, log_error

Array = npt.NDArray[np.float64]
ULP = 2.3e-16
CLOSED = 1e-15  # a closed form of the curve is taken as accurate to this times (4 + |log delta|), relative


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
    An optimistic curve may exceed the true one by the absolute amount `leak`, a rounding error at the last point.
    """

    grid: Grid
    mass: Array
    pessimistic: bool
    leak: float = 0.0


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
    total_error: float
    q_total: float  # gamma at the pivot times Q[L <= last point]
    base: Array  # at the nodes, gamma Q[L = -inf]: the left form never lies below


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
    optimistic, leak = _optimistic(curve, grid.step)
    return (
        PrivacyLossDistribution(grid, optimistic, False, leak),
        PrivacyLossDistribution(grid, _pessimistic(curve, grid.step), True),
    )


def _curve(step: Step, grid: Grid, count: int) -> _Curve:
    loss = grid.offset + grid.step * (grid.first + np.arange(2 * grid.size - 1) / 2)
    tails = step.tails(loss)
    with np.errstate(under="ignore", over="ignore"):
        above, below = np.exp(tails.p_above), np.exp(tails.p_below)
        right_slope = np.minimum(np.exp(loss + tails.q_above), above)
        left_slope = np.maximum(np.exp(loss + tails.q_below), below)
        above_error = log_error(tails.p_above, tails.error) * above
        below_error = log_error(tails.p_below, tails.error) * below
        right_error = above_error + log_error(loss + tails.q_above, tails.error) * right_slope
        left_error = below_error + log_error(loss + tails.q_below, tails.error) * left_slope
        right, right_error = _difference(step, loss, above - right_slope, right_error, count, tails.error)
        left, left_error = _left_difference(step, loss, left_slope - below, left_error, count, tails.error)
        # the pivot is where both forms are equally exact
        pivot = min(int(np.searchsorted(left_slope + below >= above + right_slope, True)) // 2, grid.size - 1)
        # leave out what lies beyond the last point
        shrink = np.exp(np.minimum(loss - loss[-1], 0.0))
        p_end, slope_end = float(above[-1]), float(right_slope[-1])
        right = np.maximum(right - (p_end - shrink * slope_end), 0.0)
        right_slope = np.maximum(right_slope - shrink * slope_end, 0.0)
        right_error = right_error + 2 * float(above_error[-1])
        q_total = float(np.exp(loss[2 * pivot] + float(tails.q_below[-1])))
    right[-1] = right_slope[-1] = 0.0
    total_error = float(below_error[-1]) if below[-1] < 0.5 else float(above_error[-1]) + 2 * ULP
    only = step.facts.log_q_only
    base = np.exp(loss[::2] + only) * (1 - log_error(loss[::2] + only, tails.error)) if only > -np.inf else np.zeros(grid.size)
    return _Curve(
        pivot, right, right_slope, right_error, left, left_slope, left_error, float(below[-1]), total_error, q_total, base
    )


def _difference(
    step: Step, loss: Array, plain: Array, error: Array, count: int, tail_error: float
) -> tuple[Array, Array]:
    """The curve and its absolute error: from a closed form where the difference of the tails cancels too much."""
    exact = step.log_delta(loss) if _cancels(loss, plain, error, count) else None
    if exact is None:
        return np.maximum(plain, 0.0), error
    value = np.exp(exact)
    return value, (tail_error + CLOSED * (4 + np.abs(np.maximum(exact, -700.0)))) * value


def _left_difference(
    step: Step, loss: Array, plain: Array, error: Array, count: int, tail_error: float
) -> tuple[Array, Array]:
    """The same for gamma Q[L <= l] - P[L <= l], which is gamma times the swapped pair's curve at -l."""
    exact = step.reversed().log_delta(-loss) if _cancels(loss, plain, error, count) else None
    if exact is None:
        return np.maximum(plain, 0.0), error
    value = np.exp(np.asarray(exact) + loss)
    return value, (tail_error + CLOSED * (4 + np.abs(loss) + np.abs(np.maximum(exact, -700.0)))) * value


def _cancels(loss: Array, plain: Array, error: Array, count: int) -> bool:
    middle = int(np.argmin(np.abs(loss)))
    return bool(count * error[middle] > 1e-6 * plain[middle])


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
        value[:-shift] = value[:-shift] + weight * value[shift:]
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


def _pessimistic(curve: _Curve, h: float) -> Array:
    """Masses whose curve is at least the true value at every node, hence (chords, convexity) everywhere."""
    k = curve.pivot
    right = curve.right[::2] + curve.right_error[::2]
    left = curve.left[::2] + curve.left_error[::2]
    left[k] = curve.left[2 * k] + curve.right_error[2 * k]
    right[-1] = 0.0
    mass = np.maximum(_masses(curve, right, left, h), 0.0)
    mass[-1] += 4 * float(curve.right_error[-1]) / -np.expm1(-h)
    # a node value is a sum over the masses above it, so each mass grows by the largest ratio to its left
    ratio = np.maximum(_ratio(right[:-1], _from_above(mass, h)[:-1]), 1.0)
    mass *= np.maximum.accumulate(np.append(1.0, ratio))
    short = max((curve.total + curve.total_error) / float(mass.sum()), 1.0)
    if not (short < 2.0 and np.isfinite(mass).all()):
        raise LostDigits("the pessimistic lattice lost all digits")
    return np.asarray(mass * short * (1.0 + 2 * _sum_error(mass.size, h)))


def _optimistic(curve: _Curve, h: float) -> tuple[Array, float]:
    """Masses whose node values lie at or below both neighbouring tangents, so that every chord does; and the leak.

    Where the tangent of a cell is negative at its right end the curve has ended before that cell; where the other
    form lies below gamma Q[L = -inf] at its left end the curve has not yet left that line.
    """
    end_error, start_error = curve.right_error[1::2], curve.left_error[1::2]
    right, end = _tangents(curve.right[1::2], -curve.right_slope[1::2], h)
    left, _ = _tangents(curve.left[1::2], curve.left_slope[1::2], h)
    start = curve.left[1::2] + np.expm1(-h / 2) * curve.left_slope[1::2] - curve.base[:-1]
    ceiling = np.maximum(right - _widest(end_error), 0.0)
    floor = np.maximum(left - _widest(start_error), curve.base)
    ended = np.flatnonzero(end < -end_error)
    last = int(ended[0]) if ended.size else ceiling.size - 1
    # at the cell before, a tangent within its error of zero is taken as zero
    leak = 2 * float(end_error[max(last - 1, 0)]) if end.size else 0.0
    curve = _moved(curve, min(curve.pivot, last), h)
    k = curve.pivot
    started = np.flatnonzero(start[:k] < -start_error[:k])
    first = int(started[-1]) + 1 if started.size else 0
    ceiling[last:], floor[: first + 1] = 0.0, curve.base[: first + 1]
    true_right, true_left = curve.right[::2], curve.left[::2]
    drop = np.where(np.arange(ceiling.size) < k, true_left - floor, true_right - ceiling)
    drop[k] = max(float(true_right[k] - ceiling[k]), float(true_left[k] - floor[k]))
    # what every node value must not exceed, whatever the masses came from
    limit = np.maximum(true_right - curve.right_error[::2] - drop, 0.0)
    limit[last:] = 0.0
    drop = _convex_drop(drop, true_right, true_left, k, h)
    upper, lower = np.maximum(true_right - drop, 0.0), true_left - drop
    if lower[k] <= 0.0:
        lower[: k + 1] = 0.0  # some P-mass is lost instead
    mass = np.maximum(_masses(curve, upper, np.maximum(lower, 0.0), h), 0.0)
    mass[last + 1 :] = 0.0
    return _lowered(mass, limit, curve.total - curve.total_error, h), leak


def _lowered(mass: Array, limit: Array, total: float, h: float) -> Array:
    """The masses scaled until no node value exceeds its limit: each by the least ratio to its left, which it enters."""
    slack = 1.0 + 2 * _sum_error(mass.size, h)
    ratio = np.minimum(_ratio(limit, _from_above(mass, h) * slack), 1.0)
    kept = mass * np.minimum.accumulate(np.append(1.0, ratio[:-1]))
    return np.asarray(kept * (min(total / max(float(kept.sum()) * slack, 1e-300), 1.0) * (1.0 - 2 * ULP)))


JOIN = 4000  # nodes on the other side of the pivot that a hull may reach


def _convex_drop(drop: Array, right: Array, left: Array, k: int, h: float) -> Array:
    """How far the nodes lie below the true curve once it is made convex, each side in its own form."""
    drop = drop.copy()
    for _ in range(2):
        for true, part in ((left, slice(0, min(k + JOIN, drop.size))), (right, slice(max(k - JOIN, 0), drop.size))):
            before = true[part] - drop[part]
            after = _convex(before, h)
            drop[part] = np.where(after < before, true[part] - after, drop[part])
    return drop


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
