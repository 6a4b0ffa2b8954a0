"""Families of sampled Gaussians: many noise multipliers of one sampling probability and one order."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from dpaccount.engines.many.rows import Kind
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair, Reversed, Step, compose
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.sampling.schedule import NoiseSchedule

Array = npt.NDArray[np.float64]
FEW = 12  # fewer steps of one family are taken one by one


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

    def summary(self, bins: int) -> list[tuple[Step, int]]:
        """A few steps, each with the mean t and the number of those near it: a guide."""
        edges = np.linspace(self.tau[0] * (1 - 1e-9), self.tau[-1] * (1 + 1e-9), bins + 1)
        place = np.searchsorted(edges, self.tau) - 1
        times, sums = np.bincount(place, self.counts), np.bincount(place, self.counts * self.tau)
        return [(self.step(float(total / n)), int(n)) for n, total in zip(times, sums, strict=True) if n]

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
