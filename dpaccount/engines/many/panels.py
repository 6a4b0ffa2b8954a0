"""Interpolation in the noise: K of a whole family from a few dozen noise multipliers, with a bound on the difference.

For fixed z the steps' K(z; t) is analytic in t = 1/s^2, so its values at the m Chebyshev points of a panel give
sum_i n_i K(z; t_i) = sum_j w_j K(z; t_j) with real w_j (T13, Theorem 8.2: off by at most 4 B rho^{1-m}/(rho - 1) a step, B the
maximum on the ellipse of Bernstein's parameter rho). B is bounded as follows. On an ellipse with vertices 0 < r0 < r1 on the real
axis, Re(1/t) >= 1/r1, |t| >= r0 and Re t >= r0, so the weight of `rows` obeys |q(l; t)| <= k q(l; r1) with
k = (r1/r0)^{1/2} e^{(r1-r0)/8}. As q and q A have mass 1, with w the power of A (z + 1, or -z for the swapped order) and a = Re w,

    |M(z; t) - 1| = |int q (A^w - 1 - w (A - 1))| <= k |z (z+1)|/(c (c+1)) int q(l; r1) (A^a - 1 - a (A - 1)),

since |A^w - 1 - w (A - 1)| <= |w (w-1)| int_0^1 (1-u) (1 + u (A-1))^{a-2} du (A-1)^2, which is what stands there for real powers.
With a cut the outcomes beyond it add k ((1 + |w|) Q + |w| P). Where the right side is b < 1, |log M| <= -log(1 - b).
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP
from dpaccount._quadrature import TooManyNodes
from dpaccount.engines.many.family import Family
from dpaccount.engines.many.rows import Kind, Rows

Array = npt.NDArray[np.float64]
POINTS = 20  # Chebyshev points a panel
RATIOS = (1.6, 1.25, 1.12, 1.06, 1.03, 1.015)  # of the ends of a panel
GROUP = 3.0  # of the t that share their nodes


class Panels:
    """A family cut up into panels of one ratio: rows for the Chebyshev points of each, or for every t of those with few."""

    def __init__(self, family: Family, ratio: float) -> None:
        self._parts: list[tuple[Array, Array]] = []
        start, tau = 0, family.tau
        while start < tau.size:
            end = int(np.searchsorted(tau, tau[start] * ratio, side="right"))
            self._parts.append((tau[start:end], family.counts[start:end]))
            start = end
        wide = [(own, count) for own, count in self._parts if own.size > POINTS]
        ends = np.array([(own[0] * (1 - 1e-12), own[-1] * (1 + 1e-12)) for own, _ in wide]).reshape(-1, 2)
        self.steps = np.array([float(count.sum()) for _, count in wide])
        self.middle, self.half = (ends[:, 0] + ends[:, 1]) / 2, (ends[:, 1] - ends[:, 0]) / 2
        self.size = sum(min(own.size, POINTS) for own, _ in self._parts)

    @cached_property
    def rows(self) -> tuple[Array, Array, Array]:
        """t, weight, and the size of what the weight is a sum of, for every row."""
        found, ends = [], iter(zip(self.middle.tolist(), self.half.tolist(), strict=True))
        for tau, count in self._parts:
            if tau.size <= POINTS:
                found.append((tau, count, np.zeros(tau.size)))
                continue
            middle, half = next(ends)
            x = np.clip((tau - middle) / half, -1.0, 1.0)
            sums, before, here = np.empty(POINTS), count, count * x
            for k in range(POINTS):  # of n_i T_k(x_i)
                sums[k] = before.sum()
                before, here = here, 2 * x * here - before
            weight = 2 / (POINTS - 1) * _SHARE * ((_SHARE * sums) @ _TABLE)
            gross = 2 / (POINTS - 1) * _SHARE * float((_SHARE * np.abs(sums)).sum())
            found.append(((middle + half * _TABLE[1])[::-1], weight[::-1], gross[::-1]))
        tau, weight, gross = (np.concatenate(part) for part in zip(*found, strict=True))
        return tau, weight, gross

    def error(self, top: Top, s: Array) -> Array:
        """A bound on what interpolation, and rounding in it, do to the sum of K(c + is) - K(c), and of K(c) - K(0) at s = 0.

        The ellipses are those best at the last s.
        """
        if not self.steps.size:
            return np.zeros(s.shape)
        reach = np.multiply.outer(self.half, (_ELLIPSES + 1 / _ELLIPSES) / 2)
        low, high = self.middle[:, None] - reach, self.middle[:, None] + reach
        with np.errstate(divide="ignore", invalid="ignore"):
            main, rest = top.at(np.where(low > 0.02 * self.middle[:, None], low, np.nan), high)
            # t and its place in the panel are rounded by some ulps, and |dK/dx| <= B/(distance to the ellipse)
            moved = 12 * ULP * (self.middle / self.half + 1.0)[:, None] / ((_ELLIPSES + 1 / _ELLIPSES) / 2 - 1.0)
            share = self.steps[:, None] * (4.0 * _ELLIPSES ** (1 - POINTS) / (_ELLIPSES - 1.0) + moved + _MOMENTS)
            best = np.nanargmin(_size(main, rest, top, s[-1:])[..., 0] * share, axis=1)
            place = np.arange(best.size), best
            return np.asarray((_size(main[place], rest[place], top, s) * share[place][:, None]).sum(axis=0))


def _size(main: Array, rest: Array, top: Top, s: Array) -> Array:
    """A bound on |K(c + is)| + |K(c)| on the ellipses, infinite where |M - 1| is not seen to be below 1."""
    c = top.tilt
    z2, w = np.hypot(c, s) * np.hypot(c + 1.0, s), np.hypot(top.power, s)
    b = main[..., None] * z2 + rest[..., None] * (2.0 + w)
    return np.where(b < 0.95, -2 * np.log1p(-np.where(b < 0.95, b, 0.0)), np.inf)


_K = np.arange(POINTS)


_TABLE = np.cos(np.pi / (POINTS - 1) * (np.outer(_K, _K) % (2 * POINTS - 2)))  # T_k at the points


_SHARE = np.where((_K == 0) | (_K == POINTS - 1), 0.5, 1.0)


_ELLIPSES = np.array([1.7, 2.1, 2.6, 3.3, 4.2, 5.4, 7.0, 9.0])


# rounding of sum_i n_i T_k(x_i), at most 2 k^2 + 60 ulps a step, against coefficients of at most 2 B rho^-k
_MOMENTS = np.array([float((2 * ULP * (2.0 * _K * _K + 60.0) * rho ** (-1.0 * _K)).sum()) for rho in _ELLIPSES])


class Top:
    """For one tilt, what stands at the right vertex r1 of an ellipse, for a grid of r1."""

    def __init__(self, kind: Kind, tau: Array, c: float) -> None:
        self.tilt, self.power = c, kind.power(c)
        grid = np.geomspace(tau[0], 2.0 * tau[-1], 2 + int(math.log(2.0 * tau[-1] / tau[0]) / 0.04))
        ends = min(self.power - 2.0, 0.0), max(self.power, 2.0)
        tilts = (-ends[1], -ends[0]) if kind.swapped else (ends[0] - 1.0, ends[1] - 1.0)
        main = []
        for part in grouped(grid):
            try:
                rows = Rows(kind, part, *tilts, 0.0)
            except TooManyNodes:
                break
            if not float((np.array(ends)[:, None] * rows.log_a).max()) < 600.0:
                break
            main.append(self._integrals(kind, rows))
        self.main = np.concatenate(main) if main else np.empty(0)
        self.grid, self.rest = grid[: self.main.size], np.zeros(self.main.size)
        if kind.base_cut < np.inf and self.main.size:
            above, _, q_above, error = Family(kind.probability, kind.swapped, self.grid, self.rest).log_tails(kind.cut)
            self.rest = (1.0 + error) * (np.exp(above) + np.exp(q_above))

    def _integrals(self, kind: Kind, rows: Rows) -> Array:
        """int q (A^a - 1 - a (A - 1))/(a (a - 1)) from above, by itself and by Taylor's bound; both integrands are analytic."""
        power, moved, log_a = self.power, np.expm1(rows.log_a), rows.log_a
        mass = rows.weight * np.exp(rows.log_total)[:, None]
        if not kind.swapped:
            mass = mass * np.exp(-log_a)
        curve, slack = power * (power - 1.0), 1e-14 * (1.0 + abs(power) * np.abs(moved) + np.exp(power * log_a))
        exact = (np.expm1(power * log_a) - power * moved) / curve + slack / abs(curve)
        taylor = 0.5 * moved**2 * (1.0 + np.exp((power - 2.0) * log_a))
        return np.asarray(np.minimum(mass @ exact, mass @ taylor) * (1.0 + 1e-9) + 1e-18)

    def at(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Factors of |z (z+1)| and of 2 + |w|, for ellipses with these vertices; NaN where there are none."""
        if not self.grid.size:
            return np.full(low.shape, np.inf), np.zeros(low.shape)
        place = np.searchsorted(self.grid, high * (1 + 1e-9))
        known = (place < self.grid.size) & (low > 0.0)
        place = np.minimum(place, self.grid.size - 1)
        factor = np.sqrt(self.grid[place] / low) * np.exp((self.grid[place] - low) / 8) * (1.0 + 1e-9)
        return np.where(known, factor * self.main[place], np.inf), np.where(known, factor * self.rest[place], 0.0)


def grouped(tau: Array) -> list[Array]:
    """Ascending t in groups of a small ratio, which share their nodes."""
    found, start = [], 0
    while start < tau.size:
        end = int(np.searchsorted(tau, tau[start] * GROUP, side="right"))
        found.append(tau[start:end])
        start = end
    return found


class Key:
    """A family as a key, by the identity of its arrays."""

    def __init__(self, of: Family) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and other.of.tau is self.of.tau and other.of.counts is self.of.counts

    def __hash__(self) -> int:
        return id(self.of.tau)


@lru_cache(maxsize=64)
def panels_of(family: Key, ratio: float) -> Panels:
    return Panels(family.of, ratio)
