"""The dense and the banded factorisation of least root-mean-square loss, all entries free."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from dpaccount import _check
from solvers.factorisations.base import Array, Factorisation
from solvers.factorisations.toeplitz import prefix, root_coefficients

LARGEST, LARGEST_BANDED = 1024, 512
OPTIONS: Any = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30}


@final
@dataclass(frozen=True)
class Optimised(Factorisation):
    """The factorisation of least root-mean-square loss: B = A C^(-1), columns of C of norm 1, with `bands` diagonals or all.

    ``X = C'C`` minimises ``tr(A'A X^(-1))``, a convex function, with diag X = 1 and X = 0 off the bands. Without bands stationarity is
    ``A'A = X D X`` for a diagonal D > 0, so that ``X = D^(-1/2) (D^(1/2) A'A D^(1/2))^(1/2) D^(-1/2)``, and D = v is the fixed point of
    ``v <- diag((V^(1/2) A'A V^(1/2))^(1/2))``. With bands ``X^(-1) A'A X^(-1)`` is 0 on them, which descent in C finds; participations
    that are `bands` apart are then orthogonal, so that k of them have sensitivity sqrt(k), exactly.

    Parameters
    ----------
    steps : int
        1 <= n <= 1024; with bands at most 512.
    bands : int, optional
        1 .. n.

    References
    ----------
    Denisov, McMahan, Rush, Smith, Thakurta (2022), Theorem 3.2; Choquette-Choo and others (2023) for bands.
    """

    steps: int
    bands: int | None = None

    def __post_init__(self) -> None:
        most = LARGEST if self.bands is None else LARGEST_BANDED
        object.__setattr__(self, "steps", _check.count("Optimised", "steps", self.steps, maximum=most))
        if self.bands is not None:
            object.__setattr__(self, "bands", _check.count("Optimised", "bands", self.bands, maximum=self.steps))

    def encoder(self) -> Array:
        return _optimal(self.steps) if self.bands is None else _banded(self.steps, self.bands)

    def decoder(self) -> Array:
        return np.asarray(solve_triangular(self.encoder().T, prefix(self.steps).T, lower=False).T)


@lru_cache(maxsize=8)
def _optimal(steps: int) -> Array:
    """C lower triangular with C'C = X at the fixed point, its columns scaled to norm 1 so that nothing rests on convergence."""
    a = prefix(steps)
    gram, v = a.T @ a, np.ones(steps)
    for _ in range(500):
        root = np.sqrt(v)
        values, vectors = np.linalg.eigh(root[:, None] * gram * root)
        half = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        fresh = np.diag(half).copy()
        close = np.abs(fresh - v).max() <= 1e-13 * fresh.max()
        v = fresh
        if close:
            break
    x = half / np.sqrt(v)[:, None] / np.sqrt(v)
    c = np.linalg.cholesky(x[::-1, ::-1]).T[::-1, ::-1]  # X = C'C with C lower triangular
    return _unit(np.tril(c))


@lru_cache(maxsize=8)
def _banded(steps: int, bands: int) -> Array:
    """The same from ``|A C^(-1)|^2`` by L-BFGS, C = D scaled to columns of norm 1; D has 1 on its diagonal, and starts at the square root.

    The gradient in C is ``-2 B'B C^(-T)``; scaling takes off what lies along a column, and divides by its length.
    """
    a, column = prefix(steps), root_coefficients(bands)
    rows, columns = np.nonzero(np.tril(np.ones((steps, steps)), -1) - np.tril(np.ones((steps, steps)), -bands))
    d = np.eye(steps)

    def scaled(entries: Array) -> tuple[Array, Array]:
        d[rows, columns] = entries
        length = np.linalg.norm(d, axis=0)
        return d / length, length

    def cost(entries: Array) -> tuple[float, Array]:
        c, length = scaled(entries)
        b = solve_triangular(c.T, a.T, lower=False).T
        total = float((b * b).sum())
        by_c = -2.0 * solve_triangular(c, b.T @ b, lower=True).T / total
        by_d = (by_c - c * (c * by_c).sum(axis=0)) / length
        return math.log(total), by_d[rows, columns]

    if bands > 1:
        entries = minimize(cost, column[rows - columns], jac=True, method="L-BFGS-B", options=OPTIONS).x
        d[rows, columns] = entries
    return _unit(d)


def _unit(c: Array) -> Array:
    """Its columns scaled to norm 1, read only."""
    found = np.asarray(c / np.linalg.norm(c, axis=0))
    found.setflags(write=False)
    return found
