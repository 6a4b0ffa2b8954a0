"""The best of several valid bounds on one privacy curve: their pointwise minimum, made a privacy curve again.

Write h(gamma) = E_gamma(P||Q). It is convex and falls with a slope in [-1, 0], h(0) = 1, and h(1/gamma) is
1 - 1/gamma + h'(gamma)/gamma with h' of the swapped pair. If every bound holds for both orders, so does their minimum m, and its
mirror image bounds h on gamma < 1; then h, being convex, lies below the lower convex hull of m over all gamma > 0 and of the
point (0, 1): the hull is a bound, the largest that is itself a privacy curve. Between two points of a curve that bounds h the
chord bounds h as well, so no rounding and no coarse table can make the hull invalid: it only makes it larger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._log import ULP, log1m_exp
from dpaccount.adjacency import Adjacency
from dpaccount.iteration.face import LastIterate
from dpaccount.mechanisms.curve import RELATIONS, CurvePair
from dpaccount.results import Bounds, Status

Array = npt.NDArray[np.float64]
Curve = Callable[[Array], Any]
LARGEST = 64.0  # the first table of epsilons ends here; larger questions make larger tables
ROUNDS = 10  # refinements of the cells of the table around each end of a chord
POINTS = 3000  # of a table, at most about
SPLIT = np.arange(1, 8) / 8.0  # of a cell, in each of them
ROUNDING = 1e-13  # of a chord, relatively
NEVER = 2.0**30  # no epsilon beyond is tried


class Table(NamedTuple):
    """Vertices of a hull by epsilon, -inf for gamma = 0 first, and which bound each comes from."""

    epsilon: Array
    log_delta: Array
    which: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BestCurve:
    """The pointwise minimum of bounds that all hold for one release, made a privacy curve; build it with `pointwise_minimum`."""

    candidates: tuple[tuple[str, Curve], ...]
    certified: bool
    convex: bool = False
    relation: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tables", {})

    def log_delta(self, epsilon: Any) -> Bounds:
        """log delta at any real epsilon (array). `method` names the winner, for an array an array of names."""
        level = _check.reals("BestCurve.log_delta", "epsilon", epsilon)
        upper = self._upper(level)[0][()]
        return self._bounds(np.full(level.shape, -np.inf)[()], upper, self.winner(level))

    def delta(self, epsilon: Any) -> Bounds:
        """delta at any real epsilon (array); `upper` is the bound, `lower` 0. `method` as in `log_delta`."""
        level = _check.reals("BestCurve.delta", "epsilon", epsilon)
        with np.errstate(under="ignore"):
            logs = self._upper(level)[0]
            upper = np.where(np.isneginf(logs), 0.0, np.minimum(np.nextafter(np.exp(logs), 2.0), 1.0))[()]
        return self._bounds(np.zeros(level.shape)[()], upper, self.winner(level))

    def winner(self, epsilon: Any) -> Any:
        """The name of the bound that answers at epsilon (array); two names with a slash where their common tangent does."""
        level = _check.reals("BestCurve.winner", "epsilon", epsilon)
        _, left, right = self._upper(level)
        names = [name for name, _ in self.candidates]
        said = [names[i] if i == j else f"{names[i]} / {names[j]}" for i, j in zip(left.flat, right.flat, strict=True)]
        return said[0] if not level.ndim else np.array(said, dtype=object).reshape(level.shape)

    def epsilon(self, delta: Any = None, *, log_delta: Any = None) -> Bounds:
        """The least epsilon >= 0 at which the bound is at most delta (array), or e^log_delta."""
        if (delta is None) == (log_delta is None):
            _check.refuse("BestCurve.epsilon", "delta", "given, or log_delta instead of it", delta, "Pass one of them.", TypeError)
        if delta is not None:
            with np.errstate(divide="ignore"):
                level = np.log(_check.reals("BestCurve.epsilon", "delta", delta, low=0.0, high=1.0))
            goal = np.where(level < 0.0, np.nextafter(level, -np.inf), level)
        else:
            goal = _check.reals("BestCurve.epsilon", "log_delta", log_delta, high=0.0)
        goal = np.asarray(goal)
        high = np.ones(goal.shape)
        missed = self.least(high)[0] > goal
        while missed.any() and high.max() < NEVER:
            high = np.where(missed, 2.0 * high, high)
            missed = self.least(high)[0] > goal
        high = np.where(missed, 0.0, high)
        low = np.zeros(goal.shape)
        done = self._upper(low)[0] <= goal
        high = np.where(done, 0.0, high)
        for _ in range(200):
            if not np.any(high - low > 1e-14 * high):
                break
            middle = np.where(low > 0.0, (low + high) / 2, np.where(high > 1e-3, high / 2, high * high))
            good = self._upper(middle)[0] <= goal
            high, low = np.where(good, middle, high), np.where(good, low, middle)
        found = np.where(missed & ~done, np.inf, high)[()]
        status = Status.INFINITE_DELTA_ZERO if np.isinf(found).any() else Status.ZERO if np.any(found == 0.0) else Status.OK
        answer = self._bounds(np.zeros(goal.shape)[()], found, self.winner(np.where(np.isinf(found), 0.0, found)))
        return Bounds(answer.lower, answer.estimate, answer.upper, answer.certified, answer.method, status)

    def pair(self, largest: float = LARGEST) -> CurvePair:
        """A pair whose curve is this one at a thousand epsilons up to `largest`, and chords between: it composes.

        It answers under the run's `relation` alone, and from above only (`CurvePair.upper_bound`).
        """
        largest = _check.real("BestCurve.pair", "largest", largest, low=0.0, high=700.0, open_low=True)
        end = min(largest, float(self.epsilon(log_delta=-700.0)) or largest)
        table = self._table(end).epsilon
        own = table[(table > 0.0) & (table < end)]
        level = np.unique(np.concatenate([[0.0], np.geomspace(1e-6 * end, end, 200), np.linspace(0.0, end, 800), own]))
        with np.errstate(under="ignore"):
            delta = np.minimum(np.nextafter(np.exp(self._upper(level)[0]), 2.0), 1.0)
        useful = np.concatenate([[True], np.diff(delta) < 0.0])
        points = tuple(level[useful].tolist()), tuple(delta[useful].tolist())
        return CurvePair(*points, relation=self.relation, upper_bound=True)

    # how it is computed

    def _bounds(self, lower: Any, upper: Any, name: Any) -> Bounds:
        return Bounds(lower, upper, upper, self.certified, name)

    def least(self, epsilon: Array) -> tuple[Array, npt.NDArray[np.int64]]:
        """The minimum of the candidates at any real epsilon, and which it is; at epsilon < 0 by reflection."""
        size = np.abs(epsilon)
        found = np.array([np.broadcast_to(np.asarray(curve(size), dtype=float), size.shape) for _, curve in self.candidates])
        if np.isnan(found).any():
            _check.refuse("pointwise_minimum", "candidates", "functions without NaN", self.candidates[0][0])
        which = np.argmin(found, axis=0)
        value = np.minimum(np.min(found, axis=0), 0.0)
        mirrored = np.logaddexp(log1m_exp(-size), value - size) + 4 * ULP
        return np.where(epsilon < 0.0, np.minimum(mirrored, 0.0), value), which

    def _upper(self, epsilon: Array) -> tuple[Array, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The curve, and the bounds at both ends of the chord that gives it (the same twice where it is a bound itself)."""
        value, which = self.least(epsilon)
        if self.convex and len(self.candidates) == 1:
            return value, which, which
        table = self._table(float(np.abs(epsilon).max(initial=1.0)))
        right = np.clip(np.searchsorted(table.epsilon, epsilon), 1, table.epsilon.size - 1)
        ends = [(table.epsilon[k], table.log_delta[k]) for k in (right - 1, right)]
        chord = _chord(*ends[0], *ends[1], epsilon)
        lower = chord < value
        left_which, right_which = table.which[right - 1], table.which[right]
        return np.where(lower, chord, value), np.where(lower, left_which, which), np.where(lower, right_which, which)

    def _table(self, largest: float) -> Table:
        """The hull up to some epsilon beyond `largest`."""
        size = LARGEST * 2.0 ** max(0, math.ceil(math.log2(largest / LARGEST) + 0.5))
        tables: dict[float, Table] = self._tables  # type: ignore[attr-defined]
        if size not in tables:
            tables[size] = self._made(size)
        return tables[size]

    def _made(self, size: float) -> Table:
        """A table that refines its cells around the ends of every chord that passes over a point of it, and around crossings."""
        plain = np.unique(np.concatenate([[0.0], np.geomspace(1e-6, size, 60), np.linspace(0.0, size, 100)]))
        level = np.concatenate([-plain[:0:-1], plain])
        value, which = self.least(level)
        for _ in range(ROUNDS):
            keep = hull(level, value)
            gaps = np.flatnonzero((np.diff(keep) > 1) | (np.diff(which[keep]) != 0))
            ends = np.unique(np.concatenate([keep[gaps], keep[gaps + 1]]))
            if not ends.size or level.size > POINTS:
                break
            near = np.concatenate([level[np.maximum(ends - 1, 0)], level[np.minimum(ends + 1, level.size - 1)]])
            new = np.setdiff1d(np.multiply.outer(np.tile(level[ends], 2), 1.0 - SPLIT) + np.multiply.outer(near, SPLIT), level)
            if not new.size:
                break
            more, names = self.least(new)
            order = np.argsort(np.concatenate([level, new]), kind="stable")
            level, value, which = (np.concatenate(v)[order] for v in ((level, new), (value, more), (which, names)))
        keep = hull(level, value)
        first = (np.array([-np.inf]), np.array([0.0]), which[keep[:1]])
        return Table(*(np.concatenate([a, b[keep]]) for a, b in zip(first, (level, value, which), strict=True)))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the bounds."""
        return tuple(name for name, _ in self.candidates)


def pointwise_minimum(
    candidates: Mapping[str, Curve], *, certified: bool = False, convex: bool = False, relation: str | None = None
) -> BestCurve:
    """The least of several bounds on log delta(epsilon) of one release, made a privacy curve.

    Parameters
    ----------
    candidates : mapping of name to function
        Each takes an array of epsilon >= 0 and returns log delta; each must hold for both orders of every pair of neighbours.
    certified : bool
        Whether all of them include their own rounding.
    convex : bool
        Whether each is a privacy curve, as products of Gaussian curves are: then one alone needs no hull.
    relation : {"add-or-remove", "replace-one", "zero-out"}, optional
        The adjacency that all of them are about, which `pair()` insists on; None (default) leaves it to who asks.

    Guarantee
    ---------
    The lower convex hull in gamma = e^epsilon of the minimum and its mirror image: never above the minimum, never below the
    truth. Common tangents are found to about 1e-9 of their ends, and evaluated with their rounding added.

    Examples
    --------
    >>> from dpaccount._log import gaussian_log_delta
    >>> from dpaccount.iteration.best import pointwise_minimum
    >>> both = pointwise_minimum({
    ...     "one": lambda e: gaussian_log_delta(e, 1.0), "product": lambda e: gaussian_log_delta(e, 2.0) + gaussian_log_delta(e, 1.5)
    ... })
    >>> both.winner([0.01, 0.15, 1.5]).tolist()
    ['product', 'product / one', 'one']
    """
    owner = "pointwise_minimum"
    if not isinstance(candidates, Mapping) or not candidates:
        _check.refuse(owner, "candidates", "a mapping of names to functions of epsilon", candidates, kind=TypeError)
    for name, curve in candidates.items():
        if not callable(curve):
            _check.refuse(owner, "candidates", "a mapping of names to functions of epsilon", {name: curve}, kind=TypeError)
    if relation is not None:
        relation = str(_check.choice(owner, "relation", relation, RELATIONS))
    flags = _check.flag(owner, "certified", certified), _check.flag(owner, "convex", convex)
    return BestCurve(tuple(candidates.items()), *flags, relation)


def hull(epsilon: Array, log_delta: Array) -> npt.NDArray[np.int64]:
    """Indices of the vertices of the lower convex hull of points (e^epsilon, delta) and (0, 1), epsilon rising; all in logs."""
    keep: list[int] = []
    fall: list[float] = []  # log of minus the slope of the chord that ends at a kept point
    before, level, logs = -math.inf, epsilon.tolist(), log_delta.tolist()
    least = 0.0
    for i, (e, d) in enumerate(zip(level, logs, strict=True)):
        if d > least:
            continue  # delta never rises
        least = d
        while True:
            last_e, last_d = (level[keep[-1]], logs[keep[-1]]) if keep else (before, 0.0)
            slope = _log_fall(last_e, last_d, e, d)
            if not keep or slope < fall[-1]:
                break
            keep.pop()
            fall.pop()
        keep.append(i)
        fall.append(slope)
    return np.array(keep, dtype=np.int64)


def _log_fall(e: float, d: float, next_e: float, next_d: float) -> float:
    """log of (delta - next delta)/(next gamma - gamma)."""
    if next_d >= d:
        return -math.inf
    return d + float(log1m_exp(next_d - d)) - next_e - float(log1m_exp(e - next_e))


def _chord(e: Array, d: Array, next_e: Array, next_d: Array, epsilon: Array) -> Array:
    """log delta at gamma = e^epsilon on the chord between two points, rounded up; beyond the second point its own delta."""
    level = np.clip(epsilon, e, next_e)
    with np.errstate(invalid="ignore", divide="ignore"):
        width = next_e + log1m_exp(e - next_e)
        near = np.where(level == next_e, -np.inf, next_e + log1m_exp(np.minimum(level - next_e, 0.0)) - width)
        far = np.where(level == e, -np.inf, level + log1m_exp(np.minimum(e - level, 0.0)) - width)
        found = np.logaddexp(near + d, far + next_d)
        found = np.where(np.isneginf(found), found, found + ROUNDING * (1.0 + np.abs(found)))
    return np.asarray(np.minimum(found, 0.0))


def best_of(subject: Any, also: Mapping[str, Curve] | None = None, *, method: str = "best", **where: Any) -> BestCurve:
    """The best curve of everything that is known about one record of a run; its `pair()` keeps to the run's relation.

    Parameters
    ----------
    subject : NoisyGD, or anything with `methods` and with ``log_delta(epsilon, method=...)``
    also : mapping of name to function, optional
        Further bounds for the same release, as in `pointwise_minimum`.
    method : {"best", "sharpest"}
        Of what: the cited theorems, or also those that this documentation alone proves (`PNSGD` and its variants).
    **where
        Passed on to ``log_delta``, such as the record's index.
    """
    _check.choice("best_of", "method", method, ("best", "sharpest"))
    names = subject.choices(method) if isinstance(subject, LastIterate) else [name for name in subject.methods if name != "best"]

    def curve(name: str) -> Curve:
        return lambda epsilon: subject.log_delta(epsilon, method=name, **where).upper

    sure = all(bool(subject.log_delta(1.0, method=name, **where).certified) for name in names)
    relation = Adjacency.REPLACE_ONE if isinstance(subject, LastIterate) else getattr(subject, "adjacency", None)
    bounds = {**{name: curve(name) for name in names}, **(also or {})}
    return pointwise_minimum(bounds, certified=sure and not also, relation=relation)
