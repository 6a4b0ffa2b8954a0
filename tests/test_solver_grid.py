"""The grid of released noise: exact rounding of sums, bins of the real probabilities, and noise widened by what is left."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtri
from solver_probes import Recorder, seeded
from solver_problems import two_classes

from solvers.algorithms import projected_noisy_sgd
from solvers.gate import Gate
from solvers.grid import FARTHEST, GRID_BITS, LEAST_BITS, MOST, ROUGH, Grid, on_grid, step_below
from solvers.sets import L2Ball

DIGITS = 50


def nearest(value, noise, step):
    """The even of the nearest multiples of step, by rational numbers."""
    exact = (Fraction(value) + Fraction(noise)) / Fraction(step)
    return float(Fraction(round(exact)) * Fraction(step))


@pytest.mark.parametrize("size", [1.0, 1e3, 1e8])
def test_the_sum_is_rounded_as_a_real_number(size):
    """Sums next to ties, where a double's own rounding of the sum would decide."""
    rng = np.random.default_rng(int(size))
    scale = 1.7
    step = step_below(scale)
    value = rng.standard_normal(4_000) * size
    tie = (np.rint(value / step) + 0.5) * step - value + rng.integers(-3, 4, 4_000) * np.spacing(value) * 0.3
    noise = np.where(np.arange(4_000) % 4 == 0, rng.standard_normal(4_000), tie)
    found = on_grid(value, noise, scale)
    expected = [nearest(v, z, step) for v, z in zip(value, noise, strict=True)]
    assert found.tolist() == expected
    if size > 1e3:
        assert (np.rint((value + noise) / step) * step != found).any()  # or the test would be about nothing


def test_neighbours_differ_by_a_shift_of_the_noise_and_by_nothing_else():
    """Noise between the same two real edges gives the same answer, at a value a million scales away as at 0."""
    step = step_below(1.0)
    for value in (0.0, 1e6 + 1 / 3, -FARTHEST / 2 + 1e-7):
        k = round(value / step) + 5
        low, high = (Fraction(2 * k - 1, 2) * Fraction(step) - Fraction(value), Fraction(2 * k + 1, 2) * Fraction(step) - Fraction(value))
        for edge, side in ((low, 1), (high, -1)):
            near = float(edge)
            for _ in range(3):  # doubles on both sides of the edge
                inside = low < Fraction(near) < high
                assert (on_grid(np.array([value]), np.array([near]), 1.0)[0] == k * step) == inside or Fraction(near) in (low, high)
                near = np.nextafter(near, side * np.inf)


def ends(inverse, level):
    """The uniform at which a decreasing or increasing map crosses `level`, to the last of its doubles."""
    low, high = 1e-320, 0.5
    while np.nextafter(low, 1.0) < high:
        middle = math.sqrt(low) * math.sqrt(high) if low < 0.4 * high else 0.5 * (low + high)
        middle = min(max(middle, np.nextafter(low, 1.0)), np.nextafter(high, 0.0))
        low, high = (middle, high) if inverse(middle) < level else (low, middle)
    return high


@pytest.mark.parametrize("bits", [GRID_BITS, LEAST_BITS])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_bins_have_their_probabilities_to_what_is_paid_for(law, bits):
    """What share of the uniforms a bin gets, from where the sampler's own map crosses its edges, beside the real law."""
    mp.mp.dps = DIGITS
    inverse = ndtri if law == "gaussian" else lambda half: np.log(2.0 * half)
    law_below = mp.ncdf if law == "gaussian" else lambda x: mp.exp(x) / 2
    width, reach = 2.0 ** (-bits - 1), 36.0 if law == "gaussian" else 690.0
    worst = 0.0
    for place in np.concatenate([np.linspace(0.1, reach, 25), [0.3, 1.05, 2.7]]):
        edges = [-place - width, -place]
        got = mp.mpf(ends(inverse, edges[1])) - mp.mpf(ends(inverse, edges[0]))
        real = law_below(mp.mpf(edges[1])) - law_below(mp.mpf(edges[0]))
        worst = max(worst, abs(float(mp.log(got / real))))
    assert 0.0 < worst <= ROUGH[law] * 2.0**bits


def test_the_noise_is_wider_by_what_is_proved_to_pay():
    for law, size, multiplier in [("gaussian", 1, 1.0), ("gaussian", 1000, 50.0), ("laplace", 1, 3.0), ("gaussian", 10**6, 1e3)]:
        grid = Grid.of(law, multiplier, 0.7, size)
        bits = round(math.log2(2.0 ** math.floor(math.log2(grid.scale)) / grid.step))
        xi = size * ROUGH[law] * 2.0**bits
        assert LEAST_BITS <= bits <= GRID_BITS
        assert_allclose(grid.scale, 0.7 * multiplier * (1.0 + 4.0 * xi * multiplier), rtol=1e-15)
        assert xi * multiplier <= MOST
    assert Grid.of("gaussian", 1.0, 1.0, 100).scale < 1.0 + 1e-7
    assert Grid.of("gaussian", 0.0, 1.0, 100) == Grid(0.0, 0.0)
    with pytest.raises(ValueError, match="would add up"):
        Grid.of("gaussian", 1e6, 1.0, 10**6)


def log_delta(mu, epsilon):
    a, b = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
    return mp.log(mp.ncdf(a) - mp.exp(epsilon) * mp.ncdf(-b))


@pytest.mark.parametrize("multiplier", [0.02, 0.3, 1.0, 8.0, 500.0])
@pytest.mark.parametrize("xi", [2.0**-32, 2.0**-20, 2.0**-6])
def test_the_widened_gaussian_pays_for_every_such_error(multiplier, xi):
    """The two inequalities of the theorem, at epsilons from 0 to where delta is 1e-200: one of them stays below the claim."""
    mp.mp.dps = DIGITS
    xi = mp.mpf(xi) / max(multiplier, 1.0)
    mu = 1 / mp.mpf(multiplier)
    actual = mu / (1 + 4 * xi * multiplier)
    for depth in (-9, -2, -0.5, -0.01, 0.0, 0.01, 0.5, 3, 10, 30):
        epsilon = mu * (mu / 2 + depth)  # a = -depth
        if epsilon < 0:
            continue
        claim = log_delta(mu, epsilon)
        first = xi + log_delta(actual, epsilon - 2 * xi)
        second = mp.log(1 - mp.exp(-xi) * (1 - mp.exp(log_delta(actual, epsilon))))
        assert min(first, second) <= claim
    unpaid = min(xi + log_delta(mu, mu * mu / 2 - 2 * xi), mp.log(1 - mp.exp(-xi) * (1 - mp.exp(log_delta(mu, mu * mu / 2)))))
    assert unpaid > log_delta(mu, mu * mu / 2)  # without the widening it is not paid


@pytest.mark.parametrize("multiplier", [0.05, 1.0, 40.0])
def test_the_widened_laplace_pays_alike(multiplier):
    mp.mp.dps = DIGITS
    xi = mp.mpf(2) ** -12 / max(multiplier, 1.0)
    rate, actual = 1 / mp.mpf(multiplier), 1 / (mp.mpf(multiplier) * (1 + 4 * xi * multiplier))

    def delta(end, epsilon):
        return max(1 - mp.exp((epsilon - end) / 2), 0)

    for share in (0, 0.3, 0.9, 0.999, 0.99999, 1, 1.1):
        epsilon = rate * share
        first = mp.exp(xi) * delta(actual, epsilon - 2 * xi)
        second = 1 - mp.exp(-xi) * (1 - delta(actual, epsilon))
        assert min(first, second) <= delta(rate, epsilon)


def test_the_step_that_is_hidden_is_a_contraction_and_rounding_it_would_not_be():
    """Two starts, the same noise: hidden iterates come no further apart; rounded ones would, as the distance is half a step."""
    problem = two_classes(n=60, d=1, constraint=L2Ball(50.0))
    sigma, eta = 2.0, 0.5
    step = step_below(eta * sigma * problem.sensitivity(problem.lipschitz))

    def path(start, rounded, seed):
        class Watched(Gate):
            seen: list = []  # noqa: RUF012

            def hidden(self, value, **options):
                noisy = Gate.hidden(self, value, **options)
                self.seen.append(np.rint(noisy / step) * step if rounded else noisy)
                return self.seen[-1]

        Watched.seen = []
        options = {"noise_multiplier": sigma, "step_size": eta, "start": [start], "random": Watched(seeded(seed)), "progress": False}
        projected_noisy_sgd(problem, **options)
        return np.array(Watched.seen)

    def growth(rounded):
        gaps = np.array([np.abs(path(0.0, rounded, seed) - path(step / 2, rounded, seed))[:, 0] for seed in range(6)])
        assert gaps.shape == (6, 59)  # the last step is not hidden
        return np.diff(gaps, axis=1, prepend=step / 2).max()

    assert growth(rounded=False) <= 1e-12
    assert growth(rounded=True) >= step / 4


@pytest.mark.parametrize("order", ["given", "random", "random stopping"])
def test_what_leaves_a_pass_is_on_the_grid_and_what_is_hidden_is_not(order):
    problem, gate = two_classes(n=30, d=2, constraint=L2Ball(1e6)), Recorder(seed=2)
    options = {"noise_multiplier": 2.0, "step_size": 0.5, "method": "contraction", "random": gate, "progress": False}
    release = projected_noisy_sgd(problem, order=order, **options)
    step = Grid.of("gaussian", 2.0, 0.5 * problem.sensitivity(problem.lipschitz), 2).step
    assert np.all(release.value / step == np.rint(release.value / step))
    hidden = np.array(gate.answers[:-1])
    assert len(hidden) == 0 or np.all(hidden / step != np.rint(hidden / step))


def test_how_large_a_refused_value_was_is_not_said():
    huge = 123456789012345.0
    with pytest.raises(ValueError, match="lost in rounding") as refused:
        Gate(seeded(1)).gaussian(np.array([huge]), sensitivity=1.0, noise_multiplier=1.0)
    assert "1234" not in str(refused.value)
    with pytest.raises(ValueError, match="lost in rounding"):
        Gate(seeded(1)).hidden(np.array([huge]), sensitivity=1.0, noise_multiplier=1.0, law="gaussian", steps=1)
