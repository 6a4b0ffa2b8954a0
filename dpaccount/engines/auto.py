"""Which engine answers: public, and explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dpaccount import _check
from dpaccount.engines import closed, lattice, line
from dpaccount.engines.axis import CannotVouch
from dpaccount.pair import DominatingPair
from dpaccount.results import LogDelta, NumericalFailure

METHODS = ("auto", "closed", "line", "lattice")


class Selection(NamedTuple):
    """An engine's name and the reason it was chosen."""

    engine: str
    reason: str


def select(pair: DominatingPair) -> Selection:
    """Say which engine would answer for a directed pair, and why.

    Examples
    --------
    >>> from dpaccount import Gaussian, PoissonSampled, select
    >>> select(1000 * PoissonSampled(Gaussian(1.0), 0.01)).engine
    'line'
    >>> select(3 * Gaussian(2.0)).engine
    'closed'
    """
    _check.instance("select", "pair", pair, DominatingPair, "a dominating pair")
    if closed.supports(pair):
        return Selection("closed", f"{closed.kind(pair)}: exact to rounding")
    if all(step.facts.max_loss == step.facts.min_loss for step, _ in pair.terms):
        return Selection("lattice", "the loss is constant")
    if not any(_has_density(step) for step, _ in pair.terms):
        return Selection("lattice", "the loss has atoms only, so the characteristic function never decays")
    return Selection("line", "the loss has a density: contour at the saddle point; the lattice brackets where it cannot vouch")


def _has_density(step: object) -> bool:
    return step.density() is not None  # type: ignore[attr-defined]


Line = Callable[[DominatingPair, float], LogDelta]


def log_delta(
    pair: DominatingPair, epsilon: float, method: str = "auto", goal: float = np.nan, contour: Line = line.log_delta
) -> LogDelta:
    """log delta of a directed pair at one real epsilon, by the engine asked for.

    With a `goal` the lattice stops refining once its bracket excludes log delta = goal.
    """
    edge = _edge(pair, epsilon)
    if edge is not None:
        return edge
    if method == "closed":
        if not closed.supports(pair):
            raise NumericalFailure("`method='closed'` has no formula for this pair; use 'auto'.")
        return closed.log_delta(pair, epsilon)
    if method == "line":
        try:
            return contour(pair, epsilon)
        except CannotVouch as error:
            raise NumericalFailure(f"`method='line'` cannot vouch for its digits here: {error}. Use 'auto'.") from error
    if method == "lattice":
        return lattice.log_delta(pair, epsilon, goal)
    engine = select(pair).engine
    if engine == "closed":
        return closed.log_delta(pair, epsilon)
    if engine == "line":
        try:
            return contour(pair, epsilon)
        except CannotVouch:
            far = lattice.far_tail(pair, epsilon)
            if far is not None:
                return far
    return lattice.log_delta(pair, epsilon, goal)


def _edge(pair: DominatingPair, epsilon: float) -> LogDelta | None:
    """Exact answers outside the range of the loss: 1 - e^eps (with masses at infinity) below, P{L = inf} above."""
    low, high = pair.loss_range
    if epsilon >= high:
        return closed.widened(pair.log_p_only, -np.inf)
    if epsilon < low and all(step.facts.log_q_only == -np.inf for step, _ in pair.terms):
        return closed.widened(float(np.log(-np.expm1(epsilon))) if epsilon < 0 else -np.inf, 0.0)
    return None
