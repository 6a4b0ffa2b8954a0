"""A nonlinear strong data-processing inequality for E_gamma: the smaller the divergence, the more a kernel contracts it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP
from dpaccount.iteration.face import Curve
from dpaccount.iteration.kernels import log_overlap, overlap_error

Array = npt.NDArray[np.float64]
STEPS = 4096  # followed one by one; later ones count with the plain coefficient
FARTHEST = 1e100  # a log gamma beyond is taken as this


def nonlinear_contraction(
    noise: str, own: Curve, later: Curve, reach: float, slip: float, epsilon: Array, after: Array
) -> Curve:
    """log of d_k, ``d_0 = a`` and ``d_{k+1} = d_k eta_{gamma_k}(K)`` with ``gamma_k = 1 + (gamma - 1)/d_k``, from above.

    With ``d = E_gamma(mu||nu)``, mu and gamma nu have a common part, which cancels, and rests of masses d and gamma - 1 + d.
    Normalised to mu_1 and nu_1 these leave ``E_gamma(mu K||nu K) <= d E_{gamma'}(mu_1 K||nu_1 K)``, ``gamma' = (gamma - 1 + d)/d``, and
    by joint convexity that is at most ``d eta_{gamma'}(K)``. It rises with d, so an upper bound on d may be put in. It is
    the plain product at gamma = 1, and never more than that.
    """
    shape = np.broadcast_shapes(epsilon.shape, after.shape)
    level, counts = epsilon.ravel(), np.unique(after)
    value = np.broadcast_to(own.value + own.error, epsilon.shape).ravel().copy()
    plain = np.broadcast_to(np.minimum(later.value + later.error, 0.0), epsilon.shape).ravel()
    table, step = np.empty((counts.size, level.size)), _step(noise, reach, slip, level)
    done = 0
    near = int(np.searchsorted(counts, STEPS, side="right"))
    for row, count in enumerate([*counts[:near].tolist(), min(float(counts[-1]), STEPS)]):
        while done < count and (value > -np.inf).any():
            value = np.where(value > -np.inf, value + step(value), value)
            done += 1
        if row == near or not (value > -np.inf).any():
            with np.errstate(invalid="ignore"):
                rest = np.maximum(counts[row:] - STEPS, 0.0)[:, None]
                table[row:] = np.where((value > -np.inf) & (rest > 0.0), value + rest * plain, value)
            break
        table[row] = value
    rows = np.broadcast_to(np.searchsorted(counts, after), shape)
    columns = np.broadcast_to(np.arange(level.size).reshape(epsilon.shape), shape)
    return Curve(np.minimum(table[rows, columns], 0.0), np.zeros(shape))


def _step(noise: str, reach: float, slip: float, level: Array) -> Callable[[Array], Array]:
    """log eta_{gamma'} as a function of log d, with rounding added."""
    with np.errstate(divide="ignore", over="ignore"):
        rest = np.where(level > 30.0, level, np.log(np.expm1(np.minimum(level, 30.0))))

    def step(log_d: Array) -> Array:
        with np.errstate(invalid="ignore"):
            raised = np.logaddexp(0.0, rest - np.minimum(log_d, 0.0))
        raised = np.minimum(np.where(level > 0.0, raised * (1.0 - 8 * ULP), 0.0), FARTHEST)
        raised = np.maximum(raised, level)  # d <= 1
        found = log_overlap(noise, raised, reach)
        total = found + overlap_error(noise, raised, reach, found, slip)
        return np.minimum(total + 4 * ULP * (1.0 + sum(np.where(np.isfinite(v), np.abs(v), 0.0) for v in (log_d, total))), 0.0)

    return step
