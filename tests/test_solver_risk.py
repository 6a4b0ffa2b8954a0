"""Bounds on excess risk against exact risks and measured ones."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from test_bad_input import SHAPE

from dpaccount import Gaussian, calibrate
from solvers.algorithms import gradient_descent, objective_perturbation
from solvers.losses import Logistic
from solvers.problem import Problem
from solvers.random import InsecureRandomnessWarning, RandomSource
from solvers.risk import bounds
from solvers.sets import L2Ball


def source(seed: int) -> RandomSource:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureRandomnessWarning)
        return RandomSource.seeded_for_tests_only(seed)


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 20.0])
def test_the_exponential_mechanisms_bound_is_nearly_attained_by_a_linear_loss(epsilon):
    """On [0, 1]^p with loss n (x_1 + ... + x_p) each coordinate is a cut exponential: risk by formula."""
    for p, n in ((1, 50), (3, 400)):
        lipschitz, diameter = math.sqrt(p), math.sqrt(p)
        rate = epsilon / (2 * lipschitz * diameter) * n
        exact = p * n * (1 / rate - math.exp(-rate) / -math.expm1(-rate))
        bound = bounds.exponential_mechanism_risk(epsilon, p, lipschitz, diameter)
        assert exact <= bound * (1 + 1e-12)
        if rate > 20:
            assert exact > 0.99 * bound
        tail = math.exp(-rate * (bounds.exponential_mechanism_tail(epsilon, p, lipschitz, diameter, 0.1) / n) / p)
        assert p * tail <= 0.1


def minimum(problem: Problem) -> float:
    theta, rate = np.zeros(problem.dimension), 1.0 / (problem.smoothness * problem.num_records)
    for _ in range(600):
        theta = problem.constraint.project(theta - rate * problem.gradient(theta))
    return problem.objective(theta)


@pytest.mark.parametrize(("n", "p"), [(100, 2), (400, 5)])
def test_measured_risks_are_below_their_bounds(n, p):
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, p)) / math.sqrt(p)
    problem = Problem(x, np.where(x[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0), Logistic(), L2Ball(1.0))
    best, epsilon, steps = minimum(problem), 1.0, 50
    sigma = float(calibrate(lambda s: steps * Gaussian(s), epsilon=epsilon, delta=1e-5))
    runs = [
        gradient_descent(problem, noise_multiplier=sigma, steps=steps, public_size=n, random=source(s), progress=False) for s in range(12)
    ]
    measured = np.mean([problem.objective(r.value) for r in runs]) - best
    bound = bounds.gradient_descent_risk(n, p, 1.0, 2.0, steps=steps, noise_multiplier=sigma)
    assert 0.0 <= measured <= bound
    pure = [objective_perturbation(problem, epsilon=epsilon, random=source(s)) for s in range(12)]
    assert np.mean([problem.objective(r.value) for r in pure]) - best <= bounds.objective_perturbation_risk(epsilon, p, 1.0, 2.0)


def test_what_is_least_possible_is_below_what_is_had():
    for n in (100, 10_000):
        for p in (1, 30):
            for epsilon in (0.1, 1.0):
                least = bounds.least_possible_order(n, p, epsilon, 1.0, 2.0, pure=True)
                assert least <= bounds.exponential_mechanism_risk(epsilon, p, 1.0, 2.0)
                assert least <= bounds.objective_perturbation_risk(epsilon, p, 1.0, 2.0)
                assert bounds.least_possible_order(n, p, epsilon, 1.0, 2.0, pure=False) <= least
    assert bounds.least_possible_order(10, 1000, 0.1, 1.0, 2.0, pure=True) == 20.0


@pytest.mark.parametrize("call", [
    lambda: bounds.exponential_mechanism_risk(0.0, 1, 1.0, 1.0),
    lambda: bounds.exponential_mechanism_risk(1.0, 0, 1.0, 1.0),
    lambda: bounds.exponential_mechanism_tail(1.0, 1, 1.0, 1.0, 0.0),
    lambda: bounds.objective_perturbation_risk(1.0, 1, -1.0, 1.0),
    lambda: bounds.gradient_descent_risk(0, 1, 1.0, 1.0, steps=1, noise_multiplier=1.0),
    lambda: bounds.gradient_descent_risk(1, 1, 1.0, 1.0, steps=1, noise_multiplier=-1.0),
    lambda: bounds.least_possible_order(1, 1, 1.0, 1.0, 1.0, pure="yes"),
], ids=range(7))
def test_bad_input_is_refused(call):
    with pytest.raises((ValueError, TypeError), match=SHAPE):
        call()
