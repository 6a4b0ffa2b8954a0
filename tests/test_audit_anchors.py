"""Published and recomputed figures that no other file of the audits' tests asks for."""

from __future__ import annotations

import numpy as np
import pytest

from dpaccount import Gaussian, PoissonSampled, PrivacyProfile, calibrate
from dpaccount.auditing import check_claim
from dpaccount.iteration import NoisyGD

RATE, DELTA = 256 / 60000, 1e-5


@pytest.mark.parametrize(("sigma", "batches", "value", "room"), [(1.1, 234, 0.30701, 5e-6), (0.5, 1000, 3.238880, 3e-6)])
def test_poissons_figure_of_one_epoch(sigma, batches, value, room):
    """The second was printed by a lattice rounded up, and is 2e-6 above."""
    found = PrivacyProfile(batches * PoissonSampled(Gaussian(sigma), 1 / batches)).epsilon(delta=DELTA)
    assert float(found) == pytest.approx(value, abs=room)
    assert float(found.upper) <= value + 5e-6


def test_noise_that_the_worked_claim_needs():
    """A lattice of 1e-3, rounded up, prints 0.9871; a proof needs less."""
    found = calibrate(lambda s: 14062 * PoissonSampled(Gaussian(s), RATE), epsilon=2.9, delta=DELTA)
    assert float(found) == pytest.approx(0.98571284, abs=1e-7)
    assert float(PrivacyProfile(14062 * PoissonSampled(Gaussian(0.9871), RATE)).epsilon(delta=DELTA)) == pytest.approx(2.8923, abs=1e-4)


def test_ten_runs_composed():
    """8.96 by a coarse lattice, rounded up."""
    found = PrivacyProfile(140620 * PoissonSampled(Gaussian(1.1), RATE)).epsilon(delta=DELTA)
    assert 8.9186175 < float(found.lower) <= float(found.upper) < 8.9186177


def test_hidden_iterates_of_a_contraction_and_all_of_them():
    """mu = sqrt((1 + c)/(1 - c) (1 - c^T)/(1 + c^T))/s at c = 0.99, T = 1000, s = 10."""
    run = NoisyGD(num_records=1, lipschitz=1.0, smoothness=1.0, strong_convexity=1.0, step_size=0.01, noise_scale=10.0, steps=1000,
                  adjacency="zero-out")
    assert run.mu() == pytest.approx(1.41061270, abs=1e-8)
    assert float(run.epsilon(DELTA)) == pytest.approx(6.55306277, abs=1e-7)
    assert run.composed_mu() == pytest.approx(3.16227766, abs=1e-8)
    assert float(run.epsilon(DELTA, method="composition")) == pytest.approx(17.85658683, abs=1e-7)


def test_a_quadratic_attains_it():
    """The last iterate of x <- 0.99 x + (shift + noise): its mean over its deviation, by 20,000 runs; five standard errors."""
    rng, x = np.random.default_rng(0), np.zeros(20000)
    for _ in range(1000):
        x = 0.99 * x + 1.0 + rng.normal(0.0, 10.0, x.size)
    assert x.mean() / x.std() == pytest.approx(1.41061270, abs=5 * np.sqrt((1 + 1.4106**2 / 2) / x.size))


def test_noise_below_which_shuffling_is_refuted():
    """At least 1.533, for 60 epochs of whole batches; the search is one per cent wide."""
    whole = {"noise_multiplier": 1.1, "dataset_size": 59904, "batch_size": 256, "epochs": 60, "epsilon": 2.9, "delta": DELTA,
             "sampler": "shuffled", "adjacency": "zero-out"}
    [text] = [text for text in check_claim(whole).changes if "no noise multiplier below" in text]
    least = float(text.split("below ")[1].split()[0])
    assert 1.533 / 1.011 <= least <= 1.533 * 1.011
