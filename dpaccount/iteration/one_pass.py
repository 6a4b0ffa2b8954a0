"""Shifted interpolation of projected noisy SGD, one pass in fixed order: mu of every record in closed form (BSA24)."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount._log import ULP
from dpaccount.iteration.shifted import LEAST, gap_of

Array = npt.NDArray[np.float64]


class Settings(Protocol):
    """What `pnsgd_mu` reads of a projected noisy SGD run: x <- Proj(x - step_size (gradient + noise)), one record a step."""

    @property
    def num_records(self) -> int: ...

    @property
    def lipschitz(self) -> float: ...

    @property
    def smoothness(self) -> float: ...

    @property
    def strong_convexity(self) -> float: ...

    @property
    def step_size(self) -> float: ...

    @property
    def diameter(self) -> float: ...

    @property
    def noise(self) -> str: ...

    @property
    def noise_scale(self) -> float: ...


def pnsgd_log_mu(p: Settings, index: Any, log_contraction: float | None = None) -> Array:
    """log of `pnsgd_mu`, which may lie far below the smallest double."""
    if p.noise != "gaussian":
        _check.refuse(
            "shifted.pnsgd_mu", "noise", "'gaussian'", p.noise, "Shifted interpolation pays with Gaussian noise; use 'contraction'."
        )
    i = _check.reals("shifted.pnsgd_mu", "index", index, low=1.0, high=float(p.num_records))
    if np.any(i != np.floor(i)):
        _check.refuse("shifted.pnsgd_mu", "index", "whole numbers", index)
    log_c = log_contraction_of(p) if log_contraction is None else log_contraction
    later = p.num_records - i
    with np.errstate(divide="ignore", invalid="ignore"):
        used = math.log(2.0 * p.lipschitz) + _log_fall(later, log_c) - 0.5 * _log_sum(later + 1.0, log_c)
        restart = math.log(p.diameter) - math.log(p.step_size) + _log_fall(later, log_c) - 0.5 * _log_sum(later, log_c)
    found = np.where(later > 0.0, np.fmin(used, restart), used) - math.log(p.noise_scale)
    return np.asarray(found + 8 * ULP * (1.0 + np.abs(found)))


def pnsgd_mu(p: Settings, index: Any, log_contraction: float | None = None) -> Array:
    """mu of the last iterate of projected noisy SGD, one pass in fixed order, for the record at each `index` (BSA24).

    With M the contraction of a step and k = n - i steps after the record's own, the smaller of
    ``(2L/sigma) M^k (sum over j <= k of M^{2j})^{-1/2}`` and, restarted at the diameter,
    ``D/(eta sigma) M^k (sum over j < k of M^{2j})^{-1/2}``.

    Parameters
    ----------
    p : PNSGD, or anything with its fields
        Gaussian noise only.
    index : int or array
        From 1 to n.
    log_contraction : float, optional
        log of the Lipschitz constant of a step, instead of `log_contraction_of` (p).

    Returns
    -------
    array
        Of the shape of `index`, rounded up by a few ulps (of log mu); at least 1e-100.
    """
    with np.errstate(under="ignore"):
        return np.maximum(np.exp(pnsgd_log_mu(p, index, log_contraction)), LEAST)


def log_contraction_of(p: Settings) -> float:
    """log M, M = sqrt(1 - 2 eta beta rho/(beta + rho)), for eta <= 2/(beta + rho); beyond, of max(|1 - eta rho|, |1 - eta beta|).

    1 - M^2 is rounded down, so that M is not too small however close to 0 it is.
    """
    eta, beta, rho = p.step_size, p.smoothness, p.strong_convexity
    if rho >= 0.0 and eta * (beta + rho) <= 2.0:
        inside = 2.0 * eta * beta * rho / (beta + rho) if beta + rho else 0.0
        return 0.5 * math.log1p(-inside * (1.0 - 4 * ULP)) if inside < 1.0 else -math.inf
    gap = gap_of(eta, beta, rho)
    return math.log1p(-gap) if gap < 1.0 else -math.inf


def _log_fall(count: Array, log_c: float) -> Array:
    """log of c^count, 0 for count = 0 even if c = 0."""
    return np.where(count > 0.0, count * log_c, 0.0)


def _log_sum(count: Array, log_c: float) -> Array:
    """log of 1 + c^2 + ... + c^{2 (count - 1)}."""
    if log_c == 0.0:
        return np.asarray(np.log(count))
    if log_c == -math.inf:
        return np.where(count > 0.0, 0.0, -np.inf)
    if log_c < 0.0:
        return np.asarray(np.log(-np.expm1(2.0 * count * log_c)) - math.log(-math.expm1(2.0 * log_c)))
    return np.asarray(2.0 * (count - 1.0) * log_c + _log_sum(count, -log_c))
