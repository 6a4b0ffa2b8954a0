"""Sweeps over grids: every cell is the single answer, whoever computes it; what fails is named and costs no other cell."""

from __future__ import annotations

import importlib.util
import io
import itertools
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dpaccount import (
    Bounds,
    Gaussian,
    Laplace,
    PoissonSampled,
    PrivacyProfile,
    RenyiBound,
    TrainingRun,
    _parallel,
    calibrate,
    dp_sgd,
    sweep,
)
from dpaccount.grid import FAILED

ROOT = Path(__file__).resolve().parents[1]
GRID = {"noise_multiplier": [0.8, 1.0, 1.5], "sampling_probability": 0.01, "steps": (100, 1000)}
ARRAYS = ("value", "lower", "estimate", "upper", "certified", "method", "status", "reason", "adjacency")
needs_joblib = pytest.mark.skipif(importlib.util.find_spec("joblib") is None, reason="joblib, of the extra `parallel`, is not installed")


def same(one, other):
    """To the last bit, NaN included."""
    return all(np.array_equal(getattr(one, n), getattr(other, n), equal_nan=getattr(one, n).dtype == float) for n in ARRAYS)


def nearly(one, other):
    """To a few ulps: a worker with one thread sums products in another order than a process with several."""
    pairs = [(getattr(one, n), getattr(other, n)) for n in ARRAYS]
    return all(np.allclose(a, b, rtol=1e-14, atol=0.0, equal_nan=True) if a.dtype == float else np.array_equal(a, b) for a, b in pairs)


def laplace(noise_multiplier, steps):
    return steps * Laplace(noise_multiplier)


def fragile(noise_multiplier):
    """A family with every kind of trouble."""
    match noise_multiplier:
        case 2.0:
            return "no guarantee"
        case 3.0:
            raise ZeroDivisionError("of my own")
        case 4.0:
            return Gaussian(-1.0)
        case _:
            return Gaussian(noise_multiplier)


@dataclass(frozen=True)
class Where:
    """An answer that says which process gave it."""

    steps: int

    def epsilon(self, delta):
        return Bounds(self.steps, self.steps, self.steps, method=str(os.getpid()))

    def delta(self, epsilon):
        raise NotImplementedError


# what is found


def test_cells_are_the_single_answers_in_the_shape_of_the_grid():
    found = sweep(dp_sgd, GRID, delta=[1e-6, 1e-5])
    assert found.quantity == "epsilon"
    assert found.axes == {"noise_multiplier": (0.8, 1.0, 1.5), "steps": (100, 1000), "delta": (1e-6, 1e-5)}
    assert found.fixed == {"sampling_probability": 0.01}
    assert found.shape == found.upper.shape == (3, 2, 2)
    for (i, s), (j, t), (k, d) in itertools.product(*map(enumerate, found.axes.values())):
        one = PrivacyProfile(t * PoissonSampled(Gaussian(s), 0.01)).epsilon(delta=d)  # points of one profile may share a contour
        assert max(found.lower[i, j, k], one.lower) <= min(found.upper[i, j, k], one.upper)
        assert found.estimate[i, j, k] == pytest.approx(one.estimate, rel=1e-10, abs=0)
        assert (found.certified[i, j, k], found.method[i, j, k]) == (one.certified, one.method)
    alone = sweep(dp_sgd, GRID, delta=1e-5)
    for (i, s), (j, t) in itertools.product(*map(enumerate, alone.axes.values())):
        one = PrivacyProfile(dp_sgd(s, 0.01, t)).epsilon(delta=1e-5)
        assert (alone.lower[i, j], alone.estimate[i, j], alone.upper[i, j]) == (one.lower, one.estimate, one.upper)
    assert (found.value == found.upper).all()
    assert (found.status == "OK").all()
    assert (found.adjacency == "add-or-remove").all()


@pytest.mark.parametrize(
    ("question", "ask"),
    [
        ({"epsilon": [0.5, 1.0]}, lambda p, x: p.delta(epsilon=x)),
        ({"epsilon": [0.5, 1.0], "find": "log_delta"}, lambda p, x: p.log_delta(epsilon=x)),
        ({"false_positive_rate": [0.01, 0.1]}, lambda p, x: p.trade_off(x)),
        ({"find": "advantage"}, lambda p, x: p.advantage()),
    ],
    ids=["delta", "log_delta", "trade-off", "advantage"],
)
def test_every_quantity_is_the_profiles(question, ask):
    found = sweep(laplace, {"noise_multiplier": [4.0, 8.0], "steps": 1}, **question)
    points = next((v for v in question.values() if isinstance(v, list)), [None])
    for i, s in enumerate((4.0, 8.0)):
        for j, x in enumerate(points):
            one = ask(PrivacyProfile(Laplace(s)), x)
            index = (i, j) if points != [None] else (i,)
            numbers = (found.lower[index], found.upper[index], found.value[index])
            assert numbers == pytest.approx((one.lower, one.upper, float(one)), rel=1e-9)
            assert float(found[index]) == found.value[index]
            assert (found[index].method, found[index].safe) == (one.method, one.safe)


def test_a_whole_target_calibrates_and_lists_of_targets_are_axes():
    found = sweep(dp_sgd, {"sampling_probability": [0.005, 0.01], "steps": 1000}, find="noise_multiplier", epsilon=[1, 2], delta=1e-5)
    assert found.axes == {"sampling_probability": (0.005, 0.01), "epsilon": (1.0, 2.0)}
    for (i, q), (j, e) in itertools.product(*map(enumerate, found.axes.values())):
        one = calibrate(lambda s, q=q: dp_sgd(s, q, 1000), epsilon=e, delta=1e-5)
        assert (found.value[i, j], found.upper[i, j], found.lower[i, j]) == (one.value, one.value, one.infeasible)
        assert PrivacyProfile(dp_sgd(found.value[i, j], q, 1000)).epsilon(delta=1e-5).upper <= e
    most = sweep(dp_sgd, {"noise_multiplier": [1.0], "sampling_probability": 0.01}, find="steps", integer=True, epsilon=2.0, delta=1e-5)
    assert (most.value[0], most.lower[0], most.upper[0]) == (1202, 1202, 1203)
    point = {"false_positive_rate": 0.01, "false_negative_rate": 0.9}
    rates = sweep(dp_sgd, {"steps": 10}, find="noise_multiplier", **point)
    assert rates.shape == ()
    assert rates.value == calibrate(lambda s: dp_sgd(s, 1.0, 10), **point).value


def test_training_runs_are_a_family_and_keep_their_relation_and_their_warnings():
    grid = {"dataset_size": 6000, "batch_size": [60, 120], "epochs": 2, "noise_multiplier": 1.0, "adjacency": ["add-or-remove", "zero-out"]}
    found = sweep(TrainingRun, grid, delta=1e-3)
    for (i, b), (j, a) in itertools.product(enumerate((60, 120)), enumerate(grid["adjacency"])):
        run = TrainingRun(6000, b, 1.0, 2, adjacency=a)
        assert found.upper[i, j] == run.profile().epsilon(delta=1e-3).upper
        assert found.adjacency[i, j] == a
    assert found.notes == TrainingRun(6000, 60, 1.0, 2).notes(1e-3) != ()
    assert [row["adjacency"] for row in found.rows()] == ["add-or-remove", "zero-out"] * 2
    refused = sweep(TrainingRun, grid, delta=1e-3, adjacency="zero-out")
    assert refused.failed.tolist() == [[True, False]] * 2
    assert "'add-or-remove', which the family's objects have" in refused.reason[0, 0]


def test_adjacency_and_method_reach_the_profile():
    found = sweep(laplace, {"noise_multiplier": [4.0], "steps": 2}, epsilon=0.3, adjacency="replace-one", method="lattice")
    one = PrivacyProfile(2 * Laplace(4.0), "replace-one", method="lattice").delta(epsilon=0.3)
    assert (found.lower[0], found.upper[0], found.method[0], found.adjacency[0]) == (one.lower, one.upper, "lattice", "replace-one")


def test_points_that_differ_in_status_each_keep_their_own():
    """Above the total variation epsilon is 0, and only there."""
    grid = {"noise_multiplier": [1.0], "sampling_probability": 0.01, "steps": 1000}
    deltas = [1e-5, 0.5, 1e-9]
    assert PrivacyProfile(dp_sgd(1.0, 0.01, 1000)).epsilon(delta=deltas).status.name == "ZERO", "one status for all of them"
    found = sweep(dp_sgd, grid, delta=deltas)
    assert found.status.tolist() == [["OK", "ZERO", "OK"]]
    assert found.upper[0, 1] == 0.0


# who computes it


@needs_joblib
def test_neither_processes_nor_batches_show_in_the_answers(monkeypatch):
    grid = GRID | {"noise_multiplier": [0.0, 0.8, -1.0, 1.0]}
    alone = sweep(dp_sgd, grid, delta=[1e-6, 1e-5], n_jobs=1)
    assert nearly(alone, sweep(dp_sgd, grid, delta=[1e-6, 1e-5], n_jobs=2))
    monkeypatch.setattr(_parallel, "LARGEST", 1)
    assert nearly(alone, sweep(dp_sgd, grid, delta=[1e-6, 1e-5], n_jobs=2))
    turned = sweep(dp_sgd, {"steps": (1000, 100), "noise_multiplier": [1.0, 0.8], "sampling_probability": 0.01}, delta=[1e-5, 1e-6])
    assert (turned.upper.transpose(1, 0, 2)[::-1, ::-1, ::-1] == alone.upper[[1, 3]]).all()


@needs_joblib
def test_work_goes_to_the_backend_in_force_and_nowhere_else():
    import joblib

    here = {str(os.getpid())}
    assert set(sweep(Where, {"steps": range(40)}, delta=0.1, n_jobs=1).method) == here
    assert set(sweep(Where, {"steps": range(40)}, delta=0.1).method) == here, "no context, no processes"
    found = sweep(Where, {"steps": range(40)}, delta=0.1, n_jobs=2)
    assert found.value.tolist() == list(range(40))
    assert not set(found.method) & here
    with joblib.parallel_config("threading", n_jobs=2):
        assert set(sweep(Where, {"steps": range(40)}, delta=0.1).method) == here
    with joblib.parallel_config("multiprocessing", n_jobs=2):  # a backend that gives back no generator
        found = sweep(Where, {"steps": range(40)}, delta=0.1)
    assert found.value.tolist() == list(range(40))
    assert not set(found.method) & here


@needs_joblib
def test_a_dask_cluster_takes_the_same_call():
    """Two worker processes of dask.distributed's local cluster; the call inside the context is the call outside of it."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    import joblib

    grid = GRID | {"noise_multiplier": [0.8, 1.0, -1.0]}
    alone = sweep(dp_sgd, grid, delta=1e-5)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config("dask"),
    ):
        together = sweep(dp_sgd, grid, delta=1e-5)
        where = sweep(Where, {"steps": range(40)}, delta=0.1)
        workers = {str(pid) for pid in client.run(os.getpid).values()}
    assert nearly(alone, together)
    assert set(where.method) == workers
    assert len(workers) == 2
    assert where.value.tolist() == list(range(40))


def test_without_joblib_one_process_works_and_more_are_refused_by_name():
    code = (
        "import sys; sys.modules['joblib'] = None\n"
        "from dpaccount import dp_sgd, sweep\n"
        "assert sweep(dp_sgd, {'noise_multiplier': [1, 2]}, delta=1e-5, n_jobs=1).certified.all()\n"
        "try: sweep(dp_sgd, {'noise_multiplier': [1, 2]}, delta=1e-5, n_jobs=2)\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("`sweep(n_jobs=...)` must be 1 where joblib is not installed; got 2.")
    assert "dpaccount[parallel]" in done.stdout


def test_joblib_is_not_imported_for_one_process():
    code = "import sys; from dpaccount import *; sweep(dp_sgd, {'noise_multiplier': [1, 2]}, delta=1e-5); sys.exit('joblib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=60).returncode == 0


# the bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("progress", "stream", "drawn"), [(None, io.StringIO, False), (True, io.StringIO, True), (False, Terminal, False)])
def test_the_bar_is_drawn_if_asked_for(monkeypatch, progress, stream, drawn):
    monkeypatch.setattr(sys, "stderr", stream())
    sweep(dp_sgd, {"noise_multiplier": [1.0, 2.0]}, delta=1e-5, progress=progress)
    text = sys.stderr.getvalue()
    assert bool(text) == drawn
    if drawn:
        assert text.startswith("\rsweep [")
        assert f"[{'#' * 30}] 2/2" in text
        assert text.endswith("\n")


def test_a_terminal_sees_the_bar_of_a_long_sweep_only(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    clock = iter(np.arange(0.0, 100.0, 0.2))
    monkeypatch.setattr(_parallel.time, "monotonic", lambda: next(clock))
    assert _parallel.spread("sweep", abs, range(2), 1, None) == [0, 1]
    assert sys.stderr.getvalue() == "", "over before it could be read"
    assert _parallel.spread("sweep", abs, range(9), 1, None) == list(range(9))
    lines = sys.stderr.getvalue().split("\r")[1:]
    assert len(lines) > 2
    assert "s left" in lines[0]
    assert lines[-1].startswith(f"sweep [{'#' * 30}] 9/9")


# what goes wrong


def test_a_cell_that_fails_keeps_its_reason_and_costs_no_other():
    found = sweep(fragile, {"noise_multiplier": [1.0, 2.0, 3.0, 4.0, 5.0]}, delta=[1e-5, 1e-6])
    assert found.failed.tolist() == [[False] * 2, [True] * 2, [True] * 2, [True] * 2, [False] * 2]
    assert (found.status[found.failed] == FAILED).all()
    assert "`sweep(family=...)` must be a function to guarantees" in found.reason[1, 0]
    assert found.reason[2, 1] == "ZeroDivisionError: of my own"
    assert "`Gaussian(noise_multiplier=...)` must be" in found.reason[3, 0]
    assert not (found.upper <= 1e9)[found.failed].any(), "no budget is met by a cell without an answer"
    assert np.isfinite(found.upper[~found.failed]).all()
    assert not found.certified[found.failed].any()
    assert "6 failed, the first because `sweep(family" in repr(found)
    assert [line.split()[1:] for line in repr(found).splitlines()[3:6]] == [["failed", "failed"]] * 3
    with pytest.raises(ValueError, match="of my own"):
        found[2, 0]


def test_what_can_be_reached_by_no_noise_is_said_in_its_cell():
    def beside_what_was_spent(noise_multiplier, before):
        return before * Gaussian(1.0) + Gaussian(noise_multiplier)

    found = sweep(beside_what_was_spent, {"before": [1, 100]}, find="noise_multiplier", epsilon=6.0, delta=1e-5)
    assert found.failed.tolist() == [False, True]
    assert found.reason[1].startswith("`calibrate` found no value")


def test_special_answers_carry_their_status():
    found = sweep(dp_sgd, {"noise_multiplier": [0.0, 1.0]}, delta=1e-5)
    assert found.upper[0] == np.inf
    assert found.status[0] == "INFINITE_NO_NOISE"
    assert found.reason[0] == "no noise is added, so the two outputs can be told apart with certainty"
    assert found[0].status.name == "INFINITE_NO_NOISE"


BAD = [
    ({"delta": 2.0}, ValueError, "`sweep(delta=...)` must be in [0, 1]; got 2.0"),
    ({"delta": []}, ValueError, "`sweep(delta=...)` must be a number or a list of numbers"),
    ({"delta": "1e-5"}, TypeError, "`sweep(delta=...)`"),
    ({}, TypeError, "must be the question"),
    ({"false_negative_rate": 0.5}, TypeError, "must be the question"),
    ({"epsilon": 1.0, "delta": 1e-5}, TypeError, "`sweep(find=...)` must be the argument of the family to calibrate; got None"),
    ({"epsilon": 1.0, "delta": 1e-5, "find": "steps"}, ValueError, "must be an argument that the grid leaves free; got 'steps'"),
    ({"epsilon": 1.0, "delta": 1e-5, "find": "noise"}, TypeError, "must be arguments of dp_sgd(noise_multiplier"),
    ({"delta": 1e-5, "find": "noise_multiplier"}, ValueError, "must be one of 'epsilon', 'delta'"),
    ({"delta": 1e-5, "find": "delta"}, TypeError, "must be 'delta' with epsilon"),
    ({"delta": 1e-5, "method": "best"}, ValueError, "`sweep(method=...)`"),
    ({"delta": 1e-5, "adjacency": "neighbours"}, ValueError, "`sweep(adjacency=...)`"),
    ({"delta": 1e-5, "integer": True}, ValueError, "`sweep(integer=...)` must be left out where no parameter is calibrated"),
    ({"delta": 1e-5, "bracket": (1, 2)}, ValueError, "`sweep(bracket=...)` must be left out where no parameter is calibrated"),
    ({"delta": 1e-5, "n_jobs": 0}, ValueError, "must be a whole number other than 0"),
    ({"delta": 1e-5, "n_jobs": 1.5}, ValueError, "`sweep(n_jobs=...)`"),
    ({"delta": 1e-5, "progress": "yes"}, TypeError, "`sweep(progress=...)` must be True or False"),
    ({"delta": 1e-5, "family": 3}, TypeError, "`sweep(family=...)` must be a callable"),
    ({"delta": 1e-5, "grid": [1, 2]}, TypeError, "`sweep(grid=...)` must be a mapping"),
    ({"delta": 1e-5, "grid": {"noise_multiplier": []}}, ValueError, "at least one value"),
    ({"delta": 1e-5, "grid": {"noise_multiplier": np.ones((2, 2))}}, ValueError, "one dimension"),
    ({"delta": 1e-5, "grid": {"noise_multiplier": {1.0, 2.0}}}, TypeError, "make it a list"),
    ({"delta": 1e-5, "grid": {"noise_multiplier": iter([1.0])}}, TypeError, "make it a list"),
    ({"delta": 1e-5, "grid": {"sigma": [1.0]}}, TypeError, "must be arguments of dp_sgd(noise_multiplier"),
    ({"delta": 1e-5, "grid": {"steps": [1]}}, TypeError, "missing a required argument: 'noise_multiplier'"),
    ({"delta": 1e-5, "family": lambda delta: Gaussian(delta), "grid": {"delta": [1.0]}}, ValueError, "calls its delta otherwise"),
    ({"delta": 1e-5, "family": lambda epsilon: Gaussian(epsilon), "grid": {"epsilon": [1.0]}}, ValueError, "calls its epsilon otherwise"),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), BAD)
def test_questions_that_make_no_sense_are_refused_at_once(arguments, kind, message):
    given = {"family": dp_sgd, "grid": {"noise_multiplier": [1.0], "steps": [1]}} | arguments
    with pytest.raises(kind) as refused:
        sweep(given.pop("family"), given.pop("grid"), **given)
    assert message in str(refused.value)
    assert str(refused.value).startswith("`sweep(")


# what is read


def test_rows_and_columns_hold_every_cell():
    found = sweep(dp_sgd, GRID, delta=1e-5)
    rows = list(found.rows())
    assert list(rows[0]) == [
        "noise_multiplier", "steps", "sampling_probability", "delta", "epsilon", "lower", "estimate", "upper", "certified", "method",
        "status", "reason", "adjacency",
    ]
    assert [(row["noise_multiplier"], row["steps"]) for row in rows] == list(itertools.product((0.8, 1.0, 1.5), (100, 1000)))
    assert [row["epsilon"] for row in rows] == found.value.ravel().tolist()
    columns = found.to_dict()
    assert {len(column) for column in columns.values()} == {6}
    assert columns["upper"] == found.upper.ravel().tolist()
    assert {type(row["certified"]) for row in rows} == {bool}


def test_arrays_and_single_values_are_read_alike():
    arrays = {"noise_multiplier": np.array([0.8, 1.0, 1.5]), "sampling_probability": np.float64(0.01), "steps": np.array([100, 1000])}
    by_array = sweep(dp_sgd, arrays, delta=1e-5)
    assert same(by_array, sweep(dp_sgd, GRID, delta=1e-5))
    assert by_array.axes["steps"] == (100, 1000)
    assert all(type(t) is int for t in by_array.axes["steps"])


def test_tables_have_two_axes_or_a_row_for_each_cell():
    found = sweep(dp_sgd, GRID, delta=1e-5)
    lines = repr(found).splitlines()
    assert lines[0] == (
        "Sweep of epsilon: noise_multiplier (3) x steps (2); sampling_probability = 0.01, delta = 1e-05; add-or-remove; all certified"
    )
    assert lines[1].split("  ")[0] == "noise_multiplier"
    assert [text[:9] for text in lines[3].split()] == ["1", "0.7180356", "1.8282366"]
    long = repr(sweep(lambda a, b, c: Gaussian(a + b + c), {"a": [1, 2, 3], "b": [1, 2, 3], "c": [1, 2, 3]}, epsilon=1.0))
    assert long.splitlines()[1].split() == ["a", "b", "c", "delta"]
    assert long.endswith("... 7 more rows")
    page = sweep(fragile, {"noise_multiplier": [1.0, 3.0]}, delta=1e-5)._repr_html_()
    assert page.count("<tr>") == 3
    assert "<td>failed</td>" in page


def test_one_cell_is_a_bounds_and_a_slice_is_refused():
    found = sweep(dp_sgd, GRID, delta=1e-5)
    assert float(found[1, 0]) == found.upper[1, 0]
    with pytest.raises(TypeError, match="that of one cell"):
        found[0]


def test_renyi_bounds_are_swept_as_well():
    found = sweep(RenyiBound.zcdp, {"rho": [0.1, 0.5]}, delta=1e-5)
    assert found.upper[1] == PrivacyProfile(RenyiBound.zcdp(0.5)).epsilon(delta=1e-5).upper
