"""K and its derivatives on the real axis, from nodes that follow the tilt."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpaccount._log import log_total
from dpaccount.engines.line.terms import JumpTerm, Part, Term, log_mass
from dpaccount.engines.many.family import Family, families
from dpaccount.engines.many.schedule import Many
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import DominatingPair


class Parts(NamedTuple):
    """What an axis sums up: parts one by one, and families of many distinct steps below a common cut."""

    single: tuple[Part, ...]
    families: tuple[Family, ...] = ()
    cut: float = np.inf


def below(pair: DominatingPair, cut: float) -> Parts:
    """Every step of a pair with all its losses up to a common cut."""
    single, several = families(pair)
    return Parts(tuple(Part(step, count, upper=cut) for step, count in single), several, cut)


class Axis:
    """K and its first two derivatives on the real axis, from nodes valid for tilts in [low, high]."""

    def __init__(self, parts: Parts, low: float, high: float, rate: float) -> None:
        self.parts, self.low, self.high, self.rate = parts, low, high, rate
        self.mass_error = 0.0  # of log_mass
        self.terms: list[Term] = []
        self.many = [Many(family, parts.cut, low, high, rate) for family in parts.families]
        for part in parts.single:
            nodes = part.step.nodes(low, high, rate, part.lower, part.upper)
            if not nodes.loss.size:
                raise CannotVouch("no mass below the cut")
            mass, error = log_mass(part, nodes)
            self.mass_error += part.times * error
            log_weight = nodes.log_p - log_total(nodes.log_p)
            kind = Term if part.lower == -np.inf else JumpTerm
            self.terms.append(
                kind(part, nodes.loss, log_weight, mass, nodes.error, nodes.atoms, nodes.rounding, nodes.ends_only)
            )
        self.mass_error += sum(m.mass_error for m in self.many)
        self.log_mass = sum(t.count * t.log_mass for t in self.terms) + sum(m.log_mass for m in self.many)
        self.proved = all(t.state_rounding is not None for t in self.terms)
        self.ends_only = any(t.ends_only for t in self.terms) or any(m.ends_only for m in self.many)

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """K(c) - K(0), K'(c), K''(c) of the composition below the cut."""
        k = mean = variance = 0.0
        for t in self.terms:
            one = t.cumulants(c)
            k += t.count * one[0]
            mean += t.count * one[1]
            variance += t.count * one[2]
        for m in self.many:
            k, mean, variance = (a + b for a, b in zip((k, mean, variance), m.cumulants(c), strict=True))
        return k, mean, variance

    def log_mgf(self, c: float) -> float:
        """K(c) - K(0), summed as `rounding` expects."""
        return sum(t.count * t.log_mgf(c) for t in self.terms) + sum(m.log_mgf(c) for m in self.many)

    def rounding(self, c: float) -> float:
        """Absolute error of `log_mgf`, K(c) - K(0): a bound where the nodes are proved, else an estimate."""
        total = 0.0
        for t in self.terms:
            total += t.count * (t.log_mgf_error(c) + (4 * self.node_error(t, c) if t.rounding is not None else 0.0))
        return 1.1 * (total + sum(m.rounding(c) for m in self.many))

    def node_error(self, t: Term, c: float) -> float:
        """The nodes' error relative to E[e^{cL}]; in absolute terms its logarithm lies below the chord between the ends of the tilts."""
        if not t.ends_only or c in (self.low, self.high):
            return t.error
        share = (c - self.low) / (self.high - self.low)
        here, low, high = (t.cumulants(x)[0] for x in (c, self.low, self.high))
        return t.error * math.exp(min(max((1.0 - share) * low + share * high - here, 0.0), 600.0))
