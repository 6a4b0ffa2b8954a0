"""A line's sums at epsilons close to each other: Taylor's polynomial in the move, and what it leaves out.

The line carries e^{-i s eps}, so that a move m of epsilon changes each point by e^{-i s m}, whose Taylor polynomial of degree K - 1 is
off by at most (s m)^K/K!: one sum of absolute values bounds the whole.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP

Array = npt.NDArray[np.float64]
Waves = npt.NDArray[np.complex128]
DEGREE = 10  # the K above
_FACTORIALS = np.array([math.factorial(k) for k in range(DEGREE + 1)], dtype=float)
_TURNS = np.array([1, -1j, -1, 1j] * 3)[:DEGREE] / _FACTORIALS[:DEGREE]  # (-i)^k/k!


class Near:
    """Re of sum wave e^{-i s eps} kernel for two kernels, around one epsilon; `size` are the moduli of the first one's summands."""

    def __init__(self, log_wave: Waves, kernels: Waves, s: Array, size: Array, epsilon: float) -> None:
        self.epsilon, self._kernels, self._s, self._size = epsilon, kernels, s, size
        self.far = float(s[-1]) or 1.0
        self._wave = np.exp(log_wave - (1j * epsilon) * s)
        self.middle: list[float] = (self._wave @ kernels).real.tolist()
        self._gross = float(size.sum())

    @cached_property
    def _powers(self) -> Array:
        """(s/S)^k for k = 0, ..., K, one row each; S is the last s."""
        rows, x = np.ones((DEGREE + 1, self._s.size)), self._s / self.far
        for k in range(1, DEGREE + 1):
            np.multiply(rows[k - 1], x, out=rows[k])
        return rows

    @cached_property
    def _moments(self) -> tuple[list[float], list[float], list[float]]:
        """Coefficients of both sums' polynomials in S times the move, highest first, and the same of absolute values."""
        found = ((self._powers[:DEGREE] @ (self._wave[:, None] * self._kernels)) * _TURNS[:, None]).real
        value, slope = found[::-1].T.tolist()
        return value, slope, ((self._powers @ self._size) / _FACTORIALS)[::-1].tolist()

    def left_out(self, epsilon: float) -> float:
        """What Taylor's polynomial leaves out of the first sum."""
        return 0.0 if epsilon == self.epsilon else self._moments[2][0] * min(abs(epsilon - self.epsilon) * self.far, 1e40) ** DEGREE

    def at(self, epsilon: float) -> tuple[float, float, float]:
        """Both sums, and the error of the first beside that of `middle`."""
        move = epsilon - self.epsilon
        if move == 0.0:
            return self.middle[0], self.middle[1], 0.0
        value = slope = gross = 0.0
        move *= self.far
        (values, slopes, sizes), far = self._moments, abs(move)
        for v, b, g in zip(values, slopes, sizes[1:], strict=True):
            value, slope, gross = v + move * value, b + move * slope, g + far * gross
        rounding = ULP * ((self._s.size + 30) * (gross - self._gross) + 10.0 * self._gross + far * gross)
        return value, slope, self.left_out(epsilon) + rounding
