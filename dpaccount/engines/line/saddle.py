"""The saddle point: where the integrand's logarithm is flat on the real axis, with nodes around it."""

from __future__ import annotations

import math
from typing import NamedTuple

from dpaccount._quadrature import TooManyNodes
from dpaccount.engines.line.axis import Axis, Parts, Plan
from dpaccount.engines.line.reach import planned
from dpaccount.engines.line.sketch import Sketch
from dpaccount.engines.vouch import CannotVouch, Overflow

ROOM = 3.0  # in units of 1/spread
RATE = 20.0  # times 1/spread: what most contours need of their nodes, so that they are built once


class Hint(NamedTuple):
    """Where a nearby contour lay: its saddle point, the spread of the loss there and the rate its nodes resolved; and its epsilon."""

    tilt: float
    spread: float
    rate: float
    epsilon: float = math.nan
    plan: Plan | None = None


def saddle(parts: Parts, epsilon: float, hint: Hint | None = None) -> tuple[Axis, float, bool]:
    """Nodes for a line through the saddle point and for bounds beyond it, that point, and whether it lies in the middle strip."""
    bottom = -1.0 if parts.whole else 0.0  # see `Term.log_mgf`
    if hint is not None and hint.epsilon == epsilon and hint.tilt > 0.0:
        axis, c = Axis(parts, bottom, hint.tilt + 1.05 * ROOM / hint.spread, hint.rate), hint.tilt
        axis.plan = hint.plan
        if _near(axis, epsilon, c, hint.spread):
            return axis, c, False
    if hint is not None and hint.tilt > 0.0:
        high = hint.tilt + 2 * ROOM / hint.spread
        axis = Axis(parts, bottom, high, hint.rate)
        if rises(axis, epsilon, high):
            return *_roomy(axis, root(axis, epsilon, 1e-9 * high, high, hint.tilt)), False
    guide = guided(parts, epsilon)
    if guide is not None:
        c, spread, sketch = guide
        rate, plan = planned(parts, c, spread, sketch)
        axis = Axis(parts, bottom, c + 1.05 * ROOM / spread, rate)
        axis.plan = plan
        if _near(axis, epsilon, c, spread):
            return axis, c, False
    return _searched(parts, epsilon, bottom)


def _near(axis: Axis, epsilon: float, c: float, spread: float) -> bool:
    """Whether a line through c is hardly worse than one through the saddle point."""
    off = axis.cumulants(c)[1] - epsilon - 1 / c - 1 / (c + 1)
    return abs(off) * min(c, 1.0 / spread) < 0.1


def guided(parts: Parts, epsilon: float, hint: Hint | None = None) -> tuple[float, float, Sketch] | None:
    """The saddle point by a sketch, with the spread there; None where it is no guide, or the point is in the middle strip."""
    if hint is not None:
        high = hint.tilt + 2 * ROOM / hint.spread
        sketch = Sketch.of(parts, high)
        if sketch is not None and rises(sketch, epsilon, high):
            c = root(sketch, epsilon, 1e-9 * high, high, hint.tilt)
            variance = sketch.cumulants(c)[2]
            if variance > 0.0:
                return c, math.sqrt(variance), sketch
    for high in (12.0, 60.0, 300.0):
        sketch = Sketch.of(parts, high)
        if sketch is None:
            return None
        _, mean, variance = sketch.cumulants(0.0)
        if not variance > 0.0 or mean - epsilon > 1.5 * math.sqrt(variance) + 1.0:
            return None
        if rises(sketch, epsilon, high):
            gap = (epsilon - mean) / math.sqrt(variance)
            start = min((gap + math.sqrt(gap * gap + 8.0)) / (2 * math.sqrt(variance)), 0.7 * high)  # v c + m = eps + 2/c
            c = root(sketch, epsilon, 1e-9 * high, high, start)
            variance = sketch.cumulants(c)[2]
            return (c, math.sqrt(variance), sketch) if variance > 0.0 else None
    return None


def _searched(parts: Parts, epsilon: float, bottom: float) -> tuple[Axis, float, bool]:
    """From proved nodes alone, for a range of tilts that is widened, or narrowed, until it holds the saddle point."""
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
            axis = Axis(parts, bottom, high, rate)
            if rises(axis, epsilon, high):
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
    return axis if axis.high >= needed else Axis(axis.parts, axis.low, needed, axis.rate), c


def rises(axis: Axis | Sketch, epsilon: float, high: float) -> bool:
    return axis.cumulants(high)[1] - epsilon - 1 / high - 1 / (high + 1) >= 0.0


def root(axis: Axis | Sketch, epsilon: float, low: float, high: float, c: float) -> float:
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
