"""What a named family turns an attack's rates into: the GDP parameter, or the noise of any family, and epsilon from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from scipy.special import ndtri

from dpaccount import _check
from dpaccount.adjacency import Adjacency
from dpaccount.calibration import UnreachableTarget, calibrate
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import Guarantee
from dpaccount.results import Bounds

LEAST_MU, MOST_MU = 1e-99, 1e99


def gdp_mu(false_positive_rate: float, false_negative_rate: float) -> float:
    """The mu >= 0 at which G_mu passes through a point: Phi^-1(1 - FPR) - Phi^-1(FNR), never its absolute value."""
    if false_positive_rate >= 1.0 or false_negative_rate >= 1.0:
        return 0.0
    return max(-float(ndtri(false_positive_rate)) - float(ndtri(false_negative_rate)), 0.0)


def gdp_epsilon(mu: float, delta: float) -> Bounds:
    """epsilon at delta of mu-GDP."""
    return PrivacyProfile(Gaussian(1.0 / mu if math.isfinite(mu) else 0.0)).epsilon(delta=delta)


def gdp_at_least(mu: float, delta: float) -> float:
    """The safe end of epsilon for a lower bound mu."""
    return 0.0 if mu < LEAST_MU else float(gdp_epsilon(min(mu, MOST_MU), delta).lower)


def gdp_at_most(mu: float, delta: float) -> float:
    """The safe end of epsilon for an upper bound mu."""
    return 0.0 if mu < LEAST_MU else math.inf if mu > MOST_MU else float(gdp_epsilon(mu, delta).upper)


class Family(NamedTuple):
    """One number, such as the noise multiplier, to a guarantee; monotone."""

    make: Callable[[Any], Guarantee]
    adjacency: str | Adjacency

    def profile(self, value: float) -> PrivacyProfile:
        return PrivacyProfile(self.make(value), self.adjacency)

    def edge(self, false_positive_rate: float, false_negative_rate: float) -> tuple[float, float] | None:
        """The member whose trade-off function passes through a point: a value at or above it, and one below, which leaks more.

        None if no member of the family passes there.
        """
        try:
            found = calibrate(
                self.make, false_positive_rate=false_positive_rate, false_negative_rate=false_negative_rate,
                adjacency=self.adjacency,
            )
        except UnreachableTarget:
            return None
        return None if found.infeasible is None else (float(found), found.infeasible)

    def at_least(self, false_positive_rate: float, false_negative_rate: float, delta: float) -> tuple[float, float | None] | None:
        """(epsilon, parameter): every member above the point is rejected, and the edge itself is read on its private side."""
        if false_positive_rate + false_negative_rate >= 1.0:
            return 0.0, None
        edge = self.edge(false_positive_rate, false_negative_rate)
        return None if edge is None else (max(float(self.profile(edge[0]).epsilon(delta=delta).lower), 0.0), edge[0])

    def at_most(self, false_positive_rate: float, false_negative_rate: float, delta: float) -> float:
        """epsilon of the member through the point of the other limits, from above; inf where no member passes there."""
        if false_positive_rate <= 0.0 or false_negative_rate <= 0.0:
            return math.inf
        if false_positive_rate + false_negative_rate >= 1.0:
            return 0.0
        edge = self.edge(false_positive_rate, false_negative_rate)
        return math.inf if edge is None else float(self.profile(edge[1]).epsilon(delta=delta).upper)


def family_of(owner: str, family: Any, adjacency: str | Adjacency) -> Family:
    """Validate a family of mechanisms."""
    if not callable(family):
        _check.refuse(
            owner, "family", "a callable of one number that returns a guarantee, for method='curve'", family,
            "Pass e.g. lambda s: 1000 * PoissonSampled(Gaussian(s), 0.01).", TypeError,
        )
    return Family(family, adjacency)
