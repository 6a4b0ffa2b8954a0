"""One step repeated t times, for many t: K_t = t K_1, so that a contour of one count serves its neighbours.

The line of a count T through c carries log phi_1 = log phi_T/T, and every error that it bounds follows for another count t:
rounding and nodes are proportional to t, the bound on truncation is a power t/T, and aliasing is bounded by t K_1(d) anew.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP, log_geometric, log_kappa
from dpaccount._quadrature import TooManyNodes
from dpaccount.engines import auto
from dpaccount.engines.jump import NO_CUT
from dpaccount.engines.line import answer as line
from dpaccount.engines.line.alias import AIM
from dpaccount.engines.line.axis import Axis
from dpaccount.engines.line.axis import below as below_cut
from dpaccount.engines.line.contour import Contour, Readings
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import Step

Array = npt.NDArray[np.float64]
WORST = 30.0  # condition number beyond which a jump should be split off
MOVE = 1.3  # spreads between the saddle points that one line serves, on either side
RATIO = 1.8  # of counts that one line serves, on either side
GRID = 40  # tilts at which K is tabulated


class Roots(NamedTuple):
    """Epsilons with brackets for every count; NaN where this engine has no answer."""

    lower: Array
    estimate: Array
    upper: Array
    condition: Array


def epsilons(step: Step, counts: Array, log_delta: float) -> Roots:
    """The epsilon at log_delta of every multiple of a directed step: certified brackets, or NaN."""
    found = Roots(*(np.full(counts.shape, np.nan) for _ in range(4)))
    if auto.select(2 * step).engine != "line" or not -600.0 < log_delta < -1e-3:
        return found
    try:
        tilt, guess, spread = _saddles(step, counts, log_delta)
    except (CannotVouch, TooManyNodes):
        return found
    left, hint = [int(i) for i in np.argsort(-counts) if np.isfinite(tilt[i])], None
    while left:
        first = left[0]  # the largest count has the smallest tilt
        middle = _last(left, lambda i: (tilt[i] - tilt[first]) * spread[first] <= MOVE and counts[first] <= RATIO * counts[i])  # noqa: B023
        last = _last(left, lambda i: (tilt[i] - tilt[middle]) * spread[i] <= MOVE and counts[middle] <= RATIO * counts[i])  # noqa: B023
        group, left = left[: left.index(last) + 1], left[left.index(last) + 1 :]
        least = float(counts[group].min())
        try:
            aim = AIM * float(counts[middle]) / least + 3.0
            contour = Contour.beside(int(counts[middle]) * step, float(guess[middle]), NO_CUT, hint, aim)
        except CannotVouch:
            continue
        hint = contour.hint
        if contour.proved and not contour.middle and contour.jump.log_p == contour.jump.log_slack == -math.inf:
            _fill(contour, float(counts[middle]), counts, guess, log_delta, np.array(group), found)
    return found


def _last(items: list[int], test: Callable[[int], bool]) -> int:
    """The last of the leading items that pass; the first always does."""
    return [items[0], *itertools.takewhile(test, items[1:])][-1]


def below(step: Step, counts: Array, epsilon: Array, log_delta: float) -> npt.NDArray[np.bool_]:
    """Where Chernoff's bound proves that delta of the multiple is below log_delta at epsilon."""
    sure = np.zeros(counts.shape, dtype=bool)
    asked = np.isfinite(epsilon) & (epsilon > 0.0)
    if not asked.any() or step.log_p_only > -np.inf:
        return sure
    rows: list[tuple[float, float, float]] = []
    try:
        axis = Axis(below_cut(step, np.inf), 0.0, 0.0, 0.0)
        spread = math.sqrt(max(axis.cumulants(0.0)[2], 1e-300) * float(counts[asked].min()))
        for part in np.array_split(np.geomspace(0.02, 2.0, 27) * math.sqrt(-2.0 * log_delta) / spread, 3):
            axis = Axis(axis.parts, 0.0, float(part[-1]), 0.0)
            if not axis.proved:
                break
            rows += [(float(c), axis.log_mgf(float(c)) + axis.rounding(float(c)), log_kappa(float(c))) for c in part]
    except (CannotVouch, TooManyNodes):  # beyond where tilts are of use
        pass
    if not rows:
        return sure
    tilts, k, kappa = (np.array(column) for column in zip(*rows, strict=True))
    bound = np.multiply.outer(counts, k) - np.multiply.outer(epsilon, tilts) + kappa
    slack = 1e-9 * (1.0 + np.abs(bound)) + 4 * ULP * tilts * (1.0 + epsilon[:, None])
    return np.asarray(asked & (np.min(bound + slack, axis=1) < log_delta))


def _saddles(step: Step, counts: Array, log_delta: float) -> tuple[Array, Array, Array]:
    """(saddle point, epsilon, spread) of every count where the saddle-point approximation meets log_delta; NaN if off the table."""
    axis = Axis(below_cut(step, np.inf), 0.0, 0.0, 0.0)
    _, _, variance = axis.cumulants(0.0)
    if not variance > 0.0:
        raise CannotVouch("the loss is constant")
    far = math.sqrt(-2 * log_delta) / math.sqrt(variance)
    tilts = np.geomspace(0.2 * far / math.sqrt(float(counts.max())), 1.6 * far / math.sqrt(float(counts.min())), GRID)
    rows: list[tuple[float, float, float]] = []
    try:
        for part in np.array_split(tilts, 4):
            axis = Axis(axis.parts, 0.0, float(part[-1]), 0.0)
            rows += [axis.cumulants(float(c)) for c in part]
    except (CannotVouch, TooManyNodes):  # beyond the saddle points of all counts but the least, which others answer
        pass
    tilts = tilts[: len(rows)]
    if len(rows) < 2:
        raise CannotVouch("no tilts")
    k, mean, bend = (np.array(part) for part in zip(*rows, strict=True))
    epsilon = np.multiply.outer(counts, mean) - 1 / tilts - 1 / (tilts + 1)
    curve = np.multiply.outer(counts, bend) + tilts**-2 + (tilts + 1) ** -2
    value = np.multiply.outer(counts, k) - tilts * epsilon - np.log(tilts * (tilts + 1)) - 0.5 * np.log(2 * math.pi * curve)
    found = np.full((3, counts.size), np.nan)
    for i in range(counts.size):
        over = np.flatnonzero(value[i] <= log_delta)
        j = int(over[0]) if over.size else 0
        if j == 0 or not epsilon[i, j] > 0.0:
            continue
        part = (value[i, j - 1] - log_delta) / (value[i, j - 1] - value[i, j])
        logs = np.log(tilts[j - 1 : j + 1])
        found[0, i] = math.exp(logs[0] + part * (logs[1] - logs[0]))
        found[1, i] = max(epsilon[i, j - 1] + part * (epsilon[i, j] - epsilon[i, j - 1]), 1e-6)
        found[2, i] = math.sqrt(counts[i] * (bend[j - 1] + part * (bend[j] - bend[j - 1])))
    return found[0], found[1], found[2]


def _fill(
    contour: Contour, count: float, counts: Array, guess: Array, target: float, group: npt.NDArray[np.int64], found: Roots
) -> None:
    """The root of the integral's own Taylor polynomial for the counts of a group, then ends where the bounds are on their sides."""
    share, here = counts[group] / count, guess[group].copy()
    with np.errstate(all="ignore"):
        for _ in range(4):
            move = _moved(Waves(contour, share, here), target, 0.5 * here + 1e-9)
            here = here + move
            if np.nanmax(np.abs(move) * contour.c, initial=0.0) < SMALL:
                break
        waves = Waves(contour, share, here)
        now = waves.at(np.zeros(here.size))
        slope = np.exp(np.minimum(now.log_tail - now.log_delta, 700.0))
        wide = now.error + now.excess + 8 * ULP * (1.0 + abs(target)) + np.abs(now.log_delta - target)
        step = 1.5 * wide / slope + 4 * ULP * here
        low, high = np.maximum(here - step, 0.0), here + step
        ends = [bracket(waves.at(end - here)) for end in (low, high)]
        good = (ends[0][0] >= target) & (ends[1][1] <= target) & (low > 0.0)
        good &= (now.error + now.excess <= line.VOUCH) & (now.condition < WORST)
    for part, value in zip(found, (low, here, high, now.condition), strict=True):
        part[group[good]] = value[good]


ORDER = 5
SMALL = 0.03  # a move times the tilt at which what the polynomial leaves out is below 1e-12


def _moved(waves: Waves, target: float, most: Array) -> Array:
    """How far from the epsilons of the waves log delta is the target, by their Taylor polynomials; no move exceeds `most`."""
    move = np.zeros(most.size)
    for _ in range(5):
        value, slope = np.zeros(most.size), np.zeros(most.size)
        for k in range(ORDER, -1, -1):  # Horner's rule for sum of m_k (-move)^k/k!, and for its derivative's negative
            slope = (value - move * slope) / (k + 1.0)
            value = waves.moments[k] - move * value / (k + 1.0)
        step = value / slope * (np.log(value) + waves.log_scale - target)
        move = np.clip(np.where(np.isfinite(step), move + step, move), -most, most)
    return move


def bracket(found: Readings) -> tuple[Array, Array]:
    """log delta from below and above, as `line.answer` has it of a proved contour."""
    rounding = 4 * ULP * (1.0 + np.abs(found.log_delta))
    low = np.where(found.error + found.excess < 1.0, found.log_delta + np.log1p(-found.error - found.excess), -np.inf)
    return low - rounding, found.log_delta + np.log1p(found.error) + rounding


class Waves:
    """What a proved contour without a cut and with c > 0 says of `share` times its count, at an epsilon each and right beside."""

    def __init__(self, contour: Contour, share: Array, epsilon: Array) -> None:
        self.contour, self.share, self.epsilon = contour, share, epsilon
        assert contour.proved
        assert contour.jump.log_p == contour.jump.log_slack == -np.inf  # no cut, no mass at an infinite loss
        c, s = contour.c, contour.s
        z = c + 1j * s
        lengths = np.abs(z * (z + 1))
        self.size = np.exp(np.multiply.outer(share, np.real(contour.log_phi))) / lengths
        turn = np.multiply.outer(share, np.imag(contour.log_phi)) - np.multiply.outer(epsilon, s)
        powers = [lengths / (z * (z + 1)) * z**k for k in range(ORDER + 1)]
        kernel = np.stack([*powers, lengths / (z + 1)], axis=1) * (contour.step / math.pi)
        kernel[0] /= 2
        found = (self.size * np.cos(turn)) @ np.real(kernel) - (self.size * np.sin(turn)) @ np.imag(kernel)
        self.moments, self.slope = found.T[:-1], found[:, -1]
        self.log_scale = share * contour.k - c * epsilon
        self._second = self.size @ np.abs(z) ** 2 * (contour.step / math.pi)

    def at(self, move: Array) -> Readings:
        """The readings at epsilon + move (see `Contour.readings`): of first order, with the second as an error."""
        contour, share, epsilon = self.contour, self.share, self.epsilon + move
        c, s, alias = contour.c, contour.s, contour.alias
        assert alias is not None
        scale = contour.step / math.pi
        value = self.moments[0] - move * self.moments[1]
        slope = np.maximum(self.slope, 0.0)
        whole, far = self._whole, float(s[-1])
        tail = np.exp(share * math.log(contour.tail * math.pi * far)) / (math.pi * far)
        straight = share * contour.k_error + 2 * ULP * (np.abs(c * epsilon) + np.abs(share * contour.k)) + s.size * ULP
        slips = math.pi / contour.step * tail + self._grown + straight * whole
        error = scale * (slips + 2 * ULP * whole * (1 + np.abs(far * epsilon)))
        error += (move * move / 2 + (8 + s.size) * ULP * np.abs(move)) * (self._second + whole * scale)
        error *= np.exp(np.abs(move) * c)
        d = alias.right.tilt
        right = share * alias.k_far + log_kappa(d) + 4 * ULP * (1 + d) - d * epsilon + log_geometric(-alias.period * (d - c))
        excess = np.exp(np.logaddexp(right, log_geometric(-c * alias.period)) - self.log_scale)
        bad = ~((value > 0.0) & (error + excess < value))
        return Readings(
            self.log_scale + np.log(value), np.where(bad, np.inf, error / value), excess / value, scale * whole / value,
            self.log_scale + np.log(slope),
        )

    @cached_property
    def _whole(self) -> Array:
        return np.asarray(self.size.sum(axis=1))

    @cached_property
    def _grown(self) -> Array:
        """What the phases' errors and the rounding of exponents cost; e^x - 1 <= 1.17 x up to x = 0.3."""
        exponents = 4 * ULP * self.share * (self.size @ np.abs(self.contour.log_phi))
        if float(self.share.max()) * float(self.contour.phase_error.max()) < 0.3:
            return np.asarray(exponents + 1.17 * self.share * (self.size @ self.contour.phase_error))
        slip = np.multiply.outer(self.share, self.contour.phase_error)
        return np.asarray(exponents + (self.size * np.expm1(np.minimum(slip, 700.0))).sum(axis=1))


def readings(contour: Contour, share: Array, epsilon: Array) -> Readings:
    """What a contour says of `share` times its count, at an epsilon each."""
    return Waves(contour, share, epsilon).at(np.zeros(epsilon.size))
