"""Audits of scores: rules, claims, divergences, classifiers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpaccount import Gaussian, Laplace, PrivacyProfile
from dpaccount.auditing import audit_counts, audit_one_run, audit_samples
from dpaccount.auditing.divergences import hockey_stick_at_least, labelled
from dpaccount.auditing.events import logistic
from dpaccount.auditing.intervals import rate_upper
from dpaccount.auditing.selection import ranked_outside, ranks
from dpaccount.auditing.thinning import thinned_p_value

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
        ({"epsilon": 0.5}, "refuted"), ({"epsilon": 9.0}, "undecided"), ({"mu": 0.3}, "refuted"), ({"mu": 1.0}, "undecided"),
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
    stick = audit_samples(x0, x1, epsilon=1.0, delta=1e-3, method="hockey-stick", threshold=1.5, rng=0)
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
        assert audit_samples(x0, x1, epsilon=epsilon, delta=1e-3, method="hockey-stick", threshold=1.0, rng=0).lower == 0.0


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
    found = audit_samples(x0, x1, epsilon=0.2, delta=1e-5, **options)
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
    found = audit_samples(x0, x1, epsilon=0.3, delta=1e-5, selection="split", rng=1)
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


# notes


@pytest.mark.parametrize("options", [{"threshold": 0.5}, {"selection": "split", "rng": 0}, {"selection": "bonferroni"}])
def test_samples_that_were_exchanged_are_remarked_on_and_change_no_bound(options):
    x0, x1 = scores(2.0)
    told = {"delta": 1e-5, **options}
    assert audit_samples(x0, x1, **told).notes == ()
    swapped = audit_samples(x1, x0, **told)
    assert swapped.lower == 0.0
    assert swapped.notes == ("scores are larger without the record: were x0 and x1 exchanged?",)
    assert "note" in str(swapped)


def test_samples_of_one_law_and_ties_are_no_exchange():
    rng = np.random.default_rng(2)
    for _ in range(200):  # each remarked on with probability 3e-5
        assert audit_samples(rng.normal(size=60), rng.normal(size=60), delta=1e-5, threshold=0.5).notes == ()
    assert audit_samples(np.zeros(50), np.zeros(50), delta=1e-5, threshold=0.5).notes == ()


def test_too_few_runs_say_what_a_perfect_attack_would_have_shown():
    x0, x1 = np.zeros(20), np.ones(20)
    found = audit_samples(x0, x1, delta=1e-5, threshold=0.5, epsilon=3.0)
    best = audit_counts(20, 20, 0, 20, 1e-5).lower
    [note] = found.notes
    assert found.verdict == "undecided"
    assert best <= float(note.split("epsilon = ")[1].split(":")[0]) <= best + 1e-3
    assert audit_samples(x0, x1, delta=1e-5, threshold=0.5, epsilon=best - 0.1).notes == ()
    assert audit_samples(x1, x0, delta=1e-5, threshold=0.5, epsilon=best - 0.1).notes[0].startswith("scores are larger")
