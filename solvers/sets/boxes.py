"""The box and the whole space."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dpaccount import _check
from solvers.sets.base import ROOM, Array, ConstraintSet


@final
@dataclass(frozen=True)
class WholeSpace(ConstraintSet):
    """No constraint: infinite diameter, so algorithms that need one refuse it."""

    def project(self, point: Array) -> Array:
        return point

    def contains(self, point: Array, tolerance: float = ROOM) -> bool:
        return True

    def diameter(self, dimension: int) -> float:
        return math.inf

    def radius(self, dimension: int) -> float:
        return math.inf

    def inner_radius(self, dimension: int) -> float:
        return math.inf

    def minimise_linear(self, direction: Array) -> Array:
        if np.any(direction):
            _check.refuse("WholeSpace", "direction", "0", direction, "A linear function has no minimum on the whole space.")
        return np.zeros(direction.shape)


@final
@dataclass(frozen=True)
class Box(ConstraintSet):
    """low <= theta <= high, entry by entry; projection clips.

    Parameters
    ----------
    low, high : float or sequence
        Finite, low <= high. Two numbers serve every dimension; sequences fix it.
    """

    low: Any
    high: Any

    def __post_init__(self) -> None:
        low, high = (_check.reals("Box", name, getattr(self, name)) for name in ("low", "high"))
        if low.ndim > 1 or high.ndim > 1 or (low.ndim and high.ndim and low.shape != high.shape) or not (low.size and high.size):
            _check.refuse("Box", "low", "numbers, or two sequences of one length", (self.low, self.high))
        if np.any(low > high):
            _check.refuse("Box", "low", "at most high", self.low, f"high is {self.high!r}. Are they the wrong way round?")
        for name, value in (("low", low), ("high", high)):
            object.__setattr__(self, name, tuple(value.tolist()) if value.ndim else float(value))

    @property
    def dimension(self) -> int | None:
        return next((len(end) for end in (self.low, self.high) if isinstance(end, tuple)), None)

    def _ends(self, dimension: int) -> tuple[Array, Array]:
        return np.broadcast_to(self.low, dimension), np.broadcast_to(self.high, dimension)

    def project(self, point: Array) -> Array:
        return np.clip(point, *self._ends(len(point)))

    def contains(self, point: Array, tolerance: float = ROOM) -> bool:
        low, high = self._ends(len(point))
        room = tolerance * max(float(np.abs(low).max()), float(np.abs(high).max()))
        return bool(np.all(point >= low - room) and np.all(point <= high + room))

    def diameter(self, dimension: int) -> float:
        low, high = self._ends(dimension)
        return float(np.linalg.norm(high - low))

    def radius(self, dimension: int) -> float:
        low, high = self._ends(dimension)
        return float(np.linalg.norm(np.maximum(np.abs(low), np.abs(high))))

    def inner_radius(self, dimension: int) -> float:
        low, high = self._ends(dimension)
        return float((high - low).min()) / 2.0

    def minimise_linear(self, direction: Array) -> Array:
        low, high = self._ends(len(direction))
        return np.where(direction > 0.0, low, high)
