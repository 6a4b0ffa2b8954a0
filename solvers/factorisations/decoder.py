"""What a decoder protects, from itself alone: the noise that is released is B Z, and nothing an encoder states adds to it.

``A G + B Z = B (C G + Z)`` for every C with B C = A, and the C of least norms is ``C* = B^+ A``: with B of full row rank the release is the
Gaussian mechanism of C* G. In numbers, rows of B are scaled by powers of two to norms in [1/2, 1), and those of A alike, which is exact.
Whatever C was computed, ``C + B^+ (A - B C)`` is a C with no remainder. Its columns differ from those computed by at most ``|B^+| e``, e
the largest norm of a column of A - B C, so that sensitivity grows by that at most for each participation. And ``B^+ = C* A^(-1)``, with
differences of neighbouring columns for ``A^(-1)``, so that its Frobenius norm costs no inverse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.linalg import qr, solve_triangular

from dpaccount import _check
from solvers.factorisations.base import Array, Factorisation, Participation, checked_steps

ROUNDING = 2.0**-53
LARGEST_INVERSE = 1e6  # of the scaled B: beyond it some sums are all but known
LARGEST_SLACK = 1e-3  # of the sensitivity
FARTHEST_EXPONENT = 300  # of a row's norm, as a power of two
NOTHING = 1e-12  # of the largest column: entries of C below it are 0
CLOSE = 1e-6  # how near B C = A must be for an encoder to be no mistake; nothing rests on it


@final
@dataclass(frozen=True)
class Decoder:
    """B as it will be used, a copy; the norms of its rows; and what it protects."""

    matrix: Array
    norms: Array
    sensitivity: float  # of the least C with B C = A, rounded up
    inverse: float  # Frobenius norm of the pseudo-inverse of B, its rows scaled to norms in [1/2, 1)

    @staticmethod
    def of(owner: str, factorisation: Factorisation, participation: Participation) -> Decoder:
        """The decoder of a factorisation, which is asked once; refused where its rows are not independent, or B C is not A."""
        steps = checked_steps(owner, factorisation.steps)
        matrix = _matrix(owner, "decoder", factorisation.decoder(), (steps, None))
        encoder = _matrix(owner, "encoder", factorisation.encoder(), (matrix.shape[1], steps))
        norms = np.linalg.norm(matrix, axis=1)
        exponents = np.frexp(norms)[1]
        if not ((norms > 0.0) & (np.abs(exponents) <= FARTHEST_EXPONENT)).all():
            _check.refuse(owner, "factorisation", "with noise in every prefix sum", float(norms.min()), "Rows of zeros protect nothing.")
        rows, sums = np.ldexp(matrix, -exponents[:, None]), np.ldexp(np.tril(np.ones((steps, steps))), -exponents[:, None])
        _refuse_a_mistake(owner, rows, encoder, sums)
        least = _least_encoder(owner, rows, sums)
        inverse = _inverse_norm(least, exponents)
        slack = _remainder(rows, least, sums) * inverse * min(participation.count, steps)
        found = participation.of_columns(least)
        if not (inverse <= LARGEST_INVERSE and slack <= LARGEST_SLACK * found):
            _refuse_dependent(owner, inverse)
        return Decoder(matrix, norms, found + slack, inverse)


def _matrix(owner: str, name: str, given: Any, shape: tuple[int, int | None]) -> Array:
    found = np.array(given, dtype=float)
    if found.ndim != 2 or any(size not in (None, got) for size, got in zip(shape, found.shape, strict=True)):
        _check.refuse(owner, "factorisation", f"with {name}() of shape {shape}".replace("None", "m"), found.shape)
    if not np.isfinite(found).all():
        _check.refuse(owner, "factorisation", f"with finite entries in {name}()", "nan or inf")
    return found


def _refuse_a_mistake(owner: str, rows: Array, encoder: Array, sums: Array) -> None:
    """B C against A in a few random directions, row by row: for whoever mistook a matrix."""
    signs = np.where(np.random.default_rng(0).random((len(rows), 3)) < 0.5, -1.0, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        off = np.abs(rows @ (encoder @ signs) - sums @ signs).max(axis=1)
        room = CLOSE * np.maximum(np.abs(sums).max(axis=1), np.abs(rows) @ np.abs(encoder).sum(axis=1))
    if not (off <= room).all():
        _check.refuse(owner, "factorisation", "B C = the prefix sums", float(off.max()), "Noise of another matrix protects other sums.")


def _refuse_dependent(owner: str, inverse: float) -> None:
    hint = "Some sums have all but the same noise, and their differences none: such a release is not private."
    _check.refuse(owner, "factorisation", f"with rows of B so independent that |B^+| <= {LARGEST_INVERSE:g}", inverse, hint)


def _least_encoder(owner: str, rows: Array, sums: Array) -> Array:
    """``B^+ A``: by substitution where B is lower triangular, else through ``B' = Q R``, ``B^+ A = Q R'^(-1) A``."""
    steps, width = rows.shape
    if width < steps:
        _refuse_dependent(owner, math.inf)
    triangular = width == steps and not np.triu(rows, 1).any()
    q, root = (None, rows) if triangular else qr(rows.T, mode="economic")
    lower = root if q is None else root.T
    if not np.diag(lower).all():
        _refuse_dependent(owner, math.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        found = solve_triangular(lower, sums, lower=True, check_finite=False)
    if not np.abs(found).max() <= 1e150:  # nan fails as well
        _refuse_dependent(owner, math.inf)
    least = np.asarray(found if q is None else q @ found)
    least[np.abs(least) <= NOTHING * np.linalg.norm(least, axis=0).max()] = 0.0  # so that bands are bands; what is lost is in the remainder
    return least


def _inverse_norm(least: Array, exponents: Array) -> float:
    """``|B^+|_F``, B scaled: column j of ``C* A^(-1)`` is ``c_j - c_{j+1}`` where A is not scaled, and twice to its exponent so here."""
    apart = least.copy()
    apart[:, :-1] -= least[:, 1:]
    return float(np.linalg.norm(np.ldexp(apart, exponents)))


def _remainder(rows: Array, least: Array, sums: Array) -> float:
    """The largest norm of a column of A - B C, the rounding of this very product included: entries of A are no larger than columns of C."""
    off = np.linalg.norm(sums - rows @ least, axis=0)
    lost = 2.0 * (rows.shape[1] + 2) * math.sqrt(len(rows)) * ROUNDING * (np.linalg.norm(least, axis=0) + off)
    return float((off + lost).max())
