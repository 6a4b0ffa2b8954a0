"""Answers: a number with its error bar, and why it is what it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import Enum
from html import escape
from typing import Any, Literal, NamedTuple

import numpy as np

MANY, FEW = 9, 6  # digits of the ends of a bracket, and of a bound that stands alone
WIDE = 0.01  # relative width above which a bracket is called wide


class Status(Enum):
    """Why an answer is what it is; the value is the sentence a person reads."""

    OK = "ok"
    WIDE = "the bracket is wider than the engine's aim; both its ends are still valid"
    UNPROVED = "the dominating pair is the best known one, but no proof that it dominates is known"
    INFINITE_NO_NOISE = "no noise is added, so the two outputs can be told apart with certainty"
    INFINITE_MASS = "delta is at or below the probability of an infinite privacy loss, so no finite epsilon is reached"
    INFINITE_DELTA_ZERO = "the privacy loss is unbounded, so delta = 0 needs epsilon = inf"
    ZERO = "delta is at or above the total variation distance, so epsilon = 0 already holds"
    PERFECT = "the two outputs have the same distribution"
    ORDER_GRID_END = "the best order is an end of the given grid of orders: a longer grid may give a smaller epsilon"
    NO_NOISE_NEEDED = "the target holds for every value in the search range, so the safe end of the range is returned"


class LogDelta(NamedTuple):
    """What an engine answers at one epsilon: log delta with a bracket.

    `certified` is true only if every error is bounded. `condition` is the size of the
    largest quantity that cancels, relative to the answer. `log_tail` estimates log Q[L > eps], minus
    the slope of delta in e^eps, for root finding. `loose` marks a bracket that was not refined as far as it could be,
    `one_sided` one whose lower end is the trivial one, since no more is known.
    """

    lower: float
    estimate: float
    upper: float
    certified: bool
    method: str
    condition: float = 1.0
    log_tail: float = math.nan
    loose: bool = False
    one_sided: bool = False


@dataclass(frozen=True, eq=False)
class Bounds:
    """A number (or an array of numbers) with a lower bound, an estimate and an upper bound.

    ``float()``, ``format()``, ``np.asarray()``, indexing and iteration use the safe end. Comparison and arithmetic
    are not defined, since each end answers another question: write ``.upper`` or ``.lower``.

    Parameters
    ----------
    lower, estimate, upper : float or array, all of one shape
        ``lower <= estimate <= upper``.
    certified : bool
        True only if every error in the bracket is bounded: quadrature, truncation, lattice
        rounding and floating point. False means that the error was estimated.
    method : str, or array of str
        The engine or the theorem that gave the answer; an array, of the shape of the others, where entries name theirs.
    status : Status
        `Status.OK`, or the reason for a special answer.
    safe : {"upper", "lower"}
        The side that errs towards less privacy; ``float(bounds)`` returns it.
    condition : float
        Cancellation in the computation; digits beyond ``1e-16 * condition`` are not there.
    notes : tuple of str
        Assumptions and warnings a reader must see.

    Examples
    --------
    >>> from dpaccount import Bounds
    >>> answer = Bounds(1.0, 1.5, 2.0, certified=True, method="example")
    >>> float(answer), answer.width
    (2.0, 1.0)
    """

    lower: Any
    estimate: Any
    upper: Any
    certified: bool = False
    method: Any = ""
    status: Status = Status.OK
    safe: Literal["upper", "lower"] = "upper"
    condition: float = 1.0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Scalars in, scalars out: numpy's own scalars become Python's."""
        for name in ("lower", "estimate", "upper"):
            value = getattr(self, name)
            if isinstance(value, np.generic):
                object.__setattr__(self, name, value.item())

    def __float__(self) -> float:
        return float(self.upper if self.safe == "upper" else self.lower)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.upper if self.safe == "upper" else self.lower, dtype=dtype)

    def __format__(self, spec: str) -> str:
        """The safe end as `float` has it; without a format, or for an array, what `str` says."""
        if not spec:
            return str(self)
        if np.ndim(self.estimate):
            raise TypeError("`Bounds` of an array has no number format; format its entries, as in [f'{b:.3f}' for b in bounds].")
        return format(float(self), spec)

    def __len__(self) -> int:
        return len(self.estimate)

    def __bool__(self) -> bool:
        raise TypeError("`Bounds` is neither true nor false; compare an end of it, as in `bounds.upper <= 1e-5`.")

    def __getitem__(self, index: Any) -> Bounds:
        """The entries at `index` as a `Bounds` of its own."""
        method = self.method[index] if isinstance(self.method, np.ndarray) else self.method
        return replace(self, lower=self.lower[index], estimate=self.estimate[index], upper=self.upper[index], method=method)

    def __iter__(self) -> Iterator[Bounds]:
        return (self[index] for index in range(len(self)))

    @property
    def methods(self) -> tuple[str, ...]:
        """Every method that gave an entry, each once."""
        return tuple(dict.fromkeys(np.ravel(self.method).tolist())) if isinstance(self.method, np.ndarray) else (self.method,)

    @property
    def width(self) -> Any:
        """upper - lower, and 0 where both are the same infinity."""
        with np.errstate(invalid="ignore"):
            gap = np.where(np.equal(self.lower, self.upper), 0.0, np.subtract(self.upper, self.lower))
        return gap if gap.ndim else float(gap)

    def __repr__(self) -> str:
        kind = "certified" if self.certified else "estimated error"
        method = ", ".join(self.methods)
        if np.ndim(self.estimate):
            low, mid, up = (np.asarray(v) for v in (self.lower, self.estimate, self.upper))
            body = ", ".join(
                certain_digits(a, b, c, self.safe) for a, b, c in zip(low.flat, mid.flat, up.flat, strict=True)
            )
            body = body if len(body) < 600 else body[:597] + "..."
            text = f"Bounds([{body}], {kind}, {method}"
        else:
            digits = certain_digits(self.lower, self.estimate, self.upper, self.safe)
            text = f"Bounds({digits} in {bracket(self.lower, self.upper, FEW if digits.startswith('at ') else MANY)}, {kind}, {method}"
        return text + (")" if self.status is Status.OK else f"; {self.status.value})")

    def _repr_html_(self) -> str:
        kind = "certified" if self.certified else "error estimated"
        columns = [np.atleast_1d(np.asarray(v, dtype=float)).ravel() for v in (self.lower, self.estimate, self.upper)]
        rows = zip(*columns, strict=True)
        body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in told_apart(row)) + "</tr>" for row in rows)
        method = ", ".join(self.methods)
        note = "" if self.status is Status.OK else f"; {self.status.value}"
        return (
            "<table><thead><tr><th>lower</th><th>estimate</th><th>upper</th></tr></thead>"
            f"<tbody>{body}</tbody><caption>{method}, {kind}{note}</caption></table>"
        )


def is_wide(lower: float, upper: float, least: float = 0.0) -> bool:
    """Whether a bracket is wide: relative width above 1 %, and absolute width above `least`."""
    return upper != lower and not upper - lower <= max(WIDE * abs(upper), least)


def told_apart(values: tuple[float, float, float]) -> list[str]:
    """Lower end, estimate and upper end to nine digits, or as many more as they need to look different; ends rounded outward."""
    different = len(set(values))
    low, mid, up = values
    for digits in range(MANY, 17):
        if len({f"{v:.{digits}g}" for v in values}) == different:
            return [rounded(low, digits, ROUND_FLOOR), f"{mid:.{digits}g}", rounded(up, digits, ROUND_CEILING)]
    return [f"{v:.17g}" for v in values]


def bracket(lower: float, upper: float, digits: int) -> str:
    """[lower, upper], rounded outward."""
    return f"[{rounded(lower, digits, ROUND_FLOOR)}, {rounded(upper, digits, ROUND_CEILING)}]"


def rounded(value: float, digits: int, rounding: str) -> str:
    """A number to some significant digits, rounded as `decimal` calls it."""
    if not math.isfinite(value) or value == 0.0:
        return f"{value:g}"
    exact = Decimal(repr(float(value)))  # the shortest decimal, which a reader would type: 1e-05 stays 1e-05
    unit = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return f"{float(exact.quantize(unit, rounding=rounding)):.{digits}g}"


def certain_digits(lower: float, estimate: float, upper: float, safe: str = "upper") -> str:
    """The estimate with the digits that both ends of the bracket share, at most 12, or as many more as keep it inside."""
    lower, estimate, upper = float(lower), float(estimate), float(upper)
    finite = math.isfinite(lower) and math.isfinite(upper)
    if not (finite or math.isfinite(upper if safe == "upper" else lower)):
        return f"{estimate:.4g}"
    scale = max(abs(lower), abs(upper))
    if scale == 0.0:
        return "0"
    gap = (upper - lower) / scale if finite else math.inf
    if gap > 0.1:
        return f"at most {rounded(upper, FEW, ROUND_CEILING)}" if safe == "upper" else f"at least {rounded(lower, FEW, ROUND_FLOOR)}"
    digits = 12 if gap <= 1e-12 else max(1, min(12, int(-math.log10(gap))))
    while digits < MANY and not lower <= float(f"{estimate:.{digits}g}") <= upper:
        digits += 1
    return f"{estimate:.{digits}g}"


@dataclass(frozen=True)
class Calibration:
    """A parameter whose guarantee meets the target, and what it achieves.

    ``float(calibration)`` is `value`. `achieved` holds the bounds of the calibrated quantity at
    `value`: its safe side meets the target. `boundary` brackets the exact boundary: at
    `infeasible` the target was seen to fail (or it is an end of the search range).
    """

    value: float
    achieved: Bounds
    target: str
    status: Status = Status.OK
    infeasible: float | None = None
    evaluations: int = 0
    notes: tuple[str, ...] = ()

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        if self.value != int(self.value):
            raise TypeError(f"`Calibration` of a real number is not a whole number; got {self.value!r}.")
        return int(self.value)

    def __repr__(self) -> str:
        tail = "" if self.status is Status.OK else f"; {self.status.value}"
        return f"Calibration({self.value!r}, {self.target}, achieved={self.achieved!r}{tail})"

    def _repr_html_(self) -> str:
        rows = [("value", f"{self.value:.12g}"), ("target", self.target), ("achieved", f"{float(self.achieved):.12g}")]
        if self.infeasible is not None:
            rows.append(("not enough", f"{self.infeasible:.12g}"))
        if self.status is not Status.OK:
            rows.append(("status", self.status.value))
        body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
        return f"<table><caption>Calibration</caption><tbody>{body}</tbody></table>"


class NumericalFailure(ArithmeticError):
    """No engine could vouch for an answer; the message says which limit was met."""
