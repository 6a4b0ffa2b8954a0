"""A characteristic function at many equally spaced frequencies, by Taylor series on a grid and FFTs, with its error.

With s = 0, h, .., S and cells of half-width r = pi/(h M) centred at l_m, e^{isl} = e^{i s l_m} sum over n of (i s r)^n v^n/n!,
v = (l - l_m)/r in [-1, 1] and |s r| <= pi/2. The moments of v on the cells are real, so that one complex FFT serves two of them.
Of the cell at 0 the constant is left out, so that phi - 1 is known relative to itself where most of the mass hardly moves.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.fft import ifft

from dpaccount._log import SUM, ULP
from dpaccount.engines.smoothed.gridding import gridded
from dpaccount.engines.vouch import CannotVouch

Array = npt.NDArray[np.float64]
Waves = npt.NDArray[np.complex128]
MOST_CELLS = 2.0**45  # from 0 to a loss, so that its place inside its cell is known
SPARSE = 2  # cells for each loss, from where on one longer look at every loss is quicker than several FFTs


class Spectrum(NamedTuple):
    """E e^{isL} - 1 at s = 0, h, .. for normalised weights, and bounds: an absolute error, and one that grows by `slope` s."""

    moved: Waves
    error: float
    slope: float


def spectrum(loss: Array, weight: Array, off: Array, part: Array, h: float, count: int, goal: float = 1e-15) -> Spectrum:
    """phi - 1 at k h, k = 0 .. count, for losses off by `off` absolutely and weights by `part` relatively, series cut at `goal`.

    The weights are divided by their own sum, which is off by their mean relative error.
    """
    size = 1 << max(math.ceil(math.log2(2 * (count + 2))), 4)
    s = h * np.arange(count + 1)
    half, last = math.pi / (h * size), float(s[-1])
    cell = np.rint(loss / (2.0 * half))
    if float(np.abs(cell).max(initial=0.0)) > MOST_CELLS:
        raise CannotVouch("losses lie so many cells from 0 that their places have no digits")
    inside = (loss - cell * (2.0 * half)) / half
    near = cell == 0.0
    far = ~near
    terms = _terms(1.01 * last * half, goal)
    if size > SPARSE * np.count_nonzero(far):
        moved, slip = gridded(cell[far], 0.5 * inside[far], weight[far], count, size, goal)
    else:
        moved, slip = _far(cell[far], inside[far], weight[far], np.asarray(s * half, dtype=np.float64), size, terms)
    reach, mass = np.abs(last * loss[near]), weight[near]
    turn, power, moments = np.zeros(count + 1, dtype=complex), mass, []
    for n in range(1, terms + 1):
        power = power * inside[near]
        moments.append(float(power.sum()) / math.factorial(n))
    for moment in reversed(moments):
        turn = (turn + moment) * (1j * half * s)
    slip += float(mass @ reach ** (terms + 1)) / math.factorial(terms + 1)
    slip += 2 * (SUM + 6 * ULP) * float(mass @ np.expm1(np.minimum(reach, 2.0)))
    common = float(weight @ part) + 2 * SUM
    slip += float(weight @ ((part + common + ULP) * np.minimum(2.0, last * np.abs(loss))))
    slope = float(weight @ (off + 4 * ULP * np.abs(loss)))
    return Spectrum(moved + turn, 1.1 * slip, 1.1 * slope)


def _terms(x: float, goal: float) -> int:
    """An even N with x^N/N! at most `goal`."""
    n, left = 1, x
    while left > goal or n % 2:
        n += 1
        left *= x / n
    return n


def _far(cell: Array, inside: Array, weight: Array, turn: Array, size: int, terms: int) -> tuple[Waves, float]:
    """The sum over weight (e^{isl} - 1), all cells but the one at 0, and its error; `turn` is s r."""
    total = np.zeros(turn.size, dtype=complex)
    if not weight.size:
        return total, 0.0
    index = np.mod(cell, size).astype(np.int64)
    crowd = int(np.bincount(index).max())
    mass, power, factor = float(weight.sum()), weight, np.ones(turn.size)
    for n in range(0, terms, 2):
        even = np.bincount(index, weights=power, minlength=size)
        odd = np.bincount(index, weights=power * inside, minlength=size)
        wave = ifft(even + 1j * odd, norm="forward")
        mirrored = np.conj(np.concatenate([wave[:1], wave[: -turn.size : -1]]))
        wave = wave[: turn.size]
        # of two real sequences: (Z_k + conj Z_-k)/2 and (Z_k - conj Z_-k)/2i
        step = turn / (n + 1)
        total += factor * ((0.5 + 0.5 * step) * wave + (0.5 - 0.5 * step) * mirrored)
        factor = factor * (-turn * turn / ((n + 1) * (n + 2)))
        power = power * inside * inside
    x = float(turn[-1])
    # an FFT of 2^m points leads from every input to every output along one path of m butterflies
    rounding = ULP * (8.0 * math.log2(size) + crowd + 3.0 * terms) * math.exp(x)
    return np.asarray(total - mass), mass * (rounding + SUM + (1.01 * x) ** terms / math.factorial(terms))
