"""Audits are right often enough: false alarms of every statistic and rule, and members of a family that are rejected."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

from benchmarks import coverage, power
from dpaccount import Gaussian, Laplace, PoissonSampled, PrivacyProfile, RandomizedResponse
from dpaccount.auditing import audit_counts, audit_one_run
from dpaccount.auditing.one_run import tail_excess

RUNS = 200


# right often enough: false alarms at most 5 % and three standard errors (9.6 % of 200), at fixed seeds


def is_simulated(method, rule, name):
    """Every statistic and rule without a leak; the rest where it is quick. The benchmark has all of them, 2000 times."""
    if method in coverage.REJECTION or rule.startswith("uncorrected"):
        return False
    if name in ("gaussian", "no leak"):
        return name == "no leak" or method not in ("gdp", "fdp") or rule in ("fixed", "bonferroni")
    return (method, rule) in (("cp", "fixed"), ("steinke", "bonferroni"), ("hockey-stick", "fixed"))


SIMULATED = [setting for setting in coverage.settings() if is_simulated(*setting)]


@pytest.mark.parametrize(("method", "rule", "name"), SIMULATED)
def test_the_lower_bound_seldom_exceeds_the_truth(method, rule, name):
    row = coverage.simulate(method, rule, name, RUNS)
    assert row["rate"] <= row["limit"]
    if name == "gaussian" and rule == "fixed":
        assert row["mean_lower"] > 0.0  # it finds something


def test_every_statistic_and_rule_is_simulated():
    every = {(m, r) for m, r, _ in coverage.settings() if m not in coverage.REJECTION and not r.startswith("uncorrected")}
    assert {(m, r) for m, r, _ in SIMULATED} == every


def test_the_members_of_a_family_are_rejected_as_seldom():
    """Rejecting the true member is what exceeding its epsilon means; the two are compared on counts below."""
    truth = PrivacyProfile(PoissonSampled(Gaussian(1.0), 0.5))
    function, mechanism, rejected = truth.trade_off(), coverage.MECHANISMS["one sampled step"], 0
    for i in range(RUNS):
        rng = np.random.default_rng([1, i])
        x0, x1 = mechanism.draw(rng, 200, False), mechanism.draw(rng, 200, True)
        found = audit_counts(int((x1 >= 0.28).sum()), 200, int((x0 >= 0.28).sum()), 200, 1e-5)
        rejected += bool(function(found.details["fpr_upper"]).lower > found.details["fnr_upper"])
    assert rejected / RUNS <= coverage.limit(RUNS)


@pytest.mark.parametrize("counts", [(150, 200, 60, 200), (120, 200, 60, 200), (198, 200, 90, 200)])
def test_the_curve_bound_exceeds_a_members_epsilon_just_where_the_member_is_rejected(counts):
    def family(s):
        return PoissonSampled(Gaussian(s), 0.9)

    member = PrivacyProfile(family(1.0))
    found = audit_counts(*counts, 1e-5, method="curve", family=family)
    rejected = float(member.trade_off(found.details["fpr_upper"]).lower) > found.details["fnr_upper"]
    assert (found.lower > float(member.epsilon(delta=1e-5).upper)) == rejected
    assert found.kind == "model-based"
    assert found.lower <= found.upper


def test_the_curve_of_gaussians_is_gaussian_dp():
    counts = (900, 1000, 100, 1000)
    curve = audit_counts(*counts, 1e-5, method="curve", family=Gaussian)
    gdp = audit_counts(*counts, 1e-5, method="gdp")
    assert curve.lower == pytest.approx(gdp.lower, rel=1e-8)
    assert curve.upper == pytest.approx(gdp.upper, rel=1e-8)


def test_a_family_that_no_member_of_fits_gives_the_model_free_bound_and_says_so():
    """A rare sample cannot give so strong an attack, whatever the noise."""
    counts = (600, 1000, 300, 1000)
    found = audit_counts(*counts, 1e-5, method="curve", family=lambda s: PoissonSampled(Gaussian(s), 0.01))
    assert found.lower == audit_counts(*counts, 1e-5).lower
    assert found.kind == "confidence"
    assert "no member" in found.details["family"]


def laplace_trade_off(epsilon):
    """Closed form (Dong, Roth, Su 2019, Lemma A.6)."""
    def f(x):
        if x < math.exp(-epsilon) / 2:
            return 1.0 - math.exp(epsilon) * x
        return math.exp(-epsilon) / (4.0 * x) if x <= 0.5 else math.exp(-epsilon) * (1.0 - x)

    return f


def response_trade_off(epsilon):
    return lambda x: max(1.0 - math.exp(epsilon) * x, math.exp(-epsilon) * (1.0 - x))


@pytest.mark.parametrize(
    ("guesses", "family", "adjacency", "closed"),
    [
        ((1000, 100, 90), lambda s: Laplace(1.0 / s), "add-or-remove", laplace_trade_off),
        ((100, 100, 70), RandomizedResponse, "replace-one", response_trade_off),
    ],
)
def test_one_run_inside_a_family_is_the_recursion_on_its_closed_trade_off_function(guesses, family, adjacency, closed):
    """The bound may only be lower, by the tangents' 1e-3 at most."""
    def excess(epsilon):
        f = closed(epsilon)
        return tail_excess(*guesses, 0.05, lambda x: max(f(1.0 - x), 0.0))

    edge = brentq(excess, 1e-3, 20.0, xtol=1e-12)
    found = audit_one_run(*guesses, 0.0, method="fdp", family=family, adjacency=adjacency)
    assert 0.999 * edge <= found.lower <= edge * (1 + 1e-6)
    assert found.kind == "model-based"
    assert found.details["parameter"] == pytest.approx(found.lower, rel=1e-4)


@pytest.mark.parametrize("guesses", [(1000, 100, 90), (100, 100, 70)])
def test_one_run_inside_the_family_of_gaussians_is_gaussian(guesses):
    for method, close in (("fdp", 1e-3), ("order", 1e-6)):
        family, plain = (audit_one_run(*guesses, 1e-5, method=method, family=f) for f in (Gaussian, None))
        assert (1 - close) * plain.lower <= family.lower <= plain.lower * (1 + 1e-9)


def test_one_run_order_statistics_of_a_coin_are_a_binomial_limit():
    """All canaries of randomised response tell as much, so that ranking them is drawing r of them."""
    found = audit_one_run(1000, 100, 90, 0.0, method="order", family=RandomizedResponse, adjacency="replace-one")
    assert found.lower == pytest.approx(audit_one_run(1000, 100, 90, 0.0).lower, rel=1e-6)


@pytest.mark.parametrize("name", ["laplace", "randomised response", "one sampled step"])
@pytest.mark.parametrize("method", coverage.FAMILY)
def test_one_run_seldom_rejects_the_true_member_of_a_family(method, name):
    row = coverage.simulate(method, "fixed", name, RUNS)
    assert row["rate"] <= row["limit"]
    assert row["rate"] > 0.0 or method == "fdp, family"  # order statistics are exact, and so are wrong as often as they may


def test_a_family_that_no_guesses_fit_gives_the_model_free_bound_of_one_run():
    """Half of all canaries are never sampled: nine in ten right cannot be."""
    found = audit_one_run(1000, 1000, 900, 1e-5, method="order", family=lambda s: PoissonSampled(Gaussian(s), 0.5))
    assert (found.lower, found.kind) == (audit_one_run(1000, 1000, 900, 1e-5).lower, "confidence")
    assert "no member" in found.details["family"]


def test_peers_default_is_a_false_alarm_in_four_of_ten():
    rows = json.loads((Path(coverage.__file__).parent / "coverage.json").read_text(encoding="utf-8"))["rows"]
    assert next(row for row in rows if row["selection"] == "uncorrected looks")["rate"] > 0.0
    peer = next(row for row in rows if row["selection"] == "uncorrected")
    assert 0.35 <= peer["rate"] <= 0.45
    assert not peer["promised"]


def test_committed_coverage_keeps_every_promise():
    """Two thousand simulations of each setting, as `benchmarks/coverage.json` has them."""
    found = json.loads((Path(coverage.__file__).parent / "coverage.json").read_text(encoding="utf-8"))
    assert {(r["statistic"], r["selection"], r["mechanism"]) for r in found["rows"]} == set(coverage.settings())
    for row in found["rows"]:
        assert row["runs"] >= 2000
        if row["promised"]:
            assert row["rate"] <= row["limit"], row


def test_committed_power_keeps_its_promises_and_is_made_by_this_code():
    """The same scores for all; at a nominal 5 % of 200 simulations, at most 9.6 %."""
    found = json.loads(Path(power.__file__).with_name("power.json").read_text(encoding="utf-8"))
    rows = {(row["whose"], row["statistic"]): row for row in found["rows"]}
    assert list(rows) == [row[:2] for row in power.ROWS]
    assert found["simulations"] == RUNS
    for row in found["rows"]:
        if row["promise"] == "confidence":
            assert row["false alarms"] <= coverage.limit(RUNS)
            for name in ("gaussian", "laplace"):
                assert 0.0 < row[f"mean, {name}"] < found["truth"][name][row["quantity"]]
    assert rows["opake-auditing", "one run, best accuracy on the same coins"]["false alarms"] > 0.3
    for few in power.simulate(5, power.ROWS[:2]):
        assert few["mean, gaussian"] == pytest.approx(rows["ours", few["statistic"]]["mean, gaussian"], rel=0.2)
