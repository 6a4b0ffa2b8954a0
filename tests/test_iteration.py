"""Last iterates: what the object answers, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from iteration_runs import FIG_2, FIG_3, LAPLACE, RUNS
from numpy.testing import assert_allclose
from test_bad_input import NOT_NUMBERS, SHAPE

from dpaccount.calibration import UnreachableTarget, calibrate
from dpaccount.citations import cited
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.iteration import PNSGD, Chain, best_of
from dpaccount.results import Status

METHODS = [(run, method) for run in RUNS.values() for method in run.methods]


@pytest.mark.parametrize(("run", "method"), METHODS, ids=lambda v: v if isinstance(v, str) else "")
def test_a_curve_is_a_privacy_curve(run, method):
    """In [0, 1], falling, convex in e^eps, above 1 - e^eps, and growing with the index."""
    level = np.linspace(-2.0, 3.0, 61)
    rows = run.delta(epsilon=level[:, None], index=[1, 15, 30, 39, 40], method=method).upper
    assert ((rows >= np.maximum(-np.expm1(level), 0.0)[:, None]) & (rows <= 1)).all()
    assert (np.diff(rows, axis=0) <= 1e-15).all()
    assert (np.diff(rows, axis=1) >= -1e-12 * rows[:, 1:]).all()
    if method in ("contraction", "shifted"):  # a minimum of curves, or of orders, need not be convex
        slope = np.diff(rows, axis=0) / np.diff(np.exp(level))[:, None]
        assert (np.diff(slope, axis=0) >= -1e-12).all()


@pytest.mark.parametrize(("run", "method"), METHODS, ids=lambda v: v if isinstance(v, str) else "")
def test_epsilon_is_the_safe_inverse_of_delta(run, method):
    answer = run.epsilon(delta=[1e-9, 1e-3, 0.1], index=[[5], [38], [40]], method=method)
    assert answer.upper.shape == (3, 3)
    for (row, column), epsilon in np.ndenumerate(answer.upper):
        goal, index = [1e-9, 1e-3, 0.1][column], [5, 38, 40][row]
        assert run.delta(epsilon=epsilon, index=index, method=method).upper <= goal * (1 + 1e-14)
        if epsilon > 0.0:
            assert run.delta(epsilon=epsilon * (1 - 1e-12), index=index, method=method).upper > goal * (1 - 1e-9)
    deep = run.epsilon(log_delta=-2000.0, index=10, method=method)
    assert run.log_delta(epsilon=float(deep), index=10, method=method).upper <= -2000.0


def test_arrays_broadcast_and_scalars_stay_scalars():
    table = FIG_3.delta(epsilon=[[0.1], [1.0]], index=[20, 30, 39])
    assert table.upper.shape == table.lower.shape == table.method.shape == (2, 3)
    assert set(table.methods) == {"contraction", "shifted"}
    for row, epsilon in enumerate((0.1, 1.0)):
        for column, index in enumerate((20, 30, 39)):
            one = FIG_3.delta(epsilon=epsilon, index=index)
            assert isinstance(one.upper, float)
            assert one.upper == pytest.approx(table.upper[row, column], rel=1e-12)
            assert one.method == table.method[row, column]
    entry = table[0]
    assert entry.method.tolist() == table.method[0].tolist()
    assert "contraction, shifted" in repr(table)
    assert "contraction, shifted" in table._repr_html_()


def test_without_an_index_an_answer_holds_for_every_record():
    index = np.arange(1, 41)
    for run in (FIG_2, FIG_2.random_stopping(), FIG_2.random_permutation(), FIG_2.several_passes(3)):
        every = run.delta(epsilon=0.5, index=index, method="contraction").upper
        assert run.delta(epsilon=0.5, method="contraction").upper == every.max()


def test_the_best_is_the_least_and_names_its_winner():
    level = np.linspace(0.0, 6.0, 25)
    for run in RUNS.values():
        parts = {m: run.delta(epsilon=level, index=30, method=m).upper for m in run.methods if m in run.published}
        best = run.delta(epsilon=level, index=30)
        assert_allclose(best.upper, np.min(list(parts.values()), axis=0), rtol=1e-13)
        names = np.broadcast_to(best.method, level.shape)
        assert all(parts[name][k] <= best.upper[k] * (1 + 1e-12) for k, name in enumerate(names))


def test_the_instance_is_a_lower_end():
    answer = FIG_2.delta(epsilon=[0.0, 0.1, 0.5, 1.0], index=[[30], [39], [40]], instance=True)
    assert not answer.certified
    assert (answer.lower <= answer.upper).all()
    assert (answer.lower[:, 0] > 0.5 * answer.upper[:, 0]).all(), "half of the bound is attained at epsilon 0"
    free = replace(FIG_2, diameter=math.inf)
    tight = free.log_delta(epsilon=[0.5, 3.0], index=1, method="shifted", instance=True)
    assert_allclose(tight.lower, tight.upper, rtol=1e-9)


def test_where_no_instance_is_known_a_note_says_so():
    told = "no known instance"
    free, long = replace(FIG_2, diameter=math.inf), replace(FIG_2, num_records=101)
    for run in (free.random_stopping(), free.random_permutation(), long.random_permutation(), replace(FIG_2, lipschitz=0.0)):
        for asked in (run.delta, run.log_delta):
            assert any(told in note for note in asked(0.5, 1, method="contraction", instance=True).notes)
            assert not any(told in note for note in asked(0.5, 1, method="contraction").notes)
        assert run.delta(0.5, 1, method="contraction", instance=True).lower == 0.0
    for run in (FIG_2, FIG_2.random_stopping(), FIG_2.random_permutation(), FIG_2.several_passes(2)):
        assert not any(told in note for note in run.delta(0.0, 39, instance=True).notes)


def test_the_sharpest_is_the_least_of_all_that_is_proved():
    level = np.linspace(0.0, 3.0, 7)
    for run in (FIG_2, FIG_3, LAPLACE, FIG_2.random_stopping(), FIG_2.random_permutation(), FIG_2.several_passes(2)):
        every = {t.name: run.log_delta(level, 38, method=t.name).upper for t in run.theorems()}
        found = run.log_delta(level, 38, method="sharpest")
        assert_allclose(found.upper, np.min(list(every.values()), axis=0), rtol=1e-12)
        names = np.broadcast_to(found.method, level.shape)
        assert all(every[name][k] <= found.upper[k] * (1 - 1e-12) for k, name in enumerate(names))
        assert (found.upper <= run.log_delta(level, 38).upper).all()
        assert float(run.epsilon(1e-6, 38, method="sharpest")) <= float(run.epsilon(1e-6, 38))
    assert float(FIG_2.epsilon(1e-6, 39, method="sharpest")) < 0.5 * float(FIG_2.epsilon(1e-6, 39))
    assert "nonlinear" in FIG_2.theorem("sharpest")
    assert "nonlinear" not in FIG_2.theorem("best")


def test_the_sharpest_becomes_one_curve_as_the_best_does():
    sharp, best = (best_of(FIG_2, method=m, index=39) for m in ("sharpest", "best"))
    assert float(sharp.epsilon(1e-6)) == pytest.approx(float(FIG_2.epsilon(1e-6, 39, method="sharpest")), rel=1e-9)
    assert float(sharp.epsilon(1e-6)) < float(best.epsilon(1e-6))


def test_strongly_convex_quadratics_attain_shifted_interpolation():
    """The first record of an unconstrained run with equal curvatures: exactly mu."""
    run = replace(FIG_3, diameter=math.inf, gradient_step="spectrum")
    answer = run.log_delta(epsilon=[0.0, 0.5, 2.0], index=1, method="shifted", instance=True)
    assert_allclose(answer.lower, answer.upper, rtol=1e-9)


def test_calibration_finds_the_least_noise():
    found = calibrate(lambda s: replace(FIG_2, noise_scale=s), epsilon=1.0, delta=1e-5)
    assert found.achieved.upper <= 1.0
    gaussian = calibrate(lambda s: replace(FIG_2, num_records=1, noise_scale=s), epsilon=1.0, delta=1e-5)
    assert float(found) == pytest.approx(2 * 3.73063163481594183, rel=1e-8), "the last record is released at once"
    assert float(gaussian) == pytest.approx(float(found), rel=1e-8)


class OneRecord:
    """A run as one record sees it."""

    def __init__(self, run, index):
        self.run, self.index = run, index

    def delta(self, epsilon):
        return self.run.delta(epsilon, self.index)

    def epsilon(self, delta):
        return self.run.epsilon(delta, self.index)


def test_calibration_of_steps_and_of_the_step_size():
    """More later steps hide more; a longer step adds more noise until, at 2/beta, steps begin to move points apart."""
    later = calibrate(lambda n: OneRecord(replace(FIG_2, num_records=n), 1), epsilon=0.4, delta=1e-6, integer=True)
    assert later.achieved.upper <= 0.4 < float(replace(FIG_2, num_records=int(later.infeasible)).epsilon(1e-6, index=1))

    def family(step: float) -> OneRecord:
        return OneRecord(replace(FIG_2, step_size=step), 38)

    found = calibrate(family, epsilon=0.5, delta=1e-3, bracket=(0.01, 2.0))
    assert found.achieved.upper <= 0.5 < float(family(found.infeasible).epsilon(1e-3))
    with pytest.raises(UnreachableTarget, match=r"not monotone. Pass a bracket="):
        calibrate(family, epsilon=0.01, delta=1e-9)


def test_edges():
    assert replace(FIG_2, noise_scale=0.0).delta(epsilon=1.0).status is Status.INFINITE_NO_NOISE
    assert replace(FIG_2, noise_scale=0.0).epsilon(delta=1e-5).upper == math.inf
    still = replace(FIG_2, lipschitz=0.0)
    assert still.delta(epsilon=0.0).upper == 0.0
    assert still.epsilon(delta=0.0).upper == 0.0
    free = replace(FIG_2, diameter=math.inf)
    assert free.delta(epsilon=0.5, index=1, method="contraction").upper == pytest.approx(0.238421708134876628, rel=1e-12)
    reset = PNSGD(3, 1.0, 1.0, 1.0, 1.0, 1.0)  # eta = 1/beta = 1/rho: every step forgets where it was
    assert reset.contraction == 0.0
    assert reset.delta(epsilon=0.0, index=2).upper == 0.0
    assert reset.epsilon(delta=0.5).upper > 0.0
    assert 0.0 < FIG_2.delta(epsilon=700.0, index=40).upper <= 5e-324
    assert FIG_2.log_delta(epsilon=700.0, index=40).upper < -1e4


def test_what_does_not_hold_is_refused_and_what_still_holds_is_not():
    large = replace(FIG_2, step_size=3.0)
    bent = replace(FIG_2, strong_convexity=-1.0)
    kinked = replace(FIG_2, smoothness=math.inf)
    for run in (large, bent, kinked):
        assert not run.contracts
        answer = run.delta(epsilon=0.5, index=39, method="contraction")
        assert replace(run, num_records=1).delta(epsilon=0.5, method="contraction").upper > answer.upper
        with pytest.raises(ValueError, match="method=") as caught:
            run.delta(epsilon=0.5, method="rdp")
        assert "step_size" in str(caught.value) or "convex" in str(caught.value) or "smooth" in str(caught.value)
        assert "spread" in run.theorem("contraction")
    assert large.spread == pytest.approx(2.0)
    assert bent.spread == pytest.approx(1.5)
    assert kinked.spread == pytest.approx(math.sqrt(2.0))
    assert "shifted" in large.methods
    assert "shifted" not in kinked.methods
    assert "shifted" not in LAPLACE.methods
    with pytest.raises(ValueError, match="Gaussian noise"):
        LAPLACE.epsilon(delta=1e-5, method="shifted")
    with pytest.raises(ValueError, match="more than its smoothness"):
        replace(FIG_2, strong_convexity=1.5)
    with pytest.raises(ValueError, match="method="):
        FIG_2.delta(epsilon=1.0, method="composed")


def test_every_method_names_its_theorem():
    for run in (*RUNS.values(), FIG_3.random_stopping(), FIG_3.random_permutation(), FIG_3.several_passes(2)):
        for method in run.methods:
            assert re_theorem(run.theorem(method))


def re_theorem(text: str) -> bool:
    return any(tag in text for tag in ("ADC20", "FMTT18", "BSA24", "the least of", "every iterate released", "data-processing inequality"))


def test_releasing_every_iterate_costs_the_records_own_step_wherever_it_is():
    level = np.array([0.0, 0.5, 2.0])
    for run in RUNS.values():
        seen = run.delta(level[:, None], [1, 20, 40], method="composition").upper
        assert_allclose(seen, replace(run, num_records=1).delta(level[:, None], [1, 1, 1], method="contraction").upper, rtol=1e-14)
        assert (run.delta(level[:, None], [1, 20, 40]).upper <= seen * (1 + 1e-14)).all()
        with pytest.raises(ValueError, match="every iterate released"):
            run.random_stopping().delta(0.5, method="composition")


# bad input


@pytest.mark.parametrize("name", ["lipschitz", "smoothness", "strong_convexity", "step_size", "diameter", "noise_scale"])
@pytest.mark.parametrize("value", [*NOT_NUMBERS, float("nan"), -1.5, 10**400])
def test_constants_that_are_none_are_refused(name, value):
    with pytest.raises((ValueError, TypeError), match=SHAPE):
        replace(FIG_2, **{name: value})


@pytest.mark.parametrize(
    "call",
    [
        lambda: replace(FIG_2, num_records=0),
        lambda: replace(FIG_2, num_records=2.5),
        lambda: replace(FIG_2, step_size=0.0),
        lambda: replace(FIG_2, diameter=0.0),
        lambda: replace(FIG_2, lipschitz=math.inf),
        lambda: replace(FIG_2, noise="cauchy"),
        lambda: replace(FIG_2, gradient_step="exact"),
        lambda: FIG_2.delta(epsilon=math.nan),
        lambda: FIG_2.delta(epsilon="1"),
        lambda: FIG_2.delta(epsilon=1.0, index=0),
        lambda: FIG_2.delta(epsilon=1.0, index=41),
        lambda: FIG_2.delta(epsilon=1.0, index=1.5),
        lambda: FIG_2.delta(epsilon=[1.0, 2.0], index=[1, 2, 3]),
        lambda: FIG_2.delta(epsilon=1.0, method="magic"),
        lambda: FIG_2.delta(epsilon=1.0, conversion="magic"),
        lambda: FIG_2.delta(epsilon=1.0, instance=1),
        lambda: FIG_2.epsilon(),
        lambda: FIG_2.epsilon(delta=0.1, log_delta=-1.0),
        lambda: FIG_2.epsilon(delta=1.5),
        lambda: FIG_2.epsilon(log_delta=0.5),
        lambda: FIG_2.theorem("magic"),
        lambda: FIG_2.rdp_rate(1, "magic"),
        lambda: LAPLACE.rdp_rate(1),
        lambda: FIG_2.several_passes(0),
        lambda: FIG_2.random_stopping().rdp(1.0),
        lambda: Chain(((1, 1),), ((1, 1), (1, 0)), 0.0, 1.0, "gaussian", 1.0),
        lambda: Chain(((1, 1),), ((1, 0),), 1.0, 0.0, "gaussian", 1.0),
        lambda: Chain(((1, 1),), ((1, 0),), -math.inf, math.inf, "laplace", 1.0),
        lambda: Chain(((1, 1),), ((0.5, 0),), -math.inf, math.inf, "gaussian", 1.0),
        lambda: Chain((), (), 0.0, 1.0, "gaussian", 1.0),
    ],
)
def test_bad_input_is_refused_in_the_house_shape(call):
    with pytest.raises((ValueError, TypeError), match=SHAPE):
        call()


def test_citations_name_the_theorems_of_an_answer():
    assert {c.key for c in cited(FIG_2.delta(epsilon=[0.5, 12.0], index=20))} == {"asoodeh2020contraction", "bok2024shifted"}
    keys = {c.key for c in cited(FIG_3, FIG_3.delta(epsilon=0.5, index=20, method="rdp"))}
    assert {"feldman2018privacy", "balle2019mixing", "mironov2017renyi"} <= keys
    assert "asoodeh2020contraction" not in keys
    assert "sordello2021shuffled" in {c.key for c in cited(FIG_2.random_permutation())}
    assert "zhu2022optimal" in {c.key for c in cited(FIG_2.several_passes(2))}


def test_the_best_bound_of_a_record_is_a_pair_that_composes():
    curve = best_of(FIG_2, index=39)
    level = np.array([0.2, 1.0, 4.0])
    pointwise = FIG_2.delta(epsilon=level, index=39).upper
    assert (curve.delta(level).upper <= pointwise * (1 + 1e-9)).all()
    alone = PrivacyProfile(curve.pair(), adjacency="replace-one")
    assert (alone.delta(epsilon=level).upper >= curve.delta(level).upper * (1 - 1e-9)).all()
    assert (alone.delta(epsilon=level).upper <= pointwise * 1.01).all()
    assert PrivacyProfile(2 * curve.pair(), adjacency="replace-one").delta(epsilon=1.0).upper > alone.delta(epsilon=1.0).upper





@pytest.mark.parametrize("ask", [
    lambda: FIG_2.delta(1e300),
    lambda: FIG_2.log_delta(-1e300, method="contraction"),
    lambda: replace(FIG_2, noise_scale=0.1).several_passes(3).delta(0.5, method="contraction"),
    lambda: replace(FIG_2, noise_scale=0.1).random_stopping().epsilon(1e-6),
    lambda: replace(FIG_2, noise_scale=1e-8).random_stopping().delta(0.5),
    lambda: replace(FIG_2, noise_scale=0.03).several_passes(3).delta(0.5),
    lambda: replace(FIG_2, noise_scale=1e-10).epsilon(1e-6),
    lambda: replace(FIG_2, lipschitz=1e20).log_delta([0.0, 1.0, 1e6]),
], ids=range(8))
def test_where_doubles_run_out_the_bound_is_trivial_and_never_nan(ask):
    found = ask()
    assert np.all(found.lower <= found.estimate)
    assert np.all(found.estimate <= found.upper)


@pytest.mark.parametrize("name", ["lipschitz", "smoothness", "step_size", "diameter", "noise_scale"])
def test_units_that_are_too_extreme_are_refused(name):
    for value in (1e-300, 1e300):
        with pytest.raises(ValueError, match=rf"PNSGD\({name}=...\)` must be in \[1e-20, 1e\+20\]"):
            replace(FIG_2, **{name: value})


def test_no_epsilons_have_no_answers():
    assert FIG_2.delta([]).estimate.shape == (0,)
