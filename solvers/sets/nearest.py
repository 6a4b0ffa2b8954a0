"""The point of a hull nearest to a given one: Wolfe's method (Wolfe 1976)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
DUST = 1e-13  # relative: gains and weights below it are rounding


def nearest_in_hull(vertices: Array, point: Array) -> Array:
    """Nearest point of the hull of the rows of `vertices`, to within rounding of the point: an ulp of |point| at worst.

    A corral of affinely independent vertices carries the nearest point x of its affine hull. Either no vertex lies beyond the
    plane through x, ``<z - x, s - x> <= 0`` for all (then x is optimal), or such a vertex joins; vertices whose weight would
    turn negative leave. Every corral is new, so the method ends.
    """
    centre = vertices.mean(axis=0)
    hull, z = vertices - centre, point - centre
    spread = float(np.abs(hull).max())
    corral = [int(np.argmin(np.einsum("ij,ij->i", hull, hull) - 2.0 * hull @ z))]
    weight = np.ones(1)
    for _ in range(100 * len(hull) + 100):
        x = weight @ hull[corral]
        away = float(np.linalg.norm(z - x))
        scores = (hull - x) @ (z - x)
        entering = int(np.argmax(scores))
        if away <= DUST * spread or scores[entering] <= DUST * spread * away or entering in corral:
            break
        corral, weight = _settled(hull, z, [*corral, entering], np.append(weight, 0.0))
    return np.asarray(centre + weight @ hull[corral])


def _settled(hull: Array, z: Array, corral: list[int], weight: Array) -> tuple[list[int], Array]:
    """Move to the nearest point of the affine hull; vertices that would get a negative weight leave on the way."""
    while True:
        target = _affine_weights(hull[corral], z)
        if np.all(target > DUST):
            return corral, target
        falling = target <= DUST
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(falling & (weight > target), weight / (weight - target), np.inf)
        step = min(1.0, float(share.min()))
        weight = weight + step * (target - weight)
        leaving = falling & (weight <= DUST)
        if not leaving.any():
            leaving[int(np.argmin(share))] = True
        corral = [k for k, gone in zip(corral, leaving, strict=True) if not gone]
        weight = weight[~leaving] / weight[~leaving].sum()


def _affine_weights(points: Array, z: Array) -> Array:
    """Weights with sum 1 of the point nearest to z in the affine hull of the rows."""
    first, rest = points[0], points[1:] - points[0]
    if not len(rest):
        return np.ones(1)
    inner = np.linalg.lstsq(rest.T, z - first, rcond=None)[0]
    return np.concatenate([[1.0 - inner.sum()], inner])
