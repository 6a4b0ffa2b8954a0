"""``dpaccount pnsgd``: figures, facts, plots and refusals."""

from __future__ import annotations

import json
import re

import pytest

from dpaccount.iteration import PNSGD

BASE = ["pnsgd", "--num-records", 40, "--lipschitz", 1, "--smoothness", 1, "--step-size", 0.5, "--diameter", 1]
RUN = PNSGD(40, 1, 1, 0, 0.5, 1, "gaussian", 2.0)
HIDDEN = "holds only if the last iterate is all that anyone ever sees"


def fields(text):
    """The aligned lines as a dictionary."""
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in text.splitlines() if re.search(r"\s{2,}", line))


def test_delta_of_a_record_with_the_theorem_behind_it(shell):
    found = fields(shell(*BASE, "--noise-scale", 2, "--index", 39, "--epsilon", 0.5, warning=HIDDEN))
    assert found["delta"].startswith("0.056844911 ")
    assert found["record"] == "number 39"
    assert found["every iterate released"] == "delta = 0.238421709"  # of one point
    assert found["adjacency"].startswith("replace-one")
    assert found["theorem"].startswith("ADC20, Theorem 4")
    assert found["method"] == "contraction"
    assert "certified" in found["bracket"]


def test_several_points_are_a_table_that_names_the_winners(shell):
    out = shell(
        *BASE, "--noise-scale", 1, "--strong-convexity", 0.4, "--index", 30, "--epsilon", "0.1,1", warning=HIDDEN
    )
    rows = [re.split(r"\s{2,}", line) for line in out.split("\n\n")[0].splitlines()]
    assert rows[0] == ["epsilon", "delta", "bracket", "method"]
    assert [row[-1] for row in rows[1:]] == ["contraction", "shifted"]
    assert "at the first point" in out
    assert "ADC20" in out
    assert "BSA24" in out


@pytest.mark.parametrize(
    ("order", "run"), [("fixed", RUN), ("random-stopping", RUN.random_stopping()), ("random-permutation", RUN.random_permutation())]
)
def test_json_says_what_the_library_says(shell, order, run):
    out = json.loads(shell(*BASE, "--noise-scale", 2, "--order", order, "--delta", 1e-3, "--json", warning=HIDDEN))
    (answer,) = out["answers"]
    assert answer["epsilon"] == run.epsilon(delta=1e-3).upper
    assert answer["method"] in run.methods
    assert answer["theorem"] == run.theorem(answer["method"])
    assert out["run"]["order"] == order


def test_passes_and_methods_reach_the_library(shell):
    out = json.loads(shell(
        *BASE, "--noise-scale", 2, "--passes", 3, "--index", 38, "--epsilon", 0.5, "--method", "composition", "--json", warning=HIDDEN
    ))
    expected = RUN.several_passes(3).delta(0.5, 38, method="composition").upper
    assert out["answers"][0]["upper"] == pytest.approx(expected, rel=1e-12)
    out = json.loads(shell(
        *BASE, "--noise-scale", 2, "--index", 20, "--epsilon", 0.5, "--method", "rdp", "--conversion", "mironov", "--json",
        warning=HIDDEN,
    ))
    assert out["answers"][0]["upper"] == RUN.delta(0.5, 20, method="rdp", conversion="mironov").upper


def test_without_noise_the_least_is_found(shell):
    out = json.loads(shell(*BASE, "--epsilon", 1, "--delta", 1e-6, "--index", 20, "--json", warning=HIDDEN))
    noise = out["run"]["noise_scale"]
    assert out["adjacency"] == "replace-one"
    said = shell(*BASE, "--epsilon", 1, "--delta", 1e-6, "--index", 20, warning=HIDDEN)
    first = said.splitlines()[0].split("  ", maxsplit=1)
    assert (first[0], float(first[1])) == ("noise scale", noise)
    assert fields(said)["target"] == f"the least that meets {out['target']}"
    assert fields(said)["achieved"].startswith("epsilon ")
    assert "no gradient is clipped" in fields(said)["assumes"]
    assert PNSGD(40, 1, 1, 0, 0.5, 1, "gaussian", noise).epsilon(delta=1e-6, index=20).upper <= 1.0
    assert PNSGD(40, 1, 1, 0, 0.5, 1, "gaussian", 0.999 * noise).epsilon(delta=1e-6, index=20).upper > 1.0


@pytest.mark.parametrize("against", ["epsilon", "index"])
def test_a_plot_is_written(shell, tmp_path, against):
    path = tmp_path / "out.png"
    shell(*BASE, "--noise-scale", 2, "--epsilon", 0.5, "--plot", path, "--against", against, warning="plot written")
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--noise-scale", 2], "Give --epsilon or --delta"),
        (["--epsilon", 1], "Give --noise-scale, or one --epsilon with one --delta"),
        (["--noise-scale", 2, "--epsilon", 1, "--index", 41], "--index must be in [1, 40]; got 41. "),
        (["--noise-scale", 2, "--epsilon", 1, "--strong-convexity", 2], "--strong-convexity must be in"),
        (["--noise-scale", 2, "--epsilon", 1, "--passes", 0], "--passes must be a whole number"),
        (["--noise-scale", 2, "--epsilon", 1, "--passes", 2, "--order", "random-stopping"], "nothing is proved"),
        (["--noise-scale", 2, "--epsilon", 1, "--noise", "laplace", "--method", "rdp"], "--method must be one of"),
        (["--noise-scale", 2, "--delta", 1e-5, "--plot", "x.png", "--against", "index"], "one --epsilon"),
        (["--noise-scale", -2, "--epsilon", 1], "--noise-scale must be"),
        (["--noise-scale", 2, "--epsilon", 1, "--step-size", 3, "--method", "rdp"], "--step-size <= 2/(--smoothness + --strong-convexity)"),
    ],
)
def test_refusals_speak_of_options(shell, arguments, message):
    assert message in shell(*BASE, *arguments, code=64)
