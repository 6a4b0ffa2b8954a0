"""Losses of two classes, labels -1 and 1, as functions of the margin m = y z."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import expit

from dpaccount import _check
from solvers.losses.base import Array
from solvers.losses.linear import LinearLoss, of_length


def signs(owner: str, labels: Any, size: int) -> Array:
    """Labels -1 and 1; anything else is refused."""
    found = of_length(owner, _check.reals(owner, "labels", labels, hint="Two classes are coded as -1 and 1."), labels, size)
    bad = np.abs(found) != 1.0
    if bad.any():
        _check.refuse(owner, "labels", "-1 or 1", float(found[bad][0]), "Code the two classes as -1 and 1.")
    return found


@final
@dataclass(frozen=True)
class Logistic(LinearLoss):
    """phi = log(1 + e^{-yz}), labels -1 and 1: |phi'| <= 1, phi'' <= 1/4.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.losses import Logistic
    >>> Logistic().derivative(np.array([0.0, 50.0]), np.array([1.0, -1.0])).tolist()
    [-0.5, 1.0]
    """

    def slope(self, reach: float = math.inf) -> float:
        return 1.0

    @property
    def curvature(self) -> float:
        return 0.25

    @property
    def smooth(self) -> bool:
        return True

    @property
    def one_signed(self) -> bool:
        return True

    @property
    def logistic(self) -> bool:
        return True

    def variation(self, reach: float) -> float:
        return reach  # log(1 + e^r) - log(1 + e^-r): half of slope times width

    def targets(self, owner: str, labels: Any, size: int) -> Array:
        return signs(owner, labels, size)

    def value(self, scores: Array, targets: Array) -> Array:
        return np.asarray(np.logaddexp(0.0, -targets * scores))

    def derivative(self, scores: Array, targets: Array) -> Array:
        return np.asarray(-targets * expit(-targets * scores))

    def second_derivative(self, scores: Array, targets: Array) -> Array:
        return np.asarray(expit(scores) * expit(-scores))


@final
@dataclass(frozen=True)
class HuberHinge(LinearLoss):
    """The hinge max(0, 1 - m) with its corner rounded over [1 - h, 1 + h]: |phi'| <= 1, phi'' <= 1/(2h).

    ``phi = 0`` for m > 1 + h, ``(1 + h - m)^2/(4h)`` in between, ``1 - m`` for m < 1 - h. Continuously differentiable,
    not twice, so objective perturbation cannot use it.

    Parameters
    ----------
    width : float
        h > 0.
    """

    width: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", _check.real("HuberHinge", "width", self.width, low=0.0, open_low=True))

    def slope(self, reach: float = math.inf) -> float:
        return 1.0

    @property
    def curvature(self) -> float:
        return 1.0 / (2.0 * self.width)

    def variation(self, reach: float) -> float:
        ends = self.value(np.array([-reach, reach]), np.ones(2))
        return float(ends[0] - ends[1])

    def targets(self, owner: str, labels: Any, size: int) -> Array:
        return signs(owner, labels, size)

    def _short(self, scores: Array, targets: Array) -> Array:
        return np.asarray(np.clip((1.0 + self.width - targets * scores) / (2.0 * self.width), 0.0, 1.0))

    def value(self, scores: Array, targets: Array) -> Array:
        margin = targets * scores
        return np.where(margin < 1.0 - self.width, 1.0 - margin, self.width * self._short(scores, targets) ** 2)

    def derivative(self, scores: Array, targets: Array) -> Array:
        return np.asarray(-targets * self._short(scores, targets))

    def second_derivative(self, scores: Array, targets: Array) -> Array:
        return np.where(np.abs(targets * scores - 1.0) <= self.width, self.curvature, 0.0)
