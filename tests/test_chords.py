"""Two steps between chords and means: against 30 digits, against the other engines, and what refuses."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from helpers import HAS_BALLS, ONE_STEP, overlap

from dpaccount import PrivacyProfile, calibrate, select
from dpaccount.engines import auto, chords, closed, recursion
from dpaccount.engines.vouch import CannotVouch
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.results import NumericalFailure
from dpaccount.sampling.poisson import PoissonSampled


class Law:
    """Q-atoms and Q-density of a loss on [-r, r], and the curve, all at 30 digits; of a sampled step the remove direction."""

    def __init__(self, r, kind, q=1):
        self.r, self.kind, self.q = mp.mpf(r), kind, mp.mpf(q)

    def atoms(self):
        return [(self.r, mp.exp(-self.r) / 2), (-self.r, mp.mpf(1) / 2)] if self.kind == "laplace" else []

    def density(self, x):
        return mp.exp(-(x + self.r) / 2) / 4 if self.kind == "laplace" else mp.exp(-x / 2) / (4 * mp.sinh(self.r / 2))

    def plain(self, u):
        if u >= self.r:
            return mp.mpf(0)
        if u <= -self.r:
            return 1 - mp.exp(u)
        gap = -mp.expm1((u - self.r) / 2)
        return gap if self.kind == "laplace" else gap**2 / -mp.expm1(-self.r)

    def loss(self, x):
        return mp.log(1 - self.q + self.q * mp.exp(x))

    def curve(self, u):
        level = mp.exp(u) - 1 + self.q
        return self.q * self.plain(mp.log(level / self.q)) if level > 0 else 1 - mp.exp(u)

    def two(self, epsilon):
        """E_P of the curve at epsilon - L, an integral over the loss before sampling, cut where the curve bends."""
        epsilon = mp.mpf(epsilon)

        def part(x):
            own = self.loss(x)
            return mp.exp(own) * self.curve(epsilon - own)

        cuts = [-self.r, self.r]
        for end in (self.r, -self.r):
            level = mp.exp(epsilon - self.loss(end)) - 1 + self.q
            if level > 0 and -self.r < mp.log(level / self.q) < self.r:
                cuts.append(mp.log(level / self.q))
        return sum(w * part(x) for x, w in self.atoms()) + mp.quad(lambda x: self.density(x) * part(x), sorted(cuts))


CASES = [
    (2 * Laplace(1.0), Law(1, "laplace"), (0.0, 0.3, 1.5, 1.999, 1.999996, 1.999999999)),
    (2 * Laplace(0.25), Law(4, "laplace"), (0.5, 7.0, 7.99)),
    (2 * ExponentialMechanism(1.5), Law(1.5, "exponential"), (0.0, 1.1, 2.9, 2.9997)),
    (2 * PoissonSampled(Laplace(1.0), 0.25), Law(1, "laplace", 0.25), (0.0, 0.2, 0.6, 0.7)),
    (2 * PoissonSampled(Laplace(0.5), 2.0**-10), Law(2, "laplace", 2.0**-10), (0.0, 0.002, 0.0124)),
    (2 * PoissonSampled(ExponentialMechanism(1.0), 0.125), Law(1, "exponential", 0.125), (0.0, 0.1, 0.38)),
]


@pytest.mark.parametrize(("pair", "law", "epsilons"), CASES)
def test_brackets_hold_thirty_digits(pair, law, epsilons):
    for epsilon in epsilons:
        found = auto.log_delta(pair, epsilon)
        with mp.workdps(30):
            truth = float(mp.log(law.two(epsilon)))
        assert found.certified
        assert found.lower - 1e-15 <= truth <= found.upper + 1e-15, (epsilon, truth, found)
        assert found.upper - found.lower < (1e-6 if found.upper > -12.0 else 1e-4)


def test_the_estimate_is_of_a_higher_order():
    """Twice from below and once from above where masses and curve are smooth."""
    pair, law = 2 * ExponentialMechanism(1.5), Law(1.5, "exponential")
    found = chords.log_delta(pair, 1.1, aim=1e-4)
    with mp.workdps(30):
        truth = float(mp.log(law.two(1.1)))
    assert abs(found.estimate - truth) < 0.05 * (found.upper - found.lower)


def draw(index):
    rng = np.random.default_rng([611, index])
    names = [name for name, step in ONE_STEP.items() if step.facts.log_p_only < 0.0]
    one, other = (ONE_STEP[names[int(i)]] for i in rng.integers(0, len(names), 2))
    pair = one + (one if rng.random() < 0.4 else other)
    low, high = pair.loss_range
    low, high = max(low, -3.0), min(high, 6.0)
    return pair, float(low + (high - low) * rng.uniform(0.05, 0.95))


def answer_or_reason(pair, epsilon):
    try:
        return chords.log_delta(pair, epsilon)
    except CannotVouch as refused:
        return str(refused)


@pytest.mark.parametrize("index", range(36))
def test_chords_meet_the_recursion_and_what_answers_otherwise(index):
    pair, epsilon = draw(index)
    if sum(count for _, count in pair.terms) != 2:
        pytest.skip("a step that reveals nothing")
    found = answer_or_reason(pair, epsilon)
    if isinstance(found, str):
        assert "too close" in found or auto.log_delta(pair, epsilon).upper < -600.0
        return
    assert found.certified
    assert not np.isnan([found.lower, found.estimate, found.upper, found.log_tail]).any()
    others = [recursion.log_delta(pair, epsilon)]
    for method in ("smoothed", "closed") if index % 3 == 0 else ("closed",):
        try:
            others.append(auto.log_delta(pair, epsilon, method))
        except NumericalFailure:
            continue
    for other in others:
        assert not other.certified or overlap(found, other), (pair, epsilon, found, other)


@pytest.mark.skipif(not HAS_BALLS, reason="python-flint is absent")
@pytest.mark.parametrize("pair", [2 * Laplace(0.8), 2 * ExponentialMechanism(1.2), Laplace(2.0) + RandomizedResponse(0.3, 5)])
def test_chords_hold_ball_arithmetic(pair):
    top = pair.loss_range[1]
    for part in (0.1, 0.55, 0.98):
        try:
            exact = auto.log_delta(pair, part * top, "balls")
        except NumericalFailure:
            continue
        found = chords.log_delta(pair, part * top)
        assert found.lower <= exact.lower + 1e-13
        assert exact.upper <= found.upper + 1e-13


@pytest.mark.parametrize("fault", ["mass", "mean", "curve"])
def test_a_planted_fault_is_caught(monkeypatch, fault):
    """Bounds off by a part in ten thousand miss the truth of the cases above."""
    if fault == "curve":
        real = chords._curve
        monkeypatch.setattr(chords, "_curve", lambda *a: real(*a)._replace(lower=real(*a).lower * 1.0001, upper=real(*a).upper * 1.0001))
    else:
        real_cells = chords.cells
        name = "p" if fault == "mass" else "q"
        monkeypatch.setattr(
            chords, "cells", lambda *a: real_cells(*a)._replace(**{name: getattr(real_cells(*a), name) * 1.0001})
        )
    missed = 0
    for pair, law, epsilons in CASES[:4]:
        found = chords.log_delta(pair, epsilons[1])
        with mp.workdps(30):
            truth = float(mp.log(law.two(epsilons[1])))
        missed += not found.lower <= truth <= found.upper
    assert missed == 4


@pytest.mark.parametrize("steps", [2, 3, 5])
@pytest.mark.parametrize("gap", [1e-4, 1e-7, 1e-10])
def test_beside_the_largest_loss(steps, gap):
    """With an atom at the top: of all at the top, (1 - e^-g) 2^-n, the rest is at most n g/2 of it."""
    pair = steps * Laplace(1.0)
    found = closed.beside_top(pair, steps - gap)
    exact = steps - (steps - gap)
    value = np.log(-np.expm1(-exact)) - steps * np.log(2.0)
    assert found is not None
    assert found.certified
    assert found.lower <= value + steps * gap
    assert value - 1e-12 <= found.upper
    assert found.upper - found.lower < 2 * steps * gap + 1e-13 * steps**2 / gap
    assert closed.beside_top(pair, 0.9 * steps) is None
    assert closed.beside_top(pair, float(steps)) is None


@pytest.mark.parametrize("gap", [1e-3, 1e-5])
def test_the_estimate_beside_the_largest_loss_is_of_second_order(gap):
    found = closed.beside_top(2 * Laplace(1.0), 2.0 - gap)
    assert found is not None
    with mp.workdps(30):
        truth = float(mp.log(Law(1, "laplace").two(2.0 - gap)))
    assert found.lower <= truth <= found.upper
    assert abs(found.estimate - truth) < 0.02 * (found.upper - found.lower)


def test_who_is_asked():
    assert select(2 * PoissonSampled(Laplace(1.0), 0.1)).engine == "chords"
    assert select(Laplace(1.0) + RandomizedResponse(0.3, 5)).engine == "chords"
    assert select(PoissonSampled(Gaussian(1.0), 0.1) + Gaussian(2.0)).engine == "line"
    for pair in (3 * Laplace(1.0), Laplace(1.0), Laplace(1.0) + Laplace(2.0) + Laplace(3.0)):
        with pytest.raises(NumericalFailure, match="two steps"):
            auto.log_delta(pair, 0.5, "chords")
    with pytest.raises(NumericalFailure, match="underflows"):
        auto.log_delta(2 * PoissonSampled(Gaussian(0.9), 0.05), 60.0, "chords")


def test_a_goal_stops_the_cutting():
    pair = 2 * ExponentialMechanism(1.0)
    full, loose = chords.log_delta(pair, 1.0), chords.log_delta(pair, 1.0, goal=-1.0)
    assert loose.upper < -1.0
    assert overlap(full, loose)
    assert loose.upper - loose.lower > 10 * (full.upper - full.lower)


@pytest.mark.parametrize("epsilon", [-0.7, 0.14, 0.9])
def test_a_step_with_one_loss_alone_leaves_no_cell(epsilon):
    """Nothing can be cut: its masses at infinity and the other's curve say it all."""
    for pair in (ApproximateDP(0.0, 0.2) + Laplace(1.0), PoissonSampled(Gaussian(0.0), 0.1) + PoissonSampled(Laplace(0.9), 0.1)):
        found = auto.log_delta(pair, epsilon, "chords")
        assert found.upper - found.lower < 1e-9
        assert overlap(found, recursion.log_delta(pair, epsilon))


def test_an_infinite_loss_counts():
    pair = ApproximateDP(0.5, 1e-3) + PoissonSampled(Laplace(1.0), 0.2)
    found = auto.log_delta(pair, 0.9, "chords")
    assert found.lower <= np.log(1e-3) + 1e-12
    assert overlap(found, auto.log_delta(pair, 0.9, "recursion"))
    assert overlap(chords.log_delta(pair, 0.2), auto.log_delta(pair, 0.2, "smoothed"))


def test_calibration_over_a_mechanism_of_two_steps():
    """The parameter that 30 digits of the curve call feasible, and beyond which they do not."""
    found = calibrate(lambda e: 2 * ExponentialMechanism(e), epsilon=1.0, delta=1e-5)
    with mp.workdps(30):
        assert Law(found.value, "exponential").two(1) <= 1e-5
        assert Law(found.value * (1 + 1e-7), "exponential").two(1) > 1e-5


def test_a_trade_off_value_whose_first_tangent_lies_at_0():
    """More than half of Q has a loss above 0: the search does not stop there."""
    profile = PrivacyProfile(3 * PoissonSampled(Laplace(1.0), 0.2))
    found = profile.trade_off(0.01)
    assert found.width < 1e-6
    line = max(float(1.0 - profile.delta(epsilon=e).upper - np.exp(e) * 0.01) for e in (0.5, 0.76, 0.8))
    assert line <= found.upper
    assert found.lower >= line - 1e-4
