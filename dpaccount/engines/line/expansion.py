"""Where a body of small losses competes with a few large ones: delta as a sum over the number of jumps.

Below the cut of `jump`, a step's losses fall into a body, L <= level, and jumps, level < L <= cut. With k_j of the n_j steps
of kind j jumping, and C the binomial coefficients,

    delta_B(eps) = sum over k = (k_1, k_2, ...) of [prod_j C(n_j, k_j)] delta_k(eps),

delta_k >= 0 being the hockey-stick divergence of the sub-probabilities where just these steps jump. Each has a saddle point and
a line of its own; one line for all would weigh what is likely under its tilt, not what delta is made of. The level is where
Chernoff's bounds of all terms add up to least. With M_j and N_j the moments e^{cL} of body and jumps of one step and
R = sum_j n_j N_j/M_j, the terms of |k| = m add up to at most e^{-c eps} kappa(c) prod_j M_j^{n_j} R^m/m! for every c > 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dpaccount._log import ULP, log_kappa, log_total
from dpaccount._quadrature import TooManyNodes
from dpaccount.engines.jump import Jump, clear_of_atoms, margin, split
from dpaccount.engines.line.axis import Axis, Parts
from dpaccount.engines.line.contour import Contour
from dpaccount.engines.line.saddle import RATE, Hint
from dpaccount.engines.line.terms import Part, Term
from dpaccount.engines.many.family import families
from dpaccount.engines.vouch import CannotVouch, Overflow
from dpaccount.pair import DominatingPair, Reversed, Step
from dpaccount.results import LogDelta
from dpaccount.sampling.poisson import PoissonSampled

VOUCH = 1e-3  # a wider bracket is not an answer
MOST_JUMPS = 24
MOST_LINES = 60
NEGLIGIBLE = 30.0  # what lies below e^-NEGLIGIBLE of the answer is bounded, not computed
LARGEST = 600.0  # of tilt times loss, in a body
TRIES = 6
FEW = 12.0  # expected samples


class Bounded(NamedTuple):
    """All terms of m jumps at one tilt: Chernoff's bound, the saddle-point approximation, the spread of the loss there, and
    whether the tilt is the saddle point (or else the largest that nodes were made for)."""

    tilt: float
    log_bound: float
    log_rough: float
    spread: float
    inside: bool


class Level:
    """Body and jumps on either side of a level, for tilts in [0, high]."""

    def __init__(self, pair: DominatingPair, epsilon: float, level: float, cut: float, high: float) -> None:
        self.pair, self.epsilon, self.level, self.cut, self.high = pair, epsilon, level, cut, high
        self.jump_high = min(high, 50.0 * LARGEST / cut)
        self._narrower: dict[float, Level] = {}
        body, self.kinds = [], []
        for i, (step, count) in enumerate(pair.terms):
            splits = _splits(step)
            body.append(Part(step, count, upper=level if splits else cut))
            if splits:
                self.kinds.append(i)
        self.body = Axis(Parts(tuple(body)), 0.0, high, 0.0)
        self.jumps = [_jumps(body[i], cut, self.jump_high) for i in self.kinds]
        self.counts = [body[i].times for i in self.kinds]
        self.proved = self.body.proved and all(jumps is None or jumps.state_rounding is not None for jumps in self.jumps)

    def at(self, m: int, c: float) -> tuple[float, float, float]:
        """log of e^{K} of all terms of m jumps (a bound: n^m/m! for the binomials), its mean and its variance."""
        k, mean, variance = self.body.cumulants(c)
        k += self.body.log_mass
        if m == 0:
            return k, mean, variance
        log_rates, means, variances = [], [], []
        for i, jumps, count in zip(self.kinds, self.jumps, self.counts, strict=True):
            if jumps is None:
                continue
            inner = self.body.terms[i]
            a, b = inner.cumulants(c), jumps.cumulants(c)
            log_rates.append(math.log(count) + b[0] + jumps.log_mass - a[0] - inner.log_mass)
            means.append(b[1] - a[1])
            variances.append(b[2] - a[2])
        if not log_rates:
            raise CannotVouch("no jumps above the level")
        top = log_total(np.array(log_rates))
        share = np.exp(np.array(log_rates) - top)
        middle = float(share @ means)
        spread = float(share @ (np.array(variances) + (np.array(means) - middle) ** 2))
        return k + m * top - math.lgamma(m + 1), mean + m * middle, max(variance + m * spread, 0.0)

    def log_rate(self, c: float, kinds: list[bool] | None = None) -> float:
        """log of an upper bound on R(c), or on the share in it of some kinds of jumps; of single roundings 1e-9 is far above all."""
        if c < self.high:
            return self._ending_at(c).log_rate(c, kinds)
        total = -np.inf
        for k, (i, jumps, count) in enumerate(zip(self.kinds, self.jumps, self.counts, strict=True)):
            if kinds is None or kinds[k]:
                inner = self.body.terms[i]
                log_body = inner.log_mgf(c) + inner.log_mass - inner.log_mgf_error(c) - inner.mass_error - 4 * inner.error
                total = float(np.logaddexp(total, math.log(count) + _log_jumps(inner.part.step, self.level, jumps, c) - log_body))
        return total + 1e-9

    def _ending_at(self, c: float) -> Level:
        """The same level with tilts up to c: nodes know their error where their tilts end."""
        found = self._narrower.get(c) or Level(self.pair, self.epsilon, self.level, self.cut, c)
        if self.proved and not found.proved:
            raise CannotVouch("the nodes of a bound are not proved")
        self._narrower[c] = found
        return found

    def bound(self, m: int, c: float) -> float:
        """Chernoff's bound on all terms of m jumps, with rounding."""
        if c < self.high:
            return self._ending_at(c).bound(m, c)
        k = self.body.log_mgf(c) + self.body.rounding(c) + self.body.log_mass + self.body.mass_error
        jumps = m * self.log_rate(c) - math.lgamma(m + 1) if m else 0.0
        return k + jumps - c * self.epsilon + log_kappa(c) + 4 * ULP * c * (1 + self.epsilon) + 1e-9

    def beyond(self, m: int, c: float) -> float:
        """The same for all terms of m jumps or more."""
        if not self.kinds:
            return -np.inf
        c = min(c, self.jump_high)
        log_ratio = self.log_rate(c) - math.log(m + 1)
        if not log_ratio < -0.1:
            raise CannotVouch("more jumps than were counted matter")
        return self.bound(m, c) - math.log(-math.expm1(log_ratio))

    def unseen(self, c: float) -> float:
        """The same for all terms where a kind jumps that has no nodes while others have: sum of (R^m - (R - R')^m)/m! <= R' e^R."""
        hidden = [jumps is None for jumps in self.jumps]
        if all(hidden) or not any(hidden):
            return -np.inf
        c = min(c, self.jump_high)
        log_rate = self.log_rate(c)
        if not log_rate < 3.0:
            raise CannotVouch("more jumps than were counted matter")
        return self.bound(0, c) + self.log_rate(c, hidden) + math.exp(log_rate)

    def ways(self, m: int) -> Iterator[tuple[Parts, float]]:
        """The parts of every way to share m jumps among the kinds, and log of the number of choices."""
        for shares in _shares(m, [count if jumps is not None else 0 for count, jumps in zip(self.counts, self.jumps, strict=True)]):
            parts, log_ways = [], 0.0
            jumping = dict(zip(self.kinds, shares, strict=True))
            for i, t in enumerate(self.body.terms):
                k = jumping.get(i, 0)
                if t.count > k:
                    parts.append(t.part._replace(times=t.count - k))
                if k:
                    parts.append(Part(t.part.step, k, self.level, self.cut))
                    log_ways += sum(math.log((t.count - i) / (i + 1)) for i in range(k))
            yield Parts(tuple(parts)), log_ways

    def saddle(self, m: int, guess: float) -> Bounded:
        """By Newton's method on the derivative of K - c eps - log c - log(c + 1), or the end of the tilts if it lies beyond."""
        low, high = 0.0, self.jump_high if m else self.high
        c = min(guess, high)
        k, mean, variance = self.at(m, high)
        if mean - self.epsilon - 1 / high - 1 / (high + 1) <= 0.0:
            c, low = high, high
        while low < high:
            k, mean, variance = self.at(m, c)
            value = mean - self.epsilon - 1 / c - 1 / (c + 1)
            low, high = (low, c) if value > 0.0 else (c, high)
            new = c - value / (variance + 1 / c**2 + 1 / (c + 1) ** 2)
            if not low < new < high:
                new = (low + high) / 2
            done = abs(new - c) < 1e-3 * c
            c = new
            if done:
                break
        k, mean, variance = self.at(m, c)
        bend = variance + 1 / c**2 + 1 / (c + 1) ** 2
        rough = k - c * self.epsilon - math.log(c * (c + 1)) - 0.5 * math.log(2 * math.pi * bend)
        return Bounded(c, k - c * self.epsilon + log_kappa(c), rough, math.sqrt(variance), low < self.jump_high if m else low < self.high)

    def terms(self, guess: float) -> list[Bounded]:
        """The terms of 0, 1, 2, ... jumps until they have fallen far below the largest."""
        found: list[Bounded] = [self.saddle(0, guess)]
        if all(jumps is None for jumps in self.jumps):
            return found
        for m in range(1, MOST_JUMPS):
            found.append(self.saddle(m, found[-1].tilt))
            best = max(one.log_rough for one in found)
            if m > 1 and found[-1].log_bound < best - NEGLIGIBLE - 4.0 and found[-1].log_bound < found[-2].log_bound - 0.7:
                return found
        raise CannotVouch("too many jumps at this level")


def _shares(m: int, most: list[int]) -> Iterator[tuple[int, ...]]:
    """All ways to write m as a sum of numbers up to `most`."""
    if not most:
        if m == 0:
            yield ()
        return
    for first in range(min(m, most[0]) + 1):
        for rest in _shares(m - first, most[1:]):
            yield first, *rest


def _splits(step: Step) -> bool:
    """Whether a step's losses are split: if facts bound them, and they are not Gaussian and so never in two minds."""
    density = step.density()
    return density is not None and density.strip is not None and density.strip.gaussian_loss is None


def _jumps(body: Part, cut: float, high: float) -> Term | None:
    """The losses of one step between level and cut, or None where the tilts leave them no weight."""
    try:
        return Axis(Parts((Part(body.step, 1, body.upper, cut),)), 0.0, high, 0.0).terms[0]
    except CannotVouch:
        return None


def _log_jumps(step: Step, level: float, jumps: Term | None, c: float) -> float:
    """log of an upper bound on E[e^{cL}; level < L <= cut]."""
    if jumps is not None:
        return jumps.log_mgf(c) + jumps.log_mass + jumps.log_mgf_error(c) + jumps.mass_error + 2 * jumps.error
    density = step.density()
    if density is None or density.strip is None:
        raise CannotVouch("no bound on what lies above the level")
    return density.strip.above(density.inverse(level), c)


def _best_level(pair: DominatingPair, epsilon: float, jump: Jump) -> tuple[Level, list[Bounded]]:
    """The level with the least sum of Chernoff's bounds: that of the body rises with the level, that of the jumps falls."""
    lowest = _rare(pair, jump.cut)
    low, high, guess, last = 0.0, 1.0, 0.0, np.inf
    best: tuple[float, Level, list[Bounded]] | None = None
    for place in (0.75, *[np.nan] * TRIES):
        place = (low + high) / 2 if math.isnan(place) else place
        try:
            level, terms = _level_at(pair, epsilon, _placed(pair, lowest * (jump.cut / lowest) ** place), jump.cut, guess)
        except (CannotVouch, TooManyNodes):
            low = place  # too many jumps above so low a level
            continue
        body, jumps = terms[0].log_bound, log_total(np.array([-np.inf, *(one.log_bound for one in terms[1:])]))
        if best is None or np.logaddexp(body, jumps) < best[0]:
            best = float(np.logaddexp(body, jumps)), level, terms
        if abs(body - jumps) < 0.7 or (body > jumps and body > last - 0.1):
            break  # the body's own bound, which no lower level betters
        guess = terms[0].tilt
        if body > jumps:
            high, last = place, body
        else:
            low = place
    if best is None:
        raise CannotVouch("no level parts body and jumps")
    return best[1], best[2]


def _placed(pair: DominatingPair, level: float) -> float:
    """A level that no atom's rounding reaches."""
    return clear_of_atoms([step for step, _ in pair.terms], level)


def _rare(pair: DominatingPair, cut: float) -> float:
    """The level that about one step exceeds."""
    low, high = 1e-12 * cut, cut
    for _ in range(40):
        middle = math.sqrt(low * high)
        rates = [
            math.log(count) + float(step.tails(np.array(middle)).p_above) for step, count in pair.terms if _splits(step)
        ]
        if log_total(np.array(rates)) > 0.0:
            low = middle
        else:
            high = middle
    return high


def _level_at(pair: DominatingPair, epsilon: float, level: float, cut: float, high: float) -> tuple[Level, list[Bounded]]:
    """Body and jumps with nodes that reach beyond every saddle point, as far as doubles allow."""
    if high == 0.0:
        body = Axis(Parts(tuple(Part(step, n, upper=level if _splits(step) else cut) for step, n in pair.terms)), 0.0, 0.0, 0.0)
        _, mean, variance = body.cumulants(0.0)
        if not variance > 0.0:
            raise CannotVouch("the privacy loss is constant below the level")
        gap = (epsilon - mean) / math.sqrt(variance)
        high = (gap + math.sqrt(gap * gap + 8.0)) / (2 * math.sqrt(variance))
    high = min(1.3 * high, LARGEST / level)
    for _ in range(8):
        try:
            found = Level(pair, epsilon, level, cut, high)
            terms = found.terms(0.7 * high)
        except Overflow:
            high /= 2
            continue
        if terms[0].inside or high >= LARGEST / level:
            return found, terms
        high = min(2 * high, LARGEST / level)
    raise CannotVouch("no tilt serves the body")


class _Total:
    """log of what adds up to delta, of its errors, of what was left out and so only raises delta, of what aliasing may have added
    and so only lowers it, and of Q[L > eps]."""

    def __init__(self, epsilon: float, jump: Jump) -> None:
        self.epsilon = epsilon
        self.parts: list[float] = []
        self.errors: list[float] = []
        self.left_out, self.excess, self.tails = [jump.log_slack], [-np.inf], [jump.log_q + epsilon]
        value, error = jump.log_part(epsilon)
        self.parts.append(value)
        self.errors.append(error + math.log(2.0))
        # where exactly the cut lies is rounded, for the body as for the jump
        self.errors.append(jump.log_p + (math.log(4 * jump.error) if jump.error else -np.inf))

    def add(self, line: Contour, epsilon: float, log_ways: float) -> None:
        """One term's contour, so many times."""
        value, error, excess, _, tail = line.at(epsilon)
        error += 4 * ULP * (2.0 + abs(value) + abs(log_ways))
        self.parts.append(value + log_ways)
        self.errors.append(value + log_ways + math.log(error))
        self.excess.append(value + log_ways + (math.log(excess) if excess else -np.inf))
        self.tails.append(tail + log_ways)

    def answer(self, proved: bool, log_size: float) -> LogDelta:
        """The sum; raises `CannotVouch` if its errors are too large."""
        sums = (self.parts, self.errors, self.left_out, self.excess, self.tails)
        value, error, left_out, excess, tail = (log_total(np.array(logs)) for logs in sums)
        part, more, less = (math.exp(min(log - value, 700.0)) for log in (error, left_out, excess))
        if not part + more + less < VOUCH:
            raise CannotVouch(f"the relative error of the sum over jumps is {part + more + less:.1e}")
        if not proved:
            part, more, less = 3.0 * (part + more + less), 0.0, 0.0
        rounding = 8 * ULP * (1.0 + abs(value))
        low, up = value + math.log1p(-part - less) - rounding, min(value + math.log1p(part + more) + rounding, 0.0)
        condition = max(math.exp(log_size - value), 1.0)
        return LogDelta(low, min(value, up), up, proved, "line", condition, min(tail - self.epsilon, 0.0))


class Nearby(NamedTuple):
    """The level that served at a similar epsilon, as a share of the cut, and the body's saddle point there."""

    share: float
    tilt: float


def _jump(pair: DominatingPair, epsilon: float) -> Jump:
    """The big jump of a composition that parts into a body and jumps; raises `CannotVouch` for others."""
    if families(pair)[1]:
        raise CannotVouch("too many distinct steps")
    found = margin(pair)
    if not (found.distance < np.inf and epsilon > 0.0):
        raise CannotVouch("the other losses are unbounded below")
    if not any(_splits(step) for step, _ in pair.terms):
        raise CannotVouch("no step's losses part into body and jumps")
    return split(pair, epsilon, found)


def bounded(pair: DominatingPair, epsilon: float, most: float = 0.0) -> LogDelta:
    """Between the jump beyond the cut alone and that with Chernoff's bound on every number of jumps below it, at epsilon > 0.

    Quick, without any line, and narrow where one jump rules. Raises `CannotVouch` as well where the jump alone exceeds e^most.
    """
    jump = _jump(pair, epsilon)
    value, error = jump.log_part(epsilon)
    if not value < most:
        raise CannotVouch("delta is not so small")
    try:
        level, terms = _best_level(pair, epsilon, jump)
        bounds = [level.bound(m, one.tilt) for m, one in enumerate(terms)]
        bounds += [level.beyond(len(terms), terms[-1].tilt), level.unseen(terms[0].tilt)]
    except TooManyNodes as failure:
        raise CannotVouch(str(failure)) from failure
    rounding = jump.log_p + math.log(4 * jump.error) if jump.error else -np.inf  # where exactly the cut lies
    errors = [error + math.log(2.0), rounding]
    high = min(log_total(np.array([value, jump.log_slack, *errors, *bounds])), 0.0)
    lost = log_total(np.array(errors))
    low = min(value + math.log1p(-math.exp(lost - value)) if lost < value else -np.inf, high)
    slack = 8 * ULP * (1.0 + abs(value))
    middle = high if low == -np.inf else max(value, low)
    proved = level.proved and jump.margin.bounded
    return LogDelta(low - slack, min(middle, high), min(high + slack, 0.0), proved, "line", 1.0, min(jump.log_q, 0.0))


def _samples(step: Step) -> float:
    """How many samples one step is expected to take; an unsampled one counts as one."""
    inner = step.step if isinstance(step, Reversed) else step
    return inner.sampling_probability if isinstance(inner, PoissonSampled) else 1.0


def few_samples(pair: DominatingPair) -> bool:
    """Whether so few samples are expected that a line of the body seldom ends where a plain one does not: it is then tried last."""
    return sum(count * _samples(step) for step, count in pair.terms) < FEW


def log_delta(pair: DominatingPair, epsilon: float, near: Nearby | None = None) -> tuple[LogDelta, Nearby]:
    """log delta at epsilon > 0 as a sum over jumps, and where to look beside it; raises `CannotVouch`."""
    jump = _jump(pair, epsilon)
    if near is None:
        level, terms = _best_level(pair, epsilon, jump)
    else:
        level, terms = _level_at(pair, epsilon, _placed(pair, near.share * jump.cut), jump.cut, near.tilt)
    best = max(max(one.log_rough for one in terms), jump.log_part(epsilon)[0])
    total, proved, lines, condition = _Total(epsilon, jump), level.proved and jump.margin.bounded, 0, -np.inf
    for m, one in enumerate(terms):
        if one.log_bound < best - NEGLIGIBLE:
            total.left_out.append(level.bound(m, one.tilt))
            continue
        if not one.inside:
            raise CannotVouch("a saddle point lies where the tilt overflows")
        for parts, log_ways in level.ways(m):
            lines += 1
            if lines > MOST_LINES:
                raise CannotVouch("too many ways to jump")
            hint = Hint(one.tilt, one.spread, RATE / one.spread)
            line = Contour(parts, epsilon, Jump(np.inf, -np.inf, -np.inf, -np.inf, 0.0, jump.margin), hint)
            total.add(line, epsilon, log_ways)
            proved = proved and line.proved
            condition = max(condition, total.parts[-1] + math.log(line.at(epsilon).condition))
    total.left_out += [level.beyond(len(terms), terms[-1].tilt), level.unseen(terms[0].tilt)]
    return total.answer(proved, condition), Nearby(level.level / level.cut, terms[0].tilt)
