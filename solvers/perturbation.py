"""What a noisy linear term in a strongly convex objective costs: objective perturbation, pure and Gaussian.

``theta = argmin sum_i l_i + (Delta/2)|theta|^2 + <b, theta>`` on the whole space has density ``nu(-grad J(theta)) det J''(theta)``, nu that
of b. Let P hold the record that Q lacks, g its gradient at theta, b the noise of P, R a bound on ``log det(J'' + E)/det J''`` for the
record's Hessian E. With ``|g| <= L``

    log P/Q <= log nu(b)/nu(b + g) + R,        log Q/P <= log nu(b')/nu(b' - g),

and everything below bounds the first terms. ``R = r log(1 + lambda/Delta)``, as E has rank r and eigenvalues up to lambda.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import gammaln, log_ndtr

from dpaccount import _check
from dpaccount._log import gaussian_log_delta
from dpaccount.adjacency import Adjacency
from dpaccount.bestof import BestOf
from dpaccount.mechanisms.curve import CurvePair
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.pure import PureDP
from dpaccount.pair import Guarantee
from dpaccount.renyi import RenyiBound

Array = npt.NDArray[np.float64]
ROUNDED = 1.0 + 1e-10  # more than what a closed-form delta can be off
POINTS = 240  # of a curve's table
ORDERS = np.concatenate([1.0 + np.geomspace(1e-3, 1.0, 40)[:-1], np.geomspace(2.0, 1e5, 160)])


def theorem_regularization(epsilon: float, smoothness: float, rank: int = 1) -> float:
    """Theorem 6.7's least Delta at noise 2/epsilon: ``r lambda/(1 - e^{-epsilon/2})``; sufficient, not least.

    Examples
    --------
    >>> from solvers.perturbation import theorem_regularization
    >>> round(theorem_regularization(1.0, 0.25), 15)
    0.6353735206342
    """
    return rank * smoothness / -math.expm1(-epsilon / 2.0)


def least_regularization(epsilon: float, smoothness: float, rank: int = 1) -> float:
    """The Delta at which the Hessian alone costs epsilon: ``lambda/(e^{epsilon/r} - 1)``. Half of epsilon goes to it in Theorem 6.7.

    Examples
    --------
    >>> from solvers.perturbation import least_regularization
    >>> round(least_regularization(0.5, 0.25), 15)
    0.3853735206342
    """
    return smoothness / math.expm1(epsilon / rank)


def published_rdp(order: float, *, smoothness: float, regularization: float, lipschitz: float, noise: float) -> float:
    """RKW23's bound for b ~ N(0, noise^2 I) and generalised linear losses, ``regularization > smoothness``; looser than `GaussianCost`.

    ``-log(1 - beta/Delta) + mu^2/2 + log E e^{(a-1)|Z|}/(a-1)``, Z ~ N(0, mu^2), mu = L/noise.

    Examples
    --------
    >>> from solvers.perturbation import published_rdp
    >>> round(published_rdp(2.0, smoothness=0.25, regularization=1.0, lipschitz=1.0, noise=5.0), 8)
    0.4748249
    """
    if not regularization > smoothness:
        _check.refuse("published_rdp", "regularization", f"above smoothness, {smoothness:g}", regularization)
    return float(-math.log1p(-smoothness / regularization) + _two_sided(order, lipschitz / noise))


def _two_sided(order: Any, mu: float) -> Any:
    """``mu^2/2 + log E e^{(a-1)|Z|}/(a-1) = a mu^2/2 + log(2 Phi((a-1) mu))/(a-1)``."""
    a = np.asarray(order, dtype=float)
    return (0.5 * a * mu * mu + (math.log(2.0) + log_ndtr((a - 1.0) * mu)) / (a - 1.0))[()]


@final
@dataclass(frozen=True)
class Curvature:
    """What a record's Hessian can do: at most `rank` eigenvalues, each at most `largest`; `logistic` where it is |x|^2 t (1 - t).

    `logistic` says that slope and Hessian are ``|x| t`` and ``|x|^2 t (1 - t)`` for one t in [0, 1] and |x|^2 <= 4 largest;
    `saturating` that they are ``t`` of the largest slope and at most ``1 - t^2`` of the largest Hessian.
    """

    largest: float
    rank: int = 1
    logistic: bool = False
    saturating: bool = False

    def log_determinant(self, regularization: float) -> float:
        """R = r log(1 + lambda/Delta)."""
        return self.rank * math.log1p(self.largest / regularization)

    def pure(self, noise_multiplier: float, regularization: float) -> float:
        """Bound on ``|g|/(L lam) + log det ratio`` over all records and points: ``1/lam + R``, or its joint maximum over t.

        ``max_t t/lam + log(1 + t (1 - t) x^2/Delta)`` is concave in t; its stationary point solves a quadratic, and at
        Delta >= lam x^2 lies beyond t = 1, where the Hessian costs nothing. With ``1 - t^2`` of `largest` in the logarithm the same holds
        from Delta >= 2 r lam largest on.
        """
        if self.saturating:
            scaled = regularization / self.largest
            force = self.rank * noise_multiplier
            t = min((1.0 + scaled) / (math.hypot(force, math.sqrt(1.0 + scaled)) + force), 1.0)
            return t / noise_multiplier + self.rank * math.log1p((1.0 - t * t) / scaled)
        if not self.logistic:
            return 1.0 / noise_multiplier + self.log_determinant(regularization)
        scaled = regularization / (4.0 * self.largest)
        t = 0.5 * (1.0 - 2.0 * noise_multiplier + math.hypot(2.0 * noise_multiplier, math.sqrt(1.0 + 4.0 * scaled)))
        t = min(max(t, 0.5), 1.0)
        return t / noise_multiplier + math.log1p(t * (1.0 - t) / scaled)


@final
@dataclass(frozen=True)
class PureCost:
    """b with density proportional to ``e^{-|b|/(L lam)}``, and output noise that costs `output` in epsilon.

    Any norm will do, if L bounds the gradients in it: ``log nu(b)/nu(b + g) <= |g|/(L lam)`` is the triangle inequality.

    Add-or-remove and zero-out: ``eps = M + output``, ``M = max (|g|/(L lam) + R)``. Replace-one, with the common part of the data between:
    ``eps = M + 1/lam + output``, less than twice, since R is paid once.

    Guarantee
    ---------
    Pure epsilon. Under add-or-remove the log-ratio lies in [-1/lam, M], so its range is ``M + 1/lam + 2 output``: composition may use that.
    """

    noise_multiplier: float
    regularization: float
    curvature: Curvature
    output: float
    relation: Adjacency

    @property
    def epsilon(self) -> float:
        """The pure epsilon."""
        return self._largest + self.output + (1.0 / self.noise_multiplier if self.relation is Adjacency.REPLACE_ONE else 0.0)

    @property
    def _largest(self) -> float:
        return self.curvature.pure(self.noise_multiplier, self.regularization)

    def guarantee(self) -> Guarantee:
        """`PureDP`, with the bounded range beside it where that is the smaller one for many."""
        spent = math.nextafter(self.epsilon * (1.0 + 1e-15), math.inf)
        if self.relation is Adjacency.REPLACE_ONE:
            return PureDP(spent)
        reach = (self._largest + 1.0 / self.noise_multiplier + 2.0 * self.output) * (1.0 + 1e-15)
        return BestOf(PureDP(spent), ExponentialMechanism(reach)) if 1e-8 <= reach < min(2.0 * spent, 700.0) else PureDP(spent)

    @staticmethod
    def noise(epsilon: float, regularization: float, curvature: Curvature, relation: Adjacency) -> float:
        """The least lam whose cost, the output's not counted, is epsilon; inf where the Hessian alone costs that much."""
        if curvature.log_determinant(regularization) >= epsilon:
            return math.inf

        def excess(log_lam: float) -> float:
            return PureCost(math.exp(log_lam), regularization, curvature, 0.0, relation).epsilon - epsilon

        low = -math.log(epsilon)  # the slope alone costs 1/lam or more
        high = low + 1.0
        while excess(high) > 0.0:
            high += 2.0
            if high > low + 80.0:
                return math.inf
        found = brentq(excess, low, high, xtol=1e-14, rtol=1e-14) if excess(low) > 0.0 else low
        return math.exp(found) * (1.0 + 1e-12)


@final
@dataclass(frozen=True)
class GaussianCost:
    """b ~ N(0, s^2 I), mu = L/s, and Gaussian output noise of parameter mu_o, for losses of x . theta.

    Where g is a multiple of one vector u of the record (one output, or two classes), ``log nu(b)/nu(b + g)`` is convex in the
    multiple, so it is at most its larger end, at +-L u: Gaussian losses of parameter mu. So for eps >= R

        delta(eps) <= sum_k w_k delta_Gauss(sqrt(mu_k^2 + mu_o^2); eps - R)

    with (w, mu_k) = (2, mu) in general, and (1, mu), (1, 0) where the slope has one sign, as the logistic loss has. Under replace-one
    the four ends are sums of two vectors with |v|^2 + |v'|^2 <= 4 mu^2: (2, 2 mu), (2, sqrt 2 mu), and for one sign (1, 2 mu),
    (2, mu), (1, 0). In Renyi terms, order a, P holding the record

        D_a <= R + mu^2/2 + log E e^{(a-1) mu chi_k}/(a-1) + a mu_o^2/2,

    chi_k the norm of a normal vector in the span of g: k = 1 above, K - 1 for K classes; without R in the other direction; with 2 mu for
    mu under replace-one (Cauchy-Schwarz). For one sign under add-or-remove ``log(Phi(-mu/2) + e^{a(a-1)mu^2/2} Phi((a-1/2) mu))/(a-1)``
    takes the place of the two terms after R.

    Guarantee
    ---------
    All of it is proved by the lines above, and at any Delta > 0; RKW23 states the case k = 1, two-sided, with -log(1 - beta/Delta) for R.
    """

    mu: float
    log_determinant: float
    output: float
    span: int
    one_signed: bool
    relation: Adjacency

    @property
    def _ends(self) -> tuple[tuple[float, float], ...]:
        ends: tuple[tuple[float, float], ...]
        if self.relation is Adjacency.REPLACE_ONE:
            ends = ((1.0, 2.0), (2.0, 1.0), (1.0, 0.0)) if self.one_signed else ((2.0, 2.0), (2.0, math.sqrt(2.0)))
        else:
            ends = ((1.0, 1.0), (1.0, 0.0)) if self.one_signed else ((2.0, 1.0),)
        return tuple((w, math.hypot(c * self.mu, self.output)) for w, c in ends)

    def delta(self, epsilon: Any) -> Array:
        """The curve at epsilon >= R, for span 1."""
        above = np.asarray(epsilon, dtype=float) - self.log_determinant
        weight, mu = np.array([(w, m) for w, m in self._ends if m > 0.0]).T
        total = np.exp(np.asarray(gaussian_log_delta(above[..., None], mu))) @ weight
        return np.asarray(np.where(above < 0.0, 1.0, np.minimum(total * ROUNDED, 1.0)))

    def sketch(self, epsilon: float) -> float:
        """log delta to a few digits, in a tenth of the time: to choose by, never to claim."""
        above = epsilon - self.log_determinant
        total = 0.0
        for weight, mu in self._ends:
            if mu > 0.0:
                up, down = float(log_ndtr(0.5 * mu - above / mu)), float(log_ndtr(-0.5 * mu - above / mu))
                total += weight * math.exp(up) * max(-math.expm1(min(above + down - up, 0.0)), 0.0)
        return math.log(max(total, 1e-300))

    def rdp(self, order: Any) -> Any:
        """D_a, over both directions the larger."""
        a = np.asarray(order, dtype=float)
        if self.one_signed and self.relation is not Adjacency.REPLACE_ONE:
            rest, up = log_ndtr(-self.mu / 2.0), 0.5 * a * (a - 1.0) * self.mu**2 + log_ndtr((a - 0.5) * self.mu)
            term = np.logaddexp(rest, up) / (a - 1.0)
        else:
            mu = 2.0 * self.mu if self.relation is Adjacency.REPLACE_ONE else self.mu
            term = _two_sided(a, mu) if self.span == 1 else 0.5 * mu * mu + log_chi_moment((a - 1.0) * mu, self.span) / (a - 1.0)
        return (self.log_determinant + np.maximum(term, 0.0) + 0.5 * a * self.output**2)[()]

    def epsilon(self, delta: float) -> float:
        """Of the Renyi bound alone, at the best of a grid of orders (CKS20)."""
        a = ORDERS
        return float(np.min(self.rdp(a) + np.log1p(-1.0 / a) - (math.log(delta) + np.log(a)) / (a - 1.0)))

    def guarantee(self, through: float | None = None) -> Guarantee:
        """The curve, exact at epsilon = `through`, and the Renyi bound beside it for composition."""
        return _tabulated(self, through)

    def table(self, through: float | None) -> Guarantee:
        """The guarantee, made anew."""
        renyi = RenyiBound.from_function(_Orders(self))
        if self.span > 1:
            return renyi
        largest = max(mu for _, mu in self._ends)
        far = self.log_determinant + largest * (39.0 + 0.5 * largest)
        grid = self.log_determinant + (far - self.log_determinant) * np.linspace(0.0, 1.0, POINTS) ** 2
        grid = np.unique(grid if through is None else np.append(grid, through))
        grid = grid[(grid >= self.log_determinant) & (grid <= 700.0)]
        if not grid.size:
            return renyi
        points = np.minimum.accumulate(self.delta(grid))
        return BestOf(CurvePair(tuple(grid.tolist()), tuple(points.tolist()), relation=str(self.relation), upper_bound=True), renyi)


@lru_cache(maxsize=64)
def _tabulated(cost: GaussianCost, through: float | None) -> Guarantee:
    return cost.table(through)


@final
@dataclass(frozen=True)
class _Orders:
    """A cost as a function of the order, equal where the costs are."""

    cost: GaussianCost

    def __call__(self, order: float) -> float:
        return float(self.cost.rdp(order))


def log_chi_moment(t: Any, k: int) -> Array:
    """log E e^{t chi_k}, t >= 0: of ``I_k = int x^{k-1} e^{tx - x^2/2}``, with I_k = t I_{k-1} + (k-2) I_{k-2}, all terms positive."""
    t = np.asarray(t, dtype=float)
    log_first = 0.5 * math.log(2.0 * math.pi) + 0.5 * t * t + log_ndtr(t)
    if k == 1:
        return np.asarray(log_first - 0.5 * math.log(0.5 * math.pi))
    with np.errstate(divide="ignore"):
        log_t = np.log(t)
    before, found = log_first, np.logaddexp(0.0, log_t + log_first)
    for j in range(3, k + 1):
        before, found = found, np.logaddexp(log_t + found, math.log(j - 2.0) + before)
    return np.asarray(found - (0.5 * k - 1.0) * math.log(2.0) - gammaln(0.5 * k))


def largest_mu(cost: Callable[[float], GaussianCost], epsilon: float, delta: float, precision: float = 1e-12) -> float:
    """The largest mu at which the cost keeps (epsilon, delta), to a relative `precision` below it; 0 where none does.

    From a precision of 1e-3 up it is a sketch, and may be above by that much.
    """
    rough = precision >= 1e-3

    def spent(log_mu: float) -> float:
        found = cost(math.exp(log_mu))
        if found.span > 1:
            return found.epsilon(delta) - epsilon
        if rough:
            return found.sketch(epsilon) - math.log(delta)
        return math.log(max(float(found.delta(epsilon)), 1e-300)) - math.log(delta)

    if cost(1.0).log_determinant >= epsilon:
        return 0.0
    left = epsilon - cost(1.0).log_determinant
    high = math.log(left / math.sqrt(2.0 * max(-math.log(delta), 0.1)))  # near the answer
    while spent(high) <= 0.0:
        high += 1.0
    low = high - 1.0
    while spent(low) > 0.0:
        low -= 1.0
        if low < high - 60.0:
            return 0.0
    return math.exp(brentq(spent, low, high, xtol=precision, rtol=1e-14) - 2.0 * precision)
