"""``dpaccount statement``."""

from __future__ import annotations

import json

import pytest
from commandline import fields

from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.sampling.poisson import PoissonSampled


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
