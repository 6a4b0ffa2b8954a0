"""A level at which exact binomial limits hold at all thresholds at once: one-sided bands for a distribution (Berk, Jones 1979).

With U_(1) < ... < U_(n) the order statistics of n uniform numbers, the limits ``U_(k) <= b_k`` with ``b_k = B(1 - g; k, n - k + 1)``
are Clopper-Pearson limits at level g. The false-positive rate of the k-th largest score without the record is distributed as U_(k)
or below; the false-negative rate of the k-th smallest score with it likewise. So limits at level g hold at every threshold except
with the probability that some U_(k) exceeds its b_k. That probability is a sum of positive terms: the first k at which it happens,
from the number of points below each b_k, which is a Poisson process given its total (Khmaladze, Shinjikashvili 2001).

Of many scores only the ranks up to `ENDS` from either end are taken, and powers of two between them; these by the union bound.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import betainccinv, betaincinv, gammaln

ALL, ENDS = 1000, 500
MOST = 10**6  # scores beyond which the union bound over the ranks is taken: rounding would spoil the sums
SLACK = 3e-6  # relative, of the level: more than the root's error, the rounding of positive sums, and what is left out
NOTHING = 1e-30  # masses that are left out
Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


@lru_cache(maxsize=4096)
def level_of(size: int, alpha: float) -> float:
    """The largest level at which the limits at all ranks hold together, except with probability alpha; rounded down.

    Examples
    --------
    >>> from dpaccount.auditing.band import level_of
    >>> round(level_of(1, 0.025), 6), round(level_of(1000, 0.025), 6)
    (0.025, 0.000533)
    """
    least = alpha / (ranks(size).size + 1.0)  # the union bound
    if size > MOST:
        return least

    def excess(log_level: float) -> float:
        return math.log(crossing(size, math.exp(log_level))) - math.log(alpha)

    low, high = math.log(least), math.log(alpha)
    if excess(high) <= 0.0:
        return alpha * (1.0 - SLACK)
    return math.exp(float(brentq(excess, low, high, xtol=1e-6))) * (1.0 - SLACK)


def crossing(size: int, level: float) -> float:
    """The probability that some rank's limit fails, or a bound above it where ranks are left out."""
    if size <= ALL:
        return _above(size, size, level)
    return _above(size, ENDS, level) + _below(size, ENDS, level) + level * (ranks(size).size - 2 * ENDS)


@lru_cache(maxsize=256)
def ranks(size: int) -> Whole:
    """The ranks that are looked at, the same from either end."""
    if size <= ALL:
        return np.arange(1, size + 1)
    far = ENDS * 2 ** np.arange(1, 40)
    far = far[far <= (size + 1) // 2]
    return np.unique(np.concatenate([np.arange(1, ENDS + 1), far, size + 1 - far, np.arange(size - ENDS + 1, size + 1)]))


def rounded(tp: Whole, p: int, fp: Whole, n: int) -> tuple[Whole, Whole]:
    """Counts moved to ranks that are looked at: TP down, FP up."""
    inside, outside = ranks(p), ranks(n)
    at = np.searchsorted(inside, tp, side="right")
    hits = np.where(at > 0, inside[np.maximum(at - 1, 0)], 0)
    at = np.searchsorted(outside, fp + 1, side="left")
    alarms = np.where(at < outside.size, outside[np.minimum(at, outside.size - 1)] - 1, n)
    return hits, alarms


def _above(size: int, last: int, level: float) -> float:
    """P[U_(k) > b_k for some k <= last]: fewer than k points below b_k."""
    k = np.arange(1.0, last + 1.0)
    limit = betainccinv(k, size - k + 1.0, level)
    mass, least, before, total = np.array([1.0]), 0, 0.0, 0.0  # of `least` points, one more, ...
    for i, b in enumerate(limit):
        mass = np.convolve(mass, _poisson(size * (b - before)))
        if least <= i < least + mass.size:  # i points where i + 1 are needed
            total += mass[i - least] * float(_rest(size, np.array([i]), b)[0])
            mass, least = mass[i + 1 - least:], i + 1
        mass, before = mass[: np.flatnonzero(mass > NOTHING)[-1] + 1], b
    return float(total)


def _below(size: int, last: int, level: float) -> float:
    """P[U_(k) > b_k for some k > size - last], seen from the other end: at least j points below ``B(g; j, n - j + 1)``."""
    j = np.arange(1.0, last + 1.0)
    limit = betaincinv(j, size - j + 1.0, level)
    mass, least, before, total = np.array([1.0]), 0, 0.0, 0.0
    for i, d in enumerate(limit):
        mass = np.convolve(mass, _poisson(size * (d - before)))
        many = np.arange(i + 1, least + mass.size)
        total += float((mass[i + 1 - least:] * _rest(size, many, d)).sum())
        mass, before = mass[: i + 1 - least], d
        first = int(np.flatnonzero(mass > NOTHING)[0])
        mass, least = mass[first:], least + first
    return total


def _rest(size: int, below: npt.NDArray[Any], at: float) -> Array:
    """P[the other points are above], over P[as many points as there are]: what turns a Poisson process into `size` points."""
    left, mean = size - below, size * (1.0 - at)
    whole = size * math.log(size) - size - math.lgamma(size + 1.0)
    return np.asarray(np.exp(left * math.log(mean) - mean - gammaln(left + 1.0) - whole))


def _poisson(mean: float) -> Array:
    """Probabilities of 0, 1, ... points; what is left out is below 1e-22."""
    count = np.arange(math.ceil(mean + 10.0 * math.sqrt(mean) + 22.0))
    return np.asarray(np.exp(count * math.log(max(mean, 1e-300)) - mean - gammaln(count + 1.0)))
