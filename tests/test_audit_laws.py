"""Audits as laws: monotone, symmetric, finite at the ends, right often enough, refused where input is bad."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

from benchmarks import coverage, power
from dpaccount import Gaussian, GaussianDP, Laplace, PoissonSampled, PrivacyProfile, RandomizedResponse, citations
from dpaccount.auditing import audit_counts, audit_one_run, audit_samples, shuffle_lower_bound
from dpaccount.auditing.divergences import hockey_stick_at_least, labelled
from dpaccount.auditing.events import logistic
from dpaccount.auditing.intervals import rate_upper
from dpaccount.auditing.one_run import tail_excess
from dpaccount.auditing.selection import ranked_outside, ranks
from dpaccount.auditing.stated import stated_claim
from dpaccount.auditing.thinning import thinned_p_value

COUNT_METHODS = ("cp", "bayes", "gdp")
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


# monotone, symmetric, finite


@pytest.mark.parametrize("method", COUNT_METHODS)
def test_bounds_from_counts_rise_with_hits_and_alpha_and_fall_with_false_alarms_and_delta(method):
    def bound(tp=70, fp=20, delta=1e-5, alpha=0.05):
        return audit_counts(tp, 100, fp, 100, delta, alpha, method).lower

    assert bound(60) < bound() < bound(80)
    assert bound(fp=30) < bound() < bound(fp=10)
    assert bound(delta=0.01) < bound() <= bound(delta=1e-9)
    assert bound(alpha=0.01) < bound() < bound(alpha=0.2)


@pytest.mark.parametrize("method", ["steinke", "fdp", "order"])
def test_bounds_from_one_run_rise_with_right_guesses_and_alpha_and_fall_with_delta(method):
    def bound(v=85, delta=1e-5, alpha=0.05):
        return audit_one_run(200, 100, v, delta, alpha, method).lower

    assert bound(75) < bound() < bound(95)
    assert bound(delta=1e-3) < bound() <= bound(delta=1e-8)
    assert bound(alpha=0.01) < bound() < bound(alpha=0.2)


@pytest.mark.parametrize("counts", [(70, 100, 20, 150), (100, 100, 0, 50), (3, 40, 1, 50)])
@pytest.mark.parametrize("method", COUNT_METHODS)
def test_exchanging_in_and_out_changes_nothing(counts, method):
    tp, p, fp, n = counts
    one, other = audit_counts(tp, p, fp, n, 1e-5, method=method), audit_counts(n - fp, n, p - tp, p, 1e-5, method=method)
    assert one.lower == pytest.approx(other.lower, rel=1e-9)
    assert one.upper == pytest.approx(other.upper, rel=1e-9)


@pytest.mark.parametrize("counts", [(0, 10, 0, 10), (10, 10, 0, 10), (0, 10, 10, 10), (1, 1, 0, 1), (0, 1, 1, 1), (10**9, 10**9, 0, 10**9),
                                    (6 * 10**8, 10**9, 5 * 10**8, 10**9)])
@pytest.mark.parametrize("method", COUNT_METHODS)
def test_ends_are_finite_and_ordered(counts, method):
    for alpha in (0.05, 1e-10):
        found = audit_counts(*counts, 1e-5, alpha, method)
        assert 0.0 <= found.lower < math.inf
        assert found.lower <= found.upper
        assert audit_counts(*counts, 1.0, alpha, method).lower == 0.0


@pytest.mark.parametrize("guesses", [(1, 0, 0), (1, 1, 0), (1, 1, 1), (10, 0, 0), (10, 7, 0), (10, 10, 10), (10**6, 10**6, 10**6)])
@pytest.mark.parametrize("method", ["steinke", "fdp", "order"])
def test_one_run_at_its_ends(guesses, method):
    found = audit_one_run(*guesses, 1e-5, method=method)
    assert 0.0 <= found.lower < math.inf
    assert audit_one_run(*guesses, 1.0, method=method).lower == 0.0
    assert found.upper is None


def test_the_three_one_run_bounds_assume_more_and_say_so():
    found = [audit_one_run(1000, 100, 90, 1e-5, method=m) for m in ("steinke", "fdp", "order")]
    assert found[0].lower < found[1].lower < found[2].lower < 4.37718
    assert [f.kind for f in found] == ["confidence", "model-based", "model-based"]
    assert "any" in found[0].method
    assert "GDP" in found[1].assumptions[-1]
    assert "exchangeable" in found[2].assumptions[-1]


def test_more_rules_cost_confidence():
    one, ten = (audit_counts(90, 100, 10, 100, 1e-5, rules=k) for k in (1, 10))
    assert ten.lower == audit_counts(90, 100, 10, 100, 1e-5, alpha=0.005).lower < one.lower
    assert "10 rules" in ten.selection
    assert ten.level == 0.05


# scores


def scores(shift=1.0, size=500, seed=3):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, size), rng.normal(shift, 1, size)


def test_a_stated_threshold_is_the_counts_it_makes():
    x0, x1 = scores()
    found = audit_samples(x0, x1, delta=1e-5, threshold=0.7)
    counts = int((x1 >= 0.7).sum()), 500, int((x0 >= 0.7).sum()), 500
    assert found.lower == audit_counts(*counts, 1e-5).lower
    assert found.threshold == 0.7
    assert "stated beforehand" in found.selection


@pytest.mark.parametrize("selection", ["split", "bonferroni", "hull"])
def test_a_seed_repeats_an_audit(selection):
    x0, x1 = scores()
    first, second = (audit_samples(x0, x1, delta=1e-5, selection=selection, rng=7) for _ in range(2))
    assert first == second
    assert selection.split("/")[0] in first.selection.lower() or selection == "hull"


def test_stated_ranks_have_their_exact_law():
    """The k-th largest score without the record has a false-positive rate below its limit in 1 - a of all samples."""
    k = ranks(100)
    assert k.tolist() == [1, 2, 4, 8, 16, 32, 69, 85, 93, 97, 99, 100]
    rng, misses = np.random.default_rng(0), np.zeros(k.size)
    limits = np.array([rate_upper(i - 1, 100, 0.05) for i in k.tolist()])
    for _ in range(2000):
        x0 = rng.random(100)
        table = ranked_outside(x0, x0)
        assert table.fp.tolist() == (k - 1).tolist()
        misses += (1 - table.threshold) > limits
    assert misses / 2000 == pytest.approx(0.05, abs=3.5 * math.sqrt(0.05 * 0.95 / 2000))


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ({"eps": 0.5}, "refuted"), ({"eps": 9.0}, "undecided"), ({"mu": 0.3}, "refuted"), ({"mu": 1.0}, "undecided"),
        ({"claim": Gaussian(4.0)}, "refuted"), ({"claim": PrivacyProfile(Gaussian(1.0))}, "undecided"),
        ({"claim": {"epsilon": 0.2, "delta": 1e-5}}, "refuted"), ({"claim": Laplace(10.0)}, "refuted"), ({}, None),
    ],
)
def test_claims_are_refuted_or_left_undecided_never_held(claim, verdict):
    x0, x1 = scores(1.0, 4000)
    found = audit_samples(x0, x1, delta=1e-5, threshold=1.0, **claim)
    assert found.verdict == verdict
    assert found.kind == "confidence"


def test_a_curve_is_refuted_at_the_rates_themselves():
    """mu = .75 allows (4.0, 1e-5), which these scores do not refute; its curve does not allow their rates."""
    x0, x1 = scores(1.0, 4000)
    found = audit_samples(x0, x1, mu=0.75, delta=1e-5, threshold=0.5)
    assert found.lower < float(PrivacyProfile(Gaussian(1 / 0.75)).epsilon(delta=1e-5))
    assert found.verdict == "refuted"


def test_divergences_are_below_the_truth_and_can_refute():
    x0, x1 = scores(1.0, 4000)
    tv = audit_samples(x0, x1, method="total-variation", threshold=0.5, mu=0.5)
    assert tv.lower < 0.38292492 < tv.upper
    assert tv.verdict == "refuted"
    stick = audit_samples(x0, x1, eps=1.0, delta=1e-3, method="hockey-stick", threshold=1.5, rng=0)
    assert 0.0 < stick.lower < 0.12693674
    assert stick.verdict == "refuted"
    renyi = audit_samples(x0, x1, mu=0.5, method="renyi", order=2.0, threshold=1.5)
    assert 0.25 < renyi.lower < 1.0
    assert renyi.verdict == "refuted"


def test_labels_have_the_odds_of_epsilon_and_missing_ones_are_wrong():
    rng = np.random.default_rng(5)
    x0, x1 = np.zeros(3000), np.ones(3000)
    y0, y1, labels = labelled(x0, x1, 1.0, rng)
    assert y0.size + y1.size <= labels
    assert y1.size / labels == pytest.approx(1 / (1 + math.e), abs=0.04)

    class Unlucky:
        """More labels "in" than there are scores."""

        permutation = staticmethod(rng.permutation)

        def binomial(self, total, share):
            return total

    y0, y1, labels = labelled(x0, x1, 0.0, Unlucky())
    assert (y0.size, y1.size) == (0, 3000)
    assert labels > 3000
    all_there = hockey_stick_at_least(3000, 3000, 0.0, 0.05)
    assert hockey_stick_at_least(y1.size, labels, 0.0, 0.05) < all_there - (labels - 3000) / labels  # each missing one is an error


def test_an_epsilon_beyond_every_float_is_no_overflow():
    for epsilon in (709.0, 710.0, 1e6):
        assert hockey_stick_at_least(9000, 10000, epsilon, 0.05) == 0.0
        x0, x1 = scores(1.0, 100)
        assert audit_samples(x0, x1, eps=epsilon, delta=1e-3, method="hockey-stick", threshold=1.0, rng=0).lower == 0.0


@pytest.mark.parametrize(
    ("options", "kind", "reason"),
    [
        ({"method": "gdp", "threshold": 1.0}, "model-based", "if the model holds"),
        ({"method": "fdp", "threshold": 1.0}, "model-based", "if the model holds"),
        ({"method": "curve", "threshold": 1.0, "family": Gaussian}, "model-based", "if the model holds"),
        ({"method": "bayes", "threshold": 1.0}, "credible", "no frequency"),
        ({"method": "cp", "selection": "hull"}, "unproved", "no theorem"),
        ({"method": "gdp", "selection": "hull"}, "unproved", "no theorem"),
        ({"method": "steinke", "threshold": 1.0}, "unproved", "no theorem"),
        ({"method": "steinke", "selection": "hull"}, "unproved", "no theorem"),
        ({"method": "steinke", "selection": "bonferroni"}, "confidence", ""),
        ({"method": "cp", "selection": "bonferroni"}, "confidence", ""),
    ],
)
def test_only_proved_confidence_bounds_refute(options, kind, reason):
    x0, x1 = scores(2.0, 4000)
    found = audit_samples(x0, x1, eps=0.2, delta=1e-5, **options)
    assert found.lower > 0.2
    assert found.kind == kind
    assert found.verdict == ("refuted" if kind == "confidence" else "undecided")
    assert reason in found.reason
    assert found.reason in str(found)
    assert bool(found.reason) == bool(reason)
    if options.get("method") in ("gdp", "bayes", "curve"):
        assert audit_samples(x0, x1, mu=0.2, delta=1e-5, **options).verdict == "undecided"  # nor by the curve


def test_the_number_of_guesses_is_stated_or_the_bound_is_unproved_at_a_delta():
    x0, x1 = scores(2.0, 400)
    drawn = audit_samples(x0, x1, delta=1e-5, method="steinke", threshold=1.0)
    assert any("number of guesses" in text for text in drawn.assumptions)
    pure = audit_samples(x0, x1, delta=0.0, method="steinke", threshold=1.0)  # given the guesses, pure DP needs no more
    assert any("r was stated" in text for text in audit_one_run(100, 20, 18, 1e-5).assumptions)
    assert not any("r was stated" in text for text in audit_one_run(100, 20, 18, 0.0).assumptions)
    tied = audit_samples(x0.round(), x1.round(), delta=1e-5, method="steinke", selection="bonferroni")  # ranks within ties
    assert tied.kind == "unproved"
    assert (pure.kind, any("number of guesses" in text for text in pure.assumptions)) == ("confidence", False)


def test_events_are_searched_by_a_classifier_on_one_half():
    rng = np.random.default_rng(0)
    x0, x1 = rng.normal(0, 1, (1500, 3)), rng.normal([0.8, 0.8, 0], 1, (1500, 3))
    found = audit_samples(x0, x1, eps=0.3, delta=1e-5, selection="split", rng=1)
    assert found.verdict == "refuted"
    assert "classifier" in found.selection
    wide = audit_samples(rng.normal(0, 1, 3000), rng.normal(0, 2, 3000), delta=1e-5, selection="split", classifier="logistic", rng=1)
    assert wide.lower > 0.5  # no threshold on the outputs themselves tells the two spreads apart so well
    own = audit_samples(x0, x1, delta=1e-5, selection="split", classifier=lambda a, b: lambda x: x.sum(axis=1), rng=1)
    assert own.lower > 0.0
    assert logistic(x0, x1)(x1).mean() > logistic(x0, x1)(x0).mean()


def test_thinning_gives_one_where_nothing_is_seen():
    assert thinned_p_value(0, 0, 100, 1.0) == 1.0
    assert thinned_p_value(50, 50, 100, 0.0) == 1.0
    assert thinned_p_value(100, 0, 100, 0.0) < 1e-20


# the result


def test_a_result_says_what_it_is():
    found = audit_counts(95, 100, 1, 100, 1e-5)
    text = str(found)
    for word in ("epsilon at delta = 1e-05", "at least", "confidence bound", "alpha = 0.05", "Clopper-Pearson", "fixed", "assumes"):
        assert word in text
    assert float(found) == found.lower
    assert found.confidence == pytest.approx(0.95)
    assert "<table>" in found._repr_html_()
    assert "clopper1934" in citations(found)
    assert "chua2024" in citations(shuffle_lower_bound(1.0, 10, 1, 1e-5))


def test_shuffling_never_beats_its_own_upper_end_and_grows_with_epochs():
    bounds = [shuffle_lower_bound(2.0, 50, epochs, 1e-5) for epochs in (1, 2, 5)]
    assert bounds[0].lower < bounds[1].lower < bounds[2].lower
    assert all(b.lower <= b.upper for b in bounds)
    assert shuffle_lower_bound(2.0, 50, 2, 1e-5, adjacency="replace-one").lower > bounds[1].lower
    assert shuffle_lower_bound(2.0, 50, 2, 1.0).lower == 0.0


# bad input


BAD = [
    (lambda: audit_counts(-1, 10, 0, 10, 1e-5), ("tp", ">= 0", "-1")),
    (lambda: audit_counts(11, 10, 0, 10, 1e-5), ("tp = 11", "p = 10")),
    (lambda: audit_counts(1, 10, 12, 10, 1e-5), ("fp = 12", "n = 10")),
    (lambda: audit_counts(1.5, 10, 0, 10, 1e-5), ("tp", "whole", "1.5")),
    (lambda: audit_counts(1, 10, 0, 10, 1e-5, alpha=0.0), ("alpha", "in (0, 1)", "0.0")),
    (lambda: audit_counts(1, 10, 0, 10, 1e-5, alpha=95), ("alpha", "in (0, 1)", "95", "not the confidence")),
    (lambda: audit_counts(1, 10, 0, 10, -0.1), ("delta", "in [0, 1]")),
    (lambda: audit_counts(1, 10, 0, 10, 1e-5, method="bootstrap"), ("method", "'cp'", "bootstrap")),
    (lambda: audit_counts(1, 10, 0, 10, 1e-5, method="curve"), ("family", "callable")),
    (lambda: audit_counts(1, 10, 0, 10, 1e-5, family=Gaussian), ("method", "'curve'")),
    (lambda: audit_counts(1, 10, 0, 10, 1e-5, rules=0), ("rules", ">= 1")),
    (lambda: audit_one_run(10, 11, 3, 1e-5), ("r = 11", "m = 10")),
    (lambda: audit_one_run(10, 5, 6, 1e-5), ("v = 6", "r = 5")),
    (lambda: audit_one_run(10, 5, -1, 1e-5), ("v", ">= 0", "-1")),
    (lambda: audit_one_run(10, 5, 4, 1e-5, family=Laplace), ("method", "'fdp' or 'order'")),
    (lambda: audit_one_run(10, 5, 4, 1e-5, method="fdp", family=3), ("family", "callable")),
    (lambda: audit_one_run(10, 5, 4, 1e-5, method="order", family=lambda s: 2 * Gaussian(s)), ("family", "single steps")),
    (lambda: audit_one_run(10, 5, 4, 1e-5, method="fdp", family=Gaussian, adjacency="as-written"), ("adjacency", "both directions")),
    (lambda: audit_one_run(10, 5, 4, 1e-5, method="fdp", family=lambda s: Gaussian(1.0)), ("family", "differs")),
    (lambda: audit_samples([0.0], [1.0], delta=1e-5), ("selection", "threshold", "40 %")),
    (lambda: audit_samples([0.0], [1.0], delta=1e-5, selection="best"), ("selection", "'split'", "best")),
    (lambda: audit_samples([0.0], [1.0], delta=1e-5, selection="fixed"), ("threshold", "fixed")),
    (lambda: audit_samples([0.0], [1.0], delta=1e-5, selection="split", threshold=0.5), ("threshold", "split")),
    (lambda: audit_samples([0.0], [1.0], delta=1e-5, selection="split"), ("x0", "two")),
    (lambda: audit_samples([], [1.0], delta=1e-5, threshold=0.5), ("x0", "at least one")),
    (lambda: audit_samples([math.nan], [1.0], delta=1e-5, threshold=0.5), ("x0", "nan")),
    (lambda: audit_samples([0.0], [1.0], threshold=0.5), ("delta", "never guessed")),
    (lambda: audit_samples([0.0], [1.0], delta=1e-5, eps=1.0, mu=1.0, threshold=0.5), ("mu", "eps")),
    (lambda: audit_samples([0.0], [1.0], delta=1e-3, claim={"epsilon": 1, "delta": 1e-5}, threshold=0.5), ("delta", "claim")),
    (lambda: audit_samples([0.0], [1.0], delta=1e-5, claim={"epsilon": 1}, threshold=0.5), ("claim", "delta is missing")),
    (lambda: audit_samples([[0.0, 1.0]], [[1.0, 2.0]], delta=1e-5, threshold=0.5), ("selection", "split", "classifier")),
    (lambda: audit_samples([[0.0, 1.0]], [[1.0]], delta=1e-5, selection="split"), ("x1", "width")),
    (lambda: audit_samples([0.0], [1.0], method="renyi", threshold=0.5), ("order", "renyi")),
    (lambda: audit_samples([0.0], [1.0], method="hockey-stick", threshold=0.5), ("eps", "hockey-stick")),
    (lambda: audit_samples([0.0], [1.0], eps=1.0, method="hockey-stick", selection="hull"), ("selection", "hockey-stick", "hull")),
    (lambda: audit_samples([0.0], [1.0], eps=1.0, method="total-variation", threshold=0.5), ("delta", "claimed", "guessed")),
    (lambda: audit_samples([0.0], [1.0], eps=1.0, method="renyi", order=2.0, threshold=0.5), ("delta", "claimed", "guessed")),
    (lambda: shuffle_lower_bound(0.0, 10, 1, 1e-5), ("sigma", "noise")),
    (lambda: shuffle_lower_bound(1.0, 0, 1, 1e-5), ("T", ">= 1", "0")),
    (lambda: shuffle_lower_bound(1.0, 10, 1.5, 1e-5), ("epochs", "whole")),
    (lambda: shuffle_lower_bound(1.0, 10, 1, 1e-5, adjacency="add-or-remove"), ("adjacency", "zero-out")),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input_is_refused_in_words(call, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_an_unset_threshold_rule_is_refused():
    with pytest.raises(TypeError, match="false alarms"):
        audit_samples([0.0, 1.0], [1.0, 2.0], delta=1e-5)


def test_randomised_response_is_audited_at_its_truth():
    truth = PrivacyProfile(RandomizedResponse(1.0), "replace-one").epsilon(delta=0.0)
    share = math.e / (1 + math.e)
    n = 10**9
    found = audit_counts(round(n * share), n, round(n * (1 - share)), n, 0.0)
    assert found.lower < float(truth) < found.upper
    assert found.upper - found.lower < 1e-3


@pytest.mark.parametrize("relation", ["add-or-remove", "replace-one", "zero-out"])
@pytest.mark.parametrize("claim", [Gaussian(1.0), GaussianDP(1.5), 3 * Gaussian(2.0)], ids=["gaussian", "gdp", "three"])
def test_rates_that_a_claim_attains_never_refute_it_whatever_its_relation(claim, relation):
    """Error rates on the claimed trade-off function itself, and a hair inside it, at a million runs."""
    profile, runs = PrivacyProfile(claim, relation), 10**6
    for fpr in (0.01, 0.1, 0.3):
        fnr = float(profile.trade_off(fpr).upper)
        counts = round(runs * (1 - fnr)), runs, round(runs * fpr), runs
        stated = stated_claim("test", None, None, profile, 1e-5)
        assert stated.judged(audit_counts(*counts, 1e-5)).verdict == "undecided"
        worse = round(runs * (1 - fnr * 0.9)), runs, round(runs * fpr * 0.9), runs
        assert stated.judged(audit_counts(*worse, 1e-5)).verdict == "refuted"
