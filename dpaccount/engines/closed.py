"""Closed forms: one step that has one, any composition of Gaussians, and few enough combinations of atoms."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from dpaccount._log import ULP, gaussian_log_delta, gaussian_log_error, log1m_exp, log_total
from dpaccount.mechanisms.atomic import atom_log_delta
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair, Step, log_error
from dpaccount.results import LogDelta

Array = npt.NDArray[np.float64]
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
    return composed_mu(pair) is not None or np.isfinite(combination_count(pair))


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
        error = gaussian_log_error(epsilon, mu) * (2.0 + 0.25 * len(pair.terms))  # mu is a root of a sum
        return _floored(_bracket(value, float(tail.q_above), error), epsilon)
    step, count = pair.terms[0]
    if count > 1 or len(pair.terms) > 1:
        return _enumerated(pair, epsilon)
    value = _value(step, epsilon)
    slip = step.slip(float(epsilon), value)
    found = with_absolute(_bracket(value, step.above(float(epsilon))[1], slip.relative), slip.log_absolute)
    return _floored(found, epsilon)


def _value(step: Step, epsilon: float) -> float:
    found = step.log_delta(np.array(float(epsilon)))
    assert found is not None
    return float(found)


def _enumerated(pair: DominatingPair, epsilon: float) -> LogDelta:
    """Sum over every combination of atoms: positive terms, so the error is a few ulps a step."""
    loss, log_p, error = combinations(pair)
    value = float(atom_log_delta(loss, log_p, pair.log_p_only, epsilon))
    tail = log_total((log_p - loss)[loss > epsilon])
    steps = sum(count for _, count in pair.terms)
    weights = sum(float(gammaln(count + 1)) for _, count in pair.terms)
    near = loss > epsilon - error
    with np.errstate(divide="ignore"):
        moved = log_total((log_p + np.minimum(epsilon - loss, 0.0) + np.log(error + ULP * np.abs(loss - epsilon)))[near])
    cut = max(float(np.log(count)) + step.log_left_out for step, count in pair.terms)
    masses = sum(count * step.mass_error for step, count in pair.terms)
    answer = _bracket(value, tail, 8 * ULP * (steps + weights + 60.0) + masses)
    return _floored(with_absolute(answer, float(np.logaddexp(moved, cut))), epsilon)


def with_absolute(answer: LogDelta, log_error: float) -> LogDelta:
    """The bracket widened by an absolute error of delta."""
    low = answer.lower + float(log1m_exp(log_error - answer.lower)) if log_error < answer.lower else -np.inf
    return answer._replace(lower=low, upper=min(float(np.logaddexp(answer.upper, log_error)), 0.0))


def combination_count(pair: DominatingPair) -> float:
    """How many combinations of atoms the composition has; inf with a density, or beyond what is enumerated."""
    total = 1
    for step, count in pair.terms:
        if step.density() is not None:
            return np.inf
        size = max(step.atoms()[0].size, 1)
        small, large = sorted((count, size - 1))
        ways = 1
        for i in range(1, small + 1):  # binomial(large + i, i), which grows with i
            ways = ways * (large + i) // i
            if total * ways > MAX_COMBINATIONS:
                return np.inf
        total *= ways
    return float(total)


def combinations(pair: DominatingPair) -> tuple[Array, Array, Array]:
    """Losses and log P-masses of the composition's atoms, and what the losses may be off by."""
    loss, log_p, error = np.zeros(1), np.zeros(1), np.zeros(1)
    for step, count in pair.terms:
        own, own_p = step.atoms()
        adds = 0.5 * ULP * (len(pair.terms) + own.size + 1)
        more_loss, more_p, more_error = _multiples(own, own_p, step.loss_error(own) + adds * np.abs(own), count)
        loss = np.add.outer(loss, more_loss).ravel()
        log_p = np.add.outer(log_p, more_p).ravel()
        error = np.add.outer(error, more_error).ravel()
    return loss, log_p, error


def _multiples(loss: Array, log_p: Array, error: Array, count: int) -> tuple[Array, Array, Array]:
    """Every way to spread `count` draws over the atoms, with its multinomial probability."""
    left = np.array([count])
    total, log_w, off = np.zeros(1), np.full(1, float(gammaln(count + 1))), np.zeros(1)
    for k in range(loss.size):
        if k == loss.size - 1:
            taken, base = left, np.arange(left.size)
        else:
            base = np.repeat(np.arange(left.size), left + 1)
            taken = np.arange(base.size) - np.repeat(np.cumsum(left + 1) - (left + 1), left + 1)
        total = total[base] + taken * loss[k]
        log_w = log_w[base] + taken * log_p[k] - gammaln(taken + 1)
        off = off[base] + taken * error[k]
        left = left[base] - taken
    return total, log_w, off


def widened(value: float, log_tail: float) -> LogDelta:
    """An exact value with the rounding of its own formula."""
    return _bracket(value, log_tail, 4 * ULP)


def between(log_low: float, log_more: float) -> LogDelta:
    """A value of e^log_low at least, and at most e^log_more above it."""
    low = widened(log_low, -np.inf)
    if log_more == -np.inf:
        return low
    upper = min(float(np.logaddexp(low.upper, log_more + 16 * ULP * (1.0 + abs(log_more)))), 0.0)
    return low._replace(estimate=min(float(np.logaddexp(log_low, log_more)), upper), upper=upper)


def end_of_range(pair: DominatingPair, epsilon: float, *, top: bool) -> float:
    """How far the largest loss may lie above epsilon, or the least below; at most 0 where it certainly does not."""
    if not np.isfinite(epsilon):
        return -np.inf if (epsilon > 0.0) == top else np.inf
    gap, error = -Fraction(epsilon), 0.0
    for step, count in pair.terms:
        end = step.facts.max_loss if top else step.facts.min_loss
        gap += count * Fraction(end)
        error += count * float(step.loss_error(np.array([end]))[0])
    return float(gap if top else -gap) + error * (1.0 + 1e-12)


NEAR_TOP = (1e-8, 1e-10, 1e-12)  # of the largest loss


def near_top(pair: DominatingPair, log_delta: float) -> tuple[float, float] | None:
    """The epsilon of a delta, between two numbers, if it lies next to the largest loss; None if that is not seen.

    If every one of n losses exceeds its largest by no less than -g/2n, their sum exceeds top - g/2, so that
    delta(top - g) >= (1 - e^{-g/2}) prod P[L_i > max_i - g/2n]; beyond the top delta is 0.
    """
    top = pair.loss_range[1]
    if not (0.0 < top < np.inf and pair.log_p_only == -np.inf):
        return None
    best: tuple[float, float] | None = None
    for part in NEAR_TOP:
        gap = part * top
        if not _held(pair, gap) + float(log1m_exp(-gap / 2)) - 1e-12 > log_delta:
            break
        room = max(end_of_range(pair, top, top=True), 0.0) + 4 * ULP * top
        best = max(top - gap - room, 0.0), top + room
    return best


def beside_top(pair: DominatingPair, epsilon: float) -> LogDelta | None:
    """delta a gap g below the largest loss, between two numbers that meet where every step has an atom there; None farther off.

    The sum of n losses exceeds epsilon only if each lies within g of its largest, so that delta <= (1 - e^{-g}) prod P[L_i > max_i - g];
    and delta >= (1 - e^{-(1 - s) g}) prod P[L_i > max_i - s g/n] for every part s.
    """
    top = pair.loss_range[1]
    if not (top < np.inf and top - epsilon < BESIDE * (1.0 + abs(top)) and pair.log_p_only == -np.inf):
        return None
    most = end_of_range(pair, epsilon, top=True)
    errors = [float(step.loss_error(np.array([step.facts.max_loss]))[0]) for step, _ in pair.terms]
    least = most - 2.0 * sum(count * error for (_, count), error in zip(pair.terms, errors, strict=True)) - 4 * ULP * most
    if not least > 0.0:
        return None
    high, tail = float(log1m_exp(-most)), 0.0
    for (step, count), error in zip(pair.terms, errors, strict=True):
        end = step.facts.max_loss
        tails = step.tails(np.array(end - most - 2.0 * error - 4 * ULP * abs(end)))
        above = float(tails.p_above)
        high += count * (above + 1.1 * float(log_error(above, tails.error)))
        tail += count * float(tails.q_above)
    steps = sum(count for _, count in pair.terms)
    finest = 40 * ULP * steps * (1.0 + abs(top)) / least  # where an atom at the top still counts
    low = max(_held(pair, 2.0 * part * least) + float(log1m_exp(-(1.0 - part) * least)) for part in (finest, 1e-3, 0.5) if part <= 0.5)
    slack = 16 * ULP * (1.0 + abs(high))
    low = min(low, high)
    middle = (low + high) / 2 if high - low < 1.0 else high  # losses that share the gap lie halfway on average
    return LogDelta(low - slack, middle, min(high + slack, 0.0), True, "closed", 1.0, min(tail, 0.0))


BESIDE = 1e-3  # of the largest loss: farther off the two numbers are of no use
LAST = 1e-11  # the same: closer than that the sum of the steps' own roundings is what decides


def at_rounding(pair: DominatingPair, epsilon: float) -> bool:
    """Whether epsilon lies so close to the largest loss that sums of rounded losses say no more than `beside_top`."""
    top = pair.loss_range[1]
    return bool(top - epsilon < LAST * (1.0 + abs(top)))


def _held(pair: DominatingPair, gap: float) -> float:
    """log of a lower bound on the probability that every loss lies within gap/2n of its largest."""
    share, held = gap / (2.0 * sum(count for _, count in pair.terms)), 0.0
    for step, count in pair.terms:
        end = step.facts.max_loss
        if not share > 16 * ULP * abs(end) + float(step.loss_error(np.array([end]))[0]):
            return -np.inf
        tails = step.tails(np.array(end - share))
        above = float(tails.p_above)
        if above == -np.inf:
            return -np.inf
        held += count * (above - 1.1 * float(log_error(above, tails.error)))
    return held


def _bracket(value: float, log_tail: float, error: float) -> LogDelta:
    """Widen by the error of log delta: relative to its size, since exp and log see the whole exponent."""
    if value == -np.inf:
        return LogDelta(value, value, value, True, "closed", log_tail=log_tail)
    slack = error + 8 * ULP * (1 + abs(value))
    value = min(value, 0.0)
    return LogDelta(value - slack, value, min(value + slack, 0.0), True, "closed", log_tail=log_tail)


def _floored(answer: LogDelta, epsilon: float) -> LogDelta:
    """No pair has delta below 1 - e^eps."""
    if epsilon >= 0.0:
        return answer
    edge = float(log1m_exp(epsilon))
    return answer._replace(lower=max(answer.lower, min(edge - 4 * ULP * (1.0 + abs(edge)), answer.estimate)))

