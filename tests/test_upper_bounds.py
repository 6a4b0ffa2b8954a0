"""A curve that is known from above only, and under one relation: neither is forgotten by whatever is built from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dpaccount import (
    BestOf,
    Bounds,
    CurvePair,
    Gaussian,
    PoissonSampled,
    PrivacyProfile,
    PureDP,
    UnsupportedAdjacency,
    calibrate,
)  # fmt: skip
from dpaccount.iteration import PNSGD, NoisyGD, best_of, pointwise_minimum
from dpaccount.pair import compose
from dpaccount.serial import from_json, to_dict, to_json

EXACT = CurvePair((0.0, 0.5, 1.0, 2.0), (0.3, 0.1, 0.01, 0.0))
BOUND = replace(EXACT, relation="replace-one", upper_bound=True)
RUN = NoisyGD(
    num_records=1000, lipschitz=1.0, smoothness=1.0, strong_convexity=0.0, step_size=0.5, diameter=2.0, steps=4000, noise_scale=0.1
)
PASS = PNSGD(num_records=40, lipschitz=1.0, smoothness=1.0, strong_convexity=0.0, step_size=0.5, diameter=1.0, noise_scale=2.0)
# everything a step can be put into, which must remember
BUILT = {
    "alone": lambda pair: pair,
    "repeated": lambda pair: 3 * pair,
    "beside another": lambda pair: pair + Gaussian(5.0),
    "swapped": lambda pair: pair.reversed(),
    "sampled": lambda pair: PoissonSampled(pair, 0.3),
    "sampled and swapped": lambda pair: 2 * PoissonSampled(pair, 0.3).reversed(),
    "always sampled": lambda pair: PoissonSampled(pair, 1.0),
}


@pytest.mark.parametrize("how", BUILT)
def test_nothing_is_claimed_from_below(how):
    sure, open_ = (PrivacyProfile(BUILT[how](pair), "as-written") for pair in (EXACT, replace(EXACT, upper_bound=True)))
    level = np.array([0.1, 0.4, 0.7])
    for epsilon in (level, level[1], np.linspace(0.0, 0.9, 9)):  # few, one, and many on shared contours
        known, found = sure.delta(epsilon=epsilon), open_.delta(epsilon=epsilon)
        assert_array_equal(found.lower, np.zeros(np.shape(epsilon)))
        assert_allclose(found.upper, known.upper, rtol=1e-9)
        assert "upper bound" in found.method
        assert any("upper bound" in note for note in found.notes)
        assert np.all(np.asarray(open_.log_delta(epsilon=epsilon).lower) == -np.inf)
    assert np.min(sure.delta(epsilon=level[:2]).lower) > 0.0  # or the test would say nothing
    root = open_.epsilon(delta=0.02)
    assert root.lower == 0.0
    assert_allclose(root.upper, sure.epsilon(delta=0.02).upper, rtol=1e-9)
    assert_array_equal(open_.epsilon(delta=np.geomspace(1e-3, 0.02, 8)).lower, np.zeros(8))
    power = open_.trade_off(0.1)
    assert power.upper == pytest.approx(0.9)
    assert 0.0 < power.lower <= sure.trade_off(0.1).lower + 1e-9
    assert open_.renyi(order=2.0).lower == 0.0
    assert open_.advantage().lower == 0.0
    assert open_.delta(epsilon=np.inf).lower == 0.0


def test_what_every_pair_obeys_is_still_known():
    found = PrivacyProfile(BOUND, "replace-one").delta(epsilon=-1.0)
    assert_allclose(found.lower, 1.0 - np.exp(-1.0), rtol=1e-12)
    assert PrivacyProfile(BOUND, "replace-one").trade_off(0.0).lower == 1.0


def test_a_better_option_that_is_exact_keeps_its_bracket():
    both = PrivacyProfile(BestOf(BOUND, PureDP(0.05)), "replace-one").delta(epsilon=0.01)
    alone = PrivacyProfile(PureDP(0.05), "replace-one").delta(epsilon=0.01)
    assert (both.lower, both.upper) == (alone.lower, alone.upper)
    assert both.lower > 0.0


def test_the_relation_is_insisted_on():
    for guarantee in (BOUND, 2 * BOUND + Gaussian(3.0)):
        for adjacency in ("add-or-remove", "zero-out"):
            with pytest.raises(UnsupportedAdjacency, match="hold under 'replace-one' alone"):
                PrivacyProfile(guarantee, adjacency)
        PrivacyProfile(guarantee, "replace-one")
        PrivacyProfile(guarantee, "as-written")
    with pytest.raises(UnsupportedAdjacency, match="alone"):
        PrivacyProfile(PoissonSampled(BOUND, 0.1), "add-or-remove")
    for adjacency in ("add-or-remove", "zero-out", "replace-one"):
        PrivacyProfile(EXACT, adjacency)


@pytest.mark.parametrize("adjacency", ["add-or-remove", "replace-one", "zero-out"])
def test_the_best_of_a_run_is_asked_under_its_own_relation(adjacency):
    run = replace(RUN, adjacency=adjacency)
    pair = best_of(run).pair()
    right = PrivacyProfile(pair, adjacency).epsilon(delta=1e-6)
    assert right.lower == 0.0
    assert_allclose(right.upper, run.epsilon(1e-6).upper, rtol=1e-3)
    for other in {"add-or-remove", "replace-one", "zero-out"} - {adjacency}:
        with pytest.raises(UnsupportedAdjacency, match="alone"):
            PrivacyProfile(pair, other)


def test_the_best_of_a_pass_is_about_replacements():
    pair = best_of(PASS, index=39).pair()
    with pytest.raises(UnsupportedAdjacency, match="'replace-one' alone"):
        PrivacyProfile(pair)
    found = PrivacyProfile(pair, "replace-one").delta(epsilon=1.0)
    assert found.lower == 0.0
    assert_allclose(found.upper, PASS.delta(1.0, 39).upper, rtol=1e-2)
    assert pointwise_minimum({"a": lambda e: -1.0 - e}).pair().relation is None


def test_noise_is_found_from_upper_bounds():
    pair = best_of(RUN).pair()
    exact = replace(pair, upper_bound=False)
    found = calibrate(lambda noise: pair + Gaussian(noise), epsilon=8.0, delta=1e-6, adjacency="zero-out")
    known = calibrate(lambda noise: exact + Gaussian(noise), epsilon=8.0, delta=1e-6, adjacency="zero-out")
    assert found.achieved.upper <= 8.0
    assert found.achieved.lower == 0.0
    assert_allclose(found.value, known.value, rtol=1e-6)


def test_json_keeps_both_and_reads_what_was_written_before():
    for pair in (BOUND, EXACT, replace(EXACT, relation="zero-out"), replace(EXACT, upper_bound=True)):
        assert from_json(to_json(2 * PoissonSampled(pair, 0.5))) == 2 * PoissonSampled(pair, 0.5)
    assert set(to_dict(EXACT)["guarantee"]) == {"kind", "epsilon", "delta", "symmetric"}
    for name, value in (("relation", 1), ("relation", "as-written"), ("upper_bound", "yes")):
        data = to_dict(BOUND)
        data["guarantee"][name] = value
        with pytest.raises((ValueError, TypeError), match=name):
            from_json(data)


def test_the_text_is_short_and_tells_curves_apart():
    assert repr(EXACT) == "CurvePair(epsilon=(0.0, 0.5, 1.0, 2.0), delta=(0.3, 0.1, 0.01, 0.0), symmetric=True)"
    assert repr(BOUND).endswith("symmetric=True, relation='replace-one', upper_bound=True)")
    assert len(repr(best_of(RUN).pair())) < 400
    assert compose([(EXACT, 1), (BOUND, 1)]).terms == ((EXACT, 1), (BOUND, 1))


def test_the_text_of_a_bracket_holds_its_ends_and_its_estimate():
    cases = [(1.8282366665, 1.8282366665, 1.8282366665), (1.91, 1.93, 1.96), (0.8841594, 0.8841595, 0.9), 3 * (-0.0064689,)]
    values, widths = (2 / 3, 1e-200, 7.00000000049, -123456.7891), (0.0, 1e-11, 1e-7, 1e-3, 0.09)
    cases += [(x * (1 - w), x * (1 - w / 3), x) for x in values for w in widths]
    cases = [tuple(sorted(case)) for case in cases]
    for lower, estimate, upper in cases:
        shown, ends = repr(Bounds(lower, estimate, upper, True, "x")).removeprefix("Bounds(").split("]")[0].split(" in [")
        low, high = map(float, ends.split(", "))
        assert low <= lower
        assert upper <= high
        assert low <= float(shown) <= high
        assert high - low <= upper - lower + 2.1e-8 * abs(upper)
    assert repr(Bounds(0.0, 5.5262625, 5.5262625, True, "x")) == "Bounds(at most 5.52627 in [0, 5.52627], certified, x)"
    assert repr(Bounds(0.2, 0.3, 0.9, True, "x", safe="lower")) == "Bounds(at least 0.2 in [0.2, 0.9], certified, x)"
    assert repr(Bounds(-np.inf, -0.00646892, -0.00646892, True, "x")) == "Bounds(at most -0.00646892 in [-inf, -0.00646892], certified, x)"
    assert "<td>0.666666666</td><td>0.666666667</td>" in Bounds(2 / 3, 2 / 3, 2 / 3)._repr_html_()
