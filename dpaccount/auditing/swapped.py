"""A hint that the two samples were given the wrong way round: no bound depends on it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
FAR = 4.0  # standard deviations of the rank sum, had both samples one law
EXCHANGED = "scores are larger without the record: were x0 and x1 exchanged?"


def exchanged(x0: Array, x1: Array) -> list[str]:
    """The note, where scores without the record exceed those with it by far more than chance (rank sums, ties halved)."""
    m, n = len(x0), len(x1)
    if x0.ndim != 1 or x1.ndim != 1 or min(m, n) < 2:
        return []
    ordered = np.sort(x0)
    above = (np.searchsorted(ordered, x1, "left") + np.searchsorted(ordered, x1, "right")).sum() / 2.0
    spread = np.sqrt(m * n * (m + n + 1.0) / 12.0)
    return [EXCHANGED] if above - m * n / 2.0 < -FAR * spread else []
