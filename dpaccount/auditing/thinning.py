"""StatDP's test of one event: counts thinned by e^-eps, compared by the hypergeometric law (Ding et al. 2018)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from dpaccount import _check


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
    >>> from dpaccount.auditing.thinning import thinned_p_value
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
