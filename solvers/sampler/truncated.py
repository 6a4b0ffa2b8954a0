"""Gaussians restricted to an interval, exactly, however far out it lies and however narrow it is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import erf, log_ndtr, ndtri_exp

from solvers.sampler.stock import Stock

Array = npt.NDArray[np.float64]
ROOT = np.sqrt(2.0)
NARROW = 2.0**-26  # e^{-x^2/2} is 1 in doubles below


def truncated(low: Array, high: Array, stock: Stock) -> Array:
    """N(0, 1) conditional on [low, high], entry by entry; infinite ends are allowed.

    By the inverse of the distribution function, always in its lower tail, where logarithms keep every digit: an interval around 0 is
    cut there, and each side is taken with its share. A side that is narrower than 2^-26 has a constant density to the last bit, and is
    uniform.
    """
    left, right = erf(-np.minimum(low, 0.0) / ROOT), erf(np.maximum(high, 0.0) / ROOT)  # odd, so that no digit is lost next to 0
    split = stock.uniform(low.size).reshape(low.shape) * (left + right) < left
    below = (high <= 0.0) | ((low < 0.0) & split)
    near = np.where(below, np.minimum(high, 0.0), -np.maximum(low, 0.0))
    far = np.where(below, low, -high)
    u = stock.uniform(low.size).reshape(low.shape)
    with np.errstate(divide="ignore", under="ignore", invalid="ignore"):
        at = np.logaddexp(np.log(u) + log_ndtr(near), np.log1p(-u) + log_ndtr(far))
        found = np.where(far < near, np.clip(ndtri_exp(at), far, near), near)
        found = np.where(-far < NARROW, far + u * (near - far), found)
    return np.asarray(np.where(below, found, -found))
