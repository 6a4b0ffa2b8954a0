"""K and its derivatives on the real axis, from nodes that follow the tilt, and the saddle point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import log1m_exp, log_total
from dpaccount._quadrature import Nodes, TooManyNodes
from dpaccount._strip import Rounding
from dpaccount.engines.many import Family, Many, families
from dpaccount.pair import DominatingPair, Step, log_error

Array = npt.NDArray[np.float64]
ULP = 2.3e-16
SUM = 3e-15  # numpy adds in blocks of 128 with 8 accumulators, then pairwise: 19 + log2(n/128) roundings of 1.1e-16


class CannotVouch(ArithmeticError):
    """The contour cannot estimate its own error here; the message says why."""


class Hint(NamedTuple):
    """Where a nearby contour lay: its saddle point, the spread of the loss there and the rate its nodes resolved."""

    tilt: float
    spread: float
    rate: float


class Overflow(CannotVouch):
    """A tilt so large that its sums leave the doubles."""


class Part(NamedTuple):
    """The losses of a step in (lower, upper], so many times."""

    step: Step
    times: int
    lower: float = -np.inf
    upper: float = np.inf


class Parts(NamedTuple):
    """What an axis sums up: parts one by one, and families of many distinct steps below a common cut."""

    single: tuple[Part, ...]
    families: tuple[Family, ...] = ()
    cut: float = np.inf


def below(pair: DominatingPair, cut: float) -> Parts:
    """Every step of a pair with all its losses up to a common cut."""
    single, several = families(pair)
    return Parts(tuple(Part(step, count, upper=cut) for step, count in single), several, cut)


@dataclass
class Term:
    """One part: its count, normalised nodes with a weight, and the log of its mass."""

    part: Part
    loss: Array
    log_weight: Array
    log_mass: float
    error: float
    atoms: int
    state_rounding: Rounding | None
    ends_only: bool

    def __post_init__(self) -> None:
        self.count = self.part.times
        self.weight = np.exp(self.log_weight)
        self.mean = float(self.weight @ self.loss)
        moved = self.loss - self.mean
        self.moments = np.stack([self.weight, self.weight * moved, self.weight * moved * moved])
        self.variance = float(self.moments[2].sum())

    def tilted(self, c: float) -> Array:
        """The masses under the tilt, normalised."""
        found = self.weight * np.exp(c * self.loss - max(0.0, float((c * self.loss).max())))
        return np.asarray(found / found.sum())

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """K(c) - K(0), K'(c), K''(c) of one such step."""
        with np.errstate(over="ignore", invalid="ignore"):
            total, shift, square = (self.moments @ np.expm1(c * self.loss)).tolist()
        if not square < 1e280:
            raise Overflow("the tilt overflows")
        mass = 1.0 + total
        if not mass > 0.0:
            raise CannotVouch("the tilt leaves no mass")
        shift /= mass
        return math.log1p(total), self.mean + shift, max((self.variance + square) / mass - shift * shift, 0.0)

    def log_mgf(self, c: float) -> float:
        """K(c) - K(0) of one such step, summed as `log_mgf_error` expects."""
        with np.errstate(over="ignore", invalid="ignore"):
            moved = float((self.weight * np.expm1(c * self.loss)).sum())
        if not -1.0 < moved < 1e280:
            raise Overflow("the tilt leaves no mass, or overflows")
        return math.log1p(moved)

    def log_mgf_error(self, c: float) -> float:
        """Absolute error of `log_mgf` beside that of the nodes: a bound where they are proved, else an estimate."""
        with np.errstate(over="ignore"):
            growth = np.expm1(c * self.loss)
        if not growth.max() < 1e280:
            raise Overflow("the tilt overflows")
        if self.rounding is None:
            return (16 * ULP + self.error) * min(float(self.weight @ np.abs(growth)), 4.0)
        off, part = self.rounding
        mass = 1.0 + float(self.weight @ growth)
        common = float(self.weight @ part)  # the masses are divided by their own sum
        moved = float(self.weight @ ((part + common + 2 * SUM + 8 * ULP) * np.abs(growth)))
        moved += abs(c) * float(self.weight @ ((off + ULP * np.abs(self.loss)) * (1.0 + growth)))
        return moved / mass + 4 * ULP * abs(math.log(mass))

    @cached_property
    def rounding(self) -> tuple[Array, Array] | None:
        """What the losses may be off by absolutely and the masses relatively; None if the nodes are not proved."""
        return None if self.state_rounding is None else self.state_rounding()

    def phase_errors(self, tilted: Array, c: float) -> tuple[float, float]:
        """(root mean square of the relative errors of the tilted masses and of a sum over them, mean error of the loss)."""
        assert self.rounding is not None
        off, part = self.rounding
        largest = max(0.0, float((c * self.loss).max()))
        relative = part + abs(c) * (off + ULP * np.abs(self.loss)) + 2 * SUM + (10 + largest) * ULP
        return math.sqrt(float(tilted @ (relative * relative))), float(tilted @ (off + 2 * ULP * np.abs(self.loss)))


class JumpTerm(Term):
    """A part far from 0, of few steps: sums are scaled by their largest summand, so that no tilt overflows."""

    def _scaled(self, c: float) -> tuple[Array, float]:
        power = self.log_weight + c * self.loss
        top = float(power.max())
        return np.exp(power - top), top

    def tilted(self, c: float) -> Array:
        found, _ = self._scaled(c)
        return np.asarray(found / found.sum())

    def cumulants(self, c: float) -> tuple[float, float, float]:
        moved, top = self._scaled(c)
        mass = float(moved.sum())
        mean = float(moved @ self.loss) / mass
        return top + math.log(mass), mean, float(moved @ (self.loss - mean) ** 2) / mass

    def log_mgf(self, c: float) -> float:
        moved, top = self._scaled(c)
        return top + math.log(float(moved.sum()))

    def log_mgf_error(self, c: float) -> float:
        moved, top = self._scaled(c)
        if self.rounding is None:
            return 16 * ULP * (4.0 + abs(top)) + self.error
        off, part = self.rounding
        relative = part + float(self.weight @ part) + abs(c) * (off + ULP * np.abs(self.loss))
        return float(moved @ relative) / float(moved.sum()) + 2 * SUM + (12 + 2 * abs(top)) * ULP


def _mass_below(step: Step, cut: float) -> tuple[float, float]:
    """log P[L <= cut, L < inf] and its absolute error: from the thinner of the two tails, which is known relatively."""
    above, below, error = step.facts.log_p_only, 0.0, 2 * ULP
    if cut < np.inf:
        tails = step.tails(np.array(cut))
        above, below, error = float(tails.p_above), float(tails.p_below), tails.error
    if above > -0.7 and cut < np.inf:
        return below, float(log_error(below, error))
    if above == -np.inf:
        return 0.0, 0.0
    below = float(log1m_exp(above))
    return below, float(log_error(above, error)) * math.exp(min(above - below, 700.0)) + ULP * abs(below)


def _log_mass(part: Part, nodes: Nodes) -> tuple[float, float]:
    """log P[lower < L <= upper, L < inf] and its absolute error."""
    if part.lower == -np.inf:
        return _mass_below(part.step, part.upper)
    total = log_total(nodes.log_p)
    weight = np.exp(nodes.log_p - total)
    relative = 16 * ULP if nodes.rounding is None else float(weight @ nodes.rounding()[1])
    return total, nodes.error + relative + 2 * SUM + 4 * ULP * abs(total)


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
            mass, error = _log_mass(part, nodes)
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


def saddle(parts: Parts, epsilon: float, hint: Hint | None = None) -> tuple[Axis, float, bool]:
    """Nodes on the real axis, the saddle point, and whether it lies in the middle strip."""
    if hint is not None and hint.tilt > 0.0:
        high = 1.25 * hint.tilt + 2 * ROOM / hint.spread
        axis = Axis(parts, 0.0, high, hint.rate)
        if _rises(axis, epsilon, high):
            return *_roomy(axis, root(axis, epsilon, 1e-9 * high, high, hint.tilt)), False
    axis = Axis(parts, 0.0, 0.0, 0.0)
    _, mean, variance = axis.cumulants(0.0)
    if not variance > 0.0:
        raise CannotVouch("the privacy loss is constant below the cut")
    spread = math.sqrt(max(variance, 1e-300))
    if mean - epsilon > 1.5 * spread + 1.0:
        axis = Axis(parts, -1.0, 0.0, 0.0)
        return axis, root(axis, epsilon, -1.0 + 1e-9, -1e-9, -0.5), True
    gap = (epsilon - mean) / spread
    guess = (gap + math.sqrt(gap * gap + 8.0)) / (2 * spread)  # v c + m = eps + 2/c
    high, rate, floor, ceiling = max(1.3 * guess, guess + 1.5 * ROOM / spread), RATE / spread, 0.0, math.inf
    for _ in range(40):
        try:
            axis = Axis(parts, 0.0, high, rate)
            if _rises(axis, epsilon, high):
                return *_roomy(axis, root(axis, epsilon, 1e-9 * high, high, 0.8 * high)), False
            floor = high
        except (Overflow, TooManyNodes):  # far beyond the saddle point, or nothing serves here
            ceiling = high
        if ceiling < 1.05 * floor or high < 1e-12 * guess:
            break
        if ceiling == math.inf:
            high *= 1.9
        else:
            high = math.sqrt(floor * ceiling) if floor else high / 6.0
        rate = 0.0
    raise CannotVouch("epsilon is at the edge of what the loss can reach")


def _roomy(axis: Axis, c: float) -> tuple[Axis, float]:
    """Nodes that serve a little beyond the saddle point, where Chernoff's bounds are taken."""
    variance = axis.cumulants(c)[2]
    if not variance > 0.0:
        raise CannotVouch("the privacy loss is constant under the tilt")
    needed = c + ROOM / math.sqrt(variance)
    return axis if axis.high >= needed else Axis(axis.parts, 0.0, needed, axis.rate), c


ROOM = 3.0  # in units of 1/spread
RATE = 20.0  # times 1/spread: what most contours need of their nodes, so that they are built once


def _rises(axis: Axis, epsilon: float, high: float) -> bool:
    return axis.cumulants(high)[1] - epsilon - 1 / high - 1 / (high + 1) >= 0.0


def root(axis: Axis, epsilon: float, low: float, high: float, c: float) -> float:
    """Zero of F'(c) = K'(c) - eps - 1/c - 1/(c+1), increasing on each strip: Newton from c, kept inside a bracket."""
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
        if abs(new - c) <= 3e-3 * min(abs(c), abs(c + 1)):
            return new
        c = new
    return c
