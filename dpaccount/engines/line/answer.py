"""The contour at the saddle point: delta(eps) from K on a vertical line, in a handful of nodes.

After the big jump is split off, with F(z) = K(z) - eps z - log z - log(z+1) and c > 0 its saddle
point on the real axis,

    delta_B(eps) = (1/pi) * integral over s >= 0 of Re e^{F(c + is)} ds          (ADCKS23)

by the trapezoid rule (`contour`, which bounds every error where the steps state their facts). If eps lies well below the
mean loss the contour runs through -1 < c < 0 and delta_B is the mass of the pair plus a negative integral. For eps < 0 the
swapped pair answers at -eps.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP, log1m_exp, log_kappa, log_total
from dpaccount._quadrature import TooManyNodes
from dpaccount.engines.jump import NO_CUT, margin
from dpaccount.engines.line import expansion
from dpaccount.engines.line.axis import Axis, Parts, below
from dpaccount.engines.line.contour import Contour
from dpaccount.engines.line.reach import planned
from dpaccount.engines.line.saddle import Hint, guided, saddle
from dpaccount.engines.line.sketch import Sketch
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import DominatingPair
from dpaccount.results import LogDelta

Array = npt.NDArray[np.float64]
VOUCH = 1e-7  # a larger relative error is not an answer
FARTHER = 1.5  # the saddle point of a smaller direction lies farther out
USUAL = 20.0  # tilts up to here serve most questions
REACH = 42.0  # in units of 1/spread: how far most lines go


def approximate_epsilon(pair: DominatingPair, log_delta: float) -> tuple[float, Hint | None]:
    """Where the saddle-point approximation of log delta crosses `log_delta`, with the saddle point: a first guess, no more."""
    parts = below(pair, np.inf)
    sketch = Sketch.of(parts, USUAL) if pair.log_p_only == -np.inf else None
    axis = sketch or Axis(parts, 0.0, 0.0, 0.0)
    _, mean, variance = axis.cumulants(0.0)
    spread = math.sqrt(max(variance, 1e-300))
    c = max(math.sqrt(-2 * log_delta), 1.0) / spread
    normal = max(mean + spread * math.sqrt(-2 * log_delta), 1e-9)

    def at(c: float) -> tuple[float, float, float, float]:
        k, mean, variance = axis.cumulants(c)
        epsilon = mean - 1 / c - 1 / (c + 1)
        bend = variance + 1 / c**2 + 1 / (c + 1) ** 2
        value = base + k - c * epsilon - math.log(c * (c + 1)) - 0.5 * math.log(2 * math.pi * bend)
        return value, epsilon, variance, bend

    try:
        if sketch is not None and 1.5 * c > sketch.high:
            sketch = Sketch.of(parts, 1.5 * c)
        axis = sketch or Axis(parts, 0.0, 1.5 * c, 0.0)
        base = axis.log_mass if isinstance(axis, Axis) else -axis.cumulants(0.0)[0]
        low, high = math.log(1e-4 * c), math.log(1.5 * c)
        here = math.log(0.8 * c)
        for _ in range(14):
            value, epsilon, variance, bend = at(math.exp(here))
            gap = value - log_delta
            low, high = (here, high) if gap > 0 else (low, here)
            if abs(gap) < 1e-2:
                break
            if value < log_delta:  # by Newton's rule for log(-value), since a heavy tail lets the value fall exponentially
                gap = math.log(log_delta / value) * -value
            here += max(gap / (math.exp(2 * here) * bend), -0.7)  # the value's slope in log c is nearly -c^2 bend
            if not low < here < high:
                here = (low + high) / 2
    except (CannotVouch, TooManyNodes):
        return normal, None
    if not 0.01 * normal < epsilon < 100 * normal:
        return normal, None
    spread, c = math.sqrt(max(variance, 1e-300)), math.exp(here)
    if sketch is None:
        return epsilon, Hint(c, spread, REACH / spread)
    rate, plan = planned(parts, c, spread, sketch)
    return epsilon, Hint(c, spread, rate, epsilon, plan)


def contour(pair: DominatingPair, epsilon: float, hint: Hint | None = None) -> Contour:
    """The contour at `epsilon` >= 0: without a cut where it is well conditioned, else with the jump split off."""
    failure = CannotVouch("epsilon lies above every loss")
    try:
        plain = Contour.beside(pair, epsilon, NO_CUT, hint)
        if plain.at(epsilon).condition < 30.0:
            return plain
    except CannotVouch as error:
        failure = error
    found = margin(pair)
    if found.distance == np.inf:
        raise failure
    return Contour.beside(pair, epsilon, found)


def log_delta(pair: DominatingPair, epsilon: float) -> LogDelta:
    """log delta of a directed pair at any real epsilon; raises `CannotVouch`."""
    return Nearby()(pair, epsilon)


class Ceiling(NamedTuple):
    """delta(eps) <= e^{log_bound - tilt eps} + e^{log_left_out} at every eps > 0, the latter for atoms that no node stands for."""

    tilt: float
    log_bound: float
    log_left_out: float = -math.inf

    def at(self, epsilon: float) -> float:
        """The bound there, and its rounding."""
        bound = self.log_bound - self.tilt * epsilon
        bound += 1e-9 * (1.0 + abs(bound)) + 4 * ULP * self.tilt * (1.0 + epsilon)
        return bound if self.log_left_out == -math.inf else float(np.logaddexp(bound, self.log_left_out)) + 1e-9


def ceiling_at(parts: Parts, c: float, left_out: float) -> Ceiling | None:
    """Chernoff's bound at a tilt c > 0, for parts with all of their mass; None where nodes cannot be had."""
    try:
        return _ceiling(Axis(parts, -1.0 if parts.whole else 0.0, c, 0.0), c, left_out)
    except (CannotVouch, TooManyNodes):
        return None


def _ceiling(axis: Axis, c: float, left_out: float) -> Ceiling | None:
    return Ceiling(c, axis.log_mgf(c) + axis.rounding(c) + log_kappa(c), left_out) if axis.proved else None


def ceiling(pair: DominatingPair, epsilon: float, log_goal: float, near: Hint | None = None) -> tuple[Ceiling | None, Hint | None]:
    """Chernoff's bound where it may lie below log_goal at `epsilon`, and the saddle point there if it was looked for.

    The saddle point of a larger direction may do, and where nodes for its own cannot be had, that of a smaller epsilon.
    """
    if not (epsilon > 0.0 and pair.log_p_only == -np.inf):
        return None, None
    parts, left_out = below(pair, np.inf), _left_out(pair)
    if near is not None and near.tilt > 0.0:
        found = ceiling_at(parts, FARTHER * near.tilt, left_out)
        if found is not None and found.at(epsilon) < log_goal:
            return found, None
    guide = guided(parts, epsilon)
    if guide is not None:
        c, spread, sketch = guide
        hint = Hint(c, spread, sketch.rate(c, spread), epsilon)
        if sketch.cumulants(c)[0] - sketch.cumulants(0.0)[0] - c * epsilon + log_kappa(c) >= log_goal:
            return None, hint
        found = ceiling_at(parts, c, left_out)
        if found is not None:
            return found, hint
    for part in (1.0, 0.75, 0.5):
        try:
            axis, c, middle = saddle(parts, part * epsilon)
            if middle:
                return None, None
            found = _ceiling(axis, c, left_out)
            if found is not None:
                spread = math.sqrt(axis.cumulants(c)[2])
                return found, Hint(c, spread, REACH / spread) if part == 1.0 and spread > 0.0 else None
        except (CannotVouch, TooManyNodes):
            continue
    return None, None


def _left_out(pair: DominatingPair) -> float:
    """log of the P-mass of all atoms that are left out."""
    if all(step.log_left_out == -math.inf for step in pair.kinds):
        return -math.inf
    return log_total(np.array([math.log(count) + step.log_left_out for step, count in pair.terms]))


class NoLine(CannotVouch):
    """No line ends, and with few samples a sum over jumps is the last resort, not the next."""


class Nearby:
    """`log_delta` of one pair for a root finder: the last contour answers again while it reaches, else shows where to look."""

    def __init__(self) -> None:
        self._last: Contour | None = None
        self._level: expansion.Nearby | None = None
        self.hint: Hint | None = None

    def __call__(self, pair: DominatingPair, epsilon: float) -> LogDelta:
        if epsilon < 0.0:
            return reflected(log_delta(pair.reversed(), -epsilon), epsilon)
        if self._level is not None:
            try:
                return self._expanded(pair, epsilon)
            except CannotVouch:
                self._level = None
        if self._last is not None and self._last.reaches(epsilon):
            with suppress(CannotVouch):
                return answer(self._last, epsilon)
        self._last = None
        try:
            self._last = self._contour(pair, epsilon)
            self.hint = self._last.hint
            return answer(self._last, epsilon)
        except NoLine:
            raise
        except CannotVouch:
            return self._expanded(pair, epsilon)

    def _contour(self, pair: DominatingPair, epsilon: float) -> Contour:
        try:
            return contour(pair, epsilon, self.hint)
        except CannotVouch as error:
            if expansion.few_samples(pair):
                raise NoLine(str(error)) from error
            raise

    def _expanded(self, pair: DominatingPair, epsilon: float) -> LogDelta:
        found, self._level = expansion.log_delta(pair, epsilon, self._level)
        return found


def answer(line: Contour, epsilon: float) -> LogDelta:
    """What a contour says at `epsilon`: proved errors as they are, three estimated ones each side; raises `CannotVouch`."""
    value, error, excess, condition, log_tail = line.at(epsilon)
    if not error + excess <= VOUCH:
        raise CannotVouch(f"the relative error is {error + excess:.1e}")
    if not line.proved:
        error, excess = 3.0 * (error + excess), 0.0
    rounding = 4 * ULP * (1.0 + abs(value))
    low, up = value + math.log1p(-error - excess) - rounding, min(value + math.log1p(error) + rounding, 0.0)
    return LogDelta(low, min(max(value, low), up), up, line.proved, "line", condition, log_tail - epsilon)


def reflected(inner: LogDelta, epsilon: float) -> LogDelta:
    """delta(eps) = 1 - e^eps + e^eps delta'(-eps) for eps < 0, from the swapped pair's answer at -eps.

    Its Q[L > eps] is 1 - P'[L' >= -eps], with P' tail = delta' + e^{-eps} Q' tail.
    """
    edge = float(np.log(-np.expm1(epsilon)))
    low, mid, up = (min(float(np.logaddexp(edge, epsilon + value)), 0.0) for value in inner[:3])
    slack = 4 * ULP * (1 + abs(mid))
    low, up = low - slack, min(up + slack, 0.0)
    above = float(np.logaddexp(inner.estimate, inner.log_tail - epsilon))
    return LogDelta(low, mid, up, inner.certified, inner.method, inner.condition, float(log1m_exp(min(above, 0.0))))
