"""``dpaccount curve``: tables, CSV and plots."""

from __future__ import annotations

import csv
import io
import json

import pytest
from commandline import SAMPLED, canonical

from dpaccount.curves.profile import PrivacyProfile


def test_curve_csv_is_the_profile(shell):
    rows = list(csv.DictReader(io.StringIO(shell("curve", *SAMPLED, "--at", "0.5,1,2", "--csv"))))
    assert [float(row["epsilon"]) for row in rows] == [0.5, 1, 2]
    assert [float(row["delta"]) for row in rows] == canonical().delta(epsilon=[0.5, 1, 2]).upper.tolist()


def test_a_curve_ends_where_little_is_left(shell):
    rows = json.loads(shell("curve", *SAMPLED, "--json"))["answers"]
    assert rows[0]["epsilon"] == 0
    assert rows[-1]["delta"] < 1e-10 < rows[-2]["delta"]


def test_curve_kinds_print_their_safe_side(shell):
    out = shell("curve", *SAMPLED, "--kind", "trade-off", "--at", "0.1")
    assert "false negative rate (lower bound)" in out
    shown = float(out.splitlines()[1].split()[1])
    true = canonical().trade_off(0.1).lower
    assert true * (1 - 1e-8) <= shown <= true
    data = json.loads(shell("curve", *SAMPLED, "--kind", "renyi", "--at", "2,3", "--json"))
    assert [a["order"] for a in data["answers"]] == [2, 3]
    assert "divergence (upper bound)" in shell("curve", *SAMPLED, "--kind", "renyi")


@pytest.mark.parametrize("kind", ["delta", "trade-off", "renyi"])
def test_curves_are_drawn_to_a_file(shell, tmp_path, kind, monkeypatch):
    path = tmp_path / "curve.png"
    shell("curve", "--noise-multiplier", 2, "--kind", kind, "--plot", path, warning="plot written")
    figures = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, *_, **__: figures.append(figure))
    shell("curve", "--noise-multiplier", 2, "--kind", kind, "--adjacency", "replace-one", "--plot", path, warning="plot written")
    title = figures[0].axes[0].get_title(loc="left")
    assert "Gaussian, noise multiplier 2" in title
    assert "adjacency replace-one" in title
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
