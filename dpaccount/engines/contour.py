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
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import log_geometric, log_kappa, polar_log1p, polar_slip
from dpaccount._quadrature import TooManyNodes
from dpaccount.engines.axis import SUM, ULP, Axis, CannotVouch, Hint, Parts, below, saddle
from dpaccount.engines.jump import Jump, Margin, split
from dpaccount.engines.reach import proved_reach
from dpaccount.engines.rows import BLOCK, block_products
from dpaccount.pair import DominatingPair

Array = npt.NDArray[np.float64]
AIM = 26.0  # aliasing and truncation below e^-AIM of the answer
MAX_LINE = 6000
QUICK = 200_000  # counts up to which sums by matrix products are accurate enough
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

    def __init__(self, parts: Parts, epsilon: float, jump: Jump, hint: Hint | None = None, aim: float = AIM) -> None:
        self.aim, self.room = aim, 0.0
        self.epsilon, self.jump, self.hint, self.proved, self.spread = epsilon, jump, hint, False, 0.0
        self._last: tuple[float, Reading] | None = None
        try:
            self._build(parts)
        except TooManyNodes as error:
            raise CannotVouch(str(error)) from error

    @classmethod
    def beside(cls, pair: DominatingPair, epsilon: float, margin: Margin, hint: Hint | None = None, aim: float = AIM) -> Contour:
        """The contour of what is left of a pair when its big jump is split off."""
        room = ROOM * epsilon
        jump = split(pair, epsilon + room, margin)
        found = cls(below(pair, jump.cut), epsilon, jump, hint, aim=aim)
        found.room = room
        return found

    def _build(self, parts: Parts) -> None:
        eps, cut = self.epsilon, self.jump.cut
        axis, c, middle = saddle(parts, eps, self.hint)
        k, _, variance = axis.cumulants(c)
        spread = math.sqrt(variance)
        if not spread > 0.0:
            raise CannotVouch("the privacy loss is constant below the cut")
        self.spread = spread
        log_scale = axis.log_mass + k - c * eps
        # size of the integral by the saddle-point approximation
        bend = variance + 1 / c**2 + 1 / (c + 1) ** 2
        rough = log_scale - math.log(abs(c * (c + 1))) - 0.5 * math.log(2 * math.pi * bend)
        if middle and rough - axis.log_mass < -745.0:
            self._mass_only(axis)
            return
        self.alias: _Alias | None = _Alias(axis, c, eps, rough - self.aim, middle, spread)
        step = 2 * math.pi / self.alias.period
        tail, count = math.nan, 0
        if self.jump.margin.bounded and axis.proved and self.alias.proved:
            found = proved_reach(axis, c, spread, log_scale - rough + self.aim)
            if found is not None and found[0] < MAX_LINE * step:
                count = math.ceil(found[0] / step)
                fine = all(axis.node_error(t, c) <= ENOUGH for t in axis.terms) and not any(m.ends_only for m in axis.many)
                enough = count * step <= axis.rate and fine
                finer = axis if enough else Axis(parts, min(c, 0.0), max(c, 0.0), 1.01 * count * step)
                if finer.proved:
                    axis, tail, self.proved = finer, found[1], True
        if not self.proved:
            if axis.proved and self.jump.margin.bounded:
                raise CannotVouch("the characteristic function falls too slowly for a bound")
            axis, reach = _reach(axis, c, spread)
            count = math.ceil(reach / step) + 1
            if count > MAX_LINE:
                raise CannotVouch(f"the line needs {count} nodes")
        k = axis.log_mgf(c)  # from the finer nodes
        s = step * np.arange(count + 1)
        log_phi, slip = _phi(axis, c, np.asarray(s, dtype=np.float64))
        size = np.exp(np.real(log_phi)) / np.abs((c + 1j * s) * (c + 1 + 1j * s))
        self.c, self.s, self.step, self.middle = c, s, step, middle
        self.log_scale = axis.log_mass + k - c * eps
        self.log_phi, self.size, self.log_mass, self.mass_error = log_phi, size, axis.log_mass, axis.mass_error
        self.k, self.k_error, self.phase_error, self.tail = k, axis.rounding(c), slip, tail
        self.hint = Hint(c, spread, axis.rate)
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
        shift = epsilon - self.epsilon
        return abs(shift * self.c) <= 0.25 and epsilon >= 0.0 and (shift <= self.room or self.jump.cut == np.inf)

    def _mass_only(self, axis: Axis) -> None:
        self.c, self.s, self.step, self.middle = -0.5, np.zeros(1), 1.0, True
        self.log_phi, self.size, self.alias = np.full(1, -np.inf + 0j), np.zeros(1), None
        self.log_scale, self.log_mass, self.mass_error, self.slip = -np.inf, axis.log_mass, axis.mass_error, 0.0

    def at(self, epsilon: float) -> Reading:
        """What the contour says at an epsilon near its own; raises `CannotVouch`."""
        if self._last is None or self._last[0] != epsilon:
            self._last = epsilon, self._at(epsilon)
        return self._last[1]

    def _at(self, epsilon: float) -> Reading:
        found = self.readings(np.array([epsilon]))
        if not found.error[0] < np.inf:
            raise CannotVouch("the digits cancel")
        return Reading(*(float(part[0]) for part in found))

    def readings(self, epsilon: Array) -> Readings:
        """`at` for many epsilons at once; the error is infinite where the digits cancel."""
        z = self.c + 1j * self.s
        wave = np.exp(self.log_phi - 1j * np.multiply.outer(epsilon, self.s))
        wave[:, 0] /= 2
        scale = self.step / math.pi
        log_scale = self.log_scale - self.c * (epsilon - self.epsilon)
        value = scale * np.real(wave @ (1 / (z * (z + 1))))
        slope = scale * np.real(wave @ (1 / (z + 1)))
        size = float(self.size.sum())
        absolute = scale * (self.slip + 2 * ULP * size * (1 + np.abs(self.s[-1] * epsilon)))
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


def _phi(axis: Axis, c: float, s: Array) -> tuple[npt.NDArray[np.complex128], Array]:
    """log E[e^{(c+is)L}]/E[e^{cL}] of the composition, and the error of the logarithm at every s.

    phi - 1 = sum p (-2 sin^2(sL/2) + i sin sL), so that by Cauchy-Schwarz relative errors r of its terms cost at most
    (sum p r^2)^{1/2} (-2 Re(phi - 1))^{1/2}. A step's error is a bound if its nodes are proved, else an estimate.
    """
    log_phi = np.zeros(s.shape, dtype=complex)
    slip = np.zeros(s.shape)
    for t in axis.terms:
        tilted = t.tilted(c)
        real, imag, sums = turned(t.loss, tilted, s, t.count <= QUICK)
        log_size, angle = polar_log1p(real, imag)
        log_phi.real += t.count * log_size
        log_phi.imag += t.count * angle
        wave = np.sqrt(-2 * real)
        if t.rounding is None:
            slip += t.count * (8 * ULP + t.error) * wave
            continue
        part, off = t.phase_errors(tilted, c)
        error = part * wave + s * off + 2 * axis.node_error(t, c) + sums
        slip += t.count * polar_slip(error, log_size)
    for m in axis.many:
        value, error = m.log_phi(c, s)
        log_phi += value
        slip += error
    return log_phi, slip


def turned(loss: Array, weight: Array, s: Array, quick: bool) -> tuple[Array, Array, Array]:
    """Re and Im of sum p (e^{isL} - 1) at equidistant s from 0, and what sums that are not numpy's own add to the error.

    With X = e^{isL} - 1, `quick` uses X_{a+b} = X_a X_b + X_a + X_b for a coarse and a fine grid of s: a matrix product
    over their nodes, whose errors are relative to sum p |X_a| |X_b| <= 2 min(w_a, w_b), sum p |X_a| <= w_a, w^2 = sum p |X|^2.
    """
    if not quick or s.size < 12:
        real, imag = _turned(loss, s)
        return (real * weight).sum(axis=-1), (imag * weight).sum(axis=-1), np.zeros(s.size)  # not by BLAS: see SUM
    fine = math.isqrt(s.size - 1) + 1
    coarse = -(-s.size // fine)
    real, imag = _turned(loss, np.concatenate([s[:fine], s[1] * fine * np.arange(coarse)]))
    first, second = np.concatenate([real[:fine], imag[:fine]]), weight * np.concatenate([real[fine:], imag[fine:]])
    product = block_products(second, first)
    sum_real, sum_imag = (real * weight).sum(axis=-1), (imag * weight).sum(axis=-1)
    re = product[:coarse, :fine] - product[coarse:, fine:] + sum_real[fine:, None] + sum_real[:fine]
    im = product[:coarse, fine:] + product[coarse:, :fine] + sum_imag[fine:, None] + sum_imag[:fine]
    wave = np.sqrt(-2 * np.minimum(sum_real, 0.0))
    sums = 2.4e-16 * (BLOCK + loss.size // BLOCK + 8) * 2 * np.minimum(wave[fine:, None], wave[:fine])
    sums = sums + (2 * SUM + 8 * ULP) * (wave[fine:, None] + wave[:fine])
    return re.ravel()[: s.size], im.ravel()[: s.size], sums.ravel()[: s.size]


def _turned(loss: Array, s: Array) -> tuple[Array, Array]:
    """Re and Im of e^{isL} - 1: sin^2 and sin cos from one fast function."""
    tan = np.tan(np.multiply.outer(s / 2, loss))
    shrink = 2.0 * tan / (1.0 + tan * tan)
    return -shrink * tan, shrink


def _log_modulus(axis: Axis, c: float, s: Array) -> Array:
    """log |phi|, with the atoms of the loss taken as if all in phase: they return again and again, densities do not."""
    total = np.zeros(s.shape)
    for t in axis.terms:
        tilted = t.tilted(c)
        smooth = np.exp(1j * np.multiply.outer(s, t.loss[t.atoms :])) @ tilted[t.atoms :]
        with np.errstate(divide="ignore"):
            total += t.count * np.log(np.minimum(np.abs(smooth) + float(tilted[: t.atoms].sum()), 1.0))
    for m in axis.many:
        total += m.log_modulus(c, s)
    return total


def _reach(axis: Axis, c: float, spread: float) -> tuple[Axis, float]:
    """Where on the line the integrand has fallen below e^-AIM of its start, looking past it for a return."""
    start = math.sqrt(2 * AIM) / spread
    base = math.log(abs(c * (c + 1)))
    for widen in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
        points = start * widen * _PROBES
        if axis.rate < points[-1]:
            axis = Axis(axis.parts, min(c, 0.0), max(c, 0.0), float(points[-1]))
        fall = _log_modulus(axis, c, points) - np.log(np.abs((c + 1j * points) * (c + 1 + 1j * points))) + base
        fallen = fall < -AIM
        for i in range(points.size - 2):
            if fallen[i:].all():
                return axis, float(points[i])
    raise CannotVouch("the characteristic function does not decay: too few samples, or atoms")


_PROBES = np.array([0.75, 0.85, 0.95, 1.1, 1.3, 1.55, 1.8, 2.1])


class _Alias:
    """The period 2 pi/h that keeps aliasing below e^goal, and a bound on it at any epsilon."""

    def __init__(self, axis: Axis, c: float, epsilon: float, goal: float, middle: bool, spread: float) -> None:
        self.c, self.middle, self.log_mass, self.proved = c, middle, axis.log_mass, True
        if middle:
            self.period = max(-goal / abs(c), (epsilon - goal) / (1 + c), 8.0 * spread)
            return
        self.period, self.tilt = math.inf, 0.0
        for width in (0.5, 1.0, 2.0, 4.0):
            d = c + width / spread
            if d > axis.high:
                break  # nodes are made for tilts up to axis.high
            k, _, _ = axis.cumulants(d)
            bound = axis.log_mass + k + log_kappa(d)
            period = (bound - d * epsilon - goal) / (d - c)
            if period < self.period:
                self.period, self.tilt = period, d
        if not math.isfinite(self.period):
            raise CannotVouch("no tilt bounds the aliasing")
        d = self.tilt
        if axis.ends_only:
            axis = Axis(axis.parts, 0.0, d, 0.0)
        self.proved = axis.proved
        self.k_far = axis.log_mass + axis.mass_error + axis.log_mgf(d) + axis.rounding(d)
        self.log_far = self.k_far + log_kappa(d) + 4 * ULP * (1 + d)
        self.period = max(max(-goal, AIM) / c, self.period, 8.0 * spread)

    def log_bound(self, epsilon: Array) -> Array:
        """log of what all aliases add up to."""
        if self.middle:
            near, far = log_geometric(-abs(self.c) * self.period), epsilon + log_geometric(-(1 + self.c) * self.period)
            return np.asarray(np.logaddexp(near, far))
        right = self.log_far - self.tilt * epsilon + log_geometric(-self.period * (self.tilt - self.c))
        return np.asarray(np.logaddexp(right, self.log_mass + log_geometric(-self.c * self.period)))
