"""Contraction coefficients: values, the definition by brute force, the product along chains, reflection, families, samples."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from dpaccount.iteration import (
    additive_contraction,
    chain_bound,
    contraction_coefficient,
    family_contraction,
    hockey_stick_divergence,
    projected_contraction,
    sampled_hockey_stick,
)
from dpaccount.iteration.contraction import DIVERGENCES, _divergence
from dpaccount.iteration.lower import Law, excess

seeds = st.integers(0, 2**32 - 1)


def random_kernel(rng, inputs, outputs):
    return rng.dirichlet(np.full(outputs, rng.choice([0.3, 1.0, 3.0])), size=inputs)


def test_hockey_stick_is_total_variation_at_zero_and_reflects():
    p, q = [0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]
    assert hockey_stick_divergence(p, q, 0.0) == pytest.approx(0.5, rel=1e-15)
    level = np.linspace(-3, 3, 13)
    there, back = hockey_stick_divergence(p, q, level), hockey_stick_divergence(q, p, -level)
    np.testing.assert_allclose(there, 1 - np.exp(level) + np.exp(level) * back, rtol=1e-12, atol=1e-15)
    assert hockey_stick_divergence(p, q, math.log(5.001)) == 0.0


@given(seeds, st.sampled_from([0.0, 0.2, 1.0, 2.5]))
def test_no_pair_of_inputs_contracts_less(seed, epsilon):
    """The definition: random inputs, spread and sharp, never have a larger ratio, and rows themselves attain it."""
    rng = np.random.default_rng(seed)
    kernel = random_kernel(rng, 4, 3)
    for divergence in DIVERGENCES:
        level = epsilon if divergence == "hockey-stick" else 0.0
        coefficient = contraction_coefficient(kernel, level, divergence=divergence)
        for _ in range(12):
            mu, nu = rng.dirichlet(np.full(4, rng.choice([0.1, 1.0])), size=2)
            before, after = (_divergence(a, b, level, divergence) for a, b in ((mu, nu), (mu @ kernel, nu @ kernel)))
            assert after <= coefficient * before * (1 + 1e-9) + 1e-15
    rows = max(hockey_stick_divergence(a, b, epsilon) for a, b in itertools.permutations(kernel, 2))
    assert contraction_coefficient(kernel, epsilon) == pytest.approx(rows, abs=1e-15)


@given(seeds)
def test_below_gamma_one_what_contracts_is_the_rest_above_one_minus_gamma(seed):
    rng = np.random.default_rng(seed)
    kernel, epsilon = random_kernel(rng, 3, 4), -float(rng.uniform(0.05, 2.0))
    coefficient, floor = contraction_coefficient(kernel, epsilon), -math.expm1(epsilon)
    mu, nu = rng.dirichlet(np.ones(3), size=2)
    before, after = hockey_stick_divergence(mu, nu, epsilon) - floor, hockey_stick_divergence(mu @ kernel, nu @ kernel, epsilon) - floor
    assert after <= coefficient * before + 1e-14
    assert coefficient == contraction_coefficient(kernel, -epsilon)
    chained = chain_bound(mu, nu, [kernel, np.full((4, 2), 0.5)], epsilon)
    assert chained == pytest.approx(floor, abs=1e-15), "a constant kernel forgets everything"


@given(seeds)
def test_the_two_coefficients_of_kl_and_chi_squared_agree_and_small_inputs_attain_them(seed):
    """Two inputs with weights t and 1 - t and a small difference: the chi-squared ratio is the coefficient at the best t."""
    rng = np.random.default_rng(seed)
    kernel = rng.dirichlet(np.ones(3), size=2)
    found = contraction_coefficient(kernel, divergence="chi-squared")
    assert found == contraction_coefficient(kernel, divergence="kl")
    best = 0.0
    for t in np.linspace(0.005, 0.995, 199):
        nu, mu = np.array([1 - t, t]), np.array([1 - t, t]) + 1e-6 * min(t, 1 - t) * np.array([1, -1])
        best = max(best, _divergence(mu @ kernel, nu @ kernel, 0.0, "chi-squared") / _divergence(mu, nu, 0.0, "chi-squared"))
    assert best <= found * (1 + 1e-8)
    assert best >= found * (1 - 1e-3)
    assert found <= contraction_coefficient(kernel, divergence="total-variation") + 1e-12, "Dobrushin's is the largest of all"


def test_coefficients_of_known_channels():
    """Binary symmetric: |1 - 2p| for total variation, its square for KL; erasure: 1 - erasure for all; gamma closes a flip."""
    flip = [[0.9, 0.1], [0.1, 0.9]]
    assert contraction_coefficient(flip, divergence="total-variation") == pytest.approx(0.8, rel=1e-14)
    assert contraction_coefficient(flip, divergence="kl") == pytest.approx(0.64, rel=1e-12)
    assert contraction_coefficient(flip, math.log(3.0)) == pytest.approx(0.6, rel=1e-14)
    assert contraction_coefficient(flip, math.log(9.0)) == pytest.approx(0.0, abs=1e-15)
    erase = [[0.7, 0.3, 0.0], [0.0, 0.3, 0.7]]
    for divergence in DIVERGENCES:
        assert contraction_coefficient(erase, divergence=divergence) == pytest.approx(0.7, rel=1e-9)
    assert contraction_coefficient([[0.2, 0.8]], divergence="kl") == contraction_coefficient([[0.2, 0.8]]) == 0.0
    assert contraction_coefficient(np.eye(3), 5.0) == 1.0
    assert contraction_coefficient(np.eye(3), divergence="kl") == 1.0


@given(seeds, st.sampled_from(DIVERGENCES))
def test_a_chain_is_below_its_product(seed, divergence):
    rng = np.random.default_rng(seed)
    sizes = [3, 4, 2, 3]
    kernels = [random_kernel(rng, a, b) for a, b in itertools.pairwise(sizes)]
    mu, nu = rng.dirichlet(np.ones(3), size=2)
    epsilon = float(rng.uniform(0, 1)) if divergence == "hockey-stick" else 0.0
    first, second = mu, nu
    for kernel in kernels:
        first, second = first @ kernel, second @ kernel
    bound = chain_bound(mu, nu, kernels, epsilon, divergence=divergence)
    assert _divergence(first, second, epsilon, divergence) <= bound * (1 + 1e-9) + 1e-15
    product = _divergence(mu, nu, epsilon, divergence)
    for kernel in kernels:
        product *= contraction_coefficient(kernel, epsilon, divergence=divergence)
    assert bound == pytest.approx(product, rel=1e-12)


def test_an_infinite_divergence_stays_infinite():
    assert chain_bound([0.5, 0.5], [1.0, 0.0], [[[0.5, 0.5], [0.2, 0.8]]], divergence="kl") == math.inf


def test_additive_noise():
    """Balle and Wang's curve, and Laplace's; a grid as a finite kernel comes close from below."""
    exact = float(ndtr(0.25 - 1) - math.exp(0.5) * ndtr(-0.25 - 1))
    assert additive_contraction("gaussian", 2.0, 1.0, 0.5) == pytest.approx(exact, rel=1e-13)
    assert additive_contraction("laplace", 2.0, 3.0, 0.5) == pytest.approx(1 - math.exp(-0.5), rel=1e-14)
    assert additive_contraction("laplace", 1.0, 0.4, 0.5) == 0.0
    below, above = (additive_contraction("gaussian", 1.0, [0.0, 1.0], sign).tolist() for sign in (-1.0, 1.0))
    assert below == above
    edges = np.linspace(-6, 7, 4001)
    rows = np.diff(ndtr((edges[None, :] - np.linspace(0, 1, 5)[:, None]) / 1.0), axis=1)
    rows = np.column_stack([rows, 1 - rows.sum(axis=1)])
    finite = contraction_coefficient(rows, 0.3)
    assert finite <= additive_contraction("gaussian", 1.0, 1.0, 0.3)
    assert finite == pytest.approx(additive_contraction("gaussian", 1.0, 1.0, 0.3), rel=1e-5)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_projected_noise_is_the_exact_divergence_of_the_end_points(noise):
    rng = np.random.default_rng(3)
    projected_gains = 0
    for _ in range(60):
        low, high = sorted(rng.uniform(-2, 2, 2))
        first, last = sorted(rng.uniform(-2, 2, 2))
        scale, epsilon = float(rng.uniform(0.2, 2)), float(rng.uniform(0, 2))
        found = projected_contraction(noise, scale, epsilon, image=(first, last), interval=(low, high))
        law = [Law(np.array([x]), np.ones(1), low, high, noise, scale) for x in (first, last)]
        truth = max(float(excess(*pair, np.array([epsilon]))[0]) for pair in (law, law[::-1]))
        assert found == pytest.approx(truth, rel=1e-9, abs=1e-13)
        inside = [Law(np.array([x]), np.ones(1), low, high, noise, scale) for x in rng.uniform(first, last, 2)]
        assert float(excess(*inside, np.array([epsilon]))[0]) <= found + 1e-13, "the ends are the worst"
        free = additive_contraction(noise, scale, last - first, epsilon)
        assert found <= free * (1 + 1e-12)
        projected_gains += found < free * (1 - 1e-9)
    assert 5 < projected_gains < 60


def test_a_family_of_ones_own_is_bounded_between_its_points():
    """Binomial outputs with success probability y in [0.2, 0.8]: TV moves by at most n |dy|."""
    n = 4

    def kernel(y):
        return [math.comb(n, k) * y**k * (1 - y) ** (n - k) for k in range(n + 1)]

    points = np.linspace(0.2, 0.8, 301)
    found = family_contraction(kernel, points, 0.4, radius=0.001, lipschitz=n)
    truth = max(hockey_stick_divergence(kernel(a), kernel(b), 0.4) for a, b in itertools.permutations([0.2, 0.2003, 0.5, 0.8], 2))
    assert found.lower <= truth * (1 + 1e-12) <= found.upper * (1 + 1e-12)
    assert found.upper - found.lower == pytest.approx((1 + math.exp(0.4)) * 0.004, rel=1e-12)
    coarse = family_contraction(kernel, [0.3, 0.7], 0.4, radius=0.2, lipschitz=n)
    assert coarse.lower < truth < coarse.upper


def test_samples_of_known_densities_cover_the_truth():
    """200 intervals at 99 %: fewer than 8 misses but for one chance in 1000 (the bounds are conservative: none is seen)."""
    truth = float(ndtr(0.5 - 1) - math.e * ndtr(-0.5 - 1))
    rng, misses = np.random.default_rng(7), 0
    for _ in range(200):
        x = 1 + rng.standard_normal(500)
        found = sampled_hockey_stick(-((x - 1) ** 2) / 2, -(x**2) / 2, 1.0, confidence=0.99)
        misses += not found.lower <= truth <= found.upper
        assert not found.certified
    assert misses < 8


@pytest.mark.parametrize(
    "call",
    [
        lambda: hockey_stick_divergence([0.5, 0.5], [1.0], 0.0),
        lambda: hockey_stick_divergence([0.5, 0.6], [0.5, 0.5], 0.0),
        lambda: contraction_coefficient([0.5, 0.5]),
        lambda: contraction_coefficient([[0.5, 0.6]]),
        lambda: contraction_coefficient([[0.5, 0.5]], 1.0, divergence="kl"),
        lambda: contraction_coefficient([[0.5, 0.5]], divergence="hellinger"),
        lambda: chain_bound([1.0, 0.0], [0.0, 1.0], [[[1.0]]]),
        lambda: additive_contraction("cauchy", 1.0, 1.0, 0.0),
        lambda: additive_contraction("gaussian", 0.0, 1.0, 0.0),
        lambda: projected_contraction("gaussian", 1.0, 0.0, image=(1, 0), interval=(0, 1)),
        lambda: family_contraction(lambda y: [y], [0.5], 0.0, radius=0.1, lipschitz=1.0),
        lambda: sampled_hockey_stick([0.0], [0.0], 0.0),
        lambda: sampled_hockey_stick([0.0, 0.0], [0.0], 0.0),
    ],
)
def test_bad_input_is_refused_in_the_house_shape(call):
    with pytest.raises(ValueError, match=r"^`\w+\(\w+=\.\.\.\)` must be .+; got "):
        call()
