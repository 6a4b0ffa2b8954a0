"""epsilon after t steps of one kind, for many t at once: the curve of a run over its epochs."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpaccount.adjacency import Adjacency
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.engines.line import repeats
from dpaccount.engines.line.tilts import spread_of
from dpaccount.pair import Step
from dpaccount.results import Bounds

FEW = 4  # fewer counts than this are asked one by one


def epsilon_of_multiples(step: Step, counts: Any, delta: float, adjacency: str | Adjacency, method: str = "auto") -> Bounds:
    """epsilon at delta of ``t * step`` for every t of `counts`, as one `Bounds` of arrays.

    Guarantee
    ---------
    That of `PrivacyProfile.epsilon`, which answers wherever shared contours cannot. Status and notes are those of the last count.
    """
    counts = np.asarray(counts)
    distinct = np.unique(counts)
    shared = _shared(step, distinct.astype(float), delta, adjacency) if method == "auto" and distinct.size >= FEW else {}
    known: dict[int, Bounds] = dict(shared)
    for count in distinct.tolist():
        if count not in known or count == counts[-1]:
            known[count] = PrivacyProfile(count * step, adjacency, method=method).epsilon(delta=delta)
    found, last = [known[count] for count in counts.tolist()], known[counts[-1].item()]
    lower, middle, upper = (np.array([getattr(b, side) for b in found], dtype=float) for side in ("lower", "estimate", "upper"))
    return Bounds(
        lower, middle, upper, all(b.certified for b in found), ", ".join(dict.fromkeys(b.method for b in found)), last.status, "upper",
        max(b.condition for b in found), last.notes,
    )


def _shared(step: Step, counts: Any, delta: float, adjacency: str | Adjacency) -> dict[int, Bounds]:
    """What shared contours answer: the larger of the directions, where every one of them is bounded."""
    if step.alternatives or not step.facts.proved or not 0.0 < delta < 1.0:
        return {}
    first, *others = dict.fromkeys(step.under(adjacency))
    if not all(isinstance(side, Step) and side.proved and side.log_p_only == -np.inf for side in (first, *others)):
        return {}
    target = float(np.log(delta))
    try:
        spread = spread_of(first)  # type: ignore[arg-type]
    except ArithmeticError:
        return {}
    roots = repeats.epsilons(first, counts, target, spread)  # type: ignore[arg-type]
    for side in others:
        left = ~repeats.below(side, counts, roots.lower, target, spread)  # type: ignore[arg-type]
        left &= np.isfinite(roots.lower)
        if left.any():
            more = repeats.epsilons(side, counts[left], target, spread)  # type: ignore[arg-type]
            for ours, theirs in zip(roots, more, strict=True):
                ours[left] = np.maximum(ours[left], theirs)  # NaN if either is
    return {
        int(t): Bounds(low, mid, up, True, "line", condition=condition)
        for t, low, mid, up, condition in zip(counts.tolist(), *(part.tolist() for part in roots), strict=True)
        if low == low
    }
