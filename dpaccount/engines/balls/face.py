"""The ball engine as the others are called; python-flint, the extra ``dpaccount[certify]``, is imported when it is first asked."""

from __future__ import annotations

import math
from fractions import Fraction

from dpaccount.pair import DominatingPair
from dpaccount.results import LogDelta, NumericalFailure

DIGITS = 15.5  # of delta, so that what is left of a double's digits goes to rounding log delta outward


def require(owner: str) -> None:
    """Raises ImportError with the extra's name where python-flint is missing."""
    try:
        import flint  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"`{owner}` needs ball arithmetic, which is an extra: pip install 'dpaccount[certify]' ({error})."
        ) from error


def log_delta(pair: DominatingPair, epsilon: float) -> LogDelta:
    """log delta of a directed pair in a certified bracket of about a double's width; `NumericalFailure` where there is no proof."""
    require("method='balls'")
    from dpaccount.engines.balls.answer import Question
    from dpaccount.engines.balls.numbers import NotHere, down, exact, precision, up

    if math.isinf(epsilon):
        raise NumericalFailure("`method='balls'` has no bracket at an infinite epsilon. Use 'auto'.")
    question = Question(pair, Fraction(epsilon))
    try:
        found = question.delta(DIGITS)
        fall = question.fall() if found > 0 else math.nan
    except NotHere as error:
        raise NumericalFailure(f"`method='balls'` has no proof here: {error}. Use 'auto'.") from error
    with precision(120):
        room = exact(4.5e-16)  # e^x is rounded again when it is shown as delta
        low = found.lower().log() - room if found.lower() > 0 else None
        high = found.upper().log() + room if found.upper() > 0 else None
        middle = float(found.mid().log()) if found.mid() > 0 else -math.inf
        lower, upper = -math.inf if low is None else down(low), -math.inf if high is None else min(up(high), 0.0)
    middle = min(max(middle, lower), upper)
    tail = middle + math.log(fall) - epsilon if fall > 0.0 and middle > -math.inf else -math.inf
    return LogDelta(min(lower, upper), middle, upper, True, "balls", 1.0, tail)
