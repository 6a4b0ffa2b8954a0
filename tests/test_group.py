"""Group privacy: the mixture for additive noise against direct quadrature, and the generic bound elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import binom, norm

from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.renyi import RenyiBound
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
