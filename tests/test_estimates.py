"""Shortcuts of the contour, each against what it spares: sketches, estimates, ceilings, K without cancellation, and rounding."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from helpers import excluded

from dpaccount import Gaussian, Laplace, PoissonSampled, PrivacyProfile, calibrate
from dpaccount._log import ULP
from dpaccount.engines import auto, invert
from dpaccount.engines.line import answer as line
from dpaccount.engines.line import estimate
from dpaccount.engines.line.axis import Axis, below
from dpaccount.engines.line.saddle import saddle
from dpaccount.engines.line.sketch import Sketch
from dpaccount.engines.line.terms import BENT, exp_beyond_linear
from dpaccount.engines.line.waves import log_phi_along
from dpaccount.mechanisms.discrete import DiscreteGaussian

RUNS = [
    (1000 * PoissonSampled(Gaussian(1.0), 0.01), 1.0),
    (10**6 * PoissonSampled(Gaussian(0.5), 1e-4), 3.0),
    (10**5 * PoissonSampled(Gaussian(2.0), 1e-3), 0.5),
    (1000 * PoissonSampled(Gaussian(4.0), 0.1), 1.0),
    (10**9 * PoissonSampled(Gaussian(20.0), 1e-4), 0.5),
    (300 * PoissonSampled(Gaussian(0.8), 0.02) + 700 * PoissonSampled(Gaussian(1.2), 0.01), 1.5),
]
DIRECTED = [(pair.reversed() if back else pair, epsilon) for pair, epsilon in RUNS for back in (False, True)]


def named(case):
    return f"{case[0]!r} at {case[1]:g}"


@pytest.mark.parametrize("case", DIRECTED, ids=named)
def test_the_estimate_is_right_to_ten_digits_and_says_so(case):
    pair, epsilon = case
    truth = line.log_delta(pair, epsilon)
    for move in (0.0, 0.02 * epsilon):  # nearby the same line answers
        nearby = estimate.Nearby()
        nearby(pair, epsilon)
        found, truth = nearby(pair, epsilon + move), line.log_delta(pair, epsilon + move)
        assert abs(found.estimate - truth.estimate) < 1e-10
        assert found.lower <= truth.upper
        assert truth.lower <= found.upper
        assert found.upper - found.lower < 1e-9
        assert not found.certified
        assert found.log_tail == pytest.approx(truth.log_tail, abs=1e-8)


def test_an_estimate_is_never_certified_and_what_auto_answers_instead_may_be():
    run, epsilon = RUNS[0]
    quick, proved = (PrivacyProfile(run, method=m).delta(epsilon=[-0.3, 0.0, epsilon]) for m in ("estimate", "auto"))
    assert proved.certified
    assert not quick.certified
    assert quick.method == "line (estimate)"
    assert np.all(np.abs(quick.estimate / proved.estimate - 1.0) < 1e-10)
    for other in (10 * PoissonSampled(Gaussian(1.0), 1e-3), 4 * Laplace(2.0), Gaussian(2.0)):  # no line is drawn
        assert auto.log_delta(other, 0.2, "estimate") == auto.log_delta(other, 0.2)
        assert auto.log_delta(other, 0.2, "estimate").certified
        assert auto.log_delta(other, 0.2, "estimate").method != "line (estimate)"


@pytest.mark.parametrize("case", DIRECTED, ids=named)
def test_a_ceiling_holds_at_every_epsilon(case):
    pair, epsilon = case
    found, _ = line.ceiling(pair, epsilon, math.inf)
    assert found is not None
    for at in np.linspace(0.5, 1.5, 5) * epsilon:
        assert line.log_delta(pair, float(at)).lower < found.at(float(at))
    assert found.at(epsilon) < line.log_delta(pair, epsilon).upper + 4.0  # and says something


def test_a_ceiling_counts_the_atoms_that_no_node_stands_for():
    """Points of a discrete Gaussian below e^-800 are left out: far in the tail they are what Chernoff's bound does not see."""
    pair = 3 * Gaussian(2.0) + 2 * DiscreteGaussian(1.5)
    left_out = math.log(2.0) + DiscreteGaussian(1.5).log_left_out
    assert auto.select(pair).engine == "line"
    found, _ = line.ceiling(pair, 70.0, math.inf)
    assert left_out <= found.log_left_out < -790.0
    for at in (1.0, 70.0, 1000.0):
        assert found.at(at) >= left_out
        assert found.at(at) >= found._replace(log_left_out=-math.inf).at(at)
    assert not excluded(pair, 70.0, left_out)


@pytest.mark.parametrize("case", RUNS, ids=named)
def test_a_direction_put_aside_is_the_smaller_one(case):
    pair, epsilon = case
    for at in (0.0, 0.4 * epsilon, epsilon, 1.2 * epsilon):
        both = PrivacyProfile(pair).log_delta(at)
        sides = [auto.log_delta(side, at) for side in pair.under("add-or-remove")]
        assert both.certified
        assert both.upper >= max(side.lower for side in sides)
        assert both.lower <= max(side.upper for side in sides)
        assert both.upper - both.lower <= 2.0 * max(side.upper - side.lower for side in sides)
        if at == 0.0:  # the total variation has no direction
            assert sides[0].lower <= sides[1].upper
            assert sides[1].lower <= sides[0].upper


def test_a_ceiling_too_low_is_caught(monkeypatch):
    pair, epsilon = RUNS[2]
    honest = line.Ceiling.at
    sides = [auto.log_delta(side, epsilon) for side in pair.reversed().under("as-written")]
    monkeypatch.setattr(line.Ceiling, "at", lambda self, at: honest(self, at) - 3.0)
    found, _ = line.ceiling(pair.reversed(), epsilon, math.inf)
    assert found.at(epsilon) < sides[0].lower


@pytest.mark.parametrize("target", [{"epsilon": 2.0, "delta": 1e-5}, {"advantage": 0.1}])
def test_a_calibration_by_estimates_ends_where_the_proved_search_does(target):
    def family(sigma):
        return 1000 * PoissonSampled(Gaussian(sigma), 0.01)

    quick, slow = (calibrate(family, method=method, **target) for method in ("auto", "line"))
    assert quick.achieved.certified
    assert quick.value == pytest.approx(slow.value, rel=1e-10)
    assert quick.evaluations < slow.evaluations
    profile = PrivacyProfile(family(quick.value))
    if "delta" in target:
        assert profile.epsilon(delta=1e-5).upper <= 2.0
    else:
        assert profile.advantage().upper <= 0.1


def test_exp_beyond_linear_keeps_its_relative_digits():
    x = np.concatenate([s * np.geomspace(1e-12, 300.0, 400) for s in (-1.0, 1.0)])
    x = np.append(x, [0.0, 0.25, -0.25, np.nextafter(0.25, 0.0)])
    found = exp_beyond_linear(x)
    with mp.workdps(60):
        for value, at in zip(found, x, strict=True):
            exact = mp.expm1(mp.mpf(float(at))) - mp.mpf(float(at))
            assert abs(mp.mpf(float(value)) - exact) <= 0.5 * BENT * abs(exact)


def moment(sigma, q, z):
    """E_P[e^{zL}] = E_Q[A^{1+z}], by mpmath's own quadrature."""
    s, q = mp.mpf(sigma), mp.mpf(q)

    def integrand(x):
        return mp.exp(-((x / s) ** 2) / 2) * (1 - q + q * mp.exp((x - mp.mpf("0.5")) / s**2)) ** (1 + z)

    centre = 1 + abs(mp.re(z))
    ends = [-14 * s - centre, -4 * s, 0, centre, centre + 4 * s, centre + 14 * s]
    return mp.quad(integrand, ends) / (s * mp.sqrt(2 * mp.pi))


@pytest.mark.parametrize("case", [(10**6, 0.5, 1e-4, 3.0), (10**9, 20.0, 1e-4, 0.5), (10**9, 2.0, 6.3e-5, 4.0), (1000, 1.0, 0.01, 1.0)])
@pytest.mark.parametrize("back", [False, True])
def test_rounding_of_a_billion_steps_is_within_its_bound(case, back):
    """K and the characteristic function against thirty digits: inside what is claimed, and claimed to be small."""
    steps, sigma, q, epsilon = case
    pair = steps * PoissonSampled(Gaussian(sigma), q)
    pair = pair.reversed() if back else pair
    axis, c, _ = saddle(below(pair, np.inf), epsilon)
    s = np.linspace(0.0, 0.9 * axis.rate, 14)
    with mp.workdps(30):
        def log_mgf(z):
            return steps * mp.log(moment(sigma, q, -1 - z if back else z))

        whole = log_mgf(mp.mpf(c))
        claimed = axis.rounding(c)
        assert abs(mp.mpf(axis.log_mgf(c)) - whole) <= claimed
        assert claimed < 1e-10
        log_phi, slip = log_phi_along(axis, c, s)
        for k in (1, 3):
            exact = log_mgf(mp.mpc(c, s[k])) - whole
            assert abs(mp.re(exact) - log_phi[k].real) <= slip[k] + 4 * ULP * abs(log_phi[k])
            turns = (mp.im(exact) - log_phi[k].imag) / (2 * mp.pi)
            assert abs(turns - mp.nint(turns)) * 2 * mp.pi <= slip[k] + 4 * ULP * abs(log_phi[k])
            assert slip[k] < 2e-9  # the integrand is small so far out


def test_widths_stay_narrow_up_to_a_billion_steps():
    widths = [PrivacyProfile(t * PoissonSampled(Gaussian(2.0), 2.0 / math.sqrt(t))).log_delta(4.0).width for t in (10**3, 10**6, 10**9)]
    assert max(widths) < 2e-9
    for (pair, epsilon), most in zip(RUNS[:3], (1e-10, 1e-10, 1e-10), strict=True):
        assert PrivacyProfile(pair).log_delta(epsilon).width < most


def test_without_the_guide_the_searched_saddle_point_is_the_same(monkeypatch):
    for pair, epsilon in DIRECTED:
        guided = line.log_delta(pair, epsilon)
        with monkeypatch.context() as patch:
            patch.setattr("dpaccount.engines.line.saddle.guided", lambda *facts: None)
            searched = line.log_delta(pair, epsilon)
        assert searched.lower <= guided.upper
        assert guided.lower <= searched.upper
        assert Axis(below(pair, np.inf), -1.0, 1.0, 0.0).proved


def test_a_sketch_whose_variance_cancels_is_still_a_guide():
    """Losses that differ by 1e-9 of themselves: doubles leave no variance, or a negative one."""
    pair = 78_340 * PoissonSampled(Gaussian(0.05797280452595252), 0.9187572789640432).reversed()
    guess, _ = invert.guess_epsilon(pair, -26.726863253383527)
    assert 0.0 < guess < math.inf
    assert Sketch.of(below(pair, np.inf), 12.0).cumulants(5.0)[2] >= 0.0
