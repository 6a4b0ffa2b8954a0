"""Hulls of vertices: the simplex, and any polytope given by its vertices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from dpaccount import _check
from solvers.sets.base import ROOM, Array, VertexSet
from solvers.sets.nearest import nearest_in_hull
from solvers.sets.simplex import onto_simplex


@final
@dataclass(frozen=True)
class Simplex(VertexSet):
    """theta >= 0 with sum R, the hull of R e_j.

    Parameters
    ----------
    size : float
        R > 0.
    """

    size: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _check.real("Simplex", "size", self.size, low=0.0, open_low=True))

    def project(self, point: Array) -> Array:
        return onto_simplex(point, self.size)

    def contains(self, point: Array, tolerance: float = ROOM) -> bool:
        room = tolerance * self.size
        return bool(np.all(point >= -room)) and abs(math.fsum(point) - self.size) <= room

    def diameter(self, dimension: int) -> float:
        return self.size * math.sqrt(2.0) if dimension > 1 else 0.0

    def radius(self, dimension: int) -> float:
        return self.size

    def inner_radius(self, dimension: int) -> float:
        return 0.0

    def vertex_count(self, dimension: int) -> int:
        return dimension

    def vertex_scores(self, direction: Array) -> Array:
        return self.size * direction

    def vertex(self, index: int, dimension: int) -> Array:
        out = np.zeros(dimension)
        out[index] = self.size
        return out

    @property
    def l1_radius(self) -> float:
        return self.size


@final
@dataclass(frozen=True, eq=False)
class Polytope(VertexSet):
    """The hull of given points. Projection by Wolfe's minimum-norm-point method, which ends after finitely many steps.

    Parameters
    ----------
    vertices : array (m, p)
        Finite, m >= 1. Points inside the hull of the others do no harm.
    """

    vertices: Any

    def __post_init__(self) -> None:
        found = _check.reals("Polytope", "vertices", self.vertices)
        if found.ndim != 2 or not found.size:
            _check.refuse("Polytope", "vertices", "a matrix, one vertex a row", np.shape(self.vertices))
        found = found.copy()
        found.setflags(write=False)
        object.__setattr__(self, "vertices", found)

    def __repr__(self) -> str:
        return f"Polytope(<{self.vertices.shape[0]} vertices in {self.vertices.shape[1]} dimensions>)"

    @property
    def dimension(self) -> int | None:
        return int(self.vertices.shape[1])

    def project(self, point: Array) -> Array:
        return nearest_in_hull(self.vertices, point)

    def contains(self, point: Array, tolerance: float = ROOM) -> bool:
        return float(np.linalg.norm(self.project(point) - point)) <= tolerance * max(self.radius(len(point)), 1e-300)

    @cached_property
    def _diameter(self) -> float:
        return max(float(np.linalg.norm(self.vertices - vertex, axis=1).max()) for vertex in self.vertices)

    def diameter(self, dimension: int) -> float:
        return self._diameter

    def radius(self, dimension: int) -> float:
        return float(np.linalg.norm(self.vertices, axis=1).max())

    def inner_radius(self, dimension: int) -> float:
        return 0.0  # a lower bound: the true one takes a linear program

    def vertex_count(self, dimension: int) -> int:
        return int(self.vertices.shape[0])

    def vertex_scores(self, direction: Array) -> Array:
        return np.asarray(self.vertices @ direction)

    def vertex(self, index: int, dimension: int) -> Array:
        return np.asarray(self.vertices[index].copy())

    @property
    def l1_radius(self) -> float:
        return float(np.abs(self.vertices).sum(axis=1).max())
