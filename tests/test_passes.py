"""Batches under add-or-remove: the propositions of docs/auditing.md against all orders of small data sets, and what claims make of them."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr
from worked_claim import WORKED, changed

from dpaccount import Gaussian, PoissonSampled, PrivacyProfile
from dpaccount.adjacency import Adjacency
from dpaccount.auditing import certificate, check_claim, verify_certificate
from dpaccount.auditing.passes import least, least_shuffled_noise, most_sums, moved, several, whole_passes
from dpaccount.auditing.runs import Run
from dpaccount.auditing.shuffled import Largest, one_epoch

GRID = np.linspace(-12.0, 12.0, 481)
AREA = (GRID[1] - GRID[0]) ** 2
EPSILONS = (0.0, 0.5, 1.0, 2.0, 4.0)
PUBLIC = {"batch_count": "public", "normaliser": "public"}


def plain(record, first):
    return record + 0.0 * first


def turned(record, first):
    """A gradient that turns around where the first output is negative."""
    return record * np.where(first > 0.0, 1.0, -1.0)


def density(records, batch, gradient):
    """Of two noisy batch sums over all orders; the second sum depends on the first output."""
    found, first, second = np.zeros((GRID.size, GRID.size)), GRID[:, None], GRID[None, :]
    orders = list(itertools.permutations(range(len(records))))
    halves: dict[tuple[frozenset[int], frozenset[int]], int] = {}
    for order in orders:
        key = frozenset(order[:batch]), frozenset(order[batch: 2 * batch])
        halves[key] = halves.get(key, 0) + 1
    for (one, two), count in halves.items():
        mean = sum((gradient(records[i], first) for i in two), 0.0 * first)
        exponent = (first - sum(records[i] for i in one)) ** 2 + (second - mean) ** 2
        found += count / len(orders) * np.exp(-exponent / 2.0) / (2.0 * math.pi)
    return found


def beyond(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) * AREA


def gaussian(mu, epsilon):
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize(("size", "batch"), [(1, 1), (2, 2), (3, 2), (2, 1), (4, 2), (3, 1)])
def test_a_shuffled_epoch_is_within_the_bound_and_beyond_that_of_zero_out(size, batch):
    """The second batch begins with the record, is full, is short, or leaves some out."""
    rng, more = np.random.default_rng(size + 10 * batch), 0.0
    for others in ([-1.0] * size, list(rng.choice([-1.0, 0.5, 1.0], size))):
        for gradient in (plain, turned):
            larger, smaller = density([*others, 1.0], batch, gradient), density(others, batch, gradient)
            for p, q in ((larger, smaller), (smaller, larger)):
                for epsilon in EPSILONS:
                    found = beyond(p, q, epsilon)
                    assert found <= gaussian(math.sqrt(5.0), epsilon)
                    more = max(more, found / gaussian(1.0, epsilon))
    assert more > 3.0


def test_the_pair_of_an_epoch_has_the_mu_of_the_proposition():
    for epochs, sigma in ((1, 1.0), (7, 1.3)):
        found = PrivacyProfile(moved(epochs, sigma)).delta(2.0)
        assert float(found) == pytest.approx(gaussian(math.sqrt(5 * epochs) / sigma, 2.0), rel=1e-9)


def test_records_that_alternate_move_every_batch():
    """The sums of a stored order with and without its first record."""
    batch, batches, passes = 3, 5, 2
    run = Run(1.0, 1 / batches, passes * batches, 1e-5, passes, batch * batches, batch, public=True, order="stored")
    records = [(-1.0) ** (i // batch) for i in range(batch * batches)]
    sums = [np.array([sum(r[k * batch: (k + 1) * batch]) for k in range(batches)]) for r in (records, records[1:])]
    square = passes * float(((sums[0] - sums[1]) ** 2).sum())
    found = PrivacyProfile(least(run, Adjacency.ADD_OR_REMOVE), "zero-out").delta(3.0)
    assert float(found) == pytest.approx(gaussian(math.sqrt(square), 3.0), rel=1e-9)


@pytest.mark.parametrize("others", [(-1.0, -1.0, -1.0), (-1.0, 1.0, 0.5), (0.0, 0.0, 0.0)])
def test_a_sample_of_fixed_size_is_a_poisson_sample_of_shift_two(others):
    """Two of four records, and of the three without the fourth, by all samples."""
    fine = np.linspace(-14.0, 14.0, 20001)

    def law(records):
        samples = list(itertools.combinations(records, 2))
        return sum(np.exp(-((fine - sum(sample)) ** 2) / 2.0) for sample in samples) / len(samples) / math.sqrt(2.0 * math.pi)

    p, q = law([*others, 1.0]), law(others)
    profile = PrivacyProfile(PoissonSampled(Gaussian(0.5), 0.5))
    for epsilon in EPSILONS:
        found = max(float(np.maximum(a - math.exp(epsilon) * b, 0.0).sum() * (fine[1] - fine[0])) for a, b in ((p, q), (q, p)))
        bound = float(profile.delta(epsilon))
        assert found <= bound * (1.0 + 1e-6)
        if others == (-1.0, -1.0, -1.0):
            assert found == pytest.approx(bound, rel=1e-5)


# claims


def test_shuffled_batches_hold_where_the_constants_are_public():
    bound = PrivacyProfile(60 * Gaussian(1.1 / math.sqrt(5.0))).epsilon(delta=1e-5)
    claim = changed(sampler="shuffled", epsilon=191.0, **PUBLIC)
    verdict = check_claim(claim)
    assert verdict.verdict == "holds"
    assert verdict.upper == pytest.approx(float(bound), rel=1e-9)
    assert "Proposition 1" in verdict.theorem
    assert any("nor its seed is released" in text for text in verdict.assumptions)
    assert any(r.name == "shuffled, add-or-remove" for r in verdict.readings)
    assert check_claim({**claim, "epsilon": 190.0}).verdict == "undecided"
    assert check_claim({**claim, "epsilon": 5.0}).verdict == "refuted"


@pytest.mark.parametrize("left", [("batch_count",), ("normaliser",), ("batch_count", "normaliser")])
def test_what_is_missing_for_it_is_asked_for(left):
    claim = {k: v for k, v in changed(sampler="shuffled", epsilon=191.0, **PUBLIC).items() if k not in left}
    verdict = check_claim(claim)
    assert (verdict.verdict, verdict.missing) == ("undecided", left)
    assert all(name in verdict.reason for name in left)
    assert "190.2374" in verdict.reason
    assert verdict.findings[0].needs == left
    assert check_claim({**claim, "epsilon": 100.0}).missing == ()  # stating them would not decide


@pytest.mark.parametrize("changes", [{"batch_count": "from-data"}, {"normaliser": "realised-batch"}, {"normaliser": "dataset-size"}])
def test_private_constants_prove_nothing(changes):
    verdict = check_claim(changed(sampler="shuffled", epsilon=500.0, **{**PUBLIC, **changes}))
    assert (verdict.verdict, verdict.upper) == ("undecided", math.inf)
    if "batch_count" in changes:
        assert "the last batch has 96" in verdict.reason


def test_a_fixed_order_costs_what_moves():
    claim = changed(sampler="fixed-order", epsilon=191.0, **PUBLIC)
    assert check_claim(claim).missing == ("order",)
    random, stored = (check_claim({**claim, "order": order}) for order in ("random", "stored"))
    assert random.verdict == "holds"
    assert 54.0 < random.lower < 54.0459
    assert stored.verdict == "refuted"
    assert stored.lower < stored.upper < 1.03 * stored.lower
    for order in ("random", "stored", None):
        same = check_claim(changed(sampler="fixed-order", epsilon=55.0, adjacency="zero-out", order=order))
        assert (same.verdict, round(same.upper, 5)) == ("holds", 54.04582)


def test_an_order_that_is_not_said_lies_between_both():
    claim = changed(sampler="once-per-epoch", adjacency="zero-out", dataset_size=1280, epochs=3)
    found = check_claim({**claim, "epsilon": 8.0})
    assert found.verdict == "holds"
    assert found.lower == pytest.approx(check_claim({**claim, "sampler": "shuffled"}).lower, rel=1e-9)
    assert found.upper == pytest.approx(check_claim({**claim, "sampler": "fixed-order"}).upper, rel=1e-9)
    between = check_claim({**claim, "epsilon": (found.lower + found.upper) / 2})
    assert (between.verdict, between.missing) == ("undecided", ("sampler",))
    assert check_claim({**claim, "epsilon": 1.0}).verdict == "refuted"
    assert check_claim({**claim, "adjacency": "add-or-remove", "epsilon": 100.0, **PUBLIC}).missing == ("sampler",)


def test_samples_of_fixed_size_are_exact_under_add_or_remove():
    found = check_claim(changed(sampler="fixed-size", steps=14062, epsilon=14.8, normaliser="realised-batch"))
    assert found.verdict == "holds"
    assert found.findings[9].status == "checked"  # the size of a batch is a constant
    assert found.upper == pytest.approx(14.717756, abs=5e-7)
    assert found.upper - found.lower < 1e-8
    assert check_claim(changed(sampler="fixed-size")).verdict == "refuted"
    assert check_claim(changed(sampler="fixed-size", adjacency="zero-out")).verdict == "undecided"


def test_contradictions_name_both():
    with pytest.raises(ValueError, match=r"order = 'stored' and sampler = 'shuffled'"):
        check_claim(changed(sampler="shuffled", order="stored"))
    with pytest.raises(ValueError, match=r"order = 'random' and sampler = 'poisson'"):
        check_claim(changed(order="random"))


@pytest.mark.parametrize("share", [0.9984, 0.5])
def test_events_of_a_partial_epoch_keep_their_digits_far_out(share):
    """With probability 1 - share the record is in no full batch: that costs about log(1/share), and the tails are tiny."""
    for sigma in (0.2, 0.1):
        whole, part = (one_epoch(Largest(2.0, sigma, 234, s), Largest(1.0, sigma, 234, s), 1e-5)[0] for s in (1.0, share))
        assert 0.97 * whole < part <= whole


def test_hardly_any_noise_and_a_started_batch_are_not_refuted_beyond_the_truth():
    kept = changed(sampler="shuffled", noise_multiplier=0.14, epochs=1, epsilon=100.0)
    assert check_claim(kept).verdict == "undecided"
    assert check_claim(kept).lower < 56.0  # 600 by rounded tails


@pytest.mark.parametrize(("changes", "sides", "verdict"), [
    ({"sampler": "shuffled", "epsilon": 30.0, "epochs": 2}, {"largest-sums", "last-takes-its-place"}, "holds"),
    ({"sampler": "fixed-order", "order": "random", "epsilon": 191.0}, {"last-takes-its-place"}, "holds"),
    ({"sampler": "fixed-order", "order": "stored", "epsilon": 191.0}, {"records-alternate", "all-move"}, "refuted"),
    ({"sampler": "once-per-epoch", "adjacency": "zero-out", "epsilon": 55.0}, {"each-pass"}, "holds"),
    ({"sampler": "fixed-size", "epsilon": 100.0, "noise_multiplier": 4.0, "dataset_size": 2560, "epochs": 20}, {"takes-a-place"}, "holds"),
])
def test_certificates_of_passes_are_verified(changes, sides, verdict):
    claim = {**WORKED, **PUBLIC, **changes}
    document = certificate(claim, digits=10)
    assert (document["verdict"], {row["theorem"] for row in document["bounds"]}) == (verdict, sides)
    assert verify_certificate(document).verdict == "verified"
    judged = check_claim(claim)
    for row in document["bounds"]:
        if row["side"] == "upper":
            assert float(row["epsilon"]) == pytest.approx(judged.upper, rel=1e-8)
        else:
            assert float(row["epsilon"]) <= judged.lower * (1.0 + 1e-8)


# what steps alone tell of passes

SHORT = {"noise_multiplier": 1.0, "dataset_size": 1000, "batch_size": 501, "steps": 6, "epsilon": 9.0, "delta": 1e-5,
         "released": "all-iterates", **PUBLIC}


@pytest.mark.parametrize("adjacency", ["zero-out", "add-or-remove"])
@pytest.mark.parametrize("order", [{"sampler": "shuffled"}, {"sampler": "once-per-epoch"}, {"sampler": "fixed-order", "order": "random"}])
def test_steps_alone_do_not_refute_what_a_kept_short_batch_makes_true(order, adjacency):
    """Six steps are six passes of one full batch, or three of a full and a short one: these need 8.386 at most under zero-out."""
    truth = float(PrivacyProfile(3 * Gaussian(1.0), "zero-out").epsilon(delta=1e-5).upper)
    claim = {**SHORT, **order, "adjacency": adjacency}
    found = check_claim(claim)
    assert found.verdict == "undecided"
    assert any("n/B batches, rounded down or up" in text and "does not depend on what" in text for text in found.assumptions)
    assert 0.4 * truth < found.lower <= truth
    for end in certificate(claim, digits=6)["bounds"]:
        assert end["side"] == "upper" or float(end["epsilon"]) <= truth
    if adjacency == "zero-out":
        assert check_claim({**{k: v for k, v in claim.items() if k != "steps"}, "epochs": 3}).verdict == "holds"
        assert least_shuffled_noise(found.sheet.run, adjacency, truth) <= 1.0


def test_epochs_that_are_stated_are_whole_passes_and_a_part_of_one_is_none():
    def passes(**told):
        return whole_passes(check_claim({**changed(sampler="shuffled"), "epochs": None, "steps": None, **told}).sheet.run)

    assert [passes(epochs=60), passes(steps=14063), passes(steps=14040, epochs=60), passes(epochs=2.5)] == [60, 59, 60, 2]
    assert [passes(epochs=0.999), passes(steps=234), passes(steps=235)] == [0, 0, 1]
    assert passes(epochs=2.9, dataset_size=59904) == 2
    run = check_claim(changed(sampler="shuffled", dataset_size=59904, epochs=None, steps=351)).sheet.run
    assert (whole_passes(run), whole_passes(replace(run, **several(run, 2)))) == (1, 2)  # each run ends one pass and half of another


def test_a_stored_order_pays_for_the_short_batch_of_every_pass():
    run = check_claim(changed(sampler="fixed-order", order="stored", **PUBLIC)).sheet.run
    assert (run.steps, most_sums(run)) == (14063, 60 * 235)
    stated = check_claim(changed(sampler="fixed-order", order="stored", epochs=None, steps=14063, **PUBLIC)).sheet.run
    assert most_sums(stated) == 14063


def test_a_random_order_of_each_run_is_drawn_anew():
    claim = changed(sampler="fixed-order", order="random", epsilon=10.0, epochs=3, adjacency="zero-out", dataset_size=1280)
    one = check_claim(claim).sheet
    many = one.under(**several(one.run, 50))
    assert many.lower == pytest.approx(one.own.lower, rel=1e-9)  # 150 passes in one order would need far more
    assert many.upper > 5.0 * one.own.upper


def test_nothing_is_asked_for_where_another_error_voids():
    claim = changed(sampler="fixed-order", epsilon=191.0, **PUBLIC)
    assert check_claim(claim).missing == ("order",)
    assert 'with order="random"' in check_claim(claim).reason
    assert check_claim({**claim, "data_dependent": ["scaler"]}).missing == ()


@pytest.mark.parametrize(("delta", "verdict"), [(0.95, "undecided"), (0.85, "refuted")])
def test_without_noise_a_dropped_batch_may_never_show_a_record(delta, verdict):
    """1000 records in batches of 300, of which the last 100 are left out: four steps show one with probability 0.93."""
    fields = {"dataset_size": 1000, "batch_size": 300, "steps": 4, "noise_multiplier": 0.0, "adjacency": "zero-out", "sampler": "shuffled"}
    assert check_claim({**fields, "delta": delta, "epsilon": 1.0}).verdict == verdict
