"""K and its derivatives on the real axis, from nodes that follow the tilt."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount.engines.decay import Decay
from dpaccount.engines.line.terms import JumpTerm, Part, Term
from dpaccount.engines.many.family import Family, families
from dpaccount.engines.many.schedule import Many
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import DominatingPair

Array = npt.NDArray[np.float64]
APART = 256  # so many distinct steps may be taken one by one


class Parts(NamedTuple):
    """What an axis sums up: parts one by one, and families of many distinct steps below a common cut."""

    single: tuple[Part, ...]
    families: tuple[Family, ...] = ()
    cut: float = np.inf


    @property
    def whole(self) -> bool:
        """Whether each is a density with all its mass under both P and Q."""
        return not self.families and all(_stands_alone(part) for part in self.single)


def _stands_alone(part: Part) -> bool:
    if part.upper < np.inf or part.lower > -np.inf:
        return False
    facts, density = part.step.facts, part.step.density()
    if not facts.smooth or density is None or density.strip is None or density.breaks:
        return False
    return facts.log_p_only == facts.log_q_only == -np.inf


def below(pair: DominatingPair, cut: float) -> Parts:
    """Every step of a pair with all its losses up to a common cut."""
    single, several = families(pair)
    return Parts(tuple(Part(step, count, upper=cut) for step, count in single), several, cut)


def each_below(pair: DominatingPair, cut: float) -> Parts:
    """The same without families, unless there are too many steps to be taken one by one."""
    if len(pair.terms) > APART:
        return below(pair, cut)
    return Parts(tuple(Part(step, count, upper=cut) for step, count in pair.terms), (), cut)


class Plan(NamedTuple):
    """How far a line is expected to go, and the layers of its parts' densities that say so."""

    reach: float
    decays: tuple[Decay, ...]


class Axis:
    """K and its first two derivatives on the real axis, from nodes valid for tilts in [low, high]."""

    def __init__(self, parts: Parts, low: float, high: float, rate: float) -> None:
        self.parts, self.low, self.high, self.rate = parts, low, high, rate
        self.terms: list[Term] = []
        self.many = [Many(family, parts.cut, low, high, rate) for family in parts.families]
        for part in parts.single:
            nodes = part.step.nodes(low, high, rate, part.lower, part.upper)
            if not nodes.loss.size:
                raise CannotVouch("no mass below the cut")
            self.terms.append((Term if part.lower == -np.inf else JumpTerm)(part, nodes, low <= -1.0 and _stands_alone(part)))
        self.mass_error = sum(t.count * t.mass_error for t in self.terms)
        self.mass_error += sum(m.mass_error for m in self.many)  # of log_mass
        self.log_mass = sum(t.count * t.log_mass for t in self.terms) + sum(m.log_mass for m in self.many)
        self.proved = all(t.state_rounding is not None for t in self.terms)
        self.plan: Plan | None = None  # of the line that it was made for
        self._known: dict[float, tuple[float, float, float]] = {}
        self.ends_only = any(t.ends_only for t in self.terms) or any(m.ends_only for m in self.many)

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """K(c) - K(0), K'(c), K''(c) of the composition below the cut."""
        if c not in self._known:
            k = mean = variance = 0.0
            for count, one in [(t.count, t.cumulants(c)) for t in self.terms] + [(1, m.cumulants(c)) for m in self.many]:
                k, mean, variance = k + count * one[0], mean + count * one[1], variance + count * one[2]
            self._known[c] = k, mean, variance
        return self._known[c]

    def log_mgfs(self, tilts: Array) -> Array:
        """K(c) - K(0) at many tilts, to the accuracy of a guide."""
        total = np.zeros(tilts.shape)
        for t in self.terms:
            total += t.count * t.log_mgfs(tilts)
        for m in self.many:
            total += [m.cumulants(float(c))[0] for c in tilts]
        return total

    def log_mgf(self, c: float) -> float:
        """K(c) - K(0), summed as `rounding` expects."""
        return sum(t.count * t.log_mgf(c) for t in self.terms) + sum(m.log_mgf(c) for m in self.many)

    def rounding(self, c: float) -> float:
        """Absolute error of `log_mgf`, K(c) - K(0): a bound where the nodes are proved, else an estimate."""
        total = 0.0
        for t in self.terms:
            nodes = 0.0 if t.rounding is None else (4.0 + 2.0 * abs(c) * t.whole) * self.node_error(t, c)
            total += t.count * (t.log_mgf_error(c) + nodes)
        return 1.1 * (total + sum(m.rounding(c) for m in self.many))

    def node_error(self, t: Term, c: float) -> float:
        """The nodes' error relative to E[e^{cL}]; in absolute terms its logarithm lies below the chord between the ends of the tilts."""
        if not t.ends_only or c in (self.low, self.high):
            return t.error
        share = (c - self.low) / (self.high - self.low)
        here, low, high = (t.cumulants(x)[0] for x in (c, self.low, self.high))
        return t.error * math.exp(min(max((1.0 - share) * low + share * high - here, 0.0), 600.0))

    def tabulated(self, tilts: Array) -> tuple[Array, Array]:
        """At many tilts in [low, high], for one proved part: K, K' and K'' without errors, and K from above."""
        (t,) = self.terms
        assert self.proved
        assert not self.many
        nodes = np.full(tilts.shape, t.error) if not t.ends_only else np.array([self.node_error(t, float(c)) for c in tilts])
        nodes = np.where(nodes < 0.1, nodes, np.inf)  # beyond, errors of logarithms are not as those of their arguments
        cumulants, above = t.tabulated(tilts)
        return t.count * cumulants, np.asarray(self.log_mass + self.mass_error + t.count * (above + 4.4 * nodes))
