"""Gaussians restricted to a convex set, exactly: coordinate by coordinate, or by rejection that stays quick where the centre is outside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from solvers.sampler.stock import Stock
from solvers.sampler.truncated import truncated
from solvers.sets import Box, ConstraintSet, HalfSpaces, L1Ball, L2Ball, WholeSpace

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
MOST_ROUNDS = 10_000
AT_ONCE = 64  # proposals for one place after the first failed
CLOSE, MARGIN = 0.05, 1e-3  # deviations: how far outside a centre must be, and how much is forgiven to a rounded projection
EQUAL = 1e-15


class Restricted(ABC):
    """Draws from N(c, s^2 I) conditional on a set K."""

    def __init__(self, stock: Stock) -> None:
        self.stock = stock

    @abstractmethod
    def draw(self, centres: Array, scale: float, many: int) -> Array:
        """`many` independent points for each centre, (centres, many, d)."""

    def _free(self, centres: Array, scale: float, many: int) -> Array:
        return np.asarray(centres[:, None, :] + scale * self.stock.gaussian((len(centres), many, centres.shape[1])))


class Free(Restricted):
    """Of the whole space: nothing is restricted."""

    def draw(self, centres: Array, scale: float, many: int) -> Array:
        return self._free(centres, scale, many)


class ByCoordinates(Restricted):
    """Where K is low <= <e_j, x> <= high for orthonormal e_j: coordinates are independent, and each is drawn exactly.

    A coordinate that comes out inside is kept; one that does not is drawn anew from its truncated law, which no interval makes slow.
    """

    def __init__(self, frame: Array | None, low: Array, high: Array, stock: Stock) -> None:
        super().__init__(stock)
        self.frame, self.low, self.high = frame, low, high

    def draw(self, centres: Array, scale: float, many: int) -> Array:
        points = self._free(centres, scale, many)
        along, middle = (points, centres) if self.frame is None else (points @ self.frame.T, centres @ self.frame.T)
        wrong = np.nonzero((along < self.low) | (along > self.high))
        if not wrong[0].size:
            return points
        c, low, high = middle[wrong[0], wrong[2]], self.low[wrong[2]], self.high[wrong[2]]
        again = np.clip(c + scale * truncated((low - c) / scale, (high - c) / scale, self.stock), low, high)
        if self.frame is None:
            points[wrong] = again
            return points
        change = np.zeros(along.shape)
        change[wrong] = again - along[wrong]
        return np.asarray(points + change @ self.frame)


class ByRejection(Restricted):
    """A centre inside is proposed around as it is. For a centre c outside, K lies in the half-space beyond the nearest point p of K,
    ``<x - p, c - p> <= 0``; the Gaussian restricted to that half-space is drawn exactly, and kept if it is in K.
    """

    def __init__(self, constraint: ConstraintSet, inside: Callable[[Array], Mask], stock: Stock) -> None:
        super().__init__(stock)
        self.constraint, self.inside = constraint, inside

    def draw(self, centres: Array, scale: float, many: int) -> Array:
        way, gap = self._directions(centres, scale)
        points = self._proposed(centres, way, gap, scale, many)
        missing = ~self.inside(points)
        for _ in range(MOST_ROUNDS):
            if not missing.any():
                return points
            chain, slot = np.nonzero(missing)
            again = self._proposed(centres[chain], way[chain], gap[chain], scale, AT_ONCE)
            ok = self.inside(again)
            first = ok.argmax(axis=1)
            found = ok[np.arange(len(chain)), first]
            points[chain[found], slot[found]] = again[np.flatnonzero(found), first[found]]
            missing[chain[found], slot[found]] = False
        hint = "A smaller step stays closer to the set; a set that is flat or thin is met by chance alone."
        _check.refuse("sample", "plan", f"one whose Gaussians reach {self.constraint!r}", scale, hint, RuntimeError)

    def _proposed(self, centres: Array, way: Array, gap: Array, scale: float, many: int) -> Array:
        noise = self.stock.gaussian((len(centres), many, centres.shape[1]))
        (far,) = np.nonzero(gap > 0.0)
        if far.size:
            along = np.einsum("ijk,ik->ij", noise[far], way[far])
            end = np.repeat(-gap[far] / scale, many).reshape(along.shape)
            new = truncated(np.full(along.shape, -np.inf), end, self.stock)
            noise[far] += (new - along)[:, :, None] * way[far, None, :]
        return np.asarray(centres[:, None, :] + scale * noise)

    def _directions(self, centres: Array, scale: float) -> tuple[Array, Array]:
        """Away from the set, a unit vector, and how far outside each centre is; 0 inside, and so close to it that rounding would tell.

        The half-space is a little larger than it need be, so that a projection rounded in its last digits loses nothing of K.
        """
        way, gap = np.zeros(centres.shape), np.zeros(len(centres))
        (far,) = np.nonzero(~self.inside(centres))
        for i in far:
            apart = centres[i] - self.constraint.project(centres[i])
            size = float(np.linalg.norm(apart))
            if size > CLOSE * scale:
                way[i], gap[i] = apart / size, size - MARGIN * scale
        return way, gap


def restricted(constraint: ConstraintSet, dimension: int, stock: Stock, owner: str) -> Restricted:
    """The way that serves a set. Sets without an interior are refused."""
    if isinstance(constraint, WholeSpace):
        return Free(stock)
    if isinstance(constraint, Box):
        low, high = (np.broadcast_to(np.asarray(end, dtype=float), dimension) for end in (constraint.low, constraint.high))
        return ByCoordinates(None, low, high, stock)
    if isinstance(constraint, HalfSpaces) and (frame := orthogonal_frame(constraint)) is not None:
        return ByCoordinates(*frame, stock)
    return ByRejection(constraint, inside_of(constraint, owner), stock)


def orthogonal_frame(constraint: HalfSpaces) -> tuple[Array, Array, Array] | None:
    """Unit vectors and their ends, where every two normals are orthogonal or (anti)parallel; None otherwise."""
    frame: list[Array] = []
    ends: list[list[float]] = []
    for normal, offset in zip(constraint.normals, constraint.offsets, strict=True):
        for e, end in zip(frame, ends, strict=True):
            if np.abs(normal - e).max() <= EQUAL:
                end[1] = min(end[1], offset)
                break
            if np.abs(normal + e).max() <= EQUAL:
                end[0] = max(end[0], -offset)
                break
            if abs(float(normal @ e)) > EQUAL:
                return None
        else:
            frame.append(normal)
            ends.append([-np.inf, offset])
    low, high = np.array(ends).T
    return np.array(frame), low, np.maximum(low, high)


def inside_of(constraint: ConstraintSet, owner: str) -> Callable[[Array], Mask]:
    """A function from points (..., d) to whether each is in the set."""
    if isinstance(constraint, L2Ball):
        square = constraint.size**2
        return lambda points: np.asarray(np.einsum("...i,...i->...", points, points) <= square)
    if isinstance(constraint, L1Ball):
        size = constraint.size
        return lambda points: np.asarray(np.abs(points).sum(axis=-1) <= size)
    if isinstance(constraint, HalfSpaces):
        return lambda points: np.asarray((points @ constraint.normals.T <= constraint.offsets).all(axis=-1))
    domain = "one on the whole space, a ball, an l1 ball, a box or half-spaces"
    _check.refuse(owner, "problem", domain, constraint, "A Gaussian is restricted to it.")
