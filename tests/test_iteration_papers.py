"""Last iterates: what the source papers state about their bounds holds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from iteration_runs import FIG_2, FIG_3, LAPLACE
from numpy.testing import assert_allclose

from dpaccount.conversions import renyi_epsilon
from dpaccount.renyi import RenyiBound
from dpaccount.results import Status

EPSILON = np.linspace(0.02, 10.0, 200)


@pytest.mark.parametrize("index", [1, 20, 39])
def test_figure_2_contraction_is_below_the_renyi_bound(index):
    ours = FIG_2.log_delta(EPSILON, index, method="contraction").upper
    assert (ours < FIG_2.log_delta(EPSILON, index, method="rdp", conversion="mironov").estimate).all()
    assert (ours < FIG_2.log_delta(EPSILON, index, method="rdp", conversion="improved").estimate).all()


def crossing(index: int, conversion: str) -> np.ndarray:
    """Where contraction is below the Renyi bound of the paper, BBGG19's alone."""
    from dpaccount.iteration.rdp import zcdp_log_delta

    ours = FIG_3.log_delta(EPSILON, index, method="contraction").estimate
    return ours < zcdp_log_delta(FIG_3.rdp_rate(index, "BBGG19"), EPSILON, conversion)


@pytest.mark.parametrize("conversion", ["mironov", "improved"])
def test_figure_3_contraction_wins_at_small_epsilon_and_everywhere_for_the_late_record(conversion):
    for index in (20, 30):
        below = crossing(index, conversion)
        assert below[0]
        assert not below[-1]
        assert (np.diff(below.astype(int)) != 0).sum() == 1, "one crossing"
    assert crossing(39, conversion).all()
    assert (FIG_3.log_delta(EPSILON, 39, method="contraction").upper
            < FIG_3.log_delta(EPSILON, 39, method="rdp", conversion=conversion).estimate).all(), "also below FMTT18"


@pytest.mark.parametrize(
    ("run", "index", "where"), [(FIG_2, 20, 11.432), (FIG_2, 39, 9.032), (FIG_3, 20, 0.113), (FIG_3, 30, 0.494), (FIG_3, 39, 3.250)]
)
def test_where_shifted_interpolation_takes_over(run, index, where):
    answer = run.delta(epsilon=[where - 0.001, where + 0.001], index=index)
    assert answer.method.tolist() == ["contraction", "shifted"]


def test_random_stopping_makes_the_bound_uniform():
    stopped, n = FIG_2.random_stopping(), 40
    every = stopped.delta(epsilon=0.5, index=np.arange(1, n + 1), method="contraction").upper
    assert (np.diff(every) <= 0).all()
    assert every[-1] < 0.8 * every[0]
    assert every[0] == stopped.delta(epsilon=0.5, method="contraction").upper, "the first record's holds for all"
    fixed = FIG_2.delta(epsilon=0.5, index=np.arange(1, n + 1), method="contraction").upper
    assert fixed.min() < every[0] < fixed.max() / 10
    assert_allclose(every[0], fixed.mean(), rtol=1e-12)
    permuted = FIG_2.random_permutation().delta(epsilon=0.5, index=np.arange(1, n + 1), method="contraction").upper
    assert_allclose(permuted, every[0], rtol=1e-15)


@pytest.mark.parametrize("method", ["contraction", "shifted"])
def test_the_mean_over_stopping_times_is_that_of_the_records_from_there_on(method):
    for run in (FIG_2, FIG_3):
        fixed = run.delta(epsilon=0.7, index=np.arange(1, 41), method=method).estimate
        found = run.random_stopping().delta(epsilon=0.7, index=np.arange(1, 41), method=method).upper
        assert_allclose(found, np.cumsum(fixed[::-1])[::-1] / 40, rtol=2e-11)


def test_contraction_under_random_stopping_holds_for_every_noise_and_the_renyi_bound_does_not():
    for scale in (0.4, 0.8, 5.0):
        stopped = replace(FIG_2, noise_scale=scale).random_stopping()
        assert stopped.delta(epsilon=0.5, method="contraction").upper < 1.0
        top = stopped.max_order()
        assert scale == pytest.approx(math.sqrt(2 * top * (top - 1)), rel=1e-12)
        assert stopped.rdp(1 + 0.999 * (top - 1)) > 0.0
        with pytest.raises(ValueError, match=r"noise_scale >= L sqrt\(2 a \(a-1\)\)"):
            stopped.rdp(1.001 * top)


def test_the_renyi_bound_under_random_stopping_is_the_theorem_at_its_edge():
    """At c = 1 it is FMTT18's 4 a L^2 H_n/(n sigma^2), with the harmonic number where the paper has ln n."""
    stopped = FIG_2.random_stopping()
    top, harmonic = stopped.max_order(), sum(1 / k for k in range(1, 41))
    assert stopped.rdp(top) == pytest.approx(4 * top * harmonic / (40 * 4.0), rel=1e-12)
    bound = RenyiBound.from_function(lambda a: float(stopped.rdp(a)), max_order=top)
    direct = renyi_epsilon(bound.rdp, 1e-3, max_order=top).value
    assert float(stopped.epsilon(delta=1e-3, method="rdp")) == pytest.approx(direct, rel=1e-9)


def test_renyi_at_no_strong_convexity_is_fmtt18_and_never_worse_than_bbgg19():
    index = np.arange(1, 41)
    best, convex, strong = (FIG_2.rdp_rate(index, s) for s in ("best", "FMTT18", "BBGG19"))
    assert_allclose(best, convex, rtol=1e-15)
    assert_allclose(best, 2 / (4 * (41.0 - index)), rtol=1e-15)
    assert (convex <= strong).all()
    assert (convex[:-1] < strong[:-1]).all()
    assert (FIG_3.rdp_rate(index) <= FIG_3.rdp_rate(index, "BBGG19")).all()


def test_shifted_interpolation_implies_the_renyi_bounds():
    """mu-GDP has D_a = a mu^2/2: equal to FMTT18's without strong convexity, unless the diameter helps, below BBGG19's with it."""
    index = np.arange(1, 41)
    wide = replace(FIG_2, diameter=100.0)
    assert_allclose(wide.gdp_parameter(index) ** 2 / 2, wide.rdp_rate(index), rtol=1e-12)
    assert (FIG_2.gdp_parameter(index) ** 2 / 2 <= FIG_2.rdp_rate(index) * (1 + 1e-12)).all()
    assert (FIG_3.gdp_parameter(index) ** 2 / 2 <= FIG_3.rdp_rate(index) * (1 + 1e-12)).all()


def test_laplace_noise_gives_pure_privacy():
    """delta = 0 from min(2L/v, M D/(eta v)) on for i < n, and from 2L/v on for i = n."""
    run = replace(LAPLACE, diameter=0.6)
    assert run.epsilon(delta=0.0, index=[1, 39, 40]).upper.tolist() == [0.6, 0.6, 1.0]
    assert run.delta(epsilon=0.6, index=39).upper == 0.0
    assert run.delta(epsilon=0.599, index=39).upper > 0.0
    assert LAPLACE.epsilon(delta=0.0).upper == 1.0
    assert FIG_2.epsilon(delta=0.0, index=3).status is Status.INFINITE_DELTA_ZERO
