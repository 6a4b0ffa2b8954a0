"""What a rule that chooses among thresholds looks for."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, ndtri

from dpaccount.auditing.selection import Table

Array = npt.NDArray[np.float64]
Criterion = Callable[[Table], Array]
ONE_RUN = ("steinke", "fdp")


def criterion_of(method: str, alpha: float, delta: float, epsilon: float) -> Criterion:
    """What a rule looks for: the bound itself where it is cheap for all thresholds at once, else one that rises with it."""

    def limits(t: Table) -> tuple[Array, Array]:
        a = alpha / (2 * t.rules)
        fp, fn = np.asarray(t.fp, dtype=float), t.p - np.asarray(t.tp, dtype=float)
        with np.errstate(invalid="ignore"):
            fpr = np.where(fp < t.n, betaincinv(fp + 1, np.maximum(t.n - fp, 1e-9), 1 - a), 1.0)
            fnr = np.where(fn < t.p, betaincinv(fn + 1, np.maximum(t.p - fn, 1e-9), 1 - a), 1.0)
        return fpr, fnr

    def model_free(t: Table) -> Array:
        fpr, fnr = limits(t)
        with np.errstate(divide="ignore", invalid="ignore"):
            first, second = np.log(np.maximum(1 - fnr - delta, 0.0) / fpr), np.log(np.maximum(1 - fpr - delta, 0.0) / fnr)
        return np.maximum(first, second)

    def gaussian(t: Table) -> Array:
        fpr, fnr = limits(t)
        return np.asarray(-ndtri(fpr) - ndtri(fnr))

    def precise(t: Table) -> Array:
        r = t.tp + t.fp
        with np.errstate(invalid="ignore"):
            return np.where(t.tp > 0, betaincinv(np.maximum(t.tp, 1e-9), r - t.tp + 1.0, alpha / t.rules), 0.0)

    def gap(t: Table) -> Array:
        return np.asarray(t.tp / t.p - math.exp(min(epsilon, 700.0)) * t.fp / t.n)

    if method in ("cp", "bayes"):
        return model_free
    if method in ONE_RUN:
        return precise
    return gap if method in ("hockey-stick", "total-variation") else gaussian
