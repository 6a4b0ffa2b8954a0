"""A family of distinct steps as one term of an axis.

Two noise multipliers bracket what lies between: q(l; t) >= (ta/t)^{1/2} e^{-(t-ta)/8} q(l; ta) for t >= ta, so a characteristic function
bounded by beta at ta is at most 1 - v (1 - beta) up to tb, v = (ta/tb) e^{-(tb-ta)/4} M(c; ta)/M(c; tb).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP, log1m_exp
from dpaccount.engines.decay import Decay
from dpaccount.engines.many.family import Family
from dpaccount.engines.many.panels import POINTS, RATIOS, Key, Panels, Top, grouped, panels_of
from dpaccount.engines.many.rows import Kind, Rows
from dpaccount.pair import log_error

Array = npt.NDArray[np.float64]
DIRECT = 4000  # noise multipliers that may each have a row of its own
GOOD = 1e-11  # the interpolation error that is aimed at
BIN = 1.2  # of the bins whose decay is bounded by their least t


class Many:
    """A family as one term of an `Axis`: the same questions as of one step, answered for the whole of it."""

    def __init__(self, family: Family, cut: float, low: float, high: float, rate: float) -> None:
        self.family, self.kind = family, Kind(family.probability, family.swapped, cut)
        self._range = low, high, rate
        self._rows: dict[float, list[Rows]] = {}
        self._tops: dict[float, Top] = {}
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
            self._rows[ratio] = [Rows(self.kind, tau, *self._range) for tau in grouped(self.panels(ratio).rows[0])]
        return self._rows[ratio]

    def panels(self, ratio: float) -> Panels:
        return panels_of(Key(self.family), ratio)

    def top(self, c: float) -> Top:
        if c not in self._tops:
            self._tops[c] = Top(self.kind, self.family.tau, c)
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
