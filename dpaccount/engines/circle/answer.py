"""Losses on one lattice: the characteristic function is periodic, so the contour is a circle and is never cut off.

With all losses of a composition in offset + h Z, l_0 = epsilon + g the first lattice point above epsilon, and
z = c + is, a geometric series over the points at or above l_0 gives, for c > 0,

    delta(epsilon) = (h/2pi) * integral over |s| <= pi/h of e^{K(z) - z l_0} N(z)/((1 - e^{-hz}) (1 - e^{-h(z+1)})) ds,
    N(z) = (1 - e^{-g}) + e^{-hz} (e^{-g} - e^{-h}),

and for -1 < c < 0 the same integral is delta less the finite mass. On M equidistant points the sum is off by aliasing alone:
sum over k != 0 of e^{ckMh} g(epsilon + kMh), bounded by Chernoff as on a line (`contour`). Few points of the circle matter:
the others are bounded by layers (`turns`). Phases are exact fractions of a turn; what the losses miss the lattice by, or
are rounded by, moves the sum of the losses and hence delta.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP, log_geometric, log_kappa
from dpaccount.engines.circle.turns import Law, Tilted, log_bound, phi
from dpaccount.engines.jump import NO_CUT, split
from dpaccount.engines.line.answer import VOUCH, reflected
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import DominatingPair
from dpaccount.results import LogDelta

Array = npt.NDArray[np.float64]
AIM = 30.0  # aliasing and what is left out below e^-AIM of the answer
MAX_WORK = 30_000_000  # points of the circle times atoms


def common_lattice(pair: DominatingPair) -> float | None:
    """The coarsest step that the lattices of all steps share, None if there is none; constant losses lie on any."""
    widths = []
    for step, _ in pair.terms:
        if step.density() is not None or step.facts.lattice is None:
            return None
        if step.atoms()[0].size > 1:
            widths.append(step.facts.lattice[1])
    if not widths:
        return None
    base = min(widths)
    for divisor in range(1, 33):
        ratios = [w * divisor / base for w in widths]
        if all(abs(r - round(r)) <= 1e-12 * r for r in ratios):
            return base / divisor
    return None


def log_delta(pair: DominatingPair, epsilon: float) -> LogDelta:
    """log delta of a directed pair at any real epsilon, certified; raises `CannotVouch`."""
    if epsilon < 0.0:
        return reflected(log_delta(pair.reversed(), -epsilon), epsilon)
    h = common_lattice(pair)
    if h is None:
        raise CannotVouch("the losses do not lie on one lattice")
    return _Circle(pair, epsilon, h).answer()


class _Circle:
    """The answer at one epsilon >= 0."""

    def __init__(self, pair: DominatingPair, epsilon: float, h: float) -> None:
        self.pair, self.epsilon, self.h = pair, epsilon, h
        self.laws = [Law(step, count, h) for step, count in pair.terms]
        base = sum((law.count * law.base for law in self.laws), Fraction(0))
        self.first = math.floor((Fraction(epsilon) - base) / Fraction(h)) + 1  # lattice place of l_0, about the references
        self.g = min(float(base + self.first * Fraction(h) - Fraction(epsilon)), h)
        if not abs(self.first) < 2**40:
            raise CannotVouch("the lattice is too fine")
        self.log_mass = sum(law.count * law.log_mass for law in self.laws)
        self.mass_error = sum(law.count * law.mass_error for law in self.laws)
        self.near, self.far = -math.expm1(-self.g), math.exp(-self.g) * -math.expm1(-(h - self.g))
        self.tau, self.middle = self._saddle()

    def _moments(self, tau: float) -> tuple[float, float]:
        mean = variance = 0.0
        for law in self.laws:
            m, v = law.moments(tau)
            mean, variance = mean + law.count * m, variance + law.count * v
        return mean, variance

    def _slope(self, tau: float) -> tuple[float, float]:
        """F'(tau) and F''(tau) of the integrand's logarithm on the real axis, convex on either side of 0."""
        mean, variance = self._moments(tau)
        share = self.far / (self.near * math.exp(min(tau, 700.0)) + self.far)
        bend = variance + share * (1 - share)
        slope = mean - self.first - share
        for x in (tau, tau + self.h):
            slope -= 1 / math.expm1(min(x, 700.0))
            bend += 0.25 / math.sinh(min(abs(x), 700.0) / 2) ** 2
        return slope, bend

    def _saddle(self) -> tuple[float, bool]:
        mean, variance = self._moments(0.0)
        if not variance > 0.0:
            raise CannotVouch("the privacy loss is constant")
        spread = math.sqrt(variance)
        gap = self.first - mean
        if -gap * self.h > 1.5 * spread * self.h + 1.0:
            return self._root(-self.h * (1 - 1e-9), -1e-9 * self.h), True
        if gap > sum(law.count * float(law.k.max()) for law in self.laws) - mean:
            raise CannotVouch("epsilon lies above every loss")
        high = 2.0 / spread + gap / variance if gap > 0 else 2.0 / spread
        for _ in range(60):
            if self._slope(high)[0] >= -1e-12:
                break
            high *= 2.0
        return self._root(1e-12 * high, high), False

    def _root(self, low: float, high: float) -> float:
        x = (low + high) / 2
        for _ in range(80):
            slope, bend = self._slope(x)
            low, high = (low, x) if slope > 0 else (x, high)
            new = x - slope / max(bend, 1e-300)
            if not low < new < high:
                new = (low + high) / 2
            if abs(new - x) <= 1e-3 / math.sqrt(max(bend, 1e-30)):
                return new
            x = new
        return x

    def _exponent(self, tau: float) -> tuple[float, float]:
        """K(tau/h) - K(0) - (tau/h) l_0 and its error."""
        value, error = -tau * self.first, ULP * abs(tau * self.first)
        for law in self.laws:
            k, slip = law.log_mgf(tau)
            value += law.count * k
            error += law.count * slip + ULP * (abs(value) + law.count * abs(k))
        return value, error

    def _period(self, exponent: float, goal: float, spread: float) -> tuple[int, float]:
        """Points on the circle, and log of what all aliases add up to: relative to the finite mass, absolutely in the middle."""
        tau, h = self.tau, self.h
        if self.middle:
            points = max(-goal / -tau, (self.epsilon - goal) / (h + tau), 2.0)
            count = self._allowed(points)
            return count, float(np.logaddexp(log_geometric(tau * count), self.epsilon + log_geometric(-(h + tau) * count)))
        best, bound, move = math.inf, math.inf, 0.0
        for width in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0):
            d = tau + width / max(spread, 0.2)
            value, error = self._exponent(d)
            far = value + error + d * (self.g / h) + log_kappa(d / h) + 4 * ULP * (1 + d / h)
            if (far - goal) / (d - tau) < best:
                best, bound, move = (far - goal) / (d - tau), far, d - tau
        count = self._allowed(max(best, -goal / tau, 2.0))
        return count, float(np.logaddexp(bound + log_geometric(-move * count), log_geometric(-tau * count)))

    @staticmethod
    def _allowed(points: float) -> int:
        if not points < 2**30:
            raise CannotVouch("the circle needs too many points")
        return math.ceil(points)

    def _kernel(self, theta: Array) -> tuple[npt.NDArray[np.complex128], npt.NDArray[np.complex128], Array]:
        """The kernels of delta and of e^eps Q[L > eps], and a bound on the modulus of either."""
        tau, h = self.tau, self.h
        wave = np.exp(-1j * theta)
        one, other = _one_minus(tau, theta), _one_minus(tau + h, theta)
        number = self.near + math.exp(-tau) * self.far * wave
        bound = (self.near + math.exp(-tau) * self.far) / np.abs(one * other)
        tail = math.exp(-self.g) / other
        return number / (one * other), tail, bound

    def answer(self) -> LogDelta:
        tau = self.tau
        exponent, line = self._exponent(tau)
        _, bend = self._slope(tau)
        spread = math.sqrt(self._moments(tau)[1])
        centre = float(self._kernel(np.zeros(1))[2][0])
        if not (centre > 0.0 and math.isfinite(centre)):
            raise CannotVouch("the tilt leaves the doubles")
        rough = exponent + math.log(centre) - 0.5 * math.log(max(2 * math.pi * bend, 1.0))
        goal = (-4.0 if self.middle else rough) - AIM
        count, alias = self._period(exponent, goal, spread)
        laws = [(law, law.tilted(tau)) for law in self.laws]
        used, rest = self._enough(laws, count, goal - exponent)
        if sum(t.p.size for _, t in laws) * used > MAX_WORK:
            raise CannotVouch("the circle needs too many points")
        j = np.arange(used, dtype=np.int64)
        theta = np.asarray(2 * math.pi / count * j, dtype=np.float64)
        log_phi, slip = np.zeros(used, dtype=complex), np.zeros(used)
        for law, t in laws:
            own, error = phi(t, j, count)
            log_phi += law.count * own
            slip += law.count * error
        kernel, tail, bound = self._kernel(theta)
        weight = np.where((j == 0) | (2 * j == count), 1.0, 2.0) / count
        log_phi.real = np.maximum(log_phi.real, -800.0)
        size = np.exp(log_phi.real) * weight
        place = (self.first - sum(law.count * t.centre for law, t in laws)) % count
        wave = np.exp(log_phi - 2j * math.pi / count * ((j * place) % count)) * weight
        value, above = float(np.real(wave @ kernel)), float(np.real(wave @ tail))
        # exponents and kernels are rounded, and so is their sum
        swing = 2 * ULP * (8 + used + np.abs(log_phi)) + 8 * ULP * (1 + math.exp(max(-tau, 0.0) / 2))
        grown = np.where(slip < 0.3, np.expm1(np.minimum(slip, 0.3)), np.exp(np.minimum(slip, 700.0)))
        absolute = float((size * bound) @ (grown + line + self.mass_error + swing)) + rest
        off = sum(law.count * t.off for law, t in laws), sum(law.count * t.most for law, t in laws)
        return self._assembled(value, above, absolute, float(size @ bound), exponent, alias, off)

    def _enough(self, laws: list[tuple[Law, Tilted]], count: int, goal: float) -> tuple[int, float]:
        """How many points j = 0, 1, ... to sum, and a bound on what all the others add."""
        half = count // 2
        j = np.unique(np.minimum(np.ceil(np.geomspace(2.0, max(half, 2), 60)), max(half, 1)).astype(np.int64))
        theta = np.asarray(2 * math.pi / count * j, dtype=np.float64)
        total = np.log(self._kernel(theta)[2])
        for law, t in laws:
            total = total + law.count * log_bound(t, theta)
        enough = np.flatnonzero(total <= goal)
        if not enough.size or j[enough[0]] >= half:
            return half + 1, 0.0
        first = int(enough[0])
        return int(j[first]), 1.01 * math.exp(total[first])

    def _assembled(
        self, value: float, above: float, absolute: float, size: float, exponent: float, alias: float, off: tuple[float, float]
    ) -> LogDelta:
        """The mass at infinity, the rounded losses and the aliases added to the sum."""
        jump = split(self.pair, self.epsilon, NO_CUT)
        log_jump, log_jump_error = jump.log_part(self.epsilon)
        scale = self.log_mass + exponent
        parts = [(log_jump, 1.0), (scale + _log(abs(value)), math.copysign(1.0, value))]
        if self.middle:
            parts.append((self.log_mass, 1.0))
        top = max(p for p, _ in parts)
        total = sum(sign * math.exp(p - top) for p, sign in parts)
        c = self.tau / self.h
        # a loss moved by r moves (1 - e^{eps - L})_+ by at most |r|, and not at all unless L > eps - |r|
        if self.middle:
            moved = self.log_mass + _log(sum(law.count * float(law.weight @ law.off) for law in self.laws))
        else:
            moved = scale + c * self.g + min(c * off[1], 700.0) + _log(off[0])
        error = math.exp(min(scale - top, 700.0)) * absolute + math.exp(min(moved - top, 700.0))
        error += 2 * math.exp(min(log_jump_error - top, 700.0))
        left_out = max(math.log(count) + step.log_left_out for step, count in self.pair.terms)
        error += math.exp(min(left_out - top, 700.0)) * len(self.pair.terms)
        excess = math.exp(min((0.0 if self.middle else self.log_mass) + alias - top, 700.0))
        if self.middle:
            error += excess + ULP * (4 + abs(self.log_mass)) + self.mass_error
            excess = 0.0
        if not total > 0.0 or not error + excess <= VOUCH * total:
            raise CannotVouch("the digits cancel")
        error, excess = error / total, excess / total
        log_value = top + math.log(total)
        rounding = 4 * ULP * (1.0 + abs(log_value))
        low, up = log_value + math.log1p(-error - excess) - rounding, min(log_value + math.log1p(error) + rounding, 0.0)
        condition = max(math.exp(min(scale - top, 700.0)) * size / total, 1.0)
        log_tail = float(np.logaddexp(scale + _log(above), self.epsilon + jump.log_q)) - self.epsilon
        return LogDelta(low, min(max(log_value, low), up), up, True, "circle", condition, log_tail)


def _one_minus(a: float, theta: Array) -> npt.NDArray[np.complex128]:
    """1 - e^{-(a + i theta)} without cancellation."""
    half = np.sin(theta / 2)
    return np.asarray(-math.expm1(-a) + 2 * math.exp(-a) * half * half + 1j * math.exp(-a) * np.sin(theta))


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf
