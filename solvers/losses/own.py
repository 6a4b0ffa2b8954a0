"""The user's own per-example loss and gradient; what it claims about them is enforced by clipping."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dpaccount import _check
from solvers.losses.base import Array, Loss, Matrix
from solvers.losses.linear import of_length

OWNER = "PerExampleLoss"


@final
@dataclass(frozen=True, eq=False)
class PerExampleLoss(Loss):
    """``value(theta, rows, labels) -> (n,)`` and ``gradient(theta, rows, labels) -> (n, p)``, row i from record i alone.

    Parameters
    ----------
    value, gradient : callable
        Of theta (p,), the bounded rows and the labels. That row i of the answer depends on record i alone cannot be checked here:
        a gradient that looks at other rows has no guarantee. Answers of another shape, or not finite, are refused.
    parameters : int
        p, or None for one parameter a column.
    gradient_bound : float
        L > 0: every gradient is clipped to this norm, whatever was promised. inf leaves it to the algorithm's own clipping.
    smoothness_bound : float
        Claimed bound on the Hessian; used by bounds on utility and by last-iterate accounting, which therefore is refused where
        privacy would rest on it alone.
    check_label : callable, optional
        Of the labels array; returns a boolean array, false where a label is outside the domain.
    """

    value: Callable[[Array, Matrix, Array], Any]
    gradient: Callable[[Array, Matrix, Array], Any]
    parameters: int | None = None
    gradient_bound: float = math.inf
    smoothness_bound: float = math.inf
    check_label: Callable[[Array], Any] | None = None

    def __post_init__(self) -> None:
        for name in ("value", "gradient"):
            if not callable(getattr(self, name)):
                _check.refuse(OWNER, name, "a callable of theta, rows, labels", getattr(self, name), kind=TypeError)
        if self.parameters is not None:
            _check.count(OWNER, "parameters", self.parameters)
        for name in ("gradient_bound", "smoothness_bound"):
            _check.real(OWNER, name, getattr(self, name), low=0.0, open_low=True, infinite=True)

    def dimension(self, columns: int) -> int:
        return columns if self.parameters is None else self.parameters

    def targets(self, owner: str, labels: Any, size: int) -> Array:
        found = of_length(owner, _check.reals(owner, "labels", labels, private=True), size)
        good = np.ones(size, dtype=bool) if self.check_label is None else np.asarray(self.check_label(found))
        if good.shape != (size,) or not good.all():
            _check.refuse(owner, "labels", "in the domain that check_label states", _check.WITHHELD)
        return found

    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:
        return self.gradient_bound

    def smoothness(self, row_norm: float) -> float:
        return self.smoothness_bound

    @property
    def hessian_rank(self) -> int | None:
        return None

    def values(self, rows: Matrix, targets: Array, theta: Array) -> Array:
        found = np.asarray(self.value(theta, rows, targets), dtype=float)
        if found.shape != targets.shape or not np.isfinite(found).all():
            _check.refuse(OWNER, "value", "one finite number a row", _check.WITHHELD)
        return found

    def gradient_sum(self, rows: Matrix, norms: Array, targets: Array, theta: Array, clip: float = math.inf) -> Array:
        found = np.asarray(self.gradient(theta, rows, targets), dtype=float)
        if found.shape != (len(targets), len(theta)):
            _check.refuse(OWNER, "gradient", f"one row a record, of {len(theta)} columns", f"{found.ndim} dimensions of other sizes")
        if not np.isfinite(found).all():
            _check.refuse(OWNER, "gradient", "finite", _check.WITHHELD, "It is never clipped into the sum.")
        limit = min(clip, self.gradient_bound)
        if limit == math.inf:
            return np.asarray(found.sum(axis=0))
        largest = np.maximum(np.abs(found).max(axis=1), 1e-300)
        shares = found / largest[:, None]
        size = np.sqrt(np.einsum("ij,ij->i", shares, shares))
        with np.errstate(over="ignore", divide="ignore"):
            over = largest * size > limit
            scale = np.where(over, limit / np.maximum(size, 1.0), largest)
        return np.asarray((shares * scale[:, None]).sum(axis=0))
