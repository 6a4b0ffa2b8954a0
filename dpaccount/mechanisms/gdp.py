"""Mechanisms known by a Gaussian DP parameter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._quadrature import Density
from dpaccount._slip import Slip
from dpaccount.adjacency import Adjacency, parse, unsupported
from dpaccount.mechanisms.curve import RELATIONS
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.pure import PureDP
from dpaccount.pair import DominatingPair, Facts, Step, Tails

Array = npt.NDArray[np.float64]
SMALLEST, LARGEST = 1e-100, 1e100


@final
@dataclass(frozen=True)
class GaussianDP(Step):
    """Any mu-GDP mechanism: trade-off at least that of N(0, 1) against N(mu, 1); ``K(z) = mu^2 z(z+1)/2`` (DRS19, Definition 2.6).

    Parameters
    ----------
    mu : float
        0, or in [1e-100, 1e100]. The claim under whichever relation the profile names: it is used as given, and nothing is doubled.
    relation : {"add-or-remove", "replace-one", "zero-out"}, optional
        The only adjacency that the claim holds for; asked under another it raises `UnsupportedAdjacency`. None (default) leaves
        it to who asks.

    Guarantee
    ---------
    Dominates every mu-GDP mechanism, and is attained by the `Gaussian` mechanism of noise multiplier 1/mu.

    Examples
    --------
    >>> from dpaccount import Gaussian, GaussianDP, PrivacyProfile
    >>> claim = PrivacyProfile(GaussianDP(0.5, relation="replace-one"), adjacency="replace-one")
    >>> round(float(claim.delta(epsilon=1.0)), 9)
    0.006829595
    >>> float(claim.delta(epsilon=1.0)) == float(PrivacyProfile(Gaussian(2.0)).delta(epsilon=1.0))
    True
    """

    mu: float
    relation: str | None = None

    def __post_init__(self) -> None:
        mu = _check.real("GaussianDP", "mu", self.mu, low=0.0)
        if mu and not SMALLEST <= mu <= LARGEST:
            _check.refuse("GaussianDP", "mu", "0 or in [1e-100, 1e100]", mu)
        object.__setattr__(self, "mu", mu)
        if self.relation is not None:
            relation = _check.choice("GaussianDP", "relation", self.relation, RELATIONS, "None takes the claim under any relation.")
            object.__setattr__(self, "relation", str(relation))

    @cached_property
    def attained(self) -> Step:
        """The mechanism that attains the claim."""
        if not self.mu:
            return PureDP(0.0)
        noise = 1.0 / self.mu
        while Fraction(noise) * Fraction(self.mu) > 1:
            noise = math.nextafter(noise, 0.0)
        return Gaussian(noise)

    @property
    def facts(self) -> Facts:
        return self.attained.facts

    def tails(self, loss: Any) -> Tails:
        return self.attained.tails(loss)

    def atoms(self) -> tuple[Array, Array]:
        return self.attained.atoms()

    def density(self) -> Density | None:
        return self.attained.density()

    def log_delta(self, epsilon: Any) -> Any | None:
        return self.attained.log_delta(epsilon)

    def slip(self, epsilon: float, value: float) -> Slip:
        return self.attained.slip(epsilon, value)

    def step_log_mgf(self, z: Any) -> Any:
        return self.attained.step_log_mgf(z)

    def reversed(self) -> Step:
        return self

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        relation = parse("GaussianDP.under", adjacency)
        if self.relation not in (None, relation) and relation is not Adjacency.AS_WRITTEN:
            unsupported("GaussianDP", relation, f"its claim holds under {self.relation!r} alone, and is wrong for other neighbours.")
        return (self if relation is Adjacency.AS_WRITTEN else self.attained,)
