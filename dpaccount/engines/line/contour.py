"""One vertical line through the saddle point, and every error of the trapezoid rule on it.

With F(z) = K(z) - eps z - log z - log(z+1) the sum is off by
- aliasing, sum over k != 0 of e^{ckP} g(eps + kP) with P = 2 pi/h (Poisson summation), which is positive and bounded by
  Chernoff: right by e^{K(d) - d eps} kappa(d) e^{-P (d-c)} for any d > c, kappa = d^d/(1+d)^{1+d}, left by e^{-cP};
- truncation at S, at most e^{F} beta(S)/(pi S) with beta the bound of `decay`;
- the nodes of K (`_strip`), and rounding: of losses and masses, of sums, exponents and logarithms.
Where a step does not state what this needs, truncation and nodes are estimated and the contour is not `proved`.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP
from dpaccount._quadrature import TooManyNodes
from dpaccount.engines.jump import Jump, Margin, split
from dpaccount.engines.line.alias import AIM, Alias, beside, between_poles
from dpaccount.engines.line.axis import Axis, Parts, Plan, below
from dpaccount.engines.line.near import Near
from dpaccount.engines.line.reach import guessed_reach, proved_reach
from dpaccount.engines.line.saddle import Hint, saddle
from dpaccount.engines.line.waves import log_phi_along
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import DominatingPair

Array = npt.NDArray[np.float64]
MAX_LINE = 6000
NEAR, FARTHER = 0.5, 2.0  # tilt times the move of epsilon that a line serves, and one of a family, which takes long to make
ROOM = 0.01  # of epsilon: how far above it a cut still serves, so that a root finder need not make another
ENOUGH = 1e-18  # nodes as good as this need not be made anew


class Reading(NamedTuple):
    """log delta at one epsilon, its relative error, by how much it may be too high besides, the condition number,
    and log of e^eps Q[L > eps]."""

    log_delta: float
    error: float
    excess: float
    condition: float
    log_tail: float


class Readings(NamedTuple):
    """The same for many epsilons."""

    log_delta: Array
    error: Array
    excess: Array
    condition: Array
    log_tail: Array


class Contour:
    """One vertical line through the saddle point of some parts at `epsilon` >= 0; answers there, and nearby by reweighting.

    The jump that was split off before the parts were made is added to what the line gives. Where facts are stated but prove
    nothing, nothing is estimated.
    """

    def __init__(self, parts: Parts, epsilon: float, jump: Jump, hint: Hint | None = None) -> None:
        self.room = 0.0
        self.epsilon, self.jump, self.hint, self.proved, self.spread = epsilon, jump, hint, False, 0.0
        self._last: tuple[float, Reading] | None = None
        self._near: Near | None = None
        try:
            self._build(parts)
        except TooManyNodes as error:
            raise CannotVouch(str(error)) from error

    @classmethod
    def beside(cls, pair: DominatingPair, epsilon: float, margin: Margin, hint: Hint | None = None) -> Contour:
        """The contour of what is left of a pair when its big jump is split off."""
        room = ROOM * epsilon
        jump = split(pair, epsilon + room, margin)
        found = cls(below(pair, jump.cut), epsilon, jump, hint)
        found.room = room
        return found

    def _build(self, parts: Parts) -> None:
        eps, cut = self.epsilon, self.jump.cut
        axis, c, middle = saddle(parts, eps, self.hint)
        k, _, variance = axis.cumulants(c)
        spread = math.sqrt(variance)
        if not spread > 0.0:
            raise CannotVouch("the privacy loss is constant below the cut")
        self.spread, self.costly = spread, bool(axis.many)
        log_scale = axis.log_mass + k - c * eps
        # size of the integral by the saddle-point approximation
        bend = variance + 1 / c**2 + 1 / (c + 1) ** 2
        rough = log_scale - math.log(abs(c * (c + 1))) - 0.5 * math.log(2 * math.pi * bend)
        if middle and rough - axis.log_mass < -745.0:
            self._mass_only(axis, c)
            return
        goal = rough - AIM
        self.alias: Alias | None = between_poles(c, eps, goal, spread) if middle else beside(axis, c, eps, goal, spread)
        step = 2 * math.pi / self.alias.period
        tail, count, plan = math.nan, 0, None
        if self.jump.margin.bounded and axis.proved and self.alias.proved:
            found = proved_reach(axis, c, spread, log_scale - rough + AIM)
            if found is not None and found[0] < MAX_LINE * step:
                count, plan = math.ceil(found[0] / step), Plan(found[0], ())
                fine = all(axis.node_error(t, c) <= ENOUGH for t in axis.terms) and not any(m.ends_only for m in axis.many)
                enough = count * step <= axis.rate and fine
                finer = axis if enough else Axis(parts, min(axis.low, 0.0), max(c, 0.0), 1.01 * count * step)
                if finer.proved:
                    axis, tail, self.proved = finer, found[1], True
        if not self.proved:
            if axis.proved and self.jump.margin.bounded:
                raise CannotVouch("the characteristic function falls too slowly for a bound")
            axis, reach = guessed_reach(axis, c, spread)
            count = math.ceil(reach / step) + 1
            if count > MAX_LINE:
                raise CannotVouch(f"the line needs {count} nodes")
        k = axis.log_mgf(c)  # from the finer nodes
        s: Array = np.asarray(step * np.arange(count + 1), dtype=np.float64)
        log_phi, slip = log_phi_along(axis, c, s)
        size = np.exp(np.real(log_phi)) / np.abs((c + 1j * s) * (c + 1 + 1j * s))
        self.c, self.s, self.step, self.middle = c, s, step, middle
        self.log_scale = axis.log_mass + k - c * eps
        self.log_phi, self.size, self.log_mass, self.mass_error = log_phi, size, axis.log_mass, axis.mass_error
        self.k, self.k_error, self.phase_error, self.tail = k, axis.rounding(c), slip, tail
        self.hint = Hint(c, spread, axis.rate, math.nan if middle else eps, plan)
        ends = math.pi / step * tail if self.proved else float(size[-3:].max()) * (1 + count / 4)
        line = self.k_error + 2 * ULP * (abs(c * eps) + abs(k) + abs(axis.log_mass))
        if cut < np.inf:  # where exactly the cut lies is rounded too, for the body as for the jump
            line += 4 * self.jump.error * math.exp(self.jump.log_p)
        line += axis.mass_error
        grown = np.where(slip < 0.3, size * np.expm1(np.minimum(slip, 0.3)), np.exp(np.minimum(slip, 700.0)) * size)
        # exponents of that size are rounded, and so is their sum
        self.slip = ends + float(grown.sum()) + (line + count * ULP) * float(size.sum()) + 4 * ULP * float(size @ np.abs(log_phi))

    def reaches(self, epsilon: float) -> bool:
        """Whether reweighting serves `epsilon` as well: a small move of the saddle point, and not above what the cut leaves."""
        shift, most = epsilon - self.epsilon, FARTHER if self.costly else NEAR
        return abs(shift * self.c) <= most and epsilon >= 0.0 and (shift <= self.room or self.jump.cut == np.inf)

    def _mass_only(self, axis: Axis, c: float) -> None:
        """The integral is what delta lacks of the mass, E min(1, e^{eps - L}) <= e^{K(c) - c eps} for -1 < c < 0: it underflows."""
        log_size = axis.log_mass + axis.log_mgf(c) + axis.rounding(c) - c * self.epsilon
        self.c, self.s, self.step, self.middle = c, np.zeros(1), 1.0, True
        self.log_phi, self.size, self.alias = np.full(1, -np.inf + 0j), np.zeros(1), None
        self.log_mass, self.mass_error = axis.log_mass, axis.mass_error
        self.log_scale, self.slip = log_size + 1e-9 * (1.0 + abs(log_size)), math.pi / self.step
        self.proved = axis.proved and self.jump.margin.bounded

    def at(self, epsilon: float) -> Reading:
        """What the contour says at an epsilon near its own; raises `CannotVouch`."""
        if self._last is None or self._last[0] != epsilon:
            self._last = epsilon, self._at(epsilon)
        return self._last[1]

    def _at(self, epsilon: float) -> Reading:
        """From sums at an epsilon asked before, while what Taylor's polynomial leaves out is small beside the error."""
        near = self._near
        if near is None or near.left_out(epsilon) > 0.01 * self.slip:
            near = self._near = Near(self.log_phi, self._kernels, self.s, self.size, epsilon)
        value, slope, off = near.at(epsilon)
        scale = self.step / math.pi
        absolute = scale * (self.slip + off + 2 * ULP * self._size * (1.0 + abs(float(self.s[-1]) * near.epsilon)))
        value, slope = scale * value, scale * slope
        if self._nothing_to_add:
            body = self.log_scale - self.c * (epsilon - self.epsilon) + math.log(value) if value > 0.0 else math.nan
            assert self.alias is not None
            excess = math.exp(min(self.alias.log_bound(epsilon) - body, 0.0)) if value > 0.0 else math.inf
            if not absolute / value + excess < 1.0:
                raise CannotVouch("the digits cancel")
            log_tail = self.log_scale - self.c * (epsilon - self.epsilon) + math.log(slope) if slope > 0.0 else -math.inf
            return Reading(body, absolute / value, excess, max(scale * self._size / value, 1.0), log_tail)
        found = self._whole(np.array([epsilon]), np.array([value]), np.array([slope]), np.array([absolute]))
        if not found.error[0] < np.inf:
            raise CannotVouch("the digits cancel")
        return Reading(*(float(part[0]) for part in found))

    @property
    def _nothing_to_add(self) -> bool:
        """Whether the integral is delta: no jump, no mass at an infinite loss, and right of the poles."""
        return self.jump.log_p == self.jump.log_slack == -np.inf and self.alias is not None and not self.middle

    @cached_property
    def _kernels(self) -> npt.NDArray[np.complex128]:
        """1/(z (z+1)) and 1/(z+1) along the line, the first of each halved."""
        z = self.c + 1j * self.s
        found = np.stack([1 / (z * (z + 1)), 1 / (z + 1)], axis=1)
        found[0] /= 2
        return found

    @cached_property
    def _size(self) -> float:
        return float(self.size.sum())

    def readings(self, epsilon: Array) -> Readings:
        """`at` for many epsilons at once; the error is infinite where the digits cancel."""
        scale = self.step / math.pi
        value, slope = scale * np.real(np.exp(self.log_phi - np.multiply.outer(epsilon, 1j * self.s)) @ self._kernels).T
        absolute = scale * (self.slip + 2 * ULP * self._size * (1 + np.abs(self.s[-1] * epsilon)))
        return self._whole(epsilon, value, slope, absolute)

    def _whole(self, epsilon: Array, value: Array, slope: Array, absolute: Array) -> Readings:
        """delta from the integral, its slope and its absolute error, all relative to e^{log_scale}: with jumps and infinite losses."""
        scale, size = self.step / math.pi, self._size
        log_scale = self.log_scale - self.c * (epsilon - self.epsilon)
        if self._nothing_to_add and self.alias is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                body = log_scale + np.log(value)
                excess = np.exp(np.minimum(self.alias.log_bound(epsilon) - body, 0.0))
                error = absolute / value
                error = np.where((value > 0.0) & (error + excess < 1.0), error, np.inf)
                return Readings(body, error, excess, np.maximum(scale * size / value, 1.0), log_scale + np.log(np.maximum(slope, 0.0)))
        log_jump, log_jump_error = self.jump.log_parts(epsilon)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            body = log_scale + np.log(np.abs(value))
            top = np.maximum(np.maximum(log_jump, body), self.log_mass if self.middle else -np.inf)
            total = np.exp(log_jump - top) + np.copysign(np.exp(body - top), value)
            error = np.exp(log_scale - top) * absolute
            error += 2 * np.exp(log_jump_error - top) + np.exp(np.minimum(self.jump.log_slack - top, 0.0))
            excess = np.zeros(epsilon.shape) if self.alias is None else np.exp(np.minimum(self.alias.log_bound(epsilon) - top, 0.0))
            if self.middle:  # the integral is subtracted, so aliasing takes too much away
                total += np.exp(self.log_mass - top)
                error += excess + ULP * (4 + abs(self.log_mass)) + self.mass_error
                excess = np.zeros(epsilon.shape)
            error = np.where((total > 0.0) & (error + excess < total), error / total, np.inf)
            condition = np.maximum(np.exp(log_scale - top) * scale * size / total, 1.0)
            tail = np.exp(log_scale - top) * slope + np.exp(np.minimum(epsilon + self.jump.log_q - top, 700.0))
            log_tail = top + np.log(np.maximum(tail, 0.0))
            return Readings(top + np.log(total), error, excess / total, condition, log_tail)
