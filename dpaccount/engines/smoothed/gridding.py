"""Sums over weight e^{isl} at equally spaced frequencies by one FFT: every loss is spread over a grid by a Gaussian.

With s = kh, k = 0 .. K, losses in units of a cell 2 pi/(h M) of a grid of M >= 2 K + 4 points, and k = k0 + j with k0 in the middle,
e^{isl} = e^{2 pi i k0 l/M} e^{2 pi i j l/M}. By Poisson's summation, for the Gaussian g(y) = e^{-b y^2} and g^ its transform,

    sum over n of g(l - n) e^{2 pi i j n/M} = sum over m of g^(j/M + m) e^{2 pi i (j/M + m) l},

whose term m = 0 is what is sought, times g^(j/M); the others are at most e^{-pi^2 (m^2 - 2 |m| f)/b} of it for |j/M| <= f <= 1/4. On the
left n farther than A + 1/2 from l are left out. Phases are reduced in whole numbers of cells, so that no large one is rounded.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.fft import ifft

from dpaccount._log import SUM, ULP

Array = npt.NDArray[np.float64]
Waves = npt.NDArray[np.complex128]
BLOCK = 2**15  # losses that are spread at once


def gridded(cell: Array, inside: Array, weight: Array, count: int, size: int, goal: float) -> tuple[Waves, float]:
    """The sum over weight (e^{isl} - 1) at k = 0 .. count, for losses cell + inside in cells, and its error."""
    if not weight.size:
        return np.zeros(count + 1, dtype=complex), 0.0
    middle = (count + 1) // 2
    end = middle / size
    b = math.pi**2 * (1.0 - 2.0 * end) / -math.log(goal)
    lift = math.pi**2 * end * end / b  # the transform falls by e^-lift up to the end
    reach = math.ceil(math.sqrt((lift - math.log(goal)) / b))
    grid, crowd = _spread(cell, inside, weight, middle, size, b, reach)
    wave = ifft(grid, norm="forward", overwrite_x=True)
    j = np.arange(-middle, count + 1 - middle)
    found = np.concatenate([wave[size - middle :], wave[: count + 1 - middle]]) * np.exp((math.pi**2 / b) * (j / size) ** 2)
    found *= math.sqrt(b / math.pi)
    left_out = 2.0 * math.exp(-b * (reach + 0.5) ** 2) / -math.expm1(-2.0 * b * reach) * math.sqrt(b / math.pi) * math.exp(lift)
    # an FFT of 2^m points leads from every input to every output along one path of m butterflies
    rounding = ULP * (8.0 * math.log2(size) + crowd + 3.0 * reach + 60.0) * math.exp(lift)
    mass = float(weight.sum())
    return np.asarray(found - mass), 1.05 * mass * (rounding + SUM + left_out + 3.0 * goal)


def _spread(
    cell: Array, inside: Array, weight: Array, middle: int, size: int, b: float, reach: int
) -> tuple[Waves, int]:
    """The weights, turned by e^{2 pi i middle l/M}, times g(l - n) on the grid, and the most that are added up in one cell."""
    grid, crowd, offsets = np.zeros(size, dtype=complex), 0, np.arange(-reach, reach + 1)
    falls = np.exp(-b * offsets.astype(float) ** 2)
    for first in range(0, weight.size, BLOCK):
        part = slice(first, first + BLOCK)
        place = np.mod(cell[part], size).astype(np.int64)
        turn = (2.0 * math.pi / size) * (np.mod(middle * place, size) + middle * inside[part])
        power, down = np.exp(2.0 * b * inside[part]), weight[part] * np.exp(-b * inside[part] ** 2)
        taps = np.empty((offsets.size, place.size))
        taps[reach] = down
        for o in range(1, reach + 1):
            taps[reach + o] = taps[reach + o - 1] * power
            taps[reach - o] = taps[reach - o + 1] / power
        taps *= falls[:, None]
        where = np.mod(place + offsets[:, None], size).ravel()
        grid.real += np.bincount(where, weights=(taps * np.cos(turn)).ravel(), minlength=size)
        grid.imag += np.bincount(where, weights=(taps * np.sin(turn)).ravel(), minlength=size)
        crowd += int(np.bincount(where).max()) + 1
    return grid, crowd
