"""What is known on the real line only: zCDP, an RDP formula or table, and the orders of a pair."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._quadrature import TooManyNodes
from dpaccount.adjacency import Adjacency, parse
from dpaccount.pair import DominatingPair, Guarantee

Array = npt.NDArray[np.float64]


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
            with np.errstate(over="ignore", invalid="ignore"):
                value = float(pair.log_mgf(float(a[index]) - 1.0)) / (float(a[index]) - 1.0)
        except (TooManyNodes, OverflowError):  # an order out of reach: infinity is a valid bound
            value = np.inf
        out[index] = value if value == value else np.inf
    return np.maximum(out, 0.0)[()]
