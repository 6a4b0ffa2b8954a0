"""Strongly log-concave laws: what a Lipschitz change of the exponent can do to them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from scipy.special import ndtr

from dpaccount import _check
from dpaccount.mechanisms.gdp import GaussianDP

SMALLEST, LARGEST = 1e-100, 1e100
ROUND, DRIFT = 1.0 + 1e-15, 1.0 + 1e-12  # a few roundings, and those of an exponent up to 700


@final
@dataclass(frozen=True)
class StronglyLogConcave:
    """P with density e^{-F} and Q with e^{-(F + a)}, F mu-strongly convex and a G-Lipschitz: ``G/sqrt(mu)``-GDP (GLL22, Theorem 4.1).

    On all of R^d or restricted to a convex set, in any dimension; F need not be smooth, and only F, not F + a, need be convex.

    Parameters
    ----------
    lipschitz : float
        G >= 0, of the change a, in the norm of the outcome (l2).
    strong_convexity : float
        mu > 0, of F in the same norm.
    relation : {"add-or-remove", "replace-one", "zero-out"}, optional
        The adjacency whose neighbours change the exponent by such an a; None (default) leaves it to who asks.

    Guarantee
    ---------
    `pair` dominates (P, Q) and (Q, P). It is attained where F is quadratic and a is linear, on all of R^d.

    References
    ----------
    GLL22, Theorem 4.1, and its Section 4 for what follows from it. Concentration: Caffarelli's contraction theorem.

    Examples
    --------
    >>> from dpaccount import PrivacyProfile, StronglyLogConcave
    >>> law = StronglyLogConcave(lipschitz=0.5, strong_convexity=4.0)
    >>> law.mu, round(law.kl, 12), round(law.wasserstein, 12)
    (0.25, 0.03125, 0.125)
    >>> round(float(PrivacyProfile(law.pair).epsilon(delta=1e-5)), 3)
    0.926
    """

    lipschitz: float
    strong_convexity: float
    relation: str | None = None

    def __post_init__(self) -> None:
        owner = "StronglyLogConcave"
        lipschitz = _check.real(owner, "lipschitz", self.lipschitz, low=0.0, hint="Of the change of the exponent, not of the exponent.")
        convexity = _check.real(
            owner, "strong_convexity", self.strong_convexity, low=0.0, open_low=True,
            hint="Without strong convexity nothing holds; a regulariser mu |x|^2/2 adds mu.",
        )
        for name, value in (("lipschitz", lipschitz), ("strong_convexity", convexity)):
            if value and not SMALLEST <= value <= LARGEST:
                _check.refuse(owner, name, "in [1e-100, 1e100]", value, "Choose units in which it is not so extreme.")
        object.__setattr__(self, "lipschitz", lipschitz)
        object.__setattr__(self, "strong_convexity", convexity)
        object.__setattr__(self, "relation", GaussianDP(0.0, self.relation).relation)

    @property
    def mu(self) -> float:
        """The Gaussian DP parameter G/sqrt(mu), rounded up."""
        ratio = self.lipschitz / math.sqrt(self.strong_convexity)
        while Fraction(ratio) ** 2 * Fraction(self.strong_convexity) < Fraction(self.lipschitz) ** 2:
            ratio = math.nextafter(ratio, math.inf)
        return ratio

    @property
    def pair(self) -> GaussianDP:
        """The dominating pair, N(0, 1) against N(G/sqrt(mu), 1)."""
        return GaussianDP(self.mu, self.relation)

    @property
    def kl(self) -> float:
        """An upper bound on both Kullback-Leibler divergences, G^2/(2 mu)."""
        return self.lipschitz**2 / (2.0 * self.strong_convexity) * ROUND

    @property
    def wasserstein(self) -> float:
        """An upper bound on the 2-Wasserstein distance of P and Q, G/mu, by Talagrand's inequality from `kl`."""
        return self.lipschitz / self.strong_convexity * ROUND

    @property
    def total_variation(self) -> float:
        """An upper bound on the total variation of P and Q, 2 Phi(G/(2 sqrt(mu))) - 1."""
        return min(math.erf(self.mu / math.sqrt(8.0)) * ROUND, 1.0)

    def renyi(self, order: Any) -> Any:
        """An upper bound on both Renyi divergences, a G^2/(2 mu), for orders a > 1 (array)."""
        a = _check.reals("StronglyLogConcave.renyi", "order", order, low=1.0, open_low=True)
        with np.errstate(over="ignore"):
            return (a * self.kl * ROUND)[()]

    def deviation(self, distance: Any, *, around: str = "mean") -> Any:
        """An upper bound on P[l(X) - centre >= t] for every G-Lipschitz function l and X ~ P, at t = `distance` >= 0 (array).

        ``exp(-mu t^2/(2 G^2))`` around the mean, ``Phi(-sqrt(mu) t/G)`` around a median: X is the image of a standard Gaussian
        under a map with Lipschitz constant 1/sqrt(mu), and l of it is as concentrated as a Lipschitz function of a Gaussian.
        """
        owner = "StronglyLogConcave.deviation"
        t = _check.reals(owner, "distance", distance, low=0.0)
        _check.choice(owner, "around", around, ("mean", "median"))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            ratio = np.where(t == 0.0, 0.0, t / self.mu if self.mu else np.inf)
            return np.minimum((np.exp(-ratio * ratio / 2.0) if around == "mean" else ndtr(-ratio)) * DRIFT, 1.0)[()]
