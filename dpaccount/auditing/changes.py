"""The smallest changes that would make a claim true, or what one that holds could spare."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import cast

from dpaccount.adjacency import Adjacency
from dpaccount.auditing.claims import Claim
from dpaccount.auditing.outcome import HOLDS
from dpaccount.auditing.passes import least_shuffled_noise, most
from dpaccount.auditing.readings import PASSES
from dpaccount.auditing.runs import Run
from dpaccount.auditing.sheet import Sheet
from dpaccount.calibration import UnreachableTarget, calibrate
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.pair import DominatingPair
from dpaccount.results import NumericalFailure
from dpaccount.statement import shown_down, shown_up


def changes(sheet: Sheet, verdict: str) -> Iterator[str]:
    """The smallest change that would make the claim true, field by field; for one that holds, what it could spare."""
    claim, run = sheet.claim, sheet.run
    if run is None or claim.epsilon is None or claim.epsilon <= 0.0 or claim.sampler is None or claim.adjacency is None:
        return
    own = sheet.own
    assert own is not None
    hard = bool(run.phases) or (claim.sampler == "poisson" and sheet.hard)  # a search would take minutes
    enough = None if hard else _least_noise(run, claim)
    if verdict == HOLDS:
        if enough is not None and enough < run.sigma:
            yield f"to spare: a noise multiplier of {shown_up(enough, 6)} would be enough"
        return
    if math.isfinite(own.upper) and own.upper > claim.epsilon:
        yield f"claim epsilon = {shown_up(own.upper, 6)}"
    if enough is not None and enough > run.sigma:
        yield f"raise the noise multiplier to {shown_up(enough, 6)}"
    if claim.sampler == "shuffled":
        poisson = sheet.under("poisson")
        if poisson is not None and poisson.upper <= claim.epsilon:
            yield f"draw batches by Poisson sampling: then epsilon <= {shown_up(poisson.upper, 7)}"
        if own.lower > claim.epsilon:
            least = least_shuffled_noise(run, claim.adjacency, claim.epsilon)
            if least > 0.0:
                yield f"with shuffled batches no noise multiplier below {shown_down(least, 4)} can be enough"
    elif claim.sampler == "poisson" and own.upper > claim.epsilon and not hard:
        fewer = _most_steps(run, claim)
        if fewer is not None:
            yield f"stop after {fewer} of {run.steps} steps"
    if claim.adjacency == "add-or-remove" and claim.sampler in PASSES:
        yield from _stated(sheet)
        other = sheet.under(adjacency="zero-out")
        if other is not None and other.upper <= claim.epsilon and claim.sampler != "once-per-epoch":  # which is said above
            yield f"claim it under zero-out (a record that sends nothing takes its place): then epsilon <= {shown_up(other.upper, 7)}"
    if claim.adjacency == "replace-one":
        other = sheet.under(adjacency="add-or-remove")
        if other is not None and other.upper <= claim.epsilon:
            yield f"claim it under add-or-remove: then epsilon <= {shown_up(other.upper, 7)}"


def _stated(sheet: Sheet) -> Iterator[str]:
    """Under add-or-remove, where nothing is proved: the facts that a proof needs, or the relation that has one."""
    claim, own = sheet.claim, sheet.own
    if own is None or math.isfinite(own.upper):
        return
    if claim.sampler == "once-per-epoch":
        other = sheet.under(adjacency="zero-out")
        if other is not None and math.isfinite(other.upper):
            yield (
                "no setting of once-per-epoch batches proves an upper end under add-or-remove (shuffled anew they can have one, see "
                f"sampler = shuffled); zero-out does: then epsilon <= {shown_up(other.upper, 7)}"
            )
        return
    said = {"batch_count": claim.batch_count, "normaliser": claim.normaliser}
    needed = [f"{name} = public" + (f" (now {value})" if value else "") for name, value in said.items() if value != "public"]
    if claim.sampler == "fixed-order" and claim.order is None:
        needed.append("order = random (drawn uniformly, and secret)")
    proved = sheet.under(public=True, order=claim.order or "random")
    if needed and proved is not None and math.isfinite(proved.upper):
        verb = "make" if any("(now" in text for text in needed) else "state"
        yield f"{verb} {' and '.join(needed)}: then an upper end is proved, epsilon <= {shown_up(proved.upper, 7)}"


def _least_noise(run: Run, claim: Claim) -> float | None:
    """The least noise multiplier that is proved to be enough for the sampler and relation as stated."""
    family = _family(run, str(claim.sampler), Adjacency(claim.adjacency))
    if family is None:
        return None
    try:
        found = calibrate(family, epsilon=claim.epsilon, delta=claim.delta, adjacency=claim.adjacency)
    except (UnreachableTarget, ArithmeticError):
        return None
    return float(found) or None


def _family(run: Run, sampler: str, relation: Adjacency) -> Callable[[float], DominatingPair] | None:
    """The pair that dominates the run at each noise multiplier, where one does."""
    if sampler == "full-batch" or (sampler == "poisson" and relation is not Adjacency.REPLACE_ONE):
        q = run.rate if sampler == "poisson" else 1.0
        return lambda s: run.pair(sigma=s, rate=q)
    if sampler in PASSES and most(run, sampler, relation) is not None:
        return lambda s: cast(DominatingPair, most(run, sampler, relation, s))
    return None


def _most_steps(run: Run, claim: Claim) -> int | None:
    if claim.adjacency == "replace-one":
        return None
    low, high = 0, run.steps
    while high - low > 1:
        middle = (low + high) // 2
        profile = PrivacyProfile(run.pair(steps=middle), claim.adjacency, method="line")
        try:
            low, high = (middle, high) if float(profile.delta(claim.epsilon).upper) <= run.delta else (low, middle)
        except NumericalFailure:
            return None  # few samples take long
    return low or None
