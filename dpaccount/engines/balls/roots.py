"""epsilon at a delta: Newton's method finds a candidate, two balls beside it prove the bracket."""

from __future__ import annotations

import math
from fractions import Fraction

from dpaccount.engines.balls.answer import Question
from dpaccount.engines.balls.numbers import NotHere, exact, fraction, precision, rough
from dpaccount.pair import DominatingPair

STEPS = 60
FARTHEST = 1e6


def epsilon(pair: DominatingPair, delta: Fraction, digits: int) -> tuple[Fraction, Fraction] | None:
    """(lower, upper) of the least epsilon >= 0 with delta(epsilon) <= delta in (0, 1), 10^-digits apart; None if there is none."""
    start = Question(pair, Fraction(0)).delta(8.0)
    if start <= exact(delta):
        return Fraction(0), Fraction(0)
    if _never(pair, delta):
        return None
    here = _newton(pair, delta, digits)
    width = here / 10 ** (digits + 1)
    for _ in range(4):
        lower, upper = _rounded(here - width, digits), _rounded(here + width, digits)
        if _side(pair, lower, delta, digits) > 0 and _side(pair, upper, delta, digits) < 0:
            return lower, upper
        width *= 3
    raise NotHere("delta is too flat in epsilon for so many digits")


def _never(pair: DominatingPair, delta: Fraction) -> bool:
    """Whether the mass at an infinite loss is at least delta."""
    with precision(256):
        mass = Question(pair, Fraction(0)).infinite()
        if mass >= exact(delta):
            return True
        if not mass < exact(delta):
            raise NotHere("delta is the mass at an infinite loss")
    return False


def _gap(pair: DominatingPair, at: Fraction, delta: Fraction, digits: float) -> tuple[float, float]:
    """(log of delta(at)/delta, -d log delta/d eps)."""
    question = Question(pair, at)
    found = question.delta(digits)
    bits = int(digits * 3.4) + 80
    with precision(bits):
        if not found > 0:
            return -math.inf, math.nan
        return rough((found / exact(delta)).log()), question.fall()


def _side(pair: DominatingPair, at: Fraction, delta: Fraction, digits: float) -> int:
    """1 if delta(at) is certainly above delta, -1 if certainly below, 0 if undecided."""
    for more in (3.0, 7.0, 14.0):
        found = Question(pair, at).delta(digits + more)
        with precision(int(4 * digits) + 200):
            goal = exact(delta)
            if found > goal or found < goal:
                return 1 if found > goal else -1
    return 0


def _newton(pair: DominatingPair, delta: Fraction, digits: int) -> Fraction:
    low, high = Fraction(0), Fraction(1)
    while (found := _gap(pair, high, delta, 8.0))[0] > 0:
        low, high = high, 2 * high
        if high > FARTHEST:
            raise NotHere("no epsilon below a million reaches delta")
    here, known = high, 8.0
    for _ in range(STEPS):
        gap, fall = found
        low, high = (here, high) if gap > 0 else (low, here)
        move = Fraction(gap / fall) if math.isfinite(gap) and 0 < fall < math.inf else None
        new = here + move if move is not None else None
        if new is None or not low <= new <= high:
            new, move = (low + high) / 2, None
        if move is not None and abs(move) < here / 10 ** (digits + 2):
            return _rounded(new, digits)
        if move is not None and move != 0:
            settled = -float(math.log10(float(abs(move) / here))) if here else 0.0
            known = min(max(8.0, 2 * settled + 4.0), digits + 6.0)
        here = _rounded(new, digits)
        found = _gap(pair, here, delta, known)
    raise NotHere("Newton's method does not settle")


def _rounded(x: Fraction, digits: int) -> Fraction:
    """x to a dyadic number good for so many digits and some more."""
    with precision(int(3.4 * digits) + 40):
        return fraction(exact(x).mid()) if x else x

