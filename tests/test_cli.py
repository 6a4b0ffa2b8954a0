"""The command line: what it prints, what it refuses, and with which exit code."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys

import pytest

from dpaccount.calibration import calibrate
from dpaccount.cli import epsilon as epsilon_module
from dpaccount.cli import explain as explain_module
from dpaccount.cli.main import cli, run
from dpaccount.cli.options import KEYS
from dpaccount.cli.rivals import grid_figure, rdp_figures
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.renyi import RenyiBound
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.serial import from_json, to_json
from dpaccount.training import TrainingRun

SAMPLED = ["--noise-multiplier", "1", "--sampling-probability", "0.01", "--steps", "1000"]
CANONICAL = PrivacyProfile(1000 * PoissonSampled(Gaussian(1.0), 0.01))
MNIST = ["--dataset-size", "60000", "--batch-size", "256", "--epochs", "60"]


@pytest.fixture
def shell(capsys):
    """Run a command line that must succeed; give back what it printed."""

    def call(*arguments, code=0, warning=""):
        got = run([str(a) for a in arguments])
        out, err = capsys.readouterr()
        assert got == code, err
        assert warning in err
        if code == 0 and not warning:
            assert err == ""
        return out if code == 0 else err

    return call


def fields(text):
    """The aligned lines as a dictionary (the first of equal labels)."""
    found = {}
    for line in text.splitlines():
        parts = re.split(r"\s{2,}", line, maxsplit=1)
        if len(parts) == 2:
            found.setdefault(parts[0], parts[1])
    return found


# the README's command


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


# epsilon and delta


def test_epsilon_is_the_profiles(shell):
    said = fields(shell("epsilon", *SAMPLED, "--delta", "1e-5"))
    true = CANONICAL.epsilon(delta=1e-5)
    assert float(said["epsilon"].split()[0]) == pytest.approx(true.upper, rel=1e-8)
    assert float(said["epsilon"].split()[0]) >= true.upper
    assert said["mechanism"] == "Gaussian, noise multiplier 1"
    assert said["sampling"] == "Poisson, q = 0.01"


def test_lists_of_targets_give_tables_and_json_arrays(shell):
    out = shell("epsilon", *SAMPLED, "--delta", "1e-5,1e-7")
    assert [line.split()[0] for line in out.splitlines()[1:3]] == ["1e-05", "1e-07"]
    answers = json.loads(shell("epsilon", *SAMPLED, "--delta", "1e-5,1e-7", "--json"))["answers"]
    assert [a["epsilon"] for a in answers] == [CANONICAL.epsilon(delta=d).upper for d in (1e-5, 1e-7)]
    deltas = json.loads(shell("delta", *SAMPLED, "--epsilon", "0.5,1", "--json"))["answers"]
    assert [a["delta"] for a in deltas] == [CANONICAL.delta(epsilon=e).upper for e in (0.5, 1)]


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


# calibrate: the number that is missing


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
    methods = {line.split("] ")[1].strip().split()[0] for line in out.splitlines()[1:4]}
    assert len(methods) > 1
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
    assert said in shell(*args, "--steps", 10, code=64)
    assert said + ", so 0 steps are left" in shell(*args, "--noise-multiplier", 2, code=64)
    assert said + ", so 0 epochs are left, that is 0 steps" in shell(
        *args, "--noise-multiplier", 2, "--dataset-size", 100, "--batch-size", 1, code=64
    )


# run files


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


# curve


def test_curve_csv_is_the_profile(shell):
    rows = list(csv.DictReader(io.StringIO(shell("curve", *SAMPLED, "--at", "0.5,1,2", "--csv"))))
    assert [float(row["epsilon"]) for row in rows] == [0.5, 1, 2]
    assert [float(row["delta"]) for row in rows] == CANONICAL.delta(epsilon=[0.5, 1, 2]).upper.tolist()


def test_a_curve_ends_where_little_is_left(shell):
    rows = json.loads(shell("curve", *SAMPLED, "--json"))["answers"]
    assert rows[0]["epsilon"] == 0
    assert rows[-1]["delta"] < 1e-10 < rows[-2]["delta"]


def test_curve_kinds_print_their_safe_side(shell):
    out = shell("curve", *SAMPLED, "--kind", "trade-off", "--at", "0.1")
    assert "false negative rate (lower bound)" in out
    shown = float(out.splitlines()[1].split()[1])
    true = CANONICAL.trade_off(0.1).lower
    assert true * (1 - 1e-8) <= shown <= true
    data = json.loads(shell("curve", *SAMPLED, "--kind", "renyi", "--at", "2,3", "--json"))
    assert [a["order"] for a in data["answers"]] == [2, 3]
    assert "divergence (upper bound)" in shell("curve", *SAMPLED, "--kind", "renyi")


@pytest.mark.parametrize("kind", ["delta", "trade-off", "renyi"])
def test_curves_are_drawn_to_a_file(shell, tmp_path, kind):
    path = tmp_path / "curve.png"
    shell("curve", "--noise-multiplier", 2, "--kind", kind, "--plot", path, warning="plot written")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_curve_refuses_two_formats_and_files_that_cannot_be_written_before_it_computes(shell, tmp_path, monkeypatch):
    assert "not both" in shell("curve", *SAMPLED, "--csv", "--json", code=64)

    def never(*arguments):
        raise AssertionError("computed")

    monkeypatch.setattr(PrivacyProfile, "delta", never)
    assert "must end in one of" in shell("curve", *SAMPLED, "--at", "1,2", "--plot", tmp_path / "x.nope", code=64)
    assert "there is no folder" in shell("curve", *SAMPLED, "--at", "1,2", "--plot", tmp_path / "no" / "x.png", code=64)


def test_curve_csv_says_of_each_row_whether_it_is_certified_and_how_it_was_found(shell):
    rows = list(csv.DictReader(io.StringIO(shell("curve", "--noise-multiplier", 1, "--at", "0.5,1", "--csv"))))
    assert [(row["certified"], row["method"]) for row in rows] == [("True", "closed")] * 2


# convert: the numbers of the mathematics page, 18 digits by mpmath


@pytest.mark.parametrize(
    ("arguments", "kind", "how", "value"),
    [
        (["--gdp", 1, "--delta", "1e-5"], "epsilon", "exact", 4.37717809568122463),
        (["--gdp", 1, "--epsilon", 1], "delta", "exact", 0.126936737506643946),
        (["--gdp", 1], "zcdp", "mu^2/2", 0.5),
        (["--gdp", 2, "--order", 8], "rdp", "exact", 16.0),
        (["--zcdp", 0.5, "--delta", "1e-5"], "epsilon", "mironov", 5.29852591218808121),
        (["--zcdp", 0.5, "--delta", "1e-5"], "epsilon", "improved", 4.7283869849433139),
        (["--zcdp", 0.5, "--delta", "1e-5"], "epsilon", "optimal", 4.72838564863849),
        (["--dp", 1], "zcdp", "Bun", 0.5),
        (["--dp", "1,0", "--epsilon", 0.5], "delta", "exact", (2.718281828459045 - 1.6487212707001282) / 3.718281828459045),
        (["--rdp", "2:1"], "rdp", "stated", 1.0),
    ],
)
def test_conversions_have_the_right_values(shell, arguments, kind, how, value):
    rows = json.loads(shell("convert", *arguments, "--json"))["implied"]
    (found,) = [row for row in rows if row["kind"] == kind and how in row["how"]]
    assert found["value"] == pytest.approx(value, rel=1e-9 if how != "optimal" else 1e-6)


def test_the_gdp_of_a_pure_guarantee_meets_its_kink(shell):
    (row,) = json.loads(shell("convert", "--dp", 1, "--to", "gdp", "--json"))["implied"]
    total_variation = PrivacyProfile(Gaussian(1 / row["value"])).delta(epsilon=0.0).estimate
    assert total_variation == pytest.approx((2.718281828459045 - 1) / (2.718281828459045 + 1), rel=1e-12)


def test_what_does_not_follow_is_said_and_refused(shell):
    data = json.loads(shell("convert", "--dp", "1,1e-6", "--json"))
    assert set(data["not_implied"]) == {"gdp", "zcdp", "rdp"}
    assert "infinite" in shell("convert", "--dp", "1,1e-6", "--to", "zcdp", code=64)
    assert "0.5-zCDP does not imply Gaussian DP: " in shell("convert", "--zcdp", 0.5)


def test_an_approximate_guarantee_says_what_it_can(shell):
    out = shell("convert", "--dp", "1,1e-5")
    assert "epsilon  1 at delta = 1e-05" in out
    assert "delta    0.462122537 at epsilon = 0" in out  # (e - 1 + 2e-5)/(e + 1)
    assert "(1, 1e-05)-DP does not imply Gaussian DP, zCDP or Renyi DP: with probability delta" in out


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["--gdp", 1, "--zcdp", 1], ["--gdp", 0], ["--gdp", -1], ["--zcdp", "nan"], ["--dp", "1,2,3"], ["--dp", "1,2"],
        ["--rdp", "2"], ["--rdp", "2:1,x:2"], ["--rdp", "1:1"], ["--gdp", 1, "--to", "epsilon"], ["--gdp", 1, "--delta", 2],
    ],
)
def test_bad_conversions_are_wrong_usage(shell, arguments):
    assert shell("convert", *arguments, code=64).strip()


# explain, and what others would print


def test_explain_names_engine_direction_and_rivals(shell):
    out = shell("explain", *SAMPLED, "--delta", "1e-5")
    for part in ("direction    remove", "direction    add", "line", "condition", "RDP, improved, usual orders", "grid of step"):
        assert part in out.replace("direction  ", "direction    ")
    data = json.loads(shell("explain", *SAMPLED, "--delta", "1e-5", "--json"))
    remove, add = data["directions"]
    assert remove["answer"]["upper"] == pytest.approx(data["answer"]["upper"], rel=1e-9)
    assert add["answer"]["upper"] < remove["answer"]["upper"]
    assert all(other["excess"] > 0 for other in data["others"])


def test_explain_at_an_epsilon(shell):
    out = shell("explain", "--mechanism", "laplace", "--noise-multiplier", 1, "--epsilon", 0.5)
    assert fields(out)["delta"].startswith("0.2211992")
    assert "closed" in fields(out)["engine"]


def test_the_grid_figure_is_what_dp_accounting_prints():
    # dp-accounting 0.6.0: privacy_loss_distribution.from_gaussian_mechanism(s, sampling_prob=q).self_compose(t)
    # .get_epsilon_for_delta(d) at its default grid; from_laplace_mechanism(5).self_compose(50) for the last
    for s, q, t, d, printed in [
        (1.0, 0.01, 1000, 1e-5, 1.828243645591767),
        (1.0, 0.01, 1000, 1e-18, float("inf")),
        (2.0, 0.3, 100, 1e-8, 10.487495245354665),
    ]:
        profile = PrivacyProfile(t * PoissonSampled(Gaussian(s), q))
        assert grid_figure(profile.directions, d).value == pytest.approx(printed, rel=1e-6)
    assert grid_figure(PrivacyProfile(50 * Laplace(5.0)).directions, 1e-6).value == pytest.approx(6.6697988544407405, rel=1e-6)


def test_the_rdp_figures_are_what_an_rdp_accountant_prints():
    # dp-accounting 0.6.0 RdpAccountant and opacus 1.6.0 print 2.1014 (orders 1.1 .. 10.9, 12 .. 63) for this run
    figures = {f.name: f.value for f in rdp_figures(CANONICAL, 1e-5)}
    assert figures["RDP, improved, usual orders"] == pytest.approx(2.1014, abs=5e-5)
    assert figures["RDP, improved, real orders"] <= figures["RDP, improved, usual orders"]
    assert figures["RDP, improved, real orders"] < figures["RDP, mironov, real orders"]


def test_a_grid_that_is_too_fine_for_the_losses_is_said():
    figure = grid_figure(PrivacyProfile(Gaussian(1e-3)).directions, 1e-5)
    assert figure.value is None
    assert "grid points" in figure.why


# statement


def test_statement_styles(shell):
    args = ["--dataset-size", 6000, "--batch-size", 60, "--epochs", 2, "--noise-multiplier", 1.5, "--delta", "1e-5"]
    assert shell("statement", *args).startswith("This training run is (epsilon, delta)-differentially private")
    assert "**ε" in shell("statement", *args, "--markdown")
    assert r"\varepsilon" in shell("statement", *args, "--latex")
    assert "@inproceedings{abadi2016deep" in shell("statement", *args, "--cite")
    data = json.loads(shell("statement", *args, "--json"))
    assert data["delta"] == 1e-5
    assert data["bibtex"].startswith("%")


def test_a_statement_describes_both_phases(shell, tmp_path):
    first = tmp_path / "first.toml"
    first.write_text("dataset_size = 6000\nbatch_size = 60\nepochs = 3\nnoise_multiplier = 1.25\n")
    args = ["--dataset-size", 6000, "--batch-size", 30, "--epochs", 2, "--noise-multiplier", 1.5, "--delta", "1e-5", "--after", first]
    for style in ([], ["--method", "lattice"]):
        out = shell("statement", *args, *style)
        assert out.startswith("This training run, with what came before it, is")
        said = fields(out)
        assert "DP-SGD" in said["Mechanism"]
        assert said["Steps"].startswith("400 = ceil(2 epochs")
        for part in ("DP-SGD", "noise multiplier 1.25 (noise over clipping norm)", "q = 60/6000", "300 = ceil(3 epochs x 6000/60)"):
            assert part in said["Before it"]
    both = PrivacyProfile(300 * PoissonSampled(Gaussian(1.25), 0.01) + 400 * PoissonSampled(Gaussian(1.5), 0.005))
    data = json.loads(shell("statement", *args, "--json"))
    assert data["answer"]["upper"] == pytest.approx(both.epsilon(delta=1e-5).upper, rel=1e-9)
    assert "abadi2016deep" in data["bibtex"]
    assert "DP-SGD" in fields(shell("epsilon", *args))["after"]


# exit codes and refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "No such command"),
        (["epsilon", "--nope"], "No such option"),
        (["epsilon", "--noise-multiplier", "1"], "Missing option '--delta'"),
        (["epsilon", "--delta", "1e-5"], "Missing option '--noise-multiplier'"),
        (["epsilon", "--noise-multiplier", "x", "--delta", "1e-5"], "'x' is not a number"),
        (["epsilon", "--noise-multiplier", "-1", "--delta", "1e-5"], "Error: --noise-multiplier must be"),
        (["epsilon", "--noise-multiplier", "nan", "--delta", "1e-5"], "Error: --noise-multiplier must be"),
        (["epsilon", "--noise-multiplier", "1", "--delta", "2"], "Error: --delta must be in [0, 1]; got 2.0"),
        (["epsilon", "--noise-multiplier", "1", "--delta", "1e-5,0.5,2"], "Error: --delta must be in [0, 1]; got 2.0"),
        (["epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--steps", "0"], "Error: --steps must be"),
        (["epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--steps", "1.5"], "not a whole number"),
        (["epsilon", *SAMPLED, "--delta", "1e-5", "--dataset-size", "100"], "not both"),
        (["epsilon", *SAMPLED, "--delta", "1e-5", "--epochs", "3"], "needs --dataset-size"),
        (["epsilon", *SAMPLED, "--delta", "1e-5", "--sensitivity", "3"], "does not belong"),
        (["epsilon", *MNIST, "--noise-multiplier", "1", "--delta", "1e-5", "--mechanism", "laplace"], "Gaussian"),
        (["epsilon", *MNIST[:4], "--noise-multiplier", "1", "--delta", "1e-5"], "'--epochs' or '--steps'"),
        (["epsilon", *SAMPLED, "--delta", "1e-5", "--method", "closed"], "--method closed has no formula"),
        (["epsilon", *SAMPLED, "--delta", "1e-5", "--per-epoch"], "--per-epoch needs"),
        (["epsilon", *SAMPLED, "--delta", "1e-5", "--sampler", "shuffle"], "'shuffle'"),
        (
            ["epsilon", "--dataset-size", "100", "--batch-size", "128", "--steps", "10", "--noise-multiplier", "2", "--delta", "1e-6"],
            "Error: --batch-size must be at most --dataset-size = 100, accumulation included; got 128",
        ),
        (["epsilon", "--mechanism", "randomized-response", "--mechanism-epsilon", "1", "--delta", "0"], "pass --adjacency replace-one"),
        (["delta", "--mechanism", "randomized-response", "--mechanism-epsilon", "1", "--epsilon", "0"], "--mechanism randomized-resp"),
        (["epsilon", "--mechanism", "pure", "--mechanism-epsilon", "-1", "--delta", "0"], "Error: --mechanism-epsilon must be"),
        (["epsilon", "--mechanism", "approximate", "--mechanism-epsilon", "1", "--mechanism-delta", "2", "--delta", "0"],
         "Error: --mechanism-delta must be"),
        (["curve", *SAMPLED, "--kind", "trade-off", "--at", "2"], "Error: --at must be"),
        (["curve", *SAMPLED, "--kind", "renyi", "--at", "1"], "Error: --at must be"),
        (["calibrate", *MNIST, "--epsilon", "-1", "--delta", "1e-5"], "Error: --epsilon must be"),
        (["calibrate", *MNIST, "--fpr", "2", "--fnr", "0.1"], "Error: --fpr must be"),
        (["convert", "--dp", "1,2"], "Error: --dp must be"),
        (["convert", "--zcdp", "-1"], "Error: --zcdp must be"),
        (["convert", "--rdp", "1:1"], "Error: --rdp must be"),
        (["calibrate", *SAMPLED, "--epsilon", "1", "--delta", "1e-5"], "Nothing is left free"),
        (["calibrate", *MNIST, "--epsilon", "1"], "Missing option '--delta'"),
        (["calibrate", *MNIST, "--epsilon", "1", "--delta", "1e-5", "--advantage", "0.1"], "Give one target"),
        (["calibrate", *MNIST[:2], *MNIST[4:], "--solve", "batch-size", "--epsilon", "1", "--delta", "1e-5"], "--noise-multiplier"),
        (["calibrate", "--steps", "3", "--solve", "epochs", "--epsilon", "1", "--delta", "1e-5"], "needs --dataset-size"),
        (["calibrate", "--noise-multiplier", "1", "--sampling-probability", "0.5", "--epsilon", "0.001", "--delta", "1e-9"], "no value"),
        # what would be ignored
        (["explain", *SAMPLED, "--delta", "1e-5", "--epsilon", "2"], "Give --delta or --epsilon, not both"),
        (["statement", *SAMPLED, "--delta", "1e-5", "--epsilon", "2"], "Give --delta or --epsilon, not both"),
        (["statement", *SAMPLED, "--delta", "1e-5", "--markdown", "--latex"], "--markdown or --latex"),
        (["epsilon", *SAMPLED, "--delta", "1e-5", "--conversion", "optimal"], "--conversion has no effect"),
        (["epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--sampler", "poisson"], "--sampler needs"),
        (["curve", *SAMPLED, "--kind", "renyi", "--method", "lattice"], "--method has no effect"),
        (["calibrate", *SAMPLED[2:], "--noise-multiplier", "2", "--solve", "noise-multiplier", "--advantage", "0.1"], "cannot be given"),
        (["calibrate", *MNIST, "--noise-multiplier", "2", "--solve", "steps", "--advantage", "0.1"], "--epochs cannot be given"),
        (["calibrate", *MNIST, "--noise-multiplier", "2", "--solve", "sampling-probability", "--advantage", "0.1"], "batch-size"),
        (["calibrate", *SAMPLED, "--solve", "mechanism-epsilon", "--advantage", "0.1"], "does not belong to --mechanism gaussian"),
        (["calibrate", *MNIST, "--conversion", "optimal", "--advantage", "0.1"], "--conversion has no effect"),
        (["convert", "--gdp", "1", "--to", "zcdp", "--delta", "1e-5"], "--delta has no effect with --to zcdp"),
        (["convert", "--gdp", "1", "--delta", "1e-5", "--conversion", "optimal"], "--conversion has no effect"),
        (["convert", "--zcdp", "1", "--conversion", "optimal"], "--conversion has no effect"),
        (["convert", "--dp", "1,1e-5", "--order", "2"], "--order has no effect"),
        (["explain", *SAMPLED], "'--delta'"),
        (["explain", *SAMPLED, "--delta", "1e-5,1e-6"], "about one --delta"),
        (["statement", *SAMPLED], "'--delta'"),
    ],
)
def test_wrong_usage_is_64_with_the_cause(shell, arguments, message):
    assert message in shell(*arguments, code=64)


def test_an_internal_error_is_70_and_keeps_its_traceback(shell, monkeypatch):
    class Broken:
        @staticmethod
        def of(ctx):
            raise ValueError("math domain error")

    monkeypatch.setattr(epsilon_module, "Stated", Broken)
    err = shell("epsilon", *SAMPLED, "--delta", "1e-5", code=70)
    assert "math domain error" in err
    assert "Internal error" in err


def test_help_and_version(shell):
    assert shell("--version").startswith("dpaccount ")
    assert "calibrate" in shell("--help")
    for name, command in cli.commands.items():
        assert command.get_short_help_str(), name
        text = shell(name, "-h")
        assert f"dpaccount {name}" in text


def test_every_run_file_key_is_an_option_somewhere():
    options = {parameter.name for command in cli.commands.values() for parameter in command.params}
    assert set(KEYS) <= options


def test_matplotlib_is_only_imported_to_plot():
    code = (
        "import sys; from dpaccount.cli.main import run; "
        "assert run(['epsilon', '--noise-multiplier', '1', '--delta', '1e-5', '--json']) == 0; "
        "assert not [m for m in sys.modules if m.split('.')[0] == 'matplotlib']"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_module_runs_as_a_command():
    done = subprocess.run([sys.executable, "-m", "dpaccount.cli", "nope"], capture_output=True, text=True, check=False)
    assert done.returncode == 64


# explain --verify


def test_verify_encloses_every_direction(shell):
    pytest.importorskip("flint", reason="python-flint is not installed")
    out = shell("explain", *SAMPLED, "--epsilon", 1, "--verify", "--digits", 24)
    assert out.count("by ball arithmetic, which meets the bracket") == 2
    assert "[0.0026124205786269241939763" in out
    sides = json.loads(shell("explain", *SAMPLED, "--epsilon", 1, "--verify", "--json"))["directions"]
    assert all(side["verified"]["meets"] for side in sides)
    assert sides[0]["verified"]["lower"].startswith("0.002612420578626924193")


def test_verify_says_where_it_has_no_proof_and_what_is_missed(capsys, monkeypatch):
    pytest.importorskip("flint", reason="python-flint is not installed")
    few = ["--noise-multiplier", "1", "--sampling-probability", "0.001", "--steps", "10"]
    assert run(["explain", *few, "--epsilon", "0.2", "--verify"]) == 2
    assert "no proof in ball arithmetic" in capsys.readouterr().out
    honest = explain_module.certified_delta
    monkeypatch.setattr(explain_module, "certified_delta", lambda pair, at, **more: honest(pair, 1.5 * at, **more))
    assert run(["explain", "--noise-multiplier", "2", "--epsilon", "1", "--verify"]) == 1
    assert "which MISSES the bracket" in capsys.readouterr().out


def test_verify_names_the_extra_without_python_flint(shell, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "flint", None)
    assert run(["explain", "--noise-multiplier", "2", "--epsilon", "1", "--verify"]) == 64
    assert "dpaccount[certify]" in capsys.readouterr().err


def test_explain_of_no_noise(shell):
    assert "inf" in shell("explain", "--noise-multiplier", 0, "--delta", "1e-5")
