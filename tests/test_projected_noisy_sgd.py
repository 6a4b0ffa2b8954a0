"""Projected noisy SGD: exact laws of small runs against the claims, budgets, assumptions that are enforced."""

from __future__ import annotations

import importlib
import math
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from solver_probes import Recorder, seeded
from solver_problems import two_classes

from dpaccount import Gaussian, GaussianDP, Laplace, PrivacyProfile
from dpaccount.iteration import PNSGD, Schedule
from solvers.algorithms import gradient_descent, projected_noisy_sgd
from solvers.algorithms.projected_noisy_sgd import record_guarantee
from solvers.losses import ClippedSquared, HuberHinge, PerExampleLoss, Quantile, Squared
from solvers.problem import Problem
from solvers.sets import Box, L2Ball

classes = partial(two_classes, n=300, d=3, constraint=L2Ball(4.0))


def line(labels, size=1e6, ridge=0.0):
    """Squared loss with x = 1 on an interval that is never left: Y is a linear function of labels and noise, so its law is Gaussian."""
    return Problem(np.ones((len(labels), 1)), labels, Squared(1.0), Box(-size, size), ridge=ridge)


def test_the_last_iterate_has_the_law_that_is_accounted():
    """Y_n = sum c^(n-t) eta (y_t + Z_t), c = 1 - eta: mean and variance of 300 runs within five standard errors."""
    labels, eta, sigma = np.array([1.0, -1.0, 0.5, 0.7, -0.2]), 0.3, 1e-6
    problem = line(labels)
    runs = [
        projected_noisy_sgd(problem, noise_multiplier=sigma, step_size=eta, random=seeded(k), progress=False).value[0] for k in range(300)
    ]
    c = (1.0 - eta) ** np.arange(4, -1, -1)
    spread = eta * sigma * problem.sensitivity(problem.lipschitz) * math.sqrt((c**2).sum())
    assert abs(np.mean(runs) - eta * (c * labels).sum()) < 5.0 * spread / math.sqrt(300)
    assert abs(np.std(runs) / spread - 1.0) < 5.0 / math.sqrt(600)


@pytest.mark.parametrize("order", ["given", "random"])
def test_without_noise_it_is_projected_sgd(order):
    problem = classes(n=40, ridge=8.0, constraint=Box(-0.05, 0.3))
    release = projected_noisy_sgd(problem, noise_multiplier=0.0, step_size=0.4, order=order, random=Recorder(seed=1, noise_off=True))
    places = np.arange(40) if order == "given" else seeded(1).permutation(40)
    theta = np.zeros(3)
    for i in places:
        theta = np.clip(theta - 0.4 * (problem.data_gradient(theta, chosen=np.array([i])) + 0.2 * theta), -0.05, 0.3)
    assert_allclose(release.value, theta, rtol=1e-13)
    assert release.epsilon(1e-5).upper == math.inf
    assert release.delta(3.0).upper == 1.0


def test_exact_neighbours_stay_within_the_claim_of_their_record():
    """Exchanging label 1 for -1 at step i moves the mean by 2 eta c^(n-i) over noise that later steps add to: exact, below the claim."""
    n, eta, ridge, sigma = 6, 0.25, 3.0, 0.4
    problem = Problem(np.ones((n, 1)), np.zeros(n), ClippedSquared(1.0), Box(-50.0, 50.0), ridge=ridge)
    release = projected_noisy_sgd(problem, noise_multiplier=sigma, step_size=eta, random=seeded(0))
    c = 1.0 - eta * (1.0 + ridge / n)
    later = 1.0 - eta * ridge / n  # the slowest contraction that a record may choose: its residual is clipped
    for i in (1, 3, n):
        claim = record_guarantee(release, i).delta(1.0).upper
        for factor in (c, later):
            mu = 2.0 * factor ** (n - i) / (sigma * math.sqrt((factor ** (2 * np.arange(n - i + 1))).sum()))
            truth = PrivacyProfile(GaussianDP(mu) if mu > 0 else Gaussian(math.inf), "replace-one").delta(epsilon=1.0).lower
            assert truth <= claim * (1.0 + 2.0**-10)
    assert release.guarantee == Gaussian(sigma)


def test_a_step_that_contracts_forgets():
    """c 0.9, T 100, sigma 5 with the record in every step: mu 0.87175663 where all iterates cost 2; c -> 1 gives sqrt(T)/sigma."""
    def mu(c):
        return Schedule(contraction=[c] * 100, shift=[1.0] * 100, noise=[5.0] * 100).solve().mu

    assert_allclose(mu(0.9), 0.87175663, atol=1e-8)
    assert_allclose(mu(1.0), 2.0, rtol=1e-12)
    assert Schedule(contraction=[0.9] * 100, shift=[1.0] * 100, noise=[5.0] * 100, diameter=3.0).solve().mu <= mu(0.9)  # projection


def test_the_setting_follows_from_the_problem():
    problem = classes(ridge=6.0, row_norm_bound=2.0)
    run = projected_noisy_sgd(problem, noise_multiplier=3.0, step_size=0.1, random=seeded(0)).diagnostics["accounting"]
    lipschitz = 2.0 * (1.0 + 2.0**-11)
    assert run == PNSGD(300, lipschitz, 1.02, 0.02, 0.1, 8.0, "gaussian", 3.0 * lipschitz, "spectrum")


@pytest.mark.parametrize("order", ["given", "random", "random stopping"])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_a_budget_is_spent_and_kept(order, noise):
    problem = classes(n=80, d=1, constraint=Box(-1.0, 1.0))
    release = projected_noisy_sgd(problem, epsilon=1.5, delta=1e-5, order=order, noise=noise, random=seeded(1))
    assert 1.5 * (1 - 1e-6) <= release.epsilon(1e-5).upper <= 1.5
    kind = {"gaussian": Gaussian, "laplace": Laplace}[noise]
    if order == "given":
        assert release.guarantee == kind(release.diagnostics["noise_multiplier"])
    else:
        asked = release.diagnostics["accounting"]
        for epsilon in (0.0, 0.3, 1.5, 2.7):
            assert asked.delta(epsilon).upper <= release.delta(epsilon).upper * (1 + 1e-12)


def test_a_pure_budget_takes_laplace_noise():
    release = projected_noisy_sgd(classes(n=80, d=1, constraint=Box(-1.0, 1.0)), epsilon=1.0, noise="laplace", random=seeded(1))
    assert_allclose(release.epsilon(0.0).upper, 1.0, rtol=1e-9)
    with pytest.raises(TypeError, match="delta"):
        projected_noisy_sgd(classes(), epsilon=1.0)


def test_a_random_order_and_early_records_cost_less():
    noise = {
        order: projected_noisy_sgd(classes(), epsilon=1.0, delta=1e-5, order=order, random=seeded(0)).diagnostics["noise_multiplier"]
        for order in ("given", "random", "random stopping")
    }
    assert noise["random"] < 0.7 * noise["given"]
    assert_allclose(noise["random"], noise["random stopping"], rtol=1e-6)
    release = projected_noisy_sgd(classes(), epsilon=1.0, delta=1e-5, random=seeded(0))
    spent = [record_guarantee(release, i).epsilon(1e-5).upper for i in (1, 290, 300)]
    assert spent == sorted(spent)
    assert spent[0] < 0.1
    assert_allclose(spent[-1], 1.0, rtol=1e-3)


def test_the_stop_is_uniform(monkeypatch):
    module = importlib.import_module("solvers.algorithms.projected_noisy_sgd")
    monkeypatch.setattr(module, "_curve", lambda *_: Gaussian(1.0))  # the stop does not ask for it, and it takes time
    problem, seen = classes(n=12), []
    for k in range(360):
        gate = Recorder(seed=k)
        projected_noisy_sgd(problem, noise_multiplier=1.0, step_size=0.1, order="random stopping", method="shifted", random=gate)
        seen.append(len(gate.queries))
    assert (((np.bincount(seen, minlength=13)[1:] - 30) ** 2) / 30.0).sum() < 37.4  # chi-squared, 11 degrees, 1e-4


def test_more_records_learn_more():
    found = []
    for n in (50, 2000):
        problem = classes(n=n)
        options = {"epsilon": 8.0, "delta": 1e-5, "order": "random", "method": "contraction", "progress": False}
        release = projected_noisy_sgd(problem, **options, random=seeded(3))
        found.append(np.mean(np.sign(problem.rows @ release.value) == problem.targets))
    assert found[1] > 0.8


@pytest.mark.parametrize(
    ("problem", "options", "message"),
    [
        ({}, {}, "epsilon"),
        ({}, {"epsilon": 0.0, "delta": 1e-5}, "zero budget"),
        ({}, {"noise_multiplier": 1.0, "epsilon": 1.0}, "instead of both"),
        ({}, {"noise_multiplier": -1.0}, "noise_multiplier"),
        ({}, {"noise_multiplier": 1.0, "step_size": 8.1}, "move points apart"),
        ({"ridge": 300.0}, {"noise_multiplier": 1.0, "step_size": 0.9}, "move points apart"),
        ({}, {"noise_multiplier": 1.0, "step_size": 0.0}, "step_size"),
        ({}, {"noise_multiplier": 1.0, "noise": "laplace"}, "one dimension"),
        ({}, {"noise_multiplier": 1.0, "noise": "cauchy"}, "one of"),
        ({}, {"noise_multiplier": 1.0, "order": "sorted"}, "one of"),
        ({}, {"noise_multiplier": 1.0, "method": "guess"}, "one of"),
        ({}, {"noise_multiplier": 1.0, "adjacency": "add-or-remove"}, "shifts the places"),
        ({}, {"noise_multiplier": 1.0, "start": np.full(3, 9.0)}, "a point of L2Ball"),
        ({}, {"noise_multiplier": 1.0, "random": 3}, "protects nobody"),
        ({"loss": Quantile()}, {"noise_multiplier": 1.0}, "kink"),
        ({"loss": Squared(), "constraint": None}, {"noise_multiplier": 1.0}, "bounded set"),
        ({"constraint": None}, {"noise_multiplier": 1.0}, "share of the diameter"),
        ({"loss": PerExampleLoss(lambda t, x, y: x @ t, lambda t, x, y: x, gradient_bound=1.0, smoothness_bound=1.0)},
         {"noise_multiplier": 1.0}, "need not contract"),
    ],
)
def test_what_the_theorems_do_not_cover_is_refused(problem, options, message):
    from solvers.sets import WholeSpace

    made = {**problem, **({"constraint": WholeSpace()} if problem.get("constraint", 0) is None else {})}
    with pytest.raises((ValueError, TypeError), match=message):
        projected_noisy_sgd(classes(**made), **options)


def test_a_record_is_asked_of_the_given_order():
    release = projected_noisy_sgd(classes(), noise_multiplier=2.0, order="random", random=seeded(0))
    with pytest.raises(TypeError, match="in the given order"):
        record_guarantee(release, 1)
    with pytest.raises(TypeError, match="in the given order"):
        record_guarantee(gradient_descent(classes(), noise_multiplier=2.0, steps=1, learning_rate=0.1), 1)
    given = projected_noisy_sgd(classes(loss=HuberHinge()), noise_multiplier=2.0, random=seeded(0), reveal_unprotected=True)
    assert given.unprotected["objective"] > 0.0
    with pytest.raises(ValueError, match="index"):
        record_guarantee(given, 301)
