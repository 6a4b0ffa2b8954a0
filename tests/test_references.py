"""Reference values of composed sampled Gaussians, and brute-force twins that share no code with the engines."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import laplace, norm

from dpaccount.curves.profile import PrivacyProfile
from dpaccount.engines import auto
from dpaccount.mechanisms.curve import CurvePair
from dpaccount.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.pair import DominatingPair
from dpaccount.results import LogDelta
from dpaccount.sampling.fixed_size import FixedSizeSampled
from dpaccount.sampling.poisson import PoissonSampled

Array = npt.NDArray[np.float64]
CASES = json.loads(Path(__file__).with_name("references").joinpath("poisson_gaussian.json").read_text())["cases"]


def pair_of(case: dict[str, Any]) -> DominatingPair:
    """The directed pair of a reference case."""
    step = PoissonSampled(Gaussian(float(case["noise_multiplier"])), float(case["sampling_probability"]))
    pair = int(case["steps"]) * step
    return pair if case["direction"] == "remove" else pair.reversed()


def name_of(case: dict[str, Any]) -> str:
    return "-".join(str(case[k]) for k in ("noise_multiplier", "sampling_probability", "steps", "epsilon", "direction"))


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_line_meets_the_reference(case: dict[str, Any]) -> None:
    found = auto.log_delta(pair_of(case), float(case["epsilon"]), "line")
    truth = float(case["delta"])
    # the parameters are decimals, the code sees the nearest doubles; that moves delta by 1e-15 * steps at most
    relative = 1e-9 if case["steps"] >= 1_000_000 else 1e-10
    assert np.exp(found.estimate) == pytest.approx(truth, rel=relative, abs=0)
    assert found.lower <= np.log(truth) <= found.upper


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_lattice_brackets_the_reference(case: dict[str, Any]) -> None:
    found = auto.log_delta(pair_of(case), float(case["epsilon"]), "lattice")
    assert found.certified
    assert found.lower <= np.log(float(case["delta"])) <= found.upper
    # a bracket that says nothing would hold the value too; rounding of the masses widens it with the count
    assert found.upper - found.lower < (1e-3 if case["steps"] < 100_000 else 1e-2)


def test_profile_takes_the_larger_direction() -> None:
    remove, add = (float(CASES[i]["delta"]) for i in (0, 1))
    found = PrivacyProfile(1000 * PoissonSampled(Gaussian(1.0), 0.01)).delta(epsilon=1.0)
    assert found.estimate == pytest.approx(max(remove, add), rel=1e-10, abs=0)


@pytest.mark.parametrize(
    ("sigma", "q", "steps", "epsilon", "delta"),
    [(0.3, 1e-3, 1000, 5.0, 0.02573877564047), (1.0, 1e-3, 10, 0.2, 7.561884733033e-10)],
)
def test_corners_where_a_plain_contour_is_wrong(sigma: float, q: float, steps: int, epsilon: float, delta: float) -> None:
    """Few samples: the plain contour gave 5.2e-5 for the second. Thirteen digits, by the split with a windowed integrand."""
    found = auto.log_delta(steps * PoissonSampled(Gaussian(sigma), q), epsilon)
    low, up = np.exp(found.lower), np.exp(found.upper)
    assert low * (1 - 1e-12) <= delta <= up * (1 + 1e-12)
    assert up / low - 1 < 1e-3


# Brute-force twins: densities and exact one-step curves written out again


def normal_delta(epsilon: float, mu: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def assert_holds(found: LogDelta, truth: float, relative: float) -> None:
    """The truth lies in the bracket (to the twin's own accuracy), and the bracket says something."""
    assert np.exp(found.lower) <= truth * (1 + relative) + 1e-300
    assert np.exp(found.upper) >= truth * (1 - relative) - 1e-300
    assert truth == 0 or np.exp(found.estimate) == pytest.approx(truth, rel=max(relative, 1e-3), abs=0)


def hockey_stick(p: Callable[[float], float], q: Callable[[float], float], gamma: float, ends: tuple[float, ...]) -> float:
    """The integral of (p - gamma q)_+ on panels between `ends`, split where p = gamma q."""
    grid = np.concatenate([np.linspace(a, b, 200) for a, b in itertools.pairwise(ends)])
    sign = np.array([p(x) - gamma * q(x) for x in grid])
    roots = [
        brentq(lambda x: p(x) - gamma * q(x), grid[i], grid[i + 1], xtol=1e-14)
        for i in range(grid.size - 1) if sign[i] * sign[i + 1] < 0
    ]
    cuts = sorted({*ends, *roots})
    return sum(
        quad(lambda x: max(p(x) - gamma * q(x), 0.0), a, b, epsabs=1e-15, epsrel=1e-12, limit=200)[0]
        for a, b in itertools.pairwise(cuts)
    )


@pytest.mark.parametrize("epsilon", [-0.6, -0.05, 0.0, 0.05, 0.3, 1.0])
@pytest.mark.parametrize(("sigma", "q"), [(0.7, 0.2), (1.5, 0.03)])
def test_sampled_gaussian_under_replace_one_against_quadrature(sigma: float, q: float, epsilon: float) -> None:
    def p(x: float) -> float:
        return float((1 - q) * norm.pdf(x, 0, sigma) + q * norm.pdf(x, 1, sigma))

    truth = hockey_stick(p, lambda x: p(-x), np.exp(epsilon), (-12 * sigma, 0.0, 1 + 12 * sigma))
    found = PrivacyProfile(PoissonSampled(Gaussian(sigma), q), "replace-one").log_delta(epsilon=epsilon)
    assert np.exp(found.estimate) == pytest.approx(truth, rel=1e-8, abs=0)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("epsilon", [-0.5, -0.02, 0.0, 0.02, 0.1, 0.2])
def test_sampled_laplace_against_quadrature(epsilon: float, reverse: bool) -> None:
    b, q = 0.8, 0.15

    def base(x: float) -> float:
        return float(laplace.pdf(x, 0, b))

    def mixture(x: float) -> float:
        return float((1 - q) * base(x) + q * laplace.pdf(x, 1, b))

    first, second = (base, mixture) if reverse else (mixture, base)
    truth = hockey_stick(first, second, np.exp(epsilon), (-40.0, 0.0, 1.0, 40.0))
    step = PoissonSampled(Laplace(b), q)
    found = auto.log_delta(step.reversed() if reverse else step, epsilon)
    assert np.exp(found.estimate) == pytest.approx(truth, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("method", ["auto", "lattice"])
@pytest.mark.parametrize("epsilon", [0.02, 0.2, 0.3])
def test_two_sampled_laplace_steps_against_the_recursion(epsilon: float, method: str) -> None:
    """delta_2(eps) = E_P delta_1(eps - L(x)): atoms beside a density, on no lattice."""
    b, q = 0.8, 0.15
    r = 1 / b

    def one(e: float) -> float:
        level = (np.exp(e) - 1 + q) / q
        if level <= np.exp(-r):
            return float(1 - np.exp(e))
        return float(q * max(0.0, 1 - np.exp((np.log(level) - r) / 2)))

    def inside(x: float) -> float:
        loss = np.log(1 - q + q * np.exp((2 * x - 1) * r))
        density = (1 - q) * laplace.pdf(x, 0, b) + q * laplace.pdf(x, 1, b)
        return float(density * one(epsilon - loss))

    ends = [np.log(1 - q + q * np.exp(s * r)) for s in (-1, 1)]
    low = (1 - q) * laplace.cdf(0, 0, b) + q * laplace.cdf(0, 1, b)
    high = (1 - q) * laplace.sf(1, 0, b) + q * laplace.sf(1, 1, b)
    truth = quad(inside, 0, 1, epsabs=1e-15, epsrel=1e-12, limit=400)[0]
    truth += low * one(epsilon - ends[0]) + high * one(epsilon - ends[1])
    assert_holds(auto.log_delta(2 * PoissonSampled(Laplace(b), q), epsilon, method), truth, 1e-8)


def fixed_size_delta(epsilon: float, sigma: float, q: float) -> float:
    """The one-step curve of sampling without replacement under replace-one, shift 2."""
    if epsilon < 0:
        return float(1 - np.exp(epsilon) + np.exp(epsilon) * fixed_size_delta(-epsilon, sigma, q))
    return q * normal_delta(float(np.log1p(np.expm1(epsilon) / q)), 2 / sigma)


@pytest.mark.parametrize("method", ["auto", "lattice"])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.5])
@pytest.mark.parametrize(("sigma", "m", "n"), [(0.8, 10, 100), (2.0, 30, 100)])
def test_two_fixed_size_steps_against_convolution(sigma: float, m: int, n: int, epsilon: float, method: str) -> None:
    """Both sides of the piecewise pair and its atom at 0, convolved: on x > 0 (mixture, base), on x < 0 mirrored."""
    q = m / n

    def loss(x: float) -> float:
        return float(np.log1p(q * np.expm1(2 * x / sigma**2)))  # x is measured from the point where L = 0

    def gain(x: float) -> float:
        base = norm.pdf(x + 1, 0, sigma)
        shifted = norm.pdf(x + 1, 2, sigma)
        mixture = (1 - q) * base + q * shifted
        return float(
            mixture * fixed_size_delta(epsilon - loss(x), sigma, q) + base * fixed_size_delta(epsilon + loss(x), sigma, q)
        )

    reach = 2 + 10 * sigma
    truth = sum(quad(gain, a, b, epsabs=1e-15, epsrel=1e-11, limit=300)[0] for a, b in itertools.pairwise([0, 1, 3, reach]))
    up_p = (1 - q) * norm.sf(1 / sigma) + q * norm.sf(-1 / sigma)
    atom = 1 - up_p - norm.sf(1 / sigma)
    truth += atom * fixed_size_delta(epsilon, sigma, q)
    assert_holds(auto.log_delta(2 * FixedSizeSampled(Gaussian(sigma), m, n), epsilon, method), truth, 1e-8)


def enumerated(pairs: list[tuple[Array, Array]], epsilon: float) -> float:
    """sum of (p - e^eps q)_+ over all outcomes of the product."""
    p, q = np.ones(1), np.ones(1)
    for first, second in pairs:
        p, q = np.multiply.outer(p, first).ravel(), np.multiply.outer(q, second).ravel()
    return float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum())


def response(epsilon: float, k: int) -> tuple[Array, Array]:
    p = np.ones(k)
    p[0] = np.exp(epsilon)
    return p / p.sum(), np.roll(p, 1) / p.sum()


def integers(log_weight: Callable[[Array], Array], shift: int) -> tuple[Array, Array]:
    x = np.arange(-60, 61).astype(float)
    norm_ = np.exp(log_weight(x)).sum()
    return np.exp(log_weight(x - shift)) / norm_, np.exp(log_weight(x)) / norm_


A, B = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.1, 0.2, 0.3, 0.4])
C, D = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.0, 0.2, 0.4, 0.4])
KEEP = 1 / (1 + np.exp(-0.7))
FINITE: dict[str, tuple[DominatingPair, tuple[Array, Array]]] = {
    "randomised response": (RandomizedResponse(1.0, 5), response(1.0, 5)),
    "binary response": (RandomizedResponse(0.4), response(0.4, 2)),
    "pure": (PureDP(0.7), (np.array([KEEP, 1 - KEEP]), np.array([1 - KEEP, KEEP]))),
    "approximate": (
        ApproximateDP(0.7, 0.01),
        (np.array([0.01, 0.99 * KEEP, 0.99 * (1 - KEEP), 0]), np.array([0, 0.99 * (1 - KEEP), 0.99 * KEEP, 0.01])),
    ),
    "finite": (FinitePair(tuple(A), tuple(B)), (A, B)),
    "finite with masses at infinity": (FinitePair(tuple(C), tuple(D)), (C, D)),
    "sampled finite": (PoissonSampled(FinitePair(tuple(A), tuple(B)), 0.3), (0.7 * B + 0.3 * A, B)),
    "sampled with masses at infinity": (PoissonSampled(FinitePair(tuple(C), tuple(D)), 0.3), (0.7 * D + 0.3 * C, D)),
    "discrete Laplace": (DiscreteLaplace(0.7, 3), integers(lambda x: -np.abs(x) / 2.1, 3)),
    "discrete Gaussian": (DiscreteGaussian(1.5, 2), integers(lambda x: -0.5 * (x / 3.0) ** 2, 2)),
}


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", FINITE)
def test_discrete_compositions_against_enumeration(name: str, reverse: bool, times: int) -> None:
    pair, (p, q) = FINITE[name]
    composed = times * (pair.reversed() if reverse else pair)
    explicit = [(q, p) if reverse else (p, q)] * times
    for epsilon in (-0.9, 0.0, 0.35, 1.1, 2.5):
        assert_holds(auto.log_delta(composed, epsilon), enumerated(explicit, epsilon), 1e-11)


def test_mixed_discrete_composition_against_enumeration() -> None:
    """Incommensurate lattices: randomised response, a sampled pair and integer noise together."""
    names = ("randomised response", "sampled finite", "discrete Laplace")
    total = FINITE[names[0]][0] + FINITE[names[1]][0] + FINITE[names[2]][0]
    for epsilon in (-0.9, 0.0, 0.35, 1.1, 2.5):
        assert_holds(auto.log_delta(total, epsilon), enumerated([FINITE[n][1] for n in names], epsilon), 1e-11)


def test_curve_pair_composition_against_enumeration() -> None:
    """The atoms of a two-point curve, written out: the hull through (0, 1), the mirrored points, and the table."""
    pair = CurvePair((0.0, 1.0), (0.1, 0.01))
    gamma = np.exp(np.array([-1.0, 0.0, 1.0]))
    delta = np.array([1 - np.exp(-1) + np.exp(-1) * 0.01, 0.1, 0.01])
    slope = np.diff(np.concatenate([[1.0], delta])) / np.diff(np.concatenate([[0.0], gamma]))
    q = np.diff(np.append(slope, 0.0))
    p = q * gamma
    explicit = np.append(p, [0.01, 0.0]), np.append(q, [0.0, 1 - q.sum()])
    for epsilon in (-0.4, 0.0, 0.5, 1.5):
        assert_holds(auto.log_delta(pair, epsilon), enumerated([explicit], epsilon), 1e-12)
        assert_holds(auto.log_delta(2 * pair, epsilon), enumerated([explicit] * 2, epsilon), 1e-11)


@pytest.mark.parametrize("method", ["auto", "lattice"])
@pytest.mark.parametrize("epsilon", [-0.8, 0.0, 0.6, 2.0])
def test_lattice_beside_continuous_against_the_sum_over_atoms(epsilon: float, method: str) -> None:
    """Randomised response and a Gaussian: delta(eps) = sum of p_j delta_G(eps - l_j)."""
    p, q = response(1.0, 5)
    truth = sum(a * normal_delta(epsilon - float(np.log(a / b)), 0.8) for a, b in zip(p, q, strict=True))
    assert_holds(auto.log_delta(RandomizedResponse(1.0, 5) + Gaussian(1.25), epsilon, method), truth, 1e-9)
