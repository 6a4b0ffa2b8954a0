"""Last iterates: check values, and answers at sizes where delta underflows."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from iteration_runs import FIG_2, FIG_3, LAPLACE, RUNS
from mpmath import mpf
from numpy.testing import assert_allclose
from references import make_iteration

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
    assert 0.0 < run.delta(epsilon=0.5, index=1, method="contraction").upper <= 5e-324, "below the smallest double, and not 0"


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
