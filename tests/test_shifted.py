"""Shifted interpolation: the optimum against two independent solvers, and the bound against exact last iterates."""

from __future__ import annotations

import itertools
import json
import math
import time
from pathlib import Path
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from references import make_shifted
from scipy.optimize import isotonic_regression, nnls
from scipy.special import ndtr
from test_bad_input import SHAPE

from dpaccount._log import gaussian_log_delta
from dpaccount.iteration import Schedule
from dpaccount.iteration.one_pass import log_contraction_of, pnsgd_log_mu, pnsgd_mu
from dpaccount.iteration.shifted import gap_of, gdp_pair

REFERENCE = json.loads((Path(__file__).parent / "references" / "shifted.json").read_text(encoding="utf-8"))
EPSILON = np.array([0.0, 0.02, 0.1, 0.3, 0.7, 1.5, 3.0])


def one_pass(**changed):
    """The constants of the plots."""
    plain = {
        "num_records": 40, "lipschitz": 1.0, "smoothness": 1.0, "strong_convexity": 0.0, "step_size": 0.5, "diameter": 1.0,
        "noise": "gaussian", "noise_scale": 2.0,
    }
    return SimpleNamespace(**{**plain, **changed})


FIG2, FIG3 = one_pass(), one_pass(noise_scale=1.0, strong_convexity=0.4)


# the optimum


def test_the_reference_file_is_what_its_script_says():
    for again, kept in list(zip(make_shifted.SCHEDULES, REFERENCE["schedules"], strict=True))[::4]:
        assert list(map(json.dumps, again)) == list(map(json.dumps, kept["schedule"]))
        assert make_shifted.mp.nstr(make_shifted.best_mu(again), 25) == kept["mu"]
    again = make_shifted.one_pass(40, 20, "1", make_shifted.fig3_contraction(), "1")
    assert make_shifted.mp.nstr(again, 25) == REFERENCE["fig3"]["20"]


@pytest.mark.parametrize("case", REFERENCE["schedules"], ids=lambda c: "-".join(c["schedule"][1]))
def test_the_optimum_is_the_best_of_all_sets_of_zeros_and_restarts(case):
    contraction, shift, noise, initial, diameter = case["schedule"]
    c, s, tau = (np.array(column, dtype=float) for column in (contraction, shift, noise))
    found = Schedule(c, s, tau, initial=float(initial), diameter=None if diameter is None else float(diameter)).solve()
    assert_allclose(found.mu, float(case["mu"]), rtol=1e-12)
    assert found.mu >= float(case["mu"]), "rounded up"


def least_squares(c, s, tau, initial):
    """min over z >= 0 of |(c_t z_{t-1} + s_t - z_t)/tau_t|^2 with z_T = 0, by non-negative least squares."""
    matrix, target = np.zeros((c.size, c.size - 1)), s / tau
    target[0] += c[0] * initial / tau[0]
    for t in range(c.size - 1):
        matrix[t, t] = 1.0 / tau[t]
        matrix[t + 1, t] = -c[t + 1] / tau[t + 1]
    return nnls(matrix, target)[1] ** 2 if c.size > 1 else float(target[0] ** 2)


def test_the_optimum_is_that_of_a_convex_solver():
    rng = np.random.default_rng(20240301)
    restarted = expanded = 0
    for trial in range(300):
        steps = int(rng.integers(1, 14))
        c = rng.uniform(0.0, 1.0 if trial % 3 else 1.3, steps)
        s = rng.exponential(1.0, steps) * (rng.random(steps) < rng.choice([0.2, 0.6, 1.0]))
        tau, initial = rng.exponential(1.0, steps) + 0.05, float(rng.choice([0.0, rng.exponential(1.0)]))
        diameter = float(rng.exponential(1.0)) if trial % 2 else None
        found = Schedule(c, s, tau, initial=initial, diameter=diameter).solve()
        costs = [least_squares(c, s, tau, initial)]
        if diameter is not None:
            costs += [least_squares(c[k:], s[k:], tau[k:], diameter) for k in range(1, steps)]
        assert_allclose(found.mu, math.sqrt(min(costs)), rtol=1e-9, atol=1e-12)
        restarted += found.start > 0 and diameter is not None
        expanded += bool((c > 1.0).any())
    assert restarted > 30
    assert expanded > 30


def test_a_long_schedule_is_an_isotonic_regression():
    """Without restarts the rates b_t/v_t are the isotonic regression of u_t/v_t with weights v_t; scipy's is another program."""
    rng = np.random.default_rng(5)
    steps = 20_000
    for low in (1.0, 0.9999):
        c = rng.uniform(low, 1.0, steps)
        s, tau = rng.exponential(1.0, steps) * (rng.random(steps) < 0.3), rng.exponential(1.0, steps) + 0.1
        later = np.append(np.cumprod(c[:0:-1])[::-1], 1.0)
        u, v = later * s, np.square(later * tau)
        rate = isotonic_regression(u / v, weights=v).x
        assert_allclose(Schedule(c, s, tau).solve().mu, math.sqrt(float(np.sum(rate**2 * v))), rtol=1e-9)


def test_the_zeros_are_where_nothing_remains_and_the_rates_rise():
    rng = np.random.default_rng(8)
    c, s, tau = rng.uniform(0.8, 1.0, 60), rng.exponential(1.0, 60) * (rng.random(60) < 0.4), rng.exponential(1.0, 60) + 0.2
    found = Schedule(c, s, tau, diameter=0.7).solve()
    bounds = [found.start, *found.zeros.tolist()]
    assert bounds[-1] == 60
    assert found.start > 0
    later = np.append(np.cumprod(c[:0:-1])[::-1], 1.0)
    total, rates, z = 0.0, [], 0.7
    for a, b in itertools.pairwise(bounds):
        u = z * later[a] * c[a] + float(later[a:b] @ s[a:b])
        v = float(np.square(later[a:b] * tau[a:b]).sum())
        for t in range(a, b):
            z = c[t] * z + s[t] - u / v * later[t] * tau[t] ** 2
            assert z > -1e-12
        assert_allclose(z, 0.0, atol=1e-12)
        rates.append(u / v)
        total, z = total + u * u / v, 0.0
    assert_allclose(found.mu, math.sqrt(total), rtol=1e-12)
    assert rates == sorted(rates)


def test_shifts_and_noises_in_other_units_change_nothing():
    c, s, tau = np.array([0.9, 1.1, 0.8, 1.0]), np.array([1.0, 0.0, 2.0, 0.3]), np.array([1.0, 0.5, 2.0, 1.5])
    plain = Schedule(c, s, tau, diameter=1.2).solve().mu
    for unit in (1e-30, 1e30):
        assert_allclose(Schedule(c, unit * s, unit * tau, diameter=1.2 * unit).solve().mu, plain, rtol=1e-13)


def test_steps_without_noise_or_without_memory():
    assert Schedule([1.0, 1.0], [1.0, 1.0], [1.0, 0.0]).solve().mu == math.inf
    assert_allclose(Schedule([1.0, 1.0], [1.0, 0.0], [0.0, 2.0]).solve().mu, 0.5, rtol=1e-13)
    assert_allclose(Schedule([1.0, 0.5], [1.0, 0.0], [2.0, 0.0]).solve().mu, 0.5, rtol=1e-13)
    assert_allclose(Schedule([1.0, 0.0], [1.0, 0.0], [2.0, 1.0]).solve().mu, 0.0, atol=2e-100)
    assert_allclose(Schedule([1.0, 1.0], [0.0, 0.0], [2.0, 1.0]).solve().mu, 0.0, atol=2e-100)
    assert_allclose(Schedule(1.0, 0.0, 1.0, steps=3, initial=3.0).solve().mu, math.sqrt(3.0), rtol=1e-13)
    assert gdp_pair(math.inf).noise_multiplier == 0.0
    assert gdp_pair(0.0).mu <= 1.1e-100


def test_what_expands_or_contracts_beyond_doubles():
    steps = 5000
    grown = Schedule(1.5, np.r_[1.0, np.zeros(steps - 1)], 1.0).solve().mu
    assert_allclose(grown, math.sqrt(1.0 - 1.5**-2), rtol=1e-9)  # sum of 1.5^{-2j} from the use on
    assert Schedule(0.5, np.r_[1.0, np.zeros(steps - 1)], 1.0).solve().mu < 1e-99
    assert Schedule(1e40, [1.0, 0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0, 1.0]).solve().mu > 1.4
    assert Schedule(1e40, np.r_[1.0, np.zeros(99)], np.r_[np.zeros(99), 1.0]).solve().mu == math.inf
    two = np.zeros(steps)
    two[[0, -1]] = 1.0
    assert_allclose(Schedule(1.5, two, 1.0).solve().mu, math.sqrt(2.0 - 1.5**-2), rtol=1e-9)
    assert_allclose(Schedule(0.5, two, 1.0).solve().mu, 1.0, rtol=1e-11)


@pytest.mark.parametrize("diameter", [None, 0.01])
def test_a_hundred_thousand_steps_take_seconds(diameter):
    eta = 1.0 / np.sqrt(1.0 + np.arange(100_000))
    start = time.process_time()
    found = Schedule(1.0, 1e-3 * eta, eta, diameter=diameter).solve()
    assert time.process_time() - start < 10.0
    if diameter is None:
        assert found.zeros.size == 100_000, "falling step sizes pay at every step"
        assert_allclose(found.mu, 1e-3 * math.sqrt(100_000), rtol=1e-9)  # composition
    else:
        near = [eta[found.start + d :] for d in (-1, 0, 1)]
        costs = [(0.01 + 1e-3 * e.sum()) / math.sqrt(float(np.square(e).sum())) for e in near]
        assert costs[1] == min(costs), "a restart a step earlier or later is no better"
        assert_allclose(found.mu, costs[1], rtol=1e-9)


# one pass


@pytest.mark.parametrize(("p", "name"), [(FIG2, "fig2"), (FIG3, "fig3")], ids=["fig2", "fig3"])
def test_the_plots_have_their_mu(p, name):
    expected = {int(i): float(mu) for i, mu in REFERENCE[name].items()}
    without = SimpleNamespace(**{**vars(p), "diameter": math.inf})
    assert_allclose(pnsgd_mu(without, list(expected)), list(expected.values()), rtol=1e-12)
    assert_allclose(pnsgd_mu(p, [39, 40]), [expected[39], expected[40]], rtol=1e-12)


def test_check_values_of_the_curve():
    # mpmath at 50 digits: theta at epsilon = 0.5 for mu = 0.218217890235992381 and 0.707106781186547524
    logs = gaussian_log_delta(0.5, pnsgd_mu(FIG2, [20, 39]))
    assert_allclose(np.exp(logs), [0.00104735756090745727, 0.123724879557206602], rtol=1e-12)
    assert_allclose(math.exp(log_contraction_of(FIG3)), 0.845154254728516578, rtol=1e-15)


def test_the_contraction_is_never_rounded_below_the_truth():
    """Against 60 digits, also where M is next to 0: 1 - M^2 is a difference from 1 there."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        beta = float(10 ** rng.uniform(-2, 2))
        rho = beta * float(rng.choice([1.0, 0.999999, rng.uniform(0.1, 1.0)]))
        eta = (beta + rho) / (2 * beta * rho) * (1 - float(10 ** rng.uniform(-15, -1)))
        eta = min(eta, 2 / (beta + rho))
        run = one_pass(smoothness=beta, strong_convexity=rho, step_size=eta)
        with mp.workdps(60):
            b, r, e = mp.mpf(beta), mp.mpf(rho), mp.mpf(eta)
            square = 1 - 2 * e * b * r / (b + r)
            if square <= 0:
                continue
            assert log_contraction_of(run) >= mp.log(square) / 2


@pytest.mark.parametrize("diameter", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("rho", [0.0, 0.4, 1.0, -0.3])
def test_the_closed_form_is_the_solver(diameter, rho):
    p = one_pass(diameter=diameter, strong_convexity=rho, num_records=20)
    m = math.exp(log_contraction_of(p)) if log_contraction_of(p) > -math.inf else 0.0
    for i in (1, 2, 10, 19, 20):
        shift = np.zeros(20)
        shift[i - 1] = 2.0 * p.step_size
        found = Schedule(m, shift, p.step_size * p.noise_scale, diameter=diameter).solve()
        assert_allclose(pnsgd_mu(p, i), found.mu, rtol=1e-12, atol=1e-99)


def test_a_million_records_in_a_moment():
    p = one_pass(num_records=10**6, strong_convexity=0.4)
    start = time.process_time()
    mu, log_mu = pnsgd_mu(p, np.arange(1, 10**6 + 1)), float(pnsgd_log_mu(p, 1))
    assert time.process_time() - start < 2.0
    assert (np.diff(mu) >= 0.0).all()
    assert mu[0] == 1e-100
    assert_allclose(log_mu, (10**6 - 1) * log_contraction_of(p) + 0.5 * math.log1p(-math.exp(2 * log_contraction_of(p))), rtol=1e-12)


# truth


def test_a_quadratic_loss_attains_the_bound():
    """Equal curvature in every step and no projection: the last iterates are Gaussians, exactly mu apart."""
    rng = np.random.default_rng(11)
    for _ in range(40):
        steps, c = int(rng.integers(1, 60)), float(rng.uniform(0.05, 1.0))
        s, tau = float(rng.exponential(1.0)), float(rng.exponential(1.0)) + 0.1
        later = c ** np.arange(steps)[::-1]
        exact = s * later.sum() / (tau * math.sqrt(np.square(later).sum()))
        assert_allclose(Schedule(c, s, tau, steps=steps).solve().mu, exact, rtol=1e-9)


def instance(rng, projected):
    """Random quadratic losses in one dimension: slope and offset of every step, its noise, and the record's shifts."""
    steps = int(rng.integers(1, 7 if projected else 40))
    rho, beta = np.sort(rng.uniform(0.0, 1.0, 2))
    eta = float(rng.uniform(0.1, 1.9 / (beta + 0.1)))
    slope = 1.0 - eta * rng.uniform(rho, beta, steps)
    offset = rng.normal(0.0, 0.5, steps)
    noise = rng.uniform(0.3, 1.5) * rng.uniform(0.7, 1.3, steps)
    size = rng.exponential(0.5, steps) * (rng.random(steps) < rng.choice([0.3, 1.0]))
    size[rng.integers(steps)] = 0.5
    signed = size * (rng.choice([-1.0, 1.0], steps) if rng.random() < 0.3 else 1.0)
    return slope, offset, noise, size, signed, 1.0 - gap_of(eta, float(beta), float(rho))


def test_no_unprojected_instance_is_above_the_bound():
    rng, tight = np.random.default_rng(12), 0
    for _ in range(200):
        slope, _, noise, size, signed, c = instance(rng, projected=False)
        later = np.append(np.cumprod(slope[:0:-1])[::-1], 1.0)
        exact = abs(float(later @ signed)) / math.sqrt(float(np.square(later * noise).sum()))
        bound = Schedule(c, size, noise).solve().mu
        assert exact <= bound * (1 + 1e-12)
        assert (gaussian_log_delta(EPSILON, max(exact, 1e-12)) <= gaussian_log_delta(EPSILON, bound) + 1e-12).all()
        tight += exact > 0.9 * bound
    assert tight > 10


def last_iterate(slope, offset, noise, start, far, at):
    """Density at the points `at`, and the masses at both ends, of the last of x <- clip(slope x + offset + noise) on [0, far]."""
    nodes, weights = np.polynomial.legendre.leggauss(80)
    nodes, weights = far * (nodes + 1) / 2, far * weights / 2
    density, low, high = None, None, None
    for t, (a, b, tau) in enumerate(zip(slope, offset, noise, strict=True)):
        where, mass = (np.array([start]), np.array([1.0])) if density is None else (
            np.concatenate([nodes, [0.0, far]]), np.concatenate([weights * density, [low, high]]))
        centre = a * where + b
        points = nodes if t + 1 < len(slope) else at
        normal = np.exp(-0.5 * np.square((points[:, None] - centre) / tau)) / (tau * math.sqrt(2 * math.pi))
        density, low, high = normal @ mass, float(ndtr(-centre / tau) @ mass), float(ndtr((centre - far) / tau) @ mass)
    return density, low, high


def test_no_projected_instance_is_above_the_bound():
    """Exact truncated chains by quadrature: 60 instances, both orders; what is left of the quadrature's error is below 1e-4."""
    rng, restarted, close = np.random.default_rng(13), 0, 0
    for _ in range(60):
        slope, offset, noise, size, signed, c = instance(rng, projected=True)
        far = float(rng.uniform(0.5, 3.0)) * rng.choice([0.3, 1.0])
        start, at = float(rng.uniform(0.0, far)), np.linspace(0.0, far, 601)
        runs = [last_iterate(slope, o, noise, start, far, at) for o in (offset, offset + signed)]
        assert_allclose([np.trapezoid(d, at) + a + b for d, a, b in runs], 1.0, rtol=1e-4)
        found = Schedule(c, size, noise, diameter=far).solve()
        restarted += found.start > 0
        for (p, p0, p1), (q, q0, q1) in (runs, runs[::-1]):
            for epsilon in EPSILON:
                g = math.exp(epsilon)
                exact = float(np.trapezoid(np.maximum(p - g * q, 0.0), at)) + max(p0 - g * q0, 0.0) + max(p1 - g * q1, 0.0)
                bound = math.exp(float(gaussian_log_delta(epsilon, found.mu)))
                assert exact <= bound + 1e-4 * bound + 1e-6
                close += exact > 0.7 * bound > 0.01
    assert restarted > 5
    assert close > 20


def test_a_contraction_understated_is_caught_by_the_instances():
    """The comparison above can fail: with c taken 5 % too small some instance exceeds the bound."""
    steps, c = 12, 0.9
    later = c ** np.arange(steps)[::-1]
    exact = later.sum() / math.sqrt(np.square(later).sum())
    assert exact > Schedule(0.95 * c, 1.0, 1.0, steps=steps).solve().mu


def test_gap_is_the_spectrum_s():
    for eta, beta, rho in ((0.5, 1.0, 0.4), (1.9, 1.0, 0.4), (0.5, 1.0, -0.4), (2.5, 1.0, 0.0), (1.0, 1.0, 1.0)):
        c = max(abs(1 - eta * rho), abs(1 - eta * beta))
        assert_allclose(1.0 - gap_of(eta, beta, rho), c, rtol=1e-14, atol=1e-14)
        assert gap_of(eta, beta, rho) <= 1.0 - c + 1e-16


# bad input


@pytest.mark.parametrize("call", [
    lambda: Schedule(-0.1, [1.0], 1.0), lambda: Schedule(1.0, [-1.0], 1.0), lambda: Schedule(1.0, [1.0], -1.0),
    lambda: Schedule(1.0, [1.0, 0.0], [1.0]), lambda: Schedule(1.0, 1.0, 1.0), lambda: Schedule(1.0, 1.0, 1.0, steps=0),
    lambda: Schedule(1.0, [[1.0]], 1.0), lambda: Schedule(float("nan"), [1.0], 1.0), lambda: Schedule(1.0, [1e50], 1.0),
    lambda: Schedule(1e50, [1.0], 1.0),
    lambda: Schedule(1.0, [1.0], 1.0, diameter=-1.0), lambda: Schedule(1.0, [1.0], 1.0, initial="0"),
    lambda: pnsgd_mu(one_pass(noise="laplace"), 1), lambda: pnsgd_mu(FIG2, 0), lambda: pnsgd_mu(FIG2, 41), lambda: pnsgd_mu(FIG2, 1.5),
])
def test_bad_input_is_refused_in_the_one_shape(call):
    with pytest.raises((ValueError, TypeError), match=SHAPE):
        call()
