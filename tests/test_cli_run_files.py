"""Run files, what was spent before, and whole compositions in a file."""

from __future__ import annotations

import json

import pytest
from commandline import fields

from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.renyi import RenyiBound
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.serial import to_json


def test_run_files_serve_every_command_and_the_command_line_wins(shell, tmp_path):
    toml = tmp_path / "run.toml"
    toml.write_text("dataset-size = 6000\nbatch_size = 60\nepochs = 2\nnoise_multiplier = 1.5\ndelta = [1e-5]\nepsilon = 1\n")
    js = tmp_path / "run.json"
    js.write_text('{"dataset_size": 6000, "batch_size": 60, "epochs": 2, "noise_multiplier": 1.5, "delta": 1e-5, "epsilon": 1}')
    for command in ("epsilon", "delta", "curve", "explain", "statement"):
        assert shell(command, "--run", toml) == shell(command, "--run", js)
    assert fields(shell("epsilon", "--run", toml))["steps"].startswith("200")
    assert fields(shell("epsilon", "--run", toml, "--steps", 7))["steps"] == "7"
    assert fields(shell("epsilon", "--run", toml, "--sampling-probability", 0.5))["sampling"] == "Poisson, q = 0.5"
    out = shell("calibrate", "--run", toml, "--solve", "noise-multiplier", "--advantage", 0.1)
    assert "advantage <= 0.1" in out


def test_the_command_line_wins_over_the_targets_of_a_file(shell, tmp_path):
    toml = tmp_path / "run.toml"
    toml.write_text("noise_multiplier = 2.0\ndelta = [1e-5, 1e-6]\nsolve = 'noise-multiplier'\n")
    assert "about one --delta; got 2" in shell("statement", "--run", toml, code=64)
    assert "delta = 1e-07." in shell("statement", "--run", toml, "--delta", "1e-7")
    assert "epsilon = 2 and" in shell("statement", "--run", toml, "--epsilon", 2)
    assert "not both" in shell("statement", "--run", toml, "--epsilon", 2, "--delta", "1e-6", code=64)
    assert shell("explain", "--run", toml, "--epsilon", 2).startswith("delta")
    assert shell("calibrate", "--run", toml, "--noise-multiplier", 9, "--delta", "1e-6", "--epsilon", 2).startswith("steps")


def test_options_that_a_composition_in_a_file_has_no_use_for_are_refused(shell, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(to_json(RenyiBound.zcdp(0.01)))
    assert "--method has no effect" in shell("epsilon", "--run", path, "--delta", "1e-5", "--method", "line", code=64)
    assert "nothing is left" in shell("calibrate", "--run", path, "--advantage", 0.1, "--solve", "steps", code=64)
    path.write_text('{"format": "dpaccount", "version": 1, "guarantee": {"kind": "laplace", "noise_multiplier": "2"}}')
    assert f"{path}: " in shell("epsilon", "--run", path, "--delta", "1e-5", code=64)


def test_what_is_wrong_with_an_earlier_run_names_its_file(shell, tmp_path):
    first = tmp_path / "first.toml"
    for text, message in (("noise_multiplier = -1.0", "--noise-multiplier must be"), ("steps = 3", "Missing option")):
        first.write_text(text)
        err = shell("epsilon", "--noise-multiplier", 1, "--delta", "1e-5", "--after", first, code=64)
        assert f"{first}: {message}" in err


def test_a_serialised_composition_is_a_run_file(shell, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(to_json(2 * Laplace(4.0) + RenyiBound.zcdp(0.01)))
    data = json.loads(shell("epsilon", "--run", path, "--delta", "1e-5", "--json"))
    assert data["answers"][0]["method"].startswith("RDP")
    assert "cannot change it" in shell("epsilon", "--run", path, "--delta", "1e-5", "--steps", 3, code=64)
    assert "nothing is left" in shell("calibrate", "--run", path, "--delta", "1e-5", "--epsilon", 3, code=64)
    toml = tmp_path / "run.toml"
    toml.write_text('format = "dpaccount"\nversion = 1\n[guarantee]\nkind = "laplace"\nnoise_multiplier = 2.0\n')
    assert fields(shell("delta", "--run", toml, "--epsilon", 0.1))["mechanism"] == "Laplace, noise multiplier 2"


def test_what_was_already_spent_is_added(shell, tmp_path):
    first = tmp_path / "first.json"
    first.write_text('{"noise_multiplier": 1.0, "sampling_probability": 0.01, "steps": 500}')
    second = ["--noise-multiplier", 2, "--sampling-probability", 0.02, "--steps", 500, "--delta", "1e-6"]
    data = json.loads(shell("epsilon", *second, "--after", first, "--json"))
    assert 1.8787693888 - 1e-6 <= data["answers"][0]["epsilon"] <= 1.8787693888 * 1.005  # BR-106
    stated = json.loads(shell("calibrate", *second[:4], "--after", first, "--epsilon", 2, "--delta", "1e-6", "--json"))
    steps = stated["answers"][0]["steps"]
    phases = 500 * PoissonSampled(Gaussian(1.0), 0.01), PoissonSampled(Gaussian(2.0), 0.02)
    assert PrivacyProfile(phases[0] + steps * phases[1]).delta(epsilon=2.0).upper <= 1e-6
    assert PrivacyProfile(phases[0] + (steps + 1) * phases[1]).delta(epsilon=2.0).upper > 1e-6


def test_relations_are_never_mixed(shell, tmp_path):
    first = tmp_path / "first.toml"
    first.write_text('noise_multiplier = 1.0\nadjacency = "replace-one"\n')
    assert "do not add up" in shell("epsilon", "--noise-multiplier", 1, "--delta", "1e-5", "--after", first, code=64)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run.toml", "noise_multipler = 1.0\n", "unknown key 'noise_multipler'"),
        ("run.toml", "batch_size = 25.5\n", "25.5 is not a whole number"),
        ("run.toml", "batch_size = true\n", "not a number"),
        ("run.toml", "noise_multiplier = [1.0]\n", "not a number"),
        ("run.toml", "delta = []\n", "empty"),
        ("run.toml", "epochs = inf\n", "finite"),
        ("run.toml", "= 1\n", "A run file is TOML"),
        ("run.json", "{", "A run file is TOML"),
        ("run.json", "[1]", "a table of option names"),
        ("run.json", '{"format": "dpaccount", "version": 2}', "later dpaccount"),
        ("run.toml", 'mechanism = "gauss"\n', "'gauss'"),
        ("run.toml", "mechanism = 5\n", "`mechanism` must be a word in quotes; got 5"),
        ("run.json", '{"batch_size": "256"}', "`batch_size` must be a number; got '256'. Write numbers without quotes."),
        ("run.toml", 'delta = [1e-5, "1e-6"]\n', "`delta` must be a number; got [1e-05, '1e-6']"),
    ],
)
def test_bad_run_files_are_refused(shell, tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    assert message in shell("epsilon", "--run", path, code=64)
