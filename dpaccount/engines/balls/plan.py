"""Where to put the contour: in doubles, without a promise. A bad plan makes a wide ball, never a wrong one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount.engines.balls.law import Law
from dpaccount.engines.balls.numbers import NotHere, rough_log

Array = npt.NDArray[np.float64]
FARTHEST = 1e5  # tilts beyond this belong to losses at the end of their range


@dataclass(frozen=True, eq=False)
class Term:
    """A step's law and how often it is repeated."""

    law: Law
    count: int


class Saddle(NamedTuple):
    """c, log of the integrand there, the spread of the tilted loss, log of delta as the saddle point has it."""

    c: float
    log_size: float
    spread: float
    log_delta: float
    middle: bool


class Sketch:
    """K and its derivatives in doubles, at the tilts asked for so far."""

    def __init__(self, terms: list[Term], gaussian: float) -> None:
        self.terms, self.gaussian, self.low, self.high = terms, gaussian, -1.0, -1.0
        self.rules: list[tuple[Array, Array, int]] = []

    def _reach(self, tilt: float) -> None:
        if self.rules and self.low <= tilt <= self.high:
            return
        self.low, self.high = min(self.low, 2.0 * tilt + 1.0), max(self.high, 2.0 * tilt, 4.0)
        self.rules = []
        for term in self.terms:
            atoms = term.law.finite
            rows = [(np.array([rough_log(p / q) for p, q in atoms]), np.array([rough_log(p) for p, _ in atoms]))] if atoms else []
            rows += [piece.rough_nodes(self.low, self.high) for piece in term.law.pieces]
            loss, log_p = (np.concatenate([row[i] for row in rows]) for i in (0, 1))
            self.rules.append((loss, log_p, term.count))

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """K(c), K'(c), K''(c) of the whole composition."""
        self._reach(c)
        k, mean, variance = (self.gaussian * x for x in (c * (c + 1) / 2, c + 0.5, 1.0))
        for loss, log_p, count in self.rules:
            turn = c * loss
            if float(np.abs(turn).max()) < 1.0:  # sums close to 1 keep their digits so
                mass = np.exp(log_p)
                value = math.log1p(float(mass @ np.expm1(turn)) / float(mass.sum())) + math.log(float(mass.sum()))
                weight = mass * np.exp(turn)
            else:
                top = float((log_p + turn).max())
                weight = np.exp(log_p + turn - top)
                value = top + math.log(float(weight.sum()))
            weight = weight / weight.sum()
            first = float(weight @ loss)
            k += count * value
            mean += count * first
            variance += count * float(weight @ (loss - first) ** 2)
        return k, mean, variance

    def saddle(self, epsilon: float) -> Saddle:
        """The minimum of K(c) - c eps - log|c (c+1)| right of the poles, or between them where eps lies below the mean."""
        middle = self.cumulants(0.0)[1] > epsilon

        def slope(c: float) -> float:
            return self.cumulants(c)[1] - epsilon - 1 / c - 1 / (c + 1)

        if middle:
            low, high = -1.0 + 1e-12, -1e-12
        else:
            low, high = 1e-12, 1.0
            while slope(high) < 0.0:
                low, high = high, 4.0 * high
                if high > FARTHEST:
                    raise NotHere("epsilon is too close to the largest loss")
        for _ in range(60):
            c = (low + high) / 2 if middle or high < 4 * low else math.sqrt(low * high)
            low, high = (c, high) if slope(c) < 0.0 else (low, c)
            if abs(high - low) < 1e-5 * abs(c):
                break
        k, _, variance = self.cumulants(c)
        log_size = k - c * epsilon - math.log(abs(c * (c + 1)))
        curvature = variance + c**-2.0 + (c + 1) ** -2.0
        log_delta = -1.0 if middle else min(log_size - 0.5 * math.log(2 * math.pi * curvature), 0.0)
        return Saddle(c, log_size, math.sqrt(curvature), log_delta, middle)

    def period(self, at: Saddle, epsilon: float, goal: float) -> tuple[float, float]:
        """(2 pi over the spacing, tilt that bounds the aliases on the right): what keeps aliases below e^-goal of delta."""
        need = goal - at.log_delta
        if at.middle:
            return max(need / abs(at.c), (need + epsilon) / (1 + at.c)), at.c
        best, tilt = math.inf, at.c
        for width in (0.3, 0.6, 1.0, 1.6, 2.5, 4.0, 6.0, 9.0):
            d = at.c + width / at.spread
            try:
                k = self.cumulants(d)[0]
            except NotHere:
                break
            bound = (k - d * epsilon + d * math.log(d) - (1 + d) * math.log1p(d) + need) / (d - at.c)
            if bound < best:
                best, tilt = bound, d
        return max(best, need / at.c, 2.0 * at.spread), tilt

