"""Balls of l2 and of l1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from dpaccount import _check
from solvers.sets.base import ROOM, Array, ConstraintSet, VertexSet
from solvers.sets.simplex import onto_simplex


def length(point: Array) -> float:
    """l2 norm without overflow or underflow."""
    largest = float(np.abs(point).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(point / largest))


@final
@dataclass(frozen=True)
class L2Ball(ConstraintSet):
    """|theta|_2 <= R; projection scales: ``theta min(1, R/|theta|)``.

    Parameters
    ----------
    size : float
        R > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.sets import L2Ball
    >>> L2Ball(1.0).project(np.array([3.0, 4.0])).round(12).tolist()
    [0.6, 0.8]
    """

    size: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _check.real("L2Ball", "size", self.size, low=0.0, open_low=True))

    def project(self, point: Array) -> Array:
        norm = length(point)
        return point.copy() if norm <= self.size else np.asarray(point * (self.size / norm))

    def contains(self, point: Array, tolerance: float = ROOM) -> bool:
        return length(point) <= self.size * (1.0 + tolerance)

    def diameter(self, dimension: int) -> float:
        return 2.0 * self.size

    def radius(self, dimension: int) -> float:
        return self.size

    def inner_radius(self, dimension: int) -> float:
        return self.size

    def minimise_linear(self, direction: Array) -> Array:
        norm = length(direction)
        return np.zeros(direction.shape) if norm == 0.0 else np.asarray(direction * (-self.size / norm))


@final
@dataclass(frozen=True)
class L1Ball(VertexSet):
    """|theta|_1 <= R, the hull of +-R e_j: vertex j is R e_j, vertex d + j is -R e_j.

    Projection subtracts one threshold from every |theta_j|, found by sorting (Duchi and others 2008).

    Parameters
    ----------
    size : float
        R > 0.
    """

    size: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _check.real("L1Ball", "size", self.size, low=0.0, open_low=True))

    def project(self, point: Array) -> Array:
        size = np.abs(point)
        if math.fsum(size) <= self.size:
            return point.copy()
        return np.copysign(onto_simplex(size, self.size), point)

    def contains(self, point: Array, tolerance: float = ROOM) -> bool:
        return math.fsum(np.abs(point)) <= self.size * (1.0 + tolerance)

    def diameter(self, dimension: int) -> float:
        return 2.0 * self.size

    def radius(self, dimension: int) -> float:
        return self.size

    def inner_radius(self, dimension: int) -> float:
        return self.size / math.sqrt(dimension)

    def vertex_count(self, dimension: int) -> int:
        return 2 * dimension

    def vertex_scores(self, direction: Array) -> Array:
        return self.size * np.concatenate([direction, -direction])

    def vertex(self, index: int, dimension: int) -> Array:
        out = np.zeros(dimension)
        out[index % dimension] = self.size if index < dimension else -self.size
        return out

    @property
    def l1_radius(self) -> float:
        return self.size

    def minimise_linear(self, direction: Array) -> Array:
        place = int(np.argmax(np.abs(direction)))
        return self.vertex(place + (len(direction) if direction[place] > 0.0 else 0), len(direction))
