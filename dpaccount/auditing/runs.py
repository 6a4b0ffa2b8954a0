"""A run by the numbers that its epsilon depends on, and what a reading of it answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from typing import Any

from dpaccount.adjacency import Adjacency
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import Composition, DominatingPair
from dpaccount.results import Bounds, NumericalFailure
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.statement import shown_down, shown_up

HARDLY = 0.1  # noise multipliers below which every engine takes long


@dataclass(frozen=True)
class Reading:
    """A bracket for epsilon: every analysis must print at least `lower`, and `upper` is proved (inf where nothing is).

    `lower` is attained by a data set, or 0 where none is known. `figure` is what an accountant prints, which is
    neither where no theorem makes it so. A `rough` bracket stands for figures that take long.
    """

    name: str
    lower: float
    upper: float
    theorem: str
    figure: float | None = None
    rough: bool = False

    @property
    def text(self) -> str:
        if math.isinf(self.lower):
            return "infinite"
        if math.isfinite(self.upper) and self.upper - self.lower <= 1e-6 * self.upper:
            return shown_up(self.upper, 8)
        low = f"at least {shown_down(self.lower, 8)}" if self.lower > 0.0 else ""
        top = f"at most {shown_up(self.upper, 8)}" if math.isfinite(self.upper) else "no proved upper bound"
        return ", ".join(part for part in (low, top) if part)


@dataclass(frozen=True)
class Run:
    """The numbers of a DP-SGD run that epsilon depends on; of several `phases` sigma is the least, rate the largest."""

    sigma: float
    rate: float
    steps: int
    delta: float
    passes: int | None = None
    dataset_size: int | None = None
    batch: int | None = None
    phases: tuple[tuple[float, float, int], ...] = ()
    public: bool = False  # whether the divisor and the number of batches of a pass are public constants
    order: str = ""  # of the passes: "random", drawn uniformly and kept secret; "stored", others keep their order; or not said
    whole: int | None = None  # passes that are whole because the epochs are stated; None where only steps are
    rounded: bool = False  # whether the steps follow from epochs, or from several runs: then they tell no whole passes
    orders: int = 1  # how often a random order that is kept was drawn, once for each run

    @property
    def parts(self) -> tuple[tuple[float, float, int], ...]:
        """(noise multiplier, sampling probability, steps) of each phase."""
        return self.phases or ((self.sigma, self.rate, self.steps),)

    def pair(self, sigma: float | None = None, rate: float | None = None, steps: int | None = None) -> DominatingPair:
        if self.phases:
            parts = [Run(s, q if rate is None else rate, n, self.delta).pair() for s, q, n in self.phases]
            return reduce(add, parts)
        step: Any = Gaussian(self.sigma if sigma is None else sigma)
        q = self.rate if rate is None else rate
        return (self.steps if steps is None else steps) * (step if q == 1.0 else PoissonSampled(step, q))


@lru_cache(maxsize=256)
def by_contour(pair: DominatingPair, adjacency: str, delta: float) -> Bounds | None:
    try:
        return PrivacyProfile(pair, adjacency, method="line").epsilon(delta=delta)
    except NumericalFailure:
        return None


def epsilon_of(pair: DominatingPair, adjacency: str | Adjacency, delta: float) -> Bounds:
    """epsilon at delta, both ends valid."""
    known = by_contour(pair, str(adjacency), delta) if isinstance(pair, Composition) else None
    if known is not None:
        return known
    try:
        return PrivacyProfile(pair, adjacency).epsilon(delta=delta)
    except NumericalFailure:
        return PrivacyProfile(pair, adjacency, method="lattice").epsilon(delta=delta)
