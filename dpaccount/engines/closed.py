"""Closed forms: one step that has one, any composition of Gaussians, and few enough combinations of atoms."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from dpaccount._log import gaussian_log_delta, log1m_exp, log_total
from dpaccount.mechanisms.additive import AdditiveMixture
from dpaccount.mechanisms.atomic import atom_log_delta
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair, Reversed, Step
from dpaccount.results import LogDelta

Array = npt.NDArray[np.float64]
ULP = 2.3e-16
MAX_COMBINATIONS = 200_000


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
    return composed_mu(pair) is not None or np.isfinite(_combination_count(pair))


def kind(pair: DominatingPair) -> str:
    """What makes the pair closed, for people."""
    if composed_mu(pair) is not None:
        return "Gaussians only, which compose to one Gaussian"
    if len(pair.terms) == 1 and pair.terms[0][1] == 1:
        return "one step with a formula"
    return "few enough combinations of atoms to enumerate"


def log_delta(pair: DominatingPair, epsilon: float) -> LogDelta:
    """log delta with an error of a few ulps of its terms; certified on the stated accuracy of elementary functions."""
    mu = composed_mu(pair)
    if mu is not None and len(pair.terms) + pair.terms[0][1] > 2:
        if mu == np.inf:
            return LogDelta(0.0, 0.0, 0.0, True, "closed", log_tail=-np.inf)
        value = float(gaussian_log_delta(epsilon, mu))
        tail = Gaussian(1.0 / mu).tails(epsilon)
        return _bracket(value, float(tail.q_above), 4e-15 + 1e-15 * mu + 2 * ULP * (epsilon / mu) ** 2)
    step, count = pair.terms[0]
    if count > 1 or len(pair.terms) > 1:
        return _enumerated(pair, epsilon)
    found = step.log_delta(np.array(float(epsilon)))
    assert found is not None
    tails = step.tails(np.array(float(epsilon)))
    cancel = 2 * float(np.exp(min(float(tails.p_above) - float(found), 600.0))) if _is_difference(step) else 1.0
    answer = _bracket(float(found), float(tails.q_above), tails.error * cancel)
    if step.density() is not None or answer.estimate == -np.inf:
        return answer
    reach = 1.0 + abs(epsilon) + max(abs(v) for v in (step.facts.min_loss, step.facts.max_loss, 0.0) if np.isfinite(v))
    return with_absolute(answer, float(tails.p_above) + float(np.log(8 * ULP * reach)))


def _is_difference(step: Step) -> bool:
    """Whether the step's curve is computed as a difference of its tails."""
    inner = step.step if isinstance(step, Reversed) else step
    return isinstance(inner, AdditiveMixture) and inner.base.noise_kind != "lattice"


def _enumerated(pair: DominatingPair, epsilon: float) -> LogDelta:
    """Sum over every combination of atoms: positive terms, so the error is a few ulps a step."""
    loss, log_p = _combinations(pair)
    value = float(atom_log_delta(loss, log_p, pair.log_p_only, epsilon))
    above = loss > epsilon
    tail = log_total((log_p - loss)[above])
    steps = sum(count for _, count in pair.terms)
    weights = sum(float(gammaln(count + 1)) for _, count in pair.terms)
    reach = float(np.abs(loss).max(initial=0.0)) + abs(epsilon)
    answer = _bracket(value, tail, 8 * ULP * (steps + weights + 60.0))
    return with_absolute(answer, log_total(log_p[above]) + float(np.log(8 * ULP * (1.0 + reach))))


def with_absolute(answer: LogDelta, log_error: float) -> LogDelta:
    """The bracket widened by an absolute error of delta: the losses' own rounding moves 1 - e^{eps - l} by ulps of l."""
    low = answer.lower + float(log1m_exp(log_error - answer.lower)) if log_error < answer.lower else -np.inf
    return answer._replace(lower=low, upper=min(float(np.logaddexp(answer.upper, log_error)), 0.0))


def _combination_count(pair: DominatingPair) -> float:
    total = 1.0
    for step, count in pair.terms:
        if step.density() is not None:
            return np.inf
        size = step.atoms()[0].size
        total *= 1.0 if size <= 1 else math.comb(count + size - 1, min(size - 1, count)) if count < 10**6 else np.inf
        if total > MAX_COMBINATIONS:
            return np.inf
    return total


def _combinations(pair: DominatingPair) -> tuple[Array, Array]:
    """Losses and log P-masses of the composition's atoms."""
    loss, log_p = np.zeros(1), np.zeros(1)
    for step, count in pair.terms:
        more_loss, more_p = _multiples(*step.atoms(), count)
        loss = np.add.outer(loss, more_loss).ravel()
        log_p = np.add.outer(log_p, more_p).ravel()
    return loss, log_p


def _multiples(loss: Array, log_p: Array, count: int) -> tuple[Array, Array]:
    """Every way to spread `count` draws over the atoms, with its multinomial probability."""
    left = np.array([count])
    total, log_w = np.zeros(1), np.full(1, float(gammaln(count + 1)))
    for k in range(loss.size):
        if k == loss.size - 1:
            taken, base = left, np.arange(left.size)
        else:
            base = np.repeat(np.arange(left.size), left + 1)
            taken = np.arange(base.size) - np.repeat(np.cumsum(left + 1) - (left + 1), left + 1)
        total = total[base] + taken * loss[k]
        log_w = log_w[base] + taken * log_p[k] - gammaln(taken + 1)
        left = left[base] - taken
    return total, log_w


def widened(value: float, log_tail: float) -> LogDelta:
    """An exact value with the rounding of its own formula."""
    return _bracket(value, log_tail, 4 * ULP)


def _bracket(value: float, log_tail: float, error: float) -> LogDelta:
    """Widen by the error of log delta: relative to its size, since exp and log see the whole exponent."""
    if value == -np.inf:
        return LogDelta(value, value, value, True, "closed", log_tail=log_tail)
    slack = error + 8 * ULP * (1 + abs(value))
    return LogDelta(value - slack, value, min(value + slack, 0.0), True, "closed", log_tail=log_tail)
