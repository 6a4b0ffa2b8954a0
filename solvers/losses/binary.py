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
    hint = "Code the two classes as -1 and 1."
    found = of_length(owner, _check.reals(owner, "labels", labels, hint=hint, private=True), size)
    bad = np.abs(found) != 1.0
    if bad.any():
        _check.refuse(owner, "labels", "-1 or 1", _check.WITHHELD, hint)
    return found


@final
@dataclass(frozen=True)
class Logistic(LinearLoss):
    """phi = log(1 + e^{k - m}), m = yz, labels -1 and 1: |phi'| <= 1, phi'' <= 1/4.

    With `steepest` = c < 1 the loss goes on as a line of slope -c below the margin k + ln((1-c)/c) where it has that slope: the convex
    loss that descent by clipped gradients descends. At k = 0 and c = 1/2, its slope at margin 0, it needs half the noise. A `margin`
    k > 0 does the same for objective perturbation, and stays smooth: records pull with 1/(1 + e^{-k}) of their bound at margin 0.

    Parameters
    ----------
    steepest : float
        c in (0, 1]. Below 1 the loss is not twice differentiable.
    margin : float
        k in [0, 100]. The most likely class stays the best guess; `probability` says how likely.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.losses import Logistic
    >>> Logistic().derivative(np.array([0.0, 50.0]), np.array([1.0, -1.0])).tolist()
    [-0.5, 1.0]
    """

    steepest: float = 1.0
    margin: float = 0.0

    def __post_init__(self) -> None:
        found = _check.real("Logistic", "steepest", self.steepest, low=0.0, high=1.0, open_low=True)
        object.__setattr__(self, "steepest", found)
        object.__setattr__(self, "margin", _check.real("Logistic", "margin", self.margin, low=0.0, high=100.0))

    @property
    def _bend(self) -> float:
        """The margin below which the loss is a line."""
        return self.margin + math.log1p(-self.steepest) - math.log(self.steepest) if self.steepest < 1.0 else -math.inf

    def slope(self, reach: float = math.inf) -> float:
        return self.steepest

    @property
    def curvature(self) -> float:
        return 0.25 if self.steepest >= 0.5 else self.steepest * (1.0 - self.steepest)

    @property
    def smooth(self) -> bool:
        return self.steepest == 1.0

    @property
    def one_signed(self) -> bool:
        return True

    @property
    def logistic(self) -> bool:
        return True

    def variation(self, reach: float) -> float:
        if not self.margin:
            return reach  # log(1 + e^r) - log(1 + e^-r): half of slope times width
        if reach > 300.0:  # of the loss without its line, which falls no less: log(1 + e^{k+r}) - log(1 + e^{k-r}), without cancellation
            curved = self.margin + reach
        else:
            curved = math.log1p(math.expm1(2.0 * reach) * float(expit(self.margin - reach)))
        return min(curved * (1.0 + 1e-14), 2.0 * reach * self.steepest)

    @property
    def magnitude(self) -> float:
        return max(self.margin, 1.0)

    def targets(self, owner: str, labels: Any, size: int) -> Array:
        return signs(owner, labels, size)

    def value(self, scores: Array, targets: Array) -> Array:
        margin = targets * scores
        curved = np.maximum(margin, self._bend)
        return np.asarray(np.logaddexp(0.0, self.margin - curved) + self.steepest * (curved - margin))

    def derivative(self, scores: Array, targets: Array) -> Array:
        return np.asarray(-targets * np.minimum(expit(self.margin - targets * scores), self.steepest))

    def second_derivative(self, scores: Array, targets: Array) -> Array:
        margin = targets * scores
        return np.where(margin >= self._bend, expit(margin - self.margin) * expit(self.margin - margin), 0.0)

    def probability(self, scores: Array) -> Array:
        """Of label 1 where z is best for a mixed crowd: the share q with ``q phi'(z) = (1 - q) phi'(-z)``; 1/(1 + e^{-z}) at k = 0."""
        up, down = (np.minimum(expit(self.margin + sign * scores), self.steepest) for sign in (1.0, -1.0))
        return np.asarray(up / (up + down))


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
        """The integral of the slope over [-r, r]: its line and its bend, none of them negative, so that nothing cancels."""
        h = self.width
        line = max(min(reach, 1.0 - h) + reach, 0.0)
        low, high = max(-reach, 1.0 - h), min(reach, 1.0 + h)
        bend = max(high - low, 0.0) * 0.5 * sum(min(max((1.0 + h - m) / (2.0 * h), 0.0), 1.0) for m in (low, high))
        return min((line + bend) * (1.0 + 1e-14), 2.0 * reach)

    @property
    def magnitude(self) -> float:
        return max(self.width, 1.0)

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
