"""Audits as laws: monotone, symmetric, finite at the ends, refused where input is bad."""

from __future__ import annotations

import math

import pytest

from dpaccount import Gaussian, GaussianDP, Laplace, PrivacyProfile, RandomizedResponse, citations
from dpaccount.auditing import audit_counts, audit_one_run, audit_samples, shuffle_lower_bound
from dpaccount.auditing.stated import stated_claim

COUNT_METHODS = ("cp", "bayes", "gdp")


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
    (lambda: audit_samples([0.0], [1.0], delta=1e-5, epsilon=1.0, mu=1.0, threshold=0.5), ("mu", "epsilon")),
    (lambda: audit_samples([0.0], [1.0], delta=1e-3, claim={"epsilon": 1, "delta": 1e-5}, threshold=0.5), ("delta", "claim")),
    (lambda: audit_samples([0.0], [1.0], delta=1e-5, claim={"epsilon": 1}, threshold=0.5), ("claim", "delta is missing")),
    (lambda: audit_samples([[0.0, 1.0]], [[1.0, 2.0]], delta=1e-5, threshold=0.5), ("selection", "split", "classifier")),
    (lambda: audit_samples([[0.0, 1.0]], [[1.0]], delta=1e-5, selection="split"), ("x1", "width")),
    (lambda: audit_samples([0.0], [1.0], method="renyi", threshold=0.5), ("order", "renyi")),
    (lambda: audit_samples([0.0], [1.0], method="hockey-stick", threshold=0.5), ("epsilon", "hockey-stick")),
    (lambda: audit_samples([0.0], [1.0], epsilon=1.0, method="hockey-stick", selection="hull"), ("selection", "hockey-stick", "hull")),
    (lambda: audit_samples([0.0], [1.0], epsilon=1.0, method="total-variation", threshold=0.5), ("delta", "claimed", "guessed")),
    (lambda: audit_samples([0.0], [1.0], epsilon=1.0, method="renyi", order=2.0, threshold=0.5), ("delta", "claimed", "guessed")),
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
