"""Atoms of a composition next to epsilon: taken out of the line, since a kernel blurs the kink that each makes, and added exactly.

P is the sum of the masses at these losses and a remainder, which is no less a positive measure: its curve is convex, and the smoothed
line with its bounds holds for it, without the spikes that no narrow kernel resolves.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from dpaccount._log import ULP
from dpaccount.engines import closed
from dpaccount.pair import DominatingPair

Array = npt.NDArray[np.float64]
MOST = 4000  # combinations that are looked at
TAKEN = 6  # of them
NEAR = 0.05  # of the tilted loss's spread
DEEPEST = -600.0  # of log delta: masses are not kept as logarithms
LIGHT = 21.0  # an atom below e^-LIGHT of the answer does no harm


class Atoms(NamedTuple):
    """Losses, log P-masses, what the losses may be off by absolutely and the masses relatively."""

    loss: Array
    log_p: Array
    off: Array
    part: float

    def value(self, epsilon: float) -> tuple[float, float, float]:
        """sum of p (1 - e^{eps - l})_+, its error, and the sum of p e^{eps - l} over l > eps."""
        p, gap = np.exp(self.log_p), np.maximum(self.loss - epsilon, 0.0)
        each = p * -np.expm1(-gap)
        moved = p * (self.off + ULP * (np.abs(self.loss) + abs(epsilon))) * (self.loss > epsilon - 2.0 * self.off - 1e-12)
        above = float((p * np.exp(-gap))[self.loss > epsilon].sum())
        return float(each.sum()), float(each.sum()) * (self.part + 8 * ULP) + 2.0 * float(moved.sum()), above

    def waves(self, s: Array, moved: float, tilt: float, log_mgf: float) -> tuple[npt.NDArray[np.complex128], float, float, float]:
        """sum of p e^{cl - K(c)} e^{is (l - moved)}; its error, and what that grows by a unit of s; the sum of the weights."""
        gap = self.loss - moved
        weight = np.exp(self.log_p + tilt * self.loss - log_mgf)
        wave = np.exp(1j * np.multiply.outer(s, gap)) @ weight
        size = self.off + 2 * ULP * (np.abs(self.loss) + abs(moved))
        fixed = float(weight @ (self.part + tilt * size + 8 * ULP * (4.0 + np.abs(self.log_p) + abs(log_mgf))))
        return wave, fixed, float(weight @ size), float(weight.sum())


def beside(pair: DominatingPair, epsilon: float, spread: float, rough: float) -> Atoms | None:
    """The nearest of the composition's atoms within a part of `spread` of epsilon that weigh something beside e^rough."""
    every = _every(pair) if rough > DEEPEST else None
    if every is None:
        return None
    away = np.abs(every.loss - epsilon)
    taken = np.flatnonzero((away < NEAR * spread) & (every.log_p > rough - LIGHT))
    if not taken.size:
        return None
    taken = taken[np.argsort(away[taken])[:TAKEN]]
    return Atoms(every.loss[taken], every.log_p[taken], every.off[taken], every.part)


@lru_cache(maxsize=16)
def _every(pair: DominatingPair) -> Atoms | None:
    """All sums of atoms, one of each step; None if there are none, or too many."""
    sizes = [(step.atoms()[0].size, count) for step, count in pair.terms[:5]]
    if len(pair.terms) > 4 or any(not size for size, _ in sizes) or any(step.log_left_out > -np.inf for step, _ in pair.terms):
        return None
    if math.prod(math.comb(count + size - 1, count) if min(count, size - 1) < 30 else MOST + 1 for size, count in sizes) > MOST:
        return None
    loss, log_p, off = closed.combinations(pair)
    weights = sum(float(gammaln(count + 1)) for _, count in pair.terms)
    steps = sum(count for _, count in pair.terms)
    part = 8 * ULP * (steps + weights + 60.0) + sum(count * step.mass_error for step, count in pair.terms)
    return Atoms(loss, log_p, off, part)
