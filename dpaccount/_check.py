"""The only validators, and the one message shape.

Every message names the owner as the user typed it, the parameter, its domain,
the value that came, and the usual cause:
``"`PoissonSampled(sampling_probability=...)` must be in [0, 1]; got 1.28. <hint>"``.
"""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NoReturn, final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@final
class Withheld:
    """Stands in a message for a value of private records: a refusal may tell that there is one, and no more."""

    def __repr__(self) -> str:
        return "a value that is not shown, since records are private"


WITHHELD = Withheld()


def _shown(value: object) -> str:
    if isinstance(value, Fraction):
        value = int(value) if value.denominator == 1 else float(value)
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 80 else text[:77] + "..."


def refuse(
    owner: str,
    name: str,
    domain: str,
    value: object,
    hint: str = "",
    kind: type[Exception] = ValueError,
) -> NoReturn:
    """Raise `kind` in the one message shape."""
    tail = f" {hint}" if hint else ""
    raise kind(f"`{owner}({name}=...)` must be {domain}; got {_shown(value)}.{tail}")


_PERCENT = re.compile(r"([\d.]+)\s*%")
_POWER = re.compile(r"(?:([\d.]+)\s*[*x\u00b7\u00d7]\s*)?10\s*(?:\^|\*\*)\s*\(?([-\u2212+]?\d{1,3})\)?")


def spelled(text: str) -> str:
    """How a number is to be written that came as text; "" where none is recognised."""
    found = text.strip()
    percent, power = _PERCENT.fullmatch(found), _POWER.fullmatch(found)
    plain = found.replace(",", "") if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", found) else found
    try:
        if percent:
            return f"Write {float(percent[1]) / 100:.6g}."
        if power:
            return f"Write {power[1] or '1'}e{int(power[2].replace(chr(0x2212), '-'))}."
        float(plain)
    except ValueError:
        return ""
    return f"Write {plain}." if plain != found else "Write it without quotes."


def _domain(low: float, high: float, open_low: bool, open_high: bool, infinite: bool) -> str:
    if low == -np.inf and high == np.inf:
        return "a number" if infinite else "a finite number"
    if high == np.inf:
        return f"a {'' if infinite else 'finite '}number {'>' if open_low else '>='} {low:g}"
    if low == -np.inf:
        return f"a number {'<' if open_high else '<='} {high:g}"
    return f"in {'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"


def reals(
    owner: str,
    name: str,
    value: Any,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    open_low: bool = False,
    open_high: bool = False,
    infinite: bool = False,
    hint: str = "",
    private: bool = False,
) -> Array:
    """Return `value` as a float64 array whose every entry lies in the stated interval.

    NaN is always refused; infinities only pass when `infinite` is true. Of `private` values no message shows one.
    """
    if type(value) is float and low < value < high and -np.inf < value < np.inf:
        return np.asarray(value)
    if private:
        return _private(owner, name, value, low, high, open_low, open_high, infinite, hint)
    domain = _domain(low, high, open_low, open_high, infinite)
    if value is None or isinstance(value, (str, bytes, bool, np.bool_, complex, dict, set)):
        refuse(owner, name, domain, value, (isinstance(value, str) and spelled(value)) or hint or "Pass a number.", TypeError)
    try:
        raw = np.asarray(value)
        if raw.dtype.kind not in "iufO" or (
            raw.dtype.kind == "O" and any(isinstance(v, (str, bytes, bool, complex, type(None))) for v in raw.flat)
        ):
            refuse(owner, name, domain, value, hint or "Pass numbers.", TypeError)
        array = raw.astype(np.float64)
    except OverflowError:
        refuse(owner, name, domain, value, hint or "The number is too large for double precision.")
    except (TypeError, ValueError) as error:
        if str(error).startswith("`"):
            raise
        refuse(owner, name, domain, value, hint or "Pass a number or an array of numbers.", TypeError)
    bad = np.isnan(array)
    if not infinite:
        bad |= np.isinf(array)
    bad |= (array <= low) if open_low else (array < low)
    bad |= (array >= high) if open_high else (array > high)
    if bad.any():
        first = array[bad].flat[0]
        refuse(owner, name, domain, int(first) if raw.dtype.kind in "iu" else float(first), hint)
    return array


def _private(owner: str, name: str, value: Any, *limits: Any) -> Array:
    """`reals` whose refusals, and what stands behind them in a traceback, say nothing of the value."""
    low, high, open_low, open_high, infinite, hint = limits
    kind: type[Exception] | None = None
    try:
        return reals(owner, name, value, low=low, high=high, open_low=open_low, open_high=open_high, infinite=infinite)
    except (TypeError, ValueError) as error:
        kind = type(error)
    if kind is TypeError:
        hint = "Booleans, text and nested lists of several lengths are no numbers; convert them first."
    refuse(owner, name, _domain(low, high, open_low, open_high, infinite), WITHHELD, hint or "Every entry has to be a number.", kind)


def _plainly_inside(
    value: float, low: float = -np.inf, high: float = np.inf, open_low: bool = False, open_high: bool = False,
    infinite: bool = False, hint: str = "",
) -> bool:
    """Whether a finite float needs no further look."""
    return low < value < high and -np.inf < value < np.inf


def real(owner: str, name: str, value: Any, **limits: Any) -> float:
    """Return one number in the stated interval as a float (see `reals`)."""
    if type(value) is float and _plainly_inside(value, **limits):
        return value
    array = reals(owner, name, value, **limits)
    if array.ndim:
        refuse(owner, name, "a single number", value, "Arrays are not accepted here.", TypeError)
    return float(array)


MAX_COUNT = 10**12


def flag(owner: str, name: str, value: Any) -> bool:
    """Return a boolean; nothing else passes."""
    if not isinstance(value, (bool, np.bool_)):
        refuse(owner, name, "True or False", value, kind=TypeError)
    return bool(value)


def count(owner: str, name: str, value: Any, *, minimum: int = 1, maximum: int = MAX_COUNT, hint: str = "") -> int:
    """Return a whole number; floats pass only when they are whole, booleans never."""
    if type(value) is int and minimum <= value <= maximum:
        return value
    domain = f"a whole number >= {minimum}" if maximum == MAX_COUNT else f"a whole number in [{minimum}, {maximum}]"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, np.ndarray)):
        refuse(owner, name, domain, value, (isinstance(value, str) and spelled(value)) or hint or "Pass an int.", TypeError)
    if isinstance(value, np.ndarray):
        if value.ndim:
            refuse(owner, name, domain, value, hint or "Pass one int, not an array.", TypeError)
        value = value.item()
    if value != value or value in (np.inf, -np.inf) or int(value) != value:
        refuse(owner, name, domain, value, hint or "Round it yourself, so that you know which way.")
    if value < minimum or value > maximum:
        refuse(owner, name, domain, value, hint or (f"The largest count is {maximum:g}." if value > maximum else ""))
    return int(value)


def choice(owner: str, name: str, value: Any, options: Iterable[str], hint: str = "") -> str:
    """Return `value` if it is one of `options`."""
    if type(value) is str and isinstance(options, tuple) and value in options:
        return value
    known = [str(option) for option in options]
    domain = "one of " + ", ".join(repr(option) for option in known)
    if not isinstance(value, str):
        refuse(owner, name, domain, value, hint, TypeError)
    if value not in known:
        refuse(owner, name, domain, value, hint)
    return str(value)


def instance(owner: str, name: str, value: Any, kinds: type | tuple[type, ...], domain: str, hint: str = "") -> Any:
    """Return `value` if it is an instance of `kinds`."""
    if not isinstance(value, kinds):
        refuse(owner, name, domain, value, hint, TypeError)
    return value


def probabilities(owner: str, name: str, value: Any) -> Array:
    """Return a one-dimensional probability vector that sums to one within 1e-9."""
    vector = reals(owner, name, value, low=0.0, high=1.0)
    if vector.ndim != 1 or not vector.size:
        refuse(owner, name, "a one-dimensional, non-empty probability vector", value)
    total = float(vector.sum())
    if abs(total - 1.0) > 1e-9:
        refuse(owner, name, "a probability vector that sums to 1", value, f"It sums to {total!r}.")
    return vector


def points(owner: str, name: str, value: Any) -> Any:
    """Finite real or complex points of the plane, as an array."""
    array = np.asarray(value) if isinstance(value, (int, float, complex, np.generic, np.ndarray, list, tuple)) else None
    if array is None or array.dtype.kind not in "iufc":
        refuse(owner, name, "a real or complex number, or an array of them", value, kind=TypeError)
    if not np.isfinite(array).all():
        refuse(owner, name, "finite", value)
    return array
