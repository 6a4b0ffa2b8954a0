"""Noisy gradient descent: closed forms against the solver, known formulas, truth from below, and calibration."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_bad_input import SHAPE
from test_shifted import last_iterate

from dpaccount import PrivacyProfile, Status, calibrate
from dpaccount._log import gaussian_log_delta
from dpaccount.citations import citations
from dpaccount.iteration import NoisyGD, Schedule
from dpaccount.iteration.periodic import Uses, attained_mu, shifted_mu

REFERENCE = json.loads((Path(__file__).parent / "references" / "shifted.json").read_text(encoding="utf-8"))["full_batch"]
PLAIN = NoisyGD(
    num_records=100, lipschitz=1.0, smoothness=1.0, strong_convexity=0.1, step_size=0.5, noise_scale=0.5, steps=400,
)
CYCLIC = NoisyGD(
    num_records=100, lipschitz=1.0, smoothness=1.0, strong_convexity=0.0, step_size=0.5, noise_scale=1.0, steps=1000, diameter=1.0,
    batches=10,
)


# closed forms


@pytest.mark.parametrize("case", REFERENCE, ids=lambda c: f"{c['steps']}-{c['c']}")
def test_full_batch_has_the_geometric_sums(case):
    rho = (1.0 - float(case["c"])) / 0.5
    run = replace(PLAIN, steps=case["steps"], strong_convexity=rho, smoothness=max(1.0, rho))
    assert_allclose(run.mu(), float(case["mu"]), rtol=1e-12)
    assert run.mu() >= float(case["mu"])


def test_full_batch_is_the_formula_of_the_theorem_and_has_a_limit():
    """mu = L/(n sigma) sqrt((1 - c^t)/(1 + c^t) (1 + c)/(1 - c)), c = max(|1 - eta rho|, |1 - eta beta|)."""
    for steps, eta, rho in ((1, 0.5, 0.1), (17, 0.5, 0.1), (400, 1.7, 0.4), (50, 1.95, 0.2)):
        c = max(abs(1 - eta * rho), abs(1 - eta))
        run = replace(PLAIN, steps=steps, step_size=eta, strong_convexity=rho)
        assert_allclose(run.mu(), 0.02 * math.sqrt((1 - c**steps) / (1 + c**steps) * (1 + c) / (1 - c)), rtol=1e-12)
        assert_allclose(run.limit().mu(), 0.02 * math.sqrt((1 + c) / (1 - c)), rtol=1e-12)
    assert replace(PLAIN, strong_convexity=0.0).limit().mu() == math.inf


def test_cyclic_batches_are_the_formula_of_the_theorem():
    """BSA24: unprojected, the last batch: (L/(b sigma))^2 (1 + c^{2l-2} (1-c^2)/(1-c^l)^2 (1-c^{l(E-1)})/(1+c^{l(E-1)}))."""
    period, passes, c = 10, 7, 0.95
    run = replace(PLAIN, batches=period, steps=period * passes)
    k, whole = c ** (period * (passes - 1)), 1 - c**period
    expected = (1.0 / (10 * 0.5)) * math.sqrt(1 + c ** (2 * period - 2) * (1 - c * c) / whole**2 * (1 - k) / (1 + k))
    assert_allclose(run.mu(), expected, rtol=1e-12)
    assert_allclose(run.mu(period), expected, rtol=1e-12)


def test_closed_forms_are_the_solver():
    rng, restarts = np.random.default_rng(3), 0
    for _ in range(400):
        period, uses = int(rng.integers(1, 7)), int(rng.integers(1, 30))
        idle = int(rng.integers(0, period))
        gap = float(rng.choice([0.0, rng.uniform(), 10.0 ** rng.uniform(-4, 0), 1.0]))
        shift, noise = float(rng.exponential()), float(rng.exponential()) + 0.01
        far = float(rng.choice([math.inf, shift * 10.0 ** rng.uniform(-2, 2)]))
        shifts = np.zeros((uses - 1) * period + idle + 1)
        shifts[::period] = shift
        found = Schedule(1.0 - gap, shifts, noise, diameter=None if far == math.inf else far).solve()
        use = Uses(period, uses, idle)
        assert_allclose(shifted_mu(gap, shift, noise, use, far), found.mu, rtol=1e-12, atol=1e-99)
        assert attained_mu(gap, shift, noise, use, shifts.size) <= shifted_mu(gap, shift, noise, use, math.inf)
        restarts += found.start > 0
    assert restarts > 60


def test_a_run_is_its_schedule():
    for batch in (None, 1, 5, 10):
        assert_allclose(CYCLIC.mu(batch), CYCLIC.schedule(batch).solve().mu, rtol=1e-11)
    weak = replace(CYCLIC, strong_convexity=-0.2, steps=95)
    assert weak.gap < 0.0
    assert_allclose(weak.mu(3), weak.schedule(3).solve().mu, rtol=1e-11)


def test_projected_runs_converge_to_the_closed_limit():
    """Convex: the least over whole m of (D + s m)/(tau sqrt m); strongly convex: D (2 p - D)(1 - c^2) at c^m = 1 - D/p."""
    run = replace(PLAIN, strong_convexity=0.0, diameter=1.0, steps=math.inf)
    s, tau = 0.5 * 0.01, 0.5 * 0.5
    m = np.arange(1.0, 2000.0)
    assert_allclose(run.mu(), float(np.min((1.0 + s * m) / (tau * np.sqrt(m)))), rtol=1e-12)
    assert_allclose(run.mu(), 2.0 * math.sqrt(s) / tau, rtol=1e-4)
    assert replace(run, steps=10**12).mu() == run.mu()
    curved = replace(run, strong_convexity=0.001)
    p, c = s / 0.0005, 1 - 0.0005
    assert_allclose(curved.mu(), math.sqrt((2 * p - 1.0) * (1 - c * c)) / tau, rtol=1e-6)


def test_the_records_of_the_last_step_are_the_worst():
    for steps in (1, 7, 10, 93, 200):
        for diameter in (0.02, 1.0, math.inf):
            run = replace(CYCLIC, steps=steps, diameter=diameter)
            each = [run.mu(batch) for batch in range(1, 11)]
            assert run.mu() == max(each)
            assert each[(steps - 1) % 10] == run.mu()
    assert replace(CYCLIC, steps=3).mu(5) == 0.0
    assert float(replace(CYCLIC, steps=3).epsilon(1e-9, batch=5)) < 1e-90


def test_more_noise_hides_more_and_more_steps_never_less():
    for field, values, rising in (
        ("noise_scale", (0.1, 0.5, 2.0), False), ("steps", (1, 3, 50, 10**6, math.inf), True), ("diameter", (0.1, 1.0, math.inf), True),
        ("lipschitz", (0.5, 1.0), True), ("strong_convexity", (0.0, 0.2, 0.5), False),
    ):
        mus = [replace(CYCLIC, **{field: value}).mu() for value in values]
        assert mus == sorted(mus, reverse=not rising)


# answers


def test_every_method_holds_and_best_is_the_least():
    epsilon = np.array([0.02, 0.1, 0.5, 1.5])
    logs = {m: CYCLIC.log_delta(epsilon, batch=5, method=m) for m in CYCLIC.methods}
    for name, found in logs.items():
        assert (logs["best"].upper <= found.upper + 1e-12).all()
        assert found.certified
        assert CYCLIC.theorem(name)
    reach, own, idle = 2.0, 0.1, 5
    expected = gaussian_log_delta(epsilon, reach + own) + idle * gaussian_log_delta(epsilon, reach)
    assert_allclose(logs["contraction"].upper, expected, rtol=1e-12)
    mixed = gaussian_log_delta(epsilon, replace(CYCLIC, steps=995).mu()) + idle * gaussian_log_delta(epsilon, reach)
    assert_allclose(logs["shifted, then contraction"].upper, mixed, rtol=1e-12)
    assert (logs["shifted, then contraction"].upper < logs["shifted"].upper - 0.3).all()
    assert_allclose(logs["composition"].upper, gaussian_log_delta(epsilon, 1.0), rtol=1e-12)
    assert CYCLIC.delta(0.1, batch=5).method == "shifted, then contraction"
    assert CYCLIC.delta(0.1).method == "shifted"


def test_a_first_use_is_contracted_from_where_it_leaves_off():
    once = replace(CYCLIC, steps=10)
    expected = gaussian_log_delta(0.5, 0.1) + 7 * gaussian_log_delta(0.5, 2.0)
    assert_allclose(once.log_delta(0.5, batch=3, method="contraction").upper, expected, rtol=1e-12)  # ADC20, Theorem 4


def test_without_a_projection_a_quadratic_attains_it():
    found = PLAIN.epsilon([1e-5, 1e-9])
    assert (found.upper - found.lower <= 1e-9 * found.upper).all()
    assert found.method == "shifted"
    c = 0.95 ** np.arange(400)
    exact = 0.02 * c.sum() / math.sqrt(np.square(c).sum())
    assert_allclose(PLAIN.mu(), exact, rtol=1e-9)
    assert CYCLIC.delta(0.5).lower == 0.0
    for steps, batch in ((25, 3), (20, 10), (7, 5)):  # noise before the first use counts, so do idle steps
        run = replace(PLAIN, batches=10, steps=steps)
        later, used = 0.95 ** np.arange(steps)[::-1], np.arange(1, steps + 1) % 10 == batch % 10
        mean = float(later[used].sum()) * 0.1 / (0.5 * math.sqrt(float(np.square(later).sum())))
        assert_allclose(run.log_delta(0.1, batch=batch).lower, gaussian_log_delta(0.1, mean), rtol=1e-9)
        assert run.delta(0.1, batch=batch).upper >= run.delta(0.1, batch=batch).lower
    steep = replace(PLAIN, step_size=1.95)  # c is that of beta, the quadratic of curvature rho attains less
    assert 0.0 < steep.delta(0.1).lower < 0.8 * steep.delta(0.1).upper


def test_no_projected_run_is_above_the_best_of_its_bounds():
    """Exact truncated chains by quadrature: quadratics in three batches, a record used in steps 1 and 4 of 6."""
    rng, won = np.random.default_rng(17), 0
    epsilon = np.array([0.0, 0.05, 0.2, 0.6, 1.5])
    for _ in range(25):
        rho, beta = np.sort(rng.uniform(0.0, 1.0, 2))
        run = NoisyGD(
            num_records=3, lipschitz=float(rng.uniform(0.2, 1.0)), smoothness=float(beta), strong_convexity=float(rho),
            step_size=float(rng.uniform(0.2, 1.5)), noise_scale=float(rng.uniform(0.4, 1.5)), steps=6,
            diameter=float(rng.uniform(0.3, 2.0)), batches=3,
        )
        slope = 1.0 - run.step_size * np.tile(rng.uniform(rho, beta, 3), 2)
        offset, moved = rng.normal(0.2, 0.4, 6), run.step_size * run.sensitivity * np.array([1.0, 0, 0, 1, 0, 0])
        noise, at = np.full(6, run.step_size * run.noise_scale), np.linspace(0.0, run.diameter, 601)
        both = [last_iterate(slope, o, noise, 0.1, run.diameter, at) for o in (offset, offset + moved)]
        found = run.delta(epsilon, batch=1)
        for (p, p0, p1), (q, q0, q1) in (both, both[::-1]):
            for e, bound in zip(epsilon, found.upper, strict=True):
                g = math.exp(e)
                exact = float(np.trapezoid(np.maximum(p - g * q, 0.0), at)) + max(p0 - g * q0, 0.0) + max(p1 - g * q1, 0.0)
                assert exact <= bound * (1 + 1e-4) + 1e-6
        won += "shifted, then contraction" in found.methods
    assert won > 10


def test_the_pair_composes_and_says_what_the_run_says():
    two = PrivacyProfile(CYCLIC.pair() + PLAIN.pair(), adjacency="as-written")
    mu = math.hypot(CYCLIC.mu(), PLAIN.mu())
    assert_allclose(float(two.delta(0.5)), math.exp(gaussian_log_delta(0.5, mu)), rtol=1e-11)
    assert_allclose(float(PLAIN.trade_off(0.05)), float(PrivacyProfile(PLAIN.pair(), "as-written").trade_off(0.05)))


def test_replace_one_doubles_and_removal_is_zero_out_in_one_batch_alone():
    assert PLAIN.adjacency == "zero-out"
    assert_allclose(replace(PLAIN, adjacency="replace-one").mu(), 2.0 * PLAIN.mu(), rtol=1e-12)
    assert replace(PLAIN, adjacency="add-or-remove").mu() == PLAIN.mu(), "a sum over a public number loses one term"
    with pytest.raises(ValueError, match="in several batches"):
        replace(CYCLIC, adjacency="add-or-remove")


def test_special_answers_say_why():
    silent = replace(PLAIN, noise_scale=0.0)
    assert silent.epsilon(1e-5).status is Status.INFINITE_NO_NOISE
    assert silent.epsilon(1e-5).upper == math.inf
    endless = replace(PLAIN, strong_convexity=0.0, steps=math.inf)
    assert endless.epsilon(1e-5).upper == math.inf
    assert "infinitely many steps" in endless.epsilon(1e-5).notes[-1]
    assert replace(PLAIN, lipschitz=0.0).mu() == 0.0
    assert "last iterate" in PLAIN.delta(1.0).notes[0]


def test_nonconvex_and_long_steps_get_the_bound_that_holds():
    for run in (replace(PLAIN, strong_convexity=-1.0), replace(PLAIN, step_size=2.5, strong_convexity=0.0)):
        assert run.gap < 0.0
        assert_allclose(run.mu(), run.schedule().solve().mu, rtol=1e-9)
        assert run.mu() <= run.composed_mu() * (1 + 1e-9)
    inside = replace(PLAIN, strong_convexity=-0.01, diameter=0.05, steps=10**7)
    assert inside.mu() < 0.01 * inside.composed_mu()
    assert_allclose(inside.limit().mu(), inside.mu(), rtol=1e-7)
    assert replace(inside, diameter=math.inf).mu() == replace(inside, diameter=math.inf).composed_mu()


@pytest.mark.parametrize(("family", "options"), [
    (lambda s: replace(PLAIN, noise_scale=s), {}),
    (lambda s: replace(PLAIN, noise_scale=s, diameter=1.0), {}),
    (lambda s: replace(PLAIN, steps=s, strong_convexity=0.0), {"integer": True}),
    (lambda s: replace(PLAIN, step_size=s, noise_scale=0.3), {"bracket": (1e-3, 1.5)}),
], ids=["noise", "noise, projected", "steps", "step size"])
def test_calibration(family, options):
    found = calibrate(family, epsilon=0.5, delta=1e-6, **options)
    assert float(family(found.value).epsilon(1e-6)) <= 0.5
    assert found.infeasible is not None
    assert float(family(int(found.infeasible) if options.get("integer") else found.infeasible).epsilon(1e-6)) > 0.5


def test_calibration_of_a_best_curve():
    found = calibrate(lambda s: OneBatch(replace(CYCLIC, noise_scale=s), 5), epsilon=0.5, delta=1e-6)
    shifted = calibrate(lambda s: OneBatch(replace(CYCLIC, noise_scale=s), 5, "shifted"), epsilon=0.5, delta=1e-6)
    assert found.achieved.upper <= 0.5
    assert float(found) < 0.9 * float(shifted)
    assert found.achieved.method == "shifted, then contraction"


class OneBatch:
    """A run seen by the records of one batch."""

    def __init__(self, run, batch, method="best"):
        self.run, self.batch, self.method = run, batch, method

    def delta(self, epsilon):
        return self.run.delta(epsilon, self.batch, method=self.method)

    def epsilon(self, delta):
        return self.run.epsilon(delta, self.batch, method=self.method)


def test_the_theorem_is_cited():
    assert "bok2024shifted" in citations(PLAIN.epsilon(1e-5))
    found = citations(CYCLIC)
    assert "bok2024shifted" in found
    assert "asoodeh2020" in found


@pytest.mark.parametrize("change", [
    {"num_records": 0}, {"num_records": 1.5}, {"batches": 7}, {"batches": 0}, {"lipschitz": -1.0}, {"smoothness": "1"},
    {"strong_convexity": 1.5}, {"strong_convexity": -1.5}, {"step_size": 0.0}, {"noise_scale": -1.0}, {"noise_scale": 1e-30},
    {"steps": 0}, {"steps": 1.5}, {"steps": math.nan}, {"diameter": 0.0}, {"diameter": math.nan}, {"adjacency": "as-written"},
    {"adjacency": "neighbours"}, {"adjacency": "add-or-remove", "batches": 2},
])
def test_bad_runs_are_refused_in_the_one_shape(change):
    with pytest.raises((ValueError, TypeError), match=SHAPE):
        replace(PLAIN, **change)


@pytest.mark.parametrize("call", [
    lambda: PLAIN.delta(1.0, method="contraction"), lambda: PLAIN.delta(1.0, method="rdp"), lambda: PLAIN.delta(1.0, batch=2),
    lambda: CYCLIC.mu(0), lambda: CYCLIC.limit().schedule(), lambda: PLAIN.theorem(1), lambda: PLAIN.epsilon(2.0),
])
def test_bad_questions_are_refused_in_the_one_shape(call):
    with pytest.raises((ValueError, TypeError), match=SHAPE):
        call()
