"""Many distinct sampled Gaussians: K of the whole schedule from a few dozen noise multipliers, with a bound on the difference.

For fixed z the steps' K(z; t) is analytic in t = 1/s^2, so its values at the m Chebyshev points of a panel give
sum_i n_i K(z; t_i) = sum_j w_j K(z; t_j) with real w_j (T13, Theorem 8.2: off by at most 4 B rho^{1-m}/(rho - 1) a step, B the
maximum on the ellipse of Bernstein's parameter rho). B is bounded as follows. On an ellipse with vertices 0 < r0 < r1 on the real
axis, Re(1/t) >= 1/r1, |t| >= r0 and Re t >= r0, so the weight of `rows` obeys |q(l; t)| <= k q(l; r1) with
k = (r1/r0)^{1/2} e^{(r1-r0)/8}. As q and q A have mass 1, with w the power of A (z + 1, or -z for the swapped order) and a = Re w,

    |M(z; t) - 1| = |int q (A^w - 1 - w (A - 1))| <= k |z (z+1)|/(c (c+1)) int q(l; r1) (A^a - 1 - a (A - 1)),

since |A^w - 1 - w (A - 1)| <= |w (w-1)| int_0^1 (1-u) (1 + u (A-1))^{a-2} du (A-1)^2, which is what stands there for real powers.
With a cut the outcomes beyond it add k ((1 + |w|) Q + |w| P). Where the right side is b < 1, |log M| <= -log(1 - b).

Two noise multipliers bracket what lies between: q(l; t) >= (ta/t)^{1/2} e^{-(t-ta)/8} q(l; ta) for t >= ta, so a characteristic function
bounded by beta at ta is at most 1 - v (1 - beta) up to tb, v = (ta/tb) e^{-(tb-ta)/4} M(c; ta)/M(c; tb).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from dpaccount._log import ULP, log1m_exp
from dpaccount._quadrature import TooManyNodes
from dpaccount.engines.decay import Decay
from dpaccount.engines.rows import Kind, Rows
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair, Reversed, Step, compose, log_error
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.sampling.schedule import NoiseSchedule

Array = npt.NDArray[np.float64]
FEW = 12  # fewer steps of one family are taken one by one
POINTS = 20  # Chebyshev points a panel
RATIOS = (1.6, 1.25, 1.12, 1.06, 1.03, 1.015)  # of the ends of a panel
DIRECT = 4000  # noise multipliers that may each have a row of its own
GOOD = 1e-11  # the interpolation error that is aimed at
GROUP = 3.0  # of the t that share their nodes
BIN = 1.2  # of the bins whose decay is bounded by their least t


class Family(NamedTuple):
    """Sampled Gaussians of one q and one order: t = 1/s^2 ascending, and counts."""

    probability: float
    swapped: bool
    tau: Array
    counts: Array

    def step(self, tau: float) -> Step:
        """One of them."""
        step: Step = PoissonSampled(Gaussian(1.0 / math.sqrt(tau)), self.probability)
        return Reversed(step) if self.swapped else step

    def log_tails(self, cut: float) -> tuple[Array, Array, Array, float]:
        """log P[L > cut], log P[L <= cut], log Q[L > cut] of every step, and their relative error."""
        q, level = self.probability, -cut if self.swapped else cut
        if not level > math.log1p(-q):
            none, all_ = np.full(self.tau.shape, -np.inf), np.zeros(self.tau.shape)
            return (none, all_, none, 0.0) if self.swapped else (all_, none, all_, 0.0)
        if not math.isfinite(level):
            return np.full(self.tau.shape, -np.inf), np.zeros(self.tau.shape), np.full(self.tau.shape, -np.inf), 0.0
        edge, mu = Kind(q, False, level).base_cut, np.sqrt(self.tau)
        a, b = edge / mu - mu / 2, edge / mu + mu / 2
        mix, keep = math.log(q), math.log1p(-q)
        error = 1e-14 + 1e-15 * (2.0 + float(mu.max())) * (1.0 + float(np.abs(a).max()))
        base_above, base_below = log_ndtr(-b), log_ndtr(b)
        if self.swapped:
            return base_below, base_above, np.logaddexp(keep + base_below, mix + log_ndtr(a)), error
        above, below = np.logaddexp(keep + base_above, mix + log_ndtr(-a)), np.logaddexp(keep + base_below, mix + log_ndtr(a))
        return above, below, base_above, error


@lru_cache(maxsize=64)
def families(pair: DominatingPair) -> tuple[tuple[tuple[Step, int], ...], tuple[Family, ...]]:
    """The steps of a pair that are taken one by one, and the families of the others."""
    if isinstance(pair, NoiseSchedule) and len(pair.counts) >= FEW:
        return (), (Family(pair.sampling_probability, pair.swapped, *_arrays(pair.noise_multipliers, pair.counts)),)
    if len(pair.terms) < FEW:
        return tuple(pair.terms), ()
    groups: dict[tuple[float, bool], list[tuple[Step, int]]] = {}
    single: list[tuple[Step, int]] = []
    for step, count in pair.terms:
        inner = step.step if isinstance(step, Reversed) else step
        if isinstance(inner, PoissonSampled) and 0.0 < inner.sampling_probability < 1.0 and isinstance(inner.step, Gaussian):
            if inner.step.noise_multiplier:
                groups.setdefault((inner.sampling_probability, inner is not step), []).append((step, count))
                continue
        single.append((step, count))
    found = []
    for (q, swapped), members in groups.items():
        if len(members) < FEW:
            single += members
        else:
            found.append(Family(q, swapped, *_arrays(tuple(_noise(step) for step, _ in members), tuple(count for _, count in members))))
    return tuple(single), tuple(found)


def _noise(step: Step) -> float:
    inner = step.step if isinstance(step, Reversed) else step
    assert isinstance(inner, PoissonSampled)
    assert isinstance(inner.step, Gaussian)
    return inner.step.noise_multiplier


@lru_cache(maxsize=16)
def _arrays(noise: tuple[float, ...], counts: tuple[int, ...]) -> tuple[Array, Array]:
    """t ascending, and counts: the same arrays for both orders of a pair, so that they share their panels."""
    tau, count = np.array(noise) ** -2.0, np.array(counts, dtype=float)
    order = np.argsort(tau)
    return tau[order], count[order]


def rounded(pair: DominatingPair, bins: int) -> tuple[DominatingPair, DominatingPair]:
    """Two pairs with at most `bins` noise multipliers a family: one is dominated by this pair, the other dominates it.

    More noise is post-processing, sampled or not, of both orders, so every noise multiplier may be rounded up, or down.
    """
    single, several = families(pair)
    weaker, stronger = list(single), list(single)
    for family in several:
        edges = np.geomspace(family.tau[0] * (1 - 1e-9), family.tau[-1] * (1 + 1e-9), bins + 1)
        place = np.searchsorted(edges, family.tau) - 1
        for k in np.unique(place):
            inside = place == k
            count, tau = int(family.counts[inside].sum()), family.tau[inside]
            weaker.append((family.step(float(tau[0]) * (1 - 1e-15)), count))
            stronger.append((family.step(float(tau[-1]) * (1 + 1e-15)), count))
    return compose(weaker), compose(stronger)


class _Panels:
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

    def error(self, top: _Top, s: Array) -> Array:
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


def _size(main: Array, rest: Array, top: _Top, s: Array) -> Array:
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


class _Top:
    """For one tilt, what stands at the right vertex r1 of an ellipse, for a grid of r1."""

    def __init__(self, kind: Kind, tau: Array, c: float) -> None:
        self.tilt, self.power = c, kind.power(c)
        grid = np.geomspace(tau[0], 2.0 * tau[-1], 2 + int(math.log(2.0 * tau[-1] / tau[0]) / 0.04))
        ends = min(self.power - 2.0, 0.0), max(self.power, 2.0)
        tilts = (-ends[1], -ends[0]) if kind.swapped else (ends[0] - 1.0, ends[1] - 1.0)
        main = []
        for part in _grouped(grid):
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


def _grouped(tau: Array) -> list[Array]:
    """Ascending t in groups of a small ratio, which share their nodes."""
    found, start = [], 0
    while start < tau.size:
        end = int(np.searchsorted(tau, tau[start] * GROUP, side="right"))
        found.append(tau[start:end])
        start = end
    return found


class Many:
    """A family as one term of an `Axis`: the same questions as of one step, answered for the whole of it."""

    def __init__(self, family: Family, cut: float, low: float, high: float, rate: float) -> None:
        self.family, self.kind = family, Kind(family.probability, family.swapped, cut)
        self._range = low, high, rate
        self._rows: dict[float, list[Rows]] = {}
        self._tops: dict[float, _Top] = {}
        self._found: dict[tuple[float, float], float] = {}
        self.ends_only = any(rows.ends_only for rows in self.rows(RATIOS[0]))
        self.log_mass = self.mass_error = 0.0
        if cut == np.inf:
            return
        above, below, _, error = family.log_tails(cut)
        thin = np.where(above > -0.7, below, log1m_exp(np.minimum(above, -1e-300)))
        part = np.where(above > -0.7, log_error(below, error), log_error(above, error) * np.exp(np.minimum(above - thin, 700.0)))
        free = above == -np.inf
        self.log_mass = float((family.counts * np.where(free, 0.0, thin)).sum())
        self.mass_error = float((family.counts * np.where(free, 0.0, part + ULP * np.abs(thin))).sum())

    def rows(self, ratio: float) -> list[Rows]:
        """The rows of the panels of a ratio (1: every t has its own)."""
        if ratio not in self._rows:
            self._rows[ratio] = [Rows(self.kind, tau, *self._range) for tau in _grouped(self.panels(ratio).rows[0])]
        return self._rows[ratio]

    def panels(self, ratio: float) -> _Panels:
        return _panels_of(_Key(self.family), ratio)

    def top(self, c: float) -> _Top:
        if c not in self._tops:
            self._tops[c] = _Top(self.kind, self.family.tau, c)
        return self._tops[c]

    def serving(self, c: float, far: float) -> float:
        """The ratio of panels narrow enough for tilt c and |Im z| up to far; 1 if none are, and there are few enough t."""
        if (c, far) not in self._found:
            best, least, few = RATIOS[0], math.inf, self.family.tau.size <= DIRECT
            for ratio in RATIOS:
                panels = self.panels(ratio)
                if few and panels.size > 0.7 * self.family.tau.size:
                    break
                error = float(panels.error(self.top(c), np.array([far]))[0])
                if error < least:
                    best, least = ratio, error
                if error <= (100.0 if far else 1.0) * GOOD:
                    break
            self._found[c, far] = best if not few or least <= (100.0 if far else 1.0) * GOOD else 1.0
        return self._found[c, far]

    def _each(self, ratio: float) -> Iterator[tuple[Rows, Array, Array]]:
        """Rows with their weights, and the size of what the weights are sums of."""
        (_, weight, gross), start = self.panels(ratio).rows, 0
        for rows in self.rows(ratio):
            end = start + rows.tau.size
            yield rows, weight[start:end], gross[start:end]
            start = end

    # what an axis asks

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """K(c) - K(0), K'(c), K''(c), by wide panels: a guide."""
        total = np.zeros(3)
        for rows, weight, _ in self._each(RATIOS[0]):
            total += [float(weight @ v) for v in rows.cumulants(c)]
        return float(total[0]), float(total[1]), max(float(total[2]), 0.0)

    def log_mgf(self, c: float) -> float:
        """K(c) - K(0)."""
        return sum(float((weight * rows.log_mgf(c)).sum()) for rows, weight, _ in self._each(self.serving(c, 0.0)))

    def rounding(self, c: float) -> float:
        """A bound on the error of `log_mgf`."""
        ratio = self.serving(c, 0.0)
        total = float(self.panels(ratio).error(self.top(c), np.zeros(1))[0]) if ratio > 1.0 else 0.0
        for rows, weight, gross in self._each(ratio):
            own = rows.log_mgf_error(c) * np.abs(weight) + 3 * POINTS * ULP * gross * np.abs(rows.log_mgf(c))
            total += float(own.sum()) + ULP * weight.size * float(np.abs(weight) @ np.abs(rows.log_mgf(c)))
        return total

    def log_phi(self, c: float, s: Array) -> tuple[npt.NDArray[np.complex128], Array]:
        """log phi of the family at every s, and a bound on its error."""
        ratio = self.serving(c, float(s[-1]))
        value, slip = np.zeros(s.shape, dtype=complex), np.zeros(s.shape)
        if ratio > 1.0:
            slip += self.panels(ratio).error(self.top(c), s)
        for rows, weight, gross in self._each(ratio):
            size, angle, error = rows.log_phi(c, s)
            value += size @ weight + 1j * (angle @ weight)
            slip += error @ np.abs(weight) + np.hypot(size, angle) @ (3 * POINTS * ULP * gross + ULP * weight.size * np.abs(weight))
        return value, slip

    def log_modulus(self, c: float, s: Array) -> Array:
        """log |phi|."""
        return np.real(self.log_phi(c, s)[0])

    def log_decay(self, c: float, s: Array) -> Array:
        """log of a bound on |phi(u)| for all u >= s."""
        total = np.zeros(s.shape)
        family = self.family
        place = np.floor(np.log(family.tau / family.tau[0]) / math.log(BIN))
        for k in np.unique(place):
            inside = np.flatnonzero(place == k)
            ends = family.tau[[inside[0], inside[-1]]]
            rows = Rows(self.kind, ends, min(c, 0.0), max(c, 0.0), 0.0)
            log_m = rows.log_mgf(c) + self._log_mass(ends)
            # without a cut M itself is monotone in t, by post-processing
            share = 0.5 * math.log(ends[0] / ends[1]) - (ends[1] - ends[0]) / 8
            share = share + min(log_m[0] - log_m[1], 0.0) if rows.whole else 2 * share + log_m[0] - log_m[1]
            density = family.step(float(ends[0])).density()
            assert density is not None
            assert density.strip is not None
            log_beta = Decay(density, c, float(log_m[0]), self.kind.cut).log_bound(s)
            total += float(family.counts[inside].sum()) * np.log1p(math.exp(min(float(share), 0.0)) * (1 - 1e-6) * np.expm1(log_beta))
        return total

    def _log_mass(self, tau: Array) -> Array:
        return self.family._replace(tau=tau, counts=np.ones(tau.size)).log_tails(self.kind.cut)[1]


class _Key:
    """A family as a key, by the identity of its arrays."""

    def __init__(self, of: Family) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.of.tau is self.of.tau and other.of.counts is self.of.counts

    def __hash__(self) -> int:
        return id(self.of.tau)


@lru_cache(maxsize=64)
def _panels_of(family: _Key, ratio: float) -> _Panels:
    return _Panels(family.of, ratio)
