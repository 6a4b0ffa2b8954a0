"""A characteristic function at many equally spaced frequencies, by Taylor series on a grid and FFTs, with its error.

With s = 0, h, .., S and cells of width Delta = 2 pi/(h M) centred at l_m, e^{isl} = e^{i s l_m} sum over n of (is r)^n/n!,
r = l - l_m, and |s r| <= S Delta/2 <= pi/4: the series is cut where its remainder x^N/N! no longer shows. Every moment is one FFT.
Of the cell at 0 the constant is left out, so that phi - 1 is known relative to itself where most of the mass hardly moves.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount.engines.axis import SUM, ULP

Array = npt.NDArray[np.float64]
MAX_GRID = 2**22


class Spectrum(NamedTuple):
    """E e^{isL} - 1 at s = 0, h, .. for normalised weights, and bounds: an absolute error, and one that grows by `slope` s."""

    moved: npt.NDArray[np.complex128]
    error: float
    slope: float


def spectrum(loss: Array, weight: Array, off: Array, part: Array, h: float, count: int) -> Spectrum:
    """phi - 1 at k h, k = 0 .. count, for losses off by `off` absolutely and weights by `part` relatively.

    The weights are divided by their own sum, which is off by their mean relative error.
    """
    size = 1 << max(math.ceil(math.log2(4 * (count + 1))), 4)
    if size > MAX_GRID:
        raise ValueError(f"{count} frequencies are too many")
    s = h * np.arange(count + 1)
    delta, last = 2.0 * math.pi / (h * size), float(s[-1])
    cell = np.rint(loss / delta)
    rest = loss - cell * delta
    here = cell == 0.0
    rest[here] = loss[here]
    terms = _terms(0.51 * last * delta)
    moved, slip = _far(cell[~here], rest[~here], weight[~here], s, size, terms)
    near, reach = weight[here], last * np.abs(rest[here])
    power = near.copy()
    turn = np.zeros(count + 1, dtype=complex)
    moments = []
    for n in range(1, terms + 1):
        power = power * rest[here]
        moments.append(float(power.sum()) / math.factorial(n))
    for moment in reversed(moments):
        turn = (turn + moment) * (1j * s)
    slip += float(near @ (reach ** (terms + 1))) / math.factorial(terms + 1)
    slip += 2 * (SUM + 6 * ULP) * float(near @ np.expm1(np.minimum(reach, 1.0)))
    common = float(weight @ part) + 2 * SUM
    slip += float(weight @ ((part + common + ULP) * np.minimum(2.0, last * np.abs(loss))))
    slope = float(weight @ (off + 3 * ULP * np.abs(loss)))
    return Spectrum(moved + turn, 1.1 * slip, 1.1 * slope)


def _terms(x: float) -> int:
    """N with x^N/N! below 1e-19."""
    n, left = 1, x
    while left > 1e-19:
        n += 1
        left *= x / n
    return n


def _far(
    cell: Array, rest: Array, weight: Array, s: Array, size: int, terms: int
) -> tuple[npt.NDArray[np.complex128], float]:
    """The sum over weight (e^{isl} - 1), all cells but the one at 0, and its error."""
    total = np.zeros(s.size, dtype=complex)
    if not weight.size:
        return total, 0.0
    index = np.mod(cell, size).astype(np.int64)
    crowd = int(np.bincount(index, minlength=1).max())
    mass = float(weight.sum())
    factor = np.ones(s.size, dtype=complex)
    power = weight
    for n in range(terms):
        wave = np.fft.rfft(np.bincount(index, weights=power, minlength=size))[: s.size]
        total += factor * np.conj(wave)
        factor = factor * (1j * s / (n + 1))
        power = power * rest
    x = 0.51 * float(s[-1]) * 2.0 * math.pi / (float(s[1]) * size)
    # an FFT of 2^m points sends every input to every output along one path of m butterflies
    rounding = ULP * (4.0 * math.log2(size) + 0.5 * crowd + 2.0 * terms) * math.exp(x)
    return total - mass, mass * (rounding + 1e-19 + SUM)
