"""Atoms next to epsilon, taken out of the smoothed line: where a kernel alone resolves nothing."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import HAS_BALLS, overlap

from dpaccount import PrivacyProfile, calibrate
from dpaccount.engines import auto, chords, recursion
from dpaccount.engines.smoothed import answer as smoothed
from dpaccount.engines.smoothed import atoms
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.sampling.poisson import PoissonSampled

ON_ATOMS = [
    (3 * Laplace(1.0), 1.0),
    (4 * Laplace(2.0), 0.0),
    (4 * Laplace(0.5), 4.0),
    (10 * Laplace(20.0), 0.1),
    (3 * Laplace(1.0) + RandomizedResponse(0.5), 1.5),
]


@pytest.mark.skipif(not HAS_BALLS, reason="python-flint is absent")
@pytest.mark.parametrize(("pair", "epsilon"), ON_ATOMS[:4])
@pytest.mark.parametrize("beside", [0.0, 1e-9, -1e-9, 1e-4, -1e-4])
def test_ball_arithmetic_lies_inside(pair, epsilon, beside):
    found, exact = smoothed.log_delta(pair, max(epsilon + beside, 0.0)), auto.log_delta(pair, max(epsilon + beside, 0.0), "balls")
    assert found.certified
    assert found.lower <= exact.lower + 1e-14
    assert exact.upper <= found.upper + 1e-14
    assert found.upper - found.lower < 1e-6
    assert abs(found.estimate - exact.estimate) < 2e-8


@pytest.mark.parametrize(("pair", "epsilon"), ON_ATOMS)
def test_the_recursion_meets_it(pair, epsilon):
    assert atoms.beside(pair, epsilon, 1.0, -5.0) is not None
    assert overlap(smoothed.log_delta(pair, epsilon), recursion.log_delta(pair, epsilon))


@pytest.mark.parametrize("index", range(12))
def test_random_mixtures_meet_the_recursion(index):
    """Sums of atoms of several kinds, epsilon on one of them or beside it."""
    rng = np.random.default_rng([77, index])
    kinds = [Laplace(float(rng.uniform(0.5, 4.0))), RandomizedResponse(0.5), FinitePair((0.5, 0.3, 0.2), (0.2, 0.3, 0.5))]
    pair = int(rng.integers(2, 5)) * kinds[0]
    if index % 3 == 0:
        pair = pair + kinds[1 + index % 2]
    if index % 4 == 1:
        pair = int(rng.integers(2, 5)) * PoissonSampled(kinds[0], float(rng.uniform(0.05, 0.9)))
    every = atoms._every(pair)
    assert every is not None
    inner = every.loss[(every.loss > -1e-12) & (every.loss < pair.loss_range[1] - 1e-3)]
    epsilon = abs(float(rng.choice(inner)) + float(rng.choice([0.0, 1e-7, -1e-7])))
    found = smoothed.log_delta(pair, epsilon)
    assert found.certified
    assert found.upper - found.lower < 2e-6
    assert overlap(found, recursion.log_delta(pair, epsilon))


def test_the_slope_at_an_atom_counts_losses_above_it_alone():
    for epsilon, pair in ((0.0, 2 * Laplace(1.0)), (0.999, 2 * PoissonSampled(Laplace(0.5), 0.5))):
        assert smoothed.log_delta(pair, epsilon).log_tail == pytest.approx(chords.log_delta(pair, epsilon).log_tail, abs=1e-4)


def test_who_has_atoms_to_take():
    assert atoms.beside(3 * ExponentialMechanism(1.0), 1.0, 1.0, -5.0) is None
    assert atoms.beside(3 * Laplace(1.0) + Gaussian(2.0), 1.0, 1.0, -5.0) is None
    assert atoms.beside(3 * Laplace(1.0), 1.5, 1.0, -5.0) is None  # none is near
    assert atoms.beside(3 * Laplace(1.0), 1.0, 1.0, 30.0) is None  # none weighs anything
    assert atoms.beside(3 * Laplace(1.0), 1.0, 1.0, -700.0) is None  # masses would underflow


@pytest.mark.parametrize("fault", ["mass", "place", "forgotten"])
def test_a_planted_fault_is_caught(monkeypatch, fault):
    """An atom a thousandth too heavy or too far up, or taken out and not added, leaves the recursion's bracket."""
    real = atoms.Atoms.value

    def value(self, epsilon):
        if fault == "forgotten":
            return 0.0, 0.0, 0.0
        moved = self._replace(log_p=self.log_p + 1e-3) if fault == "mass" else self._replace(loss=self.loss + 1e-3)
        return real(moved, epsilon)

    monkeypatch.setattr(atoms.Atoms, "value", value)
    assert not overlap(smoothed.log_delta(3 * Laplace(1.0), 0.99), recursion.log_delta(3 * Laplace(1.0), 0.99))


def test_advantages_of_laplace_steps():
    """delta(0) of an even number of steps lies on an atom: narrow, and calibrated as narrowly."""
    found = PrivacyProfile(10 * Laplace(12.0)).advantage()
    assert found.certified
    assert found.width < 1e-6 * found.estimate
    noise = calibrate(lambda b: 10 * Laplace(b), advantage=0.1)
    assert noise.achieved.upper <= 0.1
    assert noise.achieved.lower > 0.1 * (1 - 1e-6)
