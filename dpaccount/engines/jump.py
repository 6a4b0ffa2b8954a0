"""One big jump, split off exactly.

E = {some L_i > cut} with cut = eps + margin. The margin is chosen so that on E the total loss
exceeds eps (but for a probability that is bounded), hence

    delta = P(E) - e^eps Q(E) + delta_B + r,   0 <= r <= slack,

where delta_B is the same hockey-stick divergence of the sub-probabilities restricted to all L_i <= cut, and Q(E) leaves out
the outcomes that only Q shows: some L_i = -inf there, so they are never among those that delta counts.
Without the split the far cluster that the tilt builds from single jumps drowns the answer.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import log1m_exp, log_total
from dpaccount._quadrature import TooManyNodes, nodes_log_mgf
from dpaccount.engines import closed
from dpaccount.engines.many.family import Family, families, rounded
from dpaccount.pair import DominatingPair, Step, log_error

Array = npt.NDArray[np.float64]
CANCELS = 0.1  # P(E) and e^eps Q(E) closer than this, in logs, are subtracted by the steps' curves
BINS = 10  # noise multipliers that stand for a family in a margin
LOG_LEFT_OVER = -69.0  # the others' sum lies below -margin with probability at most 1e-30


class Margin(NamedTuple):
    """On E the others' losses sum to at least -distance but for probability e^log_fail under Q.

    `bounded` says whether that probability is a bound; a Chernoff margin from nodes is an estimate, whose failure
    the lattice bounds anew.
    """

    distance: float
    log_fail: float = -np.inf
    bounded: bool = True


NO_CUT = Margin(np.inf)


class Jump(NamedTuple):
    """The split at one epsilon: log P(E), log Q(E), log of the slack, the relative error of the two, and the margin that it was
    made with; where the two nearly cancel also log of P(E) - Q(E) and its relative error, if the steps' curves tell it."""

    cut: float
    log_p: float
    log_q: float
    log_slack: float
    error: float
    margin: Margin
    log_more: float = np.nan
    more_error: float = 0.0

    def log_part(self, epsilon: float) -> tuple[float, float]:
        """log of P(E) - e^eps Q(E) and log of its absolute error."""
        part, error = self.log_parts(np.array(epsilon))
        return float(part), float(error)

    def log_parts(self, epsilon: Array) -> tuple[Array, Array]:
        """The same at many epsilons."""
        if self.log_p == -np.inf:
            none = np.full(epsilon.shape, -np.inf)
            return none, none
        if self.log_more == self.log_more:  # P(E) - Q(E) - (e^eps - 1) Q(E)
            with np.errstate(divide="ignore"):
                above = np.maximum(epsilon, 0.0)
                taken = np.minimum(above + log1m_exp(-above) + self.log_q, self.log_more)  # log(e^eps - 1) without overflow
                size = np.logaddexp(self.log_more + np.log(self.more_error), taken + np.log(self.error + 4e-16))
                return np.asarray(self.log_more + log1m_exp(taken - self.log_more)), np.asarray(size)
        gap = np.minimum(epsilon + self.log_q - self.log_p, 0.0)
        with np.errstate(divide="ignore"):
            size = self.log_p + np.log(self.error) + np.log1p(np.exp(gap))
            return np.asarray(self.log_p + log1m_exp(gap)), np.asarray(size)


def exact_margin(pair: DominatingPair) -> float:
    """What the other steps' losses can sum to below zero, at worst; inf if unbounded."""
    low, _ = pair.loss_range
    if not np.isfinite(low):
        return np.inf
    if families(pair)[1]:
        pair = rounded(pair, 1)[1]  # all of a family have the same end
    return max(max(step.facts.min_loss for step, _ in pair.terms) - low, 0.0)


@lru_cache(maxsize=64)
def margin(pair: DominatingPair) -> Margin:
    """The smaller of the exact margin and Chernoff's."""
    exact, (chernoff, proved) = exact_margin(pair), _chernoff(pair)
    return Margin(exact) if exact <= chernoff else Margin(chernoff, LOG_LEFT_OVER + 1e-6, proved)


def _chernoff(pair: DominatingPair) -> tuple[float, bool]:
    """min over t of [log E_Q e^{-t sum L} + 69]/t, with E_Q e^{-tL} = e^{K(-1-t)} (inf if it cannot be had), and whether the
    nodes of K are proved."""
    if families(pair)[1]:
        pair = rounded(pair, BINS)[1]  # the bound grows as the noise falls
    spread = 0.0
    try:
        for step, count in pair.terms:
            found = step.nodes(-1.0, 0.0, 0.0)
            weight = np.exp(found.log_p - found.loss - log_total(found.log_p - found.loss))
            mean = float(weight @ found.loss)
            spread += count * float(weight @ (found.loss - mean) ** 2)
    except TooManyNodes:
        return np.inf, False
    if not spread > 0.0:
        return np.inf, False
    best, proved = np.inf, False
    for scale in (1.0, 0.55, 0.3, 0.1, 0.03, 0.01):
        try:
            value, sure = _chernoff_at(pair, float(np.sqrt(-2 * LOG_LEFT_OVER / spread)) * scale)
        except TooManyNodes:
            continue
        if value > best:
            break
        best, proved = value, sure
    return max(best, 0.0), proved


def _chernoff_at(pair: DominatingPair, tilt: float) -> tuple[float, bool]:
    total, proved = 0.0, True
    for step, count in pair.terms:
        found = step.nodes(-1.0 - tilt, 0.0, 0.0)
        shift = found.log_p - found.loss
        moved = nodes_log_mgf(found._replace(loss=-found.loss, log_p=shift), 0.0, tilt)
        total += count * max(float(moved) + min(log_total(shift), 0.0), 0.0)  # the step that jumps may be any
        proved = proved and found.rounding is not None
    return (total - LOG_LEFT_OVER) / tilt, proved


def split(pair: DominatingPair, epsilon: float, margin: Margin) -> Jump:
    """The split at cut = epsilon + margin, or just above an atom there."""
    if margin.distance == np.inf and pair.log_p_only == -np.inf and all(step.log_left_out == -np.inf for step in pair.kinds):
        return Jump(np.inf, -np.inf, -np.inf, -np.inf, 0.0, margin)
    single, several = families(pair)
    cut = clear_of_atoms([step for step, _ in single], epsilon + margin.distance)
    found = at_ends(pair, cut, epsilon, margin, [cut] * len(single), several)
    if several or not epsilon >= 0.0 or not epsilon + found.log_q > found.log_p - CANCELS or not cut < np.inf:
        return found
    return _apart(pair, found)


def clear_of_atoms(steps: list[Step], cut: float) -> float:
    """The least cut from here on that no atom's rounding reaches, so that tails and nodes count the same atoms below it."""
    if not np.isfinite(cut):
        return cut
    while True:
        hair, moved = 1e-12 * (1.0 + abs(cut)), cut
        for step in steps:
            loss = step.atoms()[0]
            moved = max(moved, float(np.max(loss[np.abs(loss - cut) <= hair] + 2 * hair, initial=cut)))
        if moved == cut:
            return cut
        cut = moved


def _apart(pair: DominatingPair, found: Jump) -> Jump:
    """With P(E) - Q(E), P[L_i > cut] - Q[L_i > cut] being delta_i(cut) + (e^cut - 1) Q[L_i > cut], a sum of positive terms.

    P(E) - Q(E) = (1 - Q(E)) (1 - prod (1 - r_i)^{n_i}), r_i = that difference over 1 - Q[L_i > cut].
    """
    rates, error = [], found.error
    for step, count in pair.terms:
        if not closed.supports(step) or step.facts.log_q_only > -np.inf or step.facts.log_p_only > -np.inf:
            return found
        curve, above = closed.log_delta(step, found.cut), float(step.tails(np.array(found.cut)).q_above)
        if above == -np.inf and curve.upper == -np.inf:
            continue
        more = float(np.logaddexp(curve.upper, found.cut + float(log1m_exp(-found.cut)) + above))
        wide = np.expm1(min(curve.upper - curve.lower, 1.0)) if curve.lower > -np.inf else 1.0
        error = max(error, float(wide) + 1e-15 * (4.0 + abs(more)))
        rates.append(np.log(count) + log_rate(more - float(log1m_exp(above))))
    if not rates or not found.log_q > -np.inf:
        return found
    log_more = log_some(log_total(np.array(rates))) + float(log1m_exp(found.log_q))
    return found._replace(log_more=log_more, more_error=2.0 * error + 1e-15 * (4.0 + abs(log_more)))


def at_ends(
    pair: DominatingPair, cut: float, epsilon: float, margin: Margin, ends: list[float], several: tuple[Family, ...] = ()
) -> Jump:
    """The same split with each step's own cut, all at or above the common one; of families it is the common one."""
    left_out = log_total(np.array([-np.inf, *(np.log(count) + step.log_left_out for step, count in families(pair)[0])]))
    if cut == np.inf and min(ends, default=np.inf) == np.inf:
        return Jump(cut, pair.log_p_only, -np.inf, left_out, 4e-16 * (3 - max(pair.log_p_only, -1e6)), margin)
    rate_p: list[float] = []
    rate_q: list[float] = []
    error, seen = 0.0, 0.0
    for family in several:
        above, _, q_above, relative = family.log_tails(cut)
        for rate, logs in ((rate_p, above), (rate_q, q_above)):
            rate.append(log_total(np.log(family.counts) + _log_rates(logs)))
            error = max(error, float(np.max(log_error(logs[logs > -np.inf], relative), initial=0.0)))
    for (step, count), end in zip(families(pair)[0] if several else pair.terms, ends, strict=True):
        tails = step.tails(np.array(end))
        rate_p.append(np.log(count) + log_rate(float(tails.p_above)))
        log_seen = float(log1m_exp(step.facts.log_q_only))
        seen += count * log_seen
        rate_q.append(np.log(count) + log_rate(float(tails.q_above) - log_seen if log_seen > -np.inf else -np.inf))
        for tail in (float(tails.p_above), float(tails.q_above)):
            error = max(error, float(log_error(tail, tails.error)) if tail > -np.inf else 0.0)
    total_p, total_q = log_total(np.array(rate_p)), log_total(np.array(rate_q))
    log_q = seen + log_some(total_q) if seen > -np.inf else -np.inf
    return Jump(cut, log_some(total_p), log_q, float(np.logaddexp(_fails(epsilon + total_q, margin), left_out)), error + 4e-16, margin)


def _fails(log_size: float, margin: Margin) -> float:
    """log of what a jump may not bring about, though it was counted."""
    return -np.inf if margin.log_fail == -np.inf else log_size + margin.log_fail


def log_rate(log_probability: float) -> float:
    """log(-log(1 - p)), which is log p for small p."""
    if log_probability < -40.0:
        return log_probability
    with np.errstate(divide="ignore"):
        return float(np.log(-log1m_exp(log_probability)))


def _log_rates(log_probability: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.where(log_probability < -40.0, log_probability, np.log(-log1m_exp(log_probability)))


def log_some(log_total: float) -> float:
    """log(1 - e^{-R}) from log R."""
    if log_total < -36.0:
        return log_total
    return float(log1m_exp(-np.exp(min(log_total, 700.0))))
