"""Localisation: each row in one phase, halved steps, the worst phase as guarantee, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from solver_probes import Recorder, seeded
from solver_problems import two_classes

from dpaccount import Gaussian, PrivacyProfile
from solvers.algorithms import localisation
from solvers.algorithms.localisation import _share
from solvers.losses import Logistic, Squared
from solvers.problem import Problem
from solvers.sets import Box, L2Ball, WholeSpace

classes = two_classes


THIRDS = [np.arange(0, 200), np.arange(200, 300), np.arange(300, 400)]


def test_without_noise_it_is_gradient_descent_on_one_part_after_the_other():
    problem = classes(constraint=Box(-0.4, 0.3), ridge=6.0)
    options = {"phases": 3, "steps": 4, "rows": THIRDS, "learning_rate": 0.02, "adjacency": "replace-one"}
    release = localisation(problem, noise_multiplier=1.0, random=Recorder(noise_off=True), **options)
    theta = np.zeros(4)
    for rate, share, part in zip((0.02, 0.01, 0.005), (0.5, 0.25, 0.25), THIRDS, strict=True):
        path = []
        for _ in range(4):
            theta = np.clip(theta - rate * (problem.data_gradient(theta, chosen=part) + share * 6.0 * theta), -0.4, 0.3)
            path.append(theta)
        theta = np.mean(path, axis=0)
    assert_allclose(release.value, theta, rtol=1e-12)


def test_a_record_moves_the_queries_of_one_phase_alone():
    x, y = classes().rows, classes().targets
    for i in range(0, 400, 23):
        other = x.copy()
        other[i] = -x[i]
        gate = Recorder(seed=2)
        options = {"noise_multiplier": 1.0, "phases": 4, "steps": 3, "learning_rate": 0.1}
        localisation(Problem(x, y, Logistic(), L2Ball(8.0)), random=gate, **options)
        again = Recorder(seed=2, replay=gate.answers)
        localisation(Problem(other, y, Logistic(), L2Ball(8.0)), random=again, **options)
        changes = [np.abs(a.value - b.value).max() for a, b in zip(gate.queries, again.queries, strict=True)]
        assert len({k // 3 for k, change in enumerate(changes) if change > 1e-12}) == 1


def test_phases_are_drawn_by_halves_and_no_row_serves_twice():
    """Counts of 16,000 draws against 1/2, 1/4, 1/8, 1/8: chi-squared at 1e-4."""
    from solvers.algorithms.localisation import _drawn
    from solvers.gate import Gate

    parts = _drawn(Gate(seeded(0)), 16_000, 4)
    assert sorted(np.concatenate(parts).tolist()) == list(range(16_000))
    expected = np.array([_share(i, 4) for i in range(4)]) * 16_000
    assert expected.tolist() == [8000.0, 4000.0, 2000.0, 2000.0]
    assert (((np.array([len(p) for p in parts]) - expected) ** 2) / expected).sum() < 21.2


@pytest.mark.parametrize("adjacency", ["add-or-remove", "replace-one", "zero-out"])
def test_a_budget_is_spent_and_kept_by_the_worst_phase(adjacency):
    options = {"epsilon": 1.5, "delta": 1e-5, "phases": 4, "steps": 9, "public_size": 400, "adjacency": adjacency}
    release = localisation(classes(), random=(gate := Recorder(seed=1)), **options)
    assert 1.5 * (1 - 1e-6) <= release.epsilon(1e-5).upper <= 1.5
    sigma = release.diagnostics["noise_multiplier"]
    assert release.guarantee == 9 * Gaussian(sigma)
    assert_allclose(PrivacyProfile(Gaussian(sigma / 3.0), adjacency).epsilon(delta=1e-5).upper, release.epsilon(1e-5).upper, rtol=1e-9)
    assert len(gate.queries) == 36  # four phases, of which a record pays one
    assert PrivacyProfile(gate.ledger(adjacency), adjacency).epsilon(delta=1e-5).lower > 2.0


def test_more_budget_gets_nearer_to_the_minimum():
    problem, found = classes(n=4000), []
    for epsilon in (0.05, 8.0):
        runs = [localisation(problem, epsilon=epsilon, delta=1e-5, public_size=4000, random=seeded(k)).value for k in range(4)]
        found.append(np.mean([problem.objective(theta) for theta in runs]) / 4000)
    assert found[1] < found[0]
    assert found[1] < 0.6 * math.log(2.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "epsilon"),
        ({"noise_multiplier": 1.0, "epsilon": 1.0}, "instead of both"),
        ({"noise_multiplier": 1.0}, "private under add-or-remove and zero-out"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"noise_multiplier": 1.0, "phases": 0}, "phases"),
        ({"noise_multiplier": 1.0, "phases": 41}, "phases"),
        ({"noise_multiplier": 1.0, "steps": 0}, "steps"),
        ({"noise_multiplier": 1.0, "learning_rate": 0.0}, "learning_rate"),
        ({"noise_multiplier": 1.0, "learning_rate": 0.1, "rows": THIRDS}, "shifts the places"),
        ({"noise_multiplier": 1.0, "learning_rate": 0.1, "start": np.full(4, 9.0)}, "a point of L2Ball"),
        ({"noise_multiplier": 1.0, "learning_rate": 0.1, "random": 3}, "protects nobody"),
    ],
)
def test_bad_arguments_fail_closed(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        localisation(classes(), **options)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0, 1], [1, 2], [3]], "disjoint"),
        ([[0, 1, 0], [2], [3]], "disjoint"),
        ([[0], [1]], "3 arrays"),
        (3, "3 arrays"),
        ([[0.5], [1], [2]], "3 arrays"),
        ([[-1], [1], [2]], "row numbers in"),
        ([[400], [1], [2]], "row numbers in"),
    ],
)
def test_rows_in_two_phases_are_refused(rows, message):
    options = {"noise_multiplier": 1.0, "learning_rate": 0.1, "adjacency": "replace-one", "random": seeded(0)}
    with pytest.raises((ValueError, TypeError), match=message):
        localisation(classes(), rows=rows, **options)
    assert localisation(classes(), rows=[[0], [], [2]], **options).value.shape == (4,)


def test_problems_it_cannot_use_are_refused():
    with pytest.raises(ValueError, match="clipping_norm"):
        localisation(classes(loss=Squared(), constraint=WholeSpace()), noise_multiplier=1.0, learning_rate=0.1)
    with pytest.raises(ValueError, match="bounded set"):
        localisation(classes(constraint=WholeSpace()), noise_multiplier=1.0, public_size=400)
    shown = localisation(classes(), noise_multiplier=1.0, learning_rate=0.1, random=seeded(0), reveal_unprotected=True)
    assert shown.unprotected["objective"] > 0.0
