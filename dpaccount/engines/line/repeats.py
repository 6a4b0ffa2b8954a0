"""epsilon of one step repeated t times, for many t, on few lines: where they go, and the roots on them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP
from dpaccount._quadrature import TooManyNodes
from dpaccount.engines import auto
from dpaccount.engines.line.alias import AIM
from dpaccount.engines.line.contour import Readings
from dpaccount.engines.line.shared import Line, Waves, draw, periods
from dpaccount.engines.line.tilts import Tilts, spread_of, tabulate
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import Step

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
WORST = 1e4  # condition number beyond which a jump should be split off
WIDEST = 1e-9  # errors beyond which a count is asked by itself
ABOVE = 7.0  # log of how much larger a line's integrand may be than at its saddle point, at most
CANCELS = 60.0  # condition number at which a line with half the spacing is as good
ROUNDED = 4e-11  # the error by rounding of which the same is true
RATIOS = (11.0, 3.3, 1.8, 1.0)  # of the counts that one line serves
DEARER = 4.0  # a line for a group may cost so many times as much as one for the largest count alone
FINE, COARSE = 1.18, 1.4  # ratios of the tilts at which K is tabulated, for lines and for a bound alone
ENTRIES = 200_000  # of counts times nodes at once


class Roots(NamedTuple):
    """Epsilons with brackets for every count; NaN where this engine has no answer."""

    lower: Array
    estimate: Array
    upper: Array
    condition: Array


def epsilons(step: Step, counts: Array, log_delta: float, spread: float | None = None) -> Roots:
    """The epsilon at log_delta of every multiple of a directed step: certified brackets, or NaN. `spread` is a guess (`spread_of`)."""
    found = Roots(*(np.full(counts.shape, np.nan) for _ in range(4)))
    for shared, group, guess in lines(step, counts, log_delta, spread):
        parts = math.ceil(group.size * shared.s.size / ENTRIES)
        for part in np.array_split(np.arange(group.size), parts):
            _fill(shared, counts, guess[part], log_delta, group[part], found)
    return found


def lines(step: Step, counts: Array, log_delta: float, spread: float | None = None) -> Iterator[tuple[Line, Indices, Array]]:
    """Lines, which of the counts each serves, and a guess of their epsilons."""
    if auto.select(int(counts.max()) * step).engine != "line" or not -600.0 < log_delta < -1e-3:
        return
    if not step.log_p_only == step.log_left_out == -np.inf:
        return
    try:
        table = _table(step, float(counts.min()), float(counts.max()), log_delta, FINE, 3.0, spread)
    except (CannotVouch, TooManyNodes):
        return
    guess = guesses(table, counts, log_delta)
    for group, j in _groups(table, counts, guess, log_delta):
        try:
            shared, served = draw(step, table, j, counts[group], guess[group], log_delta, AIM)
        except (CannotVouch, TooManyNodes):
            continue
        yield shared, group[served], guess[group[served]]


def below(
    step: Step, counts: Array, epsilon: Array, log_delta: float, spread: float | None = None
) -> npt.NDArray[np.bool_]:
    """Where Chernoff's bound proves that delta of the multiple is below log_delta at epsilon."""
    asked = np.isfinite(epsilon) & (epsilon > 0.0)
    if not asked.any() or not step.log_p_only == step.log_left_out == -np.inf:
        return np.zeros(counts.shape, dtype=bool)
    try:
        table = _table(step, float(counts[asked].min()), float(counts[asked].max()), log_delta, COARSE, 1.3, spread)
    except (CannotVouch, TooManyNodes):
        return np.zeros(counts.shape, dtype=bool)
    return np.asarray(asked & (table.chernoff(counts, epsilon).min(axis=1) < log_delta))


def _table(
    step: Step, least: float, most: float, log_delta: float, ratio: float, beyond: float, spread: float | None
) -> Tilts:
    """Tilts from below the saddle point of the largest count on, until Chernoff's bound for the least is a power of delta."""
    far = math.sqrt(-2.0 * log_delta) / (spread or spread_of(step))
    return tabulate(step, 0.15 * far / math.sqrt(most), 2.0 * far / math.sqrt(least), ratio, beyond * log_delta / least)


def heights(table: Tilts, counts: Array, epsilon: Array) -> Array:
    """log of the saddle-point approximation of delta at an epsilon, by every tilt: a column each where epsilon has columns."""
    c, (k, _, bend) = table.c, table.cumulants
    curve = np.multiply.outer(counts, bend) + (c**-2 + (c + 1) ** -2)
    return np.asarray(np.multiply.outer(counts, k) - epsilon * c - 0.5 * np.log(2 * math.pi * (c * (c + 1)) ** 2 * curve))


def guesses(table: Tilts, counts: Array, log_delta: float) -> Array:
    """The epsilon of every count where the saddle-point approximation meets log_delta; NaN if off the table."""
    c = table.c
    epsilon = np.multiply.outer(counts, table.cumulants[1]) - (1 / c + 1 / (c + 1))
    value = heights(table, counts, epsilon)
    passed = value <= log_delta
    rows, after = np.arange(counts.size), passed.argmax(axis=1)
    (x0, x1), (y0, y1) = ((part[rows, after - 1], part[rows, after]) for part in (value, epsilon))
    with np.errstate(all="ignore"):
        found = y0 + (log_delta - x0) / (x1 - x0) * (y1 - y0)
    known = passed.any(axis=1) & (after > 0) & (x1 < x0) & (y1 > 0.0)
    return np.where(known, np.maximum(found, 1e-6), np.nan)


def _groups(table: Tilts, counts: Array, guess: Array, log_delta: float) -> Iterator[tuple[Indices, int]]:
    """Counts that one line serves, from the largest on, and its tilt: one with a wide spacing and little cancellation."""
    left = np.flatnonzero(np.isfinite(guess))
    left = left[np.argsort(-counts[left], kind="stable")]
    above = heights(table, counts[left], guess[left, None]) - log_delta
    while left.size:
        size = 0
        if (above[0] <= ABOVE).any():
            alone, _ = _cost(table, counts, guess, log_delta, left[:1], above[:1])
            for ratio in RATIOS:
                size = int((ratio * counts[left] >= counts[left[0]]).sum())
                size = int((np.maximum.accumulate(above[:size]) <= ABOVE).any(axis=1).sum())
                cost, j = _cost(table, counts, guess, log_delta, left[:size], above[:size])
                if cost <= DEARER * alone:
                    break
            yield left[:size], j
        left, above = left[max(size, 1) :], above[max(size, 1) :]


def _cost(table: Tilts, counts: Array, guess: Array, log_delta: float, group: Indices, above: Array) -> tuple[float, int]:
    """What the best line for a group costs, its period and cancellation, and through which tilt it goes."""
    worst = above.max(axis=0)
    which, few = np.flatnonzero(worst <= ABOVE), group[[0, group.size // 2, -1]]
    rounded = float(counts[group[0]]) * (table.above - table.cumulants[0])[which] / ROUNDED
    found = periods(table, which, counts[few], guess[few], log_delta - AIM) * (1.0 + np.exp(worst[which]) * (1.0 / CANCELS + rounded))
    best = int(found.argmin())
    return float(found[best]), int(which[best])


def _fill(shared: Line, counts: Array, guess: Array, target: float, group: Indices, found: Roots) -> None:
    """The root of the integral's own Taylor polynomial for the counts of a group, then ends where the bounds are on their sides."""
    share = counts[group] / shared.times
    with np.errstate(all="ignore"):
        corrected = _corrected(shared, share, guess, target)
        if corrected is None:
            return
        waves, move = _near(shared, share, corrected, target)
        here = waves.epsilon
        now = waves.at(move)
        slope = np.exp(np.minimum(now.log_tail - now.log_delta, 700.0))
        wide = now.error + now.excess + 8 * ULP * (1.0 + abs(target)) + np.abs(now.log_delta - target)
        step = 1.5 * wide / slope + 4 * ULP * here
        here = here + move
        low, high = np.maximum(here - step, 0.0), here + step
        (least, _), (_, most) = zip(*bracket(waves.at(np.stack([low, high]) - waves.epsilon)), strict=True)
        good = (least >= target) & (most <= target) & (low > 0.0)
        good &= (now.error + now.excess <= WIDEST) & (now.condition < WORST)
    for part, value in zip(found, (low, here, high, now.condition), strict=True):
        part[group[good]] = value[good]


def _corrected(shared: Line, share: Array, guess: Array, target: float) -> Array | None:
    """The guess, and what it lacks by interpolation in log count between a few counts; None where the line answers none of those."""
    if share.size < 3 * SAMPLES:
        return guess
    x = np.log(share)
    places = x.min() + (x.max() - x.min()) * 0.5 * (1.0 - np.cos(np.pi * np.arange(SAMPLES) / (SAMPLES - 1)))
    few = np.unique(np.abs(x[:, None] - places).argmin(axis=0))
    waves, move = _near(shared, share[few], guess[few], target)
    if not (waves.gross[0] < WORST * waves.moments[0]).any():
        return None
    lack = waves.epsilon + move - guess[few]
    total = np.zeros(x.size)
    for i, at in enumerate(few):
        others = x[np.delete(few, i)]
        total += lack[i] * np.prod((x[:, None] - others) / (x[at] - others), axis=1)
    return np.where(np.isfinite(total), guess + total, guess)


def _near(shared: Line, share: Array, guess: Array, target: float) -> tuple[Waves, Array]:
    """Readings so near the roots that their polynomials say where those are, and how far away that is."""
    here = guess
    for _ in range(4):
        waves = Waves(shared, share, here)
        move = _moved(waves, target, 0.5 * here + 1e-9)
        if float(np.nanmax(waves.left_out(move), initial=0.0)) < SMALL:
            break
        here = here + move
    return waves, move


SAMPLES = 8  # counts at which a guess is tried first
SMALL = 5e-13  # relative to the answer: what the polynomial may leave out


def _moved(waves: Waves, target: float, most: Array) -> Array:
    """How far from the epsilons of the waves log delta is the target, by their Taylor polynomials; no move exceeds `most`."""
    move, terms = np.zeros(most.size), [m / math.factorial(k) for k, m in enumerate(waves.moments)]
    for _ in range(8):
        back = -move
        value, slope = terms[-1], np.zeros(most.size)
        for term in terms[-2::-1]:  # Horner's rule, and for the derivative's negative
            slope = slope * back + value
            value = value * back + term
        step = value / slope * (np.log(value) + waves.log_scale - target)
        step[~np.isfinite(step)] = 0.0
        move = np.minimum(np.maximum(move + step, -most), most)
        if float(np.abs(step).max()) * waves.line.c < 1e-8:  # whose square is nothing
            break
    return move


def bracket(found: Readings) -> tuple[Array, Array]:
    """log delta from below and above, as `line.answer` has it of a proved contour."""
    rounding = 4 * ULP * (1.0 + np.abs(found.log_delta))
    low = np.where(found.error + found.excess < 1.0, found.log_delta + np.log1p(-found.error - found.excess), -np.inf)
    return low - rounding, found.log_delta + np.log1p(found.error) + rounding


def readings(shared: Line, share: Array, epsilon: Array) -> Readings:
    """What a line says of `share` times its count, at an epsilon each."""
    return Waves(shared, share, epsilon).at(np.zeros(epsilon.size))
