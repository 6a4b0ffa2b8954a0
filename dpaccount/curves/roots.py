"""epsilon at many deltas: Newton for all of them at once, on shared contours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpaccount.curves.options import PairOption
from dpaccount.engines import auto
from dpaccount.engines.invert import Root
from dpaccount.results import LogDelta, Status

Array = npt.NDArray[np.float64]
TABLE = 40  # epsilons of the first table
ROUNDS = 3  # of Newton from there


def shared_roots(option: PairOption, targets: Array) -> list[tuple[Root, Status] | None]:
    """The epsilon of every log delta; None where the ends of its bracket do not lie on their sides of the target."""
    roots: list[tuple[Root, Status] | None] = [None] * targets.size
    inner = np.flatnonzero((targets > -np.inf) & (targets < 0.0))
    if inner.size < 2 or option.one_sided or option.method not in ("auto", "line"):
        return roots
    if any(auto.select(side).engine != "line" for side in option.sides):
        return roots
    logs, place = np.unique(targets[inner], return_inverse=True)
    alone = PairOption(option.guarantee, option.adjacency, option.method)  # its searches leave no traces
    ends = [alone.epsilon(float(logs[i])) for i in (0, -1)]
    high, low = (root.estimate for root, _ in ends)
    if ends[0][1] is not Status.OK or not 0.0 <= low < high < np.inf:
        return roots
    zero = option.fresh(0.0)
    found = _newton(option, logs, low, high)
    for i, k in zip(inner, place, strict=True):
        root = found[k]
        if logs[k] >= zero.upper:
            roots[i] = Root(0.0, 0.0, 0.0, zero), Status.ZERO
        elif root is not None:
            roots[i] = root, Status.OK
    return roots


def _newton(option: PairOption, targets: Array, low: float, high: float) -> list[Root | None]:
    shelves = option.shelves()
    table = np.linspace(low, high, TABLE)
    values = _columns(option.fresh_many(table, shelves))[1]
    here = np.interp(-targets, np.maximum.accumulate(-values), table)
    with np.errstate(all="ignore"):
        for _ in range(ROUNDS):
            lower, middle, upper, tail = _columns(option.fresh_many(here, shelves))
            slope = np.exp(np.minimum(tail + here - middle, 700.0))
            move = (middle - targets) / slope
            here = np.clip(here + np.where(np.isfinite(move), move, 0.0), 0.0, 1.1 * high)
        answers = option.fresh_many(here, shelves)
        lower, middle, upper, _ = _columns(answers)
        step = 1.5 * (upper - lower + np.abs(middle - targets)) / slope + 4e-16 * here
        left, right = np.maximum(here - step, 0.0), here + step
        before, after = option.fresh_many(left, shelves), option.fresh_many(right, shelves)
        good = (_columns(before)[0] >= targets) & (_columns(after)[2] <= targets) & (left > 0.0) & (step < 1e-3 * here)
    return [
        Root(a, b, c, answer._replace(certified=answer.certified and one.certified and other.certified)) if ok else None
        for ok, a, b, c, answer, one, other in zip(good, left.tolist(), here.tolist(), right.tolist(), answers, before, after, strict=True)
    ]


def _columns(answers: list[LogDelta]) -> tuple[Array, Array, Array, Array]:
    return tuple(np.array([getattr(a, name) for a in answers]) for name in ("lower", "estimate", "upper", "log_tail"))  # type: ignore[return-value]
