"""The smoothed contour: a certified bracket where the characteristic function does not decay, as with few samples or few steps.

After the big jump is split off, delta_B is convex in gamma = e^eps. `mollifier` puts it between f~ - C D and f~, two integrals
over the line through the saddle point that end where the kernel's transform does; `smooth_line` takes both from the same
frequencies. C D is of second order in the kernel's width, and is paid once, whatever the number of steps.
"""

from __future__ import annotations

import math

import numpy as np

from dpaccount._log import ULP, log_kappa, log_total
from dpaccount._quadrature import TooManyNodes
from dpaccount.engines.jump import NO_CUT, margin, split
from dpaccount.engines.line.alias import Alias, on_both_sides
from dpaccount.engines.line.answer import reflected
from dpaccount.engines.line.axis import Axis, Parts, each_below
from dpaccount.engines.line.saddle import rises
from dpaccount.engines.line.terms import SAFE
from dpaccount.engines.smoothed.atoms import beside
from dpaccount.engines.smoothed.line import END, MAX_COUNT, Body, Reading, Waves, read, waves
from dpaccount.engines.smoothed.mollifier import Mollifier, half_width
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import DominatingPair
from dpaccount.results import LogDelta

AIM = 1e-6  # relative width of delta at which refinement stops
FIRST = 1e-4
ENOUGH = 1e-5  # below this width no more than a quarter of the frequencies are spent
NEGLIGIBLE = 1e-9  # a body below this part of the jump is bounded by Chernoff alone
KINDS = 12  # for more kinds of steps a line has fewer frequencies
PASSES = 6
SERVES = 1e-3  # relative width of an answer that need not be looked for elsewhere
ROOM = 1e-4  # of epsilon: how far above it a cut still serves, so that a root finder need not make another


def log_delta(pair: DominatingPair, epsilon: float, goal: float = np.nan, aim: float = AIM) -> LogDelta:
    """log delta of a directed pair at any real epsilon, with a relative width of `aim` where that is not too costly.

    Refinement stops as well when the bracket excludes log delta = `goal`. Raises `CannotVouch` where no line serves.
    """
    return Nearby()(pair, epsilon, goal, aim)


Line = tuple[Body, Mollifier, Alias, Waves, float]  # with the width of what it said


class Nearby:
    """`log_delta` of one pair for a root finder: the narrowest line so far answers again for an epsilon beside its own."""

    def __init__(self) -> None:
        self._last: Line | None = None
        self._body: Body | None = None
        self.serves = False  # whether some answer was narrow, and certified unless the pair itself is not proved to dominate

    def __call__(self, pair: DominatingPair, epsilon: float, goal: float = np.nan, aim: float = AIM) -> LogDelta:
        if epsilon < 0.0:
            return reflected(log_delta(pair.reversed(), -epsilon, np.nan, aim), epsilon)
        again = self.again(pair, epsilon, aim)
        if again is not None:
            return again
        body = self._body_at(pair, epsilon)
        best = _chernoff(body)
        if best.upper - best.lower <= 2 * NEGLIGIBLE:
            return best
        found = self._refined(body, best, goal, aim)
        self.serves = self.serves or ((found.certified or not pair.proved) and found.upper - found.lower < SERVES)
        return found

    def rough(self, pair: DominatingPair, epsilon: float) -> float:
        """log delta by the saddle point, and no more than that; raises `CannotVouch` where there is none."""
        if epsilon < 0.0:
            raise CannotVouch("the swapped pair answers below 0")
        body = self._body_at(pair, epsilon)
        return float(np.logaddexp(body.rough, body.jump.log_part(epsilon)[0]))

    def _body_at(self, pair: DominatingPair, epsilon: float) -> Body:
        if self._body is None or self._body.epsilon != epsilon or self._body.pair != pair:
            try:
                self._body = _body(pair, epsilon)
            except TooManyNodes as error:
                raise CannotVouch(str(error)) from error
        return self._body

    def again(self, pair: DominatingPair, epsilon: float, aim: float = AIM) -> LogDelta | None:
        """The last line, if its tilt and its cut serve this epsilon, and it was as fine as it could be made."""
        if self._last is None or epsilon < 0.0 or self._last[0].pair != pair:
            return None
        body, mollifier, alias, along, width = self._last
        shift = epsilon - body.epsilon
        if not (abs(shift * body.tilt) <= 0.25 and body.jump.cut >= epsilon + body.jump.margin.distance):
            return None
        body = body._replace(epsilon=epsilon, rough=body.rough - body.tilt * shift)
        best = _chernoff(body)
        found = _assembled(body, read(body, mollifier, alias, along), best.upper)
        return found if found.upper - found.lower <= max(1.5 * width, aim) else None

    def _refined(self, body: Body, best: LogDelta, goal: float, aim: float) -> LogDelta:
        """Lines with narrower and narrower kernels, each aimed by what the last one saw."""
        c, log_jump = body.tilt, body.jump.log_part(body.epsilon)[0]
        rough, target, slack, lines = body.rough, max(FIRST, aim), 4.0, 0
        narrowest: Line | None = None
        gap = 0.5 * target * math.exp(min(max(log_jump - rough, 0.0), 200.0)) / (c * (c + 1.0))
        for _ in range(PASSES):
            total = float(np.logaddexp(rough, log_jump))
            alias = on_both_sides(body.axis, c, body.epsilon, total - slack + math.log(target), body.spread)
            mollifier, last = _kernel(body, min(gap, c**-2.0), alias, max(body.log_scale - total, 0.0) - math.log(target), best)
            try:
                along = waves(body, mollifier, alias)
            except TooManyNodes:
                if lines:
                    break
                gap = 6.0 * mollifier.gap
                continue
            found = read(body, mollifier, alias, along)
            here, before = _assembled(body, found, best.upper), best.upper - best.lower
            best = _tighter(best, here) if lines else here
            lines, width = lines + 1, best.upper - best.lower
            if narrowest is None or here.upper - here.lower < narrowest[-1]:
                narrowest = body, mollifier, alias, along, here.upper - here.lower
            stuck = last or (lines > 1 and width > 0.7 * before)
            if width <= aim or stuck:
                self._last = narrowest
                break
            if goal == goal and not best.lower <= goal <= best.upper:
                break
            rough = found.log_scale + math.log(found.smooth) if found.smooth > 0.0 else rough
            if found.excess * math.exp(found.log_scale - best.upper) > 0.1 * width:
                slack += 4.0
            share = math.exp(min(found.log_scale + math.log(max(found.gap, 1e-300)) - best.upper, 600.0))
            target = max(aim, 1e-2 * min(target, width)) if width < 0.1 else target
            gap = mollifier.gap * 0.5 * target / share
        if not lines:
            raise CannotVouch("the line needs more nodes than the engine is willing to spend")
        return best


def _kernel(body: Body, gap: float, alias: Alias, needed: float, best: LogDelta) -> tuple[Mollifier, bool]:
    """The kernel with this C and a transform that falls far enough, or the narrowest that costs allow, and whether it is that."""
    most = MAX_COUNT if best.upper - best.lower > ENOUGH else MAX_COUNT / 4
    most *= min(1.0, KINDS / len(body.axis.terms))
    beta = 9.0
    for _ in range(3):
        beta = min(max(needed + math.log(70.0 * half_width(gap, beta)), 7.0), 40.0)
    least = END * beta * alias.period / (2.0 * math.pi * most)
    width = half_width(gap, beta)
    return Mollifier(max(width, least), beta, body.tilt), width < least


def _body(pair: DominatingPair, epsilon: float) -> Body:
    """The composition below the cut, and the saddle point right of 0 or the last tilt that nodes serve."""
    found = margin(pair)
    if found.distance == np.inf or all(step.facts.max_loss <= epsilon + found.distance for step, _ in pair.terms):
        found = NO_CUT
    jump = split(pair, epsilon * (1.0 + ROOM), found)
    axis = Axis(each_below(pair, jump.cut), 0.0, 0.0, 0.0)
    if axis.many:
        raise CannotVouch("too many distinct steps")
    _, mean, variance = axis.cumulants(0.0)
    if not variance > 0.0:
        raise CannotVouch("the privacy loss is constant below the cut")
    spread = math.sqrt(variance)
    gap = (epsilon - mean) / spread
    enough = jump.log_part(epsilon)[0] + math.log(NEGLIGIBLE)
    guess = (gap + math.sqrt(gap * gap + 8.0)) / spread  # twice the root of v c + m = eps + 2/c
    largest = min(jump.cut, max(part.step.facts.max_loss for part in axis.parts.single))
    axis, c, done = _tilt(axis.parts, epsilon, enough, min(guess, SAFE / largest) if largest > 0.0 else guess)
    if not done:  # the saddle point may lie where e^{cL} overflows
        axis, c, _ = _tilt(_scaled(axis.parts), epsilon, enough, 2.0 * c)
    _, _, variance = axis.cumulants(c)
    spread = math.sqrt(variance)
    if not spread > 0.0:
        raise CannotVouch("the privacy loss is constant under the tilt")
    try:
        if not c + 3.0 / spread <= axis.high <= c + 4.0 / spread:  # errors are stated at the ends of the tilts
            axis = Axis(axis.parts, 0.0, c + 3.0 / spread, 0.0)
    except TooManyNodes:
        pass
    if _overflows(axis):  # at its high end, which errors are stated at
        axis = Axis(_scaled(axis.parts), 0.0, axis.high, 0.0)
    bend = variance + 1 / c**2 + 1 / (c + 1) ** 2
    rough = axis.log_mass + axis.log_mgf(c) - c * epsilon - math.log(c * (c + 1)) - 0.5 * math.log(2 * math.pi * bend)
    atoms = beside(pair, epsilon, spread, rough) if jump.cut == np.inf else None
    return Body(pair, epsilon, jump, axis, c, spread, rough, atoms)


def _tilt(parts: Parts, epsilon: float, enough: float, high: float) -> tuple[Axis, float, bool]:
    """Nodes and the saddle point right of 0; short of it a tilt whose Chernoff bound is below e^enough, or, with False, the last
    that serves."""
    low, ceiling, best = 0.0, math.inf, None
    for _ in range(60):
        try:
            axis = Axis(parts, 0.0, high, 0.0)
            if rises(axis, epsilon, high):
                return axis, _crossing(axis, epsilon, low, high), True
            best, low = (axis, high), high
            if axis.log_mass + axis.log_mgf(high) - high * epsilon + log_kappa(high) < enough:
                return axis, high, True
        except (CannotVouch, TooManyNodes):
            ceiling = high
        if ceiling < 1.05 * low or high < 1e-200:
            break
        high = high * 2.0 if ceiling == math.inf else math.sqrt(low * ceiling) if low else high / 6.0
    if best is None:
        raise CannotVouch("no tilt serves")
    return *best, False


def _overflows(axis: Axis) -> bool:
    try:
        axis.cumulants(axis.high)
    except CannotVouch:
        return True
    return False


LOWEST = -1e300  # below every loss


def _scaled(parts: Parts) -> Parts:
    """The same parts as far ones, whose sums are scaled by their largest summand: a little less exact, at any tilt."""
    return parts._replace(single=tuple(part._replace(lower=LOWEST) for part in parts.single))


def _crossing(axis: Axis, epsilon: float, low: float, high: float) -> float:
    """Where K'(c) = eps + 1/c + 1/(c+1), by bisection: K' may rise by many orders of magnitude."""
    low = max(low, 1e-9 * high)
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if rises(axis, epsilon, middle) else (middle, high)
    return high


def _chernoff(body: Body) -> LogDelta:
    """The jump alone from below, and Chernoff's bound on the rest from above."""
    c, axis, jump = body.tilt, body.axis, body.jump
    bound = body.log_scale + axis.rounding(c) + axis.mass_error + log_kappa(c) + 4 * ULP * (2.0 + c * body.epsilon)
    log_jump, error = jump.log_part(body.epsilon)
    high = min(log_total(np.array([bound, log_jump, error, jump.log_slack])) + 1e-14, 0.0)
    low = min(_less(log_jump, error), high)
    return LogDelta(low, high, high, axis.proved and jump.margin.bounded, "smoothed", 1.0, min(jump.log_q, 0.0))


def _assembled(body: Body, found: Reading, ceiling: float) -> LogDelta:
    """Body and jump together."""
    log_jump, log_jump_error = body.jump.log_part(body.epsilon)
    spikes, spikes_error, spikes_above = body.atoms.value(body.epsilon) if body.atoms is not None else (0.0, 0.0, 0.0)
    top = max(found.log_scale, log_jump)
    scale, other = math.exp(found.log_scale - top), math.exp(log_jump - top)
    spare = math.exp(log_jump_error - top) + 4 * ULP * other
    proved = found.proved and body.axis.proved and body.jump.margin.bounded
    times = 1.0 if proved else 3.0
    error = times * found.error + 4 * ULP * abs(found.smooth)
    unit = math.exp(min(-top, 700.0))
    other, spare = other + spikes * unit, spare + (spikes_error + 4 * ULP * spikes) * unit
    high = other + spare + math.exp(min(body.jump.log_slack - top, 600.0)) + scale * (found.smooth + error)
    below = found.smooth - error - found.excess - (found.gap + times * found.gap_error)
    low = max(other - spare, 0.0) + scale * max(below, 0.0)
    log_high = min(top + math.log(high), ceiling, 0.0) if high > 0.0 else ceiling
    log_low = min(top + math.log(low), log_high) if low > 0.0 else -math.inf
    slack = 4 * ULP * (1.0 + abs(log_high))
    log_low, log_high = log_low - slack, min(log_high + slack, 0.0)
    guess = other + scale * found.estimate
    estimate = min(max(top + math.log(guess), log_low), log_high) if guess > 0.0 else log_high
    condition = float(max(scale * found.size / max(high, 1e-300), 1.0))
    tail = spikes_above * unit + scale * found.tail + math.exp(min(body.epsilon + body.jump.log_q - top, 600.0))
    log_tail = top + math.log(tail) - body.epsilon if tail > 0.0 else body.jump.log_q
    return LogDelta(log_low, estimate, log_high, proved, "smoothed", condition, min(log_tail, 0.0))


def _tighter(old: LogDelta, new: LogDelta) -> LogDelta:
    low, high = max(old.lower, new.lower), min(old.upper, new.upper)
    return new._replace(lower=low, upper=high, estimate=min(max(new.estimate, low), high))


def _less(positive: float, negative: float) -> float:
    return positive + math.log(-math.expm1(negative - positive)) if negative < positive else -math.inf
