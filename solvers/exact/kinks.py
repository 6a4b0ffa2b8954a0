"""Draws from e^{-rate F}, F piecewise linear on an interval, by inversion: first the piece, then the place in it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from solvers.random import RandomSource

Array = npt.NDArray[np.float64]


def log_mass(slope: Array, half: Array) -> Array:
    """log of the integral of e^{-slope t} over [-half, half]; -inf for an empty interval."""
    z = np.abs(slope) * half
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        wide = z + np.log(-np.expm1(-2.0 * z)) - np.log(np.abs(slope))
        thin = np.log(2.0 * half) + z * z / 6.0
    return np.where(z > 1e-5, wide, thin)


def within(slope: Array, half: Array, uniform: Array) -> Array:
    """The place t in [-half, half] that `uniform` picks from density proportional to e^{-slope t}."""
    z = np.abs(slope) * half
    steep = z > 1e-12
    safe = np.where(steep, np.abs(slope), 1.0)
    down = np.where(steep, -np.log1p(uniform * np.expm1(-2.0 * z)) / safe, 2.0 * half * uniform) - half
    return np.clip(np.where(slope >= 0.0, down, -down), -half, half)


def pick(log_weight: Array, uniform: Array) -> npt.NDArray[np.intp]:
    """Indices with probability proportional to e^{log_weight}, by inversion; those of weight 0 never."""
    total = np.cumsum(np.exp(log_weight - log_weight.max()))
    return np.asarray(np.minimum(np.searchsorted(total, uniform * total[-1], side="left"), len(total) - 1), dtype=np.intp)


def sample_pieces(knots: Array, slopes: Array, rate: float, source: RandomSource, count: int) -> Array:
    """`count` draws; `slopes` of F between consecutive `knots`, which may coincide."""
    width = np.diff(knots)
    height = np.concatenate([[0.0], np.cumsum(slopes * width)])
    middle, half = 0.5 * (height[:-1] + height[1:]), 0.5 * width
    chosen = pick(log_mass(rate * slopes, half) - rate * middle, source.uniform((count,)))
    place = within(rate * slopes[chosen], half[chosen], source.uniform((count,)))
    return np.asarray(0.5 * (knots[:-1] + knots[1:])[chosen] + place)
