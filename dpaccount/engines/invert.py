"""Roots on a privacy curve: epsilon at a given delta, and the point where Q[L > eps] is a given alpha."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from dpaccount.engines import auto
from dpaccount.engines.line import answer as line
from dpaccount.engines.line import estimate
from dpaccount.engines.line.saddle import Hint
from dpaccount.engines.smoothed import answer as smoothed
from dpaccount.pair import DominatingPair
from dpaccount.results import LogDelta


class Curve(Protocol):
    """log delta at an epsilon; a `goal` allows a loose bracket that excludes it."""

    def __call__(self, epsilon: float, goal: float = ..., /) -> LogDelta: ...


MAX_EVALUATIONS = 80
CEILINGS = 3  # so often is Chernoff's bound looked for anew


class Root(NamedTuple):
    """An epsilon with a bracket, and the engine's answer there."""

    lower: float
    estimate: float
    upper: float
    answer: LogDelta


class DirectedCurve:
    """log delta of a directed pair as a function of (epsilon, goal), remembering what it has computed."""

    def __init__(self, pair: DominatingPair, method: str = "auto") -> None:
        self.pair, self.method = pair, method
        self._known: dict[float, LogDelta] = {}
        self.nearby = line.Nearby()
        self.smooth = smoothed.Nearby()
        self.quick = estimate.Nearby() if method == "estimate" else None
        self._ceiling: line.Ceiling | None = None
        self._tries = 0

    def __call__(self, epsilon: float, goal: float = np.nan) -> LogDelta:
        found = self._known.get(epsilon)
        if found is None or (found.loose and not _excludes(found, goal)):
            found = auto.log_delta(self.pair, epsilon, self.method, goal, self.quick or self.nearby, self.smooth)
            self._known[epsilon] = found._replace(loose=_excludes(found, goal) and found.upper - found.lower > 2e-4)
        return self._known[epsilon]

    def under(self, epsilon: float, goal: float, near: Hint | None = None) -> LogDelta | None:
        """An answer that says no more than that log delta < goal, if Chernoff's bound says so, at first where `near` says."""
        if not (epsilon > 0.0 and goal > -np.inf):
            return None
        exact = auto.edge(self.pair, epsilon)
        if exact is not None:
            return exact if exact.upper < goal else None
        if self._ceiling is None or (not self._ceiling.at(epsilon) < goal and self._tries < CEILINGS):
            near = near if self._ceiling is None else None
            self._tries += 1
            if self.quick is not None:
                self._ceiling = estimate.ceiling(self.pair, epsilon, near) or self._ceiling
            elif self.method in ("auto", "line") and auto.select(self.pair).engine == "line":
                found, hint = line.ceiling(self.pair, epsilon, goal, near)
                self._ceiling = found or self._ceiling
                self.look_at(hint)
        if self._ceiling is None or not self._ceiling.at(epsilon) < goal:
            return None
        return LogDelta(-np.inf, goal - 1e-9, goal, self.quick is None, "line", 1.0, -np.inf)

    def look_at(self, hint: Hint | None) -> None:
        """Where a contour of a similar pair lay, unless this curve knows better."""
        lines = self.quick or self.nearby
        if lines.hint is None:
            lines.hint = hint

    @property
    def hint(self) -> Hint | None:
        """Where its last contour lay."""
        return (self.quick or self.nearby).hint


def _excludes(found: LogDelta, goal: float) -> bool:
    return found.upper < goal or found.lower > goal


def guess_epsilon(pair: DominatingPair, log_delta: float) -> tuple[float, Hint | None]:
    """A rough epsilon for a delta, from the saddle-point approximation or a normal one; any positive number is allowed."""
    try:
        return line.approximate_epsilon(pair, log_delta)
    except ArithmeticError:
        return 1.0, None


def solve(curve: Curve, log_delta: float, guess: float) -> Root:
    """The epsilon >= 0 where log delta falls to `log_delta`, with a bracket from the curve's own bounds.

    Guarantee
    ---------
    The curve's upper bound at `upper` is at most log_delta, its lower bound at `lower` at least
    (or `lower` is 0); both are evaluated, not extrapolated. Where no epsilon is seen to reach log_delta, `upper` is inf.
    """
    sure = 0.0  # the largest epsilon at which delta was seen to be no less

    def seen(epsilon: float, goal: float = np.nan) -> LogDelta:
        nonlocal sure
        answer = curve(epsilon, goal)
        sure = max(sure, epsilon) if answer.lower >= log_delta else sure
        return answer

    middle = _root(seen, log_delta, guess, lambda a: a.estimate)
    if middle == np.inf:
        return _unreached(curve, log_delta)
    if middle == 0.0:
        return Root(0.0, 0.0, 0.0, curve(0.0))
    answer = curve(middle)
    slope = float(np.exp(min(answer.log_tail + middle - answer.estimate, 700.0)))
    if not (np.isfinite(slope) and slope > 0):
        slope = 1.0
    upper = _walk(curve, log_delta, middle, slope, lambda a: a.upper, 1.0)
    lower = max(_walk(curve, log_delta, middle, slope, lambda a: a.lower, -1.0), sure)
    ends = [curve(end, log_delta).certified for end in (lower, upper) if 0.0 < end < np.inf]
    return Root(min(lower, middle), middle, max(upper, middle), answer._replace(certified=answer.certified and all(ends)))


def _unreached(curve: Curve, target: float) -> Root:
    """No upper end; the lower one is the largest power of 4 at which delta is seen to exceed the target."""
    lower, answer = 0.0, curve(0.0)
    for here in 4.0 ** np.arange(-3, 12):
        found = curve(float(here), target)
        if not found.lower >= target:
            break
        lower, answer = float(here), found
    return Root(lower, np.inf, np.inf, answer)


def _walk(curve: Curve, target: float, start: float, slope: float, side: Callable[[LogDelta], float], sign: float) -> float:
    """Step from the root until the bound is on the safe side of the target."""
    gap = (side(curve(start)) - target) * sign
    if gap <= 0.0:
        return start
    step = max(2.0 * gap / slope, 4e-16 * max(start, 1e-300))  # twice: asked afresh, the same epsilon may have a wider bracket
    here = start
    for _ in range(60):
        here = max(start + sign * step, 0.0)
        if here == 0.0 and sign < 0:
            return 0.0
        if (side(curve(here, target)) - target) * sign <= 0.0:
            return _tightened(curve, target, start, here, side, sign, slope)
        start, step = here, step * 2.0
    return np.inf if sign > 0 else 0.0


def _tightened(
    curve: Curve, target: float, bad: float, good: float, side: Callable[[LogDelta], float], sign: float, slope: float
) -> float:
    """Bisect towards a jump of the curve if the last step was a long one."""
    for _ in range(60):
        answer = curve(good, target)
        if abs(good - bad) <= max(1e-11 * abs(good), 1.5 * (answer.upper - answer.lower) / slope):
            break
        middle = (good + bad) / 2
        if (side(curve(middle, target)) - target) * sign <= 0.0:
            good = middle
        else:
            bad = middle
    return good


def _root(curve: Curve, target: float, guess: float, side: Callable[[LogDelta], float]) -> float:
    """Newton on log delta, whose slope is e^eps Q[L > eps]/delta, kept in a bracket; 0 if delta(0) is low enough, inf if none is."""
    low, high = 0.0, np.inf
    here = max(guess, 1e-12)
    for _ in range(MAX_EVALUATIONS):
        answer = curve(here, target)
        gap, width = side(answer) - target, min(answer.upper - answer.lower, 2 * (answer.upper - answer.estimate))
        if gap > 0:
            low = here
        else:
            high = here
        slope = float(np.exp(min(answer.log_tail + here - answer.estimate, 700.0)))
        if abs(gap) < 1e-15 * max(1.0, abs(target)):
            return here
        newton = np.isfinite(gap) and slope > 0 and np.isfinite(slope) and width < 0.5
        new = here + gap / slope if newton else np.inf
        if new <= 0.0 or here < 1e-9:
            zero = curve(0.0, target)
            if zero.upper <= target:
                return 0.0
        if not low < new < high:
            new = (low + high) / 2 if np.isfinite(high) else 2 * here
            if not newton and np.isfinite(high) and high - low <= (1e-3 if width >= 0.5 else 1e-12) * high:
                return high
        if width < 0.5 and abs(gap) <= 0.05 * width:
            return here  # the engine's own error is larger than the rest
        if abs(new - here) <= 4e-16 * here or (np.isfinite(high) and high - low <= 4e-16 * high):
            return new if side(curve(new)) <= target else here
        here = new
    return high
