"""Gaussians restricted to sets, against quadrature and exact laws. False alarms: 1e-5 or below a test, with fixed seeds."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.special import kolmogorov, log_ndtr, ndtr

from solvers.losses import Quantile
from solvers.problem import Problem
from solvers.random import InsecureRandomnessWarning, RandomSource
from solvers.sampler import Target, planned, sample
from solvers.sampler.restricted import ByCoordinates, ByRejection, restricted
from solvers.sampler.stock import Stock
from solvers.sampler.truncated import truncated
from solvers.sets import Box, HalfSpaces, L1Ball, L2Ball, Simplex, WholeSpace

FALSE_ALARM = 1e-5
SETS = {
    "l2 ball": L2Ball(1.0), "l1 ball": L1Ball(1.0), "box": Box(-0.5, 1.0), "whole space": WholeSpace(),
    "half-space": HalfSpaces([1.0, 2.0], 1.5), "wedge": HalfSpaces([[1.0, 0.2], [-0.3, 1.0]], [0.8, 0.5]),
    "slab": HalfSpaces([[1.0, 1.0], [-1.0, -1.0]], [1.0, 0.5]), "corner": HalfSpaces([[1.0, 1.0], [1.0, -1.0]], [0.5, 1.0]),
    "triangle": HalfSpaces([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]], [1.0, 0.5, 0.5]),
}


def source(seed: int) -> RandomSource:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureRandomnessWarning)
        return RandomSource.seeded_for_tests_only(seed)


def stock(seed: int) -> Stock:
    return Stock(source(seed))


def members(kind, points: np.ndarray) -> np.ndarray:
    """Which points are in the set, by its definition."""
    if isinstance(kind, HalfSpaces):
        return (points @ kind.normals.T <= kind.offsets + 1e-12).all(axis=-1)
    if isinstance(kind, Box):
        return ((points >= kind.low) & (points <= kind.high)).all(axis=-1)
    if isinstance(kind, WholeSpace):
        return np.ones(points.shape[:-1], dtype=bool)
    return np.linalg.norm(points, ord=2 if isinstance(kind, L2Ball) else 1, axis=-1) <= kind.size


def p_value(level: np.ndarray) -> float:
    """Of the Kolmogorov-Smirnov distance of levels, which are uniform if the law is right."""
    level, n = np.sort(level), len(level)
    gap = max(np.max(np.arange(1, n + 1) / n - level), np.max(level - np.arange(n) / n))
    return float(kolmogorov(gap * math.sqrt(n)))


@pytest.mark.parametrize(("low", "high"), [
    (-1.0, 2.0), (-math.inf, -5.0), (5.0, math.inf), (-math.inf, math.inf), (-1e-3, 6.0), (30.0, 30.01), (-0.5, 0.0), (-math.inf, 3.0),
])
def test_truncated_gaussians_have_their_law(low, high):
    x = truncated(np.full(20_000, low), np.full(20_000, high), stock(3))
    assert ((x >= low) & (x <= high)).all()
    if low >= 0.0:
        x, low, high = -x, -high, -low
    if high <= 0.0:  # by logarithms: P[X <= x] = (Phi(x) - Phi(low))/(Phi(high) - Phi(low))
        part = np.exp(log_ndtr(x) - log_ndtr(high)), math.exp(log_ndtr(low) - log_ndtr(high)) if low > -math.inf else 0.0
        level = (part[0] - part[1]) / (1.0 - part[1])
    else:
        level = (ndtr(x) - ndtr(low)) / (ndtr(high) - ndtr(low))
    assert p_value(level) > FALSE_ALARM


@pytest.mark.parametrize("width", [1e-17, 1e-15, 3e-16, 1e-12, 1e-8, 2e-8])
def test_narrow_intervals_around_the_mean_are_uniform_on_both_sides(width):
    x = truncated(np.full(20_000, -width), np.full(20_000, 3.0 * width), stock(5))
    assert p_value((x + width) / (4.0 * width)) > FALSE_ALARM


def test_far_tails_are_exponential():
    """Mills: at 1e4 deviations the excess times the distance is exponential to eight digits."""
    x = truncated(np.full(20_000, 1e4), np.full(20_000, math.inf), stock(4))
    assert p_value(-np.expm1(-(x - 1e4) * 1e4)) > FALSE_ALARM


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("centre", [(0.1, 0.2), (0.9, 0.3), (1.6, 0.4), (-1.0, -1.5), (3.0, 2.0)])
def test_restricted_gaussians_against_a_grid(name, centre):
    kind, scale, many = SETS[name], 0.5, 20_000
    draws = restricted(kind, 2, stock(8), "test").draw(np.array([centre]), scale, many)[0]
    assert all(kind.contains(point, 1e-12) for point in draws[:500])
    axis = np.linspace(-3.5, 5.5, 601)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    weight = np.exp(-((grid - centre) ** 2).sum(axis=-1) / (2 * scale**2))
    weight *= members(kind, grid)
    weight /= weight.sum()
    for k in (0, 1):
        marginal = weight.sum(axis=1 - k)
        mean, second = marginal @ axis, marginal @ axis**2
        spread = math.sqrt(second - mean * mean)
        assert abs(draws[:, k].mean() - mean) <= 4.5 * spread / math.sqrt(many) + 0.008
        assert draws[:, k].std() == pytest.approx(spread, rel=0.03, abs=0.008)
    product = float((weight * grid[..., 0] * grid[..., 1]).sum())
    assert np.mean(draws[:, 0] * draws[:, 1]) == pytest.approx(product, abs=0.02)


@pytest.mark.parametrize("centre", [-2.0, 0.0, 0.7, 3.0, 40.0])
def test_one_half_space_is_a_truncated_gaussian_along_its_normal(centre):
    """Exactly: the coordinate along the normal by its distribution function, the others Gaussian, and independent of it."""
    normal = np.array([0.6, 0.0, 0.8])
    kind = HalfSpaces(normal * 7.0, 7.0 * 0.5)
    draws = restricted(kind, 3, stock(5), "test").draw(centre * normal[None, :], 0.5, 20_000)[0]
    along = draws @ normal
    end = (0.5 - centre) / 0.5
    assert p_value(np.exp(log_ndtr(np.minimum((along - centre) / 0.5, end)) - log_ndtr(end))) > FALSE_ALARM
    for across in (np.array([0.0, 1.0, 0.0]), np.array([0.8, 0.0, -0.6])):
        assert p_value(ndtr(draws @ across / 0.5)) > FALSE_ALARM
        assert abs(np.corrcoef(draws @ across, along)[0, 1]) < 4.5 / math.sqrt(20_000)


def test_which_way_serves_which_set():
    assert isinstance(restricted(SETS["half-space"], 2, stock(1), "t"), ByCoordinates)
    assert isinstance(restricted(SETS["slab"], 2, stock(1), "t"), ByCoordinates)
    assert isinstance(restricted(SETS["corner"], 2, stock(1), "t"), ByCoordinates)
    assert isinstance(restricted(SETS["wedge"], 2, stock(1), "t"), ByRejection)
    with pytest.raises(ValueError, match="half-spaces"):
        restricted(Simplex(), 2, stock(1), "t")


def test_a_box_costs_nothing_at_its_corner():
    """In 40 dimensions one proposal in 2^40 falls in: coordinates are drawn instead."""
    draws = restricted(Box(0.0, 1.0), 40, stock(2), "t").draw(np.zeros((1, 40)), 0.1, 500)[0]
    assert p_value(2.0 * ndtr(draws.ravel() / 0.1) - 1.0) > FALSE_ALARM


def test_a_gaussian_far_outside_is_drawn_as_well():
    draws = restricted(L2Ball(1.0), 3, stock(9), "test").draw(np.array([[2.0, 0.0, 0.0]]), 0.1, 500)[0]
    assert (np.linalg.norm(draws, axis=1) <= 1.0).all()
    assert draws[:, 0].mean() == pytest.approx(1.0 - 0.1**2 / 1.0, abs=0.01)


def test_a_centre_a_rounding_outside_loses_no_part_of_the_set():
    """There a projection says nothing about the direction; half of the ball would be cut off by a wrong one."""
    turn = np.linspace(0.1, 6.0, 400)
    centres = np.stack([np.cos(turn), np.sin(turn)], axis=1) * (1.0 + 2e-16)
    draws = restricted(L2Ball(1.0), 2, stock(6), "test").draw(centres, 0.05, 50)
    across = np.einsum("ijk,ik->ij", draws, np.stack([-np.sin(turn), np.cos(turn)], axis=1))
    assert abs(np.mean(across)) < 4.5 * 0.05 / math.sqrt(20_000)
    assert across.std() == pytest.approx(0.05, rel=0.03)


def test_a_set_that_is_too_thin_is_refused_clearly():
    flat = HalfSpaces([[1.0, 0.3], [-1.0, -0.3], [0.0, 1.0]], [0.0, 0.0, 1.0])
    with pytest.raises(RuntimeError, match="thin"):
        restricted(flat, 2, stock(1), "t").draw(np.zeros((1, 2)), 0.1, 1)


@pytest.mark.parametrize("inner", ["exact", "values"])
@pytest.mark.parametrize("name", ["half-space", "wedge"])
def test_a_law_on_half_spaces_against_a_grid(name, inner):
    """The whole sampler, kinked losses in the plane: marginals along two directions by Kolmogorov-Smirnov."""
    rng, many = np.random.default_rng(5), 1500 if inner == "exact" else 300
    problem = Problem(rng.normal(size=(15, 2)), rng.normal(size=15) + 1.0, Quantile(), SETS[name])
    target = Target(problem, 8.0 if inner == "exact" else 4.0, 0.6)
    plan = planned(target, 1e-3 if inner == "exact" else 0.01, inner=inner)
    points = sample(target, plan, chains=many, source=source(4), progress=False).points
    axis = np.linspace(-6.0, 6.0, 801)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    inside = (grid @ problem.constraint.normals.T <= problem.constraint.offsets).all(axis=1)
    height = np.exp(-target.values(grid) - target.curvature * (grid**2).sum(axis=1) / 2) * inside
    for direction in ([1.0, 0.0], [0.28, 0.96]):
        turned = grid @ direction
        order = np.argsort(turned)
        level = np.interp(points @ direction, turned[order], np.cumsum(height[order]) / height.sum())
        assert p_value(level) > FALSE_ALARM
