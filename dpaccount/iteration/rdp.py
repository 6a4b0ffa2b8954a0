"""Renyi bounds D_a <= r a of the last iterate, and their conversions to delta for arrays of rates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP
from dpaccount.conversions import renyi_log_delta

Array = npt.NDArray[np.float64]
SOURCES = ("best", "FMTT18", "BBGG19")


def fmtt18(sensitivity: float, after: Array) -> Array:
    """r = 2L^2/(sigma^2 (k + 1)) with `sensitivity` 2L/sigma and k steps after the record (FMTT18, Theorem 23).

    For convex smooth losses with step size at most 2/beta; no diameter is needed.
    """
    return np.asarray(0.5 * sensitivity**2 / (after + 1.0))


def bbgg19(sensitivity: float, after: Array, factor: float) -> Array:
    """r = 2L^2/sigma^2 at k = 0 and 2L^2/(k sigma^2) M^{k+1} for k > 0 (BBGG19, Theorem 5)."""
    with np.errstate(divide="ignore", under="ignore"):
        later = 0.5 * sensitivity**2 / np.maximum(after, 1.0) * np.power(factor, after + 1.0)
    return np.asarray(np.where(after > 0.0, later, 0.5 * sensitivity**2))


def zcdp_log_delta(rate: Any, epsilon: Any, conversion: str) -> Array:
    """log delta that D_a <= r a for every a > 1 implies at epsilon >= 0, elementwise; 0 where it says nothing.

    ``mironov`` has the closed form -(eps - r)^2/(4r) for eps > r. For ``improved`` the slope in the order,
    r (2a - 1) - eps + log(1 - 1/a), increases, and Newton's method in log(a - 1) finds its zero: any order is valid.
    """
    r, e = np.broadcast_arrays(np.asarray(rate, dtype=float), np.asarray(epsilon, dtype=float))
    with np.errstate(all="ignore"):
        if conversion == "mironov":
            value = np.where(e > r, -((e - r) ** 2) / (4 * r), 0.0)
        elif conversion == "improved":
            value = _improved(r, e)
        else:
            flat = [_optimal(float(a), float(b)) for a, b in zip(r.ravel(), e.ravel(), strict=True)]
            value = np.array(flat).reshape(r.shape)
    value = np.where(r == 0.0, -np.inf, np.where(r == np.inf, 0.0, value))
    return np.minimum(value, 0.0)


def zcdp_error(rate: Any, epsilon: Any, log_delta: Array) -> Array:
    """The rounding of `zcdp_log_delta`, with the rate off by a few ulps: |d log delta/d log r| = r a (a - 1)."""
    r, e = np.asarray(rate, dtype=float), np.asarray(epsilon, dtype=float)
    with np.errstate(all="ignore"):
        order = 1.0 + np.maximum(e / r, 1.0)
        error = 8 * ULP * (np.abs(log_delta) + r * order**2 + 1.0 + np.abs(np.log(r)))
    return np.asarray(np.where((r > 0.0) & (r < np.inf) & np.isfinite(log_delta), error, 0.0))


def _improved(r: Array, e: Array) -> Array:
    """(a-1)(r a - eps) + (a-1) log(a-1) - a log a at its minimum over a = 1 + e^t."""
    order = np.maximum((e / r + 1.0) / 2, 1.0)
    t = np.log(np.maximum(order - 1.0, 1e-3))
    for _ in range(12):
        b = np.exp(t)
        slope = r * (2 * b + 1) - e - np.log1p(1 / b)
        step = slope / (2 * r * b + 1 / (1 + b))
        t = np.clip(t - np.clip(step, -3.0, 3.0), -700.0, 700.0)
        if not np.any(np.abs(step) >= 1e-9):
            break
    b = np.exp(t)
    return np.asarray(b * (r * (1 + b) - e) - np.log1p(b) - b * np.log1p(1 / b))


def _optimal(r: float, e: float) -> float:
    return renyi_log_delta(lambda a: r * a, e, "optimal").value if 0.0 < r < np.inf else 0.0
