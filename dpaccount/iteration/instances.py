"""Data sets in one dimension that come closest to the bounds of a run: what `lower` answers with ``instance=True``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaccount.iteration.lower import WIDEST, Chain, Key, Law, Steps, excess, last, mixture, path

Array = npt.NDArray[np.float64]
Found = Iterable[Chain | tuple[Law, Law]]
LONGEST = 2000  # steps beyond which nothing is computed: 0 is a lower bound too
MIXED = 100  # records beyond which no mixture is computed
STEADY = 1e-15  # steps before the record are cut once the law is that steady
SHARES = (0.0, 0.25, 1.0)  # of the largest push, in the steps of other records
SLIP = {"gaussian": 1e-10, "laplace": 1e-5}  # taken off what a quadrature says, many times its measured error


def worst_log_delta(known: Callable[[int], Found], epsilon: Array, index: Array) -> Array:
    """log of the largest exact curve of the instances known for each record, at epsilon >= 0; -inf if none is."""
    shape = np.broadcast_shapes(epsilon.shape, index.shape)
    e, place = np.broadcast_to(epsilon, shape), np.broadcast_to(index, shape)
    out = np.full(shape, -np.inf)
    for i in np.unique(place):
        here = place == i
        for found in known(int(i)):
            out[here] = np.maximum(out[here], _lowered(found, e[here]))
    return out


def _lowered(found: Chain | tuple[Law, Law], epsilon: Array) -> Array:
    """log delta of an instance, less what its quadrature may be off by."""
    if isinstance(found, Chain):
        if not found.projected:
            return np.asarray(found.log_delta(epsilon))
        found = found.laws()
    first, second = found
    delta = np.maximum(excess(first, second, epsilon), excess(second, first, epsilon))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(delta * (1.0 - SLIP[first.noise]) - 1e-12, 0.0)))


def one_pass(run: Any, index: int) -> tuple[Chain, ...]:
    """Instances of a `PNSGD`.

    Steps after the record have curvature rho, which contracts least, with and without a push to one side. The record's own
    gradients are rho y + g and rho y - g with g the largest that L allows on the interval. The steps before it have the curvature
    that leaves the least noise. Without a projection no strongly convex loss has bounded gradients, and L is read as the bounds
    read it there, half the largest difference of two records' gradients (see `PNSGD`).
    """
    push = _push(run)
    if push <= 0.0 or run.num_records - index > LONGEST:
        return ()
    eta, rho = run.step_size, max(run.strong_convexity, 0.0)
    free = run.diameter == math.inf
    most = run.smoothness if free else min(run.smoothness, run.lipschitz / (run.diameter / 2))
    if free and rho == 0.0:
        most = 0.0  # a quadratic has no bounded gradient: linear losses throughout
    still = 1.0 - eta * min(max(1.0 / eta, rho), most)
    before = min(index - 1, _memory(still))
    if before == LONGEST:
        return ()
    after = run.num_records - index
    return tuple(
        _chain(run, before * ((still, 0.0),), after * (rest,), 1)
        for rest in (_others(run, push, share) for share in (SHARES[:1] if free or not after else SHARES))
    )


def several_passes(run: Any, passes: int, index: int) -> tuple[Chain, ...]:
    """Instances of several passes: all other records have the curvature rho, and the same push."""
    push, n = _push(run), run.num_records
    if push <= 0.0 or n * passes > LONGEST:
        return ()
    free = run.diameter == math.inf
    return tuple(
        _chain(run, (index - 1) * (rest,), (n - index) * (rest,), passes)
        for rest in (_others(run, push, share) for share in (SHARES[:1] if free or n == 1 else SHARES))
    )


def random_stopping(run: Any, index: int) -> Iterable[tuple[Law, Law]]:
    """The mixtures over the stopping time of an instance on an interval, as the one pass is after each of its steps."""
    if run.num_records > MIXED or run.diameter == math.inf:
        return
    for chain in several_passes(run, 1, index):
        known: dict[Key, Array] = {}
        yield mixture(tuple(path(chain, chain.steps, known))), mixture(tuple(path(chain, chain.others, known)))


def random_permutation(run: Any, _: int) -> Iterable[tuple[Law, Law]]:
    """The mixtures over the record's place where all other records are the same."""
    if run.num_records > MIXED or run.diameter == math.inf:
        return
    places = zip(*(several_passes(run, 1, i) for i in range(1, run.num_records + 1)), strict=False)
    for chains in places:
        known: dict[Key, Array] = {}
        yield mixture([last(c, c.steps, known) for c in chains]), mixture([last(c, c.others, known) for c in chains])


def _push(run: Any) -> float:
    """The largest constant part of a record's gradient; 0 where nothing is computed."""
    free = run.diameter == math.inf
    if run.noise_scale == 0.0 or run.lipschitz == 0.0 or (free and run.noise != "gaussian"):
        return 0.0
    if not free and run.diameter > WIDEST * run.step_size * run.noise_scale:
        return 0.0
    return float(run.lipschitz if free else run.lipschitz - max(run.strong_convexity, 0.0) * run.diameter / 2)


def _others(run: Any, push: float, share: float) -> tuple[float, float]:
    """The step of any other record."""
    return 1.0 - run.step_size * max(run.strong_convexity, 0.0), run.step_size * push * share


def _chain(run: Any, before: Steps, after: Steps, passes: int) -> Chain:
    """The record's own steps push one way or the other, between those of others."""
    eta, push = run.step_size, _push(run)
    factor, half = 1.0 - eta * max(run.strong_convexity, 0.0), run.diameter / 2
    ours, theirs = (passes * (*before, (factor, side * eta * push), *after) for side in (-1.0, 1.0))
    return Chain(ours, theirs, -half, half, run.noise, eta * run.noise_scale)


def _memory(factor: float) -> int:
    """Steps after which a start is forgotten, at most `LONGEST`."""
    size = abs(factor)
    return LONGEST if size >= 1.0 else 1 if size == 0.0 else min(1 + int(math.log(STEADY) / math.log(size)), LONGEST)
