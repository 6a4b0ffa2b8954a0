"""``dpaccount epsilon`` and ``dpaccount delta``, with the README's command."""

from __future__ import annotations

import json
import re

import pytest
from commandline import MNIST, SAMPLED, canonical, fields

from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.serial import from_json
from dpaccount.training import TrainingRun


def test_the_readme_command_prints_the_answer_and_what_it_assumes(shell):
    out = shell("calibrate", *MNIST, "--epsilon", 2, "--delta", "1e-5")
    said = fields(out)
    exact = TrainingRun(dataset_size=60000, batch_size=256, epochs=60).calibrate(epsilon=2.0, delta=1e-5)
    assert out.startswith("noise multiplier")
    assert exact.value <= float(said["noise multiplier"]) <= exact.value * (1 + 1e-9)
    assert "256/60000" in said["sampling"]
    assert "Poisson" in said["sampling"]
    assert said["steps"].startswith("14063")
    assert said["adjacency"].startswith("add-or-remove")
    assert re.match(r"epsilon in \[1\.9999999\d*, 2\]", said["achieved"])
    assert "line" in said["method"]


def test_the_printed_noise_multiplier_is_itself_feasible(shell):
    printed = fields(shell("calibrate", *MNIST, "--epsilon", 2, "--delta", "1e-5"))["noise multiplier"]
    back = shell("delta", *MNIST, "--noise-multiplier", printed, "--epsilon", 2, "--json")
    assert json.loads(back)["answers"][0]["upper"] <= 1e-5


def test_epsilon_is_the_profiles(shell):
    said = fields(shell("epsilon", *SAMPLED, "--delta", "1e-5"))
    true = canonical().epsilon(delta=1e-5)
    assert float(said["epsilon"].split()[0]) == pytest.approx(true.upper, rel=1e-8)
    assert float(said["epsilon"].split()[0]) >= true.upper
    assert said["mechanism"] == "Gaussian, noise multiplier 1"
    assert said["sampling"] == "Poisson, q = 0.01"


def test_lists_of_targets_give_tables_and_json_arrays(shell):
    out = shell("epsilon", *SAMPLED, "--delta", "1e-5,1e-7")
    assert [line.split()[0] for line in out.splitlines()[1:3]] == ["1e-05", "1e-07"]
    answers = json.loads(shell("epsilon", *SAMPLED, "--delta", "1e-5,1e-7", "--json"))["answers"]
    profile = canonical()
    assert [a["epsilon"] for a in answers] == [profile.epsilon(delta=d).upper for d in (1e-5, 1e-7)]
    deltas = json.loads(shell("delta", *SAMPLED, "--epsilon", "0.5,1", "--json"))["answers"]
    assert [a["delta"] for a in deltas] == [canonical().delta(epsilon=e).upper for e in (0.5, 1)]


def test_json_carries_the_run_and_its_guarantee(shell):
    data = json.loads(shell("epsilon", *MNIST, "--noise-multiplier", 1.1, "--delta", "1e-5", "--json"))
    assert data["run"]["steps"] == 14063
    assert data["run"]["sampling_probability"] == 256 / 60000
    document = {"format": "dpaccount", "version": 1, "guarantee": data["run"]["guarantee"]}
    assert from_json(document) == 14063 * PoissonSampled(Gaussian(1.1), 256 / 60000)


def test_infinite_answers_are_json_strings(shell):
    data = json.loads(shell("epsilon", "--noise-multiplier", 0, "--delta", "1e-5", "--json"))
    assert data["answers"][0]["epsilon"] == "inf"
    assert "no noise" in data["answers"][0]["reason"]


def test_per_epoch(shell):
    args = ["--dataset-size", 600, "--batch-size", 60, "--epochs", 3, "--noise-multiplier", 2, "--delta", "1e-4", "--per-epoch"]
    data = json.loads(shell("epsilon", *args, "--json"))
    assert [a["steps"] for a in data["answers"]] == [10, 20, 30]
    assert "epoch" in shell("epsilon", *args).splitlines()[0]


def test_per_epoch_takes_several_deltas_and_counts_what_came_before(shell, tmp_path):
    first = tmp_path / "first.json"
    first.write_text('{"noise_multiplier": 2.0, "sampling_probability": 0.1, "steps": 10}')
    args = ["--dataset-size", 600, "--batch-size", 60, "--epochs", 2, "--noise-multiplier", 2, "--per-epoch"]
    answers = json.loads(shell("epsilon", *args, "--delta", "1e-4,1e-5", "--after", first, "--json"))["answers"]
    assert [(a["epoch"], a["steps"], a["delta"]) for a in answers] == [(1, 10, 1e-4), (1, 10, 1e-5), (2, 20, 1e-4), (2, 20, 1e-5)]
    whole = PrivacyProfile(30 * PoissonSampled(Gaussian(2.0), 0.1))
    assert answers[2]["upper"] == pytest.approx(whole.epsilon(delta=1e-4).upper, rel=1e-9)
    assert shell("epsilon", *args, "--delta", "1e-4,1e-5", "--after", first).splitlines()[0].split()[:3] == ["epoch", "steps", "delta"]


def test_a_large_delta_is_warned_about_on_standard_error(shell):
    args = ["--dataset-size", 600, "--batch-size", 60, "--epochs", 3, "--noise-multiplier", 2]
    shell("epsilon", *args, "--delta", 0.01, warning="warning: delta = 0.01 is not below 1/dataset_size")
    shell("calibrate", *args[:6], "--epsilon", 1, "--delta", 0.01, warning="1/dataset_size")
    notes = json.loads(shell("epsilon", *args, "--delta", 0.01, "--json"))["notes"]
    assert "1/dataset_size" in notes[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mechanism", "laplace", "--noise-multiplier", 2, "--epsilon", 0.1], "Laplace, noise multiplier 2"),
        (["--mechanism", "discrete-gaussian", "--noise-multiplier", 2, "--sensitivity", 3, "--epsilon", 0.1], "sensitivity 3"),
        (["--mechanism", "discrete-laplace", "--noise-multiplier", 2, "--epsilon", 0.1], "discrete Laplace"),
        (
            ["--mechanism", "randomized-response", "--mechanism-epsilon", 1, "--num-categories", 4, "--adjacency", "replace-one",
             "--epsilon", 0.5],
            "4 categories",
        ),
        (["--mechanism", "exponential", "--mechanism-epsilon", 1, "--epsilon", 0.5], "exponential mechanism, range 1"),
        (["--mechanism", "pure", "--mechanism-epsilon", 1, "--steps", 2, "--epsilon", 0.5], "any 1-DP mechanism"),
        (["--mechanism", "approximate", "--mechanism-epsilon", 1, "--mechanism-delta", 0.1, "--epsilon", 0.5], "(1, 0.1)-DP"),
    ],
)
def test_every_mechanism_can_be_stated(shell, arguments, words):
    assert words in fields(shell("delta", *arguments))["mechanism"]


def test_one_step_is_said_where_none_were_given(shell):
    sampled = ["epsilon", "--noise-multiplier", 1, "--sampling-probability", 0.01, "--delta", "1e-5"]
    assert fields(shell(*sampled))["steps"] == "1 (--steps not given)"
    assert fields(shell(*sampled, "--steps", 1))["steps"] == "1"
