"""Group privacy: one user owns several records."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, xlog1py, xlogy

from dpaccount.adjacency import Adjacency
from dpaccount.mechanisms.additive import AdditiveMixture, AdditiveStep
from dpaccount.pair import DominatingPair, Guarantee, Step, compose
from dpaccount.results import LogDelta
from dpaccount.sampling.poisson import PoissonSampled

EXACT_GROUP = 1000  # larger groups merge shifts upward
MAX_SHIFTS = 400
MAX_GROUP = 10**6


def group_pair(guarantee: Guarantee, size: int, adjacency: Adjacency) -> DominatingPair | None:
    """The composition with every step replaced by its group mixture, or None if some step is not additive."""
    if not isinstance(guarantee, DominatingPair) or adjacency is Adjacency.AS_WRITTEN or size > MAX_GROUP:
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
    plus = _sampled_shifts(size, q)
    if adjacency is Adjacency.REPLACE_ONE:
        minus = tuple((-i, w) for i, w in plus)
        return AdditiveMixture(step.step, plus, minus, proved=False)
    return AdditiveMixture(step.step, plus, ((0, 1.0),))


def _sampled_shifts(size: int, q: float) -> tuple[tuple[int, float], ...]:
    """The number of sampled records of the group, binomial; beyond what matters shifts are merged into larger ones.

    The noises are log-concave, so the optimal tests are half-lines and moving mass to a larger shift only helps them.
    """
    j = np.arange(size + 1)
    log_w = gammaln(size + 1) - gammaln(j + 1) - gammaln(size - j + 1) + xlogy(j, q) + xlog1py(size - j, -q)
    if size <= EXACT_GROUP:
        weight = np.exp(log_w)
        return tuple((int(i), float(w)) for i, w in zip(j, weight, strict=True) if w > 0)
    keep = np.flatnonzero(log_w > -80.0)
    first, last = int(keep[0]), int(keep[-1])
    step = -(-(last - first + 1) // MAX_SHIFTS)
    ends = np.unique(np.concatenate([[0], np.arange(first, last + 1, step), [last], _growing(last, size)]))
    # every j goes up to the next end; log-sums, since the far ones underflow
    group = np.searchsorted(ends, j)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    error = 1e-13 + 1e-15 * float(gammaln(size + 1))
    weight = np.exp(np.maximum(np.logaddexp.reduceat(log_w, starts), -700.0)) * (1.0 + error)
    excess = np.clip(weight.sum() - 1.0 - np.cumsum(weight) + weight, 0.0, weight)  # what is too much leaves the least shifts
    return tuple((int(e), float(w)) for e, w in zip(ends, weight - excess, strict=True) if w > 0)


def _growing(last: int, size: int) -> npt.NDArray[np.int64]:
    """Shifts above `last` whose distance from it doubles, up to the whole group."""
    steps = 2 ** np.arange(int(np.log2(max(size - last, 1))) + 1)
    return np.append(last + steps, size)


def generic_group(curve: Callable[[float], LogDelta], size: int) -> Callable[[float], LogDelta]:
    """delta_k(eps) <= min(1, delta(eps/k) * sum over i < k of e^{i eps/k}), an upper bound only (DR14)."""

    def grouped(epsilon: float) -> LogDelta:
        if epsilon == np.inf:
            return beyond()
        part = epsilon / size
        found = curve(part)
        log_sum = float(np.log(size)) if part == 0 else (
            float(np.log(np.expm1(epsilon) / np.expm1(part))) if epsilon < 600
            else epsilon - part + float(np.log1p(-np.exp(-epsilon)) - np.log1p(-np.exp(-part)))
        )
        upper = min(found.upper + log_sum + 1e-14 * (1 + abs(log_sum)), 0.0)
        floor = float(np.log(-np.expm1(epsilon))) if epsilon < 0 else -np.inf
        value = max(min(found.estimate + log_sum, upper), floor)
        tail = 0.0 if value in (floor, 0.0) and value > -np.inf else _slope(found, part, size)
        return LogDelta(
            floor, value, max(upper, floor), found.certified, f"generic group bound over {found.method}", found.condition, tail
        )

    def beyond() -> LogDelta:
        """delta_k(inf) is at most every delta_k(eps); it is 0 if one record's is."""
        found = curve(np.inf)
        upper = found.upper if found.upper == -np.inf else min(grouped(size * part).upper for part in np.geomspace(0.01, 32.0, 12))
        return LogDelta(-np.inf, upper, upper, found.certified, f"generic group bound over {found.method}", 1.0, -np.inf)

    return grouped


def _slope(found: LogDelta, part: float, size: int) -> float:
    """log of minus the bound's slope in e^eps, k eps' = eps: sum over i < k of e^{(i-k) eps'} (e^eps' Q[L > eps'] - i delta)/k."""
    i = np.arange(min(size, 5000))[::-1]
    weight = np.exp(np.maximum((i - size) * abs(part), -700.0)) if part >= 0 else np.exp((i - size) * part)
    fall = np.exp(min(part + found.log_tail, 700.0)) - i * np.exp(found.estimate)
    total = float(weight @ fall) / size
    return float(np.log(total)) if total > 0.0 else -np.inf
