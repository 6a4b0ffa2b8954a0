"""What is known on the real line only: zCDP, an RDP formula or table, and the conversions to (eps, delta)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar

from dpaccount import _check
from dpaccount._quadrature import TooManyNodes
from dpaccount.adjacency import Adjacency, parse
from dpaccount.pair import DominatingPair, Guarantee
from dpaccount.results import Status

Array = npt.NDArray[np.float64]
CONVERSIONS = ("improved", "mironov", "optimal")


@final
@dataclass(frozen=True)
class ZCDP:
    """D_a <= rho a for every order a > 1."""

    rho: float

    def rdp(self, order: Array) -> Array:
        return self.rho * order

    max_order = math.inf


@final
@dataclass(frozen=True)
class OrderTable:
    """D_a known at some orders; between them (a - 1) D_a is convex, so its chords are an upper bound."""

    orders: tuple[float, ...]
    values: tuple[float, ...]

    def rdp(self, order: Array) -> Array:
        x = np.concatenate([[1.0], self.orders])
        y = np.concatenate([[0.0], (np.asarray(self.orders) - 1) * np.asarray(self.values)])
        with np.errstate(invalid="ignore", divide="ignore"):
            chord = np.interp(order, x, y) / (order - 1)
        place = np.minimum(np.searchsorted(self.orders, order), len(self.orders) - 1)
        exact = np.asarray(self.orders)[place] == order
        value = np.where(exact, np.asarray(self.values)[place], chord)
        return np.where(order > self.max_order, np.inf, value)

    @property
    def max_order(self) -> float:
        return self.orders[-1]


@final
@dataclass(frozen=True)
class OrderFormula:
    """D_a given by a function of the order."""

    function: Callable[[float], float]
    max_order: float = math.inf

    def rdp(self, order: Array) -> Array:
        out = np.array([float(self.function(float(a))) if a <= self.max_order else np.inf for a in order.ravel()])
        if np.isnan(out).any() or (out < 0).any():
            bad = order.ravel()[np.isnan(out) | (out < 0)][0]
            _check.refuse("RenyiBound.from_function", "function", f"non-negative at order {bad:g}", float(np.nanmin(out)))
        return out.reshape(order.shape)


Source = ZCDP | OrderTable | OrderFormula


@final
@dataclass(frozen=True)
class RenyiBound(Guarantee):
    """Knowledge of D_a(P||Q) on the real line: it composes by sums, also with pairs, but never enters a contour.

    Build it with `RenyiBound.zcdp`, `RenyiBound.from_table` or `RenyiBound.from_function`.
    ``RenyiBound + pair`` is a `RenyiBound` (the pair's exact Renyi curve is used).

    Guarantee
    ---------
    ``D_a(M(D)||M(D')) <= sum of the parts`` for both orders of every pair of neighbours, under the
    relation that the claim was made for.

    Examples
    --------
    >>> from dpaccount import PrivacyProfile, RenyiBound
    >>> round(float(PrivacyProfile(RenyiBound.zcdp(0.5)).epsilon(delta=1e-5)), 9)
    4.728386985
    """

    sources: tuple[tuple[Source, int], ...]
    pair: DominatingPair | None = None

    @staticmethod
    def zcdp(rho: float) -> RenyiBound:
        """rho-zCDP: D_a <= rho a for all a > 1, rho >= 0 (CKS20 after BS16)."""
        return RenyiBound(((ZCDP(_check.real("RenyiBound.zcdp", "rho", rho, low=0.0)), 1),))

    @staticmethod
    def from_table(orders: Any, values: Any) -> RenyiBound:
        """D_a at given orders (increasing, all > 1); the answer says when an end of the table wins."""
        owner = "RenyiBound.from_table"
        a = _check.reals(owner, "orders", orders, low=1.0, open_low=True, hint="Order 1 is the KL divergence.")
        v = _check.reals(owner, "values", values, low=0.0, infinite=True)
        if a.ndim != 1 or not a.size or np.any(np.diff(a) <= 0):
            _check.refuse(owner, "orders", "a non-empty, strictly increasing sequence", orders)
        if v.shape != a.shape:
            _check.refuse(owner, "values", f"of the same length as orders, {a.size}", values)
        finite = np.isfinite(v)
        if not finite.any() or not finite[: int(finite.sum())].all():
            _check.refuse(owner, "values", "finite up to some order", values)
        return RenyiBound(((OrderTable(tuple(a[finite].tolist()), tuple(v[finite].tolist())), 1),))

    @staticmethod
    def from_function(function: Callable[[float], float], *, max_order: float = math.inf) -> RenyiBound:
        """D_a from a function of one order, valid for 1 < a <= max_order."""
        owner = "RenyiBound.from_function"
        if not callable(function):
            _check.refuse(owner, "function", "a callable of one order", function, kind=TypeError)
        top = _check.real(owner, "max_order", max_order, low=1.0, open_low=True, infinite=True)
        return RenyiBound(((OrderFormula(function, top), 1),))

    def __add__(self, other: object) -> RenyiBound:
        if isinstance(other, RenyiBound):
            return RenyiBound(_merge(self.sources + other.sources), _add(self.pair, other.pair))
        if isinstance(other, DominatingPair):
            return RenyiBound(self.sources, _add(self.pair, other))
        return NotImplemented

    __radd__ = __add__

    def __mul__(self, times: object) -> RenyiBound:
        if isinstance(times, Guarantee):
            return NotImplemented
        count = _check.count("RenyiBound", "count", times)
        return RenyiBound(
            tuple((source, n * count) for source, n in self.sources), None if self.pair is None else count * self.pair
        )

    __rmul__ = __mul__

    @property
    def max_order(self) -> float:
        """The largest order at which every part is known."""
        return min((float(source.max_order) for source, _ in self.sources), default=math.inf)

    @property
    def first_order(self) -> float:
        """The least order that every table holds; 1 without tables."""
        return max((s.orders[0] for s, _ in self.sources if isinstance(s, OrderTable)), default=1.0)

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        """The directed pairs of the part that is known as a pair; empty if there is none."""
        relation = parse("RenyiBound.under", adjacency)
        return () if self.pair is None else self.pair.under(relation)

    def rdp(self, order: Any, adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE) -> Any:
        """An upper bound on D_a for a > 1: the sum of the parts, over directions the larger; inf where unknown."""
        a = _check.reals("RenyiBound.rdp", "order", order, low=1.0, open_low=True, hint="Order 1 is the KL divergence.")
        total = np.zeros(a.shape)
        for source, n in self.sources:
            total = total + n * source.rdp(np.atleast_1d(a)).reshape(a.shape)
        sides = self.under(adjacency)
        if sides:
            with np.errstate(invalid="ignore"):
                total = total + np.max([pair_rdp(side, a) for side in sides], axis=0)
        return total[()]


def _merge(sources: tuple[tuple[Source, int], ...]) -> tuple[tuple[Source, int], ...]:
    merged: dict[Source, int] = {}
    for source, n in sources:
        merged[source] = merged.get(source, 0) + n
    return tuple(merged.items())


def _add(a: DominatingPair | None, b: DominatingPair | None) -> DominatingPair | None:
    return b if a is None else a if b is None else a + b


def pair_rdp(pair: DominatingPair, order: Any) -> Any:
    """D_a(P||Q) = K(a - 1)/(a - 1) of a directed pair; inf where P{q = 0} > 0 or where it overflows."""
    a = np.asarray(order, dtype=float)
    if pair.log_p_only > -np.inf:
        return np.full(a.shape, np.inf)[()]
    out = np.empty(a.shape)
    for index in np.ndindex(a.shape):
        try:
            out[index] = pair.log_mgf(float(a[index]) - 1.0) / (a[index] - 1.0)
        except TooManyNodes:  # an order out of reach: infinity is a valid bound
            out[index] = np.inf
    return np.maximum(out, 0.0)[()]


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
        best, at = _refine(lambda a: _joint_epsilon(a, _rdp_at(rdp, a), goal), order, max_order)
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
        best, at = _refine(lambda a: _joint_log_delta(a, _rdp_at(rdp, a), epsilon)[0], order, max_order)
        if best < value:
            value, order, tail = best, at, _joint_log_delta(at, _rdp_at(rdp, at), epsilon)[1]
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


def _softplus(t: float) -> float:
    return max(t, 0.0) + math.log1p(math.exp(-abs(t)))


class _Corner(NamedTuple):
    """The least q with D_a(Ber(p)||Ber(q)) <= rho at one p: x = log(p/q), and E = d log q/d log p along the boundary."""

    x: float
    log_elasticity: float


def _corner(a: float, budget: float, log_p: float, log_not_p: float) -> _Corner:
    """x >= 0 where p^a q^{1-a} + (1-p)^a (1-q)^{1-a} reaches e^budget, budget = (a-1) rho > 0.

    The sum must exceed the budget by its own rounding, so that q is never too large. Near 1 it is summed less 1.
    """
    b, odds = a - 1, log_p - log_not_p

    def other(x: float) -> float:
        """y = log((1-p)/(1-q)) <= 0."""
        return -_softplus(odds + math.log(-math.expm1(-x))) if x > 0.0 else 0.0

    def excess(x: float) -> float:
        y = other(x)
        first, second = log_p + b * x, log_not_p + b * y if log_not_p > -math.inf else -math.inf
        if budget >= 1.0 or first > 1.0:
            size = 1.0 + abs(log_p) + b * x + budget + (abs(log_not_p) + b * abs(y) if second > first - 40.0 else 0.0)
            return float(np.logaddexp(first, second)) - budget - 2e-15 * size
        p, rest = math.exp(log_p), math.exp(log_not_p)
        rise = p * math.expm1(b * x) if b * x < 1.0 else math.exp(first) - p
        fall = rest * math.expm1(b * y) if rest > 0.0 else 0.0
        return rise + fall - math.expm1(budget) - 2e-15 * (rise * (1.0 + abs(log_p) + b * x) + abs(fall) * (1.0 + b * abs(y)))

    top = (budget - log_p) / b * (1 + 1e-12)
    step = 1e-9
    while excess(top) <= 0.0:
        top, step = top * (1 + step), 2 * step
    x = float(brentq(excess, 0.0, top, xtol=1e-300, rtol=8.9e-16, maxiter=500)) * (1 + 4e-15)
    w = x - other(x)
    return _Corner(x, math.log(a / b) + math.log(-math.expm1(-b * w)) - math.log(-math.expm1(-a * w)))


def _sign_change(rising: Callable[[float], float]) -> tuple[float, float] | None:
    """Two near points around the root of a function that falls from positive to negative; None if it stays positive.

    What is maximised is (quasi-)concave and this is the sign of its slope, so the maximum lies between the two.
    """
    low, high = -2.0, 2.0
    while not rising(low) > 0.0:
        low, high = 2 * low, low
    while rising(high) > 0.0:
        if high > 80.0:
            return None
        low, high = high, 2 * high + 1.0
    root, step = float(brentq(rising, low, high, xtol=1e-9, rtol=8.9e-16)), 1e-8 * max(1.0, abs(low))
    left, right = root - step, root + step
    while not rising(left) > 0.0:
        left -= step
        step *= 2
    while rising(right) > 0.0:
        right += step
        step *= 2
    return left, right


def _joint_log_delta(a: float, rho: float, epsilon: float) -> tuple[float, float]:
    """log of the largest p - e^eps q over two-point pairs with D_a <= rho, from above, and log q there.

    q(p) is convex, so p - e^eps q(p) is concave: tangents from both sides of its maximum bound it.
    """
    if not math.isfinite(rho):
        return 0.0, math.nan
    if rho <= 0.0:
        return (math.log(-math.expm1(epsilon)), 0.0) if epsilon < 0.0 else (-math.inf, -math.inf)
    budget = (a - 1) * rho

    def corner(t: float) -> tuple[float, _Corner]:
        log_p = -_softplus(-t)
        return log_p, _corner(a, budget, log_p, -_softplus(t))

    def rising(t: float) -> float:
        _, found = corner(t)
        return -(epsilon - found.x + found.log_elasticity)

    def tangent(t: float, reach: float) -> float:
        """log of the tangent at t, followed to where p is e^reach times as large."""
        log_p, found = corner(t)
        if found.x <= epsilon:
            return math.inf
        left = -math.expm1(epsilon - found.x)
        slope = -math.expm1(epsilon - found.x + found.log_elasticity)
        return log_p + math.log(left) + math.log1p(max(slope * math.expm1(reach) / left, 0.0))

    ends = _sign_change(rising)
    if ends is None:
        ends = 81.0, 81.0
        best = tangent(81.0, -corner(81.0)[0])
    else:
        width = -_softplus(-ends[1]) + _softplus(-ends[0])
        best = min(tangent(ends[0], width), tangent(ends[1], -width))
    log_p, found = corner(ends[0])
    return best + 1e-13 * (1.0 + abs(best)), log_p - found.x


def _joint_epsilon(a: float, rho: float, log_delta: float) -> float:
    """Largest log((p - delta)/q) over two-point pairs with D_a <= rho, from above: below it some pair exceeds delta.

    With q(p) convex the ratio rises, then falls; a tangent of q from either side of its maximum bounds it.
    """
    if not math.isfinite(rho):
        return math.inf
    log_left = math.log1p(-math.exp(log_delta))
    if rho <= 0.0:
        return log_left
    budget = (a - 1) * rho

    def corner(t: float) -> tuple[float, float, _Corner]:
        """log p, log(p - delta) and the corner at p = delta + (1 - delta)/(1 + e^-t)."""
        gain = log_left - _softplus(-t)
        log_p = min(float(np.logaddexp(log_delta, gain)), 0.0)
        return log_p, gain, _corner(a, budget, log_p, log_left - _softplus(t))

    def rising(t: float) -> float:
        log_p, gain, found = corner(t)
        return -(gain - log_p + found.log_elasticity)

    ends = _sign_change(rising)
    if ends is None:
        log_p, _, found = corner(81.0)
        best = log_left - (log_p - found.x)
    else:
        (log_p1, gain1, first), (log_p2, gain2, second) = corner(ends[0]), corner(ends[1])
        # p2 - p1 is the difference of the gains
        up = math.exp(gain1 - log_p1) * math.expm1(gain2 - gain1) * math.exp(first.log_elasticity)
        down = -math.exp(gain2 - log_p2) * math.expm1(gain1 - gain2) * math.exp(second.log_elasticity)
        best = gain2 - (log_p1 - first.x) - math.log1p(up)
        if down < 1.0:
            best = min(best, gain1 - (log_p2 - second.x) - math.log1p(-down))
    return best + 1e-15 * (10.0 + abs(log_delta)) + 1e-14 * abs(best)
