"""Between doubles, exact rationals, balls and decimals: every conversion is exact or outward.

Importing this module (and any other of this folder) needs python-flint, the extra ``dpaccount[certify]``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction

from flint import acb, arb, ctx, fmpq

LN2 = math.log(2.0)


class NotHere(ArithmeticError):
    """The engine has no proof here; the message says what is missing."""


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Balls of this many bits inside, and whatever was set before outside."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def exact(x: float | Fraction | int) -> arb:
    """A double or a whole number without error, a fraction rounded to a ball."""
    if isinstance(x, Fraction):
        return arb(fmpq(x.numerator, x.denominator))
    return arb(x)


def around(radius: arb) -> arb:
    """All numbers of absolute value at most `radius`."""
    return arb(0, radius.abs_upper())


def disc(radius: arb) -> acb:
    """A square that holds all complex numbers of absolute value at most `radius`."""
    side = around(radius)
    return acb(side, side)


def rough(x: arb) -> float:
    """The midpoint as a double, without any promise; infinite where it overflows."""
    return float(x.mid()) if x.is_finite() else math.nan


def rough_log(x: arb) -> float:
    """log of the midpoint as a double, also where the number itself is no double; -inf at or below 0."""
    middle = x.mid()
    return float(middle.log()) if middle > 0 else -math.inf


def down(x: arb) -> float:
    """The largest double that is certainly not above the ball."""
    low = x.lower()
    value = float(low)
    while not arb(value) <= low:
        value = math.nextafter(value, -math.inf)
    return value


def up(x: arb) -> float:
    """The least double that is certainly not below the ball."""
    return -down(-x)


def fraction(x: arb) -> Fraction:
    """An exact ball as a fraction."""
    mantissa, exponent = x.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def decimals(x: arb, digits: int) -> tuple[Decimal, Decimal]:
    """(lower, upper) of a ball as decimals of so many digits, rounded outward."""
    ends = []
    with precision(64 + 4 * digits):
        lower, upper = x.lower(), x.upper()
    for end, mode in ((lower, ROUND_FLOOR), (upper, ROUND_CEILING)):
        value = fraction(end)
        with localcontext() as context:
            context.prec, context.rounding = digits, mode
            context.Emax, context.Emin = 10**9, -(10**9)
            ends.append(Decimal(value.numerator) / Decimal(value.denominator))
    return ends[0], ends[1]


def accuracy(x: arb) -> float:
    """-log of the width of a positive ball relative to its lower end, in nats; -inf if it is not certainly positive."""
    if not x > 0:
        return math.inf if x.is_exact() else -math.inf
    width = x.upper() - x.lower()
    return math.inf if width == 0 else rough_log(x.lower()) - rough_log(width)
