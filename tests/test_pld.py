"""A step on a lattice: the optimistic curve nowhere above the true one, the pessimistic nowhere below, both O(step)."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.special import gammaln, xlog1py, xlogy

from dpaccount._lattice_curve import Grid
from dpaccount.engines import auto
from dpaccount.engines.lattice import answer as lattice
from dpaccount.engines.lattice.tilted import power_on_circle
from dpaccount.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP
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


RARE = 1000 * PoissonSampled(Gaussian(0.3), 1e-3)  # few samples: the contour and the lattice split a jump off
MIXED = ApproximateDP(0.5, 0.05) + RARE


@pytest.mark.parametrize("method", ["auto", "lattice"])
@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_outcomes_that_only_q_shows_do_not_shrink_the_jump(epsilon, method):
    """delta = d + (1 - d) sum over the two losses a of p_a delta_rare(eps - a): conditioning on the release that may leak."""
    claim = ApproximateDP(0.5, 0.05)
    loss, log_p = claim.atoms()
    parts = [auto.log_delta(RARE, epsilon - float(a), "lattice") for a in loss]
    low, high = (0.05 + sum(np.exp(w + getattr(p, side)) for w, p in zip(log_p, parts, strict=True)) for side in ("lower", "upper"))
    found = auto.log_delta(MIXED, epsilon, method)
    assert np.exp(found.lower) <= high * (1 + 1e-12)
    assert np.exp(found.upper) >= low * (1 - 1e-12)
    assert found.upper - found.lower < 2e-3


@pytest.mark.parametrize("count", [1, 2, 7, 1000, 10**6])
def test_the_transform_is_within_its_stated_error(count):
    """A binomial law composed on the circle, against its exact probabilities."""
    length, p = 2**12, 0.003 if count > 1000 else 0.4
    mass = np.zeros(length)
    mass[:2] = 1 - p, p
    f = np.fft.rfft(mass)
    y, error = power_on_circle(count * np.log(f), [(np.abs(f), float(np.sqrt(mass @ mass)), count)], length)
    k = np.arange(count + 1)
    exact = np.bincount(k % length, weights=np.exp(_log_binomial(count, k, p)), minlength=length)
    assert np.max(np.abs(y - exact)) <= error + 1e-12 * exact.max()
    assert error < 1e-6
    assert error > 0


def _log_binomial(n, k, p):
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + xlogy(k, p) + xlog1py(n - k, -p)


@pytest.mark.parametrize("step", [STEPS[1], STEPS[4], PoissonSampled(ApproximateDP(0.5, 1e-3), 0.2)], ids=repr)
def test_a_lattice_costs_few_arrays_of_its_size(step):
    """A million points are usual; tails and what follows from them are made block by block."""
    size = 2**17
    grid = Grid(0.0, 4.0 / size, -size // 2, size)
    tracemalloc.start()
    discretise(step, grid, 100)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * 8 * size
