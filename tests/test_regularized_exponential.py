"""The solver on top of the sampler: budgets, risks, refusals, and an audit of its law."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from solver_probes import lower_bound

from dpaccount import GaussianDP, PrivacyProfile
from solvers.algorithms import regularized_exponential
from solvers.algorithms.regularized_exponential import OWNER
from solvers.losses import Logistic, Quantile, Squared
from solvers.problem import Problem
from solvers.random import InsecureRandomnessWarning, RandomSource
from solvers.sampler import Target, planned, sample
from solvers.sets import Box, HalfSpaces, L1Ball, L2Ball, Simplex, WholeSpace


def source(seed: int) -> RandomSource:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureRandomnessWarning)
        return RandomSource.seeded_for_tests_only(seed)


def problem(n: int = 200, d: int = 3, loss: object = None, constraint: object = None) -> Problem:
    rng = np.random.default_rng(n + d)
    x = rng.normal(size=(n, d)) / math.sqrt(d)
    y = np.where(x @ rng.normal(size=d) > 0, 1.0, -1.0)
    return Problem(x, y, loss or Logistic(), constraint or L2Ball(2.0))


@pytest.mark.parametrize("constraint", [
    L2Ball(2.0), L1Ball(2.0), Box(-1.0, 1.0), HalfSpaces([[1.0, 0.5, 0.0], [0.0, 1.0, -2.0]], [1.0, 0.5]), WholeSpace(),
], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("risk", ["empirical", "population"])
def test_a_release_keeps_its_budget_and_uses_it(constraint, risk):
    asked = problem(constraint=constraint)
    release = regularized_exponential(asked, epsilon=1.0, delta=1e-5, risk=risk, radius=2.0, progress=False)
    assert 0.97 < float(release.epsilon(delta=1e-5)) <= 1.0
    assert asked.constraint.contains(release.value, 0.0)
    shown = release.diagnostics
    k, r, n = shown["inverse_temperature"], shown["regularization"], asked.num_records
    exact = GaussianDP(2.0 * asked.lipschitz * math.sqrt(k) / (n * math.sqrt(r)))
    t = shown["total_variation"]
    for epsilon in (0.1, 0.5, 1.0):
        least = float(PrivacyProfile(exact).delta(epsilon=epsilon)) + (1.0 + math.exp(epsilon)) * t
        assert least * (1 - 1e-9) <= float(release.delta(epsilon=epsilon)) <= least * 1.01
    assert release.unprotected is None
    assert set(shown) == {"inverse_temperature", "regularization", "total_variation", "steps", "step_size", "inner", "secure_noise"}


def test_nothing_that_is_shown_depends_on_the_records():
    first, second = (problem(loss=Logistic()), problem(loss=Logistic()))
    object.__setattr__(second, "targets", -second.targets)
    object.__setattr__(second, "rows", second.rows[::-1] * 0.1)
    shown = [regularized_exponential(p, epsilon=1.0, delta=1e-5, progress=False).diagnostics for p in (first, second)]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("inner", ["differences", "values", "series", "poisson"])
def test_values_alone_make_a_release(inner):
    asked = problem(8, 1)
    budget = {"epsilon": 0.3, "delta": 0.02}
    release = regularized_exponential(asked, **budget, inner=inner, random=source(1), progress=False, reveal_unprotected=True)
    assert float(release.epsilon(delta=0.02)) <= 0.3
    assert release.unprotected["queries_per_draw"] > 0
    assert "UNPROTECTED" in repr(release)


def test_more_budget_is_less_risk_and_the_bound_holds():
    asked = problem(300, 3)
    theta, best = np.zeros(3), math.inf
    for _ in range(400):
        theta = asked.constraint.project(theta - asked.gradient(theta) / (asked.smoothness * asked.num_records))
        best = min(best, asked.objective(theta) / asked.num_records)
    means = []
    for epsilon in (0.1, 1.0):
        runs = [regularized_exponential(asked, epsilon=epsilon, delta=1e-5, random=source(s), progress=False) for s in range(8)]
        excess = [asked.objective(r.value) / asked.num_records - best for r in runs]
        shown = runs[0].diagnostics
        assert min(excess) >= -1e-9
        assert np.mean(excess) <= 3 / shown["inverse_temperature"] + shown["regularization"] * 2.0**2 / 2
        means.append(float(np.mean(excess)))
    assert means[1] < means[0]


@pytest.mark.parametrize("fault", [1.0, 3.0])
def test_an_audit_stays_below_the_claim_and_a_hotter_law_does_not(fault):
    """One record of linear losses exchanged, where the theorem is attained; `fault` is how much colder the law is than claimed."""
    rows = np.full((10, 1), 1.0)
    draws = []
    for label in (500.0, -500.0):
        labels = np.concatenate([np.full(5, 500.0), np.full(4, -500.0), [label]])
        target = Target(Problem(rows, labels, Quantile(), WholeSpace()), 10.0 * fault, 0.1)
        draws.append(sample(target, planned(target, 1e-4), chains=2000, source=source(int(label) + 600), progress=False).points[:, 0])
    claim = PrivacyProfile(GaussianDP(2 * 0.5 * math.sqrt(10.0) / (10 * math.sqrt(0.1))))
    delta = 0.05
    found = lower_bound(lambda inside, k: float(draws[int(inside)][k]), 2000, delta)
    claimed = float(claim.epsilon(delta=delta))
    assert (found > claimed) if fault > 1.0 else (0.5 * claimed < found <= claimed)


@pytest.mark.parametrize("call", [
    lambda: regularized_exponential(problem(), epsilon=1.0, delta=1e-5, adjacency="add-or-remove"),
    lambda: regularized_exponential(problem(), epsilon=0.0, delta=1e-5),
    lambda: regularized_exponential(problem(), epsilon=1.0, delta=0.0),
    lambda: regularized_exponential(problem(), epsilon=1.0, delta=1e-5, risk="worst"),
    lambda: regularized_exponential(problem(), epsilon=1.0, delta=1e-5, inner="guess"),
    lambda: regularized_exponential(problem(constraint=WholeSpace()), epsilon=1.0, delta=1e-5),
    lambda: regularized_exponential(problem(constraint=WholeSpace(), loss=Squared(1.0)), epsilon=1.0, delta=1e-5, radius=1.0),
    lambda: regularized_exponential(problem(constraint=Simplex()), epsilon=1.0, delta=1e-5),
    lambda: regularized_exponential(problem(constraint=Box(0.5, 1.0)), epsilon=1.0, delta=1e-5),
    lambda: regularized_exponential(problem(), epsilon=1.0, delta=1e-5, random=3),
], ids=range(10))
def test_bad_input_is_refused(call):
    from test_bad_input import SHAPE

    with pytest.raises((ValueError, TypeError), match=SHAPE):
        call()


def test_a_run_of_days_is_refused_before_it_begins_with_what_to_do():
    with pytest.raises(ValueError, match=rf"`{OWNER}\(most_steps=...\)` must be at least \d+, some .* hours.*inner='exact'"):
        regularized_exponential(problem(3000, 10, Quantile()), epsilon=4.0, delta=1e-6, inner="series", progress=False)


def test_what_is_asked_to_be_short_is_refused_with_a_measured_time():
    with pytest.raises(ValueError, match=r"must be at least \d+, some .* hours, for this budget and inner='exact'; got 3"):
        regularized_exponential(problem(), epsilon=1.0, delta=1e-5, most_steps=3, progress=False)
