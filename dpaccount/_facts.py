"""What a step states about itself: masses at infinity, range, lattice, and its tails with their error."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpaccount._log import log_diff


class Facts(NamedTuple):
    """What engines need to know about one step.

    log_p_only = log P{q = 0} and log_q_only = log Q{p = 0} are the masses at loss +inf and -inf;
    (min_loss, max_loss) holds all other losses; `lattice` = (offset, step) if every loss is
    offset + k step; `smooth` if the loss has a density and no atoms; `proved` if the pair is
    known to dominate its mechanism; `upper_bound` if no mechanism need reach it: its curve is a bound from above on one
    that is not known, so that nothing is known from below, of a composition that contains it neither.
    """

    log_p_only: float = -np.inf
    log_q_only: float = -np.inf
    min_loss: float = -np.inf
    max_loss: float = np.inf
    lattice: tuple[float, float] | None = None
    smooth: bool = False
    proved: bool = True
    upper_bound: bool = False


class Tails(NamedTuple):
    """log P[L > l], log P[L <= l], log Q[L > l], log Q[L <= l]; the loss +inf counts as above, -inf as below.

    At an atom either convention may be used, if it is the same for P and Q. `error` bounds the relative error of
    each probability beyond what rounding its own logarithm costs (`log_error`), for an event {L > l'} with l'
    within rounding of l: the curve is stationary in the event, so that only its probabilities matter.
    """

    p_above: Any
    p_below: Any
    q_above: Any
    q_below: Any
    error: float = 1e-14


def log_error(logs: Any, error: float) -> Any:
    """Relative error of e^logs: `error`, and what rounding the logarithm and its terms costs (three ulps of it)."""
    return error + 7e-16 * np.minimum(np.abs(logs), 1e6)


def tail_log_delta(tails: Tails, epsilon: Any) -> Any:
    """log(P[L > eps] - e^eps Q[L > eps]); loses digits where the two nearly cancel."""
    return log_diff(tails.p_above, np.asarray(epsilon) + tails.q_above)
