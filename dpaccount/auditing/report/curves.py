"""The curves of a report: delta by epsilon under each reading, and the trade-off between an attack's two errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaccount.adjacency import Adjacency
from dpaccount.auditing.passes import laws, most, whole_passes
from dpaccount.auditing.readings import PASSES, slow
from dpaccount.auditing.runs import Reading, Run
from dpaccount.auditing.shuffled import LONG, lower_profile, rising
from dpaccount.auditing.verdict import ClaimVerdict
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair
from dpaccount.results import NumericalFailure

POINTS = 61
SMALLEST = -6.0  # log10 of the least false positive rate in the picture
Array = npt.NDArray[np.float64]
EXACT, AT_LEAST, AT_MOST = "exact", "at least", "at most"


@dataclass(frozen=True)
class Curve:
    """A line of a picture: what it is, and whether it is the truth or one side of it."""

    name: str
    kind: str
    x: Array
    y: Array
    own: bool = False


def profiles(verdict: ClaimVerdict) -> tuple[list[Curve], list[str]]:
    """(curves of log10 delta over epsilon, names of the readings that are left out), the claim's own reading first."""
    run, claim = verdict.sheet.run, verdict.claim
    if run is None or run.sigma < 1e-3 or not 0.0 < run.delta < 1.0:
        return [], []
    stated = f"{claim.sampler}, {claim.adjacency}"
    twin = f"{claim.sampler}, zero-out" if claim.adjacency == "add-or-remove" else ""  # the same curve for fixed batches
    named = [r for r in verdict.readings if r.name not in (stated, twin)]
    found, left = [], []
    own = verdict.sheet.own
    for reading in ([own] if own is not None else []) + named:
        mine = reading.name == stated
        hidden = mine and verdict.sheet.unseen  # then the lower end is void
        curves = [
            Curve(reading.name, AT_MOST if hidden else kind, grid, deltas, mine)
            for kind, grid, deltas in _curves(run, reading, _top(verdict))
            if not (hidden and kind == AT_LEAST) and (mine or kind != AT_MOST)
        ]
        found += curves
        left += [] if curves or (math.isinf(reading.upper) and reading.lower == 0.0) else [reading.name]
    return found, left


def _top(verdict: ClaimVerdict) -> float:
    """The right end of the picture: twice what the claim and the stated run need, or what the next reading does."""
    own, claimed = verdict.sheet.own, verdict.claim.epsilon
    ends = [claimed] if claimed is not None else []
    ends += [own.lower, own.upper] if own is not None else [r.figure for r in verdict.readings if r.figure]
    wanted = [float(x) for x in ends if 0.0 < x < math.inf]
    least = own.lower if own is not None and math.isfinite(own.lower) else 1.0
    return 1.6 * min(max(wanted, default=1.0), 3.0 * max(claimed or 1.0, least))


def _curves(run: Run, reading: Reading, top: float) -> Iterator[tuple[str, Array, Array]]:
    sampler, adjacency = reading.name.split(", ")
    relation, grid = Adjacency(adjacency), np.linspace(0.0, top, POINTS)
    if sampler in ("poisson", "full-batch") and not slow(run, adjacency):
        deltas = _deltas(run.pair(), relation, grid)
        kind = AT_LEAST if sampler == "poisson" and relation is Adjacency.REPLACE_ONE and run.rate < 1.0 else EXACT
        yield from [] if deltas is None else [(kind, grid, deltas)]
    elif sampler in PASSES and run.passes is not None and not run.phases:
        epochs = whole_passes(run)
        if sampler == "shuffled" and 1 <= epochs <= LONG:
            p, q = laws(run, relation)
            if relation is not Adjacency.ADD_OR_REMOVE or rising(p, q):
                yield AT_LEAST, grid, lower_profile(p, q, epochs, grid) / math.log(10.0)
        pair = most(run, sampler, relation)
        whole = None if pair is None else _deltas(pair, relation, grid)
        if whole is not None:
            exact = sampler == "fixed-order" and relation is not Adjacency.ADD_OR_REMOVE and run.order != "random"
            yield (EXACT if exact else AT_MOST), grid, whole


def _deltas(pair: DominatingPair, relation: Adjacency, grid: Array) -> Array | None:
    """log10 of the upper end of delta; None where it would take long."""
    try:
        found: Any = PrivacyProfile(pair, relation, method="closed" if _closed(pair) else "line").log_delta(grid)
    except NumericalFailure:
        return None
    return np.asarray(found.upper) / math.log(10.0)


def _closed(pair: DominatingPair) -> bool:
    return len(pair.terms) == 1 and (pair.terms[0][1] == 1 or isinstance(pair.terms[0][0], Gaussian))


def trade_off(verdict: ClaimVerdict) -> list[Curve]:
    """The least false negative rate at each false positive rate: of the stated run, and what the claim promises."""
    claim = verdict.claim
    if claim.epsilon is None or claim.delta is None:
        return []
    found = [claimed(claim.epsilon, claim.delta)]
    curves, _ = profiles(verdict)
    for curve in curves:
        if curve.own:
            kind = {AT_LEAST: AT_MOST, AT_MOST: AT_LEAST}.get(curve.kind, EXACT)  # more delta is fewer errors
            found.append(Curve(curve.name, kind, *_dual(curve), own=True))
    return [replace(curve, x=np.log10(np.maximum(curve.x, 10.0**SMALLEST))) for curve in found]


def claimed(epsilon: float, delta: float) -> Curve:
    """max(0, 1 - delta - e^epsilon a, e^-epsilon (1 - delta - a)), by its corners."""
    rate = np.concatenate([[0.0], np.geomspace(10.0**SMALLEST, 1.0, 400)])
    least = np.maximum(1.0 - delta - math.exp(min(epsilon, 700.0)) * rate, math.exp(-epsilon) * (1.0 - delta - rate))
    return Curve("the claim", AT_LEAST, rate, np.maximum(least, 0.0))


def corner(epsilon: float, delta: float) -> float:
    """The equal error rates of the claim: (1 - delta)/(1 + e^epsilon)."""
    return (1.0 - delta) / (1.0 + math.exp(min(epsilon, 700.0)))


def _dual(curve: Curve) -> tuple[Array, Array]:
    """The trade-off function of a symmetric privacy profile, from its points: the largest of the lines that they give."""
    rate = np.geomspace(10.0**SMALLEST, 1.0, 400)
    delta, gamma = 10.0 ** curve.y[:, None], np.exp(curve.x)[:, None]
    lines = np.maximum(1.0 - delta - gamma * rate, (1.0 - delta - rate) / gamma)
    return np.concatenate([[0.0], rate]), np.concatenate([[1.0], np.maximum(lines.max(axis=0), 0.0)])
