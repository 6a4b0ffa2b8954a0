"""Draws from e^{-rate F}, F convex, by rejection under tangents on boxes that are cut where a draw was rejected."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from solvers.exact.kinks import log_mass, pick, within
from solvers.random import RandomSource

Array = npt.NDArray[np.float64]
MOST = 20_000  # boxes: beyond them the draw is refused
EDGE = 500  # boxes up to which those across the edge of C are cut to follow it
BATCH = 1024  # proposals at once, at most
ROOM = 1e-6  # how far a tangent may lie above the function through rounding of scores


class _Boxes(NamedTuple):
    """Disjoint boxes that cover C; on each the tangent of rate F at its centre."""

    centre: Array
    half: Array
    value: Array
    slope: Array
    log_mass: Array


class BoxSampler:
    """Exact rejection: propose from the piecewise exponential above the density, accept by their ratio, else cut the box in two.

    A tangent of a convex function lies below it, so the envelope lies above the density whatever the boxes; given the boxes, what is
    accepted has the density exactly, and boxes change only after rejections, so that draws are independent and exact. Cost: on a box with
    half sides h the ratio is at least ``e^{-rate sup h'F''h/2}``, so about ``prod_j |C| sqrt(rate F''_jj)`` boxes do everywhere, and only
    those where the density lies are ever cut; each costs one look at the data.

    `target` has ``values(points)``, ``gradients(points)``, ``inside(points)``, ``apart(centre, half)`` and ``rounding``, which bounds
    how far a value is off.

    Two refusals depend on the records, and are not covered by the guarantee of a draw: a tangent found above its function, which says that
    rounding has won, and more than 20,000 boxes.
    """

    def __init__(self, target: Any, rate: float, low: Array, high: Array) -> None:
        self.target, self.rate = target, rate
        self.boxes = self._made((0.5 * (low + high))[None, :], (0.5 * (high - low))[None, :])
        self.looks = 1

    def _made(self, centre: Array, half: Array) -> _Boxes:
        value, slope = self.rate * self.target.values(centre), self.rate * self.target.gradients(centre)
        if not centre.size:
            return _Boxes(centre, half, value, slope, value)
        if not (np.isfinite(value).all() and np.isfinite(slope).all()):
            _check.refuse("exponential_mechanism", "problem", "finite on its set", _check.WITHHELD)
        return _Boxes(centre, half, value, slope, log_mass(slope, half).sum(axis=1) - value)

    def draw(self, source: RandomSource, count: int) -> Array:
        """`count` independent draws, one a row."""
        found: list[Array] = []
        have, batch = 0, 1
        while have < count:
            accepted, batch = self._round(source, batch, count - have)
            found.append(accepted)
            have += len(accepted)
        return np.concatenate(found)[:count]

    def _round(self, source: RandomSource, batch: int, wanted: int) -> tuple[Array, int]:
        boxes, size = self.boxes, self.boxes.centre.shape[1]
        chosen = pick(boxes.log_mass, source.uniform((batch,)))
        place = within(boxes.slope[chosen], boxes.half[chosen], source.uniform((batch, size)))
        points = boxes.centre[chosen] + place
        below = boxes.value[chosen] + (boxes.slope[chosen] * place).sum(axis=1)
        gap = self.rate * self.target.values(points) - below
        self.looks += batch
        room = ROOM * (1.0 + np.abs(below)) + self.rate * self.target.rounding
        if not (gap >= -room).all():
            _check.refuse("exponential_mechanism", "problem", "with a convex loss", _check.WITHHELD, "A tangent lies above its function.")
        inside = self.target.inside(points)
        accept = (source.uniform((batch,)) < np.exp(-np.maximum(gap, 0.0))) & inside
        worth = ~accept & (inside | (len(boxes.centre) < EDGE))
        self._cut(np.unique(chosen[worth]), points, chosen, worth)
        good = points[accept]
        return good, min(2 * batch, BATCH, wanted) if 2 * len(good) >= batch else max(batch // 2, 1)

    def _cut(self, which: npt.NDArray[np.intp], points: Array, chosen: npt.NDArray[np.intp], rejected: npt.NDArray[np.bool_]) -> None:
        """Halve the boxes `which`, across the axis along which the slope has changed most at a rejected point."""
        if not which.size:
            return
        if len(self.boxes.centre) + which.size > MOST:
            hint = "This density takes too many looks at the data to be sampled exactly."
            _check.refuse("exponential_mechanism", "problem", f"sampled with at most {MOST} boxes", MOST, hint)
        boxes = self.boxes
        last = np.flatnonzero(rejected)[np.unique(chosen[rejected], return_index=True)[1]]
        change = np.abs(self.rate * self.target.gradients(points[last]) - boxes.slope[which]) * boxes.half[which]
        flat = ~(change.max(axis=1) > 0.0)
        axis = np.where(flat, np.argmax(boxes.half[which], axis=1), np.argmax(change, axis=1))
        rows = np.arange(which.size)
        half = boxes.half[which].copy()
        half[rows, axis] *= 0.5
        shift = np.zeros(half.shape)
        shift[rows, axis] = half[rows, axis]
        centre = np.concatenate([boxes.centre[which] - shift, boxes.centre[which] + shift])
        half = np.concatenate([half, half])
        near = ~self.target.apart(centre, half)
        new = self._made(centre[near], half[near])
        self.looks += 3 * which.size
        keep = np.ones(len(boxes.centre), dtype=bool)
        keep[which] = False
        self.boxes = _Boxes(*(np.concatenate([old[keep], fresh]) for old, fresh in zip(boxes, new, strict=True)))
