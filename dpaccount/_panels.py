"""Gauss-Legendre panels graded to the integrand: short where the loss turns fast, long where it is flat.

A panel of half-width w is off by at most 64/15 w M rho^{-2n}/(1 - rho^{-2}) under the rule of n points, M the maximum on the
ellipse of Bernstein's parameter rho, which reaches w (rho + 1/rho)/2 along the axis and w (rho - 1/rho)/2 off it (T13,
Theorem 19.3); `Strip.swing` bounds M. A sampled step's loss hardly moves over most of its outcomes, so high rates cost little there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from dpaccount._log import log_total
from dpaccount._strip import ULP, Rounding, Strip

Array = npt.NDArray[np.float64]
ORDER = 40
_RHO = np.array([1.5, 2.0, 2.7, 3.7, 5.0, 7.0])[:, None]
_GAIN = (np.log(64 / 15 / (1 - _RHO**-2)) - 2 * ORDER * np.log(_RHO), (_RHO - 1 / _RHO) / 2, (_RHO + 1 / _RHO) / 2)


def graded(
    evaluate: Callable[[Array], tuple[Array, Array]],
    strip: Strip,
    scale: float,
    window: tuple[float, float],
    cuts: tuple[float, float],
    tilts: tuple[float, float],
    rate: float,
    most: int,
    goal: float,
) -> tuple[Array, Array, float, Rounding] | None:
    """(loss, log weight, proved relative error, rounding on demand) of E_P[e^{zL}] between two cuts; None beyond `most` nodes.

    Panels whose bound exceeds its share of e^-goal are halved. The error is relative at both ends of the tilts.
    """
    low, high = _trimmed(evaluate, strip, (max(window[0], cuts[0]), min(window[1], cuts[1])), tilts, goal)
    for _ in range(16):
        found = _halved(evaluate, strip, scale, (low, high), tilts, rate, most, goal)
        if found is None:
            return None
        loss, log_w, x, half, bounds = found
        total = [log_total(log_w + tilt * loss) for tilt in tilts]
        left = strip.below(low, tilts[0]) - total[0] if cuts[0] < low else -math.inf
        right = strip.above(high, tilts[1]) - total[1] if high < cuts[1] else -math.inf
        if max(left, right) <= -goal:
            error = max(math.exp(bound - size) for bound, size in zip(bounds, total, strict=True))
            return loss, log_w, error + math.exp(left) + math.exp(right), partial(_panel_rounding, strip, x, loss, log_w, half)
        more = 0.3 * (high - low)  # up to a cut, and never beyond it
        low, high = max(low - more * (left > -goal), cuts[0]), min(high + more * (right > -goal), cuts[1])
    return None


def _trimmed(
    evaluate: Callable[[Array], tuple[Array, Array]], strip: Strip, window: tuple[float, float], tilts: tuple[float, float], goal: float
) -> tuple[float, float]:
    """The window without ends that hold nothing: under a steep tilt panels there would follow a fast wave of no weight."""
    low, high = window
    x = low + (high - low) * _SEEN
    loss, log_p = evaluate(x)
    room = [float((log_p + tilt * loss).max()) + math.log((high - low) / x.size) - goal - 2.0 for tilt in tilts]
    first, last = 0, x.size - 1
    while first < last and strip.below(float(x[first]), tilts[0]) < room[0]:
        first += 1
    while last > first and strip.above(float(x[last]), tilts[1]) < room[1]:
        last -= 1
    return float(x[first - 1]) if first else low, float(x[last + 1]) if last < x.size - 1 else high


_SEEN = (np.arange(48) + 0.5) / 48


def _halved(
    evaluate: Callable[[Array], tuple[Array, Array]],
    strip: Strip,
    scale: float,
    ends: tuple[float, float],
    tilts: tuple[float, float],
    rate: float,
    most: int,
    goal: float,
) -> tuple[Array, Array, Array, Array, list[float]] | None:
    """Nodes on panels that are fine enough, with their outcomes, half-widths and log of the sum of the bounds at every tilt."""
    count = max(math.ceil((ends[1] - ends[0]) / (2.0 * scale)), 2)
    if count * ORDER > most:
        return None
    edges = np.linspace(*ends, count + 1)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    seen = np.full(len(tilts), -np.inf)  # log of what the panels done hold, by their middles: it only sets the shares
    done: list[tuple[Array, Array, Array]] = []
    for _ in range(60):
        loss, log_p = evaluate(middle)
        held = np.array([log_p + tilt * loss + np.log(2 * half) for tilt in tilts])
        share = np.array([np.logaddexp(old, log_total(row)) for old, row in zip(seen, held, strict=True)]) - goal - 6.0
        # one ellipse for both tilts, so that the bound's logarithm is convex between them
        each = np.array([_bound(strip, middle, half, log_p, loss, tilt, rate) for tilt in tilts])
        best = np.argmin((each - share[:, None, None]).max(axis=0), axis=0)
        size = each[:, best, np.arange(best.size)]
        fine = np.all(size <= share[:, None], axis=0)
        if fine.any():
            seen = np.array([np.logaddexp(old, log_total(row[fine])) for old, row in zip(seen, held, strict=True)])
        done.append((middle[fine], half[fine], size[:, fine]))
        middle, half = middle[~fine], half[~fine] / 2
        if not middle.size:
            break
        middle, half = np.concatenate([middle - half, middle + half]), np.tile(half, 2)
        if (middle.size + sum(part[0].size for part in done)) * ORDER > most:
            return None
    else:
        return None
    middle, half = (np.concatenate([part[k] for part in done]) for k in (0, 1))
    size = np.concatenate([part[2] for part in done], axis=1)
    nodes, weights = legendre()
    x = np.asarray((middle[:, None] + half[:, None] * nodes).ravel(), dtype=np.float64)
    loss, log_p = evaluate(x)
    log_w = log_p + np.log(half[:, None] * weights).ravel()
    return loss, log_w, x, np.repeat(half, ORDER), [log_total(row) for row in size]


def _bound(strip: Strip, x: Array, half: Array, log_p: Array, loss: Array, tilt: float, rate: float) -> Array:
    """log of every panel's error bound at one tilt, a row an ellipse."""
    gain, off, along = _GAIN[0], half * _GAIN[1], half * _GAIN[2]
    inside = off < 0.98 * strip.reach
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        grown = strip.swing(x, along, np.where(inside, off, 0.0), tilt, rate)
    bound = gain + np.log(half) + np.where(inside & (grown == grown), grown, np.inf)
    return np.asarray(bound + (log_p + tilt * loss))


def _panel_rounding(strip: Strip, x: Array, loss: Array, log_w: Array, half: Array) -> tuple[Array, Array]:
    """As `Strip.rounding`, for outcomes rounded like the larger of their panel's middle and itself, and rounded nodes whose logarithms
    are added."""
    far = x + np.copysign(2 * half, x)
    (a, b), (c, d) = strip.rounding(x, loss), strip.rounding(far, loss)
    return np.maximum(a, c), np.maximum(b, d) + ULP * (4.0 + np.abs(log_w))


@cache
def legendre() -> tuple[Array, Array]:
    """Nodes and weights of Gauss-Legendre's rule to the last bit: numpy's weights are off by 7e-13 at the ends.

    By Newton's method in whole multiples of 2^-BITS.
    """
    one, rows = 1 << BITS, []
    for guess in np.polynomial.legendre.leggauss(ORDER)[0].tolist():
        x = int(math.ldexp(guess, 60)) << (BITS - 60)
        for _ in range(3):
            value, before = _legendre_at(x)
            x -= (value * (one - (x * x >> BITS)) // ORDER << BITS) // ((before << BITS) - x * value)
        _, before = _legendre_at(x)
        weight = 2 * (one - (x * x >> BITS)) * one * one // (ORDER * before) ** 2
        rows.append((x / one, weight / one))
    found = np.array(rows)
    return found[:, 0], found[:, 1]


BITS = 200


def _legendre_at(x: int) -> tuple[int, int]:
    """P_n and P_{n-1} of n = ORDER at a whole multiple of 2^-BITS, in the same unit."""
    before, value = 1 << BITS, x
    for n in range(1, ORDER):
        before, value = value, ((2 * n + 1) * (x * value >> BITS) - n * before) // (n + 1)
    return value, before
