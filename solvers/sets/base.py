"""What an algorithm may ask of a constraint set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaccount import _check

Array = npt.NDArray[np.float64]
ROOM = 1e-9  # relative to the set's size: what `contains` forgives by default


class ConstraintSet(ABC):
    """A closed convex subset of R^p. Sets whose size does not fix p, such as a ball, serve every p."""

    @property
    def dimension(self) -> int | None:
        """p, or None where the set serves every p."""
        return None

    @abstractmethod
    def project(self, point: Array) -> Array:
        """The nearest point of the set, in l2: exact but for rounding, by a finite method."""

    @abstractmethod
    def contains(self, point: Array, tolerance: float = ROOM) -> bool:
        """Whether the point is in the set, or outside by no more than `tolerance` times the set's size."""

    @abstractmethod
    def diameter(self, dimension: int) -> float:
        """Largest l2 distance of two of its points; inf where there is none."""

    @abstractmethod
    def radius(self, dimension: int) -> float:
        """Largest |theta|_2 over the set; inf where there is none."""

    @abstractmethod
    def minimise_linear(self, direction: Array) -> Array:
        """A point that minimises <direction, theta>; refused where there is none."""

    @abstractmethod
    def inner_radius(self, dimension: int) -> float:
        """Largest r such that some ball of radius r lies in the set, or a lower bound on it; 0 for flat sets."""

    def start(self, dimension: int) -> Array:
        """The point nearest to 0, which knows no record."""
        return self.project(np.zeros(dimension))

    def checked(self, owner: str, name: str, point: Any, dimension: int) -> Array:
        """A point given by the user, if it is in the set."""
        found = _check.reals(owner, name, point)
        if found.shape != (dimension,):
            _check.refuse(owner, name, f"a point of {dimension} numbers", found.shape)
        if not self.contains(found):
            _check.refuse(owner, name, f"a point of {self!r}", point, "Project it first, if that is what you mean.")
        return found


class VertexSet(ConstraintSet):
    """The convex hull of finitely many vertices, which Frank-Wolfe picks from."""

    @abstractmethod
    def vertex_count(self, dimension: int) -> int:
        """How many vertices."""

    @abstractmethod
    def vertex_scores(self, direction: Array) -> Array:
        """<direction, s> of every vertex s, in the order of `vertex`."""

    @abstractmethod
    def vertex(self, index: int, dimension: int) -> Array:
        """The vertex of that index."""

    @property
    @abstractmethod
    def l1_radius(self) -> float:
        """Largest |s|_1 of a vertex: a gradient entry that moves by D moves a score by at most D times this."""

    def minimise_linear(self, direction: Array) -> Array:
        return self.vertex(int(np.argmin(self.vertex_scores(direction))), len(direction))
