"""A search for events by a classifier (Bichsel et al. 2021): outputs become scores, and a set {score >= t} is the event."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, gammaln, xlogy

from dpaccount import _check

Array = npt.NDArray[np.float64]
Score = Callable[[Array], Array]
ROUNDS, RIDGE = 30, 1e-3


def classifier_of(owner: str, classifier: Any) -> Callable[[Array, Array], Score]:
    """A trainer: `logistic`, or the caller's own."""
    if classifier is None or classifier == "logistic":
        return logistic
    if not callable(classifier):
        _check.refuse(
            owner, "classifier", "'logistic', or a callable of two samples that returns a function from outputs to scores",
            classifier, kind=TypeError,
        )
    return classifier  # type: ignore[no-any-return]


def logistic(x0: Array, x1: Array) -> Score:
    """Logistic regression on the outputs, their squares and products, by Newton's method with a small ridge."""
    both = np.concatenate([x0, x1]).astype(float)
    both = both[:, None] if both.ndim == 1 else both
    centre, spread = both.mean(axis=0), both.std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)

    def features(x: Array) -> Array:
        z = ((x[:, None] if x.ndim == 1 else x) - centre) / spread
        upper = np.triu_indices(z.shape[1])
        squares = (z[:, :, None] * z[:, None, :])[:, upper[0], upper[1]] if z.shape[1] <= 20 else z**2
        return np.concatenate([np.ones((len(z), 1)), z, squares], axis=1)

    design, label = features(both), np.repeat([0.0, 1.0], [len(x0), len(x1)])
    weight = np.where(label > 0, 0.5 / len(x1), 0.5 / len(x0))
    beta = np.zeros(design.shape[1])
    ridge = RIDGE * np.eye(beta.size)
    for _ in range(ROUNDS):
        p = expit(design @ beta)
        slope = design.T @ (weight * (label - p)) - ridge @ beta
        curve = (design * (weight * p * (1 - p))[:, None]).T @ design + ridge
        step = np.linalg.solve(curve, slope)
        beta = beta + step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        if float(np.abs(step).max()) < 1e-9:
            break
    return lambda x: np.asarray(features(np.asarray(x, dtype=float)) @ beta)


def thinned_p_value(hits_in: int, hits_out: int, runs: int, epsilon: float) -> float:
    """A p-value of eps-DP for one event of probabilities p1 and p0, from its counts in `runs` runs of each kind (StatDP).

    Count 1 is thinned by e^-eps, which makes its rate at most that of count 0, and both are compared by the
    hypergeometric test; the p-value is averaged over the thinning exactly, not by simulation. A mean of p-values is not one:
    twice the mean is, and that is what is returned (capped at 1).

    References
    ----------
    Ding et al. (2018); Vovk, Wang (2020) for the factor 2.

    Examples
    --------
    >>> from dpaccount.auditing.events import thinned_p_value
    >>> round(thinned_p_value(3000, 1000, 100000, 1.0) / 2, 10)
    0.0253347368
    """
    owner = "thinned_p_value"
    n = _check.count(owner, "runs", runs)
    one = _check.count(owner, "hits_in", hits_in, minimum=0, maximum=n)
    zero = _check.count(owner, "hits_out", hits_out, minimum=0, maximum=n)
    keep = -_check.real(owner, "epsilon", epsilon, low=0.0)
    k = np.arange(one + 1)
    log_w = _choose(one, k) + k * keep + xlogy(one - k, -math.expm1(keep))
    total = 0.0
    for kept, weight in zip(k[log_w > -45.0].tolist(), np.exp(log_w[log_w > -45.0]).tolist(), strict=True):
        total += weight * _hypergeometric_tail(kept, kept + zero, n)
    return min(2.0 * total, 1.0)


def _choose(n: Any, k: Any) -> Any:
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


def _hypergeometric_tail(hits: int, both: int, runs: int) -> float:
    """P[X >= hits], X the hits of `runs` among 2 `runs` when `both` hit in all."""
    j = np.arange(hits, min(both, runs) + 1)
    return float(np.exp(_choose(runs, j) + _choose(runs, both - j) - _choose(2 * runs, both)).sum())
