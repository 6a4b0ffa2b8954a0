"""``dpaccount calibrate``: the number that is missing."""

from __future__ import annotations

import json
import re

import pytest
from commandline import SAMPLED, fields

from dpaccount.calibration import calibrate
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.sampling.poisson import PoissonSampled


def test_the_missing_number_is_found(shell):
    def solved(*arguments):
        data = json.loads(shell("calibrate", *arguments, "--epsilon", 1, "--delta", "1e-5", "--json"))
        return data["solved_for"], data["answers"][0][data["solved_for"]]

    name, noise = solved("--sampling-probability", 0.01, "--steps", 100)
    assert name == "noise_multiplier"
    assert noise == pytest.approx(
        calibrate(lambda s: 100 * PoissonSampled(Gaussian(s), 0.01), epsilon=1.0, delta=1e-5).value, rel=1e-9
    )
    name, steps = solved("--sampling-probability", 0.01, "--noise-multiplier", noise)
    assert (name, steps) == ("steps", 100)
    name, q = solved("--noise-multiplier", noise, "--steps", 100)
    assert name == "sampling_probability"
    assert q == pytest.approx(0.01, rel=1e-8)
    name, epochs = solved("--dataset-size", 10000, "--batch-size", 100, "--noise-multiplier", noise)
    assert name == "epochs"
    assert epochs == 1.0
    name, batch = solved("--dataset-size", 10000, "--steps", 100, "--noise-multiplier", noise)
    assert (name, batch) == ("batch_size", 100)
    name, eta = solved("--mechanism", "pure", "--steps", 10)
    assert name == "mechanism_epsilon"
    assert 0.05 < eta < 1


def test_targets_other_than_epsilon_and_lists(shell):
    q, steps = 0.01, 100
    args = ["--sampling-probability", q, "--steps", steps]
    found = json.loads(shell("calibrate", *args, "--advantage", "0.1,0.2", "--json"))["answers"]
    assert found[0]["noise_multiplier"] > found[1]["noise_multiplier"]
    for answer in found:
        run = PrivacyProfile(steps * PoissonSampled(Gaussian(answer["noise_multiplier"]), q))
        assert run.delta(epsilon=0.0).upper <= answer["advantage"]
    point = json.loads(shell("calibrate", "--steps", steps, "--fpr", 0.05, "--fnr", 0.8, "--json"))["answers"][0]
    assert PrivacyProfile(steps * Gaussian(point["noise_multiplier"])).trade_off(0.05).lower >= 0.8
    table = shell("calibrate", *args, "--epsilon", "1,2", "--delta", "1e-5,1e-6")
    assert table.count("epsilon <=") == 4


def test_a_table_of_answers_shows_what_differs_in_its_rows(shell):
    args = ["calibrate", "--dataset-size", 600, "--noise-multiplier", 2, "--epsilon", "1,2", "--delta", "1e-5"]
    out = shell(*args, "--epochs", 3, "--solve", "batch-size")
    header, *rows = out.split("\n\n")[0].splitlines()
    assert header.split()[-2:] == ["sampling", "steps"]
    for row in rows:
        batch = row.split()[0]
        assert f"q = {batch}/600" in row
        assert f"x 600/{batch})" in row
    below = fields(out.split("\n\n")[1])
    assert "sampling" not in below
    assert "steps" not in below
    assert below["mechanism"].startswith("DP-SGD")
    out = shell(*args, "--batch-size", 60)
    assert "steps" not in fields(out.split("\n\n")[1])
    assert out.count(" steps;") == 2
    out = shell("calibrate", "--sampling-probability", 0.1, "--steps", 3, "--epsilon", "1,2", "--delta", "1e-5")
    assert fields(out.split("\n\n")[1])["mechanism"] == "Gaussian, noise multiplier as above"
    out = shell("calibrate", "--mechanism", "pure", "--steps", 3, "--epsilon", "1,2", "--delta", "1e-5")
    assert len(re.findall(r"any \S+-DP mechanism", out.split("\n\n")[0])) == 2


def test_the_method_stands_in_its_row_where_rows_differ(shell):
    common = shell("epsilon", *SAMPLED, "--delta", "1e-5,1e-6")
    assert common.splitlines()[0].split() == ["delta", "epsilon", "bracket"]
    assert fields(common)["method"].startswith("line")
    out = shell("epsilon", "--mechanism", "exponential", "--mechanism-epsilon", 1, "--steps", 30, "--delta", "1e-3,1e-9,0")
    rows = out.splitlines()[:4]
    assert rows[0].split()[-1] == "method"
    assert [row[rows[0].index("method") :].split()[0] for row in rows[1:]] == ["RDP", "RDP", "closed"]
    assert "\nmethod" not in out


def test_a_conversion_is_used_by_calibrate_as_well(shell):
    args = ["calibrate", "--mechanism", "exponential", "--steps", 300, "--epsilon", 2, "--delta", "1e-5", "--json"]
    found = [json.loads(shell(*args, "--conversion", name))["answers"][0] for name in ("mironov", "optimal")]
    assert found[0]["mechanism_epsilon"] < found[1]["mechanism_epsilon"]


def test_a_prefix_that_spends_the_budget_is_named(shell, tmp_path):
    first = tmp_path / "first.json"
    first.write_text('{"noise_multiplier": 1.0, "sampling_probability": 0.01, "steps": 1000}')
    args = ["calibrate", "--after", first, "--epsilon", 1, "--delta", "1e-5"]
    said = "what came before spends 1.82824 on its own"
    assert said + ", so no noise is enough" in shell(*args, "--steps", 10, code=64)
    assert said + ", so no sampling probability is small enough" in shell(
        *args, "--steps", 10, "--noise-multiplier", 2, "--solve", "sampling-probability", code=64
    )
    assert said + ", so 0 steps are left" in shell(*args, "--noise-multiplier", 2, code=64)
    assert said + ", so 0 epochs are left, that is 0 steps" in shell(
        *args, "--noise-multiplier", 2, "--dataset-size", 100, "--batch-size", 1, code=64
    )
