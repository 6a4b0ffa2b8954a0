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
    whose errors are relative to sum p |X_a| |X_b| <= w_a w_b, w^2 = sum p |X|^2.
    """
    if s.size < 12:
        real, imag = _turned(loss, s)
        real, imag = (real * weight).sum(axis=-1), (imag * weight).sum(axis=-1)  # not by BLAS: see SUM
        return real, imag, np.zeros(s.size) if errors is None else SUM * errors.mean(s, np.sqrt(-2 * np.minimum(real, 0.0)))
    fine = math.isqrt(s.size - 1) + 1
    coarse = -(-s.size // fine)
    grid = np.concatenate([s[:fine], (s[1] * fine) * np.arange(coarse)])
    real, imag = _turned(loss, grid)
    own_real, own_imag = real * weight, imag * weight
    first, second = np.concatenate([real[:fine], imag[:fine]]), np.concatenate([own_real[fine:], own_imag[fine:]])
    product = second @ first.T if loss.size <= WHOLE else block_products(second, first)
    sum_real, sum_imag = own_real.sum(axis=-1), own_imag.sum(axis=-1)
    re = product[:coarse, :fine] - product[coarse:, fine:] + sum_real[fine:, None] + sum_real[:fine]
    im = product[:coarse, fine:] + product[coarse:, :fine] + sum_imag[fine:, None] + sum_imag[:fine]
    if errors is None:
        return re.ravel()[: s.size], im.ravel()[: s.size], np.zeros(s.size)
    wave = np.sqrt(-2 * np.minimum(sum_real, 0.0))
    added = loss.size if loss.size <= WHOLE else BLOCK + loss.size // BLOCK
    mean = (SUM + 10 * ULP) * errors.mean(grid, wave)
    sums = (2 * ULP * (added + 20)) * np.multiply.outer(wave[fine:], wave[:fine]) + mean[fine:, None] + mean[:fine]
    return re.ravel()[: s.size], im.ravel()[: s.size], sums.ravel()[: s.size]


def _turned(loss: Array, s: Array) -> tuple[Array, Array]:
    """Re and Im of e^{isL} - 1: sin^2 and sin cos from one fast function."""
    tan = np.tan(np.multiply.outer(s / 2, loss))
    shrink = 2.0 * tan / (1.0 + tan * tan)
    return -shrink * tan, shrink
