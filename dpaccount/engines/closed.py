"""Closed forms: one step that has one, and any composition of Gaussians."""

from __future__ import annotations

import numpy as np

from dpaccount._log import gaussian_log_delta
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair, Step
from dpaccount.results import LogDelta

ULP = 2.3e-16


def composed_mu(pair: DominatingPair) -> float | None:
    """mu = sqrt(sum mu_i^2) if every step is Gaussian (DRS19, Corollary 3.3), else None."""
    if not all(isinstance(step, Gaussian) for step, _ in pair.terms):
        return None
    ratios = [(float(np.sqrt(count)), step.mu) for step, count in pair.terms if isinstance(step, Gaussian)]
    top = max(mu for _, mu in ratios)
    if not np.isfinite(top):
        return np.inf
    return top * float(np.sqrt(sum((root * mu / top) ** 2 for root, mu in ratios)))


def supports(pair: DominatingPair) -> bool:
    """Whether `log_delta` answers this pair at every epsilon."""
    if len(pair.terms) == 1 and pair.terms[0][1] == 1:
        return pair.terms[0][0].log_delta(np.array(1e-9)) is not None
    return composed_mu(pair) is not None


def log_delta(pair: DominatingPair, epsilon: float) -> LogDelta:
    """log delta with an error of a few ulps of its terms; certified on the stated accuracy of elementary functions."""
    mu = composed_mu(pair)
    if mu is not None and len(pair.terms) + pair.terms[0][1] > 2:
        if mu == np.inf:
            return LogDelta(0.0, 0.0, 0.0, True, "closed", log_tail=-np.inf)
        value = float(gaussian_log_delta(epsilon, mu))
        tail = Gaussian(1.0 / mu).tails(epsilon)
        return _bracket(value, float(tail.q_above), 4e-15 + 2 * ULP * (epsilon / mu) ** 2)
    step: Step = pair.terms[0][0]
    found = step.log_delta(np.array(float(epsilon)))
    assert found is not None
    tails = step.tails(np.array(float(epsilon)))
    return _bracket(float(found), float(tails.q_above), tails.error)


def _bracket(value: float, log_tail: float, error: float) -> LogDelta:
    """Widen by the error of log delta: relative to its size, since exp and log see the whole exponent."""
    if value == -np.inf:
        return LogDelta(value, value, value, True, "closed", log_tail=log_tail)
    slack = error + 8 * ULP * (1 + abs(value))
    return LogDelta(value - slack, value, min(value + slack, 0.0), True, "closed", log_tail=log_tail)
