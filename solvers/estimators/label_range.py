"""A range of labels from a noisy histogram over powers of two."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from solvers.budget import Budget, least_gaussian
from solvers.gate import Gate

Array = npt.NDArray[np.float64]
SHARE = 0.1  # of the squared Gaussian-DP parameter
LEAST, MOST = -30, 60  # binary exponents: below 2^-30 counts as 0, above 2^60 as 2^60
FALSE_ALARM = 1e-6  # probability that some empty bin widens the range
NOTHING = (-1.0, 1.0)  # where every bin could be noise: the records are too few for the budget


def range_noise(aim: Budget) -> float:
    """The noise multiplier that spends the histogram's share."""
    return least_gaussian(aim.epsilon, aim.delta, aim.adjacency) / math.sqrt(SHARE)


def noisy_range(labels: Array, gate: Gate, noise_multiplier: float) -> tuple[float, float]:
    """From the lowest to the highest bin that noise does not explain; (-1, 1) where it explains all.

    Bins are 0 and +-[2^k, 2^(k+1)). A label is in one bin, so a record moves the histogram by 1 in l2 (an exchange by sqrt 2, which
    is less than the 2 that is accounted).
    """
    exponent = np.clip(np.frexp(labels)[1] - 1, LEAST, MOST)
    bins = np.where(np.abs(labels) < 2.0**LEAST, 0, np.sign(labels) * (exponent - LEAST + 1)).astype(int)
    reach = MOST - LEAST + 1
    counts = np.bincount(bins + reach, minlength=2 * reach + 1).astype(float)
    noisy = gate.gaussian(counts, sensitivity=1.0, noise_multiplier=noise_multiplier)
    seen = noisy > noise_multiplier * -float(ndtri(FALSE_ALARM / noisy.size))
    if not seen.any():
        return NOTHING
    places = np.flatnonzero(seen) - reach
    return _lower(int(places[0])), _upper(int(places[-1]))


def _lower(place: int) -> float:
    return -_upper(-place) if place < 0 else 2.0 ** (LEAST + place - 1) if place else -(2.0**LEAST)


def _upper(place: int) -> float:
    return -_lower(-place) if place < 0 else 2.0 ** (LEAST + place)
