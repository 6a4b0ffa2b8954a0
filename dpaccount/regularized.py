"""The regularised exponential mechanism: with which temperature and regulariser to sample, and what it costs in risk."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, final

from dpaccount import _check
from dpaccount.calibration import calibrate
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.gdp import GaussianDP
from dpaccount.mechanisms.log_concave import StronglyLogConcave

RULES = ("exact", "sufficient")
SMALLEST, LARGEST = 1e-100, 1e15  # epsilons of the paper's rule, whose squares and differences doubles still hold
_SIZE = {"low": 1e-100, "high": 1e100}


def _above(value: Fraction) -> float:
    """The least double that is not below it."""
    found = float(value)
    return found if Fraction(found) >= value else math.nextafter(found, math.inf)


class RiskBound(NamedTuple):
    """An upper bound on an expected excess risk, as the sum of its terms."""

    terms: Mapping[str, float]

    @property
    def total(self) -> float:
        """The bound."""
        return math.fsum(self.terms.values())

    @property
    def dominant(self) -> str:
        """The name of the largest term."""
        return max(self.terms, key=lambda name: self.terms[name])


@final
@dataclass(frozen=True)
class RegularizedExponentialMechanism:
    """A draw x from exp(-k (F(x; D) + r |x|^2/2)) on a convex set K, F the mean of n losses: ``G sqrt(k)/(n sqrt(rho + r))``-GDP.

    Neighbours exchange one record (replace-one).

    Parameters
    ----------
    lipschitz : float
        G > 0, a Lipschitz constant of f(.; s) - f(.; s') for all records s, s': at most twice that of a single loss.
    num_records : int
        n >= 1.
    inverse_temperature : float
        k > 0.
    regularization : float
        r >= 0.
    strong_convexity : float
        rho >= 0, of every loss; rho + r > 0.

    Guarantee
    ---------
    `pair` holds for an exact draw (GLL22, Theorems 4.1 and 6.2). A draw within a total variation t of it has
    `approximate_draw(pair, t)` instead. Risk bounds are on expectations over the draw (and the sample, for the population).

    Examples
    --------
    >>> from dpaccount import RegularizedExponentialMechanism
    >>> m = RegularizedExponentialMechanism.for_empirical_risk(
    ...     epsilon=1.0, delta=1e-6, lipschitz=2.0, num_records=1000, dimension=10, diameter=2.0)
    >>> round(m.pair.mu, 6), round(m.empirical_risk(dimension=10, diameter=2.0).total, 5)
    (0.236704, 0.07557)
    """

    lipschitz: float
    num_records: int
    inverse_temperature: float
    regularization: float
    strong_convexity: float = 0.0

    def __post_init__(self) -> None:
        owner, put = "RegularizedExponentialMechanism", partial(object.__setattr__, self)
        put("num_records", _check.count(owner, "num_records", self.num_records))
        for name in ("lipschitz", "inverse_temperature"):
            put(name, _check.real(owner, name, getattr(self, name), **_SIZE))
        for name in ("regularization", "strong_convexity"):
            put(name, _check.real(owner, name, getattr(self, name), low=0.0, high=1e100))
        if not self.regularization + self.strong_convexity >= 1e-100:
            _check.refuse(
                owner, "regularization", "positive where losses are not strongly convex", self.regularization,
                "Without strong convexity the theorem says nothing.",
            )

    @property
    def law(self) -> StronglyLogConcave:
        """The law of a draw, and the largest change of its exponent by one record."""
        k = Fraction(self.inverse_temperature)
        change = _above(k * Fraction(self.lipschitz) / self.num_records)
        convexity = k * (Fraction(self.regularization) + Fraction(self.strong_convexity))
        return StronglyLogConcave(change, -_above(-convexity), "replace-one")

    @property
    def pair(self) -> GaussianDP:
        """The dominating pair of an exact draw, under replace-one."""
        return self.law.pair

    def empirical_risk(self, *, dimension: int, diameter: float) -> RiskBound:
        """E F(x) - min F <= d/k + r D^2/2, if 0 is in K: GLL22, Lemma 6.1. `diameter` is that of K, or the largest norm in it."""
        owner = "RegularizedExponentialMechanism.empirical_risk"
        d, far = _check.count(owner, "dimension", dimension), _check.real(owner, "diameter", diameter, **_SIZE)
        terms = {"sampling": d / self.inverse_temperature, "regularization": self.regularization * far**2 / 2.0}
        return RiskBound(MappingProxyType(terms))

    def population_risk(self, *, dimension: int, diameter: float) -> RiskBound:
        """The same and G^2/(n (rho + r)) for records drawn independently: GLL22, Theorem 6.7, by uniform stability."""
        terms = dict(self.empirical_risk(dimension=dimension, diameter=diameter).terms)
        terms["generalization"] = self.lipschitz**2 / (self.num_records * (self.regularization + self.strong_convexity))
        return RiskBound(MappingProxyType(terms))

    @staticmethod
    def for_empirical_risk(
        *, epsilon: float, delta: float, lipschitz: float, num_records: int, dimension: int, diameter: float,
        strong_convexity: float = 0.0, rule: str = "exact",
    ) -> RegularizedExponentialMechanism:
        """The (k, r) of the least bound on the empirical risk that is (epsilon, delta)-DP for an exact draw.

        With s the largest GDP parameter allowed, ``k = (s n/G)^2 (rho + r)`` and ``rho + r = max(rho, G sqrt(2 d)/(n D s))``:
        the bound is ``G D sqrt(2 d)/(n s)`` at rho = 0. ``rule="exact"`` (default) takes s from the Gaussian curve, ``sufficient``
        the paper's ``sqrt(2 log(1/(2 delta)) + 2 eps) - sqrt(2 log(1/(2 delta)))`` (GLL22, Lemma 6.3), which is smaller.
        """
        asked = _Asked("for_empirical_risk", epsilon, delta, lipschitz, num_records, dimension, diameter, strong_convexity, rule)
        scale = asked.lipschitz / (asked.num_records * asked.mu)  # G/(n s)
        return asked.mechanism(scale * math.sqrt(2.0 * asked.dimension) / asked.diameter)

    @staticmethod
    def for_population_risk(
        *, epsilon: float, delta: float, lipschitz: float, num_records: int, dimension: int, diameter: float,
        strong_convexity: float = 0.0, rule: str = "exact",
    ) -> RegularizedExponentialMechanism:
        """The same for the population risk: ``rho + r = max(rho, (G/D) sqrt(2 (1/n + d/(s n)^2)))``.

        ``rule="sufficient"`` is the paper's choice (GLL22, Theorem 6.9), for epsilon and delta below 1/10:
        ``k = (rho + r)/G^2 min(eps^2 n^2/(2 log(3/(4 delta))), 2 n d)``,
        ``rho + r = (G/D) sqrt(2 (2 log(3/(4 delta)) d/(eps n)^2 + 1/(2 n)))``; two thirds of delta pay for the exact law.
        """
        asked = _Asked("for_population_risk", epsilon, delta, lipschitz, num_records, dimension, diameter, strong_convexity, rule)
        n, d = asked.num_records, asked.dimension
        if rule == "exact":
            return asked.mechanism(asked.lipschitz / asked.diameter * math.sqrt(2.0 * (1.0 / n + d / (asked.mu * n) ** 2)))
        for name in ("epsilon", "delta"):
            if getattr(asked, name) >= 0.1:
                _check.refuse(asked.owner, name, "below 0.1 under the paper's rule", getattr(asked, name), "rule='exact' has no limit.")
        room = 2.0 * math.log(3.0 / (4.0 * asked.delta)) / (asked.epsilon * n) ** 2
        convexity = asked.lipschitz / asked.diameter * math.sqrt(2.0 * (room * d + 1.0 / (2.0 * n)))
        return asked.mechanism(convexity, square=min(1.0 / room, 2.0 * n * d) / n**2)


@dataclass(frozen=True)
class _Asked:
    """A checked request."""

    name: str
    epsilon: float
    delta: float
    lipschitz: float
    num_records: int
    dimension: int
    diameter: float
    strong_convexity: float
    rule: str
    owner: str = field(init=False)

    def __post_init__(self) -> None:
        owner, put = f"RegularizedExponentialMechanism.{self.name}", partial(object.__setattr__, self)
        put("owner", owner)
        put("epsilon", _check.real(owner, "epsilon", self.epsilon, low=0.0, open_low=True))
        put("delta", _check.real(owner, "delta", self.delta, low=0.0, high=0.5, open_low=True, open_high=True))
        put("num_records", _check.count(owner, "num_records", self.num_records))
        put("dimension", _check.count(owner, "dimension", self.dimension))
        for name in ("lipschitz", "diameter"):
            put(name, _check.real(owner, name, getattr(self, name), **_SIZE))
        put("strong_convexity", _check.real(owner, "strong_convexity", self.strong_convexity, low=0.0, high=1e100))
        if _check.choice(owner, "rule", self.rule, RULES) == "sufficient" and not SMALLEST <= self.epsilon <= LARGEST:
            domain = f"in [{SMALLEST:g}, {LARGEST:g}] under the paper's rule"
            _check.refuse(owner, "epsilon", domain, self.epsilon, "rule='exact' has no limit.")

    @property
    def mu(self) -> float:
        """The GDP parameter s that the rule allows, on the feasible side."""
        if self.rule == "sufficient":
            return sufficient_parameter(self.epsilon, self.delta)
        return 1.0 / float(calibrate(Gaussian, epsilon=self.epsilon, delta=self.delta)) * (1.0 - 1e-15)

    def mechanism(self, convexity: float, square: float | None = None) -> RegularizedExponentialMechanism:
        """That with rho + r at least as given and s^2 = `square`, by default what the rule allows."""
        rho = self.strong_convexity
        extra = max(convexity - rho, 0.0)
        s = self.mu**2 if square is None else square
        k = s * (self.num_records / self.lipschitz) ** 2 * (rho + extra) * (1.0 - 1e-15)
        return RegularizedExponentialMechanism(self.lipschitz, self.num_records, k, extra, rho)


def sufficient_parameter(epsilon: Any, delta: Any) -> float:
    """A GDP parameter that is (epsilon, delta)-DP: ``sqrt(2 log(1/(2 delta)) + 2 eps) - sqrt(2 log(1/(2 delta)))``, delta < 1/2.

    GLL22, Lemma 6.3. The exact one, ``calibrate(Gaussian, ...)``, is larger.
    """
    e = _check.real("sufficient_parameter", "epsilon", epsilon, low=0.0)
    d = _check.real("sufficient_parameter", "delta", delta, low=0.0, high=0.5, open_low=True, open_high=True)
    root = math.sqrt(-2.0 * math.log(2.0 * d))
    return 2.0 * e / (math.sqrt(root * root + 2.0 * e) + root) * (1.0 - 1e-15)
