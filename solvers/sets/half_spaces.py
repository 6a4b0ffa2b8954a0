"""Intersections of a few half-spaces."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from dpaccount import _check
from solvers.sets.base import ROOM, Array, ConstraintSet

MOST = 12  # half-spaces: a projection looks at up to 2^12 faces
DEPENDENT = 1e-9  # least singular value of unit normals that count as independent
DUST = 1e-12


@final
@dataclass(frozen=True, eq=False)
class HalfSpaces(ConstraintSet):
    """<a_i, theta> <= b_i for every i: one half-space or up to twelve, in p dimensions.

    The projection is ``z - sum of l_i a_i`` over the face whose multipliers are not negative and whose point is in the set. Faces are
    tried in order, small ones first.

    Parameters
    ----------
    normals : array (m, p) or (p,)
        The a_i, finite and not 0, of any length.
    offsets : array (m,) or float
        The b_i. The set must not be empty.

    Guarantee
    ---------
    `radius` and `diameter` are inf, even where half-spaces happen to enclose a bounded set: ask a `Box` or a `Polytope` for sizes.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.sets import HalfSpaces
    >>> HalfSpaces([[1.0, 1.0], [0.0, 2.0]], [1.0, 0.0]).project(np.array([3.0, 1.0])).round(12).tolist()
    [1.5, -0.5]
    """

    normals: Any
    offsets: Any

    def __post_init__(self) -> None:
        normals = np.atleast_2d(_check.reals("HalfSpaces", "normals", self.normals))
        if normals.ndim != 2 or not normals.size or len(normals) > MOST:
            _check.refuse("HalfSpaces", "normals", f"a matrix of at most {MOST} rows, one normal each", np.shape(self.normals))
        offsets = np.atleast_1d(_check.reals("HalfSpaces", "offsets", self.offsets))
        if offsets.shape != (len(normals),):
            _check.refuse("HalfSpaces", "offsets", f"one number for each of {len(normals)} normals", np.shape(self.offsets))
        largest = np.abs(normals).max(axis=1, keepdims=True)
        if not largest.all():
            _check.refuse("HalfSpaces", "normals", "not 0", 0.0, "A normal of 0 says nothing about theta.")
        length = np.linalg.norm(normals / largest, axis=1)
        with np.errstate(over="ignore"):
            unit, offsets = normals / largest / length[:, None], offsets / largest[:, 0] / length
        if not np.isfinite(offsets).all():
            _check.refuse("HalfSpaces", "offsets", "within reach of their normals", self.offsets, "Scale both alike.")
        for name, value in (("normals", unit), ("offsets", offsets)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        if self._nearest(np.zeros(unit.shape[1])) is None:
            _check.refuse("HalfSpaces", "offsets", "those of a set that is not empty", self.offsets, "No point is in all half-spaces.")

    def __repr__(self) -> str:
        return f"HalfSpaces(<{self.normals.shape[0]} in {self.normals.shape[1]} dimensions>)"

    @property
    def dimension(self) -> int | None:
        return int(self.normals.shape[1])

    @cached_property
    def _faces(self) -> list[tuple[list[int], Array]]:
        """Sets of independent normals, small ones first, each with the inverse of its Gram matrix."""
        found = []
        many, p = self.normals.shape
        for size in range(1, min(many, p) + 1):
            for chosen in itertools.combinations(range(many), size):
                rows = self.normals[list(chosen)]
                if np.linalg.svd(rows, compute_uv=False)[-1] > DEPENDENT:
                    found.append((list(chosen), np.linalg.inv(rows @ rows.T)))
        return found

    def _over(self, point: Array) -> Array:
        return np.asarray(self.normals @ point - self.offsets)

    def _room(self, point: Array) -> float:
        return float(np.abs(self.offsets).max() + np.abs(point).max())

    def _nearest(self, point: Array) -> Array | None:
        over = self._over(point)
        if (over <= 0.0).all():
            return point.copy()
        room = DUST * self._room(point)
        best, least = None, room
        for chosen, inverse in self._faces:
            multipliers = inverse @ over[chosen]
            if (multipliers >= -room).all():
                found = self._on_face(point - self.normals[chosen].T @ multipliers, chosen, inverse)
                beyond = float(self._over(found).max())
                if beyond <= DUST * self._room(found):
                    return found
                if beyond <= least:
                    best, least = found, beyond
        return best

    def _on_face(self, point: Array, chosen: list[int], inverse: Array) -> Array:
        """Brought back to the face to the last digits, which are lost on the way from afar."""
        if len(chosen) == len(point):
            return np.linalg.solve(self.normals[chosen], self.offsets[chosen])
        for _ in range(2):
            point = point - self.normals[chosen].T @ (inverse @ self._over(point)[chosen])
        return point

    def project(self, point: Array) -> Array:
        found = self._nearest(np.asarray(point, dtype=float))
        if found is None:
            hint = "Normals that are almost parallel lose the digits."
            _check.refuse("HalfSpaces", "normals", "such that the nearest point is found", self, hint, RuntimeError)
        return found

    def contains(self, point: Array, tolerance: float = ROOM) -> bool:
        return bool((self._over(point) <= tolerance * self._room(point)).all())

    def diameter(self, dimension: int) -> float:
        return math.inf

    def radius(self, dimension: int) -> float:
        return math.inf

    def inner_radius(self, dimension: int) -> float:
        """A lower bound: the slack at a point that a linear program finds; inf for one half-space."""
        if len(self.normals) == 1:
            return math.inf
        from scipy.optimize import linprog

        p = self.normals.shape[1]
        far = 1e3 * (1.0 + float(np.abs(self.offsets).max()))
        table = np.hstack([self.normals, np.ones((len(self.normals), 1))])
        found = linprog(np.append(np.zeros(p), -1.0), table, self.offsets, bounds=[(-far, far)] * p + [(0.0, far)])
        return max(0.0, float(-self._over(found.x[:p]).max()) * (1.0 - 1e-9)) if found.x is not None else 0.0

    def minimise_linear(self, direction: Array) -> Array:
        from scipy.optimize import linprog

        size = float(np.abs(direction).max(initial=0.0))
        found = linprog(np.asarray(direction) / (size or 1.0), self.normals, self.offsets, bounds=[(None, None)] * len(direction))
        if found.x is None:
            _check.refuse("HalfSpaces", "direction", "bounded below on the set", direction, "A linear function has no minimum there.")
        return self.project(np.asarray(found.x))
