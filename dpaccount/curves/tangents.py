"""The trade-off function at many points: every tangent point from one table of the profile, on shared contours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from dpaccount.curves.dual import LOWEST, ULP, Dual, Tangent, Value
from dpaccount.curves.options import PairOption
from dpaccount.engines import auto
from dpaccount.results import LogDelta

Array = npt.NDArray[np.float64]
TABLE = 40  # epsilons of the first table
ROUNDS = 2  # of interpolation in it


def shared_values(option: PairOption, alphas: Array) -> list[Value | None]:
    """f at many alphas; None where three points do not pin it down as well as the engine knows delta."""
    values: list[Value | None] = [None] * alphas.size
    inner = np.flatnonzero((alphas > 1e-200) & (alphas < 1.0 - 1e-12))
    engines = {auto.select(side).engine for side in option.sides} if option.method == "auto" else {option.method}
    if inner.size < 2 or option.one_sided or not engines <= {"line", "closed"}:
        return values
    distinct, place = np.unique(alphas[inner], return_inverse=True)
    with np.errstate(all="ignore"):
        found = _Profile(option).values(distinct)
    for i, k in zip(inner, place, strict=True):
        values[i] = found[k]
    return values


class _Profile:
    """delta at many epsilons of both signs, kept in a `Dual`."""

    def __init__(self, option: PairOption) -> None:
        self.option, self.other = option, option.mirrored
        self.dual = Dual(self.other.log_delta, option.log_delta)
        self.shelves = option.shelves(), self.other.shelves()

    def load(self, epsilon: Array) -> None:
        """delta at these epsilons; below 0 of the swapped pair."""
        new = np.array([e for e in np.unique(epsilon) if e not in self.dual.known])
        for one, shelves, here in (
            (self.other, self.shelves[1], new[new >= 0.0]), (self.option, self.shelves[0], new[new < 0.0]),
        ):
            if here.size:
                for e, answer in zip(here.tolist(), one.fresh_many(np.abs(here), shelves), strict=True):
                    self.dual.keep(e, answer)

    def values(self, alphas: Array) -> list[Value | None]:
        first, last = (Tangent(self.dual, float(a)) for a in (alphas[-1], alphas[0]))
        for tangent in (first, last):
            tangent.solve()
        known = [e for e in self.dual.known if np.isfinite(e)]
        low, high = max(min(known), LOWEST), max(known)
        self.load(np.linspace(low, high, TABLE))
        target = np.where(alphas < 0.5, ndtri(alphas), -ndtri(1.0 - alphas))
        for _ in range(ROUNDS):
            here = self._crossings(target)
            self.load(here)
        here = self._crossings(target, nearest=True)
        rate = self._rates(here)
        with np.errstate(all="ignore"):
            tangents = [Tangent(self.dual, float(a)) for a in alphas]
            width = np.array([t.width(float(e)) for t, e in zip(tangents, here, strict=True)])
            curvature = np.exp(np.minimum(here - 0.5 * target**2, 700.0)) / 2.5 * rate
            move = np.minimum(np.sqrt(4.0 * width / np.maximum(curvature, 1e-300)), 0.5 / rate)
            move = np.where(np.isfinite(move) & (move > 0.0), move, 1e-3) + 8 * ULP * np.abs(here)
            left, right = here - move, here + move
            self.load(np.concatenate([left, right]))
            return [self._value(*row) for row in zip(tangents, left.tolist(), here.tolist(), right.tolist(), width.tolist(), strict=True)]

    def _sorted(self) -> tuple[Array, Array]:
        """Epsilons and the quantiles of Q[L > eps], which fall."""
        points = np.array(sorted((e, t) for e, t in self.dual.bends.items() if np.isfinite(e) and np.isfinite(t)))
        return points[:, 0], np.minimum.accumulate(points[:, 1])

    def _crossings(self, target: Array, nearest: bool = False) -> Array:
        """Where the quantile passes each target, or the known point nearest to that."""
        epsilon, bend = self._sorted()
        guess = np.interp(-target, -bend, epsilon)
        if not nearest:
            return guess
        k = np.clip(np.searchsorted(epsilon, guess), 1, epsilon.size - 1)
        return np.where(guess - epsilon[k - 1] < epsilon[k] - guess, epsilon[k - 1], epsilon[k])

    def _rates(self, here: Array) -> Array:
        """-d quantile/d eps, over a span in which rounding does not show."""
        epsilon, bend = self._sorted()
        span = 0.02 * (epsilon[-1] - epsilon[0]) + 1e-300
        fall = np.interp(here - span, epsilon, bend) - np.interp(here + span, epsilon, bend)
        return np.asarray(np.maximum(fall / (2.0 * span), 1e-300))

    def _value(self, tangent: Tangent, left: float, here: float, right: float, width: float) -> Value | None:
        points = [e for e in (left, here, right) if LOWEST < e < tangent.top and e in self.dual.known]
        if len(points) < 3:
            return None
        lower = max(0.0, *(tangent.ends(e)[0] for e in points))
        upper = max(tangent.ceiling(points), lower)
        if not upper - lower <= 12 * width + 4 * ULP * upper:
            return None
        middle = min(max(tangent.gain(here, self.dual.known[here].estimate), lower), upper)
        answers: list[LogDelta] = [self.dual.known[e] for e in points]
        return Value(lower + 0.0, middle + 0.0, upper + 0.0, all(a.certified for a in answers), self.dual.known[here].method)
