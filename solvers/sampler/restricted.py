"""Gaussians restricted to a convex set, exactly, by rejection that stays quick where the centre is outside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from dpaccount import _check
from solvers.sampler.stock import Stock
from solvers.sets import Box, ConstraintSet, L1Ball, L2Ball, WholeSpace

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
MOST_ROUNDS = 10_000
AT_ONCE = 64  # proposals for one place after the first failed


class Restricted:
    """Draws from N(c, s^2 I) conditional on a set K.

    A centre inside is proposed around as it is. For a centre c outside, K lies in the half-space beyond the nearest point p of K,
    ``<x - p, c - p> <= 0``; the Gaussian restricted to that half-space is drawn exactly, one coordinate along c - p from its tail
    and the others free, and kept if it is in K.
    """

    def __init__(self, constraint: ConstraintSet, stock: Stock, owner: str) -> None:
        self.constraint, self.stock = constraint, stock
        self.inside = _inside(constraint, owner)
        self.outside = 0  # proposals that were not in the set

    def draw(self, centres: Array, scale: float, many: int) -> Array:
        """`many` independent points for each centre, (centres, many, d)."""
        way, gap = self._directions(centres)
        points = self._proposed(centres, way, gap, scale, many)
        missing = ~self.inside(points)
        for _ in range(MOST_ROUNDS):
            if not missing.any():
                return points
            chain, slot = np.nonzero(missing)
            self.outside += len(chain)
            again = self._proposed(centres[chain], way[chain], gap[chain], scale, AT_ONCE)
            ok = self.inside(again)
            first = ok.argmax(axis=1)
            found = ok[np.arange(len(chain)), first]
            points[chain[found], slot[found]] = again[np.flatnonzero(found), first[found]]
            missing[chain[found], slot[found]] = False
        hint = "A smaller step stays closer to the set."
        _check.refuse("sample", "plan", f"one whose Gaussians reach {self.constraint!r}", scale, hint, RuntimeError)

    def _proposed(self, centres: Array, way: Array, gap: Array, scale: float, many: int) -> Array:
        noise = self.stock.gaussian((len(centres), many, centres.shape[1]))
        (far,) = np.nonzero(gap > 0.0)
        if far.size:
            along = np.einsum("ijk,ik->ij", noise[far], way[far])
            tail = ndtr(-gap[far] / scale)[:, None]
            new = ndtri(self.stock.uniform(along.size).reshape(along.shape) * np.maximum(tail, 1e-300))
            noise[far] += (new - along)[:, :, None] * way[far, None, :]
        return np.asarray(centres[:, None, :] + scale * noise)

    def _directions(self, centres: Array) -> tuple[Array, Array]:
        """Away from the set, a unit vector, and how far outside each centre is; 0 inside."""
        way, gap = np.zeros(centres.shape), np.zeros(len(centres))
        (far,) = np.nonzero(~self.inside(centres))
        for i in far:
            apart = centres[i] - self.constraint.project(centres[i])
            size = float(np.linalg.norm(apart))
            if size > 0.0:
                way[i], gap[i] = apart / size, size * (1.0 - 1e-12)
        return way, gap


def _inside(constraint: ConstraintSet, owner: str) -> Callable[[Array], Mask]:
    """A function from points (..., d) to whether each is in the set. Sets without an interior are refused."""
    if isinstance(constraint, WholeSpace):
        return lambda points: np.ones(points.shape[:-1], dtype=bool)
    if isinstance(constraint, L2Ball):
        square = constraint.size**2
        return lambda points: np.asarray(np.einsum("...i,...i->...", points, points) <= square)
    if isinstance(constraint, L1Ball):
        size = constraint.size
        return lambda points: np.asarray(np.abs(points).sum(axis=-1) <= size)
    if isinstance(constraint, Box):
        low, high = np.asarray(constraint.low), np.asarray(constraint.high)
        return lambda points: np.asarray(((points >= low) & (points <= high)).all(axis=-1))
    _check.refuse(owner, "problem", "one on the whole space, a ball, an l1 ball or a box", constraint, "A Gaussian is restricted to it.")
