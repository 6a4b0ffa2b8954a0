"""Lower bounds on divergences from one event: the hockey-stick by an accuracy, the Renyi divergence by data processing."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpaccount.auditing.intervals import Rates, rate_upper

Array = npt.NDArray[np.float64]


def hockey_stick_at_least(correct: float, labels: float, epsilon: float, alpha: float) -> float:
    """delta(eps) >= (1 + e^eps) accuracy - e^eps, where a label is "out" with probability e^eps/(1 + e^eps).

    One exact binomial limit on the accuracy; a Hoeffding bound would lose more.

    Examples
    --------
    >>> from dpaccount.auditing.divergences import hockey_stick_at_least
    >>> round(hockey_stick_at_least(8000, 10000, 1.0, 0.05), 8)
    0.23145455
    """
    wrong = rate_upper(labels - correct, labels, alpha)
    if wrong == 0.0:
        return 1.0
    return max(1.0 - wrong - math.exp(min(epsilon + math.log(wrong), 1.0)), 0.0)


def labelled(x0: Array, x1: Array, epsilon: float, rng: np.random.Generator) -> tuple[Array, Array, int]:
    """Scores of both kinds for labels drawn with odds e^eps, and the number of labels.

    The number is fixed by the sizes alone. Labels for which scores run out (4 standard deviations away) are missing from the
    scores, and so count as wrong, which only lowers the accuracy.
    """
    share = 1.0 / (1.0 + math.exp(min(epsilon, 700.0)))

    def enough(total: int) -> bool:
        room = 4.0 * math.sqrt(total * share * (1.0 - share))
        return total * share + room <= x1.size and total * (1.0 - share) + room <= x0.size

    low, high = 0, x0.size + x1.size + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    total = max(low, 1)
    inside = int(rng.binomial(total, share))
    return rng.permutation(x0)[: total - inside], rng.permutation(x1)[:inside], total


def renyi_at_least(found: Rates, order: float) -> float:
    """D_a of the event's two coins, at its least over the rectangle of the rate limits, and the same for the complement.

    D_a(Ber(p)||Ber(q)) rises in p and falls in q for p > q, and no processing of the output raises a divergence (M17).
    """
    return max(coin_divergence(found.tpr_lower, found.fpr_upper, order), coin_divergence(found.tnr_lower, found.fnr_upper, order))


def coin_divergence(p: float, q: float, order: float) -> float:
    """D_a(Ber(p)||Ber(q)), and 0 where p <= q."""
    if p <= q:
        return 0.0
    if q == 0.0 or (q == 1.0 and p < 1.0):
        return math.inf
    first = order * math.log(p) + (1.0 - order) * math.log(q)
    if p == 1.0:
        return first / (order - 1.0)
    second = order * math.log1p(-p) + (1.0 - order) * math.log1p(-q)
    return max(float(np.logaddexp(first, second)) / (order - 1.0), 0.0)
