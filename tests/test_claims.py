"""Claims on paper: the worked one, and the numbers of each reading."""

from __future__ import annotations

import math

import pytest
from worked_claim import FLOOR, TIGHT, WORKED

from dpaccount.auditing import check_claim
from dpaccount.auditing.readings import collision, random_stopping, reading, renyi_figures
from dpaccount.auditing.runs import Run


def test_the_worked_claim_holds_under_poisson_and_add_or_remove():
    verdict = check_claim(WORKED)
    assert verdict.verdict == "holds"
    assert verdict.upper == pytest.approx(2.3816897261, **TIGHT)  # 14063 steps: a started one is paid
    assert not verdict.found
    assert check_claim({**WORKED, "steps": 14062}).upper == pytest.approx(2.3815969214, **TIGHT)


@pytest.mark.parametrize("adjacency", ["add-or-remove", "zero-out"])
def test_the_worked_claim_is_refuted_when_shuffled(adjacency):
    verdict = check_claim({**WORKED, "sampler": "shuffled", "adjacency": adjacency})
    assert verdict.verdict == "refuted"
    assert 10.859 < verdict.lower < 10.8593  # 96 records are in no full batch of an epoch; 10.87 if none were
    assert verdict.findings[0].status == "found"
    assert verdict.findings[0].effect == "refutes"
    assert "2.979" in verdict.findings[0].text
    assert "2.38" in verdict.findings[0].text
    assert any("Poisson" in text for text in verdict.changes)
    assert any("no noise multiplier below 1.5" in text for text in verdict.changes)


def test_the_published_figure_is_that_of_whole_batches():
    whole = check_claim({**WORKED, "sampler": "shuffled", "dataset_size": 59904})
    assert 10.869 <= whole.lower <= 10.881
    assert "2.98078" in whole.findings[0].text


def test_one_shuffled_epoch_already_refutes_it():
    verdict = check_claim({**WORKED, "sampler": "shuffled", "epochs": 1, "dataset_size": 59904})
    assert verdict.verdict == "refuted"
    assert verdict.lower == pytest.approx(2.98078354, abs=1e-7)


LESS = {"noise_multiplier": 1.1, "dataset_size": 59904, "batch_size": 256, "sampler": "shuffled", "delta": 1e-5}


@pytest.mark.parametrize("part", [{"steps": 1}, {"epochs": 0.3}, {"steps": 233}, {"epochs": 0.99}])
@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one", "add-or-remove"])
def test_less_than_one_shuffled_epoch_is_not_refuted_by_a_whole_one(part, adjacency):
    verdict = check_claim({**LESS, **part, "adjacency": adjacency, "epsilon": 2.0})
    assert (verdict.verdict, verdict.lower) == ("undecided", 0.0)
    if adjacency == "zero-out":
        assert check_claim({**LESS, **part, "adjacency": adjacency, "epsilon": 3.93}).verdict == "holds"
        assert check_claim({**LESS, "steps": 234, "adjacency": adjacency, "epsilon": 2.0}).verdict == "refuted"


def test_a_started_epoch_without_a_batch_is_no_second_pass():
    """1.001 epochs of ten batches in ten steps: each record is seen once."""
    once = {"noise_multiplier": 1.1, "dataset_size": 1000, "batch_size": 100, "sampler": "fixed-order", "delta": 1e-5,
            "adjacency": "zero-out", "steps": 10, "epsilon": 4.5}
    assert check_claim(once).verdict == "holds"
    verdict = check_claim({**once, "epochs": 1.001})
    assert verdict.verdict == "undecided"
    assert verdict.lower == pytest.approx(3.92125025, abs=1e-7)
    assert check_claim({**once, "steps": 11}).verdict == "refuted"


@pytest.mark.parametrize("sampler", ["poisson", "shuffled", "fixed-order"])
def test_a_final_model_alone_is_not_refuted_by_updates_that_nobody_sees(sampler):
    small = {**WORKED, "sampler": sampler, "epsilon": 1.0, "adjacency": "zero-out", "epochs": 2}
    if sampler == "poisson":
        small["epsilon"] = 0.3
    seen, unsaid, hidden = (check_claim({**small, **more}) for more in ({"released": "all-iterates"}, {}, {"released": "final-model"}))
    assert (seen.verdict, unsaid.verdict, hidden.verdict) == ("refuted", "refuted", "undecided")
    assert "released is not stated" in unsaid.reason
    assert "released is not stated" not in seen.reason
    assert hidden.lower == 0.0
    assert not any(found.effect == "refutes" for found in hidden.findings)


def test_full_batches_and_single_steps_show_as_much_in_the_final_model():
    full = {"noise_multiplier": 20.0, "dataset_size": 500, "steps": 100, "epsilon": 1.9, "delta": 1e-5, "sampler": "full-batch",
            "adjacency": "add-or-remove", "released": "final-model"}
    assert check_claim(full).verdict == "refuted"
    credited = check_claim({**full, "analysis": "last-iterate", "convex": True})  # projection may hide the sum
    assert (credited.verdict, credited.lower) == ("undecided", 0.0)
    assert check_claim({**WORKED, "epochs": None, "steps": 1, "epsilon": 0.04, "released": "final-model"}).verdict == "refuted"


def test_replace_one_refutes_it_too():
    verdict = check_claim({**WORKED, "steps": 14062, "adjacency": "replace-one"})
    assert verdict.verdict == "refuted"
    assert verdict.lower == pytest.approx(4.22129673, **TIGHT)
    assert verdict.lower < verdict.upper < math.inf


def test_shuffled_claims_hold_where_no_amplification_is_needed():
    large = {**WORKED, "sampler": "shuffled", "adjacency": "zero-out", "epsilon": 55.0}
    assert check_claim(large).verdict == "holds"
    between = check_claim({**large, "epsilon": 20.0})
    assert between.verdict == "undecided"
    assert between.lower < 20.0 < between.upper


@pytest.mark.parametrize("name", ["sampler", "adjacency", "delta", "epsilon", "noise_multiplier", "epochs", "dataset_size"])
def test_without_a_fact_that_decides_it_is_undecided_and_asks_for_it(name):
    verdict = check_claim({key: value for key, value in WORKED.items() if key != name})
    assert verdict.verdict == "undecided"
    assert any(name in text for text in verdict.missing)
    assert name in verdict.reason


def test_an_undecided_claim_still_shows_each_reading():
    verdict = check_claim({key: value for key, value in WORKED.items() if key != "sampler"})
    shown = {r.name: r for r in verdict.readings}
    assert shown["poisson, add-or-remove"].upper < 2.9 < shown["shuffled, zero-out"].lower
    assert "within" in str(verdict)
    assert "above" in str(verdict)


def test_epsilon_by_delta_steps_and_unit():
    def epsilon(**changes):
        from dataclasses import replace

        found = reading(replace(FLOOR, **changes), "poisson", "add-or-remove")
        assert found.upper - found.lower < 1e-8
        return found.upper

    assert epsilon(steps=60) == pytest.approx(0.1810141, **TIGHT)
    assert epsilon(delta=1e-4) == pytest.approx(2.0286925876, **TIGHT)
    assert epsilon(delta=1 / 60000) == pytest.approx(2.3070475175, **TIGHT)
    assert epsilon(delta=1e-6) == pytest.approx(2.6966594024, **TIGHT)
    assert epsilon(steps=1) == pytest.approx(0.0483416671, **TIGHT)
    assert epsilon(steps=234) == pytest.approx(0.306475, abs=5e-7)
    assert 60 * epsilon(steps=234) == pytest.approx(18.4, abs=0.05)
    assert epsilon(sigma=0.55) == pytest.approx(14.717756, abs=5e-7)
    assert epsilon(rate=256 / 50000, steps=11718) == pytest.approx(2.6440938310, **TIGHT)


def test_renyi_conversions_of_the_worked_claim():
    classic, improved = renyi_figures(FLOOR, "add-or-remove")
    assert classic == pytest.approx(3.00827209, **TIGHT)
    assert improved == pytest.approx(2.59655587, **TIGHT)
    other, _ = renyi_figures(Run(1.12, FLOOR.rate, FLOOR.steps, 1e-5), "add-or-remove")
    assert other == pytest.approx(2.92223866, **TIGHT)  # the tutorial figure that goes with a rounded 1.1


def test_best_of_a_geometric_number_of_runs():
    assert random_stopping(FLOOR, "add-or-remove", 10.0) == pytest.approx(5.05, abs=5e-3)


def test_collisions_of_few_seeds():
    assert collision(40, 8) == pytest.approx(0.95992164, abs=5e-9)
    assert collision(3, 0) == 1.0


# what would prove an upper end


SHORT = {"noise_multiplier": 6.0, "epochs": 1, "epsilon": 0.6}
CONSTANTS = {"batch_count": "public", "normaliser": "public"}


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ({"sampler": "shuffled"}, "state batch_count = public and normaliser = public: then an upper end is proved"),
        ({"sampler": "shuffled", "batch_count": "public"}, "state normaliser = public: then an upper end is proved"),
        ({"sampler": "shuffled", "normaliser": "realised-batch"}, "make batch_count = public and normaliser = public (now realised-batch)"),
        ({"sampler": "fixed-order", **CONSTANTS}, "state order = random (drawn uniformly, and secret): then an upper end"),
        ({"sampler": "fixed-order", "order": "stored"}, "state batch_count = public and normaliser = public: then an upper end"),
    ],
)
def test_the_facts_that_would_prove_an_upper_end_are_named_with_what_they_prove(said, asked):
    claim = {**WORKED, **SHORT, **said}
    [text] = [text for text in check_claim(claim).changes if asked in text]
    order = {"order": "random"} if said.get("sampler") == "fixed-order" and "order" not in said else {}
    proved = check_claim({**claim, **CONSTANTS, **order})
    assert float(text.rsplit("<= ", 1)[1]) == pytest.approx(proved.upper, rel=1e-6)
    assert not any("upper end is proved" in other for other in proved.changes)


def test_an_order_that_is_not_said_is_proved_under_zero_out_only():
    once = {**WORKED, **SHORT, "sampler": "once-per-epoch", **CONSTANTS}
    [text] = [text for text in check_claim(once).changes if "no setting of once-per-epoch batches" in text]
    assert float(text.rsplit("<= ", 1)[1]) == pytest.approx(check_claim({**once, "adjacency": "zero-out"}).upper, rel=1e-6)


def test_batches_are_compared_with_an_accountant_only_if_one_is_stated():
    claim = {**WORKED, **SHORT, "sampler": "shuffled"}
    assert check_claim(claim).findings[0].title == "no proof for shuffled batches"
    assert check_claim({**claim, "accountant": "rdp"}).findings[0].title == "batches drawn otherwise than accounted"
    assert check_claim({**WORKED, "sampler": "shuffled"}).findings[0].title == "too small for shuffled batches"


def test_a_run_that_is_not_told_is_asked_for_field_by_field():
    found = check_claim({k: v for k, v in WORKED.items() if k not in ("delta", "sampler", "adjacency")}).findings[4]
    assert found.text == "needs sampler, delta, to recompute epsilon of a step and of an epoch"
    assert found.needs == ("sampler", "delta")
