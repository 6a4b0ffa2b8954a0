"""A few outcomes of each step, as a guide: where the saddle point is, and how far its line will have to go.

Nothing here is bounded, and nothing needs to be: a line through any point answers, with its own error.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpaccount.engines.line.axis import Parts
from dpaccount.engines.line.terms import Part
from dpaccount.pair import Step

Array = npt.NDArray[np.float64]
BINS = 6  # noise multipliers that stand for a family
FALL = 28.0  # the integrand is negligible below e^-FALL of its start
_REACHES = np.geomspace(6.0, 220.0, 14)
_MORE = 2.0  # by how much a bound on the rest of the integral comes later


def _part(step: Step, times: int, cut: float) -> Part:
    return Part(step, times, upper=cut)


class Sketch:
    """Weights of some outcomes of steps that have a density and no atoms, for tilts in [0, high]."""

    def __init__(self, nodes: list[tuple[int, Array, Array]], high: float) -> None:
        self.nodes, self.high = nodes, high
        self._powers = [np.array([np.ones(loss.size), loss, loss * loss]) for _, loss, _ in nodes]

    @classmethod
    def of(cls, parts: Parts, high: float) -> Sketch | None:
        """None where some step is not one smooth density, or needs too many outcomes."""
        nodes = []
        for part in parts.single + tuple(_part(*some, parts.cut) for family in parts.families for some in family.summary(BINS)):
            density = part.step.density()
            if density is None or density.pieces or density.breaks or not part.step.facts.smooth or part.lower > -math.inf:
                return None
            left, right = density.window(0.0, high)
            count = int((right - left) / (0.45 * density.scale)) + 16
            if count > 600:
                return None
            loss, log_p = density.evaluate(left + (right - left) / count * np.arange(count + 1.0))
            if part.upper < math.inf:
                keep = loss <= part.upper
                loss, log_p = loss[keep], log_p[keep]
            if loss.size < 8:
                return None
            nodes.append((part.times, loss, log_p))
        return cls(nodes, high)

    def _tilted(self, i: int, c: float) -> tuple[Array, float]:
        """Masses under the tilt, scaled by the largest of them."""
        power = self.nodes[i][2] + c * self.nodes[i][1]
        top = float(power.max())
        return np.exp(power - top), top

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """K(c) and its derivatives, but for a constant."""
        k = mean = variance = 0.0
        for i, powers in enumerate(self._powers):
            weight, top = self._tilted(i, c)
            mass, first, second = (powers @ weight).tolist()
            times, own = self.nodes[i][0], first / mass
            k += times * (top + math.log(mass))
            mean += times * own
            variance += times * max(second / mass - own * own, 0.0)  # which may cancel
        return k, mean, variance

    def log_mgfs(self, c: float) -> list[float]:
        """K(c) of one step of every part."""
        found = []
        for i in range(len(self.nodes)):
            (there, top), (here, start) = self._tilted(i, c), self._tilted(i, 0.0)
            found.append(top - start + math.log(float(there.sum() / here.sum())))
        return found

    def rate(self, c: float, spread: float) -> float:
        """How far a line through c goes until the rest is bounded."""
        return _MORE * self.reach(c, spread)

    def reach(self, c: float, spread: float) -> float:
        """How far a line through c goes until the integrand is negligible."""
        s = _REACHES / spread
        fall = -np.log1p((s / c) ** 2)
        for i, (times, loss, _) in enumerate(self.nodes):
            weight, _ = self._tilted(i, c)
            weight /= weight.sum()
            half = np.sin(np.multiply.outer(0.5 * s, loss - float(weight @ loss)))
            change = (half * half) @ weight  # |phi| is about 1 - 2 of that while it is near 1
            fall -= times * 2.0 * np.minimum(change, 0.45)
        enough = np.flatnonzero(fall < -FALL)
        return float(s[enough[0]] if enough.size else s[-1])
