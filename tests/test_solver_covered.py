"""What covers an approximate minimum: noise of the stated law around a point that is as near as is claimed, or a refusal."""

from __future__ import annotations

import importlib
import math

import numpy as np
import pytest
from scipy import stats
from solver_probes import seeded
from solver_problems import two_classes

from solvers.algorithms import objective_perturbation
from solvers.gate import Gate
from solvers.grid import step_below
from solvers.losses import Logistic
from solvers.problem import Problem
from solvers.sets import WholeSpace

MODULE = importlib.import_module("solvers.algorithms.objective_perturbation")


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize("law", ["gamma", "gaussian"])
def test_covering_noise_has_its_law_and_twice_the_error_as_its_unit(law, dimension):
    """Lengths over 2 error m: Gamma(d) or chi_d. Kolmogorov-Smirnov with 2,000 draws, level 1e-4; half or twice the error fails."""
    gate, error, multiplier = Gate(seeded(4)), 3e-5, 1.7
    value = np.linspace(-1.0, 2.0, dimension)
    draws = np.array([gate.covered(value, error=error, noise_multiplier=multiplier, law=law) for _ in range(2_000)])
    unit = 2.0 * error * multiplier
    lengths = np.linalg.norm(draws - value, axis=1)
    expected = stats.gamma(dimension) if law == "gamma" else stats.chi(dimension)
    assert stats.kstest(lengths / unit, expected.cdf).pvalue > 1e-4
    for factor in (0.5, 2.0):
        assert stats.kstest(lengths / (unit * factor), expected.cdf).pvalue < 1e-10
    step = step_below(unit)
    assert np.all(np.rint(draws / step) * step == draws)


class Watched(Gate):
    """Keeps what it is told about the minimum."""

    def objective_noise(self, *data, **options):
        self.term = super().objective_noise(*data, **options)
        return self.term

    def covered(self, value, *, error, noise_multiplier, law):
        self.value, self.error = value, error
        return super().covered(value, error=error, noise_multiplier=noise_multiplier, law=law)


def minimiser(problem, regularization, term):
    """By plain Newton steps, to the last digits."""
    theta = np.zeros(problem.dimension)
    for _ in range(60):
        slope = problem.data_gradient(theta) + regularization * theta + term
        bend = problem.loss.hessian_sum(problem.rows, problem.targets, theta) + regularization * np.eye(len(theta))
        theta = theta - np.linalg.solve(bend, slope)
    return theta


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-5}])
@pytest.mark.parametrize("tolerance", [1e-6, 1e-2, 1.0])
def test_the_minimum_is_as_near_as_the_noise_covers(budget, tolerance):
    for seed in range(3):
        problem = two_classes(n=40, d=3, seed=seed, ramp=True)
        gate = Watched(seeded(seed))
        release = objective_perturbation(problem, gradient_tolerance=tolerance, random=gate, **budget)
        delta = release.diagnostics["regularization"]
        assert gate.error == tolerance / delta
        assert np.linalg.norm(gate.value - minimiser(problem, delta, gate.term)) <= gate.error


@pytest.mark.parametrize(("share", "kept"), [(0.99, True), (1.01, False)])
def test_a_point_at_the_edge_of_the_claim_is_covered_and_one_beyond_is_refused(share, kept, monkeypatch):
    """Along a column without data the objective is Delta t^2/2: a gradient of gamma is a distance of gamma/Delta, all of the claim."""
    problem = Problem(np.eye(3)[[0, 0, 1]], [1, -1, 1], Logistic(), WholeSpace())
    limit, gate = 1e-3, Watched(seeded(0))
    real = MODULE.minimise

    def displaced(objective, tolerance):
        return real(objective, 1e-12) + np.array([0.0, 0.0, share * limit / 2.0])

    monkeypatch.setattr(MODULE, "minimise", displaced)
    options = {"noise_multiplier": 3.0, "law": "gaussian", "regularization": 2.0, "gradient_tolerance": limit, "random": gate}
    if not kept:
        with pytest.raises(ValueError, match="reached by the solver"):
            objective_perturbation(problem, **options)
        return
    objective_perturbation(problem, **options)
    away = np.linalg.norm(gate.value - minimiser(problem, 2.0, gate.term))
    assert math.isclose(away, share * gate.error, rel_tol=1e-6)
