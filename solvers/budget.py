"""Budgets as users state them, and what every solver asks of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

from dpaccount import _check
from dpaccount.adjacency import Adjacency, parse
from dpaccount.calibration import calibrate
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair


@final
@dataclass(frozen=True)
class Budget:
    """epsilon > 0 and delta under a relation; delta = 0 is a pure budget, which only some algorithms can keep."""

    epsilon: float
    delta: float
    adjacency: Adjacency


def budget(owner: str, epsilon: Any, delta: Any, adjacency: Any, *, pure: bool = False) -> Budget:
    """The checked budget; `pure` algorithms take delta = 0 or None, others need delta in (0, 1)."""
    relation = relation_of(owner, adjacency)
    hint = "A zero budget allows no look at the data."
    eps = _check.real(owner, "epsilon", epsilon, low=0.0, open_low=True, hint=hint)
    if pure:
        return Budget(eps, _check.real(owner, "delta", 0.0 if delta is None else delta, low=0.0, high=1.0, open_high=True), relation)
    if delta is None:
        _check.refuse(owner, "delta", "in (0, 1)", delta, "This algorithm adds Gaussian noise, which has no pure guarantee.", TypeError)
    hint = "Well below one over the number of records." if delta else "Gaussian noise has no pure guarantee."
    return Budget(eps, _check.real(owner, "delta", delta, low=0.0, high=1.0, open_low=True, open_high=True, hint=hint), relation)


def relation_of(owner: str, adjacency: Any) -> Adjacency:
    """A relation on data sets; an ordered pair as written is none."""
    relation = parse(owner, adjacency)
    if relation is Adjacency.AS_WRITTEN:
        _check.refuse(owner, "adjacency", "'add-or-remove', 'replace-one' or 'zero-out'", str(relation), "A release is about data sets.")
    return relation


@lru_cache(maxsize=512)
def least_gaussian(epsilon: float, delta: float, adjacency: Adjacency) -> float:
    """The least noise multiplier of one Gaussian mechanism within a budget; asked again, it is remembered."""
    return float(calibrate(Gaussian, epsilon=epsilon, delta=delta, adjacency=adjacency))


def gaussian_steps_noise(aim: Budget, steps: int, before: DominatingPair | None = None) -> float | None:
    """The least noise multiplier of `steps` Gaussians after `before`, if that is made of Gaussians alone and leaves something.

    Gaussians compose by the sum of 1/s^2 (DRS19, Corollary 3.3), so that T of them share what `before` leaves of one:
    ``T/s^2 = 1/s_0^2 - sum``, s_0 the exact noise of one (BW18, Theorem 8). The answer is 4e-12 larger, so that rounding stays within
    the budget.
    """
    terms = () if before is None else before.terms
    spent = 0.0
    for step, count in terms:
        if not isinstance(step, Gaussian) or step.noise_multiplier == 0.0:
            return None
        spent += count / step.noise_multiplier**2
    left = least_gaussian(aim.epsilon, aim.delta, aim.adjacency) ** -2 - spent
    return math.sqrt(steps / left) * (1.0 + 4e-12) if left > 1e-6 * spent else None


def gradient_descent_noise(steps: int, epsilon: float, delta: float) -> float:
    """Theorem 6.10's noise multiplier for `steps` full-batch steps: ``sqrt(2 T (ln(1/delta) + eps))/eps``; sufficient, not least.

    Examples
    --------
    >>> from solvers.budget import gradient_descent_noise
    >>> round(gradient_descent_noise(100, 1.0, 1e-5), 12)
    50.025844250688
    """
    return math.sqrt(2.0 * steps * (math.log(1.0 / delta) + epsilon)) / epsilon
