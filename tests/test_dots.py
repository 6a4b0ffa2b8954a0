"""Upper ends of few sampled steps by chords of one step's curve: valid on any lattice, tight on the one that is chosen."""

from __future__ import annotations

from fractions import Fraction

import pytest
from worked_claim import changed

from dpaccount import Gaussian, PoissonSampled, PrivacyProfile
from dpaccount.auditing import certificate, dots, verify_certificate
from dpaccount.auditing.certificate import digest

RATE = 256 / 60000


@pytest.mark.parametrize(("sigma", "rate", "steps"), [(1.1, RATE, 2), (1.1, RATE, 5), (0.6, 0.1, 2), (3.0, 0.02, 8)])
@pytest.mark.parametrize("points", [40, 400])
def test_any_lattice_is_above_and_a_fine_one_near(sigma, rate, steps, points, monkeypatch):
    monkeypatch.setattr(dots, "POINTS", points)
    exact = PrivacyProfile(steps * PoissonSampled(Gaussian(sigma), rate)).epsilon(delta=1e-5)
    found = float(dots.least_epsilon(sigma, rate, steps, 1e-5, dots.lattice(sigma, rate, steps, 1e-5), 8))
    assert float(exact.lower) <= found * (1 + 1e-7)
    assert found <= float(exact.upper) * (1.02 if points == 400 else 3.0)


def test_the_curve_of_a_step_is_its_own_in_both_directions():
    event = {"step": 0.0625, "low": -8, "high": 24}
    removed, added = dots._curves(1.1, 0.25, event)
    pair = PoissonSampled(Gaussian(1.1), 0.25)
    for side, directed in ((removed, pair), (added, pair.reversed())):
        for i, value in enumerate(side):
            epsilon = 0.0625 * (i - 8)
            if epsilon >= 0.0:
                found = PrivacyProfile(directed, "as-written").delta(epsilon)
                assert float(value) == pytest.approx(float(found.estimate), rel=1e-9, abs=1e-15)


def test_the_composed_law_has_the_mass_of_one():
    event = dots.lattice(1.1, RATE, 3, 1e-5)
    for values in dots._curves(1.1, RATE, event):
        side = dots._composed(values, 3, event)
        lost = 1 - side.infinite - side.beyond[0]
        assert abs(float(lost)) < 1e-15


def test_three_samples_of_the_worked_claim_are_certified(monkeypatch):
    monkeypatch.setattr(dots, "POINTS", 1024)
    claim = changed(epochs=None, steps=3, epsilon=0.07)
    document = certificate(claim, digits=8)
    upper = document["bounds"][1]
    assert (document["verdict"], upper["theorem"]) == ("holds", "connected-dots")
    assert 0.069880059 <= float(upper["epsilon"]) <= 0.0699
    assert verify_certificate(document).verdict == "verified"
    wrong = {**document, "bounds": [document["bounds"][0], {**upper, "epsilon": "0.069880061"}]}
    wrong["digest"] = digest(wrong)
    assert verify_certificate(wrong).verdict == "refuted"


def test_an_event_that_is_no_lattice_is_refused():
    good = {"step": 0.01, "low": -3, "high": 90}
    assert dots.sound(good)
    for bad in ({**good, "step": 0.0}, {**good, "step": 1}, {**good, "low": 1}, {**good, "high": 10**6}, {**good, "more": 1}, {},
                {**good, "step": float("nan")}, {**good, "low": True}):
        assert not dots.sound(bad)


def test_the_edge_of_the_bracket_is_not_passed():
    """Losses of the add direction end at -log(1 - q), where its curve is 0."""
    event = {"step": 0.01, "low": -60, "high": 60}
    _, added = dots._curves(1.0, 0.25, event)
    for i, value in enumerate(added):
        gamma = Fraction(i - 60, 100)
        if gamma > Fraction(29, 100):  # -log(0.75) = 0.2877
            assert float(value.abs_upper()) == 0.0
