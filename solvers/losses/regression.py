"""Losses of a number: squared with a bounded label, squared with a clipped or bending residual, quantile and absolute."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dpaccount import _check
from solvers.losses.base import Array
from solvers.losses.linear import LinearLoss, real_labels

FAR = 1e60


@final
@dataclass(frozen=True)
class Squared(LinearLoss):
    """phi = (z - y)^2/2 with labels clipped to [-B, B]: |phi'| <= B + |z|, phi'' = 1.

    Lipschitz on a bounded set alone: B + R |theta|. Without one an algorithm must clip gradients.

    Parameters
    ----------
    label_bound : float
        B > 0, public; labels beyond it are clipped inside the mechanism.
    """

    label_bound: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "label_bound", _check.real("Squared", "label_bound", self.label_bound, low=0.0, open_low=True))

    def slope(self, reach: float = math.inf) -> float:
        return self.label_bound + reach

    def variation(self, reach: float) -> float:
        bound = self.label_bound
        return 2.0 * bound * reach if reach <= bound else 0.5 * (reach + bound) ** 2

    @property
    def magnitude(self) -> float:
        return self.label_bound

    @property
    def curvature(self) -> float:
        return 1.0

    @property
    def smooth(self) -> bool:
        return True

    def targets(self, owner: str, labels: Any, size: int) -> Array:
        return np.clip(real_labels(owner, labels, size), -self.label_bound, self.label_bound)

    def value(self, scores: Array, targets: Array) -> Array:
        return np.asarray(0.5 * (scores - targets) ** 2)

    def derivative(self, scores: Array, targets: Array) -> Array:
        return np.asarray(scores - targets)

    def second_derivative(self, scores: Array, targets: Array) -> Array:
        return np.ones(scores.shape)


@final
@dataclass(frozen=True)
class ClippedSquared(LinearLoss):
    """(z - y)^2/2 whose residual counts up to c, which is Huber's loss: phi' = clip(z - y, -c, c), phi'' <= 1.

    Parameters
    ----------
    residual_bound : float
        c > 0: Lipschitz everywhere, whatever the label. Not twice differentiable at |z - y| = c.
    """

    residual_bound: float = 1.0

    def __post_init__(self) -> None:
        found = _check.real("ClippedSquared", "residual_bound", self.residual_bound, low=0.0, open_low=True)
        object.__setattr__(self, "residual_bound", found)

    def slope(self, reach: float = math.inf) -> float:
        return self.residual_bound

    @property
    def curvature(self) -> float:
        return 1.0

    def targets(self, owner: str, labels: Any, size: int) -> Array:
        return real_labels(owner, labels, size)

    def value(self, scores: Array, targets: Array) -> Array:
        residual = np.abs(scores - targets)
        inside = np.minimum(residual, self.residual_bound)
        return np.asarray(inside * (residual - 0.5 * inside))

    def anchored(self, targets: Array, reach: float) -> Array:
        return np.clip(targets, -reach - self.residual_bound, reach + self.residual_bound)

    @property
    def magnitude(self) -> float:
        return self.residual_bound

    def derivative(self, scores: Array, targets: Array) -> Array:
        return np.clip(scores - targets, -self.residual_bound, self.residual_bound)

    def second_derivative(self, scores: Array, targets: Array) -> Array:
        return np.where(np.abs(scores - targets) <= self.residual_bound, 1.0, 0.0)


@final
@dataclass(frozen=True)
class PseudoHuber(LinearLoss):
    """``phi = c^2 (sqrt(1 + r^2) - 1)`` with r = (z - y)/c, near squares and far lines: |phi'| < c, 0 < phi'' <= 1, all derivatives exist.

    ``phi' = c r/sqrt(1 + r^2)`` and ``phi'' = (1 + r^2)^{-3/2} = (1 - t^2)^{3/2}`` where |phi'| = t c: the smooth relative of
    `ClippedSquared`, for objective perturbation.

    Parameters
    ----------
    residual_scale : float
        c > 0: Lipschitz everywhere, whatever the label.

    References
    ----------
    Charbonnier, Blanc-Feraud, Aubert, Barlaud (1997).

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.losses import PseudoHuber
    >>> PseudoHuber(2.0).derivative(np.array([0.0, 1.5, 1e9]), np.zeros(3)).tolist()
    [0.0, 1.2, 2.0]
    """

    residual_scale: float = 1.0

    def __post_init__(self) -> None:
        found = _check.real("PseudoHuber", "residual_scale", self.residual_scale, low=0.0, open_low=True)
        object.__setattr__(self, "residual_scale", found)

    def slope(self, reach: float = math.inf) -> float:
        return self.residual_scale

    @property
    def curvature(self) -> float:
        return 1.0

    @property
    def smooth(self) -> bool:
        return True

    @property
    def saturating(self) -> bool:
        return True  # (1 - t^2)^{3/2} <= 1 - t^2

    def targets(self, owner: str, labels: Any, size: int) -> Array:
        return real_labels(owner, labels, size)

    def anchored(self, targets: Array, reach: float) -> Array:
        """Clipped where slopes over the reach are within 5e-9 of c: a label that is clipped by itself is as good a label."""
        far = reach + 1e4 * self.residual_scale
        return np.clip(targets, -far, far)

    @property
    def magnitude(self) -> float:
        return 1e4 * self.residual_scale

    def _root(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        """r, cut where doubles no longer tell phi' from c, and sqrt(1 + r^2)."""
        with np.errstate(over="ignore"):
            ratio = np.clip((scores - targets) / self.residual_scale, -FAR, FAR)
        return ratio, np.hypot(1.0, ratio)

    def value(self, scores: Array, targets: Array) -> Array:
        ratio, root = self._root(scores, targets)
        return np.asarray(self.residual_scale * (scores - targets) * (ratio / (1.0 + root)))  # no cancellation near 0

    def derivative(self, scores: Array, targets: Array) -> Array:
        ratio, root = self._root(scores, targets)
        return np.asarray(self.residual_scale * (ratio / root))

    def second_derivative(self, scores: Array, targets: Array) -> Array:
        _, root = self._root(scores, targets)
        return np.asarray((1.0 / root) ** 3)


@final
@dataclass(frozen=True)
class Quantile(LinearLoss):
    """phi = (y - z)(q - 1{y < z}), least at the q-quantile; q = 1/2 is half the absolute error. |phi'| <= max(q, 1 - q).

    Parameters
    ----------
    level : float
        q in (0, 1). phi' jumps at z = y, where 0 is taken: no smoothness, so objective perturbation refuses it.
    """

    level: float = 0.5

    def __post_init__(self) -> None:
        found = _check.real("Quantile", "level", self.level, low=0.0, high=1.0, open_low=True, open_high=True)
        object.__setattr__(self, "level", found)

    def slope(self, reach: float = math.inf) -> float:
        return max(self.level, 1.0 - self.level)

    @property
    def curvature(self) -> float:
        return math.inf

    def targets(self, owner: str, labels: Any, size: int) -> Array:
        return real_labels(owner, labels, size)

    def value(self, scores: Array, targets: Array) -> Array:
        short = targets - scores
        return np.asarray(np.maximum(self.level * short, (self.level - 1.0) * short))

    def anchored(self, targets: Array, reach: float) -> Array:
        return np.clip(targets, -reach, reach)

    def derivative(self, scores: Array, targets: Array) -> Array:
        return np.where(scores > targets, 1.0 - self.level, np.where(scores < targets, -self.level, 0.0))

    def second_derivative(self, scores: Array, targets: Array) -> Array:
        _check.refuse("Quantile", "second_derivative", "asked of a smooth loss", self.level, "This loss has a kink at z = y.")
