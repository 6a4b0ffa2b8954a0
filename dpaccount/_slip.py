"""What rounding does to a step's curve: the error that a step states beside its formula."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP, log_total, log_unsampled

Array = npt.NDArray[np.float64]


class Slip(NamedTuple):
    """What rounding does to delta beside a few ulps of 1 + |log delta|: relatively, and absolutely (its log)."""

    relative: float
    log_absolute: float


def atoms_slip(loss: Array, log_p: Array, off: Array, mass_error: float, log_left_out: float, epsilon: float) -> Slip:
    """Atoms off by their losses' rounding each, and sums of them."""
    near = loss > epsilon - off
    loss, log_p, off = loss[near], log_p[near], off[near]
    with np.errstate(divide="ignore"):
        moved = log_total(log_p + np.minimum(epsilon - loss, 0.0) + np.log(off + ULP * np.abs(loss - epsilon)))
    return Slip(ULP * (10.0 + min(loss.size, 30)) + mass_error, float(np.logaddexp(moved, log_left_out)))


def level_error(loss: float, q: float, level: float) -> tuple[float, float]:
    """The rounding of v = 1 + (e^loss - 1)/q, the level of a sampled step, as log(q dv), and that of level = log v."""
    if q == 1.0:
        return -np.inf, 0.0
    part = loss if loss >= 1.0 else log(min(abs(math.expm1(loss)), math.exp(loss)))
    turn = 0.0 if level == -np.inf else abs(level)
    log_move = float(np.logaddexp(part, np.log(q) + level + log(turn)) if turn else part) + log(3 * ULP)
    return log_move, math.exp(min(log_move - float(np.log(q)) - level, 0.0)) if turn else 0.0


def level_of(loss: float, q: float) -> float:
    """log v."""
    return float(log_unsampled(loss, q))


def log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf
