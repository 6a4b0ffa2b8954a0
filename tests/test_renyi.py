"""The Renyi face: K on the real line against quadrature and closed forms, and the three conversions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from helpers import ONE_STEP, PAIRS, masses
from mpmath import mp
from scipy.integrate import quad
from scipy.stats import norm

from dpaccount.bestof import BestOf
from dpaccount.conversions import CONVERSIONS
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.pair import DominatingPair
from dpaccount.renyi import RenyiBound, pair_rdp
from dpaccount.results import Status
from dpaccount.sampling.poisson import PoissonSampled

ORDERS = (1.001, 1.5, 2.0, 8.0, 33.0)


def rdp(pair: DominatingPair, order: float) -> float:
    """D_a of the ordered pair itself (a profile would take the better zCDP of an exponential mechanism)."""
    return float(pair_rdp(pair, order))


def by_tails(name: str, order: float) -> float:
    """From the tails alone: E_P e^{zL} = 1 + integral of z e^{zl} P[L > l] over l > 0, less that of z e^{zl} P[L <= l] below."""
    step, z = ONE_STEP[name], order - 1
    low, high = step.loss_range
    low, high = max(low, -400.0), min(high, 400.0)

    def above(loss: float) -> float:
        return z * math.exp(z * loss + float(step.tails(np.array(loss)).p_above))

    def below(loss: float) -> float:
        return z * math.exp(z * loss + float(step.tails(np.array(loss)).p_below))

    upper = quad(above, 0, high, epsabs=0, epsrel=1e-11, limit=600)[0] if high > 0 else 0.0
    lower = quad(below, low, 0, epsabs=1e-16, epsrel=1e-11, limit=600)[0] if low < 0 else 0.0
    return math.log1p(upper - lower) / z


SMOOTH = ("gaussian 1.3", "laplace .8", "exponential", "exponential .05", "sampled laplace", "sampled exponential")


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
@pytest.mark.parametrize("name", SMOOTH)
def test_renyi_agrees_with_the_tails(name: str, order: float) -> None:
    """The layer-cake formula shares no code with K: the tails are mapped exactly under sampling."""
    assert rdp(ONE_STEP[name], order) == pytest.approx(by_tails(name, order), rel=1e-7)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("sigma", "q"), [(0.6, 0.01), (2.0, 0.3)])
def test_sampled_gaussian_against_quadrature(sigma: float, q: float, order: float, reverse: bool) -> None:
    def exponent(x: float) -> float:
        base = norm.logpdf(x, 0, sigma)
        mixture = np.logaddexp(math.log1p(-q) + base, math.log(q) + norm.logpdf(x, 1, sigma))
        first, second = (base, mixture) if reverse else (mixture, base)
        return float(order * first + (1 - order) * second)

    breaks = [-15 * sigma, 0.0, 0.5, 1.0, order / 2, order, order + 15 * sigma]
    peak = max(exponent(x) for x in np.linspace(breaks[0], breaks[-1], 400))
    total = sum(
        quad(lambda x: math.exp(exponent(x) - peak), a, b, epsabs=0, epsrel=1e-12, limit=400)[0]
        for a, b in itertools.pairwise(sorted(breaks))
    )
    step = PoissonSampled(Gaussian(sigma), q)
    found = rdp(step.reversed() if reverse else step, order)
    absolute = 1e-12 / (order - 1)  # the quadrature's own error, near order 1
    assert found == pytest.approx((peak + math.log(total)) / (order - 1), rel=1e-9, abs=absolute)


@pytest.mark.parametrize("order", ORDERS)
def test_closed_forms(order: float) -> None:
    a, e, k = order, 1.1, 7
    assert rdp(Gaussian(1.3), a) == pytest.approx(a / (2 * 1.3**2), rel=1e-12)
    r = 1 / 0.8
    laplace = math.log(a / (2 * a - 1) * math.exp((a - 1) * r) + (a - 1) / (2 * a - 1) * math.exp(-a * r)) / (a - 1)
    assert rdp(Laplace(0.8), a) == pytest.approx(laplace, rel=1e-10)
    w = np.array([math.exp(e), 1.0] + [1.0] * (k - 2))
    p, q = w / w.sum(), np.array([w[1], w[0], *w[2:]]) / w.sum()
    assert rdp(RandomizedResponse(e, k), a) == pytest.approx(math.log(float((p**a * q ** (1 - a)).sum())) / (a - 1), rel=1e-10)
    v = a - 0.5
    bounded = math.log(math.sinh(1.5 * v) / (2 * v * math.sinh(0.75))) / (a - 1)  # DDR20, Theorem 2
    assert rdp(ExponentialMechanism(1.5), a) == pytest.approx(bounded, rel=1e-10)


@pytest.mark.parametrize("name", {n: p for n, p in PAIRS.items() if masses(p)[0] == 0.0})
def test_renyi_grows_with_the_order(name: str) -> None:
    values = [rdp(PAIRS[name], order) for order in ORDERS]
    assert all(a <= b * (1 + 1e-9) + 1e-13 for a, b in itertools.pairwise(values))
    assert all(v >= 0 for v in values)


@pytest.mark.parametrize("name", ["approximate", "finite with infinities", "sampled approximate", "sampled no noise", "no noise"])
def test_mass_at_infinity_makes_every_order_infinite(name: str) -> None:
    assert rdp(PAIRS[name], 2.0) == math.inf


def test_renyi_curve_is_the_larger_direction_and_takes_arrays() -> None:
    step = PoissonSampled(Gaussian(0.6), 0.1)
    found = PrivacyProfile(step).renyi(order=[1.5, 2.0, 8.0])
    assert found.estimate.shape == (3,)
    for order, value in zip((1.5, 2.0, 8.0), found.estimate, strict=True):
        assert value == max(rdp(step, order), rdp(step.reversed(), order))
    assert np.all(found.lower <= found.estimate)
    assert np.all(found.estimate <= found.upper)


# Conversions


@pytest.mark.parametrize("sigma", [0.4, 1.0, 5.0, 100.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 1e-2, 0.4])
def test_conversions_are_ordered_and_above_the_exact_curve(sigma: float, delta: float) -> None:
    bound = RenyiBound.zcdp(1 / (2 * sigma**2))
    value = {c: PrivacyProfile(bound, conversion=c).epsilon(delta=delta).upper for c in CONVERSIONS}
    exact = PrivacyProfile(Gaussian(sigma)).epsilon(delta=delta).lower
    assert exact * (1 - 1e-12) <= value["optimal"] <= value["improved"] * (1 + 1e-12)
    assert value["improved"] <= value["mironov"] * (1 + 1e-12)


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_conversion_to_delta_inverts_the_one_to_epsilon(conversion: str) -> None:
    profile = PrivacyProfile(RenyiBound.zcdp(0.5), conversion=conversion)
    for delta in (1e-8, 1e-3):
        epsilon = profile.epsilon(delta=delta)
        assert profile.delta(epsilon=epsilon.upper).estimate == pytest.approx(delta, rel=1e-6)
        assert profile.delta(epsilon=epsilon.upper).estimate <= delta * (1 + 1e-6)


@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize("epsilon", [-2.0, 0.0, 0.5, 4.0])
def test_converted_delta_is_a_bound(conversion: str, epsilon: float) -> None:
    found = PrivacyProfile(RenyiBound.zcdp(0.5), conversion=conversion).delta(epsilon=epsilon)
    assert PrivacyProfile(Gaussian(1.0)).delta(epsilon=epsilon).lower <= found.upper <= 1.0
    assert 0.0 <= found.lower <= found.estimate <= found.upper


def test_mironov_has_a_closed_form() -> None:
    """rho + 2 sqrt(rho log(1/delta)) for rho-zCDP."""
    for rho, delta in ((0.01, 1e-6), (0.5, 1e-5), (3.0, 0.01)):
        found = PrivacyProfile(RenyiBound.zcdp(rho), conversion="mironov").epsilon(delta=delta)
        assert found.estimate == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1 / delta)), rel=1e-11)


def test_optimal_conversion_holds_for_random_two_point_pairs() -> None:
    """Any pair with D_a <= rho at one order lies below; 40 random pairs, seeded, with rho their own D_a."""
    rng = np.random.default_rng(11)
    for _ in range(40):
        p, q = rng.uniform(0.001, 0.999, 2)
        order = float(rng.uniform(1.2, 12))
        pair = FinitePair((p, 1 - p), (q, 1 - q))
        table = RenyiBound.from_table([order], [rdp(pair, order)])
        delta = float(np.exp(rng.uniform(-10, -1)))
        truth = PrivacyProfile(pair, "as-written").epsilon(delta=delta).lower
        for conversion in CONVERSIONS:
            assert PrivacyProfile(table, conversion=conversion).epsilon(delta=delta).upper >= truth * (1 - 1e-9)


@pytest.mark.parametrize("rho", [1e-8, 1e-3, 0.5, 20.0, 1e4])
@pytest.mark.parametrize("delta", [0.5, 1e-3, 1e-16, 1e-30, 1e-100, 1e-300])
def test_optimal_conversion_stays_above_the_gaussian_that_attains_zcdp(rho: float, delta: float) -> None:
    """A Gaussian of mu = sqrt(2 rho) is rho-zCDP; its curve is Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""
    mu = math.sqrt(2 * rho)

    def truth(epsilon: float) -> float:
        first, second = norm.logcdf(mu / 2 - epsilon / mu), epsilon + norm.logcdf(-mu / 2 - epsilon / mu)
        return float(first + np.log1p(-np.exp(min(second - first, 0.0))))

    optimal, improved = (PrivacyProfile(RenyiBound.zcdp(rho), conversion=c) for c in ("optimal", "improved"))
    epsilon = optimal.epsilon(delta=delta).upper
    assert truth(epsilon) <= math.log(delta) * (1 - 1e-12)
    assert epsilon <= improved.epsilon(delta=delta).upper * (1 + 1e-12)
    if epsilon > 0:
        log_delta = optimal.log_delta(epsilon=epsilon).upper
        assert log_delta == pytest.approx(math.log(delta), abs=1e-6)
        assert truth(epsilon) <= log_delta <= improved.log_delta(epsilon=epsilon).upper + 1e-9 * abs(log_delta)


@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-9, 1e-25])
@pytest.mark.parametrize(("order", "rho"), [(1.5, 0.2), (4.0, 2.0), (30.0, 0.01), (200.0, 3.0)])
def test_optimal_conversion_at_one_order_is_the_largest_of_all_two_point_pairs(order: float, rho: float, delta: float) -> None:
    """Against a fine grid of p with the least q by bisection in multiple precision."""
    b = mp.mpf(order) - 1
    target = mp.exp(b * mp.mpf(rho))

    def least_log_q(p: mp.mpf) -> mp.mpf:
        low, high = (mp.log(p) * order - b * rho) / b - 1, mp.log(p)
        for _ in range(90):
            q = mp.exp((low + high) / 2)
            low, high = (low, mp.log(q)) if p**order * q**-b + (1 - p) ** order * (1 - q) ** -b <= target else (mp.log(q), high)
        return high

    def value(t: float) -> float:
        gain = (1 - mp.mpf(delta)) / (1 + mp.exp(-t))
        return float(mp.log(gain) - least_log_q(delta + gain))

    with mp.workdps(40):
        centre, reach = 0.5 * (math.log(delta) + 2.0), 0.5 * (2.0 - math.log(delta)) + 12.0
        for _ in range(7):
            grid = np.linspace(centre - reach, centre + reach, 17)
            values = [value(float(t)) for t in grid]
            centre, reach = float(grid[int(np.argmax(values))]), reach / 5
    found = PrivacyProfile(RenyiBound.from_table([order], [rho]), conversion="optimal").epsilon(delta=delta).upper
    assert found >= max(values) * (1 - 1e-14)
    if max(values) > 0 and PrivacyProfile(RenyiBound.from_table([order], [rho])).epsilon(delta=delta).status is Status.ORDER_GRID_END:
        assert found <= max(max(values), 0.0) + 1e-6


def test_conversions_go_below_the_smallest_double() -> None:
    """rho + 2 sqrt(rho log(1/delta)) at delta = e^-100000; the exact Gaussian lies below all three."""
    exact = PrivacyProfile(Gaussian(1.0)).epsilon(log_delta=-1e5).lower
    for conversion in CONVERSIONS:
        found = PrivacyProfile(RenyiBound.zcdp(0.5), conversion=conversion).epsilon(log_delta=-1e5)
        assert exact <= found.upper <= 0.5 + 2 * math.sqrt(0.5e5) + 1e-9


def test_a_renyi_bound_with_a_pair_keeps_the_pairs_infinite_loss() -> None:
    assert PrivacyProfile(RenyiBound.zcdp(0.5) + ApproximateDP(0.1, 0.01)).delta(epsilon=math.inf).upper >= 0.01
    found = PrivacyProfile(RenyiBound.zcdp(0.5)).delta(epsilon=math.inf)
    assert found.lower == found.upper == 0.0


# Tables, functions, sums


def test_a_table_is_exact_at_its_orders_and_above_the_truth_between() -> None:
    orders = [1.5, 2.0, 4.0, 16.0, 64.0]
    step = PoissonSampled(Gaussian(1.0), 0.1)
    table = RenyiBound.from_table(orders, [rdp(step, a) for a in orders])
    for a in orders:
        assert table.rdp(a) == rdp(step, a)
    for a in (1.2, 1.7, 3.0, 9.0, 40.0):
        assert table.rdp(a) >= rdp(step, a) * (1 - 1e-12)
    assert table.rdp(65.0) == math.inf


def test_sums_of_bounds_and_pairs() -> None:
    step = PoissonSampled(Gaussian(1.0), 0.1)
    total = 3 * RenyiBound.zcdp(0.1) + 10 * step + RenyiBound.zcdp(0.2)
    for a in ORDERS:
        both = max(rdp(step, a), rdp(step.reversed(), a))
        assert total.rdp(a) == pytest.approx(0.5 * a + 10 * both, rel=1e-12)
    assert step + RenyiBound.zcdp(0.1) == RenyiBound.zcdp(0.1) + step
    assert 2 * (step + RenyiBound.zcdp(0.1)) == (step + RenyiBound.zcdp(0.1)) * 2


def test_a_function_may_end_at_an_order() -> None:
    whole = RenyiBound.from_function(lambda a: a / 2)
    cut = RenyiBound.from_function(lambda a: a / 2, max_order=3.0)
    assert PrivacyProfile(whole).epsilon(delta=1e-5).estimate == pytest.approx(4.7283869849433139, rel=1e-9)
    found = PrivacyProfile(cut).epsilon(delta=1e-5)
    assert found.status is Status.ORDER_GRID_END
    assert found.estimate == pytest.approx(1.5 + math.log(2 / 3) - (math.log(1e-5) + math.log(3)) / 2, rel=1e-12)
    assert cut.rdp(3.1) == math.inf


@pytest.mark.parametrize("adjacency", ["add-or-remove", "replace-one", "zero-out"])
def test_pair_part_of_a_bound_follows_the_relation(adjacency: str) -> None:
    free = RenyiBound.zcdp(0.0) + Gaussian(2.0)
    scale = 4.0 if adjacency == "replace-one" else 1.0
    assert free.rdp(2.0, adjacency) == pytest.approx(scale * 2 / (2 * 2.0**2), rel=1e-12)
    exact = PrivacyProfile(Gaussian(2.0), adjacency).epsilon(delta=1e-5)
    assert PrivacyProfile(free, adjacency).epsilon(delta=1e-5).upper >= exact.lower


# Several guarantees for one release


def test_best_of_takes_the_least_upper_bound_at_every_question() -> None:
    options = (PureDP(0.1), RenyiBound.zcdp(0.1**2 / 2))
    for times in (1, 10, 1000):
        best = PrivacyProfile(times * BestOf(*options)).epsilon(delta=1e-6)
        each = [PrivacyProfile(times * option).epsilon(delta=1e-6) for option in options]
        assert best.upper == min(e.upper for e in each)
        assert best.lower <= best.estimate <= best.upper
    assert float(PrivacyProfile(BestOf(*options)).epsilon(delta=0.0)) == pytest.approx(0.1, rel=1e-12)


def test_exponential_mechanism_is_its_pair_for_few_picks_and_zcdp_for_many() -> None:
    few = PrivacyProfile(2 * ExponentialMechanism(1.0)).epsilon(delta=1e-6)
    assert few.upper < PrivacyProfile(2 * RenyiBound.zcdp(1 / 8)).epsilon(delta=1e-6).upper
    many = PrivacyProfile(10_000 * ExponentialMechanism(0.01)).epsilon(delta=1e-6)
    assert many.upper <= PrivacyProfile(RenyiBound.zcdp(10_000 * 0.01**2 / 8)).epsilon(delta=1e-6).upper
