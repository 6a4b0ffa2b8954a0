"""What every last-iterate guarantee answers: delta, log delta and epsilon, over arrays of epsilon and of records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._log import ULP, exp_from_above, exp_from_below
from dpaccount.conversions import CONVERSIONS
from dpaccount.results import Bounds, Status

Array = npt.NDArray[np.float64]
METHODS = ("contraction", "rdp", "shifted", "composed", "composition", "nonlinear", "best", "sharpest")
DERIVED = ("nonlinear",)  # proved in this documentation alone: not in `best`, but in `sharpest`
NO_INSTANCE = "no known instance says more here than what every mechanism has, which is `lower`"
HIDDEN = "holds only if the last iterate is all that anyone ever sees"


class Theorem(NamedTuple):
    """A bound by name, and the theorem and conditions behind it."""

    name: str
    statement: str


class Curve(NamedTuple):
    """log delta by a theorem, broadcast over epsilon and records, and what rounding may have taken off it."""

    value: Array
    error: Array


class LastIterate(ABC):
    """Privacy of one record when only the last iterate is released; neighbours exchange that record (replace-one).

    `delta`, `log_delta` and `epsilon` take a `method`: one of `methods`. ``best`` is the least of all theorems of the cited papers
    that hold. ``sharpest`` is the least of those and of ``nonlinear``, a nonlinear strong data-processing inequality that the
    documentation proves (see `nonlinear_contraction`).
    """

    @property
    @abstractmethod
    def records(self) -> int:
        """How many records there are; an index runs from 1 to it."""

    @property
    @abstractmethod
    def worst_index(self) -> int:
        """The record whose bounds are the largest: what an answer without an index is about."""

    @abstractmethod
    def theorems(self) -> tuple[Theorem, ...]:
        """The bounds that hold in this setting, with what they rest on."""

    @abstractmethod
    def refusal(self, method: str) -> str:
        """Why a method that exists elsewhere does not hold here."""

    @abstractmethod
    def curve(self, method: str, epsilon: Array, index: Array, conversion: str) -> Curve:
        """log delta for epsilon >= 0; the arrays need not have one shape, only broadcast."""

    def lower(self, epsilon: Array, index: Array) -> Array:
        """log delta of the worst known instance for epsilon >= 0; -inf if none is known."""
        return np.full(np.broadcast_shapes(epsilon.shape, index.shape), -np.inf)

    def limit(self, index: Array) -> Array:
        """The epsilon from which on delta = 0, where there is one and it is known; else inf."""
        return np.full(index.shape, np.inf)

    @property
    def bounded(self) -> bool:
        """Whether the privacy loss is bounded, so that delta = 0 is reached."""
        return False

    @property
    def noiseless(self) -> bool:
        """Whether no noise is added."""
        return False

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the bounds that hold, ``best`` and ``sharpest``."""
        return (*(theorem.name for theorem in self.theorems()), "best", "sharpest")

    def choices(self, method: str) -> tuple[str, ...]:
        """The bounds that a method takes the least of."""
        return {"best": self.published, "sharpest": tuple(t.name for t in self.theorems())}.get(method, (method,))

    @property
    def published(self) -> tuple[str, ...]:
        """The names of the cited papers' bounds that hold: those that ``best`` is the least of."""
        return tuple(t.name for t in self.theorems() if t.name not in DERIVED)

    def theorem(self, method: str) -> str:
        """The theorem behind a method, with its conditions."""
        self._check_method("theorem", method)
        if method in ("best", "sharpest"):
            return "the least of " + ", ".join(self.choices(method)) + ": each holds, so their minimum does"
        return next(t.statement for t in self.theorems() if t.name == method)

    def delta(
        self, epsilon: Any, index: Any = None, *, method: str = "best", conversion: str = "improved", instance: bool = False
    ) -> Bounds:
        """delta(eps) of a record, any real eps, arrays broadcast over `epsilon` and `index`.

        Parameters
        ----------
        epsilon : float or array
        index : int or array of int, optional
            Which record, from 1 to n; by default the worst.
        method : str
            One of `methods`. ``best`` and ``sharpest`` are plain minima at each epsilon: bounds, but the minimum of curves need not
            be a privacy curve; `best_of` makes it one, for composition and trade-off functions.
        conversion : {"improved", "mironov", "optimal"}
            How Renyi bounds become delta.
        instance : bool
            Put the exact curve of the worst known instance into `lower` (one-dimensional, by quadrature): slower, and not
            certified. Otherwise, and where no known instance says more (a note says so), `lower` is what every mechanism has,
            max(0, 1 - e^eps).

        Guarantee
        ---------
        `upper` is the theorem's value with all rounding added. `Bounds.method` names the bound; for arrays under ``best`` it is
        an array of names, one for each entry; so under ``sharpest``.
        """
        logs, name = self._answer("delta", epsilon, index, method, conversion, instance)
        with np.errstate(under="ignore"):
            kinds: list[tuple[Any, Any]] = list(zip((exp_from_below, np.exp, exp_from_above), logs, strict=True))
            ends = [e(v) if np.size(v) < 2 or any(v.strides) else np.broadcast_to(e(v.flat[0]), v.shape) for e, v in kinds]
        return self._bounds(ends, name, instance, logs[0])

    def log_delta(
        self, epsilon: Any, index: Any = None, *, method: str = "best", conversion: str = "improved", instance: bool = False
    ) -> Bounds:
        """log delta(eps): keeps its digits where delta underflows. As `delta` otherwise."""
        logs, name = self._answer("log_delta", epsilon, index, method, conversion, instance)
        return self._bounds(logs, name, instance, logs[0])

    def epsilon(
        self, delta: Any = None, index: Any = None, *, method: str = "best", conversion: str = "improved", log_delta: Any = None
    ) -> Bounds:
        """The least eps >= 0 at which the upper bound is at most `delta` (array, broadcast with `index`), or e^log_delta."""
        owner = f"{type(self).__name__}.epsilon"
        if (delta is None) == (log_delta is None):
            _check.refuse(owner, "delta", "given, or log_delta instead of it", delta, "Pass exactly one of them.", TypeError)
        if delta is not None:
            with np.errstate(divide="ignore"):
                goals = np.asarray(np.log(_check.reals(owner, "delta", delta, low=0.0, high=1.0)))
        else:
            goals = _check.reals(owner, "log_delta", log_delta, high=0.0)
        place = self._index("epsilon", index)
        self._check_method("epsilon", method)
        _check.choice(owner, "conversion", conversion, CONVERSIONS)
        goals, place = np.broadcast_arrays(goals, place)
        found = self._root(goals.copy(), place.copy(), method, conversion)
        names = self._winners(np.where(np.isfinite(found), found, 0.0), place, method, conversion)[1]
        status = Status.OK
        if np.isinf(found).any():
            status = Status.INFINITE_NO_NOISE if self.noiseless else Status.INFINITE_DELTA_ZERO
        elif (found == 0.0).any():
            status = Status.ZERO
        answer = found[()]
        return Bounds(np.zeros(found.shape)[()], answer, answer, True, names, status, notes=(HIDDEN,))

    def _answer(
        self, name: str, epsilon: Any, index: Any, method: str, conversion: str, instance: bool
    ) -> tuple[list[Any], Any]:
        owner = f"{type(self).__name__}.{name}"
        level = _check.reals(owner, "epsilon", epsilon)
        place = self._index(name, index)
        self._check_method(name, method)
        _check.choice(owner, "conversion", conversion, CONVERSIONS)
        _check.flag(owner, "instance", instance)
        try:
            shape = np.broadcast_shapes(level.shape, place.shape)
        except ValueError:
            _check.refuse(owner, "index", f"of a shape that broadcasts with epsilon's, {level.shape}", place.shape)
        size = np.abs(level)
        found, names = self._winners(size, place, method, conversion)
        low = self.lower(size, place) if instance else np.broadcast_to(-np.inf, shape)
        if (level < 0.0).any():
            found = Curve(*(_reflected(level, v) for v in (found.value, found.value + found.error)))
            upper, low = found.error, _reflected(level, low)
            found = Curve(found.value, upper)
        else:
            np.add(found.value, found.error, out=found.error)
        upper = np.minimum(found.error, 0.0, out=found.error)
        if instance:
            low = np.minimum(low, found.value)
        return [low[()], found.value[()], upper[()]], names

    def _sound(self, name: str, epsilon: Array, index: Array, conversion: str) -> Curve:
        """`curve`, and the trivial bound delta <= 1 where it says no more, or where doubles run out of range."""
        try:
            with np.errstate(all="ignore"):
                value, error = (np.asarray(v, dtype=float) for v in self.curve(name, epsilon, index, conversion))
                trivial = ~(value + error <= 0.0)
        except (ArithmeticError, ValueError):  # a conversion or a table that cannot hold such numbers
            return Curve(np.zeros(()), np.zeros(()))
        if not trivial.any():
            return Curve(value, error)
        return Curve(np.where(trivial, 0.0, value), np.where(trivial, 0.0, error))

    def _winners(self, epsilon: Array, index: Array, method: str, conversion: str) -> tuple[Curve, Any]:
        """The curve of a method, fresh arrays of the full shape, and the name of the bound (an array of names for several)."""
        shape = np.broadcast_shapes(epsilon.shape, index.shape)
        names = self.choices(method)
        if self.noiseless:
            return Curve(np.zeros(shape), np.zeros(shape)), names[0]
        value, error = (np.array(np.broadcast_to(v, shape)) for v in self._sound(names[0], epsilon, index, conversion))
        which = np.zeros(shape if len(names) > 1 else (), dtype=np.int8)
        for i, name in enumerate(names[1:], 1):
            other = self._sound(name, epsilon, index, conversion)
            new, off = np.broadcast_to(other.value, shape), np.broadcast_to(other.error, shape)
            better = new + off < value + error
            which[better] = i
            value[better], error[better] = new[better], off[better]
        error += 2 * ULP * np.where(np.isfinite(value), 1.0 - value, 0.0)
        chosen = np.array(names, dtype=object)[which] if which.ndim else names[int(which)]
        return Curve(value, error), chosen

    def _root(self, goals: Array, index: Array, method: str, conversion: str) -> Array:
        """The least eps at which the upper bound is at most the goal, by bisection; the feasible end is returned."""

        def met(epsilon: Array) -> npt.NDArray[np.bool_]:
            curve, _ = self._winners(epsilon, index, method, conversion)
            return np.asarray(np.minimum(curve.value + curve.error, 0.0) <= goals)

        limit = self.limit(index)
        low, high = np.zeros(goals.shape), np.where(limit < np.inf, limit, 1.0)
        done, first = met(low), met(high)
        beyond = ~done & ~first & ((goals > -np.inf) | self.bounded)
        while beyond.any():
            low[beyond] = high[beyond]
            high[beyond] *= 4.0
            beyond &= ~met(high) & (high < 1e300)
        endless = (goals == -np.inf) & (not self.bounded)
        exact = done | endless | (goals == -np.inf) & first & (limit < np.inf)
        for _ in range(1100):
            if not ((high - low > 2e-15 * high) & ~exact).any():
                break
            middle = np.where(low > 0.0, (low + high) / 2, np.where(high > 1e-3, high / 2, np.minimum(high, 1e-3) ** 2))
            good = met(middle)
            high, low = np.where(good & ~exact, middle, high), np.where(good | exact, low, middle)
        missed = ~done & ~met(high)
        return np.asarray(np.where(done, 0.0, np.where(missed, np.inf, high)))

    def _bounds(self, ends: list[Any], name: Any, instance: bool, low: Any) -> Bounds:
        status = Status.INFINITE_NO_NOISE if self.noiseless else Status.OK
        known = not instance or bool(np.isfinite(low).any())
        return Bounds(ends[0], ends[1], ends[2], not instance, name, status, notes=(HIDDEN,) if known else (HIDDEN, NO_INSTANCE))

    def _index(self, name: str, index: Any) -> npt.NDArray[np.float64]:
        owner, n = f"{type(self).__name__}.{name}", self.records
        if index is None:
            return np.array(float(self.worst_index))
        place = _check.reals(owner, "index", index, low=1.0, high=float(n), hint="The first record used is 1, the last is n.")
        if (place != np.floor(place)).any():
            _check.refuse(owner, "index", f"a whole number in [1, {n}]", float(place[place != np.floor(place)].flat[0]))
        return place

    def _check_method(self, name: str, method: str) -> None:
        owner = f"{type(self).__name__}.{name}"
        _check.choice(owner, "method", method, METHODS)
        if method not in self.methods:
            _check.refuse(owner, "method", f"one of {', '.join(map(repr, self.methods))} here", method, self.refusal(method))


class OnePass(LastIterate):
    """One pass in fixed order, as its variants see it."""

    noise: str
    diameter: float

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """How far a record moves its own step, in units of the noise."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """How far any later step can leave two iterates, in units of the noise."""

    @abstractmethod
    def log_factors(self, epsilon: Array) -> tuple[Curve, Curve]:
        """log of the contraction bound's two factors: the record's own step, and each later one."""

    @abstractmethod
    def rdp_rate(self, index: Any) -> Any:
        """r of D_a <= r a, by record."""

    @abstractmethod
    def gdp_parameter(self, index: Any) -> Any:
        """mu of Gaussian DP, by record."""

    @abstractmethod
    def cyclic_parameter(self, passes: int, index: Any) -> Any:
        """The same after several passes in the same order."""


class Variant(LastIterate):
    """What becomes of one pass when it is stopped, reordered or repeated: the same records, noise and set."""

    def __init__(self, run: OnePass) -> None:
        self.run = run

    @property
    def records(self) -> int:
        return self.run.records

    @property
    def noiseless(self) -> bool:
        return self.run.noiseless

    @property
    def bounded(self) -> bool:
        return self.run.bounded

    def refusal(self, method: str) -> str:
        return self.run.refusal(method)


def _reflected(level: Array, log_delta: Array) -> Array:
    """E_gamma(P||Q) = 1 - gamma + gamma E_{1/gamma}(Q||P) where eps < 0, since a relation has both orders of every pair."""
    with np.errstate(divide="ignore"):
        below = np.logaddexp(np.log(-np.expm1(np.minimum(level, 0.0))), log_delta + level)
    return np.asarray(np.where(level < 0.0, below, log_delta))
