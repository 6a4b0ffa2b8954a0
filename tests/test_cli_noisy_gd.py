"""``dpaccount noisy-gd``: the library's figures, in lines, tables, JSON and plots."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import matplotlib as mpl
import pytest
from click.testing import CliRunner
from commandline import fields
from numpy.testing import assert_allclose

from dpaccount.cli.main import cli
from dpaccount.iteration import NoisyGD

mpl.use("agg")
WORDS = ["--num-records", "1000", "--lipschitz", "1", "--smoothness", "1", "--step-size", "0.5", "--steps", "4000", "--diameter", "1"]
NOISE = ["--noise-scale", "1"]
RUN = NoisyGD(
    num_records=1000, lipschitz=1.0, smoothness=1.0, strong_convexity=0.0, step_size=0.5, noise_scale=1.0, steps=4000, diameter=1.0,
)


def run(*words):
    return CliRunner().invoke(cli, ["noisy-gd", *words])


def test_epsilon_in_lines():
    found = run(*WORDS, *NOISE, "--delta", "1e-6")
    assert found.exit_code == 0, found.output
    said = fields(found.stdout)
    assert_allclose(float(said["epsilon"].split()[0]), float(RUN.epsilon(1e-6)), rtol=1e-8)
    assert float(said["epsilon"].split()[0]) >= float(RUN.epsilon(1e-6))
    assert "at delta = 1e-06" in said["epsilon"]
    assert said["method"] == "shifted"
    assert "BSA24" in said["theorem"]
    assert "diameter 1" in said["step"]
    assert "last iterate" in found.stderr
    assert float(said["every iterate released"].split()[2]) > 0.2


def test_adjacency_is_said_as_it_is():
    for given, told in (
        ([], "zero-out: one record is replaced by one that contributes nothing; means divide by 1000 in both data sets"),
        (["--adjacency", "add-or-remove"], "add-or-remove: one record is added or removed; means divide by 1000 in both data sets"),
    ):
        assert fields(run(*WORDS, *NOISE, "--delta", "1e-6", *given).stdout)["adjacency"] == told
    refused = run(*WORDS, *NOISE, "--delta", "1e-6", "--batches", "10", "--adjacency", "add-or-remove")
    assert refused.exit_code != 0
    assert "in several batches" in refused.output


def test_delta_in_a_table_for_one_batch():
    found = run(*WORDS, *NOISE, "--batches", "10", "--batch", "3", "--epsilon", "0.1,1")
    assert found.exit_code == 0, found.output
    one = replace(RUN, batches=10)
    rows = [line.split() for line in found.stdout.splitlines()[1:3]]
    for row in rows:
        assert_allclose(float(row[1]), float(one.delta(float(row[0]), batch=3)), rtol=1e-8)
    assert "shifted, then contraction" in found.stdout
    assert "batch 3" in found.stdout


def test_noise_is_found_for_a_target():
    found = run(*WORDS, "--epsilon", "0.5", "--delta", "1e-6", "--json")
    said = json.loads(found.stdout)
    noise = said["run"]["noise_scale"]
    assert said["answers"][0]["upper"] <= 0.5
    assert float(replace(RUN, noise_scale=noise).epsilon(1e-6)) <= 0.5
    assert said["target"] == "epsilon <= 0.5 at delta = 1e-06"
    assert said["adjacency"] == "zero-out"
    assert_allclose(float(replace(RUN, noise_scale=noise * (1 - 1e-6)).epsilon(1e-6)), 0.5, rtol=1e-5)
    found = run(*WORDS, "--epsilon", "0.5", "--delta", "1e-6")
    label, first = found.stdout.splitlines()[0].split("  ", maxsplit=1)
    assert (label, float(first)) == ("noise scale", noise)
    assert fields(found.stdout)["target"] == "the least that meets epsilon <= 0.5 at delta = 1e-06"
    assert fields(found.stdout)["achieved"].startswith("epsilon ")
    assert "least" not in found.stderr


def test_what_the_figure_rests_on_is_in_the_body():
    said = fields(run(*WORDS, *NOISE, "--delta", "1e-6").stdout)
    assert said["assumes"] == (
        "the last iterate is all that anyone ever sees; every record's loss is convex, Lipschitz and smooth as stated, "
        "and no gradient is clipped"
    )
    assert said["bracket"] == f"at most {said['epsilon'].split()[0]} (upper bound; no lower bound), certified, every error is bounded"
    every = fields(run(*WORDS, *NOISE, "--delta", "1e-6", "--method", "composition").stdout)
    assert "last iterate" not in every["assumes"]


def test_the_limit_and_json():
    found = run(*WORDS[:8], "--steps", "inf", "--strong-convexity", "0.1", *NOISE, "--delta", "1e-6", "--json")
    said = json.loads(found.stdout)
    assert said["run"]["steps"] == "inf"
    assert said["run"]["diameter"] == "inf"
    assert said["answers"][0]["method"] == "shifted"
    assert said["answers"][0]["lower"] > 0.0


@pytest.mark.parametrize("against", ["epsilon", "steps"])
def test_plots(tmp_path, against):
    path = tmp_path / "plot.svg"
    found = run(*WORDS, *NOISE, "--batches", "10", "--batch", "3", "--delta", "1e-6", "--plot", str(path), "--against", against)
    assert found.exit_code == 0, found.output
    text = path.read_text(encoding="utf-8")
    assert "shifted" in text or "<path" in text
    assert path.stat().st_size > 5000


def test_a_plot_against_steps_is_about_the_batch(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, *_, **__: figures.append(figure))
    words = [*WORDS, *NOISE, "--batches", "10", "--batch", "3", "--delta", "1e-6", "--against", "steps"]
    found = run(*words, "--plot", str(tmp_path / "a.png"))
    assert found.exit_code == 0, found.output
    (axes,) = figures[0].axes
    assert "batch 3" in axes.get_title(loc="left")
    line = next(line for line in axes.lines if line.get_label() == "shifted")
    for t, value in list(zip(*line.get_data(), strict=True))[::7]:
        assert_allclose(value, float(replace(RUN, batches=10, steps=int(t)).epsilon(1e-6, 3, method="shifted")), rtol=1e-9)
    worst = replace(RUN, batches=10, steps=int(t))
    assert float(worst.epsilon(1e-6, method="shifted")) > value


@pytest.mark.parametrize(("words", "told"), [
    ([*WORDS, *NOISE], "Give --epsilon or --delta"),
    ([*WORDS, *NOISE, "--epsilon", "1", "--delta", "1e-6"], "Give --epsilon or --delta"),
    ([*WORDS, "--delta", "1e-6"], "Give --noise-scale"),
    ([*WORDS, *NOISE, "--delta", "1e-6", "--batches", "7"], "--batches must be a divisor of --num-records"),
    ([*WORDS, *NOISE, "--delta", "1e-6", "--batch", "2"], "--batch must be a whole number"),
    ([*WORDS, *NOISE, "--delta", "1e-6", "--strong-convexity", "2"], "--strong-convexity must be in"),
    ([*WORDS[:10], *NOISE, "--delta", "1e-6", "--method", "contraction"], "Contraction needs a bounded set"),
    ([*WORDS, *NOISE, "--epsilon", "1", "--plot", "x.png", "--against", "steps"], "--against steps draws"),
    ([*WORDS, *NOISE, "--delta", "1e-6", "--steps", "1.5"], "is not a whole number"),
    ([*WORDS, *NOISE, "--delta", "2"], "--delta must be in [0, 1]"),
])
def test_refusals_name_the_option(words, told):
    found = run(*words)
    assert found.exit_code != 0
    assert told in found.output


def test_nothing_is_nan_at_the_edges():
    for words in (["--noise-scale", "0", "--delta", "1e-6"], [*NOISE, "--delta", "0"], [*NOISE, "--epsilon", "1000"]):
        found = run(*WORDS, *words)
        assert found.exit_code == 0, found.output
        assert "nan" not in found.stdout
    assert math.isinf(float(RUN.epsilon(0.0)))
