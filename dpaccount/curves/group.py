"""Group privacy: one user owns several records."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from dpaccount.adjacency import Adjacency
from dpaccount.mechanisms.additive import AdditiveMixture, AdditiveStep
from dpaccount.pair import DominatingPair, Guarantee, Step, compose
from dpaccount.results import LogDelta
from dpaccount.sampling.poisson import PoissonSampled

MAX_MIXTURE = 1000


def group_pair(guarantee: Guarantee, size: int, adjacency: Adjacency) -> DominatingPair | None:
    """The composition with every step replaced by its group mixture, or None if some step is not additive."""
    if not isinstance(guarantee, DominatingPair) or adjacency is Adjacency.AS_WRITTEN or size > MAX_MIXTURE:
        return None
    steps = [(_group_step(step, size, adjacency), count) for step, count in guarantee.terms]
    if any(step is None for step, _ in steps):
        return None
    return compose(steps)


def _group_step(step: Step, size: int, adjacency: Adjacency) -> Step | None:
    if isinstance(step, AdditiveStep):
        return step.scaled(size)  # replace-one doubles it once more in `under`
    if not isinstance(step, PoissonSampled) or not isinstance(step.step, AdditiveStep):
        return None
    q = step.sampling_probability
    if q == 0.0 or step.step.facts.log_p_only == 0.0:
        return step
    if q == 1.0:
        return step.step.scaled(size)
    j = np.arange(size + 1)
    log_w = gammaln(size + 1) - gammaln(j + 1) - gammaln(size - j + 1) + xlogy(j, q) + xlog1py(size - j, -q)
    weight = np.exp(log_w)
    plus = tuple((int(i), float(w)) for i, w in zip(j, weight, strict=True) if w > 0)
    if adjacency is Adjacency.REPLACE_ONE:
        minus = tuple((-i, w) for i, w in plus)
        return AdditiveMixture(step.step, plus, minus, proved=False)
    return AdditiveMixture(step.step, plus, ((0, 1.0),))


def generic_group(curve: Callable[[float], LogDelta], size: int) -> Callable[[float], LogDelta]:
    """delta_k(eps) <= min(1, delta(eps/k) * sum over i < k of e^{i eps/k}), an upper bound only (DR14)."""

    def grouped(epsilon: float) -> LogDelta:
        part = epsilon / size
        found = curve(part)
        log_sum = float(np.log(size)) if part == 0 else (
            float(np.log(np.expm1(epsilon) / np.expm1(part))) if epsilon < 600
            else epsilon - part + float(np.log1p(-np.exp(-epsilon)) - np.log1p(-np.exp(-part)))
        )
        upper = min(found.upper + log_sum + 1e-14 * (1 + abs(log_sum)), 0.0)
        floor = float(np.log(-np.expm1(epsilon))) if epsilon < 0 else -np.inf
        value = max(min(found.estimate + log_sum, upper), floor)
        return LogDelta(floor, value, max(upper, floor), found.certified, f"generic group bound over {found.method}", found.condition)

    return grouped
