"""Closed forms: one step that has one, any composition of Gaussians, and few enough combinations of atoms."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from dpaccount._log import ULP, gaussian_log_delta, gaussian_log_error, log1m_exp, log_total, log_unsampled
from dpaccount.mechanisms.additive import AdditiveMixture
from dpaccount.mechanisms.atomic import atom_log_delta
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.pair import DominatingPair, Reversed, Step
from dpaccount.results import LogDelta
from dpaccount.sampling.fixed_size import FixedSizeSampled
from dpaccount.sampling.poisson import PoissonSampled

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
    slip = _slip(step, float(epsilon), value)
    found = with_absolute(_bracket(value, above(step, float(epsilon))[1], slip.relative), slip.log_absolute)
    return _floored(found, epsilon)


def _value(step: Step, epsilon: float) -> float:
    found = step.log_delta(np.array(float(epsilon)))
    assert found is not None
    return float(found)


class _Slip(NamedTuple):
    """What rounding does to delta beside a few ulps of 1 + |log delta|: relatively, and absolutely (its log)."""

    relative: float
    log_absolute: float


def _slip(step: Step, epsilon: float, value: float) -> _Slip:
    """The error of a step's formula, `value` at `epsilon`; that of a level counts with the slope there, e^eps Q[L > eps]."""
    inner = step.step if isinstance(step, Reversed) else step
    if isinstance(inner, PoissonSampled) and inner.step.log_delta(np.array(0.0)) is not None:
        q = inner.sampling_probability
        if q == 0.0:
            return _Slip(ULP, -np.inf)
        return _added(inner, epsilon) if isinstance(step, Reversed) else _removed(inner.step, q, epsilon)
    if isinstance(step, FixedSizeSampled):
        found = _removed(step.step.scaled(2), step.sample_size / step.dataset_size, abs(epsilon))
        if epsilon >= 0.0:
            return found
        other = epsilon + _value(step, -epsilon)  # added to 1 - e^eps
        return _Slip(ULP + found.relative * math.exp(min(other - value, 0.0)), found.log_absolute + epsilon)
    if isinstance(step, Gaussian):
        return _Slip(0.0 if step.mu == np.inf else gaussian_log_error(epsilon, step.mu), -np.inf)
    if isinstance(step, ExponentialMechanism):
        return _Slip(4 * ULP, -np.inf)  # eps - eta is exact near the end
    if step.density() is None:
        return _atoms_slip(step, epsilon)
    tails = step.tails(np.array(epsilon))  # of steps that are not sampled
    reach = abs(epsilon) + max(abs(v) for v in (step.facts.min_loss, step.facts.max_loss, 0.0) if np.isfinite(v))
    moved = epsilon + float(tails.q_above) + _log(2 * ULP * reach)
    if isinstance(inner, Laplace):
        return _Slip(0.0, moved)
    return _mixture_slip(step, inner, epsilon, value) if isinstance(inner, AdditiveMixture) else _Slip(tails.error, moved)


def _removed(step: Step, q: float, epsilon: float) -> _Slip:
    """q E_v(P||Q) with v = 1 + (e^eps - 1)/q: its rounding moves delta by Q[L > log v] q dv."""
    level = float(log_unsampled(epsilon, q))
    if level == -np.inf:
        return _Slip(8 * ULP, -np.inf)
    below = _slip(step, level, _value(step, level))
    log_move, shift = _level_error(epsilon, q, level)
    log_q = float(np.log(q))
    moved = log_move + above(step, level - shift)[1]
    return _Slip(below.relative - 2 * ULP * log_q, float(np.logaddexp(below.log_absolute + log_q, moved)))


def _added(sampled: PoissonSampled, epsilon: float) -> _Slip:
    """e^eps q v E_{1/v}(Q||P) with v = 1 + (e^{-eps} - 1)/q: its rounding moves delta by Q[L > -log v] e^eps q dv."""
    q, step = sampled.sampling_probability, sampled.step.reversed()
    level = float(log_unsampled(-epsilon, q))
    log_move, _ = _level_error(-epsilon, q, level)
    highest = float(np.logaddexp(level, log_move + _log(2.0 / q)))
    moved = epsilon + log_move + above(step, -highest)[0]
    if level == -np.inf:
        return _Slip(0.0, moved)
    below = _slip(step, -level, _value(step, -level))
    rounding = 2 * ULP * (abs(epsilon) + abs(level) + abs(float(np.log(q))))
    return _Slip(below.relative + rounding, float(np.logaddexp(below.log_absolute + epsilon + np.log(q) + level, moved)))


def above(step: Step, loss: float) -> tuple[float, float]:
    """log P[L > loss] and log Q[L > loss] at levels that keep their digits near 0."""
    inner = step.step if isinstance(step, Reversed) else step
    if isinstance(inner, PoissonSampled) and inner.sampling_probability == 1.0:
        return above(inner.step.reversed() if isinstance(step, Reversed) else inner.step, loss)
    if not isinstance(inner, PoissonSampled) or inner.sampling_probability == 0.0:
        tails = step.tails(np.array(loss))
        return float(tails.p_above), float(tails.q_above)
    q = inner.sampling_probability
    if isinstance(step, Reversed):
        own, other = above(inner.step.reversed(), -float(log_unsampled(-loss, q)))
        return own, float(np.logaddexp(np.log1p(-q) + own, np.log(q) + other))
    level = float(log_unsampled(loss, q))
    if level == -np.inf:
        return 0.0, 0.0
    own, other = above(inner.step, level)
    return float(np.logaddexp(np.log1p(-q) + other, np.log(q) + own)), other


def _level_error(loss: float, q: float, level: float) -> tuple[float, float]:
    """The rounding of v = 1 + (e^loss - 1)/q as log(q dv), and that of log v."""
    if q == 1.0:
        return -np.inf, 0.0
    part = loss if loss >= 1.0 else _log(min(abs(math.expm1(loss)), math.exp(loss)))
    turn = 0.0 if level == -np.inf else abs(level)
    log_move = float(np.logaddexp(part, np.log(q) + level + _log(turn)) if turn else part) + _log(3 * ULP)
    return log_move, math.exp(min(log_move - float(np.log(q)) - level, 0.0)) if turn else 0.0


def _atoms_slip(step: Step, epsilon: float) -> _Slip:
    """Atoms off by their losses' rounding each, and sums of them."""
    loss, log_p = step.atoms()
    error = step.loss_error(loss)
    log_p = log_p[loss > epsilon - error]
    loss, error = (v[loss > epsilon - error] for v in (loss, error))
    with np.errstate(divide="ignore"):
        moved = log_total(log_p + np.minimum(epsilon - loss, 0.0) + np.log(error + ULP * np.abs(loss - epsilon)))
    return _Slip(ULP * (10.0 + min(loss.size, 30)) + step.mass_error, float(np.logaddexp(moved, step.log_left_out)))


def _mixture_slip(step: Step, mixture: AdditiveMixture, epsilon: float, value: float) -> _Slip:
    """A difference of tails at a rounded loss; where the table of losses ends at 45 noise scales, what lies beyond."""
    shift = float(step.loss_error(np.array([epsilon]))[0]) + ULP * abs(epsilon)
    tails = step.tails(np.array([epsilon, epsilon - 2 * shift]))
    moved = epsilon + float(tails.q_above[1]) + _log(shift)
    if value == -np.inf:
        beyond = float(mixture.base.noise_log_tails(np.array(45.0 * mixture.base.noise_scale))[0])
        return _Slip(0.0, float(np.logaddexp(moved, beyond)))
    log_p = float(tails.p_above[0])
    return _Slip(2 * (tails.error + 8 * ULP * abs(log_p)) * math.exp(min(log_p - value, 600.0)), moved)


def _enumerated(pair: DominatingPair, epsilon: float) -> LogDelta:
    """Sum over every combination of atoms: positive terms, so the error is a few ulps a step."""
    loss, log_p, error = _combinations(pair)
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


def _combinations(pair: DominatingPair) -> tuple[Array, Array, Array]:
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


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -np.inf
