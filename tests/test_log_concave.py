"""Strongly log-concave laws under a Lipschitz change, the regularised exponential mechanism, and draws that are only close."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr, ndtri

from dpaccount import (
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PrivacyProfile,
    RegularizedExponentialMechanism,
    StronglyLogConcave,
    UnsupportedAdjacency,
    approximate_draw,
    from_json,
    to_json,
)
from dpaccount._log import gaussian_log_delta
from dpaccount.regularized import RULES, sufficient_parameter

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
EPSILON = np.array([-2.0, -0.5, -0.1, 0.0, 0.1, 0.5, 1.0, 2.0])
Function = Callable[[np.ndarray], np.ndarray]


class Case(NamedTuple):
    """e^{-F} against e^{-(F + a)} on an interval, F mu-strongly convex and a G-Lipschitz, both smooth between the kinks."""

    potential: Function
    change: Function
    strong_convexity: float
    lipschitz: float
    low: float
    high: float
    kinks: Sequence[float]


def case(seed: int) -> Case:
    """F = mu x^2/2 and a convex function with kinks; a piecewise smooth, anything but convex."""
    rng = np.random.default_rng(seed)
    mu, lipschitz = float(rng.uniform(0.2, 4.0)), float(rng.uniform(0.1, 3.0))
    centres, weights = rng.normal(0.0, 1.0, 3), rng.uniform(0.0, 2.0, 3)
    knots = np.sort(rng.normal(0.0, 1.5, 2))
    waves, phases = rng.uniform(0.3, 4.0, 2), rng.uniform(0.0, 6.0, 2)
    shares = rng.dirichlet(np.ones(4)) * rng.choice([-1.0, 1.0], 4)
    room = 12.0 / math.sqrt(mu) + 2.0
    low, high = (-room, room) if seed % 2 else (float(rng.uniform(-1.5, -0.2)), float(rng.uniform(0.2, 1.5)))

    def potential(x: np.ndarray) -> np.ndarray:
        kinked = sum(w * np.abs(x - c) for w, c in zip(weights[:2], centres, strict=False))
        return mu * x * x / 2 + kinked + weights[2] * np.logaddexp(0.0, 3.0 * (x - centres[2]))

    def change(x: np.ndarray) -> np.ndarray:
        bent = np.log(np.cosh(waves[1] * (x - knots[1]))) / waves[1]
        parts = (x, np.abs(x - knots[0]), np.sin(waves[0] * x + phases[0]) / waves[0], bent)
        return lipschitz * sum(s * part for s, part in zip(shares, parts, strict=True))

    return Case(potential, change, mu, lipschitz, low, high, (*centres[:2], knots[0]))


class Exact:
    """The two laws by quadrature: composite Gauss-Legendre between the kinks and between the crossings of p and gamma q."""

    def __init__(self, of: Case) -> None:
        self.of = of
        self.log_p = self.log_q = 0.0
        x, w = self.rule([])
        f, g = of.potential(x), of.potential(x) + of.change(x)
        self.log_p, self.log_q = (math.log(float(w @ np.exp(-(v - v.min())))) - v.min() for v in (f, g))

    def rule(self, breaks: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        of = self.of
        inside = [b for b in (*of.kinks, *breaks) if of.low < b < of.high]
        ends = np.unique(np.concatenate([np.linspace(of.low, of.high, 161), inside]))
        half = np.diff(ends)[:, None] / 2
        return (ends[:-1, None] + half * (NODES + 1)).ravel(), (half * WEIGHTS).ravel()

    def loss(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(self.of.change(x) - self.log_p + self.log_q)

    def densities(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        f = self.of.potential(x)
        return np.exp(-f - self.log_p), np.exp(-f - self.of.change(x) - self.log_q)

    def test(self, epsilon: float) -> tuple[float, float]:
        """P and Q of the event L > epsilon."""
        inside = [k for k in self.of.kinks if self.of.low < k < self.of.high]
        grid = np.unique(np.concatenate([np.linspace(self.of.low, self.of.high, 4001), inside]))
        above = self.loss(grid) > epsilon
        edges = []
        for left, right in [pair for pair, flip in zip(pairwise(grid), above[1:] != above[:-1], strict=True) if flip]:
            a, b, up = left, right, bool(self.loss(np.array(right)) > epsilon)
            for _ in range(60):
                middle = (a + b) / 2
                a, b = (a, middle) if bool(self.loss(np.array(middle)) > epsilon) is up else (middle, b)
            edges.append((a + b) / 2)
        x, w = self.rule(edges)
        p, q = self.densities(x)
        inside = self.loss(x) > epsilon
        return float(w[inside] @ p[inside]), float(w[inside] @ q[inside])


@pytest.mark.parametrize("seed", range(50))
def test_the_exact_trade_off_lies_above_the_gaussian_one(seed):
    """Theorem 4.1, for changes that need not be convex, in both directions, by every likelihood-ratio test on a grid."""
    of = case(seed)
    law, exact = StronglyLogConcave(of.lipschitz, of.strong_convexity), Exact(of)
    for epsilon in np.linspace(-1.5, 1.5, 13) * law.mu**2 / 2 + np.linspace(-2, 2, 13) * law.mu:
        p, q = exact.test(float(epsilon))
        for alpha, beta in ((q, 1 - p), (1 - p, q)):
            if 0.0 < alpha < 1.0:
                assert beta >= ndtr(-ndtri(alpha) - law.mu) - 1e-11
        assert p - math.exp(epsilon) * q <= math.exp(gaussian_log_delta(epsilon, law.mu)) + 1e-12


@pytest.mark.parametrize(("mu", "lipschitz"), [(1.0, 1.0), (0.3, 2.0), (7.0, 0.5)])
def test_linear_changes_of_quadratics_attain_it(mu, lipschitz):
    room = 14.0 / math.sqrt(mu) + lipschitz / mu
    exact = Exact(Case(lambda x: mu * x * x / 2, lambda x: lipschitz * x, mu, lipschitz, -room, room, ()))
    law = StronglyLogConcave(lipschitz, mu)
    profile = PrivacyProfile(law.pair)
    for epsilon in EPSILON:
        p, q = exact.test(float(epsilon))
        assert p - math.exp(epsilon) * q == pytest.approx(float(profile.delta(epsilon=epsilon)), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("seed", range(0, 50, 5))
def test_what_follows_from_it_holds_too(seed):
    of = case(seed)
    law, exact = StronglyLogConcave(of.lipschitz, of.strong_convexity), Exact(of)
    x, w = exact.rule([])
    (p, q), loss = exact.densities(x), exact.loss(x)
    assert w @ (p * loss) <= law.kl + 1e-12
    assert w @ (q * -loss) <= law.kl + 1e-12
    for order in (1.5, 2.0, 8.0):
        for a, b in ((p, q), (q, p)):
            with np.errstate(divide="ignore", under="ignore"):
                found = math.log(w @ np.exp(order * np.log(a) + (1 - order) * np.log(b))) / (order - 1)
            assert found <= law.renyi(order) + 1e-11
    assert w @ np.maximum(p - q, 0.0) <= law.total_variation + 1e-9
    cumulated = [np.cumsum(w * density) for density in (p, q)]
    level = (np.arange(4000) + 0.5) / 4000
    quantiles = [np.interp(level, c, x) for c in cumulated]
    assert math.sqrt(np.mean((quantiles[0] - quantiles[1]) ** 2)) <= law.wasserstein * (1 + 1e-3) + 1e-3
    value, mean = of.change(x), w @ (p * of.change(x))
    order = np.argsort(value)
    above = value[order][np.searchsorted(np.cumsum((w * p)[order]), 0.5 + 1e-6)]  # the least node that is no lower than the median
    for t in np.array([0.1, 0.5, 1.0, 2.0]) * law.mu:
        assert (w * p)[value - mean >= t].sum() <= law.deviation(t) + 1e-6
        assert (w * p)[value - above >= t].sum() <= law.deviation(t, around="median") + 1e-6


def test_a_law_that_is_less_convex_than_stated_would_be_caught():
    caught = 0
    for seed in range(1, 50, 2):
        of = case(seed)
        exact, narrow = Exact(of), StronglyLogConcave(of.lipschitz, 9 * of.strong_convexity).mu
        p, q = exact.test(0.1)
        caught += p - math.exp(0.1) * q > math.exp(gaussian_log_delta(0.1, narrow)) + 1e-9
    assert caught >= 1
    exact = Exact(Case(lambda x: x * x / 2, lambda x: x, 1.0, 1.0, -15.0, 15.0, ()))
    p, q = exact.test(0.1)
    assert p - math.exp(0.1) * q > math.exp(gaussian_log_delta(0.1, StronglyLogConcave(1.0, 1.1).mu)) + 1e-3


# the mechanism

ASKED = {"epsilon": 1.0, "delta": 1e-6, "lipschitz": 2.0, "num_records": 1000, "dimension": 10, "diameter": 2.0}


def test_calibration_values():
    """From the project's mathematical notes, section 5, before any code existed."""
    assert sufficient_parameter(1.0, 1e-6) == pytest.approx(0.191616076940499186, rel=1e-14)
    assert sufficient_parameter(1.0, 2e-6 / 3) == pytest.approx(0.188824689990397070, rel=1e-14)
    assert RegularizedExponentialMechanism.for_empirical_risk(**ASKED).pair.mu == pytest.approx(0.23670438066343571, rel=1e-12)
    rough = RegularizedExponentialMechanism.for_empirical_risk(**ASKED, rule="sufficient")
    assert rough.pair.mu == pytest.approx(0.191616076940499186, rel=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["empirical", "population"])
@pytest.mark.parametrize("epsilon", [0.05, 0.09])
def test_every_choice_is_private(rule, kind, epsilon):
    make = getattr(RegularizedExponentialMechanism, f"for_{kind}_risk")
    for rho in (0.0, 0.2, 5.0):
        found = make(**{**ASKED, "epsilon": epsilon}, rule=rule, strong_convexity=rho)
        assert float(PrivacyProfile(found.pair, "replace-one").delta(epsilon=epsilon)) <= ASKED["delta"]
        assert found.regularization + found.strong_convexity >= rho


@pytest.mark.parametrize("kind", ["empirical", "population"])
@pytest.mark.parametrize("rho", [0.0, 0.05, 1.0])
def test_the_exact_choice_has_the_least_bound(kind, rho):
    best = getattr(RegularizedExponentialMechanism, f"for_{kind}_risk")(**ASKED, strong_convexity=rho)
    place = {"dimension": ASKED["dimension"], "diameter": ASKED["diameter"]}
    least = getattr(best, f"{kind}_risk")(**place).total
    s, n, g = best.pair.mu, best.num_records, best.lipschitz
    for extra in np.geomspace(1e-3, 1e2, 60) - 1e-3:
        if rho + extra:
            k = (s * n / g) ** 2 * (rho + extra)
            other = RegularizedExponentialMechanism(g, n, k, float(extra), rho)
            assert getattr(other, f"{kind}_risk")(**place).total >= least * (1 - 1e-12)
    if rho == 0.0:
        d, far = ASKED["dimension"], ASKED["diameter"]
        root = math.sqrt(2 * d) / (n * s) if kind == "empirical" else math.sqrt(2 * (1 / n + d / (s * n) ** 2))
        assert least == pytest.approx(g * far * root, rel=1e-12)


def test_terms_and_the_dominant_one():
    found = RegularizedExponentialMechanism.for_population_risk(**ASKED)
    risk = found.population_risk(dimension=10, diameter=2.0)
    assert set(risk.terms) == {"sampling", "regularization", "generalization"}
    assert risk.total == pytest.approx(sum(risk.terms.values()), rel=1e-15)
    assert risk.terms[risk.dominant] == max(risk.terms.values())
    more = RegularizedExponentialMechanism.for_population_risk(**{**ASKED, "epsilon": 1e3})
    assert more.population_risk(dimension=10, diameter=2.0).terms["generalization"] == pytest.approx(
        more.population_risk(dimension=10, diameter=2.0).terms["regularization"], rel=0.05
    )


@pytest.mark.parametrize("k", [0.5, 3.0, 40.0])
def test_the_risk_bound_holds_for_mean_absolute_loss_on_an_interval(k):
    """By quadrature, on [-1, 1]: E F - min F <= d/k + r D^2/2 with |x| <= D = 1."""
    rng = np.random.default_rng(3)
    rows = rng.uniform(-1.0, 1.0, 9)
    x = np.linspace(-1.0, 1.0, 200_001)
    loss = np.mean(np.abs(x[:, None] - rows), axis=1)
    for r in (0.01, 0.5):
        weight = np.exp(-k * (loss + r * x * x / 2))
        mean = float((weight * loss).sum() / weight.sum())
        bound = RegularizedExponentialMechanism(2.0, 9, k, r).empirical_risk(dimension=1, diameter=1.0)
        assert mean - loss.min() <= bound.total


def test_one_relation_alone():
    pair = RegularizedExponentialMechanism.for_empirical_risk(**ASKED).pair
    with pytest.raises(UnsupportedAdjacency, match="replace-one"):
        PrivacyProfile(3 * pair, "add-or-remove").delta(epsilon=1.0)
    both = PrivacyProfile(2 * pair + Gaussian(4.0), "replace-one")
    alone = PrivacyProfile(Gaussian(1 / math.sqrt(2 * pair.mu**2 + 0.25)))
    assert_allclose(both.delta(epsilon=EPSILON).estimate, alone.delta(epsilon=EPSILON).estimate, rtol=1e-12)


# draws that are only close


@pytest.mark.parametrize("t", [0.0, 1e-200, 1e-9, 1e-3, 0.7, 1.0])
def test_a_close_draw_pays_for_the_distance(t):
    exact = GaussianDP(0.3)
    found = PrivacyProfile(approximate_draw(exact, t, "replace-one"), "replace-one")
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        true = float(PrivacyProfile(exact).delta(epsilon=epsilon))
        least = min(true + (1 + math.exp(epsilon)) * t, 1.0)
        level = np.linspace(0.0, epsilon, 400)  # delta never rises: what an earlier epsilon has, a later one has
        curve = np.asarray(PrivacyProfile(exact).delta(epsilon=level).estimate) + (1 + np.exp(level)) * t
        upper = float(found.delta(epsilon=epsilon))
        assert upper >= min(least, float(curve.min())) * (1 - 1e-9) or upper == 1.0
        assert upper <= least * (1 + (1e-3 if t >= 1e-30 or t == 0.0 else 1e-2))


def test_mixtures_that_are_that_far_apart_stay_below():
    """P and Q each lose a share t where it hurts most: from Q where L is large, added to P there."""
    mu, t = 0.8, 1e-3
    x = np.linspace(-12.0, 12.0 + mu, 400_001)
    q, p = (np.exp(-((x - m) ** 2) / 2) for m in (0.0, mu))
    q, p = q / q.sum(), p / p.sum()
    order = np.argsort(-x)
    left, worse_q = t, q.copy()
    for i in order:
        taken = min(left, worse_q[i])
        worse_q[i] -= taken
        left -= taken
        if left <= 0.0:
            break
    worse_q[0] += t
    worse_p = (1 - t) * p
    worse_p[-1] += t
    found = PrivacyProfile(approximate_draw(GaussianDP(mu), t, "replace-one"), "replace-one")
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        exact = float(np.maximum(worse_p - math.exp(epsilon) * worse_q, 0.0).sum())
        assert exact <= float(found.delta(epsilon=epsilon)) * (1 + 1e-6)
        assert exact >= float(PrivacyProfile(GaussianDP(mu)).delta(epsilon=epsilon)) + t / 2


@pytest.mark.parametrize("call", [
    lambda: StronglyLogConcave(-1.0, 1.0),
    lambda: StronglyLogConcave(1.0, 0.0),
    lambda: StronglyLogConcave(1.0, math.inf),
    lambda: StronglyLogConcave(1.0, 1.0, "both"),
    lambda: StronglyLogConcave(1.0, 1.0).renyi(1.0),
    lambda: StronglyLogConcave(1.0, 1.0).deviation(-1.0),
    lambda: StronglyLogConcave(1.0, 1.0).deviation(1.0, around="mode"),
    lambda: RegularizedExponentialMechanism(1.0, 10, 1.0, 0.0),
    lambda: RegularizedExponentialMechanism(1.0, 0, 1.0, 1.0),
    lambda: RegularizedExponentialMechanism(0.0, 10, 1.0, 1.0),
    lambda: RegularizedExponentialMechanism.for_empirical_risk(**{**ASKED, "epsilon": 0.0}),
    lambda: RegularizedExponentialMechanism.for_empirical_risk(**{**ASKED, "delta": 0.5}),
    lambda: RegularizedExponentialMechanism.for_empirical_risk(**ASKED, rule="best"),
    lambda: RegularizedExponentialMechanism.for_population_risk(**ASKED, rule="sufficient"),
    lambda: approximate_draw(GaussianDP(1.0), 1.5),
    lambda: approximate_draw(1.0, 0.5),
], ids=range(16))
def test_bad_input_is_refused_in_the_house_shape(call):
    from test_bad_input import SHAPE

    with pytest.raises((ValueError, TypeError), match=SHAPE):
        call()


@pytest.mark.parametrize("step", [PoissonSampled(Gaussian(1.0), 0.1), PoissonSampled(Laplace(0.9), 0.1)], ids=["gaussian", "laplace"])
def test_a_close_draw_is_no_better_proved_than_the_exact_one(step):
    exact = PrivacyProfile(step, "replace-one").delta(epsilon=1.0)
    found = approximate_draw(step, 1e-9, "replace-one")
    assert not exact.certified
    for pair in (found, 2 * found, from_json(to_json(found))):
        assert not PrivacyProfile(pair, "replace-one").delta(epsilon=1.0).certified
    sure = approximate_draw(step, 1e-9, "add-or-remove")
    assert PrivacyProfile(sure, "add-or-remove").delta(epsilon=1.0).certified


def test_parameters_are_rounded_to_the_safe_side():
    rng = np.random.default_rng(5)
    for _ in range(300):
        g, k, r, rho = (float(v) for v in np.exp(rng.uniform(-9, 9, 4)))
        n = int(rng.integers(1, 10**6))
        mu = RegularizedExponentialMechanism(g, n, k, r, rho).pair.mu
        assert Fraction(mu) ** 2 * n**2 * (Fraction(r) + Fraction(rho)) >= Fraction(g) ** 2 * Fraction(k)
        assert mu == pytest.approx(g * math.sqrt(k) / (n * math.sqrt(r + rho)), rel=1e-14)
        assert Fraction(GaussianDP(mu).attained.noise_multiplier) * Fraction(mu) <= 1


def test_extremes_neither_overflow_nor_divide_by_zero():
    law = StronglyLogConcave(1.0, 1e-16)
    assert law.renyi(1e300) == math.inf
    assert float(PrivacyProfile(GaussianDP(1e-100)).delta(epsilon=1e300)) <= 1e-300
    for kind in (RegularizedExponentialMechanism.for_empirical_risk, RegularizedExponentialMechanism.for_population_risk):
        for epsilon in (5e-324, 1e-200, 1e50):
            with pytest.raises(ValueError, match="under the paper's rule"):
                kind(epsilon=epsilon, delta=1e-5, lipschitz=2.0, num_records=100, dimension=5, diameter=1.0, rule="sufficient")
