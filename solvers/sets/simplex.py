"""Projection onto a simplex by sorting."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def onto_simplex(point: Array, total: float) -> Array:
    """The point of {w >= 0, sum w = total} nearest to `point`: ``max(point - t, 0)`` with the t that gives the sum.

    With the entries in falling order, t = (sum of the first k - total)/k for the largest k with entry k > t.
    """
    offset = float(point.max())  # the projection does not see a common shift, and differences near the top keep their digits
    shifted = np.maximum(point - offset, -2.0 * total)  # entries so far below the largest end at 0
    falling = np.sort(shifted)[::-1]
    thresholds = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    kept = int(np.flatnonzero(falling > thresholds)[-1]) + 1
    threshold = (math.fsum(falling[:kept]) - total) / kept
    out = np.maximum(shifted - threshold, 0.0)
    return np.asarray(out * (total / math.fsum(out)))
