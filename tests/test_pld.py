"""A step on a lattice: the optimistic curve nowhere above the true one, the pessimistic nowhere below, both O(step)."""

from __future__ import annotations

import numpy as np
import pytest

from dpaccount.engines import auto, lattice
from dpaccount.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.pld import discretise
from dpaccount.sampling.poisson import PoissonSampled

STEPS = [
    PoissonSampled(Laplace(0.9), 0.05).reversed(),
    PoissonSampled(Laplace(0.9), 0.05),
    PoissonSampled(ExponentialMechanism(1.0), 0.3),
    PoissonSampled(Gaussian(0.7), 0.1).reversed(),
    PoissonSampled(Gaussian(1.0), 1e-5),
    FinitePair((0.5, 0.3, 0.15, 0.05), (0.1, 0.2, 0.3, 0.4)),
    PoissonSampled(Gaussian(1.0), 0.001).under("replace-one")[0],
]
ROUNDING = 2e-14  # of the sums that this test makes itself


@pytest.mark.parametrize("width", np.geomspace(1e-4, 0.02, 12))
@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_the_two_sides_bracket_the_curve_everywhere(step, width):
    top = min(step.facts.max_loss, 3.0)
    grid = lattice._grid(step, float(width), top, 50, False)
    low, high = discretise(step, grid, 50)
    loss = grid.losses()
    epsilon = np.linspace(loss[0] - 0.01, loss[-1], 157)  # off the lattice on purpose
    tails, end = step.tails(epsilon), step.tails(loss[-1])
    truth = np.exp(tails.p_above) - np.exp(end.p_above) - np.exp(epsilon) * (np.exp(tails.q_above) - np.exp(end.q_above))
    below, above = (
        np.array([side.mass @ np.maximum(0.0, -np.expm1(np.minimum(e - loss, 0.0))) for e in epsilon]) for side in (low, high)
    )
    assert np.all(below <= truth + ROUNDING)
    assert np.all(above >= truth - ROUNDING)
    assert np.max(above - below) <= 2.5 * width


@pytest.mark.parametrize(
    ("pair", "epsilon"),
    [
        (200 * RandomizedResponse(0.05, 7) + PoissonSampled(Gaussian(5.0), 0.001), 0.3),
        (30 * DiscreteLaplace(5.0, 2) + Gaussian(500.0), 0.3),
        (20 * DiscreteGaussian(4.0) + 10 * PoissonSampled(Gaussian(5.0), 0.001), 0.5),
    ],
    ids=repr,
)
def test_a_characteristic_function_that_returns_is_not_mistaken_for_one_that_decayed(pair, epsilon):
    """Lattice losses beside a weak density: |phi| comes back at every 2 pi/step, where a contour cut short is wrong."""
    answer, bracket = auto.log_delta(pair, epsilon), auto.log_delta(pair, epsilon, "lattice")
    assert bracket.lower <= answer.upper
    assert answer.lower <= bracket.upper
