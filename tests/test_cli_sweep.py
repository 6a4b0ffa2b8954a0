"""``dpaccount sweep``: grids on the command line, and a row for each cell."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
import sys

import numpy as np
import pytest

from dpaccount.calibration import calibrate
from dpaccount.cli.main import run
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.pure import PureDP
from dpaccount.sweep import dp_sgd
from dpaccount.training import TrainingRun

RUN = ["--sampling-probability", "0.01", "--steps", "100,1000", "--noise-multiplier", "0.8:1.2:3"]


@pytest.fixture
def shell(capsys):
    """Run ``dpaccount sweep``; give back what it printed, and the standard error."""

    def call(*arguments, code=0):
        got = run(["sweep", *map(str, arguments)])
        out, err = capsys.readouterr()
        assert got == code, err
        return (out, err) if code == 0 else err

    return call


def table(text):
    """The rows of the table, split into cells, and the facts below it."""
    top, facts = text.split("\n\n")
    rows = [re.split(r"\s{2,}", line) for line in top.splitlines()]
    return rows[0], rows[1:], dict(re.split(r"\s{2,}", line, maxsplit=1) for line in facts.splitlines())


def test_a_table_has_a_row_for_each_cell_and_what_is_common_below(shell):
    out, err = shell(*RUN, "--delta", "1e-5")
    header, rows, facts = table(out)
    assert err == ""
    assert header == ["noise multiplier", "steps", "epsilon (upper bound)", "bracket"]
    assert [row[:2] for row in rows] == [[s, t] for s in ("0.8", "1", "1.2") for t in ("100", "1000")]
    for s, t, value, bracket in rows:
        upper = PrivacyProfile(dp_sgd(float(s), 0.01, int(t))).epsilon(delta=1e-5).upper
        assert upper <= float(value) <= upper * (1 + 1e-8)
        assert bracket.endswith(f"{value}]")
    assert facts["mechanism"] == "Gaussian, noise multiplier as above"
    assert (facts["delta"], facts["sampling"]) == ("1e-05", "Poisson, q = 0.01")
    assert facts["adjacency"].startswith("add-or-remove: ")
    assert "steps" not in facts


def test_json_and_csv_hold_the_same_rows(shell):
    rows = list(csv.DictReader(io.StringIO(shell(*RUN, "--epsilon", "0.5,1", "--csv")[0])))
    answer = json.loads(shell(*RUN, "--epsilon", "0.5,1", "--json")[0])
    assert answer["axes"] == {"noise_multiplier": [0.8, 1.0, 1.2], "steps": [100, 1000], "epsilon": [0.5, 1.0]}
    assert (answer["find"], answer["run"]["adjacency"]) == ("delta", "add-or-remove")
    assert len(rows) == len(answer["answers"]) == 12
    for row, cell in zip(rows, answer["answers"], strict=True):
        assert {k: str(v) for k, v in cell.items()} == row
        assert cell["certified"] is True
        assert cell["sampling_probability"] == 0.01


def test_training_runs_and_what_was_spent_before(shell, tmp_path):
    (tmp_path / "before.toml").write_text("noise_multiplier = 4\n")
    grid = ["--dataset-size", "6000", "--batch-size", "60,120", "--epochs", "1,2.5", "--noise-multiplier", "1.1", "--delta", "1e-5"]
    answers = json.loads(shell(*grid, "--json", "--after", tmp_path / "before.toml")[0])["answers"]
    assert [(a["batch_size"], a["epochs"]) for a in answers] == [(60, 1.0), (60, 2.5), (120, 1.0), (120, 2.5)]
    for cell in answers:
        spent = dp_sgd(4.0) + TrainingRun(6000, cell["batch_size"], 1.1, cell["epochs"]).guarantee
        assert cell["epsilon"] == PrivacyProfile(spent).epsilon(delta=1e-5).upper
    header, rows, facts = table(shell(*grid)[0])
    assert header[:2] == ["batch size", "epochs"]
    assert rows[1][:2] == ["60", "2.5"]
    assert facts["sampling"] == "Poisson, q = batch size / dataset size"


def test_a_whole_target_finds_the_noise_or_what_is_named(shell):
    target = ["--epsilon", "1,2", "--delta", "1e-5"]
    header, rows, _ = table(shell("--sampling-probability", "0.01", "--steps", 1000, *target)[0])
    assert header == ["epsilon", "noise multiplier", "bracket"]
    for e, value, _ in rows:
        found = calibrate(lambda s: dp_sgd(s, 0.01, 1000), epsilon=float(e), delta=1e-5)
        assert found.value <= float(value) <= found.value * (1 + 1e-8)
    found = json.loads(shell("--noise-multiplier", "1,2", "--sampling-probability", 0.01, *target, "--find", "steps", "--json")[0])
    best = [calibrate(lambda t, s=s: dp_sgd(s, 0.01, t), epsilon=e, delta=1e-5, integer=True).value for s in (1, 2) for e in (1, 2)]
    assert [a["steps"] for a in found["answers"]] == best
    assert [a["upper"] for a in found["answers"]] == [t + 1 for t in best]


def test_a_cell_that_fails_is_a_row_and_a_warning(shell):
    out, err = shell("--noise-multiplier", "1,-1", "--steps", 10, "--delta", "1e-5")
    _, rows, facts = table(out)
    assert rows[1] == ["-1", "failed", "-"]
    assert facts["steps"] == "10"
    assert err == (
        "warning: --noise-multiplier -1: --noise-multiplier must be a finite number >= 0; got -1.0. It is noise scale over sensitivity.\n"
    )
    answers = json.loads(shell("--noise-multiplier", "1,-1", "--steps", 10, "--delta", "1e-5", "--json")[0])["answers"]
    assert (answers[1]["upper"], answers[1]["status"]) == (None, "FAILED")
    assert ",,,,False,,FAILED," in shell("--noise-multiplier", "1,-1", "--steps", 10, "--delta", "1e-5", "--csv")[0]


def test_other_mechanisms_and_other_questions(shell):
    header, rows, _ = table(shell("--mechanism", "pure", "--mechanism-epsilon", "0.1,0.2", "--delta", "1e-6", "--steps", 10)[0])
    assert header[:2] == ["mechanism epsilon", "epsilon (upper bound)"]
    assert float(rows[0][1]) >= PrivacyProfile(10 * PureDP(0.1)).epsilon(delta=1e-6).upper
    assert table(shell("--noise-multiplier", "1,2", "--find", "advantage")[0])[0][1] == "advantage (upper bound)"
    assert table(shell("--noise-multiplier", "1,2", "--fpr", "0.1")[0])[0][1] == "false negative rate (lower bound)"
    out = shell("--noise-multiplier", "1,2", "--delta", "1e-5", "--adjacency", "replace-one")[0]
    assert table(out)[2]["adjacency"].startswith("replace-one: ")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1", None),
        ("1,2,1", [1.0, 2.0]),
        ("0.8:1.2:5", [0.8, 0.9, 1.0, 1.1, 1.2]),
        ("1e-3:1e-1:3:log", [1e-3, 1e-2, 1e-1]),
        ("4,1:2:2", [4.0, 1.0, 2.0]),
    ],
)
def test_grids_are_lists_and_ranges(shell, text, values):
    answer = json.loads(shell("--noise-multiplier", text, "--epsilon", "1", "--json")[0])
    assert answer["axes"].get("noise_multiplier") == values


def test_a_range_of_whole_numbers_has_whole_numbers(shell):
    answer = json.loads(shell("--noise-multiplier", "10", "--steps", "10:1000:4:log", "--epsilon", "1", "--json")[0])
    assert answer["axes"] == {"steps": [10, 46, 215, 1000]}


def test_a_run_file_may_hold_lists(shell, tmp_path):
    (tmp_path / "run.toml").write_text('noise_multiplier = [1, 2]\nsteps = [1, 10]\nepsilon = [1, 2]\nadjacency = "zero-out"\n')
    answer = json.loads(shell("--run", tmp_path / "run.toml", "--json")[0])
    assert answer["axes"] == {"noise_multiplier": [1.0, 2.0], "steps": [1, 10], "epsilon": [1.0, 2.0]}
    assert answer["run"]["adjacency"] == "zero-out"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--noise-multiplier", "1:2", "--epsilon", "1"], "'1:2' is not low:high:count"),
        (["--noise-multiplier", "1:2:1", "--epsilon", "1"], "a count of at least 2"),
        (["--noise-multiplier", "0:2:3:log", "--epsilon", "1"], "low:high:count:log above 0"),
        (["--noise-multiplier", "1:2:3:cubic", "--epsilon", "1"], "is not low:high:count"),
        (["--noise-multiplier", "1:x:3", "--epsilon", "1"], "'x' is not a number"),
        (["--steps", "1.5", "--noise-multiplier", "1", "--epsilon", "1"], "is not a whole number"),
        (["--noise-multiplier", "1,2"], "--delta must be the question"),
        (["--noise-multiplier", "1,2", "--epsilon", "1", "--csv", "--json"], "not both"),
        (["--noise-multiplier", "1,2", "--advantage", "0.1", "--find", "noise-multiplier"], "cannot be given if it is to be found"),
        (["--steps", "1,2", "--epsilon", "1", "--find", "noise-multiplier"], "To find --noise-multiplier give --epsilon with --delta"),
        (["--noise-multiplier", "1,2", "--epsilon", "1", "--delta", "1e-5"], "--find must be the argument of the family"),
        (["--noise-multiplier", "-1,-2", "--epsilon", "1"], "No cell has an answer; the first: --noise-multiplier must be"),
        (["--noise-multiplier", "1,2", "--epsilon", "1", "--jobs", "0"], "--jobs must be a whole number other than 0"),
        (["--noise-multiplier", "1,2", "--delta", "2"], "--delta must be in [0, 1]; got 2.0"),
    ],
)
def test_wrong_usage_is_64_with_the_cause(shell, arguments, message):
    assert message in shell(*arguments, code=64)


def test_a_large_delta_is_warned_about_where_the_data_size_is_known(shell):
    out, err = shell("--dataset-size", "6000", "--batch-size", "60", "--epochs", "1", "--noise-multiplier", "2,3", "--delta", "1e-5,1e-3")
    assert err.startswith("warning: delta = 0.001 is not below 1/dataset_size = 0.000167")
    assert len(table(out)[1]) == 4


@pytest.mark.skipif(importlib.util.find_spec("joblib") is None, reason="joblib, of the extra `parallel`, is not installed")
def test_two_processes_print_the_same(shell, tmp_path):
    (tmp_path / "before.toml").write_text("noise_multiplier = 4\n")
    grid = ["--noise-multiplier", "2,-1,3", "--steps", "1,10", "--delta", "1e-5", "--after", tmp_path / "before.toml", "--csv"]
    assert shell(*grid, "--jobs", "2") == shell(*grid)


def test_more_processes_need_joblib_and_say_so(shell, monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    text = shell("--noise-multiplier", "1,2", "--epsilon", "1", "--jobs", "2", code=64)
    assert "--jobs must be 1 where joblib is not installed; got 2. pip install 'dpaccount[parallel]' adds it" in text


def test_the_bar_is_on_standard_error(shell):
    out, err = shell("--noise-multiplier", "1,2", "--epsilon", "1", "--progress")
    assert "] 2/2, " in err
    assert "sweep [" not in out
    assert np.isfinite(float(table(out)[1][0][1]))
