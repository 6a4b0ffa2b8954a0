"""Games: the bound of their counts by each rule, white boxes, and looks that may stop early."""

from __future__ import annotations

import itertools
import math
import time
from functools import partial
from itertools import islice

import numpy as np
import pytest
from games import CANARY, DELTA, TRUTH, game, one_gaussian, slow

from dpaccount import Gaussian
from dpaccount.auditing import GaussianRatio, audit_counts
from dpaccount.auditing.game import looks
from dpaccount.auditing.game.budget import Clock
from dpaccount.auditing.game.protocol import Chunk, Game

# what is found


def test_a_game_is_the_bound_of_its_counts():
    found = game(threshold=1.5)
    tp, p, fp, n = found.details["counts"]
    plain = audit_counts(tp, p, fp, n, DELTA)
    assert (p, n) == (4000, 4000)
    assert (found.lower, found.upper, found.kind, found.level) == (plain.lower, plain.upper, "confidence", 0.05)
    assert 1.0 < found.lower < TRUTH
    assert found.verdict is None
    assert (found.details["looks"], found.details["share"], found.details["ended"], found.details["seed"]) == (1, 1.0, "runs", 0)
    assert "stated beforehand" in found.selection
    assert any("independent" in text for text in found.assumptions)


@pytest.mark.parametrize(
    ("options", "words", "least"),
    [
        ({}, "split: chosen on the first 1000 runs", 1.0), ({"pilot": 300}, "split: chosen on the first 500 runs", 0.8),
        ({"threshold": [1.0, 1.5, 2.0]}, "the best of 3 thresholds", 1.2), ({"selection": "bonferroni"}, "stated ranks", 1.2),
        ({"method": "gdp"}, "split", 3.3), ({"method": "curve", "family": Gaussian}, "split", 3.3),
    ],
)
def test_every_rule_and_statistic_finds_a_leak_and_not_too_much(options, words, least):
    found = game(**options)
    assert words in found.selection
    assert least < found.lower < TRUTH
    assert found.kind == ("confidence" if options.get("method", "cp") == "cp" else "model-based")


def test_scores_of_the_pilot_are_not_counted():
    found = game(pilot=1000)
    assert found.details["counts"][1] == 3000
    assert found.details["runs"] == 4000


def test_runs_that_are_no_multiple_of_a_chunk_are_all_played():
    found = game(threshold=1.5, runs=1010)
    assert found.details["counts"][1] == 1010
    assert game(threshold=1.5, runs=3).details["counts"][1] == 3


def test_one_run_at_a_time_and_in_batches_find_alike():
    single = game(one_gaussian, batch=False, threshold=1.5, runs=2000, chunk=100)
    batch = game(threshold=1.5, runs=2000)
    assert abs(single.lower - batch.lower) < 0.5
    assert single.details["counts"] != batch.details["counts"]


def test_a_classifier_is_trained_on_the_pilot_alone():
    def two(mean, rng, size):
        return rng.normal(0.0, 1.0, (size, 2)) + mean * np.array([0.6, -0.8])

    found = game(two, classifier="logistic", mu=0.3, runs=6000)
    assert found.verdict == "refuted"
    assert "bichsel2021dp" in dict(found.works)

    def one(mean, rng):
        return two(mean, rng, 1)[0]

    assert game(one, classifier="logistic", mu=0.2, batch=False, runs=3000, chunk=100).verdict == "refuted"


# white-box


STEPS, NOISE = 4, 2.0  # mu = sqrt(4)/2 = 1


def steps(mean, rng):
    for _ in range(STEPS):
        yield np.array([0.3, mean]) + rng.normal(0.0, NOISE, 2)


def step_batch(mean, rng, size):
    return np.array([0.3, mean]) + rng.normal(0.0, NOISE, (STEPS, size, 2))


RATIO = GaussianRatio((0.0, 1.0), NOISE)


@pytest.mark.parametrize("options", [{"mechanism": steps, "batch": False, "chunk": 100}, {"mechanism": step_batch}])
def test_steps_are_told_apart_by_the_sum_of_their_log_likelihood_ratios(options):
    """The sum has the law of mu = 1: N(-1/2, 1) without the record and N(1/2, 1) with it."""
    mechanism = options.pop("mechanism")
    played = Game(mechanism, CANARY, 3, options.get("batch", True), step_score=RATIO)(Chunk(0, 2000))
    for scores, mean in ((played.without, -0.5), (played.within, 0.5)):
        assert scores.mean() == pytest.approx(mean, abs=4 / math.sqrt(2000))
        assert scores.std() == pytest.approx(1.0, abs=4 / math.sqrt(4000))
    assert game(mechanism, mu=0.4, step_score=RATIO, runs=2000, **options).verdict == "refuted"
    assert game(mechanism, mu=1.0, step_score=RATIO, runs=1000, **options).verdict == "undecided"


def test_scores_of_steps_are_combined_as_the_user_says():
    by_max = Game(step_batch, CANARY, 3, True, step_score=RATIO, combine=partial(np.max, axis=0))(Chunk(0, 500))
    all_steps = RATIO(step_batch(0.0, np.random.default_rng(np.random.SeedSequence(3, spawn_key=(0, 0))), 500))
    assert all_steps.shape == (STEPS, 500)
    assert (by_max.without == all_steps.max(axis=0)).all()
    last = Game(steps, CANARY, 3, step_score=RATIO, combine=lambda s: s[-1])(Chunk(0, 50))
    assert last.without.std() < 0.8  # one step of four


def test_the_gaussian_ratio_is_the_ratio_of_the_densities():
    x = np.array([[0.3, -1.0], [2.0, 5.0]])
    shift, noise = np.array([0.5, 2.0]), 1.5
    want = (np.sum(x**2, axis=1) - np.sum((x - shift) ** 2, axis=1)) / (2 * noise**2)
    assert GaussianRatio(shift, noise)(x) == pytest.approx(want, rel=1e-14)
    assert GaussianRatio(2.0, noise)(3.0) == pytest.approx((9.0 - 1.0) / (2 * noise**2))


# looks


def test_looks_spend_no_more_than_alpha_and_grow():
    for runs, chunk, several in itertools.product((1, 7, 1000, 99_999), (1, 20, 1000), (False, True)):
        stated = list(looks.planned(runs, chunk, several))
        assert sum(look.share for look in stated) == pytest.approx(1.0)
        assert stated[-1].runs == runs
        assert all(a.runs < b.runs and a.runs % chunk == 0 for a, b in itertools.pairwise(stated))
    ongoing = list(islice(looks.open_ended(20), 40))
    assert 0.97 < sum(look.share for look in ongoing) < 1.0
    assert all(a.runs < b.runs <= 2 * a.runs for a, b in itertools.pairwise(ongoing))


def test_each_look_uses_its_share_of_alpha():
    found = game(mu=0.4, threshold=0.5, runs=20_000)
    tp, p, fp, n = found.details["counts"]
    share = found.details["share"]
    assert share < 0.1
    assert found.lower == audit_counts(tp, p, fp, n, DELTA, 0.05 * share).lower
    assert (found.details["ended"], found.verdict) == ("settled", "refuted")
    assert p == n == found.details["runs"] < 20_000
    patient = game(mu=0.4, threshold=0.5, runs=20_000, stop=False)
    assert (patient.details["looks"], patient.details["counts"][1], patient.verdict) == (1, 20_000, "refuted")


# Coins that say in with probability 1 with the record and 1/2 without are (0, 1/2)-DP and no less, in both directions at once: no
# other truth leaves each look so full a chance to be wrong.
COINS = {"mechanism": lambda p, rng, size: (rng.random(size) < p).astype(float), "pair": (0.5, 1.0), "threshold": 0.5, "delta": 0.5}
RUNS, SIZE, GAMES = 6400, 400, 200
LIMIT = 0.05 + 3 * math.sqrt(0.05 * 0.95 / GAMES)


@pytest.mark.parametrize("rule", ["planned", "open-ended"])
def test_a_true_claim_is_seldom_refuted_however_often_one_looks(rule, monkeypatch):
    """Nominal rate at most 5 %, so at most 9.6 % of 200 games but once in a thousand sets of seeds."""
    monkeypatch.setattr(Clock, "together", lambda clock, missing, hands: missing if clock.played < RUNS // SIZE else 0)
    budget = {"runs": RUNS} if rule == "planned" else {"runs": None, "seconds": 60.0}
    alarms = sum(game(epsilon=0.0, chunk=SIZE, seed=seed, **COINS, **budget).verdict == "refuted" for seed in range(GAMES))
    assert 0 < alarms / GAMES <= LIMIT


def test_all_of_alpha_at_every_look_would_refute_true_claims():
    """What the shares are for."""
    alarms = 0
    for seed in range(GAMES):
        said = np.cumsum(np.random.default_rng(seed).random(RUNS) < 0.5)
        alarms += any(audit_counts(n, n, int(said[n - 1]), n, 0.5).lower > 0.0
                      for n in range(SIZE, RUNS + 1, SIZE))
    assert alarms / GAMES > LIMIT


def test_a_game_ends_when_its_claim_can_no_longer_be_refuted():
    found = game(pair=(0.0, 0.0), epsilon=5.0, threshold=0.0, runs=40_000, chunk=500)
    assert found.details["ended"] == "hopeless"
    assert found.details["runs"] < 40_000
    assert found.verdict == "undecided"
    assert "no outcome" in found.reason
    tp, p, fp, _ = found.details["counts"]
    left = 40_000 - p
    assert audit_counts(tp + left, 40_000, fp, 40_000, DELTA, 0.025).lower <= 5.0


def test_models_do_not_settle_a_verdict_and_cost_no_looks():
    found = game(method="gdp", mu=0.4)
    assert (found.verdict, found.details["looks"], found.details["share"]) == ("undecided", 1, 1.0)
    assert "if the model holds" in found.reason


def test_time_is_a_budget():
    start = time.monotonic()
    found = game(partial(slow, 0.01), runs=None, seconds=1.0, threshold=1.5)
    assert time.monotonic() - start < 30.0
    assert found.details["ended"] == "seconds"
    assert 0 < found.lower < TRUTH
    assert found.details["looks"] >= 1
    assert "k-th time" in found.selection
    tiny = game(partial(slow, 0.3), runs=None, seconds=0.2, pilot=500)
    assert (tiny.lower, tiny.details["looks"], tiny.reason) == (0.0, 0, "the budget ended before the first look")
    both = game(runs=500, seconds=60.0, threshold=1.5)
    assert (both.details["ended"], both.details["runs"]) == ("runs", 500)


def test_a_mechanism_that_ignores_its_generator_is_told_so():
    own = np.random.default_rng(5)
    ignoring = {True: lambda mean, rng, size: own.normal(mean, 1.0, size), False: lambda mean, rng: own.normal(mean, 1.0)}
    for batch, mechanism in ignoring.items():
        options = {"batch": batch, "runs": 40, "chunk": 10, "threshold": 0.5}
        [note] = game(mechanism, **options).notes
        assert "reproducible=False" in note
        assert game(mechanism, reproducible=False, **options).notes == ()
    assert game(runs=40, chunk=10, threshold=0.5).notes == ()
    assert game(one_gaussian, batch=False, runs=40, chunk=10, threshold=0.5).notes == ()
