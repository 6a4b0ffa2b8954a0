"""A mechanism known only by its privacy curve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._log import ULP
from dpaccount.adjacency import Adjacency, parse
from dpaccount.mechanisms.atomic import AtomicStep
from dpaccount.mechanisms.finite import lattice_of
from dpaccount.pair import DominatingPair, Facts, Reversed, Step

Array = npt.NDArray[np.float64]


@final
@dataclass(frozen=True)
class CurvePair(AtomicStep):
    """The least pair whose curve passes through given (epsilon, delta) points or above the truth between them.

    The curve delta(eps) of any mechanism is convex in gamma = e^eps, so the chords of a table lie
    above it; chords of a convex table are the curve of a finite pair (ZDW22, Proposition 8), which
    composes and is sampled like any other. Beyond the last point delta stays at its last value, below
    the first it falls from delta = 1 at gamma = 0.

    Parameters
    ----------
    epsilon : sequence of float
        Strictly increasing, any real numbers.
    delta : sequence of float
        In [0, 1], the mechanism is (epsilon[i], delta[i])-DP. Points above the lower convex hull in
        e^epsilon are implied by the others and dropped.
    symmetric : bool
        True (default) if each point holds for both orders of every pair of neighbours, as a DP
        claim does: then E_gamma = 1 - gamma + gamma E_{1/gamma} sharpens the curve at negative epsilon.

    Guarantee
    ---------
    An upper bound at every epsilon, exact at the points on the hull.

    Examples
    --------
    >>> from dpaccount import CurvePair, PrivacyProfile
    >>> round(float(PrivacyProfile(CurvePair((0.0, 1.0), (0.1, 0.01))).delta(epsilon=1.0)), 12)
    0.01
    """

    epsilon: tuple[float, ...]
    delta: tuple[float, ...]
    symmetric: bool = True

    def __post_init__(self) -> None:
        epsilon = _check.reals("CurvePair", "epsilon", self.epsilon, low=-700.0, high=700.0)
        delta = _check.reals("CurvePair", "delta", self.delta, low=0.0, high=1.0)
        if epsilon.ndim != 1 or not epsilon.size or np.any(np.diff(epsilon) <= 0):
            _check.refuse("CurvePair", "epsilon", "a non-empty, strictly increasing sequence", self.epsilon)
        if delta.shape != epsilon.shape:
            _check.refuse("CurvePair", "delta", f"of the same length as epsilon, {epsilon.size}", self.delta)
        object.__setattr__(self, "symmetric", _check.flag("CurvePair", "symmetric", self.symmetric))
        object.__setattr__(self, "epsilon", tuple(epsilon.tolist()))
        object.__setattr__(self, "delta", tuple(delta.tolist()))

    @staticmethod
    def from_function(delta: Callable[[float], float], epsilon: Any, *, symmetric: bool = True) -> CurvePair:
        """The pair of a curve given as a function, tabulated at `epsilon` (a sequence)."""
        owner = "CurvePair.from_function"
        if not callable(delta):
            _check.refuse(owner, "delta", "a function of epsilon", delta, kind=TypeError)
        grid = _check.reals(owner, "epsilon", epsilon)
        if grid.ndim != 1:
            _check.refuse(owner, "epsilon", "a sequence of numbers", epsilon, kind=TypeError)
        return CurvePair(tuple(grid.tolist()), tuple(float(delta(float(e))) for e in grid), symmetric)

    def _hull(self) -> tuple[Array, Array, float]:
        """Losses, log Q-masses of the kinks, and the final delta; the curve through (0, 1) and the table."""
        e, d = np.asarray(self.epsilon), np.asarray(self.delta)
        d = np.maximum(d, -np.expm1(np.minimum(e, 0.0)))
        if self.symmetric:
            mirrored = -np.expm1(-e) + np.exp(-e) * d
            e, d = np.concatenate([e, -e]), np.minimum(np.concatenate([d, mirrored]), 1.0)
            e, where = np.unique(e, return_inverse=True)
            least = np.full(e.shape, np.inf)
            np.minimum.at(least, where, d)
            d = np.maximum(least, np.maximum(0.0, -np.expm1(np.minimum(e, 0.0))))
        d = np.minimum.accumulate(d)
        gamma = np.concatenate([[0.0], np.exp(e)])
        value = np.concatenate([[1.0], d])
        keep: list[int] = []
        for i in range(gamma.size):
            while len(keep) > 1 and (value[keep[-1]] - value[keep[-2]]) * (gamma[i] - gamma[keep[-2]]) >= (
                value[i] - value[keep[-2]]
            ) * (gamma[keep[-1]] - gamma[keep[-2]]):
                keep.pop()
            keep.append(i)
        g, v = gamma[keep], value[keep]
        slope = np.concatenate([np.diff(v) / np.diff(g), [0.0]])
        return np.log(g[1:]), np.maximum(np.diff(slope), 0.0), float(v[-1])

    def atoms(self) -> tuple[Array, Array]:
        loss, q, _ = self._hull()
        keep = q > 0
        return loss[keep], np.log(q[keep]) + loss[keep]

    @cached_property
    def facts(self) -> Facts:
        loss, q, last = self._hull()
        loss = loss[q > 0]
        ends = (float(loss.min()), float(loss.max())) if loss.size else (0.0, 0.0)
        with np.errstate(divide="ignore"):
            only_p = float(np.log(last))
            only_q = float(np.log(max(1.0 - q.sum(), 0.0))) if 1.0 - q.sum() > 1e-14 else -np.inf
        return Facts(only_p, only_q, *ends, lattice=lattice_of(loss))

    def loss_error(self, loss: Array) -> Array:
        return np.asarray(4 * ULP * (1.0 + np.abs(loss)))

    def reversed(self) -> Step:
        return Reversed(self)

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        relation = parse("CurvePair.under", adjacency)
        if self.symmetric or relation is Adjacency.AS_WRITTEN:
            return (self,)
        return (self, Reversed(self))
