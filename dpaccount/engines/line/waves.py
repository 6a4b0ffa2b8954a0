"""The characteristic function of a composition along a line, with a bound on its rounding."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpaccount._log import SUM, ULP, polar_log1p, polar_slip
from dpaccount.engines.line.axis import Axis
from dpaccount.engines.many.rows import BLOCK, block_products

Array = npt.NDArray[np.float64]
QUICK = 200_000  # counts up to which sums by matrix products are accurate enough


def log_phi_along(axis: Axis, c: float, s: Array) -> tuple[npt.NDArray[np.complex128], Array]:
    """log E[e^{(c+is)L}]/E[e^{cL}] of the composition, and the error of the logarithm at every s.

    phi - 1 = sum p (-2 sin^2(sL/2) + i sin sL), so that by Cauchy-Schwarz relative errors r of its terms cost at most
    (sum p r^2)^{1/2} (-2 Re(phi - 1))^{1/2}. A step's error is a bound if its nodes are proved, else an estimate.
    """
    log_phi = np.zeros(s.shape, dtype=complex)
    slip = np.zeros(s.shape)
    for t in axis.terms:
        tilted = t.tilted(c)
        real, imag, sums = turned(t.loss, tilted, s, t.count <= QUICK)
        log_size, angle = polar_log1p(real, imag)
        log_phi.real += t.count * log_size
        log_phi.imag += t.count * angle
        wave = np.sqrt(-2 * real)
        if t.rounding is None:
            slip += t.count * (8 * ULP + t.error) * wave
            continue
        part, off = t.phase_errors(tilted, c)
        error = part * wave + s * off + 2 * axis.node_error(t, c) + sums
        slip += t.count * polar_slip(error, log_size)
    for m in axis.many:
        value, error = m.log_phi(c, s)
        log_phi += value
        slip += error
    return log_phi, slip


def turned(loss: Array, weight: Array, s: Array, quick: bool) -> tuple[Array, Array, Array]:
    """Re and Im of sum p (e^{isL} - 1) at equidistant s from 0, and what sums that are not numpy's own add to the error.

    With X = e^{isL} - 1, `quick` uses X_{a+b} = X_a X_b + X_a + X_b for a coarse and a fine grid of s: a matrix product
    over their nodes, whose errors are relative to sum p |X_a| |X_b| <= 2 min(w_a, w_b), sum p |X_a| <= w_a, w^2 = sum p |X|^2.
    """
    if not quick or s.size < 12:
        real, imag = _turned(loss, s)
        return (real * weight).sum(axis=-1), (imag * weight).sum(axis=-1), np.zeros(s.size)  # not by BLAS: see SUM
    fine = math.isqrt(s.size - 1) + 1
    coarse = -(-s.size // fine)
    real, imag = _turned(loss, np.concatenate([s[:fine], s[1] * fine * np.arange(coarse)]))
    first, second = np.concatenate([real[:fine], imag[:fine]]), weight * np.concatenate([real[fine:], imag[fine:]])
    product = block_products(second, first)
    sum_real, sum_imag = (real * weight).sum(axis=-1), (imag * weight).sum(axis=-1)
    re = product[:coarse, :fine] - product[coarse:, fine:] + sum_real[fine:, None] + sum_real[:fine]
    im = product[:coarse, fine:] + product[coarse:, :fine] + sum_imag[fine:, None] + sum_imag[:fine]
    wave = np.sqrt(-2 * np.minimum(sum_real, 0.0))
    sums = 2.4e-16 * (BLOCK + loss.size // BLOCK + 8) * 2 * np.minimum(wave[fine:, None], wave[:fine])
    sums = sums + (2 * SUM + 8 * ULP) * (wave[fine:, None] + wave[:fine])
    return re.ravel()[: s.size], im.ravel()[: s.size], sums.ravel()[: s.size]


def _turned(loss: Array, s: Array) -> tuple[Array, Array]:
    """Re and Im of e^{isL} - 1: sin^2 and sin cos from one fast function."""
    tan = np.tan(np.multiply.outer(s / 2, loss))
    shrink = 2.0 * tan / (1.0 + tan * tan)
    return -shrink * tan, shrink
