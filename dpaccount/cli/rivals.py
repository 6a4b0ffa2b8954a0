"""What other kinds of accountants would print for the same pair, for `explain`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount.conversions import renyi_epsilon
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.pair import DominatingPair, Step

Array = npt.NDArray[np.float64]
USUAL_ORDERS = tuple(1 + x / 10 for x in range(1, 100)) + tuple(float(x) for x in range(12, 64))
GRID = 1e-4  # a common default step of the loss grid
TAIL = 1e-20  # what such accountants cut off a single step
CUT, LOG_TAIL = 1e-15, math.log(1e15)  # and off the composition, counted as infinite
MAX_POINTS = 2**23


class Figure(NamedTuple):
    """What would be printed, and why it differs."""

    name: str
    value: float | None
    why: str


def rdp_figures(profile: PrivacyProfile, delta: float) -> list[Figure]:
    """The two usual conversions over real orders, and over the grid 1.1, 1.2, ..., 10.9, 12, 13, ..., 63."""
    curve = profile.renyi()

    def rdp(order: Any) -> Any:
        return np.asarray(curve(order).estimate)

    found = []
    orders = np.array(USUAL_ORDERS)
    values = rdp(orders)
    for conversion in ("improved", "mironov"):
        best = renyi_epsilon(rdp, delta, conversion)
        order = f"best order {best.order:.4g}" if best.order < 1e6 else "the limit of large orders"
        found.append(Figure(f"RDP, {conversion}, real orders", best.value, order))
        with np.errstate(all="ignore"):
            at = values - math.log(delta) / (orders - 1) if conversion == "mironov" else (
                values + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
            )
        i = int(np.argmin(at))
        end = ", an end of the grid" if i in (0, orders.size - 1) else ""
        found.append(Figure(f"RDP, {conversion}, usual orders", max(float(at[i]), 0.0), f"best order {orders[i]:.4g}{end}"))
    return found


def grid_figure(sides: Sequence[DominatingPair], delta: float, step: float = GRID) -> Figure:
    """A plain grid accountant: losses moved to a grid (connecting the dots), composed by an untilted FFT in doubles."""
    name = f"grid of step {step:g}, plain FFT"
    values = [_grid_epsilon(side, delta, step) for side in sides]
    if any(value is None for value in values):
        return Figure(name, None, f"the losses span more than {MAX_POINTS} grid points")
    worst = max(value for value in values if value is not None)
    if math.isinf(worst):
        return Figure(name, worst, "its rounding noise and what it cuts off exceed this delta")
    return Figure(name, worst, "losses are moved to the grid pessimistically; rounding noise is absolute, not relative")


def _grid_epsilon(side: DominatingPair, delta: float, step: float) -> float | None:
    """epsilon at delta by one untilted FFT in doubles; None if too many points are needed."""
    if side.log_p_only == 0.0:
        return math.inf  # no loss is finite
    low, high = _window(side)
    size = 2 ** math.ceil(math.log2(max((high - low) / step + 2, 2)))
    if size > MAX_POINTS:
        return None
    offset, spectrum, infinite = 0, np.ones(size // 2 + 1, dtype=complex), CUT
    for part, count in side.terms:
        placed = _place(part, step)
        if placed is None:
            return None
        first, mass, beyond = placed
        infinite += count * beyond
        spectrum *= np.fft.rfft(_wrap(mass, size)) ** count
        offset += first * count
    start = math.floor(low / step)
    mass = np.roll(np.fft.irfft(spectrum, size), -((start - offset) % size))
    return _read_off(step * (start + np.arange(size)), mass, delta - infinite)


def _read_off(losses: Array, mass: Array, delta: float) -> float:
    """The least epsilon >= 0 with sum of (1 - e^{epsilon - loss})_+ mass <= delta, as summed in doubles."""
    if delta < 0.0:
        return math.inf
    above, weighted = (np.cumsum(x[::-1])[::-1] for x in (mass, mass * np.exp(-losses)))
    curve = np.append(above[1:], 0.0) - np.exp(losses) * np.append(weighted[1:], 0.0)
    met = np.flatnonzero((curve <= delta) & (losses >= 0.0))
    if not met.size:
        return math.inf
    i = int(met[0])  # between two points the curve is above - e^epsilon weighted
    inside = above[i] > delta and weighted[i] > 0.0
    return max(float(np.log((above[i] - delta) / weighted[i])), 0.0) if inside else max(float(losses[i]), 0.0)


def _window(side: DominatingPair) -> tuple[float, float]:
    """Where all but 1e-15 of the composed loss lies, by Chernoff's bound on a few tilts."""
    tilts = np.geomspace(1e-3, 200.0, 40)
    with np.errstate(all="ignore"):
        up = np.array([(float(side.log_mgf(t)) + LOG_TAIL) / t for t in tilts])
        down = np.array([-(float(side.log_mgf(-t)) + LOG_TAIL) / t for t in tilts])
    low, high = side.loss_range
    top, bottom = np.nanmin(np.where(np.isfinite(up), up, np.nan)), np.nanmax(np.where(np.isfinite(down), down, np.nan))
    return max(float(bottom), low) - GRID, min(float(top), high) + GRID


def _place(part: Step, step: float) -> tuple[int, Array, float] | None:
    """First point, P-masses on the grid, and the mass beyond; a cell's mass is shared by its ends so that P and Q keep theirs."""
    low, high = _reach(part)
    first, last = math.floor(low / step), math.ceil(high / step)
    if last - first > MAX_POINTS:
        return None
    losses = step * np.arange(first, last + 1)
    tails = part.tails(losses)
    p, q = _cells(tails.p_above, tails.p_below), _cells(tails.q_above, tails.q_below)
    upper = np.clip((p - q * np.exp(losses[:-1])) / -math.expm1(-step), 0.0, p)
    mass = np.zeros(losses.size)
    mass[1:] += upper
    mass[:-1] += p - upper
    mass[0] += math.exp(float(np.asarray(tails.p_below).flat[0]))
    return first, mass, math.exp(float(np.asarray(tails.p_above).flat[-1]))


def _reach(part: Step) -> tuple[float, float]:
    """Where all but TAIL of one step's loss lies, by bisection on its tails."""
    facts, ends = part.facts, []
    for sign, limit in ((-1.0, facts.min_loss), (1.0, facts.max_loss)):
        if np.isfinite(limit):
            ends.append(limit)
            continue
        inside, outside = 0.0, sign
        while _beyond(part, outside, sign) > TAIL and abs(outside) < 1e6:
            inside, outside = outside, 2 * outside
        for _ in range(30):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if _beyond(part, middle, sign) > TAIL else (inside, middle)
        ends.append(outside)
    return ends[0], ends[1]


def _beyond(part: Step, loss: float, sign: float) -> float:
    tails = part.tails(np.array(loss))
    return float(np.exp(tails.p_above if sign > 0 else tails.p_below))


def _cells(log_above: Any, log_below: Any) -> Array:
    """Probabilities of the cells between grid points, from whichever tail is small there."""
    above, below = np.exp(np.asarray(log_above)), np.exp(np.asarray(log_below))
    return np.asarray(np.maximum(np.where(below[1:] < 0.5, np.diff(below), -np.diff(above)), 0.0))


def _wrap(mass: Array, size: int) -> Array:
    """The masses on a circle of `size` points."""
    padded = np.zeros(math.ceil(mass.size / size) * size)
    padded[: mass.size] = mass
    return np.asarray(padded.reshape(-1, size).sum(axis=0))
