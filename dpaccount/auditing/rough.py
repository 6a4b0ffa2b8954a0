"""A bracket for Poisson-sampled runs that no engine answers fast: few samples, hardly any noise, a delta near nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import add

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from dpaccount._log import log1m_exp
from dpaccount.adjacency import Adjacency
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair
from dpaccount.results import NumericalFailure

ORDERS = 1.0 + np.geomspace(0.05, 1023.0, 32)
SEEN = 0.1  # noise multipliers below which Renyi bounds say little, and take long
ROUNDING = 1e-9  # relative, of a bound made of a dozen rounded terms
Array = npt.NDArray[np.float64]


def bracket(pair: DominatingPair, parts: Sequence[tuple[float, float, int]], delta: float, relation: Adjacency) -> tuple[float, float]:
    """(lower, upper) for epsilon of a run, `pair`, within milliseconds; valid, not tight.

    `parts` are its phases: (noise multiplier, sampling probability, steps). The lower end is the event that the largest output
    of a phase exceeds a threshold; the upper end takes no credit for sampling, or converts Renyi bounds (Canonne, Kamath,
    Steinke 2020, Proposition 12).
    """
    low = max(largest_output(sigma, rate, steps, delta, relation) for sigma, rate, steps in parts)
    whole: DominatingPair = reduce(add, [steps * Gaussian(sigma) for sigma, _, steps in parts])
    top = float(PrivacyProfile(whole, relation).epsilon(delta=delta).upper)
    if delta > 0.0 and min(sigma for sigma, _, _ in parts) >= SEEN:
        exchanged = relation is Adjacency.REPLACE_ONE
        top = min(top, _exchanged(pair, math.log(delta)) if exchanged else _by_renyi(pair, math.log(delta), relation))
    return min(low, top), top


def largest_output(
    sigma: float, rate: float, steps: int, delta: float, relation: Adjacency, where: bool = False
) -> float:
    """max over C of ln((P - delta)/Q): P and Q that one of the outputs exceeds C, with the record and without it (or at -1).

    With `where` the C itself, nan if there is none.
    """
    if delta >= 1.0:
        return math.nan if where else 0.0
    other = -1.0 if relation is Adjacency.REPLACE_ONE else 0.0

    def above(c: Array, shift: float) -> Array:
        """log P[some output > c]: 1 - (1 - p)^steps, p without cancellation."""
        out = math.log1p(-rate) if rate < 1.0 else -math.inf
        one = np.logaddexp(out + log_ndtr(-c / sigma), math.log(rate) + log_ndtr((shift - c) / sigma))
        none = steps * np.asarray(log1m_exp(np.minimum(one, -1e-300)))
        return np.where(none > -1e-300, math.log(steps) + one, np.asarray(log1m_exp(np.minimum(none, -1e-300))))

    log_delta = math.log(delta) if delta > 0.0 else -math.inf
    best, at, (low, high) = 0.0, math.nan, (-12.0 * sigma, 1.0 + 38.0 * sigma)
    for _ in range(6):
        c = np.linspace(low, high, 401)
        p = above(c, 1.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            left = p + np.asarray(log1m_exp(np.minimum(log_delta - p, -0.0)))
            value = np.where(p > log_delta, left - above(c, other), -np.inf)
        i = int(np.nanargmax(value))
        if float(value[i]) > best:
            best, at = float(value[i]), float(c[i])
        low, high = float(c[max(i - 1, 0)]), float(c[min(i + 1, c.size - 1)])
    return at if where else max(best - ROUNDING * (1.0 + best), 0.0)


def _exchanged(pair: DominatingPair, log_delta: float) -> float:
    """A removal and an addition: 2 eps where (1 + e^eps) delta(eps) fits into delta."""
    part = 0.0
    for _ in range(100):  # rises to the fixed point, and a step beyond
        new = _by_renyi(pair, log_delta - float(np.logaddexp(0.0, part)), Adjacency.ADD_OR_REMOVE)
        if new <= part:
            return 2.0 * part
        part = new * (1.0 + 1e-6)
    return math.inf


def _by_renyi(pair: DominatingPair, log_delta: float, relation: Adjacency) -> float:
    rdp = _renyi(pair, relation)
    found = float(np.min(rdp + np.log1p(-1.0 / ORDERS) - (log_delta + np.log(ORDERS)) / (ORDERS - 1.0)))
    return max(found * (1.0 + ROUNDING) + ROUNDING, 0.0)


@lru_cache(maxsize=64)
def _renyi(pair: DominatingPair, relation: Adjacency) -> Array:
    curve = PrivacyProfile(pair, relation).renyi()
    try:
        return np.array([float(curve(float(order)).upper) for order in ORDERS])
    except (NumericalFailure, ArithmeticError):
        return np.full(ORDERS.size, np.inf)
