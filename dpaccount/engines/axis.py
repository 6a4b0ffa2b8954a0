"""K and its derivatives on the real axis, from nodes that follow the tilt, and the saddle point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpaccount._log import log1m_exp, log_total
from dpaccount.pair import DominatingPair

Array = npt.NDArray[np.float64]
ULP = 2.3e-16


class CannotVouch(ArithmeticError):
    """The contour cannot estimate its own error here; the message says why."""


@dataclass
class Term:
    """One distinct step: count, normalised nodes with a weight, and the log of its mass below the cut."""

    count: int
    loss: Array
    weight: Array
    log_mass: float
    error: float
    atoms: int


class Axis:
    """K and its first two derivatives on the real axis, from nodes valid for tilts in [low, high]."""

    def __init__(self, pair: DominatingPair, low: float, high: float, rate: float, cut: float) -> None:
        self.low, self.high, self.rate = low, high, rate
        self.terms: list[Term] = []
        for step, count in pair.terms:
            nodes = step.nodes(low, high, rate, upper=cut)
            if not nodes.loss.size:
                raise CannotVouch("no mass below the cut")
            below = float(step.tails(np.array(cut)).p_below) if cut < np.inf else float(log1m_exp(step.facts.log_p_only))
            weight = np.exp(nodes.log_p - log_total(nodes.log_p))
            self.terms.append(Term(count, nodes.loss, weight, below, nodes.error, nodes.atoms))
        self.log_mass = sum(t.count * t.log_mass for t in self.terms)

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """K(c) - K(0), K'(c), K''(c) of the composition below the cut."""
        k = mean = variance = 0.0
        for t in self.terms:
            with np.errstate(over="ignore"):
                growth = np.expm1(c * t.loss)
            if not growth.max() < 1e280:
                raise CannotVouch("the tilt overflows")
            total = float(t.weight @ growth)
            if not 1.0 + total > 0.0:
                raise CannotVouch("the tilt leaves no mass")
            tilted = t.weight * (1.0 + growth)
            m = float(tilted @ t.loss) / (1.0 + total)
            v = float(tilted @ (t.loss - m) ** 2) / (1.0 + total)
            k += t.count * float(np.log1p(total))
            mean += t.count * m
            variance += t.count * v
        return k, mean, variance

    def rounding(self, c: float) -> float:
        """Estimated absolute error of K(c) - K(0)."""
        total = 0.0
        for t in self.terms:
            moved = float(t.weight @ np.abs(np.expm1(c * t.loss)))
            total += t.count * (16 * ULP + t.error) * min(moved, 4.0)
        return total


def saddle(pair: DominatingPair, epsilon: float, cut: float) -> tuple[Axis, float, bool]:
    """Nodes on the real axis, the saddle point, and whether it lies in the middle strip."""
    axis = Axis(pair, 0.0, 0.0, 0.0, cut)
    _, mean, variance = axis.cumulants(0.0)
    if not variance > 0.0:
        raise CannotVouch("the privacy loss is constant below the cut")
    spread = float(np.sqrt(max(variance, 1e-300)))
    if mean - epsilon > 1.5 * spread + 1.0:
        axis = Axis(pair, -1.0, 0.0, 0.0, cut)
        return axis, root(axis, epsilon, -1.0 + 1e-9, -1e-9), True
    gap = (epsilon - mean) / spread
    guess = (gap + np.sqrt(gap * gap + 8.0)) / (2 * spread)  # v c + m = eps + 2/c
    high = 1.3 * guess
    for _ in range(30):
        axis = Axis(pair, 0.0, high, 0.0, cut)
        _, mean, _ = axis.cumulants(high)
        if mean - epsilon - 1 / high - 1 / (high + 1) >= 0.0:
            return axis, root(axis, epsilon, 1e-9 * high, high), False
        high *= 1.9
        if high > 1e7:
            break
    raise CannotVouch("epsilon is at the edge of what the loss can reach")


def root(axis: Axis, epsilon: float, low: float, high: float) -> float:
    """Zero of F'(c) = K'(c) - eps - 1/c - 1/(c+1), increasing on each strip: Newton kept inside a bracket."""
    c = 0.8 * high if low >= 0 else -0.5
    for _ in range(60):
        _, mean, variance = axis.cumulants(c)
        value = mean - epsilon - 1 / c - 1 / (c + 1)
        if value > 0:
            high = c
        else:
            low = c
        slope = variance + 1 / c**2 + 1 / (c + 1) ** 2
        move = -value / slope
        new = c + move
        if not low < new < high:
            new = (low + high) / 2
        if abs(new - c) <= 1e-4 * min(abs(c), abs(c + 1)) + 0.0:
            return new
        c = new
    return c
