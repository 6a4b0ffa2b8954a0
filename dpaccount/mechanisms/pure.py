"""Mechanisms known only by a claim: pure epsilon, and approximate (epsilon, delta)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._log import log1m_exp
from dpaccount.adjacency import Adjacency, parse
from dpaccount.mechanisms.atomic import AtomicStep
from dpaccount.mechanisms.response import pure_epsilon
from dpaccount.pair import DominatingPair, Facts, Step

Array = npt.NDArray[np.float64]


@final
@dataclass(frozen=True)
class PureDP(AtomicStep):
    """Any eps-DP mechanism: ``delta(e) = (e^eps - e^e)/(e^eps + 1)`` on [-eps, eps] (KOV15, Theorem 3.3).

    Parameters
    ----------
    epsilon : float
        in [0, 700], the claim under whichever relation the profile names: it is used as given.

    Guarantee
    ---------
    Dominates every eps-DP mechanism, and is attained by binary randomised response.
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", pure_epsilon("PureDP", self.epsilon))

    def atoms(self) -> tuple[Array, Array]:
        return _two_point(self.epsilon)

    @property
    def facts(self) -> Facts:
        e = self.epsilon
        return Facts(min_loss=-e, max_loss=e, lattice=(-e, 2 * e if e else 1.0))

    def loss_error(self, loss: Array) -> Array:
        return np.zeros(loss.shape)  # its losses are the parameter itself

    def reversed(self) -> Step:
        return self

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        parse("PureDP.under", adjacency)
        return (self,)


@final
@dataclass(frozen=True)
class ApproximateDP(AtomicStep):
    """Any (eps, delta)-DP mechanism: mass delta at L = +inf, the rest as `PureDP` (KOV15, Theorem 3.3).

    Parameters
    ----------
    epsilon : float
        in [0, 700].
    delta : float
        in [0, 1]; the claim is used as given under whichever relation the profile names.

    Guarantee
    ---------
    Dominates every (eps, delta)-DP mechanism; composing it gives the optimal composition theorem.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", pure_epsilon("ApproximateDP", self.epsilon))
        object.__setattr__(self, "delta", _check.real("ApproximateDP", "delta", self.delta, low=0.0, high=1.0))

    def atoms(self) -> tuple[Array, Array]:
        if self.delta == 1.0:
            return np.empty(0), np.empty(0)
        loss, log_p = _two_point(self.epsilon)
        return loss, log_p + np.log1p(-self.delta)

    @property
    def facts(self) -> Facts:
        e = self.epsilon
        log_mass = float(np.log(self.delta)) if self.delta else -np.inf
        ends = (-e, e) if self.delta < 1.0 else (0.0, 0.0)
        return Facts(log_mass, log_mass, *ends, lattice=(-e, 2 * e if e else 1.0))

    def loss_error(self, loss: Array) -> Array:
        return np.zeros(loss.shape)  # its losses are the parameter itself

    def reversed(self) -> Step:
        return self

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        parse("ApproximateDP.under", adjacency)
        return (self,)


def _two_point(e: float) -> tuple[Array, Array]:
    if e == 0:
        return np.zeros(1), np.zeros(1)
    top = -float(np.log1p(np.exp(-e)))
    return np.array([-e, e]), np.array([log1m_exp(top), top])
