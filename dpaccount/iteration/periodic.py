"""The best shifted interpolation of a run that uses a record every `period` steps, all steps alike, in closed form.

Between uses the chords of the hull (see `shifted`) fall in steepness by c^period from period to period, so full periods are one chord.
What is left to compare are at most three: the way from a restart to the next use, the full periods, and the steps from the last
use on. Only the place of the restart is searched for.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount.iteration.shifted import LEAST

Array = npt.NDArray[np.float64]
ROUNDING = 1e-13  # of sums of powers, relatively
COUNT = 256


class Uses(NamedTuple):
    """When a record is used: `uses` times (perhaps inf), every `period` steps, and `idle` steps remain after the last."""

    period: int
    uses: float
    idle: int


class Chord(NamedTuple):
    """Shift, variance and contraction seen from the end of the chord; arrays of one shape."""

    shift: Any
    variance: Any
    contraction: Any


class Powers(NamedTuple):
    """Powers of c = 1 - gap, 0 <= gap <= 1, and their sums."""

    log_c: float

    @staticmethod
    def of(gap: float) -> Powers:
        return Powers(math.log1p(-gap) if gap < 1.0 else -1e6)

    def power(self, count: Any) -> Any:
        """c^count, for counts >= 0 or inf."""
        if self.log_c == 0.0:
            return np.ones(np.shape(count))
        with np.errstate(under="ignore"):
            return np.exp(np.asarray(count, dtype=float) * self.log_c)

    def total(self, count: Any, stride: int = 1) -> Any:
        """1 + c^stride + ... + c^{stride (count - 1)}."""
        if self.log_c == 0.0:
            return np.asarray(count, dtype=float)
        with np.errstate(under="ignore"):
            return np.expm1(np.asarray(count, dtype=float) * (stride * self.log_c)) / math.expm1(stride * self.log_c)


def shifted_mu(gap: float, shift: float, noise: float, use: Uses, diameter: float) -> float:
    """mu of the last iterate, rounded up, for steps of contraction 1 - gap, 0 <= gap <= 1; `diameter` may be inf."""
    if use.uses == 0 or shift == 0.0:
        return LEAST
    best = min(_from_the_start(Powers.of(gap), shift, noise, use), _restarted(Powers.of(gap), shift, noise, use, diameter))
    return math.sqrt(best) * (1.0 + ROUNDING) + LEAST


def attained_mu(gap: float, shift: float, noise: float, use: Uses, steps: float) -> float:
    """mu of the last iterate, a Gaussian, if each of `steps` steps is x <- (1 - gap) x + noise, and a use adds `shift`; rounded down.

    The steps before the first use add noise as well.
    """
    if use.uses == 0 or shift == 0.0:
        return 0.0
    p = Powers.of(gap)
    if gap == 0.0 and steps == math.inf:
        return math.inf
    moved = p.power(use.idle) * p.total(use.uses, use.period) * shift
    return float(moved / (noise * math.sqrt(p.total(steps, 2)))) * (1.0 - ROUNDING)


def _last(p: Powers, shift: float, noise: float, use: Uses) -> Chord:
    """From just before the last use to the end."""
    return Chord(shift * p.power(use.idle), noise**2 * p.total(use.idle + 1, 2), p.power(use.idle + 1))


def _full(p: Powers, shift: float, noise: float, use: Uses, count: Any) -> Chord:
    """`count` periods, each from just before a use to just before the next."""
    length = np.asarray(count, dtype=float) * use.period
    a = shift * p.power(use.period - 1) * p.total(count, use.period)
    return Chord(a, noise**2 * p.total(length, 2), p.power(length))


def _from_the_start(p: Powers, shift: float, noise: float, use: Uses) -> float:
    if p.log_c == 0.0 and use.uses == math.inf:
        return math.inf
    found = _hull_cost((_full(p, shift, noise, use, use.uses - 1), _last(p, shift, noise, use)))
    return float(found)


def _restarted(p: Powers, shift: float, noise: float, use: Uses, diameter: float) -> float:
    """The least cost of beginning at the diameter right after a use; nothing is gained where the shift never grows to it."""
    grown = shift * float(p.total(use.uses, use.period)) if p.log_c < 0.0 or use.uses < math.inf else math.inf
    if diameter >= grown:
        return math.inf
    found = math.inf
    if use.idle:
        found = diameter**2 * float(p.power(2 * use.idle)) / (noise**2 * float(p.total(use.idle, 2)))
    if use.uses < 2:
        return found

    def costs(count: Array) -> Array:
        way = _full(p, 0.0, noise, use, 0.0)._replace(
            shift=diameter * p.power(use.period - 1), variance=noise**2 * p.total(use.period - 1, 2),
            contraction=p.power(use.period - 1),
        )
        return np.asarray(_hull_cost((way, _full(p, shift, noise, use, count), _last(p, shift, noise, use))))

    most = use.uses - 2
    first = np.unique(np.minimum(np.concatenate([[0.0], 2.0 ** np.arange(60)]), most))
    found = min(found, float(costs(first).min()))
    kept = shift - float(1.0 - p.power(use.period)) * diameter  # what a period must pay for if no later restart is better
    if kept <= 0.0:
        return found
    of_period = noise**2 * float(p.total(use.period, 2))
    most = min(most, 1.0 + math.ceil(max(2.0 * diameter / kept, 4.0 * found * of_period / kept**2)))
    return min(found, _least(costs, most))


def _least(function: Any, most: float) -> float:
    """The least value at the whole numbers 0..most: all of them if they are few, else a grid that closes in on its best point."""
    low, high, found = 0.0, most, math.inf
    grid = np.unique(np.concatenate([[0.0, most], np.floor(np.geomspace(1.0, max(most, 1.0), 4 * COUNT))]))
    grid = grid[grid <= most] if high - low > COUNT else np.arange(low, high + 1.0)
    while True:
        values = function(grid)
        k = int(values.argmin())
        found = min(found, float(values[k]))
        low, high = grid[max(k - 1, 0)], grid[min(k + 1, grid.size - 1)]
        if high - low <= 2.0:
            return found
        grid = np.arange(low, high + 1.0) if high - low <= COUNT else np.unique(np.floor(np.linspace(low, high, COUNT)))


def _joined(first: Chord, second: Chord) -> Chord:
    c = second.contraction
    return Chord(c * first.shift + second.shift, c * c * first.variance + second.variance, c * first.contraction)


def _steeper(first: Chord, second: Chord) -> Any:
    return first.shift * second.variance >= second.contraction * second.shift * first.variance


def _cost(chord: Chord) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(chord.shift == 0.0, 0.0, np.square(chord.shift) / chord.variance)


def _hull_cost(chords: tuple[Chord, ...]) -> Any:
    """The cost of the string under two or three chords in a row."""
    if len(chords) == 2:
        first, second = chords
        return np.where(_steeper(first, second), _cost(_joined(first, second)), _cost(first) + _cost(second))
    first, second, third = chords
    front, back = _joined(first, second), _joined(second, third)
    pulled = np.where(_steeper(second, third), _hull_cost((first, back)), _cost(first) + _hull_cost((second, third)))
    return np.where(_steeper(first, second), _hull_cost((front, third)), pulled)
