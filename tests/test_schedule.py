"""Schedules: many noise multipliers at once, against references, against the steps one by one, and with faults planted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dpaccount import Gaussian, NoiseSchedule, PoissonSampled, PrivacyProfile, from_json, to_json
from dpaccount.citations import citations
from dpaccount.engines.jump import NO_CUT, margin
from dpaccount.engines.lattice import answer as lattice
from dpaccount.engines.line import answer as line
from dpaccount.engines.line.axis import Axis, below
from dpaccount.engines.line.contour import Contour
from dpaccount.engines.line.saddle import saddle
from dpaccount.engines.line.waves import log_phi_along
from dpaccount.engines.many import family, panels
from dpaccount.engines.many.family import families, rounded
from dpaccount.engines.many.schedule import Many
from dpaccount.pair import compose
from dpaccount.statement import privacy_statement

REFERENCE = json.loads((Path(__file__).parent / "references" / "schedules.json").read_text())
NOISE = np.array(REFERENCE["noise_multipliers"])
SCHEDULE = NoiseSchedule(NOISE, REFERENCE["sampling_probability"], [REFERENCE["count"]] * NOISE.size)
WIDE = NoiseSchedule(np.linspace(0.8, 2.0, 400), 0.01, [5] * 400)


@pytest.fixture(autouse=True)
def fresh():
    yield
    families.cache_clear()
    panels.panels_of.cache_clear()
    margin.cache_clear()


def one_by_one(schedule, monkeypatch):
    """The same parts without families."""
    with monkeypatch.context() as patch:
        patch.setattr(family, "FEW", 10**9)
        families.cache_clear()
        plain = compose([*schedule.terms])
        found = below(plain, np.inf)
    families.cache_clear()
    return found


def violations():
    """How many of the reference values lie outside their certified brackets."""
    families.cache_clear()
    panels.panels_of.cache_clear()
    wrong = 0
    for name, pair in (("remove", SCHEDULE), ("add", SCHEDULE.reversed())):
        for epsilon, digits in REFERENCE["delta"][name].items():
            found = line.log_delta(pair, float(epsilon))
            assert found.certified
            assert found.upper - found.lower < 1e-9
            truth = np.log(float(digits))
            wrong += not found.lower - 1e-15 * abs(truth) <= truth <= found.upper + 1e-15 * abs(truth)
    return wrong


def test_certified_brackets_hold_the_reference_values():
    assert violations() == 0


def test_fewer_points_without_their_bound_are_caught(monkeypatch):
    """Chebyshev's points replaced by those of a coarser panel, the error by nothing."""
    honest = panels.Panels.rows.func

    def moved(self):
        tau, weight, gross = honest(self)
        return tau * (1.0 + 1e-7 * np.sign(weight)), weight, gross

    monkeypatch.setattr(panels.Panels, "rows", property(moved))
    assert violations() > 0


def test_a_dropped_noise_multiplier_is_caught(monkeypatch):
    honest = family._arrays.__wrapped__

    def short(noise, counts):
        tau, count = honest(noise, counts)
        count[0] -= 1e-6
        return tau, count

    monkeypatch.setattr(family, "_arrays", short)
    assert violations() > 0


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cut", [np.inf, 1.3])
def test_the_whole_equals_the_sum_of_the_steps(reverse, cut, monkeypatch):
    small = NoiseSchedule(np.linspace(0.9, 1.6, 40), 0.02, range(1, 41))
    pair = small.reversed() if reverse else small
    single = one_by_one(pair, monkeypatch)
    single = single._replace(single=tuple(part._replace(upper=cut) for part in single.single), cut=cut)
    whole, plain = (Axis(parts, 0.0, 6.0, 30.0) for parts in (below(pair, cut), single))
    assert whole.many
    assert not plain.many
    assert whole.log_mass == pytest.approx(plain.log_mass, rel=1e-12, abs=1e-14)
    for c in (6.0, 0.0) if whole.ends_only else (0.7, 3.0, 6.0):
        assert whole.cumulants(c) == pytest.approx(plain.cumulants(c), rel=1e-7)
        assert abs(whole.log_mgf(c) - plain.log_mgf(c)) <= whole.rounding(c) + plain.rounding(c)
        assert whole.rounding(c) < 1e-9
    s = np.linspace(0.0, 30.0, 40)
    (value, slip), (truth, other) = (log_phi_along(found, 6.0, s) for found in (whole, plain))
    assert np.all(np.abs(value - truth) <= slip + other)
    assert slip.max() < 1e-7


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("ratio", panels.RATIOS)
def test_interpolation_is_within_its_bound(ratio, reverse):
    """Panels of every ratio against every noise multiplier by itself."""
    pair = WIDE.reversed() if reverse else WIDE
    term = Many(families(pair)[1][0], np.inf, 0.0, 5.0, 40.0)
    s = np.linspace(0.0, 40.0, 30)
    for c in (0.5, 3.0):
        bound = term.panels(ratio).error(term.top(c), s)
        term._found[c, 40.0], term._found[c, 0.0] = ratio, ratio
        value, slip = term.log_phi(c, s)
        mgf, rounding = term.log_mgf(c), term.rounding(c)
        term._found[c, 40.0], term._found[c, 0.0] = 1.0, 1.0
        truth, other = term.log_phi(c, s)
        known = np.isfinite(bound)
        assert known[0]
        assert np.all(np.abs(value - truth)[known] <= (slip + other)[known])
        assert abs(mgf - term.log_mgf(c)) <= rounding + term.rounding(c)
    assert term.panels(panels.RATIOS[-1]).error(term.top(3.0), s).max() < 1e-6  # and says something


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cut", [np.inf, 2.0])
def test_the_decay_of_the_family_bounds_its_characteristic_function(cut, reverse):
    pair = WIDE.reversed() if reverse else WIDE
    term = Many(families(pair)[1][0], cut, 0.0, 4.0, 60.0)
    s = np.linspace(2.0, 60.0, 60)
    size = term.log_modulus(4.0, s)
    later = np.maximum.accumulate(size[::-1])[::-1]
    bound = term.log_decay(4.0, s)
    assert np.all(later <= bound + 1e-9)
    assert bound[-1] < -5.0


def test_rounded_noise_brackets_the_schedule():
    weaker, stronger = rounded(SCHEDULE, 4)
    assert len(weaker.terms) <= 4
    for epsilon in (0.4, 1.0, 2.0):
        low, here, high = (line.log_delta(pair, epsilon).estimate for pair in (weaker, SCHEDULE, stronger))
        assert low < here < high


def test_the_lattice_brackets_a_schedule_by_rounded_noise(monkeypatch):
    monkeypatch.setattr(lattice, "FEW", 3)
    few = NoiseSchedule(np.linspace(2.0, 2.2, 14), 0.3)
    bracket = PrivacyProfile(few, method="lattice").log_delta(0.5)
    assert bracket.certified
    found = PrivacyProfile(few).log_delta(0.5)
    assert bracket.lower <= found.estimate <= bracket.upper


def test_with_a_jump_split_off_the_two_agree(monkeypatch):
    schedule = NoiseSchedule(np.linspace(0.9, 1.1, 30), 0.002, [40] * 30)
    found = Contour.beside(schedule, 1.0, margin(schedule)).at(1.0)
    assert Contour.beside(schedule, 1.0, margin(schedule)).jump.cut < np.inf
    monkeypatch.setattr(family, "FEW", 10**9)
    families.cache_clear()
    margin.cache_clear()
    plain = compose([*schedule.terms])
    other = Contour.beside(plain, 1.0, margin(plain)).at(1.0)
    assert abs(found.log_delta - other.log_delta) <= found.error + other.error + found.excess + other.excess + 1e-13
    assert found.error < 1e-8


def test_a_hundred_thousand_noise_multipliers():
    schedule = NoiseSchedule(np.linspace(2.5, 0.8, 100_000), 0.002)
    found = PrivacyProfile(schedule).delta(epsilon=1.0)
    assert found.certified
    assert found.width < 1e-9 * found.upper
    coarse = [PrivacyProfile(side).delta(epsilon=1.0) for side in rounded(schedule, 10)]
    assert coarse[0].upper < found.lower < found.upper < coarse[1].lower
    assert len(repr(schedule)) < 150
    assert len(repr(PrivacyProfile(schedule))) < 250


def test_the_order_and_the_grouping_do_not_matter():
    a = NoiseSchedule([2.0, 1.0, 2.0], 0.1)
    b = NoiseSchedule([1.0, 2.0], 0.1, counts=[1, 2])
    assert a == b
    assert hash(a) == hash(b)
    assert compose([*a.terms]) == PoissonSampled(Gaussian(1.0), 0.1) + 2 * PoissonSampled(Gaussian(2.0), 0.1)
    both = a + PoissonSampled(Gaussian(3.0), 0.1)
    assert len(both.terms) == 3
    assert len((2 * a).terms) == 2


def test_few_steps_are_the_same_as_a_sum():
    schedule = NoiseSchedule([1.0, 1.5, 2.0], 0.05, counts=[50, 60, 70])
    summed = compose([*schedule.terms])
    for adjacency in ("add-or-remove", "zero-out", "as-written", "replace-one"):
        a, b = (PrivacyProfile(g, adjacency).delta(epsilon=0.7) for g in (schedule, summed))
        assert (a.lower, a.estimate, a.upper, a.certified) == (b.lower, b.estimate, b.upper, b.certified)


def test_json_statement_and_citations():
    assert from_json(to_json(SCHEDULE)) == SCHEDULE
    assert from_json(to_json(SCHEDULE.reversed())) == SCHEDULE.reversed()
    text = privacy_statement(SCHEDULE, epsilon=1.0)
    assert "30 noise multipliers from 1 to 1.25" in text
    assert citations(SCHEDULE)


def test_a_long_sum_shows_its_ends():
    text = repr(compose([(PoissonSampled(Gaussian(1.0 + k), 0.1), 2) for k in range(100)]))
    assert "more>" in text
    assert len(text) < 1200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 0.1), "non-empty"),
        (([1.0, 0.0], 0.1), "Without noise"),
        (([1.0], 1.0), "sampling_probability"),
        (([1.0], 0.0), "sampling_probability"),
        (([1.0, 2.0], 0.1, [1]), "counts"),
        (([1.0, 2.0], 0.1, [1, 0.5]), "counts"),
        ((["1"], 0.1), "noise_multipliers"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        NoiseSchedule(*arguments)


@pytest.mark.parametrize("moved", [0.0, 3e-8])
def test_twenty_points_that_stand_for_thirty_meet_the_references(moved, monkeypatch):
    """Interpolation forced where its bound would rather have thirty rows; with its points moved the references are missed."""
    honest = panels.Panels.rows.func

    def rows(self):
        tau, weight, gross = honest(self)
        return tau * (1.0 + moved), weight, gross

    monkeypatch.setattr(Many, "serving", lambda self, c, far: panels.RATIOS[0])
    monkeypatch.setattr(panels.Panels, "rows", property(rows))
    missed = 0
    for name, pair in (("remove", SCHEDULE), ("add", SCHEDULE.reversed())):
        term = Many(families(pair)[1][0], np.inf, 0.0, 1.0, 1.0)
        assert term.panels(panels.RATIOS[0]).size == panels.POINTS
        for epsilon in ("0.4", "1.0"):
            found = line.log_delta(pair, float(epsilon))
            assert found.certified
            assert found.upper - found.lower < 1e-7
            missed += not found.lower <= np.log(float(REFERENCE["delta"][name][epsilon])) <= found.upper
    assert (missed > 0) == (moved > 0.0)


def test_a_plain_contour_of_a_schedule_is_proved():
    assert Contour.beside(SCHEDULE, 1.0, NO_CUT).proved
    assert saddle(below(SCHEDULE, np.inf), 1.0)[0].proved
