"""A range of labels: first the scale on which most of them lie, by the exponential mechanism; then a noisy histogram over powers of two."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from dpaccount.adjacency import Adjacency
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import PureDP
from dpaccount.pair import DominatingPair
from solvers.budget import Budget, least_gaussian
from solvers.gate import Gate

Array = npt.NDArray[np.float64]
SHARE, MOST_SHARE = 0.1, 0.5  # of the squared Gaussian-DP parameter, or of a pure epsilon: for the histogram; at most for the scale
ENOUGH = 0.1  # of epsilon finds a scale among two hundred records; more is not spent on it
LEAST, MOST = -30, 60  # binary exponents: below 2^-30 counts as 0, above 2^60 as 2^60
BINS = MOST - LEAST + 2  # of one sign, with 0
FALSE_ALARM = 1e-6  # probability that some empty bin widens the range
BOTH_SIGNS = 4.5  # nats against a scale of both signs, which is wider and counts labels of either
SMALLEST_RANGE = 1e-8  # of a bounded range that has digits; a smaller one counts as pure, which it is
CLEAR = 4.0  # thresholds that what is seen must hold before the scale is let go


@final
@dataclass(frozen=True)
class RangeQuery:
    """How a range is found, and what that costs.

    Parameters
    ----------
    rate : float
        What a record adds to the log-probability of a scale.
    noise_multiplier : float
        Of the histogram.
    pure : bool
        Laplace noise for the histogram, instead of Gaussian.
    """

    rate: float
    noise_multiplier: float
    pure: bool
    relation: Adjacency

    @classmethod
    def of(cls, aim: Budget, added: bool = False) -> RangeQuery:
        """Shares of a budget: a tenth for the histogram; up to a half for the scale, no more than it takes.

        `added` says that the scale's epsilon will be taken off the budget's, as `objective_perturbation` does: it is at most half of it.
        """
        double = 2.0 if aim.adjacency is Adjacency.REPLACE_ONE else 1.0
        if aim.delta == 0.0:
            return cls(min(ENOUGH, MOST_SHARE * aim.epsilon / double), double / (SHARE * aim.epsilon), True, aim.adjacency)
        noise = least_gaussian(aim.epsilon, aim.delta, aim.adjacency)  # rate r has zCDP r^2/8, as noise 2/r
        most = MOST_SHARE * aim.epsilon / double if added else math.inf
        share = 0.01 * SHARE if added and aim.epsilon < 10.0 * aim.delta else SHARE  # delta alone decides there, and a run needs more of it
        return cls(min(ENOUGH, 2.0 * math.sqrt(MOST_SHARE) / noise, most), noise / math.sqrt(share), False, aim.adjacency)

    @property
    def guarantee(self) -> DominatingPair:
        """Of both looks: `Gate.select_count`, and a histogram in which a label is in one bin. A record moves that by 1 in l1 and in l2, an
        exchange by at most 2: the Gaussian mechanism (BW18, Theorem 8) or Laplace's (DR14, Theorem 3.6); then adaptive composition."""
        double = 2.0 if self.relation is Adjacency.REPLACE_ONE else 1.0
        scale = double * self.rate
        first = ExponentialMechanism(scale) if scale >= SMALLEST_RANGE else PureDP(scale)
        return first + (Laplace if self.pure else Gaussian)(self.noise_multiplier)

    def find(self, labels: Array, gate: Gate) -> tuple[float, float]:
        """The bins that noise does not explain, with the scale unless they hold enough by themselves; low < high."""
        counts = histogram(labels)
        scale = SCALES[gate.select_count(held(counts) - AGAINST / self.rate, epsilon=self.rate)]
        noisy = (gate.laplace if self.pure else gate.gaussian)(counts, sensitivity=1.0, noise_multiplier=self.noise_multiplier)
        least = self.noise_multiplier * self._quantile(FALSE_ALARM / noisy.size)
        places = np.flatnonzero(noisy > least) - BINS + 1
        ends = (lower(int(places[0])), upper(int(places[-1]))) if places.size else scale
        if noisy[places + BINS - 1].sum() > CLEAR * least:
            return ends
        return min(ends[0], scale[0]), max(ends[1], scale[1])

    def _quantile(self, tail: float) -> float:
        """Above which noise of scale 1 is with probability `tail`."""
        return -math.log(2.0 * tail) if self.pure else -float(ndtri(tail))


def histogram(labels: Array) -> Array:
    """Counts over 0 and +-[2^k, 2^(k+1)), from the most negative bin to the largest. A label is in one of them."""
    exponent = np.clip(np.frexp(labels)[1] - 1, LEAST, MOST)
    bins = np.where(np.abs(labels) < 2.0**LEAST, 0, np.sign(labels) * (exponent - LEAST + 1)).astype(int)
    return np.bincount(bins + BINS - 1, minlength=2 * BINS - 1).astype(float)


def lower(place: int) -> float:
    """The end of a bin towards minus infinity; bin 0 is 0 and what is nearer to it than 2^-30."""
    return -upper(-place) if place < 0 else 2.0 ** (LEAST + place - 1) if place else -(2.0**LEAST)


def upper(place: int) -> float:
    """The other end."""
    return -lower(-place) if place < 0 else 2.0 ** (LEAST + place)


def held(counts: Array) -> Array:
    """For every scale the labels in two neighbouring bins: above 0, below 0, and on both sides together."""
    above = counts[BINS:-1] + counts[BINS + 1 :]
    below = (counts[1 : BINS - 1] + counts[: BINS - 2])[::-1]
    return np.concatenate([above, below, above + below])


_ENDS = [(lower(place), upper(place + 1)) for place in range(1, BINS - 1)]
SCALES = [*_ENDS, *((-high, -low) for low, high in _ENDS), *((-high, high) for _, high in _ENDS)]
AGAINST = np.repeat([0.0, 0.0, BOTH_SIGNS], len(_ENDS))
