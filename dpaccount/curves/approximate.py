"""A guarantee of an exact draw, for a draw that is only close to it in total variation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount.adjacency import Adjacency
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.curve import CurvePair
from dpaccount.pair import Guarantee

Array = npt.NDArray[np.float64]
POINTS, MOST = 200, 2000  # of the table: even ones, and those for its fall
DROP = 0.02  # of log delta from point to point
LARGEST = 700.0  # e^epsilon is a double up to there


def approximate_draw(
    guarantee: Guarantee, total_variation: Any, adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE
) -> Guarantee:
    """``delta(eps) + (1 + e^eps) t``: the curve of a mechanism whose every output law is within t of one that has `guarantee`.

    If P~ and Q~ are within t of P and Q, then ``P~(A) - gamma Q~(A) <= P(A) - gamma Q(A) + t + gamma t`` for every event A.
    A sampler that is close in total variation alone never has delta = 0, whatever the law it aims at.

    Parameters
    ----------
    guarantee : DominatingPair, RenyiBound or BestOf
        Of the exact law.
    total_variation : float
        t in [0, 1], for each of the two neighbours. At 0 the guarantee comes back as it is.
    adjacency : {"add-or-remove", "replace-one", "zero-out"}
        The relation of the neighbours; the result holds under it alone.

    Guarantee
    ---------
    An upper bound at every epsilon, a `CurvePair`: chords between points of the curve, less than 1% above it (0.1% for t >= 1e-30).
    Where the added term outgrows what delta still falls, it stays at its least value. Nothing is claimed from below, and
    nothing is certified that `guarantee` was not.

    Examples
    --------
    >>> from dpaccount import GaussianDP, PrivacyProfile, approximate_draw
    >>> exact = GaussianDP(0.2, relation="replace-one")
    >>> drawn = PrivacyProfile(approximate_draw(exact, 1e-9, "replace-one"), "replace-one")
    >>> f"{float(PrivacyProfile(exact, 'replace-one').delta(epsilon=1.0)):.4e} {float(drawn.delta(epsilon=1.0)):.4e}"
    '1.7546e-08 2.1266e-08'
    """
    t = _check.real("approximate_draw", "total_variation", total_variation, low=0.0, high=1.0)
    profile = PrivacyProfile(guarantee, adjacency)
    if t == 0.0:
        return guarantee
    level = _levels(profile, t)
    found = profile.delta(epsilon=level)
    exact = np.asarray(found.upper)
    delta = np.minimum(exact + (1.0 + np.exp(level)) * t * (1.0 + 1e-12), 1.0)
    delta = np.minimum(np.nextafter(delta, math.inf), 1.0)
    points = tuple(level.tolist()), tuple(delta.tolist())
    return CurvePair(*points, relation=str(profile.adjacency), upper_bound=True, proved=bool(found.certified))


def _levels(profile: PrivacyProfile, t: float) -> Array:
    """Epsilons from 0 to where delta is far below t, closer together where it falls fast."""
    end = float(profile.epsilon(delta=max(1e-6 * t, 1e-300)))
    even = np.linspace(0.0, min(end, LARGEST) if end > 0.0 else 1.0, POINTS)
    with np.errstate(divide="ignore"):
        fall = -np.log(np.asarray(profile.delta(epsilon=even).upper) + t)
    steep = np.interp(np.arange(fall[0], fall[-1], max(DROP, (fall[-1] - fall[0]) / MOST)), fall, even)
    return np.unique(np.concatenate([even, np.geomspace(1e-4 * even[-1], even[-1], POINTS // 4), steep]))
