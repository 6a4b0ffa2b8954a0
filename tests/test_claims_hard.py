"""Claims with hardly any noise, few samples, tiny deltas or very many epochs: answered in about a second, never wrongly."""

from __future__ import annotations

import time

import pytest
from worked_claim import WORKED, changed

from dpaccount import Gaussian, PoissonSampled, PrivacyProfile
from dpaccount.adjacency import Adjacency
from dpaccount.auditing import check_claim
from dpaccount.auditing.rough import bracket
from dpaccount.auditing.shuffled import Largest, counted, many_epochs, one_epoch

RATE = 256 / 60000
ADD, REPLACE = Adjacency.ADD_OR_REMOVE, Adjacency.REPLACE_ONE


@pytest.mark.parametrize(("sigma", "rate", "steps", "delta"), [
    (1.1, RATE, 14063, 1e-5), (1.1, RATE, 1, 1e-5), (0.3, RATE, 1, 1e-5), (2.0, 0.2, 50, 1e-9), (5.0, 1.0, 20, 1e-5),
    (1.1, RATE, 14063, 1e-100),
])
@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_rough_brackets_hold_the_exact_figure(sigma, rate, steps, delta, relation):
    pair = steps * PoissonSampled(Gaussian(sigma), rate)
    low, top = bracket(pair, [(sigma, rate, steps)], delta, relation)
    exact = PrivacyProfile(pair, relation).epsilon(delta=delta)
    assert low <= float(exact.upper)
    assert float(exact.lower) <= top
    if steps == 1:
        assert low == pytest.approx(float(exact.lower), rel=1e-6)  # one output: the event is the best there is


def test_three_samples_of_the_worked_claim():
    low, top = bracket(3 * PoissonSampled(Gaussian(1.1), RATE), [(1.1, RATE, 3)], 1e-5, ADD)
    assert low <= 0.069880059 <= top  # by the smoothed contour, [0.069880059, 0.069880075]
    assert low > 0.067


def test_events_of_many_epochs_are_below_the_lattice_and_above_one_epoch():
    p, q = Largest(2.0, 1.1, 234), Largest(1.0, 1.1, 234)
    one = one_epoch(p, q, 1e-5)[0]
    assert counted(p, q, 1, 1e-5)[0] == pytest.approx(one, abs=1e-4)
    best, cut, least = counted(p, q, 10, 1e-5)
    assert one < best < many_epochs(p, q, 10, 1e-5, one, 20.0)
    assert cut > 0
    assert least >= 1


EXTREMES = [
    {"noise_multiplier": 1e-3}, {"noise_multiplier": 0.02}, {"noise_multiplier": 0.2, "epochs": 0.05}, {"noise_multiplier": 1e6},
    {"epochs": 0.01}, {"epochs": 0.01, "adjacency": "replace-one"}, {"epochs": 1e5}, {"epochs": 1e4, "sampler": "shuffled"},
    {"delta": 1e-300}, {"delta": 0.0}, {"delta": 0.9}, {"sampler": "shuffled", "delta": 0.0},
]


@pytest.mark.parametrize("changes", EXTREMES, ids=str)
def test_extreme_values_are_answered_soon(changes):
    start = time.process_time()
    found = check_claim(changed(**changes))
    assert found.verdict in ("holds", "refuted")
    assert 0.0 <= found.lower <= found.upper
    assert "nan" not in str(found)
    assert time.process_time() - start < 6.0  # one to two seconds on an idle core


def test_a_rough_bracket_that_does_not_decide_gives_way_to_the_exact_figure():
    found = check_claim(changed(epochs=0.01, epsilon=0.1))
    assert found.verdict == "holds"
    assert found.upper == pytest.approx(0.069880075, rel=1e-5)
    quick = check_claim(changed(epochs=0.01))
    assert "rough bracket" in quick.theorem
    assert quick.upper < WORKED["epsilon"]


def test_phases_are_one_composition():
    run = {"phases": [[1.0, 0.01, 500], [2.0, 0.02, 500]], "delta": 1e-6, "epsilon": 1.9, "sampler": "poisson",
           "adjacency": "add-or-remove"}
    found = check_claim(run)
    assert (found.verdict, found.missing) == ("holds", ())
    assert found.upper == pytest.approx(1.8787693888, abs=1e-7)
    assert check_claim({**run, "phases": run["phases"][::-1]}).upper == pytest.approx(found.upper, abs=1e-9)
    split = [[1.0, 0.01, 1]] * 500 + [[2.0, 0.02, 500]]
    assert check_claim({**run, "phases": split}).claim.phases == found.claim.phases
    for sampler in ("shuffled", "fixed-order", "fixed-size"):
        assert check_claim({**run, "sampler": sampler, "adjacency": "replace-one"}).verdict == "undecided"
    equal = check_claim({**run, "phases": [[1.1, RATE, 14062]], "delta": 1e-5, "epsilon": 2.9})
    assert equal.upper == pytest.approx(2.3815969214, abs=1e-7)


@pytest.mark.parametrize(("changes", "words"), [
    ({"steps": 3}, ("phases", "steps = 3")), ({"noise_multiplier": 1.0}, ("noise_multiplier = 1.0",)),
    ({"phases": []}, ("phases", "list")), ({"phases": [[1.0, 0.01]]}, ("phases[0]",)),
    ({"phases": [[1.0, 2.0, 3]]}, ("phases[0]", "(0, 1]")),
    ({"phases": [[1.0, 0.01, 0]]}, ("phases[0]", ">= 1")), ({"epsilon_of": "epoch"}, ("epsilon_of = 'epoch'",)),
])
def test_bad_phases_are_refused(changes, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        check_claim({"phases": [[1.0, 0.01, 500]], **changes})
    for word in words:
        assert word in str(caught.value)
