"""Multinomial logistic loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import logsumexp, softmax

from dpaccount import _check
from solvers.losses.base import Array
from solvers.losses.linear import LinearLoss, of_length


@final
@dataclass(frozen=True)
class Multinomial(LinearLoss):
    """phi = logsumexp(z) - z_y over K classes, labels 0 .. K-1: |phi'| = |softmax(z) - e_y| <= sqrt 2, lambda_max(phi'') <= 1/2.

    Parameters
    ----------
    classes : int
        K >= 2, public. The Hessian diag(s) - ss' has rank K - 1.
    """

    classes: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", _check.count("Multinomial", "classes", self.classes, minimum=2, maximum=10**6))

    @property
    def outputs(self) -> int:  # type: ignore[override]
        return self.classes

    def slope(self, reach: float = math.inf) -> float:
        return math.sqrt(2.0)

    @property
    def curvature(self) -> float:
        return 0.5

    @property
    def smooth(self) -> bool:
        return True

    @property
    def hessian_rank(self) -> int:
        return self.classes - 1

    @property
    def curvature_sum(self) -> float:
        return 1.0 - 1.0 / self.classes  # 1 - |s|^2, s a distribution

    @property
    def slope_sum(self) -> float:
        return 2.0  # a distribution less a unit vector

    @property
    def gradient_span(self) -> int:
        return self.classes - 1  # softmax(z) - e_y sums to 0

    def targets(self, owner: str, labels: Any, size: int) -> Array:
        hint = f"Classes are coded as 0 .. {self.classes - 1}."
        found = of_length(owner, _check.reals(owner, "labels", labels, hint=hint, private=True), size)
        bad = (found != np.floor(found)) | (found < 0) | (found >= self.classes)
        if bad.any():
            _check.refuse(owner, "labels", f"a whole number in [0, {self.classes - 1}]", _check.WITHHELD, hint)
        return found

    def value(self, scores: Array, targets: Array) -> Array:
        return np.asarray(logsumexp(scores, axis=1) - scores[np.arange(len(targets)), targets.astype(np.intp)])

    def derivative(self, scores: Array, targets: Array) -> Array:
        out = softmax(scores, axis=1)
        out[np.arange(len(targets)), targets.astype(np.intp)] -= 1.0
        return np.asarray(out)

    def second_derivative(self, scores: Array, targets: Array) -> Array:
        share = softmax(scores, axis=1)
        out = -share[:, :, None] * share[:, None, :]
        k = np.arange(self.classes)
        out[:, k, k] += share
        return np.asarray(out)
