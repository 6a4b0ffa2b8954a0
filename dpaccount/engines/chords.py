"""Two steps, from nothing but tails and convexity: the engine for pairs whose characteristic function hardly decays.

Let g(t) = E_t of the second step, convex and falling in t, and L the loss of the first. Then delta(eps) = E_P g(t), t = e^{eps - L}.
A cell of losses (a, b] has the masses p and q, so that t has the mean m = e^eps q/p there, and

    p g(m) <= E_P[g(t); a < L <= b] <= p times the chord between e^{eps - a} and e^{eps - b} at m,

below by Jensen, above since g is convex; (x, inf] is the cell that ends at t = 0, where g = 1, and on the first cell g is at most its
value at the right end. Both bounds rise with p and fall with q, which says what rounding of tails can do. Cells are halved, thirded,
.. where the two differ most: the width falls with the square of their number.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import SUM, ULP
from dpaccount.engines.cells import Cells, cells
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import DominatingPair, Step, log_error
from dpaccount.results import LogDelta

Array = npt.NDArray[np.float64]
AIM = 2e-7
FIRST = 160  # cells of the first look
MOST_CELLS = 60_000
MOST_PARTS = 48  # that one cell is cut into at once
ROUNDS = 5
FAR = 600.0  # no loss beyond is looked at by itself
TINY = 1e-280
THIRD = 1.0 / 3.0  # of the width lies below the value where masses and curve are smooth


def log_delta(pair: DominatingPair, epsilon: float, goal: float = np.nan, aim: float = AIM) -> LogDelta:
    """log delta of two steps at any real epsilon, as a certified bracket; raises `CannotVouch` for more or fewer.

    Cells are cut until the bracket is `aim` wide, excludes log delta = `goal`, or there are 60,000 of them.
    """
    first, second = _two(pair)
    if not abs(epsilon) < FAR:
        raise CannotVouch("e^epsilon has no digits to spare")
    edges = _clear(first, _start(first, second, epsilon))
    best: tuple[float, float, float] | None = None
    width = math.inf
    for _ in range(ROUNDS):
        found = _read(first, second, epsilon, edges)
        low, high = found.total()
        best = (low, high, found.tail) if best is None else (max(low, best[0]), min(high, best[1]), found.tail)
        if not best[1] > TINY:
            raise CannotVouch("delta underflows")
        value, before = _value(*best), width
        width = value.upper - value.lower
        if width <= aim or width > 0.7 * before or (goal == goal and not value.lower <= goal <= value.upper):
            break
        finer = _clear(first, _cut(edges, found, aim))
        if finer.size <= edges.size:
            break
        edges = finer
    return value


def serves(pair: DominatingPair) -> bool:
    """Whether the pair has two steps, a density, and no step with so smooth a loss that a contour falls off at once."""
    if sum(min(count, 3) for _, count in pair.terms[:3]) != 2:
        return False
    densities = [step.density() for step, _ in pair.terms]
    smooth = (d is not None and d.strip is not None and d.strip.gaussian_loss is not None for d in densities)
    return any(d is not None for d in densities) and not any(smooth)


def _two(pair: DominatingPair) -> tuple[Step, Step]:
    steps = [step for step, count in pair.terms for _ in range(min(count, 3))] if len(pair.terms) <= 2 else []
    if len(steps) != 2:
        raise CannotVouch("chords are for two steps")
    return (steps[1], steps[0]) if steps[0].density() is not None and steps[1].density() is None else (steps[0], steps[1])


def _value(low: float, high: float, tail: float) -> LogDelta:
    log_low, log_high = _log(low) - 4 * ULP * (1.0 + abs(_log(low))) if low > 0.0 else -math.inf, _log(high)
    log_high = min(log_high + 4 * ULP * (1.0 + abs(log_high)), 0.0)
    middle = min(max(_log(low + THIRD * (high - low)), log_low), log_high) if low > 0.0 else log_high
    return LogDelta(log_low, middle, log_high, True, "chords", 1.0, min(_log(tail), 0.0))


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf


def _start(first: Step, second: Step, epsilon: float) -> Array:
    """Edges over the losses of the first step for which the second decides, each end and atom one of them."""
    own, other = first.facts, second.facts
    hair = 1e-12 * (1.0 + abs(epsilon))
    low, high = max(own.min_loss, epsilon - other.max_loss - hair, -FAR), min(own.max_loss, epsilon - other.min_loss + hair, FAR)
    low, high = min(low, FAR), max(high, -FAR)
    inner = [np.linspace(low, high, FIRST)] if low < high else []
    if high - low > 2.0:  # most of what matters may lie in a small part
        centre = min(max(0.0, low), high)
        reach = np.geomspace(1e-4, 1.0, FIRST // 2) * (high - low)
        inner += [centre + reach, centre - reach]
    atoms = [at[:MOST_PARTS] for at in (first.atoms()[0], epsilon - second.atoms()[0])]
    edges = np.concatenate([*inner, *atoms, [low, high]])
    return np.unique(np.clip(edges, min(low, high), max(low, high)))


def _clear(first: Step, edges: Array) -> Array:
    """The same edges, moved up to where no atom's, nor the largest loss's, rounding reaches them."""
    points, hair = _points(first)
    if not points.size:
        return edges
    for _ in range(3):
        place = np.searchsorted(points, edges)
        near = np.zeros(edges.shape, dtype=bool)
        for side in (np.clip(place - 1, 0, points.size - 1), np.clip(place, 0, points.size - 1)):
            hit = np.abs(edges - points[side]) <= hair[side]
            edges = np.where(hit, points[side] + 2.0 * hair[side], edges)
            near |= hit
        if not near.any():
            return np.unique(edges)
    raise CannotVouch("atoms lie too close together")


class _Reading(NamedTuple):
    """Both bounds of every cell, from (-inf, first edge] to (last edge, inf], and an estimate of Q[L > eps]."""

    lower: Array
    upper: Array
    tail: float

    def total(self) -> tuple[float, float]:
        low, high = float(self.lower.sum()), float(self.upper.sum())
        return low * (1.0 - 2 * SUM), high * (1.0 + 2 * SUM)


class _Curve(NamedTuple):
    """g of a step at points u = log t, between two numbers, and Q[L > u]."""

    lower: Array
    upper: Array
    q_above: Array


def _curve(step: Step, u: Array, slack: Array) -> _Curve:
    """P[L > u] - e^u Q[L > u], no less than 1 - e^u and 0; u itself may be off by `slack`."""
    tails = step.tails(u)
    log_p, log_q = np.asarray(tails.p_above), u + np.asarray(tails.q_above)
    off_p, off_q = (log_error(np.maximum(logs, -1e4), tails.error) + 2 * ULP for logs in (log_p, log_q))
    p, q = np.exp(log_p), np.exp(np.minimum(log_q, 700.0))
    error = p * off_p + q * (off_q + slack + 2 * ULP * (1.0 + np.abs(u))) + _at_atoms(step, u, slack)
    least = np.maximum(-np.expm1(u) - 4 * ULP - np.exp(np.minimum(u, 700.0)) * slack, 0.0)
    value = np.maximum(p - q, 0.0)
    return _Curve(np.maximum(value - error, least), np.minimum(value + error, 1.0), np.exp(np.asarray(tails.q_above)))


def _at_atoms(step: Step, u: Array, slack: Array) -> Array:
    """What an atom, or the largest loss, counts for on the wrong side of a point within its rounding."""
    error, points, hair = np.zeros(u.shape), *_points(step)
    if points.size:
        place = np.clip(np.searchsorted(points, u), 0, points.size - 1)
        for at in (place, np.maximum(place - 1, 0)):
            within = hair[at] + 2.0 * slack
            near = np.abs(u - points[at]) <= within
            if near.any():
                room = 2.0 * within[near]
                most = np.exp(np.asarray(step.tails(u[near] - room).p_above))
                error[near] = most * (slack[near] + 8 * ULP * (1.0 + np.abs(u[near])) + step.loss_error(points[at][near]))
    return error


def _points(step: Step) -> tuple[Array, Array]:
    """Atoms and finite ends, and how close to them a point is not told from them."""
    ends = [v for v in (step.facts.min_loss, step.facts.max_loss) if math.isfinite(v)]
    points = np.unique(np.concatenate([step.atoms()[0], ends]))
    return points, 1e-12 * np.abs(points) + 8.0 * step.loss_error(points) + 1e-300


def _read(first: Step, second: Step, epsilon: float, edges: Array) -> _Reading:
    masses = cells(first, edges)
    slack = 2 * ULP * (1.0 + abs(epsilon) + np.abs(edges))
    at = _curve(second, epsilon - edges, slack)
    lower, tail = _below(masses, second, epsilon)
    return _Reading(lower, _above(masses, at, epsilon, edges), tail)


def _below(masses: Cells, second: Step, epsilon: float) -> tuple[Array, float]:
    """p g(e^eps q/p) with the least p and the most q, and Q[L > eps] as if every loss lay where its cell's mean does."""
    p, q = masses.p - masses.off_p, masses.q + masses.off_q
    some = p > 0.0
    with np.errstate(divide="ignore"):
        u = epsilon + np.log(np.where(some, q, 1.0)) - np.log(np.where(some, p, 1.0))
    u = np.maximum(u, -FAR)  # g falls
    slack = 4 * ULP * (1.0 + abs(epsilon) + np.abs(u) + np.abs(np.log(np.where(some, p, 1.0))))
    at = _curve(second, u + slack, slack)
    return np.where(some, np.maximum(p, 0.0) * at.lower, 0.0), float(masses.q @ np.where(some, at.q_above, 0.0))


def _above(masses: Cells, at: _Curve, epsilon: float, edges: Array) -> Array:
    """p times the chord with the most p and the least q; the share of its left end is (m/t_a - t_b/t_a)/(1 - t_b/t_a)."""
    p, q = masses.p + masses.off_p, np.maximum(masses.q - masses.off_q, 0.0)
    left, right = at.upper, np.append(at.upper[1:], 1.0)
    with np.errstate(over="ignore"):
        fall = np.append(np.exp(-np.diff(edges)), 0.0)
        width = np.append(-np.expm1(-np.diff(edges)), 1.0)
        slack = 8 * ULP * (1.0 + abs(epsilon) + np.abs(edges))
        mean = np.where(p[1:] > 0.0, q[1:] / np.where(p[1:] > 0.0, p[1:], 1.0), 0.0) * np.exp(edges)
    share = np.clip((mean * (1.0 - slack) - fall * (1.0 + slack)) / width, 0.0, 1.0)
    chord = right + share * (left - right)
    return np.concatenate([p[:1] * at.upper[:1], p[1:] * np.maximum(chord, 0.0) * (1.0 + 8 * ULP)])


def _cut(edges: Array, found: _Reading, aim: float) -> Array:
    """Edges with every cell in equal parts, so many that the widths, which fall with their square, add up to half the aim."""
    if edges.size < 2:
        return edges
    gap = np.maximum(found.upper - found.lower, 0.0)[1:-1]
    root = np.cbrt(gap)
    goal = 0.5 * aim * float(found.upper.sum())
    parts = np.clip(np.ceil(root * math.sqrt(float(root.sum()) / goal)), 1.0, MOST_PARTS)
    counts = np.maximum(parts * min(MOST_CELLS / float(parts.sum()), 1.0), 1.0).astype(np.int64)
    start, step = np.repeat(edges[:-1], counts), np.repeat(np.diff(edges) / counts, counts)
    index = np.arange(start.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.append(start + index * step, edges[-1])
