"""epsilon of runs that see each record once in every pass: shuffled anew, in one order, or in an order that is not said."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dpaccount.adjacency import Adjacency
from dpaccount.auditing.runs import HARDLY, Reading, Run, epsilon_of
from dpaccount.auditing.shuffled import LONG, Largest, counted, exceeds, many_epochs, one_epoch, rising
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair

UNTOLD = "the number of passes is needed"
ONE_BATCH = "each record is in one batch of every pass, without amplification: composed Gaussian mechanisms"
LAST_TAKES_ITS_PLACE = (
    "upper end: the last record of a random order takes the place of the missing one, so that in every pass one batch differs by an "
    "exchange and one by an addition (Shuffled batches, Proposition 1)"
)
ALL_MOVE = "every record after the missing one moves up, so that every batch differs by an exchange (Shuffled batches, Proposition 2)"
UNPROVED = "upper end: none is proved where a record more may move others, or change the divisor or the number of batches"
REMOVED = (
    ", by the pair of zero-out: where its likelihood ratio rises with the largest sum every region it rejects in is an increasing set, "
    "and without the record the largest sum is stochastically no larger"
)


def whole_batches(run: Run) -> tuple[int, float]:
    """Full batches of a shuffled epoch, and the probability that a record is in one of them."""
    if run.dataset_size is not None and run.batch is not None:
        batches = max(run.dataset_size // run.batch, 1)
        return batches, min(batches * run.batch / run.dataset_size, 1.0)
    batches = max(math.floor(1.0 / run.rate + 1e-9), 1)
    return batches, min(batches * run.rate, 1.0)


def started_batches(run: Run) -> int:
    """Batches of an epoch that keeps the short one."""
    if run.dataset_size is not None and run.batch is not None:
        return -(-run.dataset_size // run.batch)
    return max(math.ceil(1.0 / run.rate - 1e-9), 1)


def whole_passes(run: Run) -> int:
    """Passes that surely have all their full batches: stated epochs, or what steps make where each pass keeps a short batch too."""
    by_steps = 0 if run.rounded else run.steps // started_batches(run)
    return min(max(by_steps, run.whole or 0), run.steps // whole_batches(run)[0], run.passes or 0)


def several(run: Run, times: int) -> dict[str, Any]:
    """The changes that make it so many runs: a pass that one of them did not end is ended by no other."""
    passes = None if run.passes is None else times * run.passes
    return {"steps": times * run.steps, "passes": passes, "whole": times * whole_passes(run), "rounded": True, "orders": times * run.orders}


def most_sums(run: Run) -> int:
    """Noisy sums at most: the steps, and where they follow from epochs n/B a short batch of every pass."""
    full, started = whole_batches(run)[0], started_batches(run)
    if not run.rounded or run.passes is None or full == started:
        return run.steps
    return max(min(run.passes * started, run.steps + run.passes + 1), run.steps)


def laws(run: Run, relation: Adjacency) -> tuple[Largest, Largest]:
    """The largest sum of the full batches in an epoch, with the record and without it."""
    batches, share = whole_batches(run)
    share = 1.0 if share > 1.0 - 1e-12 else share
    other = 0.0 if relation is Adjacency.REPLACE_ONE else 1.0
    return Largest(2.0, run.sigma, batches, share), Largest(other, run.sigma, batches, share)


@lru_cache(maxsize=256)
def shuffled_epoch(run: Run, adjacency: str) -> float:
    """What one shuffled epoch alone needs."""
    return one_epoch(*laws(run, Adjacency(adjacency)), run.delta)[0]


# what is proved


def moved(passes: int, sigma: float) -> DominatingPair:
    """In every pass one batch differs by an exchange and one by an addition: mu = sqrt(5 passes)/sigma."""
    return passes * Gaussian(sigma / 2) + passes * Gaussian(sigma)


def most(run: Run, sampler: str, relation: Adjacency, sigma: float | None = None) -> DominatingPair | None:
    """The pair that dominates the passes of a run under a sampler and a relation; None where nothing is proved."""
    noise = run.sigma if sigma is None else sigma
    if run.passes is None:
        return None
    if relation is not Adjacency.ADD_OR_REMOVE:
        return run.passes * Gaussian(noise)
    if not run.public:
        return None
    if sampler == "shuffled" or (sampler == "fixed-order" and run.order == "random"):
        return moved(run.passes, noise)
    return most_sums(run) * Gaussian(noise / 2) if sampler == "fixed-order" and run.order == "stored" else None


def _upper(run: Run, sampler: str, relation: Adjacency) -> float:
    pair = most(run, sampler, relation)
    return math.inf if pair is None else float(epsilon_of(pair, relation, run.delta).upper)


def _told(run: Run, sampler: str, relation: Adjacency) -> str:
    """The theorem of the upper end."""
    if relation is not Adjacency.ADD_OR_REMOVE:
        return "upper end: no amplification"
    if most(run, sampler, relation) is None:
        return UNPROVED
    return f"upper end: {ALL_MOVE}" if run.order == "stored" else LAST_TAKES_ITS_PLACE


# shuffled anew


def shuffled(run: Run, relation: Adjacency, name: str) -> Reading:
    """Lower end: the largest batch sum. Upper end: no amplification, by joint convexity over the orders."""
    if run.passes is None:
        return Reading(name, 0.0, math.inf, UNTOLD)
    whole = _upper(run, "shuffled", relation)
    low, theorem = _largest(run, relation, True, whole)
    return Reading(name, min(low, whole), whole, f"{theorem}; {_told(run, 'shuffled', relation)}")


def once(run: Run, relation: Adjacency, name: str) -> Reading:
    """An order of which nothing is known: given the order the largest sum has the same law, wherever the record is in a full batch."""
    if run.passes is None:
        return Reading(name, 0.0, math.inf, UNTOLD)
    whole = _upper(run, "once-per-epoch", relation)
    low, theorem = _largest(run, relation, whole_batches(run)[1] > 1.0 - 1e-12, whole)
    return Reading(name, min(low, whole), whole, f"{theorem}, which no order changes; {_told(run, 'once-per-epoch', relation)}")


def _largest(run: Run, relation: Adjacency, several: bool, whole: float) -> tuple[float, str]:
    """The lower end by the largest batch sums, of one epoch or of `several`."""
    p, q = laws(run, relation)
    batches, _ = whole_batches(run)
    epochs = whole_passes(run)
    if epochs < 1:
        return 0.0, "lower end: none is known for less than one epoch"
    epochs = epochs if several else 1
    low, removed = shuffled_epoch(run, str(relation)), relation is Adjacency.ADD_OR_REMOVE
    if epochs > 1:
        low = max(low, counted(p, q, epochs, run.delta)[0])
    if 1 < epochs <= LONG and run.delta > 0.0 and run.sigma >= HARDLY and (not removed or rising(p, q)):
        top = whole if math.isfinite(whole) else float(epsilon_of(run.passes * Gaussian(run.sigma), sized(relation), run.delta).upper)
        low = max(low, many_epochs(p, q, epochs, run.delta, low, top))
    return low, f"lower end: largest batch sum, {epochs} x {batches} batches (Chua et al. 2024)" + (REMOVED if removed else "")


def sized(relation: Adjacency) -> Adjacency:
    """A record that is added at the end acts as under zero-out at least."""
    return Adjacency.ZERO_OUT if relation is Adjacency.ADD_OR_REMOVE else relation


# one order


def fixed_order(run: Run, relation: Adjacency, name: str) -> Reading:
    """The same batches in every pass."""
    if run.passes is None:
        return Reading(name, 0.0, math.inf, UNTOLD)
    upper = _upper(run, "fixed-order", relation)
    if run.order == "random":
        low, theorem = _one_random_order(run, relation)
        return Reading(name, min(low, upper), upper, f"{theorem}; {_told(run, 'fixed-order', relation)}")
    found = epsilon_of(least(run, relation), sized(relation), run.delta)
    theorem, figure = ONE_BATCH, float(found.estimate)
    if relation is Adjacency.ADD_OR_REMOVE:
        figure = float(epsilon_of(run.passes * Gaussian(run.sigma), sized(relation), run.delta).estimate)
        theorem = f"{ALL_MOVE}, by records that alternate" if run.order == "stored" else f"lower end: {ONE_BATCH}"
        theorem += "" if run.order == "stored" and run.public else f"; {UNPROVED}"
    return Reading(name, min(float(found.lower), upper), upper, theorem, figure)


def times_seen(run: Run) -> int:
    """Passes that surely have all their batches."""
    return min(run.passes or 1, math.ceil(run.steps / math.ceil(1.0 / run.rate - 1e-9)))


def least(run: Run, relation: Adjacency) -> DominatingPair:
    """The pair that a data set attains in a fixed order: the first batch of every pass, or all batches of whole passes if all move."""
    passes, batches = whole_passes(run), math.floor(1.0 / run.rate + 1e-9)
    if relation is Adjacency.ADD_OR_REMOVE and run.order == "stored" and passes >= 1 and batches > 1:
        return passes * (batches - 1) * Gaussian(run.sigma / 2) + passes * Gaussian(run.sigma)
    return times_seen(run) * Gaussian(run.sigma)


def _one_random_order(run: Run, relation: Adjacency) -> tuple[float, str]:
    """The sums of a batch over the passes are one sum of less noise."""
    passes = whole_passes(run) // run.orders
    if passes < 1:
        return 0.0, "lower end: none is known for less than one pass"
    low = shuffled_epoch(replace(run, sigma=run.sigma / math.sqrt(passes) * (1.0 + 1e-15)), str(relation))
    return low, f"lower end: largest sum of a batch over {passes} passes in one secret order (Chua et al. 2024)"


@lru_cache(maxsize=64)
def least_shuffled_noise(run: Run, adjacency: str, epsilon: float) -> float:
    """A noise multiplier below which shuffling is refuted at epsilon; 1 % wide; 0 if none was found. Not a noise that suffices."""
    relation, epochs = Adjacency(adjacency), whole_passes(run)

    def refuted(sigma: float) -> bool:
        other = replace(run, sigma=sigma)
        if epochs < 1 or shuffled_epoch(other, adjacency) > epsilon:
            return epochs >= 1
        p, q = laws(other, relation)
        if epochs > LONG or run.delta == 0.0 or (relation is Adjacency.ADD_OR_REMOVE and not rising(p, q)):
            return counted(p, q, epochs, run.delta)[0] > epsilon
        return epochs > 1 and exceeds(p, q, epochs, run.delta, epsilon)

    low = high = max(run.sigma, 0.05)
    if not refuted(low):
        return 0.0
    for _ in range(12):
        low, high = high, 1.6 * high
        if not refuted(high):
            break
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
