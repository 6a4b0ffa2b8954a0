"""Lower-triangular factorisations by formula: none, the square root of the prefix sums, and its banded form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.linalg import solve_triangular, toeplitz

from dpaccount import _check
from solvers.factorisations.base import Array, Factorisation, checked_steps


def root_coefficients(count: int) -> Array:
    """c_k = binom(2k, k)/4^k, those of (1 - x)^(-1/2): c_0 = 1, ``c_k = c_{k-1} (2k-1)/(2k)``."""
    k = np.arange(1.0, count)
    return np.concatenate([[1.0], np.cumprod((2.0 * k - 1.0) / (2.0 * k))])


def prefix(steps: int) -> Array:
    """A, the lower triangle of ones."""
    return np.tril(np.ones((steps, steps)))


def _toeplitz(column: Array) -> Array:
    return np.asarray(toeplitz(column, np.zeros(len(column))))


@final
@dataclass(frozen=True)
class Independent(Factorisation):
    """C = I: fresh noise in every step, which adds up along the prefix, as in SGD.

    Parameters
    ----------
    steps : int
        n >= 1.
    """

    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", checked_steps("Independent", self.steps))

    def encoder(self) -> Array:
        return np.eye(self.steps)

    def decoder(self) -> Array:
        return prefix(self.steps)


@final
@dataclass(frozen=True)
class SquareRoot(Factorisation):
    """C = A^(1/2), Toeplitz with the coefficients of (1 - x)^(-1/2); cut to the first `bands` of them it is banded, and B = A C^(-1).

    Within 1 + ln(n)/pi of A's best max loss up to a constant (Fichtenberger, Henzinger, Upadhyay 2022; Henzinger and others 2023). A
    band of at most the separation of participations makes them orthogonal, which costs sqrt(k) alone (Choquette-Choo and others 2023).

    Parameters
    ----------
    steps : int
        n >= 1.
    bands : int, optional
        How many diagonals C keeps, 1 .. n; default all.
    """

    steps: int
    bands: int | None = None

    def __post_init__(self) -> None:
        steps = checked_steps("SquareRoot", self.steps)
        object.__setattr__(self, "steps", steps)
        bands = steps if self.bands is None else _check.count("SquareRoot", "bands", self.bands, maximum=steps)
        object.__setattr__(self, "bands", bands)

    @cached_property
    def _column(self) -> Array:
        column = root_coefficients(self.steps)
        column[self.bands :] = 0.0
        return column

    def encoder(self) -> Array:
        return _toeplitz(self._column)

    def decoder(self) -> Array:
        if self.bands == self.steps:
            return self.encoder()
        return np.asarray(solve_triangular(self.encoder().T, prefix(self.steps).T, lower=False).T)
