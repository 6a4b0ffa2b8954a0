"""Last-iterate accounting: check values, the source papers' statements, and what the object answers or refuses."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mpmath import mpf
from numpy.testing import assert_allclose
from references import make_iteration

from dpaccount.calibration import UnreachableTarget, calibrate
from dpaccount.citations import cited
from dpaccount.conversions import renyi_epsilon
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.iteration import PNSGD, Chain, best_of
from dpaccount.renyi import RenyiBound
from dpaccount.results import Status
from tests.test_bad_input import NOT_NUMBERS, SHAPE

ROOT = Path(__file__).resolve().parents[1]
RELATIVE = 1e-12
# copied from the project's mathematical notes, section 3, before any code existed
COPIED = {
    "M": "0.845154254728516578",
    "fig 2 contraction 1": "1.24117152510243223e-25",
    "fig 2 contraction 20": "8.39965980075487225e-14",
    "fig 2 contraction 39": "0.0568449109099522962",
    "fig 2 contraction 40": "0.238421708134876628",
    "fig 2 shifted mu 1": "0.158113883008418967",
    "fig 2 shifted mu 20": "0.218217890235992381",
    "fig 2 shifted mu 39": "0.707106781186547524",
    "fig 3 contraction 20": "5.56145650904873639e-7",
    "fig 3 contraction 30": "0.000577264649733892533",
    "fig 3 contraction 39": "0.299187013914190376",
    "fig 3 shifted mu 20": "0.0369743950444821764",
    "fig 3 shifted mu 30": "0.201272920902369308",
    "fig 3 shifted mu 39": "1.29099444873580563",
    "laplace contraction 1": "6.18505274066924179e-27",
    "laplace contraction 20": "1.73962359228224935e-14",
    "laplace contraction 39": "0.0489290935698236871",
    "fig 2 stopping 1": "0.00782656591848804500",
}
FIG_2 = PNSGD(40, 1.0, 1.0, 0.0, 0.5, 1.0, "gaussian", 2.0)
FIG_3 = PNSGD(40, 1.0, 1.0, 0.4, 0.5, 1.0, "gaussian", 1.0)
LAPLACE = PNSGD(40, 1.0, 1.0, 0.0, 0.5, 1.0, "laplace", 2.0)
RUNS = {"fig 2": FIG_2, "fig 3": FIG_3, "laplace": LAPLACE}


@pytest.fixture(scope="module")
def exact() -> dict[str, mpf]:
    return make_iteration.values()


def close(value: float, truth: mpf) -> bool:
    return abs(mpf(float(value)) / truth - 1) < RELATIVE


@pytest.mark.parametrize("name", COPIED)
def test_the_copied_digits_are_right(name, exact):
    assert abs(mpf(COPIED[name]) / exact[name] - 1) < mpf(10) ** -16


@pytest.mark.parametrize("name", [name for name in COPIED if "contraction" in name])
def test_contraction_values_and_their_safe_side(name, exact):
    run, index = RUNS[name.split(" contraction ")[0]], int(name.rsplit(" ", 1)[1])
    answer = run.delta(epsilon=0.5, index=index, method="contraction")
    assert close(answer.estimate, exact[name])
    assert close(answer.upper, exact[name])
    assert mpf(answer.upper) >= exact[name]
    assert answer.certified
    assert answer.method == "contraction"


def test_the_contraction_factor():
    assert close(FIG_3.contraction, mpf(COPIED["M"]))
    assert FIG_2.contraction == 1.0
    assert replace(FIG_3, gradient_step="spectrum").contraction == pytest.approx(0.8, rel=1e-15)


@pytest.mark.parametrize("name", [name for name in COPIED if "shifted mu" in name])
def test_the_parameters_of_shifted_interpolation(name, exact):
    found = RUNS[name.split(" shifted ")[0]].gdp_parameter(int(name.rsplit(" ", 1)[1]))
    assert close(found, exact[name])


@pytest.mark.parametrize("index", [1, 20, 39, 40])
@pytest.mark.parametrize("conversion", ["mironov", "improved"])
def test_renyi_values(index, conversion, exact):
    answer = FIG_2.log_delta(epsilon=2.0, index=index, method="rdp", conversion=conversion)
    assert close(answer.upper, exact[f"fig 2 {conversion} {index}"])
    assert mpf(answer.upper) >= exact[f"fig 2 {conversion} {index}"] * (1 + mpf("1e-17"))


@pytest.mark.parametrize("index", [20, 30, 39])
def test_renyi_rates_of_strongly_convex_losses(index, exact):
    assert close(FIG_3.rdp_rate(index, "BBGG19"), exact[f"fig 3 bbgg19 rate {index}"])


@pytest.mark.parametrize("name", ["fig 2", "fig 3"])
@pytest.mark.parametrize("index", [38, 39])
def test_nonlinear_contraction_values(name, index, exact):
    truth = exact[f"{name} log nonlinear {index}"]
    answer = RUNS[name].log_delta(epsilon=0.5, index=index, method="nonlinear")
    assert close(answer.upper, truth)
    assert mpf(answer.upper) >= truth


def test_nonlinear_contraction_is_never_above_the_product_and_equal_to_it_at_zero():
    index, level = np.arange(1, 41), np.linspace(0.0, 4.0, 9)[:, None]
    for run in RUNS.values():
        ours, product = (run.log_delta(level, index, method=m).upper for m in ("nonlinear", "contraction"))
        assert (ours <= product + 1e-12 * np.abs(np.where(np.isfinite(product), product, 0.0))).all()
        assert_allclose(ours[0], product[0], rtol=1e-12)
        assert (ours[1:, :30] < product[1:, :30]).all() or run is LAPLACE
    long = replace(FIG_2, num_records=10_000, diameter=30.0)
    late = long.log_delta(0.5, [1, 5_000, 9_000], method="nonlinear").upper
    assert (np.diff(late) >= 0.0).all()
    assert (late <= long.log_delta(0.5, [1, 5_000, 9_000], method="contraction").upper * (1 - 1e-12)).all()


@pytest.mark.parametrize("index", [1, 39])
def test_random_stopping_values(index, exact):
    answer = FIG_2.random_stopping().delta(epsilon=0.5, index=index, method="contraction")
    assert close(answer.upper, exact[f"fig 2 stopping {index}"])
    assert mpf(answer.upper) >= exact[f"fig 2 stopping {index}"]


def test_log_delta_survives_a_million_steps(exact):
    run = replace(FIG_2, num_records=10**6 + 1)
    start = time.process_time()
    first, last = (run.log_delta(epsilon=0.5, index=i, method="contraction").estimate for i in (1, 10**6 + 1))
    assert time.process_time() - start < 0.5
    assert close(first - last, exact["fig 2 log contraction, a million"])
    wide = replace(run, diameter=8.0)
    gap = wide.log_delta(0.5, 1, method="contraction").estimate - wide.log_delta(0.5, 10**6 + 1, method="contraction").estimate
    assert close(gap, exact["near one, a million"]), "a factor close to 1 keeps its digits"
    assert run.delta(epsilon=0.5, index=1, method="contraction").upper == 0.0, "below the smallest double"


def test_a_million_records_at_ten_epsilons_take_two_seconds_and_a_gigabyte():
    code = (
        "import resource, time, numpy as np; from dpaccount.iteration import PNSGD;"
        "p = PNSGD(10**6, 1, 1, 0, 0.5, 1, 'gaussian', 2.0); best = 9.0\n"
        "for _ in range(2):\n"
        "    start = time.process_time()\n"
        "    found = p.delta(np.linspace(0.1, 5, 10)[:, None], np.arange(1, 10**6 + 1), method='contraction')\n"
        "    best = min(best, time.process_time() - start)\n"
        "    if best < 2.0: break\n"
        "assert found.upper.shape == (10, 10**6)\n"
        "print(best, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    seconds, gigabytes = map(float, done.stdout.split())
    assert seconds < 2.0
    assert gigabytes < 1.0


# the statements of the source papers

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


# the object

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
    assert FIG_2.delta(epsilon=700.0, index=40).upper == 0.0
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


# several passes


def test_one_pass_is_several_passes_of_one():
    for run in (FIG_2, LAPLACE):
        once = run.several_passes(1)
        for method in ("contraction", *(m for m in ("rdp", "shifted") if m in run.methods)):
            assert_allclose(
                once.log_delta([0.2, 0.9], [[20], [40]], method=method).upper,
                run.log_delta([0.2, 0.9], [[20], [40]], method=method).upper, rtol=1e-12,
            )


def test_more_passes_cost_more_and_less_than_releasing_all():
    for run in (replace(FIG_2, num_records=5), replace(LAPLACE, num_records=5)):
        answers = [run.several_passes(k).delta([0.1, 0.5, 1.0], [[2], [5]]).upper for k in (1, 2, 4)]
        assert (answers[0] <= answers[1] * (1 + 1e-12)).all()
        assert (answers[1] <= answers[2] * (1 + 1e-12)).all()
        released = run.several_passes(4).delta([0.1, 0.5, 1.0], [[2], [5]], method="composition").upper
        assert (answers[2] <= released * (1 + 1e-12)).all()


def test_every_bound_on_several_laplace_passes_reaches_zero():
    run = replace(LAPLACE, num_records=5, diameter=0.6).several_passes(3)
    for method, most in (("composition", 3.0), ("composed", 1.0 + 2 * 0.6), ("contraction", 3.0), ("best", 1.0 + 2 * 0.6)):
        zero = run.epsilon(delta=0.0, method=method).upper
        assert run.delta(epsilon=zero, method=method).upper == 0.0
        assert zero <= most * 1.01
        small = run.epsilon(delta=1e-3, index=[2, 5], method=method).upper
        assert (small < zero).all()
        assert (run.delta(epsilon=small, index=[2, 5], method=method).upper <= 1e-3 * (1 + 1e-14)).all()
    assert replace(LAPLACE, num_records=5).random_stopping().epsilon(delta=0.0).upper == 1.0


def test_the_joint_bound_beats_composition_where_the_last_steps_are_many():
    run = replace(FIG_2, num_records=6).several_passes(3)
    joint, composed = (float(run.delta(epsilon=0.3, index=1, method=m)) for m in ("contraction", "composed"))
    assert joint < 0.4 * composed
    many = replace(FIG_2, num_records=1, diameter=50.0).several_passes(12)
    joint, composed = (float(many.delta(epsilon=2.0, method=m)) for m in ("contraction", "composed"))
    assert composed < joint


def test_several_passes_answer_each_epsilon_for_itself_and_thousands_in_seconds():
    run = replace(FIG_2, num_records=6).several_passes(3)
    level = np.linspace(0.0, 5.0, 2000)
    start = time.process_time()
    together = run.log_delta(level, 5, method="contraction").upper
    assert time.process_time() - start < 15.0
    alone = [run.log_delta(x, 5, method="contraction").upper for x in level[::250]]
    assert_allclose(together[::250], alone, rtol=1e-14)
    assert (np.diff(together) < 0.0).all()
    mixed = run.log_delta([0.3, 1e-9, 100.0], 5, method="contraction").upper
    assert_allclose(mixed[0], run.log_delta(0.3, 5, method="contraction").upper, rtol=1e-14)


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



RUN = PNSGD(40, 1.0, 1.0, 0.0, 0.5, 1.0, "gaussian", 2.0)


@pytest.mark.parametrize("ask", [
    lambda: RUN.delta(1e300),
    lambda: RUN.log_delta(-1e300, method="contraction"),
    lambda: replace(RUN, noise_scale=0.1).several_passes(3).delta(0.5, method="contraction"),
    lambda: replace(RUN, noise_scale=0.1).random_stopping().epsilon(1e-6),
    lambda: replace(RUN, noise_scale=1e-8).random_stopping().delta(0.5),
    lambda: replace(RUN, noise_scale=0.03).several_passes(3).delta(0.5),
    lambda: replace(RUN, noise_scale=1e-10).epsilon(1e-6),
    lambda: replace(RUN, lipschitz=1e20).log_delta([0.0, 1.0, 1e6]),
], ids=range(8))
def test_where_doubles_run_out_the_bound_is_trivial_and_never_nan(ask):
    found = ask()
    assert np.all(found.lower <= found.estimate)
    assert np.all(found.estimate <= found.upper)


@pytest.mark.parametrize("name", ["lipschitz", "smoothness", "step_size", "diameter", "noise_scale"])
def test_units_that_are_too_extreme_are_refused(name):
    for value in (1e-300, 1e300):
        with pytest.raises(ValueError, match=rf"PNSGD\({name}=...\)` must be in \[1e-20, 1e\+20\]"):
            replace(RUN, **{name: value})


def test_no_epsilons_have_no_answers():
    assert RUN.delta([]).estimate.shape == (0,)
