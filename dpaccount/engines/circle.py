"""Losses on one lattice: the characteristic function is periodic, so the contour is a circle and is never cut off.

With all losses of a composition in offset + h Z, l_0 = epsilon + g the first lattice point above epsilon, and
z = c + is, a geometric series over the points at or above l_0 gives, for c > 0,

    delta(epsilon) = (h/2pi) * integral over |s| <= pi/h of e^{K(z) - z l_0} N(z)/((1 - e^{-hz}) (1 - e^{-h(z+1)})) ds,
    N(z) = (1 - e^{-g}) + e^{-hz} (e^{-g} - e^{-h}),

and for -1 < c < 0 the same integral is delta less the finite mass. On M equidistant points the sum is off by aliasing alone:
sum over k != 0 of e^{ckMh} g(epsilon + kMh), bounded by Chernoff as on a line (`contour`). Few points of the circle matter:
the others are bounded by layers (`_Law.log_bound`). Phases are exact fractions of a turn; what the losses miss the lattice by, or
are rounded by, moves the sum of the losses and hence delta.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP, log1m_exp, log_kappa
from dpaccount.engines.axis import SUM, CannotVouch
from dpaccount.engines.jump import NO_CUT, split
from dpaccount.engines.line import VOUCH, reflected
from dpaccount.pair import DominatingPair, Step, log_error
from dpaccount.results import LogDelta

Array = npt.NDArray[np.float64]
AIM = 30.0  # aliasing and what is left out below e^-AIM of the answer
MAX_WORK = 30_000_000  # points of the circle times atoms
MAX_SPAN = 200_000  # lattice points between the ends of one step
NEGLIGIBLE = 1e-28  # tilted masses below this share of the largest are left out, and counted as error
FINE = float(np.finfo(np.longdouble).eps)


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


class _Tilted(NamedTuple):
    """One step's law under a tilt, masses that matter only: places about `centre`, masses, their relative error (root mean
    square), the share left out (twice), and the errors of the losses: on average and at most."""

    centre: int
    k: npt.NDArray[np.int64]
    p: Array
    part: float
    dropped: float
    off: float
    most: float


class _Law:
    """The finite losses of one distinct step on the lattice: places k about a reference point, normalised masses."""

    def __init__(self, step: Step, count: int, h: float) -> None:
        loss, log_p = step.atoms()
        if not loss.size:
            raise CannotVouch("no loss is finite")
        assert step.facts.lattice is not None
        offset = step.facts.lattice[0] if loss.size > 1 else float(loss[0])
        place = np.rint((loss - offset) / h)
        if not np.abs(place).max() < 1e15:
            raise CannotVouch("the lattice is too fine")
        weight = np.exp(log_p - log_p.max())
        weight /= weight.sum()
        self.count, self.weight = count, weight
        reference = round(float(weight @ place))
        self.k = place.astype(np.int64) - reference
        self.base = Fraction(offset) + reference * Fraction(h)
        off, self.part = step.atom_rounding()
        exact = np.abs(loss.astype(np.longdouble) - (np.longdouble(offset) + np.longdouble(h) * place)).astype(np.float64)
        self.off = off + exact + 4 * FINE * (abs(offset) + np.abs(loss))
        above = step.facts.log_p_only
        self.log_mass = float(log1m_exp(above))
        self.mass_error = 0.0 if above == -np.inf else (
            float(log_error(above, 2 * ULP)) * math.exp(min(above - self.log_mass, 700.0)) + ULP * abs(self.log_mass)
        )

    def log_mgf(self, tau: float) -> tuple[float, float]:
        """log E[e^{tau k}] of the finite losses, and its error."""
        turn = tau * self.k
        relative = self.part + float(self.weight @ self.part) + (8 + 2 * np.abs(turn)) * ULP + _sum_slip(turn.size)
        if np.abs(turn).max() < 30.0:
            growth = np.expm1(turn)
            moved = float((self.weight * growth).sum())
            value = math.log1p(moved)
            return value, float(self.weight @ (relative * np.abs(growth))) / (1.0 + moved) + 2 * ULP * abs(value)
        top = float(turn.max())
        grown = self.weight * np.exp(turn - top)
        total = float(grown.sum())
        value = top + math.log(total)
        return value, float(grown @ relative) / total + 2 * ULP * (abs(top) + abs(value))

    def moments(self, tau: float) -> tuple[float, float]:
        turn = tau * self.k
        p = self.weight * np.exp(turn - turn.max())
        p /= p.sum()
        mean = float(p @ self.k)
        return mean, float(p @ (self.k - mean) ** 2)

    def tilted(self, tau: float) -> _Tilted:
        turn = tau * self.k
        p = self.weight * np.exp(turn - turn.max())
        p /= p.sum()
        keep = p > NEGLIGIBLE * p.max()
        relative = (self.part + (10 + 2 * np.abs(turn)) * ULP + 2 * _sum_slip(p.size))[keep]
        centre = round(float(p @ self.k))
        return _Tilted(
            centre, self.k[keep] - centre, p[keep], math.sqrt(float(p[keep] @ (relative * relative))), 2 * float(p[~keep].sum()),
            float(p @ self.off), float(self.off.max()),
        )


def _sum_slip(size: int) -> float:
    return min(size * ULP / 2, SUM)


class _Circle:
    """The answer at one epsilon >= 0."""

    def __init__(self, pair: DominatingPair, epsilon: float, h: float) -> None:
        self.pair, self.epsilon, self.h = pair, epsilon, h
        self.laws = [_Law(step, count, h) for step, count in pair.terms]
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
        """Points on the circle, and log of what all aliases add up to, both relative to the finite mass."""
        tau, h = self.tau, self.h
        if self.middle:
            points = max(-goal / -tau, (self.epsilon - goal) / (h + tau), 2.0)
            count = self._allowed(points)
            return count, float(np.logaddexp(_series(tau * count), self.epsilon + _series(-(h + tau) * count)))
        best, bound, move = math.inf, math.inf, 0.0
        for width in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0):
            d = tau + width / max(spread, 0.2)
            value, error = self._exponent(d)
            far = value + error + d * (self.g / h) + log_kappa(d / h) + 4 * ULP * (1 + d / h)
            if (far - goal) / (d - tau) < best:
                best, bound, move = (far - goal) / (d - tau), far, d - tau
        count = self._allowed(max(best, -goal / tau, 2.0))
        return count, float(np.logaddexp(bound + _series(-move * count), _series(-tau * count)))

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
            own, error = _phi(t, j, count)
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

    def _enough(self, laws: list[tuple[_Law, _Tilted]], count: int, goal: float) -> tuple[int, float]:
        """How many points j = 0, 1, ... to sum, and a bound on what all the others add."""
        half = count // 2
        j = np.unique(np.minimum(np.ceil(np.geomspace(2.0, max(half, 2), 60)), max(half, 1)).astype(np.int64))
        theta = np.asarray(2 * math.pi / count * j, dtype=np.float64)
        total = np.log(self._kernel(theta)[2])
        for law, t in laws:
            total = total + law.count * _log_bound(t, theta)
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
        excess = math.exp(min(self.log_mass + alias - top, 700.0))
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


BLOCK = 400_000


def _phi(t: _Tilted, j: npt.NDArray[np.int64], count: int) -> tuple[npt.NDArray[np.complex128], Array]:
    """log of sum p e^{2 pi i jk/count} at every j, and its error: as `contour._phi`, with exact phases."""
    log_phi, slip = np.empty(j.size, dtype=complex), np.empty(j.size)
    rows = max(1, BLOCK // t.k.size)
    for start in range(0, j.size, rows):
        part = slice(start, start + rows)
        turn = np.mod(np.multiply.outer(j[part], t.k % count), count)
        half = np.where(2 * turn > count, turn - count, turn) * (math.pi / count)
        sine = np.sin(half)
        real, imag = -2 * ((sine * sine) * t.p).sum(axis=-1), 2 * ((sine * np.cos(half)) * t.p).sum(axis=-1)
        change = 2 * real + real * real + imag * imag
        with np.errstate(divide="ignore"):
            log_size = 0.5 * np.where(change > -0.5, np.log1p(np.maximum(change, -0.9)), np.log((1 + real) ** 2 + imag**2))
        log_size = np.maximum(log_size, -800.0)
        log_phi[part] = log_size + 1j * np.arctan2(imag, 1 + real)
        ratio = (t.part * np.sqrt(-2 * real) + t.dropped) / np.maximum(np.exp(log_size), 1e-300)
        slip[part] = np.where(ratio < 0.5, 1.4 * ratio, np.log1p(ratio) + 0.3) + 4 * ULP * np.abs(log_size)
    return log_phi, slip


def _log_bound(t: _Tilted, theta: Array) -> Array:
    """log of a bound on |sum p e^{i theta' k}| for all theta' in [theta, pi].

    Up to theta = pi/(range of k) the modulus falls, since its square is 1 - 4 sum over pairs of p p' sin^2(theta (k - k')/2).
    Anywhere, a unimodal piece of the masses is a sum of layers, each an interval of m lattice points, whose sum has modulus
    |sin(m theta/2)/sin(theta/2)|.
    """
    span = int(t.k.max() - t.k.min())
    if span > MAX_SPAN or not span:
        return np.zeros(theta.shape)
    monotone = math.pi / span
    total = np.zeros(theta.shape)
    at = np.maximum(theta, monotone)
    dense = np.zeros(span + 1)
    np.add.at(dense, t.k - t.k.min(), t.p * (1.0 - 1e-9))
    for low, high in itertools.pairwise(_pieces(dense)):
        g = np.sort(dense[low:high])[::-1]
        m = np.arange(1, g.size + 1)
        fall = -np.diff(np.append(g, 0.0))
        keep = fall > 1e-12
        total += ((m[keep] - _envelope(m[keep], at)) * fall[keep]).sum(axis=-1)
    bound = np.log1p(-np.minimum(total, 1.0 - 1e-15))
    if theta.min() < monotone:
        near = theta < monotone
        half = np.multiply.outer(theta[near] / 2, t.k.astype(np.float64))
        sine = np.sin(half)
        real, imag = -2 * (sine * sine) @ t.p, 2 * (sine * np.cos(half)) @ t.p
        lost = -(2 * real + real * real + imag * imag) - 8 * t.part * np.sqrt(-2 * real) - 4 * t.dropped
        bound[near] = np.maximum(bound[near], 0.5 * np.log1p(-np.clip(lost * (1 - 1e-9), 0.0, 1.0 - 1e-15)))
    return np.asarray(bound)


def _pieces(g: Array) -> list[int]:
    """Where to cut so that every piece rises and then falls."""
    turn = np.sign(np.diff(g))
    moves = np.flatnonzero(turn)
    rising = turn[moves] > 0
    starts = moves[1:][rising[1:] & ~rising[:-1]] + 1
    return [0, *starts.tolist(), g.size]


def _envelope(m: npt.NDArray[np.int64], theta: Array) -> Array:
    """sup over theta' in [theta, pi] of |sin(m theta'/2)/sin(theta'/2)|, at every theta (rows) and m (columns)."""
    rows = theta[:, None]
    first = np.where(m * rows < 2 * np.pi, np.abs(np.sin(m * rows / 2) / np.sin(rows / 2)), 0.0)
    beyond = 1 / np.sin(np.clip(np.maximum(rows, 2 * np.pi / m), 0.0, np.pi) / 2)
    return np.asarray(np.where(m == 1, 1.0, np.where(m == 2, first, np.maximum(first, np.minimum(beyond, m)))))


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf


def _series(log_ratio: float) -> float:
    """log of r + r^2 + ... for r = e^log_ratio."""
    return log_ratio - math.log(-math.expm1(log_ratio)) if log_ratio < 0.0 else math.inf
