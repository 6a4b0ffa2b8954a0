"""k-ary randomised response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount.adjacency import Adjacency, parse, unsupported
from dpaccount.mechanisms.atomic import AtomicStep
from dpaccount.pair import DominatingPair, Facts, Step

Array = npt.NDArray[np.float64]


def pure_epsilon(owner: str, value: object) -> float:
    """Validate a pure epsilon: a number in [0, 700]."""
    return _check.real(owner, "epsilon", value, low=0.0, high=700.0, hint="e^epsilon must be a finite double.")


@final
@dataclass(frozen=True)
class RandomizedResponse(AtomicStep):
    """Report the true one of k categories with probability e^eps/(e^eps + k - 1), else a uniform other one.

    The loss is eps, 0 or -eps with P-masses e^eps, k - 2 and 1 over e^eps + k - 1 (DDR20; KOV15 for k = 2).

    Parameters
    ----------
    epsilon : float
        The pure epsilon, in [0, 700].
    num_categories : int
        k >= 2.

    Guarantee
    ---------
    Exact under replace-one. A local report has no meaning for a record that is absent, so the other
    relations are refused.
    """

    epsilon: float
    num_categories: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", pure_epsilon("RandomizedResponse", self.epsilon))
        k = _check.count("RandomizedResponse", "num_categories", self.num_categories, minimum=2)
        object.__setattr__(self, "num_categories", k)

    def atoms(self) -> tuple[Array, Array]:
        e, k = self.epsilon, self.num_categories
        if e == 0:
            return np.zeros(1), np.zeros(1)
        # masses over e^{-e} so that nothing overflows: 1, (k-2) e^{-e}, e^{-e}
        norm = np.log1p((k - 1) * np.exp(-e))
        if k == 2:
            return np.array([-e, e]), np.array([-e - norm, -norm])
        return np.array([-e, 0.0, e]), np.array([-e - norm, np.log(k - 2) - e - norm, -norm])

    @property
    def facts(self) -> Facts:
        e = self.epsilon
        step = 1.0 if e == 0 else (2 * e if self.num_categories == 2 else e)
        return Facts(min_loss=-e, max_loss=e, lattice=(-e, step))

    def loss_error(self, loss: Array) -> Array:
        return np.zeros(loss.shape)  # its losses are the parameter itself

    def reversed(self) -> Step:
        return self

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        relation = parse("RandomizedResponse.under", adjacency)
        if relation in (Adjacency.REPLACE_ONE, Adjacency.AS_WRITTEN):
            return (self,)
        unsupported(
            repr(self), relation,
            "a local report exists only for a record that is present; pass adjacency='replace-one' "
            f"(or use PureDP({self.epsilon!r}) if your protocol is {self.epsilon!r}-DP under this relation).",
        )
