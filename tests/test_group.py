"""Group privacy: the mixture for additive noise against direct quadrature, and the generic bound elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import binom, norm

from dpaccount.curves import group
from dpaccount.curves.group import _sampled_shifts
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.renyi import RenyiBound
from dpaccount.results import Status
from dpaccount.sampling.poisson import PoissonSampled


@pytest.mark.parametrize("size", [1, 2, 5, 40])
@pytest.mark.parametrize("adjacency", ["add-or-remove", "replace-one", "zero-out"])
def test_additive_noise_scales_with_the_group(size: int, adjacency: str) -> None:
    whole = PrivacyProfile(7 * Gaussian(20.0), adjacency).group(size)
    scaled = PrivacyProfile(7 * Gaussian(20.0 / size), adjacency)
    assert whole.delta(epsilon=0.7).estimate == pytest.approx(scaled.delta(epsilon=0.7).estimate, rel=1e-12)
    laplace = PrivacyProfile(Laplace(3.0 * size)).group(size).epsilon(delta=0.0)
    assert float(laplace) == pytest.approx(1 / 3, rel=1e-12)


def mixture_delta(sigma: float, q: float, size: int, epsilon: float, *, add: bool) -> float:
    """One step: the number of sampled group members is binomial, each moves the sum by 1; tails at the crossing."""
    j = np.arange(size + 1)
    w = binom.pmf(j, size, q)

    def loss(x: float) -> float:
        return float(logsumexp((2 * x * j - j**2) / (2 * sigma**2), b=w))

    target = -epsilon if add else epsilon
    if target <= loss(-200 * sigma):
        return 0.0 if add else 1 - math.exp(epsilon)
    x0 = brentq(lambda x: loss(x) - target, -200 * sigma, 200 * sigma, xtol=1e-13)
    mixed_above, base_above = float(w @ norm.sf((x0 - j) / sigma)), float(norm.sf(x0 / sigma))
    if add:
        return (1 - base_above) - math.exp(epsilon) * (1 - mixed_above)
    return mixed_above - math.exp(epsilon) * base_above


@pytest.mark.parametrize("epsilon", [-0.1, 0.0, 0.2, 1.0])
@pytest.mark.parametrize(("sigma", "q", "size"), [(1.0, 0.1, 2), (1.0, 0.1, 4), (2.0, 0.02, 10)])
def test_sampled_gaussian_group_against_binomial_tails(sigma: float, q: float, size: int, epsilon: float) -> None:
    truth = max(mixture_delta(sigma, q, size, epsilon, add=add) for add in (False, True))
    found = PrivacyProfile(PoissonSampled(Gaussian(sigma), q)).group(size).delta(epsilon=epsilon)
    assert found.lower <= truth * (1 + 1e-9)
    assert found.upper >= truth * (1 - 1e-9)
    assert found.estimate == pytest.approx(truth, rel=1e-3)


def test_larger_groups_cost_more() -> None:
    profile = PrivacyProfile(100 * PoissonSampled(Gaussian(2.0), 0.02))
    found = [profile.group(k).epsilon(delta=1e-6).estimate for k in (1, 2, 3)]
    assert found[0] < found[1] < found[2]
    assert found[0] == profile.epsilon(delta=1e-6).estimate


@pytest.mark.parametrize("size", [2, 3, 6])
def test_generic_bound_of_a_pure_claim(size: int) -> None:
    """k records of an eps-DP mechanism are k eps-DP: delta is 0 from there on; the bound's name says generic."""
    found = PrivacyProfile(PureDP(0.4)).group(size)
    assert found.delta(epsilon=0.4 * size + 1e-9).upper == 0.0
    assert "generic" in found.delta(epsilon=0.1).method
    assert found.epsilon(delta=1e-9).upper == pytest.approx(0.4 * size, rel=1e-6)


@pytest.mark.parametrize("size", [2, 5])
def test_generic_bound_keeps_the_deltas(size: int) -> None:
    """(eps, delta) gives (k eps, delta (e^{k eps} - 1)/(e^eps - 1))."""
    found = PrivacyProfile(ApproximateDP(0.3, 1e-6)).group(size).delta(epsilon=0.3 * size)
    wanted = 1e-6 * math.expm1(0.3 * size) / math.expm1(0.3)
    assert found.upper == pytest.approx(wanted, rel=1e-9)


def test_generic_bound_covers_the_mixture() -> None:
    """The mixture of a sampled Gaussian lies below what the generic bound says from the one-record curve."""
    profile = PrivacyProfile(PoissonSampled(Gaussian(1.0), 0.1))
    for epsilon in (0.2, 1.0, 2.0):
        part = epsilon / 3
        generic = profile.delta(epsilon=part).upper * math.expm1(epsilon) / math.expm1(part)
        assert profile.group(3).delta(epsilon=epsilon).lower <= generic * (1 + 1e-12)


def test_a_group_of_a_renyi_bound_is_answered() -> None:
    one = PrivacyProfile(RenyiBound.zcdp(0.01))
    two = one.group(2)
    assert two.epsilon(delta=1e-6).upper > one.epsilon(delta=1e-6).upper
    exact = PrivacyProfile(Gaussian(1 / math.sqrt(0.02)), "add-or-remove").group(2).epsilon(delta=1e-6)
    assert two.epsilon(delta=1e-6).upper >= exact.lower


@pytest.mark.parametrize("adjacency", ["add-or-remove", "replace-one", "zero-out"])
def test_group_of_a_sampled_step_under_each_relation(adjacency: str) -> None:
    profile = PrivacyProfile(PoissonSampled(Gaussian(2.0), 0.1), adjacency)
    assert profile.group(2).delta(epsilon=0.3).upper >= profile.delta(epsilon=0.3).lower
    if adjacency == "replace-one":
        assert any("not proved" in note for note in profile.group(2).delta(epsilon=0.3).notes)


@pytest.mark.parametrize("size", [2, 3, 7])
def test_a_bounded_loss_stays_bounded_for_groups(size: int) -> None:
    """k records of an eps-DP mechanism are k eps-DP, at delta = 0 as well."""
    found = PrivacyProfile(PureDP(1.0)).group(size).epsilon(delta=0.0)
    assert found.upper == pytest.approx(size, rel=1e-12)
    assert found.lower == 0.0
    assert found.status is Status.WIDE


def test_an_infinite_answer_of_a_group_says_why() -> None:
    assert PrivacyProfile(ApproximateDP(0.3, 1e-6)).group(3).epsilon(delta=1e-9).status is Status.INFINITE_MASS
    assert PrivacyProfile(RenyiBound.zcdp(0.01)).group(2).epsilon(delta=0.0).status is Status.INFINITE_DELTA_ZERO
    # the mass at infinity grows with the group: delta(1 + e^eps + e^{2 eps}) at eps = .3
    beyond = PrivacyProfile(ApproximateDP(0.3, 1e-6)).group(3).delta(epsilon=math.inf).upper
    assert beyond >= 1e-6
    assert beyond == pytest.approx(1e-6 * math.expm1(0.9) / math.expm1(0.3), rel=0.3)


def test_a_large_group_is_a_mixture_too(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = PrivacyProfile(10 * PoissonSampled(Gaussian(1.0), 0.01))
    exact, next_one = profile.group(200).epsilon(delta=1e-5), profile.group(201).epsilon(delta=1e-5)
    assert exact.upper < next_one.upper < 1.02 * exact.upper
    monkeypatch.setattr(group, "EXACT_GROUP", 10)
    merged = profile.group(200).epsilon(delta=1e-5)
    assert exact.lower * (1 - 1e-9) <= merged.upper <= exact.upper * (1 + 1e-6)


@pytest.mark.parametrize(("size", "q"), [(2000, 0.01), (2000, 0.5), (50_000, 0.3), (300_000, 1e-5)])
def test_merged_shifts_are_stochastically_larger(size: int, q: float) -> None:
    shifts, weights = zip(*_sampled_shifts(size, q), strict=True)
    assert len(shifts) < 500
    assert sum(weights) == pytest.approx(1.0, abs=1e-12)
    above = np.cumsum(weights[::-1])[::-1]
    for shift, mass in zip(shifts, above, strict=True):
        assert mass * (1 + 1e-12) >= binom.sf(shift - 1, size, q)


@pytest.mark.parametrize("conversion", ["generic", "zcdp"])
def test_a_bound_from_above_has_a_trivial_upper_end(conversion: str) -> None:
    """delta known from above bounds f from below only: guessing may be the best attack."""
    profile = PrivacyProfile(PureDP(1.0)).group(3) if conversion == "generic" else PrivacyProfile(RenyiBound.zcdp(0.5))
    for alpha in (0.01, 0.1, 0.6):
        found = profile.trade_off(alpha)
        assert found.upper == pytest.approx(1 - alpha, rel=1e-12)
        assert found.status is Status.WIDE
        if conversion == "zcdp":
            assert found.lower <= norm.cdf(norm.isf(alpha) - 1.0)


def test_a_group_of_a_pure_claim_has_the_trade_off_of_its_curve() -> None:
    """sup over eps of 1 - delta(eps) - e^eps alpha on a fine grid of the generic curve."""
    profile = PrivacyProfile(PureDP(1.0)).group(3)
    for alpha in (0.01, 0.1, 0.6):
        grid = np.linspace(0.0, 3.5, 701)
        upper = np.array(profile.delta(epsilon=grid).upper)
        right = float(np.max(1 - upper - np.exp(grid) * alpha))
        left = float(np.max(np.exp(-grid) * (1 - alpha - upper)))  # delta(-eps) = 1 - e^-eps (1 - delta(eps))
        found = profile.trade_off(alpha)
        assert max(right, left, 0.0) - 1e-12 <= found.lower <= max(right, left, 0.0) + 2e-3


def test_a_group_keeps_what_is_not_proved_and_what_was_grouped() -> None:
    unproved = PrivacyProfile(PoissonSampled(Gaussian(2.0), 0.1) + PureDP(0.1), "replace-one")
    assert unproved.group(2).delta(epsilon=0.3).status is Status.UNPROVED
    one = PrivacyProfile(PureDP(0.5))
    assert one.group(2).group(3).epsilon(delta=0.0).upper == pytest.approx(one.group(6).epsilon(delta=0.0).upper, rel=1e-12)


def test_an_ordered_group_has_the_trade_off_of_the_group() -> None:
    pair = FinitePair((0.5, 0.3, 0.15, 0.05), (0.1, 0.2, 0.3, 0.4))
    one, two = PrivacyProfile(pair, "as-written"), PrivacyProfile(pair, "as-written").group(2)
    assert two.trade_off(0.05).lower <= one.trade_off(0.05).lower - 0.05
