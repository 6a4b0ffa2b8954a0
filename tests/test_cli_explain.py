"""``dpaccount explain``, and what others would print."""

from __future__ import annotations

import json
import sys

import pytest
from commandline import SAMPLED, canonical, fields

from dpaccount.cli import explain as explain_module
from dpaccount.cli.explain import _condition
from dpaccount.cli.main import run
from dpaccount.cli.rivals import grid_figure, rdp_figures
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.results import Bounds
from dpaccount.sampling.poisson import PoissonSampled


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
    figures = {f.name: f.value for f in rdp_figures(canonical(), 1e-5)}
    assert figures["RDP, improved, usual orders"] == pytest.approx(2.1014, abs=5e-5)
    assert figures["RDP, improved, real orders"] <= figures["RDP, improved, usual orders"]
    assert figures["RDP, improved, real orders"] < figures["RDP, mironov, real orders"]


def test_a_grid_that_is_too_fine_for_the_losses_is_said():
    figure = grid_figure(PrivacyProfile(Gaussian(1e-3)).directions, 1e-5)
    assert figure.value is None
    assert "grid points" in figure.why


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


@pytest.mark.parametrize(("condition", "said"), [
    (1.0, "1: cancellation costs no digits"), (1.34, "1.34: cancellation costs no digits"),
    (2e5, "2e+05: cancellation costs about 5 of a double's 16 digits"), (1e20, "1e+20: cancellation costs all of a double's 16 digits"),
])
def test_what_cancellation_costs(condition, said):
    assert _condition(Bounds(1.0, 1.0, 1.0, method="line", condition=condition)) == [("condition", said)]


def test_verification_without_the_extra_is_refused_in_the_words_of_the_command_before_anything_is_computed(shell, monkeypatch):
    def never(*arguments, **named):
        raise AssertionError("computed")

    monkeypatch.setitem(sys.modules, "flint", None)
    monkeypatch.setattr("dpaccount.curves.profile.PrivacyProfile.epsilon", never)
    told = shell("explain", "--noise-multiplier", 1, "--delta", 1e-5, "--verify", code=64)
    assert "`--verify` needs ball arithmetic" in told
    assert "certified_epsilon" not in told
