"""Noisy gradient descent: anchors of its noise, the theorem's step, its outputs, and what it refuses."""

from __future__ import annotations

import math
import time
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from solver_probes import Recorder, seeded
from solver_problems import two_classes

from dpaccount import Gaussian, Laplace, PoissonSampled, PrivacyProfile, UnreachableTarget
from solvers.algorithms import gradient_descent
from solvers.algorithms.gradient_descent import default_rate
from solvers.budget import gradient_descent_noise
from solvers.gate import Gate
from solvers.losses import Logistic, Multinomial, Quantile, Squared
from solvers.problem import Problem
from solvers.sets import Box, L2Ball, WholeSpace

classes = partial(two_classes, d=5, ramp=True, noise=0.3)


def test_the_exact_noise_stands_beside_the_theorem():
    """solver-independent anchors: Theorem 6.10's 50.03 and its true delta, the exact 37.31."""
    problem = Problem(np.eye(2), [1, -1], Logistic(), L2Ball(1.0))
    release = gradient_descent(problem, epsilon=1.0, delta=1e-5, steps=100, public_size=2)
    assert_allclose(release.diagnostics["noise_multiplier"], 37.3063163481594183, rtol=1e-9)
    assert_allclose(release.diagnostics["theorem_noise"], 50.0258442506875208, rtol=1e-15)
    assert_allclose(gradient_descent_noise(100, 1.0, 1e-5), 50.0258442506875208, rtol=1e-15)
    true = PrivacyProfile(100 * Gaussian(50.0258442506875208)).delta(epsilon=1.0)
    assert_allclose(true.upper, 1.72959516885329704e-8, rtol=1e-9)
    assert release.guarantee == 100 * Gaussian(release.diagnostics["noise_multiplier"])


def test_a_public_run_of_poisson_batches():
    """sigma 1.1, 256 of 60000, 14062 steps: epsilon 2.3815969214 at 1e-5. A short run has the same guarantee, shorter."""
    problem = Problem(np.ones((1, 1)), [1], Logistic(), L2Ball(1.0))
    release = gradient_descent(
        problem, noise_multiplier=1.1, steps=2, sampling_probability=256 / 60000, learning_rate=0.1, random=seeded(0)
    )
    assert release.guarantee == 2 * PoissonSampled(Gaussian(1.1), 256 / 60000)
    assert_allclose(PrivacyProfile(7031 * release.guarantee).epsilon(delta=1e-5).upper, 2.3815969214, atol=5e-10)


@pytest.mark.parametrize(
    ("adjacency", "q"), [("add-or-remove", 1.0), ("add-or-remove", 0.2), ("replace-one", 1.0), ("zero-out", 1.0), ("zero-out", 0.2)]
)
def test_a_budget_is_spent_and_kept(adjacency, q):
    release = gradient_descent(
        classes(), epsilon=1.5, delta=1e-5, steps=30, sampling_probability=q, adjacency=adjacency, random=seeded(1)
    )
    spent = release.epsilon(1e-5).upper
    assert 1.5 * (1 - 1e-6) <= spent <= 1.5
    assert release.adjacency == adjacency
    assert release.diagnostics["size"] > 0


def test_what_came_before_is_part_of_the_budget():
    options = {"epsilon": 1.0, "delta": 1e-5, "steps": 10, "learning_rate": 0.1, "random": seeded(0)}
    for before in (Gaussian(9.0), 3 * Gaussian(20.0) + Gaussian(9.0), Laplace(20.0), PoissonSampled(Gaussian(3.0), 0.1)):
        release = gradient_descent(classes(), before=before, **options)
        assert 1.0 - 1e-6 <= release.epsilon(1e-5).upper <= 1.0
        assert dict(before.terms).items() <= dict(release.guarantee.terms).items()
    with pytest.raises(UnreachableTarget, match="no value"):
        gradient_descent(classes(), before=Gaussian(1.0), **options)


def test_exchanges_cost_twice_the_noise():
    one, two = (
        gradient_descent(classes(), epsilon=1.0, delta=1e-5, steps=9, public_size=400, adjacency=a, random=seeded(0))
        for a in ("add-or-remove", "replace-one")
    )
    assert_allclose(two.diagnostics["noise_multiplier"], 2 * one.diagnostics["noise_multiplier"], rtol=1e-8)


def test_the_number_of_records_is_read_only_where_it_is_public_or_paid_for():
    gate = Recorder()
    counted = gradient_descent(classes(), epsilon=1.0, delta=1e-5, steps=5, random=gate)
    assert gate.queries[0].value.tolist() == [400.0]
    assert len(counted.guarantee.terms) == 2
    assert counted.diagnostics["size"] == max(float(gate.answers[0][0]), 1.0)
    stated = gradient_descent(classes(), epsilon=1.0, delta=1e-5, steps=5, public_size=300, random=(gate := Recorder()))
    assert len(gate.queries) == 5
    assert stated.diagnostics["size"] == 300.0
    public = gradient_descent(classes(), epsilon=1.0, delta=1e-5, steps=5, adjacency="replace-one", random=(gate := Recorder()))
    assert len(gate.queries) == 5
    assert public.diagnostics["size"] == 400.0
    absent = gradient_descent(classes(), epsilon=1.0, delta=1e-5, steps=5, adjacency="zero-out", random=(gate := Recorder()))
    assert gate.queries[0].value.tolist() == [400.0]  # those that are there, as a record less would show
    assert len(absent.guarantee.terms) == 2
    unread = gradient_descent(classes(), epsilon=1.0, delta=1e-5, steps=5, learning_rate=0.1, random=(gate := Recorder()))
    assert len(gate.queries) == 5
    assert "size" not in unread.diagnostics


def test_the_default_step_is_the_theorems():
    """|C|/(L sqrt(T (n^2 + p lambda^2))) on the full batch; capped by the ridge."""
    problem = classes(row_norm_bound=2.0)
    assert_allclose(default_rate(problem, 50, 7.0, 1.0, 2.0, 400), 16.0 / (2.0 * math.sqrt(50 * (400.0**2 + 5 * 49.0))), rtol=1e-14)
    batch = 0.1 * 400
    squared = batch**2 + batch * 0.9 + 5 * 49.0
    assert_allclose(default_rate(problem, 50, 7.0, 0.1, 2.0, 400), 16.0 / (2.0 * math.sqrt(50 * squared)), rtol=1e-14)
    assert default_rate(classes(ridge=1000.0), 50, 7.0, 1.0, 1.0, 400) == 1e-3


def test_a_step_may_be_paced_by_the_noise():
    problem = classes(constraint=WholeSpace())
    release = gradient_descent(problem, epsilon=1.0, delta=1e-5, steps=25, reach=3.0, random=seeded(0))
    noise = release.diagnostics["noise_multiplier"] * release.diagnostics["clipping_norm"]
    assert_allclose(release.diagnostics["learning_rate"] * noise * math.sqrt(25 * 5), 3.0, rtol=1e-14)
    assert "size" not in release.diagnostics
    with pytest.raises(ValueError, match="Without noise"):
        gradient_descent(problem, noise_multiplier=0.0, steps=2, reach=1.0)
    with pytest.raises(TypeError, match="Each settles"):
        gradient_descent(problem, epsilon=1.0, delta=1e-5, steps=2, reach=1.0, learning_rate=1.0)


def test_a_stable_step_is_no_longer_than_curvature_allows():
    problem = Problem(np.eye(5), np.ones(5), Squared(1.0), ridge=2.0, row_norm_bound=3.0)
    options = {"epsilon": 8.0, "delta": 1e-5, "steps": 3, "clipping_norm": 1.0, "public_size": 50, "random": seeded(0)}
    found = gradient_descent(problem, reach=1e9, stable=True, **options)
    assert_allclose(found.diagnostics["learning_rate"], 1.0 / (50 * 9.0 + 2.0), rtol=1e-14)
    free = gradient_descent(problem, reach=1e-9, stable=True, **options)
    assert free.diagnostics["learning_rate"] < found.diagnostics["learning_rate"]
    with pytest.raises(ValueError, match="no longest stable step"):
        gradient_descent(Problem(np.eye(5), np.ones(5), Quantile()), reach=1.0, stable=True, **options)


def test_the_default_number_of_steps_is_the_theorems_where_it_is_small():
    small = gradient_descent(classes(), epsilon=0.1, delta=1e-5, public_size=60, random=seeded(0))
    assert small.diagnostics["steps"] == math.ceil(60**2 * 0.01 / 5)
    assert gradient_descent(classes(), epsilon=8.0, delta=1e-5, public_size=400, random=seeded(0)).diagnostics["steps"] == 200


def plain(problem, steps, rate):
    """The iterates without noise, by hand."""
    theta, found = np.zeros(problem.dimension), []
    for _ in range(steps):
        theta = problem.constraint.project(theta - rate * problem.gradient(theta))
        found.append(theta)
    return np.array(found)


@pytest.mark.parametrize("output", ["average", "tail", "last"])
def test_without_noise_it_is_gradient_descent(output):
    problem = classes(constraint=Box(-2.0, 2.0), ridge=0.5, intercept=True)
    found = gradient_descent(problem, noise_multiplier=0.0, steps=40, learning_rate=0.01, output=output, random=Recorder(noise_off=True))
    path = plain(problem, 40, 0.01)
    expected = {"average": path.mean(0), "tail": path[20:].mean(0), "last": path[-1]}[output]
    assert_allclose(found.value, expected, rtol=1e-12)
    assert found.epsilon(1e-5).upper == math.inf


def test_more_budget_gets_nearer_to_the_minimum():
    """Mean excess over 8 seeds falls with epsilon, and is small at 8; Theorem 6.11's bound holds on the way."""
    problem = classes(n=2000)
    best = problem.objective(plain(problem, 3000, 0.01)[-1])
    excess = {}
    for epsilon in (0.1, 1.0, 8.0):
        runs = [gradient_descent(problem, epsilon=epsilon, delta=1e-5, steps=60, public_size=2000, random=seeded(k)) for k in range(8)]
        excess[epsilon] = np.mean([problem.objective(run.value) - best for run in runs]) / 2000
        noise, p = runs[0].diagnostics["noise_multiplier"], problem.dimension
        assert excess[epsilon] <= 16.0 * math.sqrt((2000.0**2 + p * noise**2) / 60) / 2000
    assert excess[0.1] > excess[1.0] > excess[8.0]
    assert excess[8.0] < 0.15


def test_batches_average_to_the_full_gradient():
    problem = classes()
    found = gradient_descent(
        problem, noise_multiplier=0.0, steps=400, sampling_probability=0.1, learning_rate=0.05, output="tail", random=Gate(seeded(2))
    )
    best = problem.objective(plain(problem, 3000, 0.02)[-1])
    assert problem.objective(found.value) < best + 0.03 * 400


def test_many_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    x = np.eye(3)[y] + 0.2 * rng.standard_normal((600, 3))
    problem = Problem(x, y, Multinomial(3), L2Ball(20.0))
    release = gradient_descent(problem, epsilon=2.0, delta=1e-5, steps=40, public_size=600, random=seeded(0))
    assert np.mean(Multinomial(3).scores(problem.rows, release.value).argmax(axis=1) == y) > 0.9


def test_what_is_shown_follows_from_what_is_released():
    """Two data sets with one gradient path in common show the same diagnostics."""
    first = gradient_descent(classes(seed=0), epsilon=1.0, delta=1e-5, steps=4, public_size=400, random=(gate := Recorder()))
    second = gradient_descent(classes(seed=1), epsilon=1.0, delta=1e-5, steps=4, public_size=400, random=Recorder(replay=gate.answers))
    assert dict(first.diagnostics) == dict(second.diagnostics)
    assert_allclose(first.value, second.value, rtol=0)
    assert first.unprotected is None


def test_unprotected_diagnostics_are_asked_for():
    problem = classes()
    release = gradient_descent(problem, noise_multiplier=1.0, steps=2, learning_rate=0.1, random=seeded(0), reveal_unprotected=True)
    assert release.unprotected["objective"] == problem.objective(release.value)
    assert "UNPROTECTED" in repr(release)


BUDGET = {"epsilon": 1.0, "delta": 1e-5, "public_size": 400}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "epsilon"),
        ({"epsilon": 1.0}, "delta"),
        ({"epsilon": 0.0, "delta": 1e-5}, "zero budget"),
        ({"epsilon": -1.0, "delta": 1e-5}, "epsilon"),
        ({"epsilon": 1.0, "delta": 0.0}, "no pure guarantee"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta"),
        ({**BUDGET, "noise_multiplier": 1.0}, "instead of both"),
        ({"noise_multiplier": 1.0}, "steps"),
        ({"noise_multiplier": 1.0, "steps": 3}, "private under add-or-remove and zero-out"),
        ({"noise_multiplier": -1.0, "steps": 3}, "noise_multiplier"),
        ({**BUDGET, "steps": 0}, "steps"),
        ({**BUDGET, "steps": 2.5}, "steps"),
        ({**BUDGET, "sampling_probability": 1.28}, "batch size"),
        ({**BUDGET, "sampling_probability": 0.0}, "sampling_probability"),
        ({**BUDGET, "output": "first"}, "one of"),
        ({**BUDGET, "learning_rate": 0.0}, "learning_rate"),
        ({**BUDGET, "clipping_norm": 0.0}, "clipping_norm"),
        ({**BUDGET, "start": np.full(5, 9.0)}, "a point of L2Ball"),
        ({**BUDGET, "start": np.zeros(3)}, "5 numbers"),
        ({**BUDGET, "adjacency": "as-written"}, "about data sets"),
        ({**BUDGET, "adjacency": "neighbours"}, "never guessed"),
        ({**BUDGET, "random": 3}, "protects nobody"),
        ({**BUDGET, "public_size": 0}, "public_size"),
        ({**BUDGET, "reveal_unprotected": "yes"}, "True or False"),
    ],
)
def test_bad_arguments_fail_closed(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        gradient_descent(classes(), **options)


def test_problems_it_cannot_use_are_refused():
    x, y = np.eye(2), [1, -1]
    with pytest.raises(ValueError, match="bounded set"):
        gradient_descent(Problem(x, y, Logistic()), epsilon=1.0, delta=1e-5, public_size=2)
    with pytest.raises(ValueError, match="clipping_norm"):
        gradient_descent(Problem(x, y, Squared()), epsilon=1.0, delta=1e-5, steps=3, learning_rate=0.1)


def test_privacy_costs_no_more_than_three_times_the_gradients():
    """43,152 x 23, against the same number of plain numpy steps; the best of three, which a busy machine blurs least."""
    rng = np.random.default_rng(0)
    problem = Problem(rng.standard_normal((43_152, 23)), rng.choice([-1.0, 1.0], 43_152), Logistic(), L2Ball(10.0))
    rows, y = problem.rows, problem.targets

    def by_hand():
        theta = np.zeros(23)
        for _ in range(40):
            theta = theta - 1e-5 * (rows.T @ (-y / (1.0 + np.exp(y * (rows @ theta)))))

    def private():
        gradient_descent(problem, noise_multiplier=5.0, steps=40, learning_rate=1e-5, progress=False)

    assert timed(private) < 3.0 * timed(by_hand)


def timed(function):
    best = math.inf
    for _ in range(3):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best
