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
    """A converted value with the order that gave it."""

    value: float
    order: float
    status: Status


def renyi_epsilon(
    rdp: Callable[[Any], Any], delta: float, conversion: str = "improved", max_order: float = math.inf,
    first_order: float = 1.0,
) -> Conversion:
    """The least epsilon >= 0 over real orders 1 < a <= max_order that D_a = rdp(a) implies at `delta`.

    ``mironov`` (M17, Prop. 3), ``improved`` (CKS20, Prop. 12), ``optimal`` (ALCKS21: the largest
    E_gamma over all two-point pairs with D_a <= rho: exact for one order).
    """
    if delta >= 1.0:
        return Conversion(0.0, math.inf, Status.ZERO)
    if delta <= 0.0:
        return Conversion(math.inf, math.inf, Status.INFINITE_DELTA_ZERO)
    log_delta = math.log(delta)
    fast = _EPSILON["improved" if conversion == "optimal" else conversion]
    value, order, status = _minimise(lambda a: fast(a, rdp(a), log_delta), max_order, first_order)
    if conversion == "optimal" and math.isfinite(value):
        # the joint-range value is below `improved` at every order; search around that optimum
        best, at = _refine(lambda a: _joint_epsilon(a, float(rdp(a)), log_delta), order, max_order)
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
    if conversion == "optimal" and value > -700.0:
        best, at = _refine(lambda a: _joint_log_delta(a, float(rdp(a)), epsilon), order, max_order)
        if best < value:
            value, order = best, at
    if value >= 0.0:
        return Conversion(0.0, order, Status.OK)
    return Conversion(value, order, status)


def _refine(objective: Callable[[float], float], order: float, max_order: float) -> tuple[float, float]:
    """Least value near an order, by Brent's method in log(a - 1)."""
    centre = math.log(order - 1)
    top = min(centre + 0.1, math.log(max_order - 1)) if math.isfinite(max_order) else centre + 0.1
    found = minimize_scalar(
        lambda t: objective(1 + math.exp(t)), bounds=(centre - 0.1, top), method="bounded", options={"xatol": 1e-7}
    )
    return float(found.fun), 1 + math.exp(float(found.x))


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


def _two_point_log_q(a: float, rho: float, p: float) -> float:
    """log of the least q with D_a(Ber(p)||Ber(q)) <= rho, q <= p."""
    budget = (a - 1) * rho
    log_p, log_not_p = math.log(p), math.log1p(-p) if p < 1 else -math.inf

    def excess(log_q: float) -> float:
        first = a * log_p + (1 - a) * log_q
        if p == 1.0:
            return first - budget
        second = a * log_not_p + (1 - a) * math.log1p(-math.exp(min(log_q, -1e-300)))
        return float(np.logaddexp(first, second)) - budget

    low = (a * log_p - budget) / (a - 1) - 1e-9  # the first term alone exceeds the budget below this
    if excess(log_p) >= 0.0:
        return log_p
    while excess(low) <= 0.0:
        low -= 1.0
    root = float(brentq(excess, low, log_p, xtol=1e-300, rtol=8.9e-16))
    return root - 4e-15 * max(1.0, abs(root))


def _joint_best(a: float, rho: float, value: Callable[[float, float], float]) -> float:
    """max over p of value(p, log q(p)): a grid in logit p, then Brent's method around its best point."""
    if not math.isfinite(rho):
        return math.inf

    def at(t: float) -> float:
        p = 1 / (1 + math.exp(-t))
        return value(p, _two_point_log_q(a, rho, p))

    grid = np.linspace(-40.0, 40.0, 321)
    values = [at(float(t)) for t in grid]
    centre = float(grid[int(np.argmax(values))])
    found = minimize_scalar(lambda t: -at(t), bounds=(centre - 0.3, centre + 0.3), method="bounded", options={"xatol": 1e-9})
    return max(*values, -float(found.fun), value(1.0, _two_point_log_q(a, rho, 1.0)))


def _joint_epsilon(a: float, rho: float, log_delta: float) -> float:
    delta = math.exp(log_delta)

    def value(p: float, log_q: float) -> float:
        return math.log(p - delta) - log_q if p > delta else -math.inf

    return _joint_best(a, rho, value) * (1 + 2e-14)


def _joint_log_delta(a: float, rho: float, epsilon: float) -> float:
    def value(p: float, log_q: float) -> float:
        return p - math.exp(min(epsilon + log_q, 700.0))

    best = _joint_best(a, rho, value)
    return math.log(best) + 1e-10 if best > 0 else -math.inf
