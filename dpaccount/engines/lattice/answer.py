"""The tilted FFT: a certified bracket for every pair, with relative accuracy in the tail.

Each step is put on a lattice twice (`pld`), optimistic and pessimistic. The masses are tilted by e^{cl} with c
the saddle point, composed by FFT, and untilted inside the sum for delta, so that rounding is relative
to the answer and not to one. Bounded are: lattice rounding (by the two sides), what falls outside the FFT's
window (Chernoff), the big jump (`engines.jump`), and rounding of masses, transform and power.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._lattice_curve import Grid
from dpaccount._log import log1m_exp, log_kappa, log_total
from dpaccount._quadrature import TooManyNodes
from dpaccount.engines import closed
from dpaccount.engines.circle.answer import common_lattice
from dpaccount.engines.jump import Jump, Margin, at_ends, log_rate, log_some, margin, split
from dpaccount.engines.lattice.tilted import Side, failure
from dpaccount.engines.line.answer import reflected
from dpaccount.engines.line.axis import Axis, below
from dpaccount.engines.line.saddle import saddle
from dpaccount.engines.many.family import FEW, families, rounded
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import DominatingPair, Step
from dpaccount.pld import LostDigits, PrivacyLossDistribution, discretise
from dpaccount.results import LogDelta

Array = npt.NDArray[np.float64]
AIM = 1e-4  # relative width of delta at which refinement stops
MAX_POINTS = 2**20
FLOOR = -115.0  # below 1e-50 the first valid bracket is the answer
LOG_TINY = -650.0  # tails thinner than this underflow: what lies beyond is taken as a jump


class _Part(NamedTuple):
    """One distinct step on the lattice, once per side."""

    optimistic: PrivacyLossDistribution
    pessimistic: PrivacyLossDistribution
    times: int


def log_delta(
    pair: DominatingPair, epsilon: float, goal: float = np.nan, aim: float = AIM, floor: float = FLOOR
) -> LogDelta:
    """log delta of a directed pair at any real epsilon, as a certified bracket.

    Refinement stops when upper/lower - 1 <= `aim`, at the largest lattice, or as soon as the bracket excludes
    log delta = `goal` or lies below `floor`: it is then wide but valid. Far in the tail, where no lattice
    fits, the lower end is the big jump alone and the upper end Chernoff's bound for the pessimistic lattice.
    """
    if epsilon < 0.0:
        # beside 1 - e^eps a far smaller delta of the swapped pair need not be known well
        return reflected(log_delta(pair.reversed(), -epsilon, np.nan, aim, max(_hidden(epsilon), FLOOR)), epsilon)
    if families(pair)[1]:
        return _rounded_noise(pair, epsilon, goal, aim, floor)
    if all(step.density() is None and step.atoms()[0].size <= 1 for step, _ in pair.terms):
        return closed.log_delta(pair, epsilon)._replace(method="lattice")  # one point: nothing to round
    low, high = _singly(pair, epsilon)
    if high < goal or low > goal:
        return LogDelta(low, high, high, True, "lattice", np.inf)
    jump = _jump(pair, epsilon)
    exact = common_lattice(pair)
    spread, h = (1.0, exact) if exact else _plan(pair, epsilon, jump)
    if not exact:
        h = _aligned(pair, h)
    best: LogDelta | None = None
    for _ in range(6):
        found, need = _bracket(pair, epsilon, jump, h, spread, bool(exact))
        if found is not None:
            old = np.inf if best is None else best.upper - best.lower
            best = found if best is None else _tighter(best, found)
            slow = best.upper - best.lower > 0.8 * old
            if best.upper <= floor or (slow and not best.upper - best.lower < 0.1):
                break
            if exact or best.upper - best.lower <= aim or (not best.lower <= goal <= best.upper and goal == goal):
                break
        finest = 1.01 * 2 * max(need, spread) / MAX_POINTS
        if found is not None and h <= 1.5 * finest:
            break
        spread = need
        h = max(h / 4.0, finest) if found is not None else max(h, finest)
        if not exact and _aligned(pair, h) >= finest:
            h = _aligned(pair, h)
    if best is None:
        best = _without_grid(pair, epsilon, jump)
    certified = best.certified or (low >= best.lower and high <= best.upper)
    low, high = max(best.lower, low), min(best.upper, high)
    if low > high:  # cannot happen if all are brackets; never answer with any
        low, high, certified = -np.inf, 0.0, False
    return best._replace(lower=low, estimate=min(max(best.estimate, low), high), upper=high, certified=certified)


def _rounded_noise(pair: DominatingPair, epsilon: float, goal: float, aim: float, floor: float) -> LogDelta:
    """Many noise multipliers rounded up to a few, and down: delta falls as the noise grows, so that the two bracket it."""
    weaker, stronger = (log_delta(side, epsilon, goal, aim, floor) for side in rounded(pair, FEW - 1))
    return stronger._replace(
        lower=weaker.lower, estimate=min(max((weaker.estimate + stronger.estimate) / 2, weaker.lower), stronger.upper),
        certified=weaker.certified and stronger.certified,
    )


def _singly(pair: DominatingPair, epsilon: float) -> tuple[float, float]:
    """Certified bounds from the steps' own curves: no less than any one step, no more than basic composition's sum.

    (eps_1 + eps_2, delta_1 + delta_2) holds for every way to share eps (DR14, Theorem 3.16): equally, or with all of it for
    one distinct step. Steps without a closed curve, or too many of them, make them trivial.
    """
    if families(pair)[1]:
        return _infinite(pair), 0.0
    counts = np.array([float(count) for _, count in pair.terms])
    shares = [np.full(counts.size, epsilon / counts.sum())]
    if 1 < counts.size <= 8:
        shares += [np.where(np.arange(counts.size) == k, epsilon / counts[k], 0.0) for k in range(counts.size)]
    low, high = _infinite(pair), 0.0
    steps = [step for step, _ in pair.terms]
    if all(closed.supports(step) for step in steps):
        for share in shares:
            parts = [closed.log_delta(step, float(part) * (1 - 2.0**-50)).upper for step, part in zip(steps, share, strict=True)]
            high = min(high, log_total(np.log(counts) + np.array(parts)) + 1e-13)
    low = max(low, *(closed.log_delta(step, epsilon).lower for step in steps if closed.supports(step)), -np.inf)
    return min(low, high), high


def far_tail(pair: DominatingPair, epsilon: float, goal: float = np.nan) -> LogDelta | None:
    """A bracket without a lattice where delta is below e^FLOOR or below e^goal, for `auto`: quick and wide.

    For eps < 0 the same for the swapped pair, where its delta no longer shows beside 1 - e^eps.
    """
    if epsilon > 0.0:
        found = _without_grid(pair, epsilon, _jump(pair, epsilon))
        return found if found.upper < FLOOR or found.upper < goal else None
    if epsilon == 0.0:
        return None
    other = pair.reversed()
    inner = _without_grid(other, -epsilon, _jump(other, -epsilon))
    return reflected(inner, epsilon) if inner.upper < _hidden(epsilon) else None


def _hidden(epsilon: float) -> float:
    """log delta of the swapped pair below which it changes delta(eps), eps < 0, by less than e^-32."""
    return float(np.log(-np.expm1(epsilon))) - epsilon - 32.0


def _without_grid(pair: DominatingPair, epsilon: float, jump: Jump) -> LogDelta:
    """Where losses span too many scales for any lattice: below, the jump or one step alone; above, Chernoff from nodes.

    Certified if the nodes are proved, and the margin of the jump with them.
    """
    low, high = _singly(pair, epsilon)
    proved = True
    low = max(_less(*jump.log_part(epsilon)), low)
    for attempt in (1, 2):
        try:
            if attempt == 1:
                axis, c, middle = saddle(below(pair, jump.cut), epsilon)
            else:  # the saddle point lies where e^{cL} overflows: any smaller tilt bounds delta as well
                c, middle = 600.0 / max(abs(jump.cut), 1e-3), False
                axis = Axis(below(pair, jump.cut), 0.0, c, 0.0)
            if not middle:
                k = axis.log_mgf(c) + axis.rounding(c) + axis.mass_error + 4e-15 * c * (1 + epsilon)
                body = axis.log_mass + k - c * epsilon + log_kappa(c) + 1e-6
                high = min(log_total(np.array([body, *jump.log_part(epsilon), jump.log_slack])), high)
                proved = axis.proved and jump.margin.bounded
            break
        except (CannotVouch, TooManyNodes):
            continue
    return LogDelta(min(low, high), high, high, proved, "lattice", np.inf, min(jump.log_q, 0.0))


def _jump(pair: DominatingPair, epsilon: float) -> Jump:
    found = margin(pair)
    if found.distance == np.inf:  # no bound on the others' sum: whatever the jump leaves is counted as slack
        found = Margin(40.0, 0.0)
    return split(pair, epsilon, found)


def _plan(pair: DominatingPair, epsilon: float, jump: Jump) -> tuple[float, float]:
    """A first guess of the window's width and of a lattice step that resolves the narrowest body."""
    try:
        axis, c, _ = saddle(below(pair, jump.cut), epsilon)
    except (CannotVouch, TooManyNodes):
        try:
            axis, c = Axis(below(pair, jump.cut), 0.0, 0.0, 0.0), 0.0
        except (CannotVouch, TooManyNodes):
            return max(jump.cut - epsilon, 1.0), 1e-3
    _, _, variance = axis.cumulants(c)
    largest = max(float(np.abs(t.loss).max()) for t in axis.terms)
    spread = max(14.0 * float(np.sqrt(variance)), 1e-6 * largest, 1e-290)
    # a step that is constant below the cut needs no resolution: its loss is a point of its lattice
    body = min((b for b in (float(np.sqrt(t.variance)) for t in axis.terms) if b > 1e-9 * spread), default=spread)
    spread = min(max(spread, 8 * body), 1e4)
    return spread, min(max(body / 4.0, 4 * spread / MAX_POINTS), spread / 256, 0.25)


class _TooFine(ArithmeticError):
    """The lattice would need more points than are allowed."""


def _tighter(a: LogDelta, b: LogDelta) -> LogDelta:
    low, up = max(a.lower, b.lower), min(a.upper, b.upper)
    if low > up:  # cannot happen if both are brackets; never answer with either
        return b._replace(lower=min(a.lower, b.lower), upper=max(a.upper, b.upper), certified=False)
    return b._replace(lower=low, upper=up, estimate=min(max(b.estimate, low), up))


def _aligned(pair: DominatingPair, h: float) -> float:
    """A step no larger than h that puts both of the heaviest atoms of a single distinct step on the lattice, if it has two."""
    (step, _), *others = pair.terms
    loss, log_p = step.atoms()
    if others or loss.size < 2:
        return h
    first, second = np.argsort(log_p)[-2:]
    gap = abs(float(loss[first] - loss[second]))
    return gap / math.ceil(gap / h - 1e-9) if gap > 0.5 * h else h


def _grid(step: Step, h: float, cut: float, count: int, exact: bool) -> Grid:
    """Points from where P has almost no mass below, to the cut, the largest loss, or where doubles underflow."""
    facts = step.facts
    offset = facts.lattice[0] if exact and facts.lattice is not None else _body(step, h)
    high = min(facts.max_loss, cut)
    if float(step.tails(np.array(high)).p_above) < LOG_TINY:
        high = _crossing(step, LOG_TINY, offset, high)
    low = facts.min_loss
    floor = -26.0 - np.log(count)
    if not np.isfinite(low) or float(step.tails(np.array(low + 1e-3 * (high - low))).p_below) < floor:
        low = _quantile(step, floor, min(high, offset))
    first = int(np.floor((low - offset) / h - 1e-9))
    # above the cut, so that the jump stays a jump, and above an atom there, which tails may count on either side
    last = int(np.ceil((high - offset) / h + 1e-9))
    last += offset + h * last <= high
    size = last - first + 1
    if size > MAX_POINTS:
        raise _TooFine
    return Grid(offset, h, first, max(size, 2))


def _body(step: Step, h: float) -> float:
    """Where a lattice point should lie: at the mean log ratio of the cell around the median.

    If the lattice cannot resolve the body, the cell is then one atom of the lattice, without rounding.
    """
    facts = step.facts
    loss, log_p = step.atoms()
    if loss.size and log_p.max() > np.log(0.25):
        return float(loss[np.argmax(log_p)])
    centre = _crossing(step, float(np.log(0.5)), max(facts.min_loss, -1e3), min(facts.max_loss, 1e3))
    for _ in range(3):
        tails = step.tails(np.array([centre - h / 2, centre + h / 2]))
        p = np.exp(tails.p_above[0]) - np.exp(tails.p_above[1])
        q = np.exp(tails.q_below[1]) - np.exp(tails.q_below[0])
        if not (p > 0.01 and q > 0.0):
            return 0.0
        centre = float(np.clip(np.log(p / q), centre - h / 2, centre + h / 2))
    return centre


def _crossing(step: Step, log_mass: float, low: float, high: float) -> float:
    """The loss where log P[L > l] falls to log_mass, by bisection."""
    for _ in range(60):
        middle = (low + high) / 2
        if float(step.tails(np.array(middle)).p_above) > log_mass:
            low = middle
        else:
            high = middle
    return high


def _quantile(step: Step, log_mass: float, high: float) -> float:
    """A loss below which P has mass at most e^log_mass."""
    low = min(high, 0.0) - 1.0
    while float(step.tails(np.array(low)).p_below) > log_mass and low > -1e6:
        low = 2 * low
    up = high
    for _ in range(40):
        middle = (low + up) / 2
        if float(step.tails(np.array(middle)).p_below) <= log_mass:
            low = middle
        else:
            up = middle
    return low


def _bracket(
    pair: DominatingPair, epsilon: float, jump: Jump, h: float, spread: float, exact: bool
) -> tuple[LogDelta | None, float]:
    """The bracket on a lattice of step h and the width its window needs; None if that is far above `spread`."""
    try:
        parts = []
        for step, count in pair.terms:
            parts.append(_Part(*discretise(step, _grid(step, h, jump.cut, count, exact), count), count))
    except (_TooFine, LostDigits):
        return None, 2 * spread
    ends = [float(p.pessimistic.grid.losses()[-1]) for p in parts]
    bounded = _bounded(pair, jump, epsilon, h)
    beyond = at_ends(pair, jump.cut, epsilon, bounded, ends)
    if any(end < min(jump.cut, step.facts.max_loss) for (step, _), end in zip(pair.terms, ends, strict=True)):
        # the lattice ends before the cut: whatever lies beyond may or may not exceed epsilon; what other lattices hold is no jump
        above = [beyond.log_p + math.log1p(beyond.error)]
        below = at_ends(pair, jump.cut, epsilon, bounded, [max(end, jump.cut) for end in ends]).log_part(epsilon)
    else:
        jump = beyond
        below = jump.log_part(epsilon)
        above = [*below, jump.log_slack]
    mass = _infinite(pair)
    upper = Side([(p.pessimistic, p.times) for p in parts], epsilon)
    lower = Side([(p.optimistic, p.times) for p in parts], epsilon)
    leak = log_total(np.array([_log(p.times * p.optimistic.leak) for p in parts]))
    del parts  # both sides keep logarithms of the masses
    need = max(upper.window, lower.window)
    length = 1 << int(np.ceil(np.log2(max(need / h, 16.0))))
    chernoff = min(log_total(np.array([upper.chernoff, *above])), 0.0)
    if length > MAX_POINTS:
        log_low = max(_less(*below), mass)
        return LogDelta(log_low, chernoff, chernoff, True, "lattice", np.inf, min(beyond.log_q, 0.0)), need
    up_value, up_error, tail = upper.value(length)
    low_value, low_error, _ = lower.value(length)
    log_up = min(log_total(np.array([up_value, up_error, *above])), chernoff)
    log_low = max(_less(log_total(np.array([low_value, below[0]])), log_total(np.array([low_error, below[1], leak]))), mass)
    middle = log_up if log_low == -np.inf or log_up - log_low > 20.0 else (log_up + log_low) / 2
    condition = max(1.0, float(np.exp(min(upper.log_size - log_up, 600.0))))
    log_tail = min(log_total(np.array([tail, beyond.log_q])), 0.0)
    return LogDelta(log_low, middle, log_up, True, "lattice", condition, log_tail), need


NEEDLESS = 25.0  # a jump this far above epsilon makes its Q-mass invisible beside its P-mass


def _bounded(pair: DominatingPair, jump: Jump, epsilon: float, h: float) -> Margin:
    """The jump's margin with a failure probability that is a bound: Chernoff for the swapped steps' pessimistic lattices."""
    margin = jump.margin
    if margin.bounded or jump.log_q == -np.inf:
        return margin
    if epsilon + jump.log_q < jump.log_p - NEEDLESS:
        return Margin(margin.distance, 0.0)
    parts, beyond = [], []
    try:
        for step, count in pair.terms:
            swapped = step.reversed()
            top = _crossing(swapped, -90.0 - float(np.log(count)), -step.facts.max_loss if np.isfinite(step.facts.max_loss) else -1e3,
                            -step.facts.min_loss if np.isfinite(step.facts.min_loss) else 1e4)
            grid = _grid(swapped, h, top, count, False)
            parts.append((discretise(swapped, grid, count)[1], count))
            beyond.append(np.log(count) + log_rate(float(swapped.tails(np.array(grid.losses()[-1])).p_above)))
    except (_TooFine, LostDigits):
        return Margin(margin.distance, 0.0)
    found = np.logaddexp(failure(parts, margin.distance), log_some(log_total(np.array(beyond))))
    return Margin(margin.distance, min(float(found), 0.0))


def _infinite(pair: DominatingPair) -> float:
    """log P[L = inf], rounded down."""
    return closed.widened(pair.log_p_only, -np.inf).lower


def _log(x: float) -> float:
    return float(np.log(x)) if x > 0.0 else -np.inf


def _less(positive: float, negative: float) -> float:
    """log(e^positive - e^negative), -inf where nothing is left."""
    return positive + float(log1m_exp(negative - positive)) if negative < positive else -np.inf
