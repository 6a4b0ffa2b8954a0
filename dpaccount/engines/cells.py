"""The masses of a step's losses on the cells of a grid, from its tails, with what rounding may do to them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount.pair import Step, log_error

Array = npt.NDArray[np.float64]


class Cells(NamedTuple):
    """P- and Q-masses of (-inf, x_0], (x_0, x_1], .., (x_n, inf], and their absolute errors."""

    p: Array
    q: Array
    off_p: Array
    off_q: Array


def cells(step: Step, edges: Array) -> Cells:
    """Of one step; the last cell holds an infinite loss, and the first leaves out what Q alone can show."""
    tails = step.tails(edges)
    p, off_p = _with_ends(np.asarray(tails.p_above), np.asarray(tails.p_below), tails.error)
    q, off_q = _with_ends(np.asarray(tails.q_above), np.asarray(tails.q_below), tails.error)
    if step.facts.log_q_only > -np.inf:
        alone = float(np.exp(step.facts.log_q_only))
        q[0], off_q[0] = max(q[0] - alone, 0.0), off_q[0] + alone * float(log_error(step.facts.log_q_only, tails.error))
    return Cells(p, q, off_p, off_q)


def _with_ends(log_above: Array, log_below: Array, error: float) -> tuple[Array, Array]:
    mass, off, above, wrong, most = masses(log_above, log_below, error)
    below = float(np.exp(log_below[0]))
    return np.concatenate([[below], mass, above[-1:]]), np.concatenate([[most[0] - below + 1e-15 * below], off, wrong[-1:]])


def masses(above: Array, below: Array, error: float) -> tuple[Array, Array, Array, Array, Array]:
    """Cell masses by differences of the thinner tail, with errors; the tails above with errors, and below with them added."""
    wrong_above, wrong_below = (log_error(np.maximum(logs, -1e4), error) for logs in (above, below))
    above, below = np.exp(above), np.exp(below)
    wrong_above, wrong_below = wrong_above * above, wrong_below * below
    upper = above[1:] < below[1:]
    mass = np.where(upper, above[:-1] - above[1:], below[1:] - below[:-1])
    off = np.where(upper, wrong_above[:-1] + wrong_above[1:], wrong_below[1:] + wrong_below[:-1])
    return np.maximum(mass, 0.0), off, above, wrong_above, below + wrong_below
