"""A step's curve at the points of a lattice, with tangents and every rounding error, a block of points at a time.

A million points are usual: whatever lies between a step's tails and its curve is made for one block only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount.pair import Step, Tails, log_error

Array = npt.NDArray[np.float64]
ULP = 2.3e-16
CLOSED = 1e-15  # a closed form of the curve is taken as accurate to this times (4 + |log delta|), relative
FAR = 700.0  # where the left form, which no longer serves there, would overflow
BLOCK = 2**14  # nodes that are asked for at once, so that what lies between tails and curve stays small


class Grid(NamedTuple):
    """Loss lattice: point k stands for offset + k step; the points run from first to first + size - 1."""

    offset: float
    step: float
    first: int
    size: int

    def losses(self) -> Array:
        return np.asarray(self.offset + self.step * (self.first + np.arange(self.size)), dtype=np.float64)


class LatticeCurve(NamedTuple):
    """The curve of {L <= last point} at the nodes of a grid, in the form that does not cancel there, and its tangents.

    Right of `pivot` (a node index) the value is E_gamma = P[L > l] - gamma Q[L > l], its slope gamma Q[L > l];
    left of it gamma Q[L <= l] - P[L <= l], its slope gamma Q[L <= l]. The forms differ
    by a linear function of gamma, so that kinks are the same. Errors are absolute.
    """

    pivot: int
    right: Array
    right_error: Array
    left: Array
    left_error: Array
    ceiling: Array  # at or below both neighbouring tangents, in the right form
    floor: Array  # the same in the left form
    base: Array  # gamma Q[L = -inf]: the left form never lies below
    unstarted: npt.NDArray[np.bool_]  # cells whose tangent lies below the base
    last: int  # the first cell after which the curve has certainly ended, or the last node
    leak: float
    total: float  # P[L <= last point]
    total_error: float
    q_total: float  # gamma at the pivot times Q[L <= last point]


class _Piece(NamedTuple):
    """Both forms at some losses: values, slopes, absolute errors, and where the left one is no longer the better known."""

    right: Array
    right_slope: Array
    right_error: Array
    left: Array
    left_slope: Array
    left_error: Array
    crossed: npt.NDArray[np.bool_]


class _End(NamedTuple):
    """The tails at the last point, and whether closed forms replace differences of tails that cancel."""

    loss: float
    tails: Tails
    above: float
    above_error: float
    slope: float
    right_cancels: bool = False
    left_cancels: bool = False


class _Block(NamedTuple):
    """A stretch of a `LatticeCurve`, by its fields' names; the first cell in it that has crossed, and that has ended, or -1."""

    right: Array
    right_error: Array
    left: Array
    left_error: Array
    ceiling: Array
    floor: Array
    base: Array
    unstarted: npt.NDArray[np.bool_]
    crossed: int
    ended: int
    leak: float


def _half_points(grid: Grid, index: Any) -> Array:
    """The losses at half-points: even ones are nodes, odd ones the middles of cells."""
    return np.asarray(grid.offset + grid.step * (grid.first + index / 2), dtype=np.float64)


def lattice_curve(step: Step, grid: Grid, count: int) -> LatticeCurve:
    size = grid.size
    end = _end(step, grid, count)
    right, right_error, left, left_error, ceiling, floor, base = arrays = [np.empty(size) for _ in range(7)]
    unstarted = np.empty(size, dtype=bool)
    pivot = last = size - 1
    leak, ended = 0.0, False
    for start in range(0, size, BLOCK):
        part = slice(start, min(start + BLOCK, size))
        block = _block(step, grid, end, part)
        for whole, some in zip([*arrays, unstarted], block[:8], strict=True):
            whole[part] = some
        if block.crossed >= 0:
            pivot = min(pivot, start + block.crossed)
        if not ended:
            leak, ended = block.leak, block.ended >= 0
            last = start + block.ended if ended else last
    right[-1] = 0.0
    q_total = float(np.exp(float(_half_points(grid, 2 * pivot)) + float(end.tails.q_below)))
    below, error = float(np.exp(end.tails.p_below)), end.tails.error
    total_error = float(log_error(end.tails.p_below, error)) * below if below < 0.5 else end.above_error + 2 * ULP
    return LatticeCurve(
        pivot, right, right_error, left, left_error, ceiling, floor, base, unstarted, last, leak, below, total_error, q_total
    )


def _block(step: Step, grid: Grid, end: _End, part: slice) -> _Block:
    """The nodes of a part, with the cells on both sides of each."""
    h, only = grid.step, step.facts.log_q_only
    nodes = np.arange(part.start, part.stop)
    cells = np.arange(max(part.start - 1, 0), min(part.stop, grid.size - 1))
    loss = _half_points(grid, 2 * nodes)
    here, middle = _piece(step, loss, end), _piece(step, _half_points(grid, 2 * cells + 1), end)
    base = np.exp(np.minimum(loss + only, FAR)) * (1 - log_error(loss + only, end.tails.error)) if only > -np.inf else np.zeros(nodes.size)
    shift = part.start - int(cells[0])
    seen = slice(shift, shift + nodes.size)
    own = slice(shift, None)  # the cells that begin in this part
    high, top = _tangents(middle.right, -middle.right_slope, h)
    low, _ = _tangents(middle.left, middle.left_slope, h)
    start = (middle.left + np.expm1(-h / 2) * middle.left_slope)[own]
    unstarted = np.zeros(nodes.size, dtype=bool)
    unstarted[: start.size] = start - base[: start.size] < -middle.left_error[own]
    ended = np.flatnonzero(top[own] < -middle.right_error[own])
    crossed = here.crossed.copy()
    crossed[: start.size] |= middle.crossed[own]
    # at the cell before the end, a tangent within its error of zero is taken as zero
    leak = 2 * float(middle.right_error[max(int(ended[0]) + shift - 1, 0)] if ended.size else middle.right_error[-1])
    return _Block(
        here.right, here.right_error, here.left, here.left_error,
        np.maximum(high - _widest(middle.right_error), 0.0)[seen], np.maximum((low - _widest(middle.left_error))[seen], base),
        base, unstarted, _first(crossed), _first(top[own] < -middle.right_error[own]), leak,
    )


def _first(true: npt.NDArray[np.bool_]) -> int:
    """The first index where it holds, or -1."""
    return int(np.argmax(true)) if true.any() else -1


def _end(step: Step, grid: Grid, count: int) -> _End:
    loss = float(_half_points(grid, 2 * grid.size - 2))
    tails = Tails(*(float(x) for x in step.tails(np.array(loss))))
    with np.errstate(under="ignore", over="ignore"):
        above, slope = float(np.exp(tails.p_above)), float(np.exp(loss + tails.q_above))
    end = _End(loss, tails, above, float(log_error(tails.p_above, tails.error)) * above, min(slope, above))
    middle = round(min(max(-2 * (grid.offset / grid.step + grid.first), 0.0), 2.0 * grid.size - 2.0))  # nearest to loss 0
    piece = _piece(step, _half_points(grid, np.array([middle])), end._replace(above=0.0, slope=0.0, above_error=0.0))
    cancels = [count * error[0] > 1e-6 * value[0] for value, _, error in (piece[:3], piece[3:6])]
    return end._replace(right_cancels=bool(cancels[0]), left_cancels=bool(cancels[1]))


def _piece(step: Step, loss: Array, end: _End) -> _Piece:
    tails = step.tails(loss)
    with np.errstate(under="ignore", over="ignore"):
        above, below = np.exp(tails.p_above), np.exp(tails.p_below)
        right_slope = np.minimum(np.exp(loss + tails.q_above), above)
        left_slope = np.maximum(np.exp(np.minimum(loss + tails.q_below, FAR)), below)
        right_error = log_error(tails.p_above, tails.error) * above + log_error(loss + tails.q_above, tails.error) * right_slope
        left_error = log_error(tails.p_below, tails.error) * below + log_error(loss + tails.q_below, tails.error) * left_slope
        crossed = left_slope + below >= above + right_slope
        right, left = np.maximum(above - right_slope, 0.0), np.maximum(left_slope - below, 0.0)
        if end.right_cancels:
            right, right_error = _closed(step, loss, loss * 0.0, right, right_error, tails.error)
        if end.left_cancels:  # gamma Q[L <= l] - P[L <= l] is gamma times the swapped pair's curve at -l
            left, left_error = _closed(step.reversed(), -loss, loss, left, left_error, tails.error)
        # leave out what lies beyond the last point
        shrink = np.exp(np.minimum(loss - end.loss, 0.0))
        right = np.maximum(right - (end.above - shrink * end.slope), 0.0)
        right_slope = np.maximum(right_slope - shrink * end.slope, 0.0)
        return _Piece(right, right_slope, right_error + 2 * end.above_error, left, left_slope, left_error, crossed)


def _closed(step: Step, loss: Array, scale: Array, plain: Array, error: Array, tail_error: float) -> tuple[Array, Array]:
    """e^scale times the curve and its absolute error, from a closed form where there is one."""
    exact = step.log_delta(loss)
    if exact is None:
        return plain, error
    value = np.exp(np.minimum(np.asarray(exact) + scale, FAR))
    size = np.abs(np.maximum(exact, -700.0))
    # tails know what a rounded loss costs a Gaussian's at its mean, and sqrt(2 size) is how far out delta lies
    return value, (tail_error * (1 + np.sqrt(2 * size)) + CLOSED * (4 + np.abs(scale) + size)) * value


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
