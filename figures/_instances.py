"""Random one-dimensional instances of PNSGD, with their exact curves: what every bound must lie above."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount.iteration import PNSGD, Chain

EPSILON = np.array([-1.0, -0.2, 0.0, 0.05, 0.15, 0.3, 0.6, 1.0, 1.6, 2.5, 4.0])
KINDS = ("gaussian, projected", "laplace, projected", "gaussian, not projected")


class Case(NamedTuple):
    """A run, the record that differs, and a pair of data sets of quadratic losses in its class."""

    run: PNSGD
    index: int
    chain: Chain


def cases(count: int, seed: int = 20260) -> list[Case]:
    """`count` cases, the three kinds in turn."""
    rng = np.random.default_rng(seed)
    return [case(rng, KINDS[j % 3]) for j in range(count)]


def case(rng: np.random.Generator, kind: str) -> Case:
    """One case: constants, step size up to 2/(beta + rho), curvatures, centres, start, and the record's place at random."""
    projected = kind != KINDS[2]
    noise = kind.split(",")[0]
    n, diameter = int(rng.integers(1, 7)), float(rng.uniform(0.5, 3.0)) if projected else math.inf
    lipschitz = float(rng.uniform(0.3, 2.0))
    beta = float(rng.uniform(0.2, 2.0))
    most = min(beta, 2 * lipschitz / diameter) if projected else beta
    rho = float(rng.choice([0.0, rng.uniform(0.0, 0.9 * most)]))
    eta = float(rng.choice([1.0, rng.uniform(0.1, 1.0)])) * 2.0 / (beta + rho)
    scale = float(np.exp(rng.uniform(np.log(0.3), np.log(4.0)))) * (lipschitz if not projected else diameter / (1.5 * eta))
    run = PNSGD(n, lipschitz, beta, rho, eta, diameter, noise, scale)
    index = int(rng.integers(1, n + 1))
    half = diameter / 2
    steps = [gradient_step(rng, run, rho, most) for _ in range(n)]
    others = list(steps)
    if projected:
        others[index - 1] = gradient_step(rng, run, rho, most)
    else:
        c, s = steps[index - 1]
        others[index - 1] = (c, s + eta * 2 * lipschitz * float(rng.choice([1.0, rng.uniform(0.3, 1.0)])))
    start = float(rng.uniform(-half, half)) if projected else 0.0
    ends = (-half, half) if projected else (-math.inf, math.inf)
    return Case(run, index, Chain(tuple(steps), tuple(others), *ends, noise, eta * scale, start))


def gradient_step(rng: np.random.Generator, run: PNSGD, least: float, most: float) -> tuple[float, float]:
    """Factor and shift of a quadratic loss with curvature in [least, most]; on an interval its gradients are at most L."""
    curvature = float(rng.choice([least, most, rng.uniform(least, most)]))
    half = run.diameter / 2
    room = run.lipschitz - curvature * half if math.isfinite(half) else run.lipschitz
    push = room * float(rng.choice([-1.0, 1.0, rng.uniform(-1.0, 1.0)]))
    return 1.0 - run.step_size * curvature, run.step_size * push


def exact(case: Case, epsilon: npt.NDArray[np.float64] = EPSILON) -> npt.NDArray[np.float64]:
    """The exact curve of a case."""
    return np.asarray(case.chain.delta(epsilon))
