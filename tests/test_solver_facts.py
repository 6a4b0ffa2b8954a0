"""The small facts of the chapter: exchanges, the median that leaks, oracle costs, population risk."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from solver_probes import seeded

from dpaccount import ExponentialMechanism, Gaussian, Laplace, PrivacyProfile, PureDP
from solvers.algorithms import gradient_descent, objective_perturbation
from solvers.losses import Logistic, Quantile
from solvers.problem import Problem
from solvers.risk.facts import (
    gradient_descent_oracle_calls,
    median_atom,
    population_excess,
    sampling_oracle_order,
    under_replacement,
    uniform_convergence,
)
from solvers.sets import L2Ball


@pytest.mark.parametrize("step", [Laplace(2.0), Gaussian(2.0), 3 * Gaussian(4.0), Laplace(1.0) + Gaussian(1.0)])
@pytest.mark.parametrize("epsilon", [0.2, 0.5, 1.0])
def test_an_exchange_costs_no_more_than_the_rule_says(step, epsilon):
    delta = PrivacyProfile(step).delta(epsilon=epsilon).upper
    twice, least = under_replacement(epsilon, delta)
    assert PrivacyProfile(step, "replace-one").delta(epsilon=twice).lower <= least


def test_the_factor_two_is_attained():
    """Laplace noise on a sum: epsilon 1/2, and 1 under replace-one, where delta is positive below it."""
    assert under_replacement(0.5) == (1.0, 0.0)
    exchanged = PrivacyProfile(Laplace(2.0), "replace-one")
    assert exchanged.epsilon(delta=0.0).upper == pytest.approx(1.0, rel=1e-12)
    assert exchanged.delta(epsilon=0.99).lower > 0.0


def median(rows, b):
    """argmin sum |theta - d| + b theta for |b| < n, by the definition: the row at which the slope changes its sign."""
    rows = np.sort(rows)
    slopes = np.arange(-len(rows), len(rows) + 1, 2) + b
    return rows[int(np.flatnonzero(slopes > 0.0)[0]) - 1]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_the_median_gives_out_a_record(epsilon):
    """Objective perturbation of |theta - d| is not private: the median row comes out with a probability far from 0; level 1e-4."""
    rows = np.random.default_rng(3).standard_normal(101)
    source, runs = seeded(5), 4000
    noise = source.laplace(2.0 / epsilon, (runs,))  # the law of gamma_norm on a line
    rate = np.mean([abs(b) < 101 and median(rows, b) == np.sort(rows)[50] for b in noise])
    at_least, exact = median_atom(epsilon)
    assert abs(rate - exact) <= 3.9 * math.sqrt(exact * (1 - exact) / runs)
    assert rate > at_least
    assert_allclose(at_least, 1.0 - math.exp(-epsilon / 4.0), rtol=1e-15)


def test_the_solver_refuses_the_median():
    problem = Problem(np.ones((5, 1)), np.arange(5.0), Quantile(), L2Ball(10.0))
    with pytest.raises(ValueError, match="twice continuously differentiable"):
        objective_perturbation(problem, epsilon=1.0)


def test_oracle_calls_are_those_of_a_run():
    x = np.random.default_rng(0).standard_normal((60, 5))
    problem = Problem(x, np.sign(x[:, 0]), Logistic(), L2Ball(2.0))
    release = gradient_descent(problem, epsilon=0.1, delta=1e-5, public_size=60, random=seeded(0))
    assert gradient_descent_oracle_calls(60, 5, 0.1) == 60 * release.diagnostics["steps"]
    assert gradient_descent_oracle_calls(60, 5, 0.1, sampled=True) == release.diagnostics["steps"]
    assert gradient_descent_oracle_calls(10**4, 10, 1.0) == 10**11
    assert sampling_oracle_order(100, 2.0, 7.0) == 1400.0


def test_population_risk_is_within_its_bound():
    """Linear losses on a ball, whose worst theta is known: the supremum of the gap never passes the bound in 2,000 samples (level 0.05)."""
    rng = np.random.default_rng(1)
    n, p, size = 50, 2, 1.0
    mean = np.array([0.3, 0.0])
    best = -size * mean / np.linalg.norm(mean)
    worst = 0.0
    for _ in range(2000):
        sample = mean + 0.7 * rng.choice([-1.0, 1.0], (n, 1)) * np.array([[1.0, 0.0]])  # |d| <= 1
        gap = mean - sample.mean(axis=0)
        worst = max(worst, size * np.linalg.norm(gap) - float(gap @ best))
    bound = uniform_convergence(n, p, 1.0, 2.0 * size, 0.05)
    assert 0.1 * bound < worst <= bound
    assert population_excess(5.0, n, p, 1.0, 2.0, 0.05) == pytest.approx(0.1 + bound)
    assert uniform_convergence(10**8, p, 1.0, 2.0, 0.05) < bound / 500


@pytest.mark.parametrize(
    "call",
    [
        lambda: under_replacement(-1.0),
        lambda: under_replacement(1.0, 2.0),
        lambda: median_atom(0.0),
        lambda: gradient_descent_oracle_calls(0, 1, 1.0),
        lambda: gradient_descent_oracle_calls(2.5, 1, 1.0),
        lambda: sampling_oracle_order(10, 1.0, 0.0),
        lambda: uniform_convergence(10, 2, 1.0, math.inf, 0.1),
        lambda: uniform_convergence(10, 2, 1.0, 1.0, 0.0),
        lambda: population_excess(-1.0, 10, 2, 1.0, 1.0, 0.1),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises((ValueError, TypeError), match="must be"):
        call()


def test_bounded_range_is_a_factor_two_too():
    """Weights e^{-eps/(2 L|C|) F}: eps under replace-one, eps/2 under add-or-remove, of the same draw."""
    assert PrivacyProfile(ExponentialMechanism(0.5)).epsilon(delta=0.0).upper == pytest.approx(0.5)
    twice, _ = under_replacement(0.5)
    assert PrivacyProfile(PureDP(twice)).delta(epsilon=0.3).upper >= PrivacyProfile(ExponentialMechanism(1.0)).delta(epsilon=0.3).lower
