"""The contour at the saddle point: delta(eps) from K on a vertical line, in a handful of nodes.

After the big jump is split off, with F(z) = K(z) - eps z - log z - log(z+1) and c > 0 its saddle
point on the real axis,

    delta_B(eps) = (1/pi) * integral over s >= 0 of Re e^{F(c + is)} ds          (ADCKS23)

by the trapezoid rule with step h. Its aliasing is known exactly (Poisson summation) and bounded by
Chernoff; truncation and the outcome quadrature are estimated, so answers are not certified. If eps
lies well below the mean loss the contour runs through -1 < c < 0 and delta_B is the mass of the pair plus
a negative integral. For eps < 0 the swapped pair answers at -eps.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpaccount._log import log1m_exp
from dpaccount._quadrature import TooManyNodes
from dpaccount.engines.axis import RATE, ULP, Axis, CannotVouch, Hint, saddle
from dpaccount.engines.jump import NO_CUT, Jump, Margin, margin, split
from dpaccount.pair import DominatingPair
from dpaccount.results import LogDelta

Array = npt.NDArray[np.float64]
AIM = 26.0  # aliasing and truncation below e^-AIM of the answer
VOUCH = 1e-7  # a larger estimated relative error is not an answer
MAX_LINE = 6000


class Contour:
    """One vertical line through the saddle point at `epsilon` >= 0; answers there, and nearby by reweighting."""

    def __init__(self, pair: DominatingPair, epsilon: float, margin: Margin, hint: Hint | None = None) -> None:
        self.epsilon, self.hint = epsilon, hint
        self._last: tuple[float, tuple[float, float, float, float]] | None = None
        self.jump: Jump = split(pair, epsilon, margin)
        try:
            self._build(pair)
        except TooManyNodes as error:
            raise CannotVouch(str(error)) from error

    def _build(self, pair: DominatingPair) -> None:
        eps, cut = self.epsilon, self.jump.cut
        axis, c, middle = saddle(pair, eps, cut, self.hint)
        k, _, variance = axis.cumulants(c)
        spread = np.sqrt(variance)
        if not spread > 0.0:
            raise CannotVouch("the privacy loss is constant below the cut")
        self.log_scale = axis.log_mass + k - c * eps
        # size of the integral by the saddle-point approximation
        bend = variance + 1 / c**2 + 1 / (c + 1) ** 2
        rough = self.log_scale - float(np.log(abs(c * (c + 1)))) - 0.5 * float(np.log(2 * np.pi * bend))
        if middle and rough - axis.log_mass < -745.0:
            self._mass_only(axis)
            return
        period, self.log_alias = _period(axis, c, eps, rough, middle, spread)
        axis, reach = _reach(pair, axis, c, spread, cut)
        k, _, _ = axis.cumulants(c)  # from the finer nodes
        self.log_scale = axis.log_mass + k - c * eps
        step = 2 * np.pi / period
        count = int(np.ceil(reach / step)) + 1
        if count > MAX_LINE:
            raise CannotVouch(f"the line needs {count} nodes")
        s = step * np.arange(count + 1)
        log_phi, slip = _phi(axis, c, np.asarray(s, dtype=np.float64))
        size = np.exp(np.real(log_phi)) / np.abs((c + 1j * s) * (c + 1 + 1j * s))
        self.c, self.s, self.step, self.middle = c, s, step, middle
        self.log_phi, self.size, self.log_mass = log_phi, size, axis.log_mass
        self.hint = Hint(c, axis.rate)
        ends = float(size[-3:].max()) * (1 + count / 4)
        line = axis.rounding(c) + ULP * (abs(c * eps) + abs(k) + abs(axis.log_mass))
        self.slip = ends + float(size @ slip) + line * float(size.sum())

    def reaches(self, epsilon: float) -> bool:
        """Whether reweighting serves `epsilon` as well: a small move of the saddle point, and never above a cut."""
        shift = epsilon - self.epsilon
        return abs(shift * self.c) <= 0.25 and epsilon >= 0.0 and (shift <= 0.0 or self.jump.cut == np.inf)

    def _mass_only(self, axis: Axis) -> None:
        self.c, self.s, self.step, self.middle = -0.5, np.zeros(1), 1.0, True
        self.log_phi, self.size = np.full(1, -np.inf + 0j), np.zeros(1)
        self.log_mass, self.slip, self.log_alias = axis.log_mass, 0.0, -np.inf

    def at(self, epsilon: float) -> tuple[float, float, float, float]:
        """(log delta, relative error, condition, log of e^eps Q[L > eps]) at an epsilon near the contour's own."""
        if self._last is None or self._last[0] != epsilon:
            self._last = epsilon, self._at(epsilon)
        return self._last[1]

    def _at(self, epsilon: float) -> tuple[float, float, float, float]:
        shift = epsilon - self.epsilon
        z = self.c + 1j * self.s
        wave = np.exp(self.log_phi - 1j * self.s * epsilon)
        wave[0] /= 2
        scale = self.step / np.pi
        log_scale = self.log_scale - self.c * shift
        value = scale * float(np.real(wave @ (1 / (z * (z + 1)))))
        slope = scale * float(np.real(wave @ (1 / (z + 1))))
        absolute = scale * (self.slip + 2 * ULP * float(self.size.sum()) * (1 + float(np.abs(self.s[-1] * epsilon))))
        log_jump, log_jump_error = self.jump.log_part(epsilon)
        parts = [log_jump, log_scale + _log(abs(value))]
        signs = [1.0, 1.0 if value > 0 else -1.0]
        if self.middle:
            parts.append(self.log_mass)
            signs.append(1.0)
        top = max(parts)
        total = sum(sign * float(np.exp(p - top)) for p, sign in zip(parts, signs, strict=True))
        error = float(np.exp(log_scale - top)) * absolute
        error += float(np.exp(log_jump_error - top)) + float(np.exp(min(self.jump.log_slack - top, 0.0)))
        # the aliasing bound was made at the contour's own epsilon; 2 |shift| c covers the move
        error += float(np.exp(min(self.log_alias + 2 * abs(self.c * shift) - top, 0.0)))
        if self.middle:
            error += ULP * (4 + abs(self.log_mass))
        if not total > 0.0 or not error < total:
            raise CannotVouch("the digits cancel")
        condition = float(np.exp(log_scale - top)) * scale * float(self.size.sum()) / total
        log_tail = top + _log(
            float(np.exp(log_scale - top)) * slope + float(np.exp(min(epsilon + self.jump.log_q - top, 700.0)))
        )
        return top + float(np.log(total)), error / total, max(condition, 1.0), log_tail


def _log(x: float) -> float:
    return float(np.log(x)) if x > 0 else -np.inf


def _phi(axis: Axis, c: float, s: Array) -> tuple[npt.NDArray[np.complex128], Array]:
    """log E[e^{(c+is)L}]/E[e^{cL}] of the composition, and its estimated error at every s.

    phi - 1 = sum p (-2 sin^2(sL/2) + i sin sL) keeps the error of T log phi at T * ulp * |phi - 1|.
    """
    log_phi = np.zeros(s.shape, dtype=complex)
    slip = np.zeros(s.shape)
    for t in axis.terms:
        tilted = t.weight * np.exp(c * t.loss - max(0.0, float((c * t.loss).max())))
        tilted = tilted / tilted.sum()
        tan = np.tan(np.multiply.outer(s / 2, t.loss))  # sin^2 and sin cos from one fast function
        shrink = tan / (1.0 + tan * tan)
        real, imag = -2 * ((shrink * tan) @ tilted), 2 * (shrink @ tilted)
        # numpy's complex log1p loses the relative accuracy of the modulus
        change = np.maximum(2 * real + real * real + imag * imag, -1.0 + 1e-16)
        log_phi.real += t.count * 0.5 * np.log1p(change)
        log_phi.imag += t.count * np.arctan2(imag, 1 + real)
        slip += t.count * (8 * ULP + t.error) * np.sqrt(-2 * real)
    return log_phi, slip


def _log_modulus(axis: Axis, c: float, s: Array) -> Array:
    """log |phi|, with the atoms of the loss taken as if all in phase: they return again and again, densities do not."""
    total = np.zeros(s.shape)
    for t in axis.terms:
        tilted = t.weight * np.exp(c * t.loss - max(0.0, float((c * t.loss).max())))
        tilted = tilted / tilted.sum()
        smooth = np.exp(1j * np.multiply.outer(s, t.loss[t.atoms :])) @ tilted[t.atoms :]
        with np.errstate(divide="ignore"):
            total += t.count * np.log(np.minimum(np.abs(smooth) + float(tilted[: t.atoms].sum()), 1.0))
    return total


def _reach(pair: DominatingPair, axis: Axis, c: float, spread: float, cut: float) -> tuple[Axis, float]:
    """Where on the line the integrand has fallen below e^-AIM of its start, looking past it for a return."""
    start = float(np.sqrt(2 * AIM) / spread)
    base = np.log(abs(c * (c + 1)))
    for widen in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
        points = start * widen * _PROBES
        if axis.rate < points[-1]:
            axis = Axis(pair, min(c, 0.0), max(c, 0.0), float(points[-1]), cut)
        fall = _log_modulus(axis, c, points) - np.log(np.abs((c + 1j * points) * (c + 1 + 1j * points))) + base
        fallen = fall < -AIM
        for i in range(points.size - 2):
            if fallen[i:].all():
                return axis, float(points[i])
    raise CannotVouch("the characteristic function does not decay: too few samples, or atoms")


_PROBES = np.array([0.75, 0.85, 0.95, 1.1, 1.3, 1.55, 1.8, 2.1])


def _period(
    axis: Axis, c: float, epsilon: float, rough: float, middle: bool, spread: float
) -> tuple[float, float]:
    """The period 2 pi/h that keeps aliasing below e^-AIM of the answer, and the log of the aliasing bound.

    Right of the line: e^{K(c') - c' eps - P (c' - c)} kappa(c') for any c' > c, kappa = c^c/(1+c)^{1+c}.
    Left: e^{-cP}. In the middle strip both sides decay, like e^{-|c|P} and e^{eps-(1+c)P}.
    """
    goal = rough - AIM
    if middle:
        period = max(-goal / abs(c), (epsilon - goal) / (1 + c))
        return float(period), float(goal + np.log(2.0))
    left = max(-goal, AIM) / c
    best = np.inf
    for width in (0.5, 1.0, 2.0, 4.0):
        d = c + width / spread
        if width > 0.5 and d > axis.high * 1.3:
            break  # nodes are made for tilts up to axis.high; a little beyond they still serve
        k, _, _ = axis.cumulants(d)
        bound = axis.log_mass + k - d * epsilon + d * np.log(d) - (1 + d) * np.log1p(d)
        best = min(best, (bound - goal) / (d - c))
    if not np.isfinite(best):
        raise CannotVouch("no tilt bounds the aliasing")
    return float(max(left, best, 8.0 * spread)), float(goal + np.log(2.0))


def approximate_epsilon(pair: DominatingPair, log_delta: float) -> tuple[float, Hint | None]:
    """Where the saddle-point approximation of log delta crosses `log_delta`, with the saddle point: a first guess, no more."""
    axis = Axis(pair, 0.0, 0.0, 0.0, np.inf)
    _, mean, variance = axis.cumulants(0.0)
    spread = math.sqrt(max(variance, 1e-300))
    c = max(math.sqrt(-2 * log_delta), 1.0) / spread
    normal = max(mean + spread * math.sqrt(-2 * log_delta), 1e-9)

    def at(c: float) -> tuple[float, float]:
        k, mean, variance = axis.cumulants(c)
        epsilon = mean - 1 / c - 1 / (c + 1)
        bend = variance + 1 / c**2 + 1 / (c + 1) ** 2
        return axis.log_mass + k - c * epsilon - math.log(c * (c + 1)) - 0.5 * math.log(2 * math.pi * bend), epsilon

    try:
        axis = Axis(pair, 0.0, 1.5 * c, 0.0, np.inf)
        low, high = math.log(1e-4 * c), math.log(1.5 * c)
        here, last = math.log(0.8 * c), None
        for _ in range(14):
            value, epsilon = at(math.exp(here))
            gap = value - log_delta
            low, high = (here, high) if gap > 0 else (low, here)
            if abs(gap) < 1e-2:
                break
            slope = -1.0 if last is None or last[0] == here else (gap - last[1]) / (here - last[0])
            last = here, gap
            here = here - gap / slope if slope < 0 else low
            if not low < here < high:
                here = (low + high) / 2
    except (CannotVouch, TooManyNodes):
        return normal, None
    if not 0.01 * normal < epsilon < 100 * normal:
        return normal, None
    return epsilon, Hint(math.exp(here), RATE / spread)


def contour(pair: DominatingPair, epsilon: float, hint: Hint | None = None) -> Contour:
    """The contour at `epsilon` >= 0: without a cut where it is well conditioned, else with the jump split off."""
    failure = CannotVouch("epsilon lies above every loss")
    try:
        plain = Contour(pair, epsilon, NO_CUT, hint)
        if plain.at(epsilon)[2] < 30.0:
            return plain
    except CannotVouch as error:
        failure = error
    found = margin(pair)
    if found.distance == np.inf:
        raise failure
    return Contour(pair, epsilon, found)


def log_delta(pair: DominatingPair, epsilon: float) -> LogDelta:
    """log delta of a directed pair at any real epsilon, with an estimated error; raises `CannotVouch`."""
    if epsilon < 0.0:
        return reflected(log_delta(pair.reversed(), -epsilon), epsilon)
    return answer(contour(pair, epsilon), epsilon)


class Nearby:
    """`log_delta` of one pair for a root finder: the last contour answers again while it reaches, else shows where to look."""

    def __init__(self) -> None:
        self._last: Contour | None = None
        self.hint: Hint | None = None

    def __call__(self, pair: DominatingPair, epsilon: float) -> LogDelta:
        if epsilon < 0.0:
            return log_delta(pair, epsilon)
        if self._last is None or not self._last.reaches(epsilon):
            self._last = None
            self._last = contour(pair, epsilon, self.hint)
            self.hint = self._last.hint
        return answer(self._last, epsilon)


def answer(line: Contour, epsilon: float) -> LogDelta:
    """What a contour says at `epsilon`, as a bracket of three estimated errors each side; raises `CannotVouch`."""
    value, error, condition, log_tail = line.at(epsilon)
    if not error <= VOUCH:
        raise CannotVouch(f"the estimated relative error is {error:.1e}")
    error *= 3.0
    low, up = value + float(np.log1p(-error)), min(value + float(np.log1p(error)), 0.0)
    return LogDelta(low, min(value, 0.0), up, False, "line", condition, log_tail - epsilon)


def reflected(inner: LogDelta, epsilon: float) -> LogDelta:
    """delta(eps) = 1 - e^eps + e^eps delta'(-eps) for eps < 0, from the swapped pair's answer at -eps.

    Its Q[L > eps] is 1 - P'[L' >= -eps], with P' tail = delta' + e^{-eps} Q' tail.
    """
    edge = float(np.log(-np.expm1(epsilon)))
    low, mid, up = (min(float(np.logaddexp(edge, epsilon + value)), 0.0) for value in inner[:3])
    slack = 4 * ULP * (1 + abs(mid))
    low, up = low - slack, min(up + slack, 0.0)
    above = float(np.logaddexp(inner.estimate, inner.log_tail - epsilon))
    return LogDelta(low, mid, up, inner.certified, inner.method, inner.condition, float(log1m_exp(min(above, 0.0))))
