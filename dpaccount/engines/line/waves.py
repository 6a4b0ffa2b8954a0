"""The characteristic function of a composition along a line, with a bound on its rounding."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpaccount._log import SUM, ULP, polar_log1p, polar_slip
from dpaccount.engines.line.axis import Axis
from dpaccount.engines.line.terms import PhaseErrors
from dpaccount.engines.many.rows import BLOCK, block_products

Array = npt.NDArray[np.float64]
WHOLE = 1024  # sums of so many products may be added in any order


def log_phi_along(axis: Axis, c: float, s: Array) -> tuple[npt.NDArray[np.complex128], Array]:
    """log E[e^{(c+is)L}]/E[e^{cL}] of the composition, and the error of the logarithm at every s.

    phi - 1 = sum p (-2 sin^2(sL/2) + i sin sL), whose errors `PhaseErrors` bounds. A step's error is a bound if its nodes are
    proved, else an estimate.
    """
    log_phi = np.zeros(s.shape, dtype=complex)
    slip = np.zeros(s.shape)
    for t in axis.terms:
        tilted = t.tilted(c)
        errors = None if t.rounding is None else t.phase_errors(tilted, c)
        real, imag, sums = turned(t.loss, tilted, s, errors)
        log_size, angle = polar_log1p(real, imag)
        log_phi.real += t.count * log_size
        log_phi.imag += t.count * angle
        wave = np.sqrt(-2 * np.minimum(real, 0.0))
        if errors is None:
            slip += (t.count * (8 * ULP + t.error)) * wave
            continue
        error = errors.bound(s, wave, np.abs(real) + np.abs(imag)) + 2 * axis.node_error(t, c) + sums
        slip += t.count * polar_slip(error, log_size)
    for m in axis.many:
        value, error = m.log_phi(c, s)
        log_phi += value
        slip += error
    return log_phi, slip


def turned(loss: Array, weight: Array, s: Array, errors: PhaseErrors | None = None) -> tuple[Array, Array, Array]:
    """Re and Im of sum p (e^{isL} - 1) at equidistant s from 0, and what summation adds to their error.

    With X = e^{isL} - 1, X_{a+b} = X_a X_b + X_a + X_b for a coarse and a fine grid of s: a matrix product over their nodes,
    whose errors are relative to sum p |X_a| |X_b| <= w_a w_b, w^2 = sum p |X|^2. Both grids are powers of their first points, so that
    the errors of X_k are at most `STEPS` + DOUBLING log2(k) roundings of k |X_1|.
    """
    if s.size < 12:
        rows = _first(loss, s)
        real, imag = (rows.real * weight).sum(axis=-1), (rows.imag * weight).sum(axis=-1)  # not by BLAS: see SUM
        return real, imag, np.zeros(s.size) if errors is None else SUM * errors.mean(s, np.sqrt(-2 * np.minimum(real, 0.0)))
    fine = math.isqrt(s.size - 1) + 1
    coarse = -(-s.size // fine)
    first, second = (powers(x, n) for x, n in zip(_first(loss, s[1] * np.array([1.0, fine])), (fine, coarse), strict=True))
    second *= weight
    product = second @ first.T if loss.size <= WHOLE else block_products(second, first)
    first *= weight
    sums = np.concatenate([second.sum(axis=-1), first.sum(axis=-1)])
    product += sums[:coarse, None]
    product += sums[coarse:]
    found = product.ravel()[: s.size]
    if errors is None:
        return found.real, found.imag, np.zeros(s.size)
    wave = np.sqrt(-2 * np.minimum(sums.real, 0.0))
    mean = SUM * errors.mean(np.concatenate([s[::fine], s[:fine]]), wave)  # of the sums
    off = np.concatenate([_roundings(coarse), _roundings(fine)])  # of X itself: on average, and in w's norm
    for grid, base, at in ((slice(coarse), s[1] * fine, wave[1]), (slice(coarse, None), s[1], wave[coarse + 1])):
        mean[grid] += off[grid] * min(at, errors.size * base)
        off[grid] *= at
    added = loss.size if loss.size <= WHOLE else BLOCK + loss.size // BLOCK
    cross = np.multiply.outer(wave[:coarse], (2 * ULP * (added + 4)) * wave[coarse:] + off[coarse:])
    cross += np.multiply.outer(off[:coarse], wave[coarse:])
    cross += mean[:coarse, None]
    cross += mean[coarse:]
    return found.real, found.imag, cross.ravel()[: s.size]


def _roundings(count: int) -> Array:
    """What `powers` says of the error of X_k, relative to |X_1|."""
    return ((STEPS + DOUBLING * math.ceil(math.log2(count + 1))) * ULP) * np.arange(float(count))


STEPS, DOUBLING = 10.0, 2.5  # ulps, which are two roundings each: of e^{isL} - 1 itself, and of every doubling


def powers(x: npt.NDArray[np.complex128], count: int) -> npt.NDArray[np.complex128]:
    """(1 + x)^k - 1 for k = 0, ..., count - 1 and |1 + x| = 1, one row each: X_{a+b} = X_a X_b + X_a + X_b by doubling."""
    rows = np.empty((count, x.size), dtype=complex)
    rows[0] = 0.0
    if count > 1:
        rows[1] = x
    known = 1
    while known + 1 < count:
        more = min(known, count - 1 - known)
        new, old = rows[known + 1 : known + 1 + more], rows[1 : 1 + more]
        np.multiply(old, rows[known], out=new)
        new += old
        new += rows[known]
        known += more
    return rows


def _first(loss: Array, s: Array) -> npt.NDArray[np.complex128]:
    """e^{isL} - 1 at every s (rows): sin^2 and sin cos from one fast function."""
    tan = np.tan(np.multiply.outer(s / 2, loss))
    shrink = 2.0 * tan / (1.0 + tan * tan)
    return np.asarray(shrink * (1j - tan))
