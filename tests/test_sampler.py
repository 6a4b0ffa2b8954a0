"""The alternating sampler against laws known by formula or quadrature, and its bounds against what really happens.

False alarms: Kolmogorov-Smirnov and moment tests at 1e-5 or below each, with fixed seeds.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from scipy.special import kolmogorov, ndtr

from solvers.losses import ClippedSquared, Logistic, Multinomial, PerExampleLoss, Quantile
from solvers.problem import Problem
from solvers.random import InsecureRandomnessWarning, RandomSource
from solvers.sampler import Plan, Target, expected_seconds, planned, sample
from solvers.sampler.chain import effective_sample_size, r_hat
from solvers.sampler.estimators import poisson_error, reference_error, series_error
from solvers.sampler.inner import KINDS
from solvers.sampler.stock import Stock
from solvers.sets import Box, L1Ball, L2Ball, Simplex, WholeSpace

FALSE_ALARM = 1e-5
OWN = PerExampleLoss(lambda t, x, y: x @ t, lambda t, x, y: x, gradient_bound=1.0)


def source(seed: int) -> RandomSource:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureRandomnessWarning)
        return RandomSource.seeded_for_tests_only(seed)


def distance_to(draws: np.ndarray, grid: np.ndarray, density: np.ndarray) -> float:
    """p-value of the Kolmogorov-Smirnov distance to a density on a grid."""
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
    level = np.interp(np.sort(draws), grid, below / below[-1])
    n = len(draws)
    gap = max(np.max(np.arange(1, n + 1) / n - level), np.max(level - np.arange(n) / n))
    return float(kolmogorov(gap * math.sqrt(n)))


# estimators


@pytest.mark.parametrize("tau", [0.05, 0.1, 0.3, 0.8])
def test_the_series_error_is_its_integral(tau):
    with mp.workdps(40):
        t = mp.mpf(tau)
        exact = mp.quad(lambda s: mp.exp(s) * mp.erfc(s / t / mp.sqrt(2)), [0.5, 0.5 + 5 * t, 0.5 + 40 * t])
    assert series_error(tau) == pytest.approx(float(exact), rel=1e-8)
    assert series_error(tau) >= float(exact)


@pytest.mark.parametrize(("kind", "tau"), [("series", 0.25), ("series", 0.5), ("poisson", 0.5), ("poisson", 1.2)])
def test_estimates_are_unbiased_and_their_error_is_below_its_bound(kind, tau):
    """Differences of linear functions with random slopes along one line: the worst tails that the bound allows for one record."""
    rng, many = np.random.default_rng(4), 200_000
    slopes = np.sign(rng.normal(size=64)) * tau
    problem = Problem(np.ones((64, 1)), np.zeros(64), Quantile())
    target = Target(problem, 1.0, 1.0)
    plan = Plan(kind, 1.0, 1, 0.0, 0.0, rate=2.0 if kind == "poisson" else 0.0, cap=4.0 if kind == "poisson" else 2.0)
    inner = KINDS[kind](target, plan, Stock(source(5)))
    shift = np.random.default_rng(6).normal(size=many)
    object.__setattr__(target, "differences", lambda records, at, of: slopes[records] * (at - of)[:, 0])
    rho = inner.estimates(np.zeros((many, 1)), shift[:, None])
    expected = np.exp(slopes.mean() * shift)
    noise = (rho - expected).std() / math.sqrt(many)
    assert abs((rho - expected).mean()) <= 4.9 * noise
    off = np.abs(rho - np.clip(rho, 0.0, plan.cap))
    bound = series_error(tau) if kind == "series" else poisson_error(tau, plan.rate, plan.cap)
    assert off.mean() - 4.9 * off.std() / math.sqrt(many) <= bound
    assert off.mean() > 0.0, "this is where the bound matters"


@pytest.mark.parametrize(("tau", "references", "cap"), [(0.3, 1, 2.0), (0.5, 4, 4.0), (0.9, 8, 8.0), (1.5, 8, 32.0)])
def test_the_error_by_references_is_below_its_bound_where_heights_are_linear(tau, references, cap):
    """A linear H makes heights Gaussian, the worst that concentration allows; given R the distance is a one-dimensional integral."""
    x = np.linspace(-12.0, 12.0, 4001)
    weight = np.exp(-x * x / 2)
    weight /= weight.sum()
    level = np.random.default_rng(3).normal(size=4000) * tau / math.sqrt(references)
    rho = np.exp(level[:, None] - tau * x)
    kept = np.minimum(rho, cap)
    first, second = (part * weight / (part @ weight)[:, None] for part in (rho, kept))
    exact = np.abs(first - second).sum(axis=1) / 2
    found, noise = float(exact.mean()), float(exact.std()) / math.sqrt(4000)
    assert found - 4.5 * noise <= reference_error(tau, references, cap)
    assert found > 0.005 * reference_error(tau, references, cap), "not idle"


def test_the_tail_of_one_difference_is_gaussian_or_lighter():
    """Caffarelli's contraction, for a kinked loss and proposals restricted to a ball."""
    rng = np.random.default_rng(2)
    problem = Problem(np.array([[1.0, 0.0], [0.6, 0.8]]), [0.1, -0.3], Quantile(), L2Ball(0.7))
    target, scale, many = Target(problem, 3.0, 1.0), 0.4, 200_000
    points = rng.normal([0.5, 0.4], scale, (6 * many, 2))
    points = points[np.linalg.norm(points, axis=1) <= 0.7][: 2 * many]
    half = len(points) // 2
    tau = target.lipschitz * scale * math.sqrt(2.0)
    for record in (0, 1):
        differences = target.differences(np.full(half, record), points[:half], points[half : 2 * half])
        for t in np.linspace(0.1, 3.0, 12) * tau:
            share = float((differences > t).mean())
            assert share <= ndtr(-t / tau) + 4.5 * math.sqrt(ndtr(-t / tau) / half)


# chains


def linear(dimension: int, constraint: object = None) -> Problem:
    """Losses that are linear where the chain is: quantile losses of labels far away."""
    rng = np.random.default_rng(dimension)
    rows = rng.normal(size=(12, dimension))
    return Problem(rows / np.linalg.norm(rows, axis=1, keepdims=True) * 0.9, np.full(12, 300.0), Quantile(), constraint or WholeSpace())


@pytest.mark.parametrize(("inner", "draws", "t"), [
    ("exact", 20_000, 1e-3), ("values", 2000, 0.01), ("series", 500, 0.02), ("poisson", 500, 0.02),
])
def test_a_linear_loss_and_a_quadratic_make_a_gaussian(inner, draws, t):
    problem = linear(3)
    target = Target(problem, 2.0, 2.0)
    plan = planned(target, t, inner=inner)
    assert plan.total_variation <= t
    points = sample(target, plan, chains=draws, source=source(11), progress=False).points
    slope = problem.data_gradient(np.zeros(3)) / 12
    mean, spread = -2.0 * slope / target.curvature, 1 / math.sqrt(target.curvature)
    assert (np.abs(points.mean(axis=0) - mean) <= (4.5 / math.sqrt(draws) + 2 * t) * spread).all()
    covariance = np.cov(points.T) * target.curvature
    assert np.abs(covariance - np.eye(3)).max() <= 6.5 / math.sqrt(draws) + 10 * t
    for k in range(3):
        grid = np.linspace(-8.0, 8.0, 4001)
        assert distance_to((points[:, k] - mean[k]) / spread, grid, np.exp(-grid * grid / 2)) > FALSE_ALARM


@pytest.mark.parametrize("inner", ["exact", "values", "series", "poisson"])
def test_mean_absolute_loss_on_an_interval_against_a_grid(inner):
    rows = np.random.default_rng(1).uniform(-1.0, 1.0, 9)
    problem = Problem(np.ones((9, 1)), rows, Quantile(), L2Ball(1.0))
    target = Target(problem, 1.5, 0.5)
    draws = sample(target, planned(target, 0.02, inner=inner), chains=500, source=source(3), progress=False)
    grid = np.linspace(-1.0, 1.0, 8001)
    height = np.exp(-target.values(grid[:, None]) - target.curvature * grid**2 / 2)
    assert distance_to(draws.points[:, 0], grid, height) > FALSE_ALARM


def test_mean_absolute_loss_in_the_plane_against_a_grid():
    rng = np.random.default_rng(5)
    problem = Problem(rng.normal(size=(15, 2)), rng.normal(size=15), Quantile(), L1Ball(1.5))
    target = Target(problem, 8.0, 0.3)
    points = sample(target, planned(target, 1e-3), chains=3000, source=source(4), progress=False).points
    axis = np.linspace(-1.5, 1.5, 601)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    height = np.exp(-target.values(grid) - target.curvature * (grid**2).sum(axis=1) / 2) * (np.abs(grid).sum(axis=1) <= 1.5)
    table = height.reshape(601, 601)
    for k in (0, 1):
        assert distance_to(points[:, k], axis, table.sum(axis=1 - k)) > FALSE_ALARM
    turned = grid @ [0.6, 0.8]
    order = np.argsort(turned)
    level = np.interp(np.sort(points @ [0.6, 0.8]), turned[order], np.cumsum(height[order]) / height.sum())
    gap = np.abs(level - np.arange(1, 3001) / 3000).max()
    assert kolmogorov(gap * math.sqrt(3000)) > FALSE_ALARM


@pytest.fixture(scope="module")
def radius() -> Problem:
    """Mean radius of the cells of breast_cancer, on [-1, 1], with its labels."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    return Problem(np.clip((data.data[:, :1] - 14.0) / 10.0, -1.0, 1.0), 2.0 * data.target - 1.0, Logistic())


@pytest.mark.parametrize("inner", ["exact", "differences"])
def test_the_posterior_of_real_data(radius, inner):
    """The figures of the project's notes, by quadrature before any code existed: mean, deviation and quantiles."""
    asked = radius if inner == "exact" else Problem(radius.rows, radius.targets, Logistic(), L2Ball(6.0))  # 17 deviations away
    target = Target(asked, 200.0, 0.05)
    draws = sample(target, planned(target, 1e-4, inner=inner), chains=800, source=source(12), progress=False)
    assert draws.tally.outside_range == 0
    grid = np.linspace(-4.0, 1.0, 4001)
    height = np.exp(-target.values(grid[:, None]) - target.curvature * grid**2 / 2)
    height /= height.sum()
    assert height @ grid == pytest.approx(-1.56761803, abs=1e-7)
    assert math.sqrt(height @ grid**2 - (height @ grid) ** 2) == pytest.approx(0.25998673, abs=1e-7)
    x = draws.points[:, 0]
    assert abs(x.mean() + 1.56761803) <= 4.0 * 0.25998673 / math.sqrt(800)
    assert distance_to(x, grid, height) > FALSE_ALARM
    for share, place in ((0.05, -1.996707), (0.95, -1.141451)):
        assert (x <= place).mean() == pytest.approx(share, abs=4.5 * math.sqrt(0.05 * 0.95 / 800))


def test_replacing_a_real_row_moves_the_law_by_less_than_the_bound(radius):
    from dpaccount.regularized import RegularizedExponentialMechanism

    n, bound = radius.num_records, RegularizedExponentialMechanism(2.0, radius.num_records, 200.0, 0.05).law.total_variation
    assert bound == pytest.approx(0.08850428, abs=1e-7)
    grid = np.linspace(-6.0, 6.0, 1201)

    def law(problem: Problem) -> np.ndarray:
        target = Target(problem, 200.0, 0.05)
        height = np.exp(-target.values(grid[:, None]) - target.curvature * grid**2 / 2)
        return np.asarray(height / height.sum())

    base, largest = law(radius), 0.0
    for i in range(0, n, 97):
        for x, y in ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0)):
            rows, labels = radius.rows.copy(), radius.targets.copy()
            rows[i], labels[i] = x, y
            largest = max(largest, float(np.abs(law(Problem(rows, labels, Logistic())) - base).sum() / 2))
    assert 0.02 < largest <= bound


def test_the_chains_own_error_is_below_its_bound_and_not_idle():
    """Gaussian target in one dimension: after every step the law is Gaussian, and the distance has a formula."""
    target = Target(linear(1), 3.0, 1.0)
    m, step = target.curvature, 0.3 / target.curvature
    slope = float(target.value_and_gradient(np.zeros((1, 1)))[1][0, 0])
    v, mean, variance, nearest = 1 / (m + 1 / step), 0.0, 0.0, 0.0
    start = target.distance + math.sqrt(1 / m)
    grid = np.linspace(-12.0, 12.0, 40_001) / math.sqrt(m)
    goal = np.exp(-m * (grid + slope / m) ** 2 / 2)
    for steps in range(1, 25):
        mean, variance = v * (mean / step - slope), v + (v / step) ** 2 * (variance + step)
        height = np.exp(-((grid - mean) ** 2) / (2 * variance))
        exact = float(np.abs(height / height.sum() - goal / goal.sum()).sum() / 2)
        bound = start / math.sqrt(2 * math.pi * step) / (1 + step * m) ** (steps - 1)
        assert exact <= bound
        nearest = max(nearest, exact / bound)
    assert nearest > 0.15


def test_a_step_ten_times_too_long_is_caught():
    """By the plan's own bound, by the rate at which estimates leave their range, and by the law."""
    rows = np.random.default_rng(1).uniform(-1.0, 1.0, 9)
    problem = Problem(np.ones((9, 1)), rows, Quantile(), L2Ball(1.0))
    target = Target(problem, 6.0, 1.0)
    right = planned(target, 0.05, inner="series")
    wrong = replace(right, step_size=60 * right.step_size, steps=right.steps // 10)
    good, bad = (sample(target, p, chains=60, source=source(6), progress=False).diagnostics() for p in (right, wrong))
    assert good["outside_range"] < 1e-4
    assert bad["outside_range"] > 100 * good["outside_range"]
    assert bad["outside_range"] > 1e-3


def test_queries_are_counted_exactly():
    target = Target(linear(2), 2.0, 2.0)
    calls = 0
    honest = Target.differences

    def counting(records, at, of):
        nonlocal calls
        calls += 2 * len(records)
        return honest(target, records, at, of)

    object.__setattr__(target, "differences", counting)
    plan = replace(planned(target, 0.1, inner="series"), steps=200)
    draws = sample(target, plan, chains=3, source=source(7), progress=False)
    assert draws.tally.queries == calls
    assert draws.diagnostics()["queries_per_draw"] == calls / 3
    assert 0.3 < draws.diagnostics()["acceptance_rate"] < 0.7


@pytest.mark.parametrize("inner", ["differences", "values"])
def test_values_of_all_losses_are_counted_exactly(inner):
    target = Target(Problem([[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0], Logistic(), L2Ball(1.0)), 2.0, 2.0)
    calls, honest = 0, Target.values

    def counting(points):
        nonlocal calls
        calls += len(points)
        return honest(target, points)

    object.__setattr__(target, "values", counting)
    object.__setattr__(target, "value_and_gradient", None)  # not asked
    draws = sample(target, replace(planned(target, 0.1, inner=inner), steps=50), chains=3, source=source(7), progress=False)
    assert draws.tally.queries == calls


def test_difference_quotients_are_as_near_as_their_slack_says():
    problem = Problem(np.random.default_rng(0).normal(size=(30, 4)), np.tile([1.0, -1.0], 15), Logistic(), L2Ball(3.0))
    target = Target(problem, 40.0, 1.0)
    inner = KINDS["differences"](target, planned(target, 0.1, inner="differences"), Stock(source(1)))
    points = np.random.default_rng(1).normal(size=(50, 4))
    value, slope = inner._oracle(points)
    exact_value, exact_slope = target.value_and_gradient(points)
    np.testing.assert_allclose(value, exact_value, rtol=1e-13)
    reach = 3.0 + np.linalg.norm(points, axis=1)
    off = np.linalg.norm(slope - exact_slope, axis=1) * reach
    assert (off <= inner.slack).all()
    assert off.max() > 0.01 * inner.slack


def test_plans_keep_what_they_promise():
    target = Target(linear(4), 5.0, 1.0)
    for t in (0.5, 1e-3, 1e-9):
        plans = [planned(target, t, inner=kind) for kind in ("exact", "series", "poisson", "values")]
        plans.insert(3, planned(target, t, inner="series", rule="rigorous"))
        for plan in plans:
            assert 0.0 < plan.total_variation <= t
        assert plans[0].steps < plans[2].steps < plans[1].steps < plans[3].steps
        assert plans[3].step_size * target.lipschitz**2 < 2.0**-8
        assert plans[0].inner_error == 0.0
        assert plans[4].steps < plans[2].steps


def test_a_plan_never_claims_that_nothing_is_off():
    """The chain's error underflows long before it is 0."""
    plan = planned(Target(Problem([[1.0]], [1.0], Logistic(), L2Ball(1.0)), 1e-90, 1.0), 1e-300)
    assert 0.0 < plan.total_variation <= 1e-300


def test_time_is_estimated_from_a_few_steps():
    target = Target(linear(2), 4.0, 1.0)
    plan = planned(target, 1e-3, inner="series")
    found = expected_seconds(target, plan)
    assert 1e-6 < found / plan.steps < 0.1, "microseconds to a tenth of a second a step"
    twice = expected_seconds(target, replace(plan, steps=1000 * plan.steps))
    assert 100 * found < twice < 10_000 * found, "in proportion, on a machine that may be busy"


def test_mixing_diagnostics():
    rng = np.random.default_rng(0)
    free = rng.normal(size=(400, 4, 2))
    assert (np.abs(r_hat(free) - 1.0) < 0.03).all()
    assert effective_sample_size(free).min() > 1000
    slow = np.cumsum(rng.normal(size=(400, 4, 1)), axis=0)
    assert r_hat(slow)[0] > 1.2
    assert effective_sample_size(slow)[0] < 100
    noise = rng.normal(size=(4000, 8, 1))
    walk = np.empty_like(noise)
    walk[0] = noise[0]
    for t in range(1, 4000):
        walk[t] = 0.8 * walk[t - 1] + 0.6 * noise[t]
    assert effective_sample_size(walk)[0] == pytest.approx(32_000 / 9, rel=0.25)


@pytest.mark.parametrize("call", [
    lambda: Target(Problem([[1.0]], [1.0], Logistic()), 1.0, 0.0),
    lambda: Target(Problem([[1.0]], [1.0], Logistic()), 0.0, 1.0),
    lambda: Target(Problem([[1.0]], [1.0], Logistic(), Box(0.5, 1.0)), 1.0, 1.0),
    lambda: Target(Problem([[1.0]], [1.0], OWN), 1.0, 1.0),
    lambda: planned(Target(linear(2), 1.0, 1.0), 0.0),
    lambda: planned(Target(linear(2), 1.0, 1.0), 0.1, inner="best"),
    lambda: planned(Target(linear(2), 1.0, 1.0), 0.1, rule="rigorous"),
    lambda: planned(Target(linear(2, L2Ball(1.0)), 1.0, 1.0), 0.1, inner="differences"),
    lambda: planned(Target(Problem([[1.0]], [1.0], Logistic()), 1.0, 1.0), 0.1, inner="differences"),
    lambda: sample(Target(Problem([[1.0, 0.0]], [1.0], Logistic(), Simplex()), 1.0, 1.0), Plan("exact", 0.1, 3, 0.1, 0.0)),
    lambda: sample(Target(linear(2), 1.0, 1.0), Plan("exact", 0.1, 3, 0.1, 0.0), chains=0),
    lambda: sample(Target(Problem([[1.0]], [1], Multinomial(2)), 1.0, 1.0), Plan("series", 0.1, 3, 0.1, 0.0), progress=False),
], ids=range(12))
def test_what_cannot_be_sampled_is_refused(call):
    from test_bad_input import SHAPE

    with pytest.raises((ValueError, TypeError), match=SHAPE):
        call()


@pytest.mark.parametrize("inner", ["exact", "differences", "values"])
def test_several_scores_a_record_and_sparse_rows_are_sampled_by_gradients_and_by_values(inner):
    import scipy.sparse

    rng = np.random.default_rng(2)
    rows = rng.normal(size=(8, 2))
    many = Target(Problem(rows, rng.integers(0, 3, 8), Multinomial(3), L2Ball(2.0)), 2.0, 1.0)
    assert sample(many, planned(many, 0.05, inner=inner), chains=2, source=source(1), progress=False).points.shape == (2, 6)
    labels = rng.normal(size=8)
    dense, thin = (
        Target(Problem(kind(rows), labels, ClippedSquared(1.0), L2Ball(2.0)), 2.0, 1.0) for kind in (np.array, scipy.sparse.csr_array)
    )
    one, other = (sample(t, planned(t, 0.05, inner=inner), chains=3, source=source(1), progress=False).points for t in (dense, thin))
    np.testing.assert_allclose(one, other, rtol=1e-12)
