"""Noise: exact laws at depth, sources, the grid, and what a release says."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import chdtri
from solver_probes import seeded

from dpaccount import BestOf, Gaussian, PrivacyProfile, PureDP, RenyiBound
from solvers.gate import Gate, gate_of
from solvers.grid import on_grid
from solvers.random import InsecureRandomnessWarning, RandomSource
from solvers.release import Release

DRAWS = 40_000
LAWS = {
    "uniform": (lambda s, n: s.uniform((n,)), stats.uniform()),
    "gaussian": (lambda s, n: s.gaussian(2.0, (n,)), stats.norm(scale=2.0)),
    "laplace": (lambda s, n: s.laplace(0.5, (n,)), stats.laplace(scale=0.5)),
    "exponential": (lambda s, n: s.exponential(3.0, (n,)), stats.expon(scale=3.0)),
    "gumbel": (lambda s, n: s.gumbel(1.5, (n,)), stats.gumbel_r(scale=1.5)),
    "gamma norm": (lambda s, n: np.array([np.linalg.norm(s.gamma_norm(2.0, 3)) for _ in range(n // 40)]), stats.gamma(3, scale=2.0)),
}


@pytest.mark.parametrize("name", LAWS)
def test_draws_have_their_law(name):
    """Kolmogorov-Smirnov at 1e-3, seed fixed."""
    draw, law = LAWS[name]
    assert stats.kstest(draw(seeded(11), DRAWS), law.cdf).pvalue > 1e-3


class Stream:
    """A source of chosen words."""

    def __init__(self, *words):
        self.words = list(words)

    def __call__(self, size):
        taken, self.words = self.words[: size // 8], self.words[size // 8 :]
        return np.array(taken, dtype=np.uint64).tobytes()


def fed(*words):
    source = RandomSource()
    source._bytes = Stream(*words)
    return source


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((0, 2**63), 0.5),  # mantissa 0, no zero before the first one
        ((0, 2**62), 0.25),
        (((1 << 52) - 1, 2**63), 1.0 - 2.0**-53),
        ((0, 1), 2.0**-64),
        ((0, 2**53 + 1), 2.0**-11),
        ((0, 2**60 - 1), 2.0**-5),  # as a double this word would round up to 2^60
        ((0, 0, 1 << 63), 2.0**-65),
        ((0, 0, 0, 1), 2.0**-192),
    ],
)
def test_a_uniform_is_a_fixed_function_of_its_bits(words, expected):
    assert float(fed(*words).uniform()) == expected


def test_tails_are_as_fine_as_the_middle():
    """Deep in the tail neighbouring uniforms give neighbouring noise: no gap wider than a few ulps of relative size."""
    one, next_ = (float(fed(m, 1 << 4).gaussian(1.0)) for m in (0, 1 << 10))  # a probability near 1e-18, and 2^-42 of it more
    assert abs(one) > 8.5
    assert 0.0 < abs(one - next_) < 1e-13


def test_the_sign_is_a_bit_of_its_own():
    plus, minus = fed(5, 2**62), fed(5 + 2**63, 2**62)
    assert float(plus.gaussian(1.0)) == -float(minus.gaussian(1.0)) != 0.0


def test_inclusions_permutations_and_integers():
    source = seeded(3)
    assert not source.included(1e-300, 1000).any()
    assert source.included(1.0, 1000).all()
    assert abs(source.included(0.3, 100_000).mean() - 0.3) < 5 * math.sqrt(0.21 / 100_000)
    assert_array_equal(np.sort(source.permutation(50)), np.arange(50))
    orders = {tuple(source.permutation(3)) for _ in range(200)}
    assert len(orders) == 6
    counts = np.bincount(source.integers(5, 50_000), minlength=5)
    assert stats.chisquare(counts).pvalue > 1e-3
    rejected = fed(2**64 - 1, 4)  # beyond the last full range of 5
    assert rejected.integers(5, 1).tolist() == [4 if (2**64 - 1) >= 2**64 - 2**64 % 5 else (2**64 - 1) % 5]


def test_directions_of_gamma_norm_noise_are_uniform():
    found = np.array([seeded_.gamma_norm(1.0, 2) for seeded_ in [seeded(8)] for _ in range(1000)])
    angle = np.arctan2(found[:, 1], found[:, 0])
    assert stats.kstest(angle, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3


def test_the_default_source_is_the_operating_system(monkeypatch):
    asked = []
    import os

    plain = os.urandom
    monkeypatch.setattr(os, "urandom", lambda n: asked.append(n) or plain(n))
    source = RandomSource()
    assert source.secure
    source.gaussian(1.0, (5,))
    assert sum(asked) == 80
    assert not np.array_equal(source.gaussian(1.0, (5,)), source.gaussian(1.0, (5,)))


def test_a_seed_is_loud_and_repeats():
    with pytest.warns(InsecureRandomnessWarning, match="protects nobody"):
        one = RandomSource.seeded_for_tests_only(4)
    assert "SEEDED" in repr(one)
    assert not one.secure
    assert not Gate(one).secure
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = RandomSource.seeded_for_tests_only(4)
    assert_array_equal(one.gaussian(1.0, (9,)), other.gaussian(1.0, (9,)))


@pytest.mark.parametrize("random", [7, np.random.default_rng(1), "secure"])
def test_a_bare_seed_is_no_source(random):
    with pytest.raises(TypeError, match="protects nobody"):
        gate_of("solver", random)


def test_what_leaves_lies_on_a_grid_far_coarser_than_doubles():
    gate = Gate(seeded(1))
    found = gate.gaussian(np.array([1 / 3, 1e-9, 12345.678]), sensitivity=1.5, noise_multiplier=2.0)
    grid = 2.0 ** (math.floor(math.log2(3.0)) - 10)
    assert_array_equal(found, np.rint(found / grid) * grid)
    assert grid > 3e3 * np.spacing(12345.678 + 30.0)
    assert 2.0**-11 < grid / 3.0 <= 2.0**-10
    assert_array_equal(on_grid(np.array([0.1]), np.array([0.0]), 0.0), [0.1])  # no noise, nothing hidden


def test_values_in_which_noise_would_drown_are_refused():
    for value in (1e12, np.inf, np.nan):
        with pytest.raises(ValueError, match="lost in rounding"):
            Gate(seeded(1)).gaussian(np.array([value]), sensitivity=1.0, noise_multiplier=1.0)


def test_laplace_noise_passes_the_gate_alike():
    draws = Gate(seeded(2)).laplace(np.zeros(DRAWS), sensitivity=2.0, noise_multiplier=1.5)
    assert abs(np.abs(draws).mean() - 3.0) < 5 * 3.0 / math.sqrt(DRAWS)


def test_selection_is_the_exponential_mechanism():
    scores, epsilon, sensitivity = np.array([0.0, 1.0, 3.0]), 0.8, 0.5
    gate = Gate(seeded(5))
    counts = np.bincount([gate.select(scores, sensitivity=sensitivity, epsilon=epsilon) for _ in range(4_000)], minlength=3)
    weights = np.exp(epsilon * scores / (2 * sensitivity))
    assert stats.chisquare(counts, 4_000 * weights / weights.sum()).pvalue > 1e-3


# releases


@pytest.mark.parametrize("guarantee", [4 * Gaussian(5.0), RenyiBound.zcdp(0.1), BestOf(PureDP(0.5), RenyiBound.zcdp(0.2))], ids=repr)
@pytest.mark.parametrize("adjacency", ["add-or-remove", "replace-one"])
def test_a_release_answers_for_its_own_relation(guarantee, adjacency):
    release = Release(np.arange(3.0), guarantee, adjacency, {"steps": 4})
    profile = PrivacyProfile(guarantee, adjacency)
    assert release.epsilon(1e-5).upper == profile.epsilon(delta=1e-5).upper
    assert release.delta(0.5).upper == profile.delta(epsilon=0.5).upper
    assert f"adjacency={adjacency!r}" in repr(release)
    assert repr(guarantee) in repr(release)


def test_a_release_is_frozen_to_the_bottom():
    value = np.arange(3.0)
    release = Release(value, Gaussian(1.0), "add-or-remove", {"steps": 1})
    value[0] = 9.0
    assert release.value[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        release.value[0] = 1.0
    with pytest.raises(TypeError):
        release.diagnostics["steps"] = 2
    with pytest.raises(AttributeError):
        release.value = 1.0


def test_a_release_survives_a_pickle():
    release = Release(np.arange(3.0), 4 * Gaussian(5.0), "add-or-remove", {"steps": 4})
    before = release.epsilon(1e-5).upper
    again = pickle.loads(pickle.dumps(release))
    assert again.epsilon(1e-5).upper == before
    assert dict(again.diagnostics) == {"steps": 4}
    with pytest.raises(ValueError, match="read-only"):
        again.value[0] = 1.0


def test_what_is_not_private_is_loud():
    quiet = Release(0.0, Gaussian(1.0), "add-or-remove")
    loud = Release(np.zeros(9), Gaussian(1.0), "add-or-remove", unprotected={"objective": 3.0})
    assert quiet.unprotected is None
    assert "UNPROTECTED" in repr(loud)
    assert "3.0" not in repr(loud)
    assert "<array of shape (9,)>" in repr(loud)


@pytest.mark.parametrize(("guarantee", "adjacency"), [("gaussian", "add-or-remove"), (Gaussian(1.0), "neighbours"), (None, "replace-one")])
def test_a_release_without_a_guarantee_is_refused(guarantee, adjacency):
    with pytest.raises((TypeError, ValueError)):
        Release(0.0, guarantee, adjacency)


def test_a_choice_has_the_probabilities_of_its_scores(monkeypatch):
    """40 items, 4,000 draws: chi-squared at level 1e-4 against e^score, variates being drawn only where they can win."""
    from solvers import random as module

    monkeypatch.setattr(module, "FEW", 3)
    scores = np.concatenate([np.zeros(20), np.linspace(-1.0, 1.5, 16), [2.5, -40.0, -3.0, 2.5]])
    source = seeded(5)
    found = np.bincount([source.choice(scores) for _ in range(4_000)], minlength=40)
    expected = 4_000 * np.exp(scores) / np.exp(scores).sum()
    assert found[37] == 0
    kept = np.arange(40) != 37
    statistic = ((found - expected)[kept] ** 2 / expected[kept]).sum()
    assert statistic < chdtri(38, 1e-4)


def test_a_choice_among_many_draws_little_and_finds_what_stands_out():
    source, drawn = seeded(0), []
    words = source.words
    source.words = lambda size: drawn.append(size) or words(size)
    scores = np.zeros(100_000)
    first = {source.choice(scores) for _ in range(20)}
    assert len(first) == 20
    assert sum(drawn) < 20 * 2 * 4 * 700  # two words each; of the order of sqrt(n) = 316
    scores[77] = 40.0
    assert source.choice(scores) == 77
    assert source.choice(np.linspace(0.0, 1e6, 100_000)) == 99_999


def test_the_upper_tail_of_gumbel_variates_is_fine():
    """Beyond 36, where 1 - U has no digits left, P{G > g} = e^{-g} still: read off by the words that give such a variate."""
    source = seeded(0)
    source.uniform = lambda shape: np.full(shape, 1e-25)
    assert_allclose(source.gumbel(1.0, (1,)), 25.0 * np.log(10.0), rtol=1e-15)
