"""A mechanism known only by its privacy curve."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, cmp_to_key
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._log import LOG_2, ULP
from dpaccount.adjacency import Adjacency, parse, unsupported
from dpaccount.mechanisms.atomic import AtomicStep
from dpaccount.mechanisms.finite import lattice_of
from dpaccount.pair import DominatingPair, Facts, Reversed, Step

Array = npt.NDArray[np.float64]
RELATIONS = [relation for relation in Adjacency if relation is not Adjacency.AS_WRITTEN]
SHOWN = 6  # points in the text of a curve


@final
@dataclass(frozen=True)
class CurvePair(AtomicStep):
    """The least pair whose curve passes through given (epsilon, delta) points or above the truth between them.

    The curve delta(eps) of any mechanism is convex in gamma = e^eps, so the chords of a table lie
    above it; chords of a convex table are the curve of a finite pair (ZDW22, Proposition 8), which
    composes and is sampled like any other. Beyond the last point delta stays at its last value, below
    the first it falls from delta = 1 at gamma = 0.

    Parameters
    ----------
    epsilon : sequence of float
        Strictly increasing, any real numbers.
    delta : sequence of float
        In [0, 1], the mechanism is (epsilon[i], delta[i])-DP. Points above the lower convex hull in
        e^epsilon are implied by the others and dropped.
    symmetric : bool
        True (default) if each point holds for both orders of every pair of neighbours, as a DP
        claim does: then E_gamma = 1 - gamma + gamma E_{1/gamma} sharpens the curve at negative epsilon.
    relation : {"add-or-remove", "replace-one", "zero-out"}, optional
        The only adjacency that the points hold for; asked under another it raises `UnsupportedAdjacency`. None (default)
        takes them under whatever relation is asked.
    upper_bound : bool
        True if the points bound a curve that is not known, as theorems on last iterates do, and nothing is claimed from below:
        then the lower end of every answer about a composition with this step is the trivial one. False (default)
        answers for the mechanism whose curve this is.
    proved : bool
        False if the points come from a pair that is not proved to dominate: then no answer with this step is certified.

    Guarantee
    ---------
    An upper bound at every epsilon, exact at the points on the hull (of the mechanism too, unless `upper_bound`).

    Examples
    --------
    >>> from dpaccount import CurvePair, PrivacyProfile
    >>> round(float(PrivacyProfile(CurvePair((0.0, 1.0), (0.1, 0.01))).delta(epsilon=1.0)), 12)
    0.01
    """

    epsilon: tuple[float, ...]
    delta: tuple[float, ...]
    symmetric: bool = True
    relation: str | None = None
    upper_bound: bool = False
    proved: bool = True

    def __post_init__(self) -> None:
        epsilon = _check.reals("CurvePair", "epsilon", self.epsilon, low=-700.0, high=700.0)
        delta = _check.reals("CurvePair", "delta", self.delta, low=0.0, high=1.0)
        if epsilon.ndim != 1 or not epsilon.size or np.any(np.diff(epsilon) <= 0):
            _check.refuse("CurvePair", "epsilon", "a non-empty, strictly increasing sequence", self.epsilon)
        if delta.shape != epsilon.shape:
            _check.refuse("CurvePair", "delta", f"of the same length as epsilon, {epsilon.size}", self.delta)
        object.__setattr__(self, "symmetric", _check.flag("CurvePair", "symmetric", self.symmetric))
        object.__setattr__(self, "upper_bound", _check.flag("CurvePair", "upper_bound", self.upper_bound))
        object.__setattr__(self, "proved", _check.flag("CurvePair", "proved", self.proved))
        if self.relation is not None:
            relation = _check.choice("CurvePair", "relation", self.relation, RELATIONS, "None takes the points under any relation.")
            object.__setattr__(self, "relation", str(relation))
        object.__setattr__(self, "epsilon", tuple(epsilon.tolist()))
        object.__setattr__(self, "delta", tuple(delta.tolist()))

    def __repr__(self) -> str:
        """The points, of many the first and the last; `relation` and `upper_bound` where they are given."""
        points = ", ".join(f"{name}={_listed(getattr(self, name))}" for name in ("epsilon", "delta"))
        rest = "" if self.relation is None else f", relation={self.relation!r}"
        rest += (", upper_bound=True" if self.upper_bound else "") + ("" if self.proved else ", proved=False")
        return f"CurvePair({points}, symmetric={self.symmetric}{rest})"

    @staticmethod
    def from_function(
        delta: Callable[[float], float], epsilon: Any, *, symmetric: bool = True, relation: str | None = None, upper_bound: bool = False
    ) -> CurvePair:
        """The pair of a curve given as a function, tabulated at `epsilon` (a sequence)."""
        owner = "CurvePair.from_function"
        if not callable(delta):
            _check.refuse(owner, "delta", "a function of epsilon", delta, kind=TypeError)
        grid = _check.reals(owner, "epsilon", epsilon)
        if grid.ndim != 1:
            _check.refuse(owner, "epsilon", "a sequence of numbers", epsilon, kind=TypeError)
        return CurvePair(tuple(grid.tolist()), tuple(float(delta(float(e))) for e in grid), symmetric, relation, upper_bound)

    @cached_property
    def _hull(self) -> tuple[Array, Array, tuple[float, float]]:
        """Losses and log Q-masses of the hull through (0, 1) and the table, and log P{q = 0} and log Q{p = 0}.

        Exact in the doubles e^epsilon and delta, so that masses, differences of slopes, keep every digit; a rounded
        gamma moves the curve, and no more than that, along gamma by an ulp. A point (gamma, delta) = (x, y)/w is (x, y, w);
        E_{1/gamma} = 1 - 1/gamma + E_gamma/gamma is then (w, x - w + y, x).
        """
        points: list[Point] = [_point(math.exp(e), d) for e, d in zip(self.epsilon, self.delta, strict=True)]
        if self.symmetric:
            points += [(w, min(x - w + y, x), x) for x, y, w in points]
        points.sort(key=cmp_to_key(_order))
        keep: list[Point] = [(0, 1, 1)]
        least: tuple[int, int] = (1, 1)
        for (x, w), group in itertools.groupby(points, lambda point: _reduced(point[0], point[2])):
            for _, y, own in group:
                above = max(y * w, (w - x) * own, 0), own * w  # not below 1 - gamma
                least = above if above[0] * least[1] < least[0] * above[1] else least
            point = x * least[1], least[0] * w, w * least[1]
            while len(keep) > 1 and _turn(keep[-2], keep[-1], point) <= 0:
                keep.pop()
            keep.append(point)
        slopes = [(b[1] * a[2] - a[1] * b[2], b[0] * a[2] - a[0] * b[2]) for a, b in itertools.pairwise(keep)] + [(0, 1)]
        kinks = [(p, b[0] * a[1] - a[0] * b[1], a[1] * b[1]) for p, (a, b) in zip(keep[1:], itertools.pairwise(slopes), strict=True)]
        kinks = [kink for kink in kinks if kink[1] > 0]
        loss = np.array([_log(p[0], p[2]) for p, _, _ in kinks])
        log_q = np.array([_log(rise, run) for _, rise, run in kinks])
        only_p, only_q = _log(keep[-1][1], keep[-1][2]), _log(slopes[0][0] + slopes[0][1], slopes[0][1])
        return loss, log_q, (only_p, only_q)

    def atoms(self) -> tuple[Array, Array]:
        loss, log_q, _ = self._hull
        return loss, log_q + loss

    @cached_property
    def facts(self) -> Facts:
        loss, _, only = self._hull
        ends = (float(loss.min()), float(loss.max())) if loss.size else (0.0, 0.0)
        return Facts(*only, *ends, lattice=lattice_of(loss), proved=self.proved, upper_bound=self.upper_bound)

    def atom_rounding(self) -> tuple[Array, Array]:
        loss, log_q, _ = self._hull
        return self.loss_error(loss), 1e-15 * (2.0 + np.abs(log_q) + np.abs(loss))

    def loss_error(self, loss: Array) -> Array:
        """e^epsilon rounds, to a relative error of an ulp, and so does its logarithm."""
        return np.asarray(4 * ULP * (1.0 + np.abs(loss)))

    def reversed(self) -> Step:
        return Reversed(self)

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        relation = parse("CurvePair.under", adjacency)
        if self.relation not in (None, relation) and relation is not Adjacency.AS_WRITTEN:
            unsupported("CurvePair", relation, f"its points hold under {self.relation!r} alone, and are wrong for other neighbours.")
        if self.symmetric or relation is Adjacency.AS_WRITTEN:
            return (self,)
        return (self, Reversed(self))


def _listed(values: tuple[float, ...]) -> str:
    """A tuple; of a long one its beginning and its end."""
    if len(values) <= SHOWN:
        return repr(values)
    first = ", ".join(map(repr, values[: SHOWN - 1]))
    return f"({first}, <{len(values) - SHOWN} more>, {values[-1]!r})"


Point = tuple[int, int, int]


def _point(gamma: float, delta: float) -> Point:
    (x, v), (y, w) = gamma.as_integer_ratio(), delta.as_integer_ratio()
    return x * w, y * v, v * w


def _order(a: Point, b: Point) -> int:
    return a[0] * b[2] - b[0] * a[2]


def _reduced(x: int, w: int) -> tuple[int, int]:
    common = math.gcd(x, w)
    return x // common, w // common


def _turn(a: Point, b: Point, c: Point) -> int:
    """Positive where b lies below the chord from a to c."""
    return a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0]) + a[2] * (b[0] * c[1] - b[1] * c[0])


def _log(x: int, w: int) -> float:
    """log(x/w) for w > 0 to an ulp or two of 1 + its size; of itself near 1, through the exact difference."""
    if x <= 0:
        return -math.inf
    if w < 2 * x < 4 * w:
        return math.log1p((x - w) / w)
    shift = x.bit_length() - w.bit_length()
    ratio = x / (w << shift) if shift >= 0 else (x << -shift) / w
    return math.log(ratio) + shift * LOG_2
