"""Which engine answers: public, and explained."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._log import ULP, log1m_exp
from dpaccount.engines import chords, closed, recursion
from dpaccount.engines.balls import face
from dpaccount.engines.circle import answer as circle
from dpaccount.engines.lattice import answer as lattice
from dpaccount.engines.line import answer as line
from dpaccount.engines.line import estimate, expansion
from dpaccount.engines.smoothed import answer as smoothed
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import DominatingPair, Step
from dpaccount.results import LogDelta, NumericalFailure

METHODS = ("auto", "closed", "line", "smoothed", "chords", "recursion", "circle", "lattice", "balls", "estimate")
MANY = 2000  # combinations of atoms on a lattice that take longer to enumerate than the circle takes
FAR = 1e4  # e^-FAR is nothing beside 1
LARGEST = 1e12  # the largest epsilon at which a line is drawn
FAILS = (CannotVouch, ZeroDivisionError, OverflowError)  # doubles that ran out of range vouch for nothing
NARROW = 1e-3  # a bracket narrower than this is not looked for elsewhere
SHARP = 1e-5  # a bracket of two steps wider than this is looked for elsewhere first
ROUGH = 0.01  # the same where any answer will do
NEARLY = 0.05  # the same below the smallest double
SMALLEST = -708.0
ROOM = 20.0  # by which a saddle point's guess may be off
WIDE = 10.0  # far in the tail no lattice betters a bracket narrower than this


class Selection(NamedTuple):
    """An engine's name and the reason it was chosen."""

    engine: str
    reason: str


def select(pair: DominatingPair) -> Selection:
    """Say which engine would answer for a directed pair, and why.

    Examples
    --------
    >>> from dpaccount import Gaussian, PoissonSampled, select
    >>> select(1000 * PoissonSampled(Gaussian(1.0), 0.01)).engine
    'line'
    >>> select(3 * Gaussian(2.0)).engine
    'closed'
    """
    _check.instance("select", "pair", pair, DominatingPair, "a dominating pair")
    return _selected(pair)


@lru_cache(maxsize=64)
def _selected(pair: DominatingPair) -> Selection:
    if closed.supports(pair) and not MANY < closed.combination_count(pair) < math.inf:
        return Selection("closed", f"{closed.kind(pair)}: exact to rounding")
    if all(step.facts.max_loss == step.facts.min_loss for step, _ in pair.terms):
        return Selection("lattice", "the loss is constant")
    if circle.common_lattice(pair) is not None:
        return Selection("circle", "every loss lies on one lattice: contour over one period of the characteristic function")
    if closed.supports(pair):
        return Selection("closed", f"{closed.kind(pair)}: exact to rounding")
    if chords.serves(pair):
        return Selection("chords", "two steps whose characteristic function hardly decays: between chords and means of a convex curve")
    if not any(_has_density(step) for step, _ in pair.terms):
        return Selection(
            "smoothed", "the loss has atoms only, off any lattice, so the characteristic function never decays: a smooth kernel brackets"
        )
    return Selection(
        "line",
        "the loss has a density: contour at the saddle point; where its characteristic function does not decay the smoothed "
        "contour brackets, and else the lattice",
    )


def _has_density(step: object) -> bool:
    return step.density() is not None  # type: ignore[attr-defined]


Line = Callable[[DominatingPair, float], LogDelta]


def log_delta(
    pair: DominatingPair, epsilon: float, method: str = "auto", goal: float = np.nan, contour: Line = line.log_delta,
    smooth: smoothed.Nearby | None = None,
) -> LogDelta:
    """log delta of a directed pair at one real epsilon, by the engine asked for.

    With a `goal` brackets are refined no further than to exclude log delta = goal; `contour` and `smooth` may remember lines.
    """
    smooth = smooth or smoothed.Nearby()
    if method == "balls":
        return face.log_delta(pair, epsilon)
    if epsilon < -FAR:  # 1 - e^eps <= delta <= 1
        return LogDelta(-1e-300, 0.0, 0.0, True, "closed")
    exact = edge(pair, epsilon)
    if exact is not None:
        return exact
    if epsilon > LARGEST and not closed.supports(pair):  # no line is drawn there: delta falls from here on
        return log_delta(pair, LARGEST, method)._replace(lower=closed.widened(pair.log_p_only, -np.inf).lower, condition=np.inf)
    if method == "closed":
        if not closed.supports(pair):
            raise NumericalFailure("`method='closed'` has no formula for this pair; use 'auto'.")
        return closed.log_delta(pair, epsilon)
    if method == "line":
        try:
            return contour(pair, epsilon)
        except FAILS as error:
            raise NumericalFailure(f"`method='line'` cannot vouch for its digits here: {error}. Use 'auto'.") from error
    if method == "circle":
        try:
            return circle.log_delta(pair, epsilon)
        except CannotVouch as error:
            raise NumericalFailure(f"`method='circle'` cannot answer here: {error}. Use 'auto'.") from error
    if method == "smoothed":
        try:
            return smooth(pair, epsilon, goal)
        except FAILS as error:
            raise NumericalFailure(f"`method='smoothed'` finds no line here: {error}. Use 'auto'.") from error
    if method == "chords":
        try:
            return chords.log_delta(pair, epsilon, goal)
        except FAILS as error:
            raise NumericalFailure(f"`method='chords'` does not apply here: {error}. Use 'auto'.") from error
    if method == "recursion":
        try:
            return recursion.log_delta(pair, epsilon, goal)
        except CannotVouch as error:
            raise NumericalFailure(f"`method='recursion'` does not apply here: {error}. Use 'auto'.") from error
    if method == "lattice":
        return lattice.log_delta(pair, epsilon, goal)
    engine = _selected(pair).engine
    if method == "estimate":
        quick, contour = contour if isinstance(contour, estimate.Nearby) else estimate.Nearby(), line.log_delta
        if engine == "line":
            with suppress(*FAILS):
                return quick(pair, epsilon)
    if engine == "closed":
        return closed.log_delta(pair, epsilon)
    near = closed.beside_top(pair, epsilon) if engine in ("line", "smoothed", "chords") else None
    if near is not None and _enough(near, goal, chords.AIM):
        return near
    if engine == "chords":
        engine = "line"
        with suppress(*FAILS):
            found = chords.log_delta(pair, epsilon, goal)
            if _enough(found, goal, NARROW):
                return found if _enough(found, goal, SHARP) else _narrower(found, pair, epsilon, goal, smooth)
    if near is not None and closed.at_rounding(pair, epsilon):
        return near
    try:
        if engine == "line" and not smooth.serves:
            with suppress(*FAILS):
                return contour(pair, epsilon)
        if engine in ("line", "smoothed"):
            late = engine == "line" and smooth.serves  # no line was found at an epsilon before
            found = _bracket(pair, epsilon, goal, smooth, near)
            if late and not _enough(found, goal, NARROW):
                with suppress(*FAILS):
                    return contour(pair, epsilon)
            return found
        if engine == "circle":
            with suppress(*FAILS):
                return circle.log_delta(pair, epsilon)
            if closed.supports(pair):
                return closed.log_delta(pair, epsilon)
        return lattice.log_delta(pair, epsilon, goal)
    except (ZeroDivisionError, OverflowError) as error:
        raise NumericalFailure(f"no engine can answer at epsilon = {epsilon:.6g}: doubles do not reach that far ({error}).") from error


def _narrower(found: LogDelta, pair: DominatingPair, epsilon: float, goal: float, smooth: smoothed.Nearby) -> LogDelta:
    """A bracket, or the smoothed contour's if that is narrower."""
    with suppress(*FAILS):
        other = smooth(pair, epsilon, goal)
        if other.certified and other.upper - other.lower < found.upper - found.lower:
            return other
    return found


def _bracket(
    pair: DominatingPair, epsilon: float, goal: float, smooth: smoothed.Nearby, near: LogDelta | None = None
) -> LogDelta:
    """The smoothed contour where it is certified and narrow, else the narrowest of what brackets; `near` is one already known.

    Far in the tail Chernoff's bounds on every number of jumps come first: where one jump rules they cost no line.
    """
    far = smooth.again(pair, epsilon)
    if far is not None and _serves(far, pair, goal):
        return far
    far = None
    with suppress(*FAILS):
        if _is_far(pair, epsilon, smooth):
            far = expansion.bounded(pair, epsilon, lattice.FLOOR)
    if far is not None and far.certified and _enough(far, goal, NARROW if far.upper > SMALLEST else NEARLY):
        return far
    found: LogDelta | None = None
    with suppress(*FAILS):
        found = smooth(pair, epsilon, goal)
    if found is not None and _serves(found, pair, goal):
        return found
    best = _meet(found, far, near)
    if best is not None and (_enough(best, goal, NARROW) or (far is not None and far.certified and best.upper - best.lower < WIDE)):
        return best
    if epsilon > 0.0 and expansion.few_samples(pair):  # which a line does not try on its way
        with suppress(*FAILS):
            best = _meet(best, expansion.log_delta(pair, epsilon)[0])
            if best is not None and _enough(best, goal, NARROW):
                return best
    other = lattice.far_tail(pair, epsilon, goal) or lattice.log_delta(pair, epsilon, goal)
    if other.certified:
        return _meet(best, other) or other
    return best if best is not None and best.upper - best.lower < other.upper - other.lower else other


def _meet(*brackets: LogDelta | None) -> LogDelta | None:
    """What several certified brackets leave together, named after the narrowest; None if there is none."""
    certified = sorted((one for one in brackets if one is not None and one.certified), key=lambda one: one.upper - one.lower)
    if not certified:
        return None
    low, high = max(one.lower for one in certified), min(one.upper for one in certified)
    if low > high:  # cannot happen if all are brackets; never answer with any
        return certified[-1]._replace(lower=min(one.lower for one in certified), upper=max(one.upper for one in certified), certified=False)
    return certified[0]._replace(lower=low, estimate=min(max(certified[0].estimate, low), high), upper=high)


def _serves(found: LogDelta, pair: DominatingPair, goal: float) -> bool:
    """Whether a smoothed line need not be bettered; of a pair that is not proved to dominate no answer is certified anyway."""
    return _enough(found, goal, NARROW) if found.certified else not pair.proved and _enough(found, goal, lattice.AIM)


def _is_far(pair: DominatingPair, epsilon: float, smooth: smoothed.Nearby) -> bool:
    """Whether delta may lie so far in the tail that jumps alone may bracket it."""
    with suppress(*FAILS):
        return smooth.rough(pair, epsilon) < lattice.FLOOR + ROOM
    return True


def _enough(found: LogDelta, goal: float, width: float) -> bool:
    """Narrow, or off the goal; a goal above every log delta asks for something rough, but for an answer."""
    if goal > 0.0:
        return found.upper - found.lower < max(width, ROUGH)
    return found.upper - found.lower < width or found.upper < goal or found.lower > goal


def inside(pair: DominatingPair, epsilon: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Where epsilon certainly lies inside the range of the loss, so that an engine must answer."""
    low, high = pair.loss_range
    hair = 1e-6 * (1.0 + sum(abs(end) for end in (low, high) if math.isfinite(end)))
    return np.asarray((low + hair < epsilon) & (epsilon < high - hair) & (epsilon > -FAR) & (epsilon <= LARGEST))


def edge(pair: DominatingPair, epsilon: float) -> LogDelta | None:
    """Answers outside the range of the loss: 1 - e^eps (with masses at infinity) below, P{L = inf} above.

    The ends are sums of rounded losses: within their rounding the bracket holds what an end beyond epsilon would give.
    """
    low, high = pair.loss_range
    hair = 1e-6 * (1.0 + sum(abs(end) for end in (low, high) if math.isfinite(end)))
    if low + hair < epsilon < high - hair:
        return None
    mass = pair.log_p_only
    if np.isfinite(high):
        gap = closed.end_of_range(pair, epsilon, top=True)
        if gap <= 0.0 or (epsilon == np.inf):
            return closed.widened(mass, -np.inf)
        if epsilon >= high or (gap <= 1e-14 * (1.0 + abs(high)) and not closed.supports(pair)):
            top = sum(n * _at_top(step, gap) for step, n in pair.terms)
            return closed.between(mass, min(top, 0.0) + float(log1m_exp(-gap)))
    if np.isfinite(low) and all(step.facts.log_q_only == -np.inf for step, _ in pair.terms):
        gap = closed.end_of_range(pair, epsilon, top=False)
        least = float(log1m_exp(epsilon)) if epsilon < 0 else -np.inf
        if gap <= 0.0:
            return closed.widened(least, 0.0)
        if epsilon < low:
            return closed.with_absolute(closed.widened(least, 0.0), float(np.log(gap)))
    return None


def _at_top(step: Step, gap: float) -> float:
    """An upper bound on log P[L >= max - gap]."""
    end = step.facts.max_loss
    found = step.above(end - 2 * gap - 16 * ULP * abs(end))[0]
    found = max(found, -700.0)  # some steps leave out what is thinner
    return min(found + 1e-13 * (1.0 + abs(found)), 0.0)
