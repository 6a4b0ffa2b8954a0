"""The contour without its proof: the same line, as far as the integrand can be seen, and no bound on anything.

What is estimated: aliasing, from K at one more tilt, and truncation, by the last points of the line. Where much cancels, or where the
line does not end, nothing is said.
"""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

from dpaccount._log import log_kappa, polar_log1p
from dpaccount._quadrature import TooManyNodes
from dpaccount.engines.line.alias import guessed_period
from dpaccount.engines.line.answer import FARTHER, Ceiling, reflected
from dpaccount.engines.line.axis import Axis, below
from dpaccount.engines.line.saddle import ROOM, Hint, guided
from dpaccount.engines.line.sketch import Sketch
from dpaccount.engines.line.terms import MANY
from dpaccount.engines.line.waves import turned
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import DominatingPair
from dpaccount.results import LogDelta

AIM = 26.0  # aliasing below e^-AIM of the answer
ALIAS = math.exp(-AIM)
LONGEST = 3000
VOUCH = 3e-10  # a larger error is not an answer
BEYOND = 1.7  # how much farther a line goes that is proved
FAR = 1.15  # how far beyond its visible end the line goes


class Line:
    """The line through the saddle point at `epsilon` >= 0; answers there and nearby. Raises `CannotVouch`.

    Given where a line lay for a similar pair at the same epsilon it runs through the same point.
    """

    def __init__(self, pair: DominatingPair, epsilon: float, hint: Hint | None = None) -> None:
        parts = below(pair, math.inf)
        if pair.log_p_only > -math.inf or parts.families:
            raise CannotVouch("not one density after another")
        if hint is not None and hint.epsilon == epsilon:
            c, spread, reach = hint.tilt, hint.spread, hint.rate / BEYOND
        else:
            guide = guided(parts, epsilon, hint)
            if guide is None:
                raise CannotVouch("no sketch serves")
            c, spread, sketch = guide
            reach = FAR * sketch.reach(c, spread)
        try:
            axis = Axis(parts, -1.0 if parts.whole else 0.0, c + ROOM / spread, reach)
        except TooManyNodes as large:
            raise CannotVouch(str(large)) from large
        k, mean, variance = axis.cumulants(c)
        self.epsilon, self.c, self.k = epsilon, c, k if all(t.count < MANY for t in axis.terms) else axis.log_mgf(c)
        bend = variance + 1 / c**2 + 1 / (c + 1) ** 2
        off = (mean - epsilon - 1 / c - 1 / (c + 1)) / bend
        self.hint = Hint(c - min(max(off, -0.3 * c), 0.3 * c), spread, BEYOND * reach, epsilon)  # Newton's step: what serves a neighbour
        rough = self.k - c * epsilon - math.log(c * (c + 1)) - 0.5 * math.log(2 * math.pi * bend)
        self.step = 2 * math.pi / guessed_period(axis, c, epsilon, rough - AIM, spread)
        count = math.ceil(reach / self.step)
        if count > LONGEST:
            raise CannotVouch("the line needs too many points")
        self.s = self.step * np.arange(count + 1.0)
        self.log_phi = np.zeros(count + 1, dtype=complex)
        for t in axis.terms:
            real, imag, _ = turned(t.loss, t.tilted(c), self.s)
            size, angle = polar_log1p(real, imag)
            self.log_phi += t.count * (size + 1j * angle)
        self.log_phi[0] -= math.log(2.0)

    def reaches(self, epsilon: float) -> bool:
        """Whether the line serves another epsilon as well: a small move of the saddle point."""
        return epsilon >= 0.0 and abs((epsilon - self.epsilon) * self.c) <= 0.25

    def answer(self, epsilon: float) -> LogDelta:
        """log delta, with three times its estimated error on each side."""
        z = self.c + 1j * self.s
        wave = np.exp(self.log_phi - 1j * epsilon * self.s) / (z + 1.0)
        tail = float(wave.real.sum())
        wave /= z
        value, size = float(wave.real.sum()), np.abs(wave)
        gross = float(size.sum())
        error = (float(size[-3:].max()) * 0.5 * size.size + 1e-13 * gross) / value if value > 0.0 else math.inf
        if not error + 4 * ALIAS < VOUCH or gross > 30.0 * value:
            raise CannotVouch("the digits of the estimate cancel")
        scale = self.k - self.c * epsilon + math.log(self.step / math.pi)
        off = 3 * (error + 4 * ALIAS) + 4e-16 * (1.0 + abs(scale))
        log_value, log_tail = scale + math.log(value), scale + math.log(tail) - epsilon if tail > 0.0 else -math.inf
        return LogDelta(log_value - off, log_value, min(log_value + off, 0.0), False, "line (estimate)", gross / value, log_tail)


class Nearby:
    """log delta of one pair at any real epsilon; the last line answers again while it reaches."""

    def __init__(self) -> None:
        self._last: Line | None = None
        self.hint: Hint | None = None
        self._swapped: Nearby | None = None

    def __call__(self, pair: DominatingPair, epsilon: float) -> LogDelta:
        if epsilon < 0.0:
            self._swapped = self._swapped or Nearby()
            return reflected(self._swapped(pair.reversed(), -epsilon), epsilon)
        if self._last is not None and self._last.reaches(epsilon):
            return self._last.answer(epsilon)
        if self.hint is not None and self.hint.epsilon == epsilon:
            with suppress(CannotVouch):
                line = Line(pair, epsilon, self.hint)
                found = line.answer(epsilon)
                self._last, self.hint = line, line.hint
                return found
            self.hint = self.hint._replace(epsilon=math.nan)
        self._last = None
        self._last = Line(pair, epsilon, self.hint)
        self.hint = self._last.hint
        return self._last.answer(epsilon)


def ceiling(pair: DominatingPair, epsilon: float, near: Hint | None = None) -> Ceiling | None:
    """Chernoff's bound at the saddle point of `epsilon`, or a given one, as far as a sketch can tell."""
    if pair.log_p_only > -math.inf:
        return None
    parts = below(pair, math.inf)
    if near is not None and near.tilt > 0.0:
        c = FARTHER * near.tilt
        sketch = Sketch.of(parts, c)
    else:
        guide = guided(parts, epsilon)
        c, sketch = (0.0, None) if guide is None else (guide[0], guide[2])
    return None if sketch is None else Ceiling(c, sketch.cumulants(c)[0] - sketch.cumulants(0.0)[0] + log_kappa(c) + 1e-6)
