"""Exact limits for a binomial rate, and the rates of a distinguisher.

Clopper-Pearson: the upper limit solves P[Bin(n, p) <= k] = a, so p = B(1 - a; k + 1, n - k); the lower one mirrors it.
Both rates of a distinguisher are limited at alpha/2 each, by the union bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from scipy.special import betainc, betaincc, betainccinv, betaincinv, betaln


def rate_upper(count: float, trials: float, level: float) -> float:
    """One-sided Clopper-Pearson upper limit; exact at count 0 (1 - level^(1/trials)) and 1 at count = trials.

    Examples
    --------
    >>> from dpaccount.auditing.intervals import rate_upper
    >>> round(rate_upper(0, 100, 0.05), 14)
    0.02951304960704
    """
    if count >= trials:
        return 1.0
    if count == 0:
        return -math.expm1(math.log(level) / trials)
    return _polished(count + 1, trials - count, level, float(betainccinv(count + 1, trials - count, level)), betaincc, -1.0)


def rate_lower(count: float, trials: float, level: float) -> float:
    """One-sided Clopper-Pearson lower limit; 0 at count 0, exact at count = trials (level^(1/trials))."""
    if count <= 0:
        return 0.0
    if count == trials:
        return math.exp(math.log(level) / trials)
    return _polished(count, trials - count + 1, level, float(betaincinv(count, trials - count + 1, level)), betainc, 1.0)


def _polished(a: float, b: float, level: float, rate: float, tail: Callable[..., float], sign: float) -> float:
    """Newton's steps on log tail = log level: the inverse alone is off by 1e-9 at a billion trials."""
    for _ in range(3):
        found = float(tail(a, b, rate))
        if not (0.0 < rate < 1.0 and found > 0.0):
            break
        log_density = (a - 1.0) * math.log(rate) + (b - 1.0) * math.log1p(-rate) - float(betaln(a, b))
        move = math.log(level / found) * found / (rate * math.exp(log_density)) * sign
        if not abs(move) < 1e-3:
            break
        rate *= 1.0 + move
        if abs(move) < 1e-15:
            break
    return rate


class Rates(NamedTuple):
    """Limits at alpha/2 each. A rate and its complement are computed apart, so that small ones keep their digits."""

    fpr_upper: float
    fnr_upper: float
    tpr_lower: float
    tnr_lower: float
    fpr_lower: float
    fnr_lower: float
    tpr_upper: float
    tnr_upper: float


def rates(true_positives: float, positives: float, false_positives: float, negatives: float, alpha: float) -> Rates:
    """Limits of both error rates from TP of P and FP of N."""
    a = alpha / 2
    misses, passes = positives - true_positives, negatives - false_positives
    return Rates(
        rate_upper(false_positives, negatives, a), rate_upper(misses, positives, a),
        rate_lower(true_positives, positives, a), rate_lower(passes, negatives, a),
        rate_lower(false_positives, negatives, a), rate_lower(misses, positives, a),
        rate_upper(true_positives, positives, a), rate_upper(passes, negatives, a),
    )


def epsilon_at_least(success: float, error: float, delta: float) -> float:
    """ln((success - delta)/error) from (eps, delta)-DP: success <= e^eps error + delta; 0 where nothing follows."""
    if success <= delta:
        return 0.0
    return max(math.log((success - delta) / error), 0.0) if error > 0.0 else math.inf


def model_free(found: Rates, delta: float) -> tuple[float, float]:
    """(lower, upper) epsilon of the two inequalities TPR <= e^eps FPR + delta and TNR <= e^eps FNR + delta."""
    low = max(epsilon_at_least(found.tpr_lower, found.fpr_upper, delta), epsilon_at_least(found.tnr_lower, found.fnr_upper, delta))
    top = max(epsilon_at_least(found.tpr_upper, found.fpr_lower, delta), epsilon_at_least(found.tnr_upper, found.fnr_lower, delta))
    return low, max(top, low)
