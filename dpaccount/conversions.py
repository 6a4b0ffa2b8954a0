"""The three conversions of Renyi divergences to (eps, delta), over all real orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from dpaccount._two_point import joint_epsilon, joint_log_delta
from dpaccount.results import Status

Array = npt.NDArray[np.float64]
CONVERSIONS = ("improved", "mironov", "optimal")


class Conversion(NamedTuple):
    """A converted value with the order that gave it; `log_tail` is log of minus the slope of delta in e^eps, if known."""

    value: float
    order: float
    status: Status
    log_tail: float = math.nan


def renyi_epsilon(
    rdp: Callable[[Any], Any], delta: float, conversion: str = "improved", max_order: float = math.inf,
    first_order: float = 1.0, *, log_delta: float | None = None,
) -> Conversion:
    """The least epsilon >= 0 over real orders 1 < a <= max_order that D_a = rdp(a) implies at `delta`.

    ``mironov`` (M17, Prop. 3), ``improved`` (CKS20, Prop. 12), ``optimal`` (ALCKS21: the largest
    E_gamma over all two-point pairs with D_a <= rho: exact for one order). A `log_delta` replaces `delta`.
    """
    if log_delta is None:
        log_delta = math.log(delta) if delta > 0.0 else -math.inf
    if log_delta >= 0.0:
        return Conversion(0.0, math.inf, Status.ZERO)
    if log_delta == -math.inf:
        return Conversion(math.inf, math.inf, Status.INFINITE_DELTA_ZERO)
    goal, fast = log_delta, _EPSILON["improved" if conversion == "optimal" else conversion]
    value, order, status = _minimise(lambda a: fast(a, rdp(a), goal), max_order, first_order)
    if conversion == "optimal" and 0.0 < value < math.inf:
        # every order gives a valid value, below `improved` at the same order; search around that optimum
        best, at = _refine(lambda a: joint_epsilon(a, _rdp_at(rdp, a), goal), order, max_order)
        if best < value:
            value, order = best, at
    if value <= 0.0:
        return Conversion(0.0, order, Status.ZERO)
    return Conversion(value, order, status)


def renyi_log_delta(
    rdp: Callable[[Any], Any], epsilon: float, conversion: str = "improved", max_order: float = math.inf,
    first_order: float = 1.0,
) -> Conversion:
    """log of the least delta <= 1 over real orders that D_a = rdp(a) implies at `epsilon` (any real number)."""
    fast = _DELTA["improved" if conversion == "optimal" else conversion]
    value, order, status = _minimise(lambda a: fast(a, rdp(a), epsilon), max_order, first_order)
    tail = math.nan
    if conversion == "optimal" and math.isfinite(value):
        best, at = _refine(lambda a: joint_log_delta(a, _rdp_at(rdp, a), epsilon)[0], order, max_order)
        if best < value:
            value, order, tail = best, at, joint_log_delta(at, _rdp_at(rdp, at), epsilon)[1]
    if value >= 0.0:
        return Conversion(0.0, order, Status.OK)
    return Conversion(value, order, status, tail)


def _rdp_at(rdp: Callable[[Any], Any], order: float) -> float:
    return float(np.asarray(rdp(np.array([order])))[0])


def _refine(objective: Callable[[float], float], order: float, max_order: float) -> tuple[float, float]:
    """Least value found near an order, by Brent's method in log(a - 1), and at the order itself."""
    centre, reach = math.log(order - 1), 0.1
    limit = math.log(max_order - 1) if math.isfinite(max_order) else math.inf
    best = objective(order), order
    for _ in range(6):
        low, high = max(centre - reach, math.log(1e-6)), min(centre + reach, limit)
        if not low < high:
            break
        found = minimize_scalar(lambda t: objective(1 + math.exp(t)), bounds=(low, high), method="bounded", options={"xatol": 1e-7})
        t = float(found.x)
        best = min(best, (float(found.fun), 1 + math.exp(t)))
        if t - low > 0.01 * reach and (high - t > 0.01 * reach or high == limit):
            break
        centre, reach = t, 3 * reach  # the least value lies beyond
    return best


def _mironov_epsilon(a: Array, rho: Array, log_delta: float) -> Array:
    return rho - log_delta / (a - 1)


def _improved_epsilon(a: Array, rho: Array, log_delta: float) -> Array:
    return rho + np.log1p(-1 / a) - (log_delta + np.log(a)) / (a - 1)


def _mironov_delta(a: Array, rho: Array, epsilon: float) -> Array:
    return (a - 1) * (rho - epsilon)


def _improved_delta(a: Array, rho: Array, epsilon: float) -> Array:
    return (a - 1) * (rho - epsilon) + a * np.log1p(-1 / a) - np.log(a - 1)


_EPSILON = {"mironov": _mironov_epsilon, "improved": _improved_epsilon}
_DELTA = {"mironov": _mironov_delta, "improved": _improved_delta}


def _minimise(
    objective: Callable[[Array], Array], max_order: float, first_order: float = 1.0
) -> tuple[float, float, Status]:
    """Least value over 1 < a <= max_order: a grid in log(a - 1), refined around its best point.

    Orders below `first_order`, the first of a table, are only known by interpolation: an optimum there is reported.
    """
    top = math.log(min(max_order, 1e12) - 1)
    bottom = min(math.log(1e-6), top - 1.0)
    grid = np.linspace(bottom, top, 97)
    with np.errstate(all="ignore"):
        values = np.asarray(objective(1 + np.exp(grid)), dtype=float)
        values = np.where(np.isnan(values), np.inf, values)
        for _ in range(5):
            best = int(np.argmin(values))
            low, high = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
            grid = np.linspace(low, high, 33)
            values = np.asarray(objective(1 + np.exp(grid)), dtype=float)
            values = np.where(np.isnan(values), np.inf, values)
    best = int(np.argmin(values))
    order = 1 + math.exp(grid[best])
    at_end = math.isfinite(max_order) and grid[best] > top - 1e-3
    if at_end:
        with np.errstate(all="ignore"):
            end = float(np.asarray(objective(np.array([max_order])))[0])
        if end <= values[best]:
            return end, max_order, Status.ORDER_GRID_END
    at_end = at_end or (order <= first_order * (1 + 1e-6) and first_order > 1.0)
    return float(values[best]), order, Status.ORDER_GRID_END if at_end else Status.OK
