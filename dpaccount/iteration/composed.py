"""Curves composed on one loss lattice by a single transform: an upper bound at every epsilon, down to 1e-13."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount.engines.lattice.tilted import power_on_circle
from dpaccount.mechanisms.curve import CurvePair

Array = npt.NDArray[np.float64]
FLOOR = 1e-13  # added to delta: what the rounding of the masses may do, many times over


class ComposedCurve(NamedTuple):
    """delta of composed pairs from above: `above` is P[L >= loss] at the lattice's losses >= 0, `other` the same under Q."""

    step: float
    above: Array
    other: Array
    beyond: float  # the probability of an infinite loss
    slack: float  # absolute

    def __call__(self, epsilon: Array) -> Array:
        """delta at epsilon >= 0."""
        first = np.minimum(np.floor(epsilon / self.step).astype(int) + 1, self.above.size - 1)
        with np.errstate(over="ignore"):
            part = self.above[first] - np.exp(np.minimum(epsilon, 700.0)) * self.other[first]
        over = epsilon >= self.step * (self.above.size - 1)  # above every finite loss
        return np.asarray(np.where(over, self.beyond, np.minimum(np.maximum(part, 0.0) + self.beyond + self.slack, 1.0)))


def composed_curve(parts: list[tuple[CurvePair, int]], step: float) -> ComposedCurve:
    """The composition of pairs whose losses are multiples of `step`.

    All losses fit on the circle, so nothing wraps; `power_on_circle` bounds what rounding does to each mass.
    """
    laws, infinite, low, high = [], 0.0, 0, 0
    for pair, count in parts:
        loss, log_p = pair.atoms()
        place = np.rint(loss / step).astype(int)
        mass = np.zeros(int(place.max() - place.min()) + 1)
        np.add.at(mass, place - place.min(), np.exp(log_p))
        laws.append((mass, count))
        infinite += count * math.log1p(-math.exp(pair.facts.log_p_only)) if pair.facts.log_p_only < 0.0 else -math.inf
        low, high = low + count * int(place.min()), high + count * int(place.max())
    length = 2 ** max(math.ceil(math.log2(high - low + 1)), 1)
    log_f, gross, factors = np.zeros(length // 2 + 1, dtype=complex), np.zeros(length // 2 + 1), []
    for mass, count in laws:
        f = np.fft.rfft(mass, length)
        size = np.abs(f)
        log_one = count * (np.log(np.maximum(size, 1e-300)) + 1j * np.angle(f))
        log_f, gross = log_f + log_one, gross + np.abs(log_one)
        factors.append((size, float(np.sqrt(mass @ mass)), count))
    y, entry = power_on_circle(log_f, factors, length, gross)
    upward = np.maximum(y[max(-low, 0) : high - low + 1], 0.0)  # from the loss 0 on
    under_q = upward * np.exp(-step * np.arange(upward.size))
    above, other = (np.append(np.cumsum(v[::-1])[::-1], 0.0) for v in (upward, under_q))
    return ComposedCurve(step, above, other, -math.expm1(infinite), FLOOR + entry * length)
