"""Energy distances of draws from exact draws of the same law, where one coordinate at a time would miss what is wrong.

Two tests, each with its rate of false alarms:

- *Permutations*: E of two samples in R^d among those of 999 random relabellings. If the laws agree, the probability of being the
  largest is 1/1000 at most, whatever the law; and the sampler's own distance more, which is 1e-3 or less here.
- *Projections*, for 1e5 draws: E on a line is ``2 int (F - G)^2``, by sorting. Under equal laws ``nm/(n+m) E`` tends to
  ``sum of l_i Z_i^2``, whose mean is E|X - X'|; such a sum exceeds ``z^2`` times its mean, z = Phi^{-1}(1 - alpha/2), with
  probability alpha at most, for alpha <= 0.215 (Szekely and Bakirov 2003). Over 20 fixed directions alpha is 1e-4/20: 1e-4
  together, for large samples.

Each test is also shown to see a law that is wrong by little.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtri
from test_restricted import source

from solvers.losses import Logistic, Quantile
from solvers.problem import Problem
from solvers.sampler import Target, planned, sample
from solvers.sets import HalfSpaces, L2Ball, WholeSpace

PERMUTATIONS, DIRECTIONS, ALPHA = 999, 20, 1e-4


def by_permutations(x: np.ndarray, y: np.ndarray, seed: int) -> float:
    """p-value: with signs s = 1/n on x and -1/m on y, E is -s' D s for the matrix D of distances."""
    both, n, m = np.concatenate([x, y]), len(x), len(y)
    square = (both * both).sum(axis=1)
    apart = np.sqrt(np.maximum(square[:, None] + square - 2.0 * both @ both.T, 0.0))
    rng = np.random.default_rng(seed)
    signs = np.concatenate([np.full(n, 1.0 / n), np.full(m, -1.0 / m)])
    table = np.stack([signs, *(rng.permutation(signs) for _ in range(PERMUTATIONS))], axis=1)
    energy = -np.einsum("ij,ij->j", table, apart @ table)
    return float((energy >= energy[0] * (1.0 - 1e-12)).mean())


def by_projections(x: np.ndarray, y: np.ndarray, seed: int) -> float:
    """Largest over directions of the statistic over its critical value: above 1 rejects."""
    rng, n, m, worst = np.random.default_rng(seed), len(x), len(y), 0.0
    critical = ndtri(1.0 - ALPHA / DIRECTIONS / 2.0) ** 2
    for _ in range(DIRECTIONS):
        direction = rng.normal(size=x.shape[1])
        line = np.concatenate([x, y]) @ (direction / np.linalg.norm(direction))
        order = np.argsort(line)
        steps = np.diff(line[order])
        gap = np.cumsum(np.concatenate([np.full(n, 1.0 / n), np.full(m, -1.0 / m)])[order])[:-1]
        level = np.arange(1, n + m) / (n + m)
        mean = 2.0 * float((level * (1.0 - level)) @ steps)  # E|X - X'| of the pooled sample
        worst = max(worst, n * m / (n + m) * 2.0 * float(gap**2 @ steps) / mean / critical)
    return worst


def gaussian_case(constraint=None, dimension: int = 3) -> tuple[Target, np.ndarray, float]:
    """Losses linear where the law lives: a Gaussian with this mean and deviation, restricted to the set."""
    rng = np.random.default_rng(dimension)
    rows = rng.normal(size=(12, dimension))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) / 0.9
    problem = Problem(rows, np.full(12, 300.0), Quantile(), constraint or WholeSpace())
    target = Target(problem, 2.0, 2.0)
    slope = problem.data_gradient(np.zeros(dimension)) / 12
    return target, -2.0 * slope / target.curvature, 1.0 / math.sqrt(target.curvature)


def test_a_hundred_thousand_draws_of_a_gaussian():
    target, mean, spread = gaussian_case()
    many, rng = 100_000, np.random.default_rng(2)
    points = sample(target, planned(target, 1e-5), chains=many, source=source(21), progress=False).points
    exact = mean + spread * rng.normal(size=(many, 3))
    assert by_projections(points, exact, 5) <= 1.0
    standard = (points - mean) / spread
    assert np.abs(standard.mean(axis=0)).max() <= 4.0 / math.sqrt(many)
    covariance = standard.T @ standard / many
    assert np.abs(covariance - np.eye(3)).max() <= 4.0 * math.sqrt(2.0 / many)
    assert by_projections(points + 0.03 * spread, exact, 5) > 1.0, "a shift of 3 % of a deviation is seen"
    assert by_projections(mean + 1.06 * (points - mean), exact, 5) > 1.0, "so is a scale off by 6 %"


@pytest.mark.parametrize("inner", ["exact", "values", "poisson"])
def test_draws_of_every_kind_against_exact_ones_in_five_dimensions(inner):
    target, mean, spread = gaussian_case(dimension=5)
    points = sample(target, planned(target, 1e-3, inner=inner), chains=500, source=source(22), progress=False).points
    exact = mean + spread * np.random.default_rng(3).normal(size=(500, 5))
    assert by_permutations(points, exact, 6) > 1.0 / (PERMUTATIONS + 1)
    assert by_permutations(points + 0.3 * spread, exact, 6) <= 1.0 / (PERMUTATIONS + 1)


def test_a_corner_of_half_spaces_against_rejection():
    target, mean, spread = gaussian_case(HalfSpaces([[1.0, 0.4, 0.0], [0.0, 1.0, -0.5]], [0.05, 0.3]))
    rng = np.random.default_rng(4)
    exact = mean + spread * rng.normal(size=(40_000, 3))
    exact = exact[(exact @ target.constraint.normals.T <= target.constraint.offsets).all(axis=1)][:1000]
    assert len(exact) == 1000
    points = sample(target, planned(target, 1e-4), chains=1000, source=source(23), progress=False).points
    assert by_permutations(points, exact, 7) > 1.0 / (PERMUTATIONS + 1)


def test_a_wrong_correlation_that_no_marginal_shows_is_seen():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(1000, 2)), rng.normal(size=(1000, 2)) @ np.linalg.cholesky([[1.0, 0.5], [0.5, 1.0]]).T
    assert by_permutations(x, y, 8) <= 1.0 / (PERMUTATIONS + 1)


def test_difference_quotients_and_gradients_make_the_same_law():
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(40, 3))
    target = Target(Problem(rows, np.sign(rows[:, 0]), Logistic(), L2Ball(1.0)), 30.0, 0.2)
    one, other = (sample(target, planned(target, 1e-4, inner=kind), chains=1000, source=source(k), progress=False).points
                  for k, kind in enumerate(("exact", "differences")))
    assert by_permutations(one, other, 9) > 1.0 / (PERMUTATIONS + 1)
