"""A seeded sweep of random compositions: no NaN, no crash, no warning, engines agree, delta falls with epsilon."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair
from dpaccount.sampling.poisson import PoissonSampled

SEED = 20240615
ADJACENCIES = ("add-or-remove", "add-or-remove", "zero-out", "replace-one")


class Case(NamedTuple):
    """A composition under a relation, with increasing epsilons at which to ask."""

    pair: DominatingPair
    adjacency: str
    epsilon: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.pair} under {self.adjacency} at {self.epsilon}"


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _anywhere(rng: np.random.Generator) -> DominatingPair:
    """sigma, q and the number of steps over their whole range."""
    step = PoissonSampled(Gaussian(_log_uniform(rng, 0.2, 50)), _log_uniform(rng, 1e-7, 1))
    return int(_log_uniform(rng, 1, 1e8)) * step


def _big_jump(rng: np.random.Generator) -> DominatingPair:
    """steps * q in 20..1000 with sigma >= 1, q <= 1e-3: where a plain contour is silently wrong."""
    q = _log_uniform(rng, 1e-7, 1e-3)
    step = PoissonSampled(Gaussian(_log_uniform(rng, 1, 4)), q)
    return int(_log_uniform(rng, 20, 1000) / q) * step


def _mixed(rng: np.random.Generator) -> DominatingPair:
    """Two or three different steps, one of them perhaps a plain Gaussian."""
    draws = [_anywhere(rng) if rng.random() < 0.6 else _big_jump(rng) for _ in range(int(rng.integers(1, 3)))]
    extra = _anywhere(rng) if rng.random() < 0.5 else int(_log_uniform(rng, 1, 100)) * Gaussian(_log_uniform(rng, 0.5, 50))
    total = draws[0]
    for part in [*draws[1:], extra]:
        total = total + part
    return total


def _epsilons(rng: np.random.Generator) -> tuple[float, ...]:
    points = [rng.uniform(-5, 0), _log_uniform(rng, 1e-3, 1), _log_uniform(rng, 0.3, 10), rng.uniform(5, 60)]
    return tuple(sorted(round(float(e), 6) for e in points))


def draw(index: int) -> Case:
    """The case with this number: a third each anywhere, one big jump, mixed."""
    rng = np.random.default_rng([SEED, index])
    pair = (_anywhere, _big_jump, _mixed)[index % 3](rng)
    return Case(pair, ADJACENCIES[int(rng.integers(len(ADJACENCIES)))], _epsilons(rng))
