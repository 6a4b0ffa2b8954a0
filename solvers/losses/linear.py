"""Losses of a generalised linear model: theta is seen through x . theta alone, so gradients are multiples of rows."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from dpaccount import _check
from solvers.losses.base import Array, Loss, Matrix


class LinearLoss(Loss):
    """l = phi(z, y) with scores z = x . theta (one a record), or z = Theta' x with K columns (`outputs` = K).

    ``grad l = x (x) phi'``, so ``|grad l| = |x| |phi'|``; the Hessian is ``xx' (x) phi''``, so its largest eigenvalue is at most
    ``|x|^2 lambda_max(phi'')``. Theta of K columns is kept flat, row by row: ``theta.reshape(columns, K)``.
    """

    outputs: int = 1

    @abstractmethod
    def slope(self, reach: float = math.inf) -> float:
        """Bound on |phi'|_2 for |z| <= reach and every label of the domain."""

    @property
    @abstractmethod
    def curvature(self) -> float:
        """Bound on the largest eigenvalue of phi''; inf where phi' jumps."""

    @abstractmethod
    def value(self, scores: Array, targets: Array) -> Array:
        """phi(z, y) of every record."""

    @abstractmethod
    def derivative(self, scores: Array, targets: Array) -> Array:
        """phi'(z, y): (n,), or (n, K). At a kink, the subgradient of least norm."""

    @abstractmethod
    def second_derivative(self, scores: Array, targets: Array) -> Array:
        """phi''(z, y): (n,), or (n, K, K). Where phi' jumps it is refused."""

    @property
    def smooth(self) -> bool:
        """Whether phi is twice continuously differentiable, as objective perturbation needs."""
        return False

    @property
    def one_signed(self) -> bool:
        """Whether phi' has one sign for each label, so that a record can only pull theta one way."""
        return False

    @property
    def logistic(self) -> bool:
        """Whether |phi'| = t and phi'' = t (1 - t) for one t in [0, 1]."""
        return False

    @property
    def saturating(self) -> bool:
        """Whether phi'' <= curvature (1 - t^2) wherever |phi'| = t slope, so that a record that pulls with all its force bends nothing."""
        return False

    @property
    def slope_sum(self) -> float:
        """Bound on |phi'|_1 everywhere."""
        return math.sqrt(self.outputs) * self.slope()

    @property
    def curvature_sum(self) -> float:
        """Bound on the trace of phi''."""
        return self.hessian_rank * self.curvature

    @property
    def gradient_span(self) -> int:
        """Dimension of the space of the gradients of one record."""
        return self.outputs

    @property
    def hessian_rank(self) -> int:
        return 1

    def variation(self, reach: float) -> float:
        """Bound on max - min of phi(., y) over |z| <= reach, for every label."""
        return 2.0 * reach * self.slope(reach)

    @property
    def magnitude(self) -> float:
        """Size of scores whose values are as large as those near 0 can be: what a difference of values can lose digits to."""
        return 0.0

    def anchored(self, targets: Array, reach: float) -> Array:
        """Labels with the same differences of phi over |z| <= reach, or nearly, and no larger than that needs; each by itself."""
        return targets

    def dimension(self, columns: int) -> int:
        return columns * self.outputs

    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:
        return self.slope(row_norm * radius) * row_norm

    def smoothness(self, row_norm: float) -> float:
        return self.curvature * row_norm * row_norm

    def scores(self, rows: Matrix, theta: Array) -> Array:
        """z of every row: (n,), or (n, K)."""
        weights = theta if self.outputs == 1 else theta.reshape(rows.shape[1], self.outputs)
        return np.asarray(rows @ weights)

    def values(self, rows: Matrix, targets: Array, theta: Array) -> Array:
        return self.value(self.scores(rows, theta), targets)

    def gradient_sum(self, rows: Matrix, norms: Array, targets: Array, theta: Array, clip: float = math.inf) -> Array:
        slopes = self.derivative(self.scores(rows, theta), targets)
        size = np.abs(slopes) if self.outputs == 1 else np.sqrt(np.einsum("ij,ij->i", slopes, slopes))
        return np.asarray(rows.T @ _clipped(slopes, size * norms, clip)).ravel()

    def hessian_sum(self, rows: Matrix, targets: Array, theta: Array) -> Array:
        """Sum over rows of the Hessians, a (p, p) matrix."""
        weights = self.second_derivative(self.scores(rows, theta), targets)
        if self.outputs == 1:
            return np.asarray(_dense(rows.T @ _weighted(rows, weights)))
        columns, k = rows.shape[1], self.outputs
        out = np.empty((columns, k, columns, k))
        for a in range(k):
            for b in range(a, k):
                out[:, a, :, b] = _dense(rows.T @ _weighted(rows, weights[:, a, b]))
                out[:, b, :, a] = out[:, a, :, b]
        return out.reshape(columns * k, columns * k)


def _weighted(rows: Matrix, weights: Array) -> Matrix:
    return rows.multiply(weights[:, None]).tocsr() if hasattr(rows, "multiply") else rows * weights[:, None]


def _dense(found: Any) -> Array:
    return np.asarray(found.toarray() if hasattr(found, "toarray") else found)


def _clipped(slopes: Array, norms: Array, clip: float) -> Array:
    """Slopes whose gradients' norms are at most `clip`."""
    if not np.isfinite(norms).all():
        _check.refuse("Problem.gradient", "theta", "a point at which every gradient is finite", _check.WITHHELD)
    if clip == math.inf or not (over := norms > clip).any():
        return slopes
    factor = np.ones(norms.shape)
    factor[over] = clip / norms[over]
    return slopes * (factor if slopes.ndim == 1 else factor[:, None])


def real_labels(owner: str, labels: Any, size: int) -> Array:
    """One finite number a record."""
    found = _check.reals(owner, "labels", labels, hint="Regression needs one finite number a record.", private=True)
    return of_length(owner, found, size)


def of_length(owner: str, found: Array, size: int) -> Array:
    """`found` if it holds one label a row."""
    if found.shape != (size,):
        got = f"{found.ndim} dimensions" if found.ndim != 1 else "another number of them"
        _check.refuse(owner, "labels", "one label a row, in one dimension", got)
    return found
