"""An explicit pair of probability vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._log import ULP
from dpaccount.adjacency import Adjacency, parse
from dpaccount.mechanisms.atomic import AtomicStep
from dpaccount.pair import DominatingPair, Facts, Step

Array = npt.NDArray[np.float64]


@final
@dataclass(frozen=True)
class FinitePair(AtomicStep):
    """The pair (P, Q) of two probability vectors over the same outcomes.

    Parameters
    ----------
    p, q : array, shape (n,)
        Probabilities in [0, 1] that sum to 1 within 1e-9 and are normalised. Outcomes where only
        one of them is positive have an infinite loss.

    Guarantee
    ---------
    Exact for the pair as given. You vouch that it dominates your mechanism: under any relation the
    profile takes it in both orders, and with ``adjacency="as-written"`` in the order given.

    Examples
    --------
    >>> from dpaccount import FinitePair, PrivacyProfile
    >>> pair = FinitePair((.5, .3, .15, .05), (.1, .2, .3, .4))
    >>> round(PrivacyProfile(pair, adjacency="as-written").trade_off(0.05).estimate, 9)
    0.6
    """

    p: tuple[float, ...]
    q: tuple[float, ...]

    def __post_init__(self) -> None:
        p = _check.probabilities("FinitePair", "p", self.p)
        q = _check.probabilities("FinitePair", "q", self.q)
        if p.shape != q.shape:
            _check.refuse("FinitePair", "q", f"of the same length as p, {p.size}", self.q)
        object.__setattr__(self, "p", _normalised(p))
        object.__setattr__(self, "q", _normalised(q))

    def atoms(self) -> tuple[Array, Array]:
        p, q = np.asarray(self.p), np.asarray(self.q)
        both = (p > 0) & (q > 0)
        return log_ratio(p[both], q[both]), np.log(p[both])

    @cached_property
    def facts(self) -> Facts:
        p, q = np.asarray(self.p), np.asarray(self.q)
        loss, _ = self.atoms()
        ends = (float(loss.min()), float(loss.max())) if loss.size else (0.0, 0.0)
        with np.errstate(divide="ignore"):
            only_p, only_q = float(np.log(p[q == 0].sum())), float(np.log(q[p == 0].sum()))
        return Facts(only_p, only_q, *ends, lattice=lattice_of(loss))

    def loss_error(self, loss: Array) -> Array:
        return np.asarray(4 * ULP * np.abs(loss) + self.mass_error)

    @property
    def mass_error(self) -> float:
        return abs(math.fsum((*self.p, -1.0))) + abs(math.fsum((*self.q, -1.0)))

    def reversed(self) -> Step:
        return FinitePair(self.q, self.p)

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        if parse("FinitePair.under", adjacency) is Adjacency.AS_WRITTEN:
            return (self,)
        return (self, FinitePair(self.q, self.p))


def log_ratio(p: Array, q: Array) -> Array:
    """log(p/q) for p, q > 0 to a few ulps of itself: of two tiny masses too, whose logarithms are large."""
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        ratio = p / q
        near = np.log1p((p - q) / q)  # p - q is exact here
        far = np.where((ratio > 1e-290) & (ratio < 1e290), np.log(ratio), np.log(p) - np.log(q))
    return np.where((p <= 2 * q) & (q <= 2 * p), near, far)


def _normalised(p: Array) -> tuple[float, ...]:
    """Divided by the sum unless that is 1 to rounding, so that normalising twice changes nothing."""
    total = float(p.sum())
    return tuple((p if abs(total - 1.0) <= 4e-16 * p.size else p / total).tolist())


def lattice_of(loss: Any) -> tuple[float, float] | None:
    """(offset, step) if all losses lie on one lattice within rounding and it is not absurdly fine."""
    values = np.unique(np.asarray(loss, dtype=float))
    if values.size == 0:
        return (0.0, 1.0)
    if values.size == 1:
        return (float(values[0]), max(abs(float(values[0])), 1.0))
    gaps = np.diff(values)
    step = float(gaps.max())
    tolerance = 1e-13 * max(1.0, float(np.abs(values).max()))
    for gap in gaps:
        a, b = step, float(gap)
        while b > 1e3 * tolerance:
            a, b = b, a - b * np.floor(a / b)
            if b > a / 2:
                b = a - b
        step = a
        if step < 1e-4 * float(gaps.max()):
            return None
    k = (values - values[0]) / step
    return (float(values[0]), step) if np.all(np.abs(k - np.rint(k)) * step <= tolerance) else None

