"""Laws of `calibrate`: the value meets its target by the certified upper bound, and its neighbour does not."""

from __future__ import annotations

import numpy as np
import pytest

from dpaccount import ExponentialMechanism, Gaussian, Laplace, PoissonSampled, PrivacyProfile, Status, calibrate
from dpaccount.calibration import UnreachableTarget

FAMILIES = {
    "noise of a sampled run": lambda s: 1000 * PoissonSampled(Gaussian(s), 0.01),
    "noise of a long run": lambda s: 10**6 * PoissonSampled(Gaussian(s), 1e-4),
    "noise without sampling": lambda s: 10 * Gaussian(s),
    "noise beside what is spent": lambda s: 100 * PoissonSampled(Gaussian(s), 0.05) + Gaussian(300.0),
    "noise of Laplace": lambda s: 50 * Laplace(s),
    "probability": lambda q: 500 * PoissonSampled(Gaussian(1.5), q),
}
TARGETS = {
    "epsilon 2": {"epsilon": 2.0, "delta": 1e-5},
    "epsilon 0.1, far from the start": {"epsilon": 0.1, "delta": 1e-9},
    "epsilon 8": {"epsilon": 8.0, "delta": 1e-6},
    "advantage": {"advantage": 0.1},
    "error rates": {"false_positive_rate": 0.01, "false_negative_rate": 0.9},
}


def missed(pair, target):
    """How far the upper bound, asked anew, lies beyond the target: at most 0 where it is met."""
    profile = PrivacyProfile(pair)
    if "advantage" in target:
        return float(profile.delta(epsilon=0.0).upper) - target["advantage"]
    if "epsilon" in target:
        return float(profile.epsilon(delta=target["delta"]).upper) - target["epsilon"]
    return target["false_negative_rate"] - float(profile.trade_off(target["false_positive_rate"]).lower)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_value_meets_its_target_and_its_neighbour_does_not(family, target):
    found = calibrate(family, **target)
    assert found.status is Status.OK
    assert found.achieved.certified
    assert missed(family(found.value), target) <= 0.0
    assert missed(family(found.infeasible), target) > -1e-12
    open_ = float(found.achieved.upper - found.achieved.lower) / float(found.achieved.estimate)
    assert abs(found.value - found.infeasible) <= max(1e-9, open_) * found.value


@pytest.mark.parametrize("start", [0.2, 3.0, 40.0])
def test_where_the_search_begins_does_not_matter(start):
    """The first value asked is 1: a family in another unit begins elsewhere."""
    usual = calibrate(FAMILIES["noise of a sampled run"], epsilon=1.0, delta=1e-6)
    scaled = calibrate(lambda s: FAMILIES["noise of a sampled run"](s * start), epsilon=1.0, delta=1e-6)
    assert scaled.value * start == pytest.approx(usual.value, rel=2e-9)


@pytest.mark.parametrize("epsilon", [80.0, 100.0, 600.0])
def test_a_family_that_is_alike_up_to_its_own_end_is_searched_there(epsilon):
    """delta is 0 at every epsilon asked first; beyond 700 the mechanism is refused."""
    found = calibrate(ExponentialMechanism, epsilon=epsilon, delta=1e-5)
    assert found.status is Status.OK
    assert epsilon <= found.value < 1.001 * epsilon
    assert float(PrivacyProfile(ExponentialMechanism(found.value)).delta(epsilon=epsilon).upper) <= 1e-5


def test_steps_are_whole_and_the_next_is_too_many():
    found = calibrate(lambda t: t * PoissonSampled(Gaussian(1.0), 0.01), epsilon=1.0, delta=1e-5, integer=True)
    assert (found.value + 1, type(found.value)) == (found.infeasible, int)
    below, above = (PrivacyProfile(t * PoissonSampled(Gaussian(1.0), 0.01)).epsilon(delta=1e-5) for t in (found.value, found.infeasible))
    assert below.upper <= 1.0 < above.upper


def test_a_family_that_is_not_monotone_is_met_where_the_search_ends_or_refused():
    """Noise that grows on both sides of 1: wherever the search ends, the target holds there."""
    def family(x):
        return 1000 * PoissonSampled(Gaussian(0.9 + abs(np.log(x))), 0.01)

    found = calibrate(family, epsilon=2.0, delta=1e-5)
    assert missed(family(found.value), {"epsilon": 2.0, "delta": 1e-5}) <= 0.0
    with pytest.raises(UnreachableTarget, match="not monotone"):
        calibrate(lambda x: 1000 * PoissonSampled(Gaussian(0.9 - 0.3 * abs(np.log(x))), 0.01), epsilon=2.0, delta=1e-5, bracket=(0.2, 5.0))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_the_search_by_estimates_agrees_with_the_search_by_proof(target):
    """A bracket hides nothing: the estimates only say where to look."""
    by_estimates = calibrate(FAMILIES["noise of a sampled run"], **target)
    proved = calibrate(FAMILIES["noise of a sampled run"], method="line", **target)
    assert by_estimates.value == pytest.approx(proved.value, rel=2e-9)


def capped(most):
    """A family that refuses whatever is larger."""
    def family(value):
        if value > most:
            raise ValueError(f"at most {most}")
        return Gaussian(float(value))

    return family


@pytest.mark.parametrize("options", [{}, {"bracket": (0.1, 8.0)}, {"bracket": (0.5, 100.0)}, {"bracket": (0.2, 20.0)}], ids=str)
def test_a_family_is_searched_up_to_where_it_refuses(options):
    found = calibrate(capped(7.0), epsilon=1.0, delta=1e-5, **options)
    assert found.value == pytest.approx(3.730631634816464, rel=1e-9)
    assert calibrate(capped(7), epsilon=1.0, delta=1e-5, integer=True).value == 4


@pytest.mark.parametrize("bracket", [(0.95, 2.0), (0.9591, 1.918), (0.5, 0.97)])
def test_no_value_outside_the_bracket_is_asked(bracket):
    def family(s):
        assert bracket[0] <= s <= bracket[1]
        return FAMILIES["noise of a sampled run"](s)

    assert calibrate(family, epsilon=2.0, delta=1e-5, bracket=bracket).value == pytest.approx(0.95910155, rel=1e-7)


class Plain:
    """Of one's own: the analytic Gaussian, in numbers."""

    def __init__(self, sigma):
        self.profile = PrivacyProfile(Gaussian(sigma))

    def delta(self, epsilon):
        return float(self.profile.delta(epsilon=epsilon))

    def epsilon(self, delta):
        return float(self.profile.epsilon(delta=delta))


def test_objects_of_ones_own_may_answer_in_numbers():
    found = calibrate(Plain, epsilon=1.0, delta=1e-5)
    assert found.value == pytest.approx(3.730631634816464, rel=1e-8)
    assert (found.achieved.certified, found.achieved.method) == (False, "the family's own")
    assert calibrate(Plain, advantage=0.1).achieved.upper <= 0.1
    with pytest.raises(TypeError, match=r"objects with \.trade_off"):
        calibrate(Plain, false_positive_rate=0.01, false_negative_rate=0.9)
