"""Each end of a claim's bracket by a theorem, to a stated number of digits, in ball arithmetic: what a certificate is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np

import dpaccount.auditing.dots as dots
from dpaccount.adjacency import Adjacency
from dpaccount.auditing.exceeding import at_least, best_sum, log_ratio, one_output, scored_sums
from dpaccount.auditing.passes import laws, least, most, sized, whole_batches, whole_passes
from dpaccount.auditing.readings import PASSES, exchanged, slow
from dpaccount.auditing.rough import largest_output
from dpaccount.auditing.runs import Run
from dpaccount.auditing.sheet import Sheet
from dpaccount.auditing.shuffled import counted
from dpaccount.certified import Enclosure, certified_delta, certified_epsilon
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair
from dpaccount.results import NumericalFailure
from dpaccount.sampling.fixed_size import FixedSizeSampled
from dpaccount.statement import shown_up

LOWER, UPPER = "lower", "upper"
SIDES = (LOWER, UPPER)
CUTS, UNIT, SUMS = 64, 0.02, 12_000  # of the largest sum; least loss of one score; largest sum of scores
SEARCH = 300  # bits while an event is looked for
GUARD = 6  # digits beyond those that are stated
SENTENCES = {
    "composition": "the dominating pairs of (Poisson-sampled) Gaussian mechanisms, composed (Zhu, Dong, Wang 2022, Theorems 10 and 11)",
    "opposite-records": "records at opposite bounds attain the composed pairs of mixtures at +1 and -1",
    "removal-and-addition": "an exchange is a removal and an addition: delta(epsilon/2) (1 + e^(epsilon/2)) <= delta under add-or-remove",
    "largest-output": "the event that one of the outputs exceeds a threshold",
    "connected-dots": (
        "the curve of one step between the points of a lattice, composed (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022; "
        "Zhu, Dong, Wang 2022, Theorem 10)"
    ),
    "every-record": "no credit for sampling: composed Gaussian mechanisms (sampling is joint convexity over the batches)",
    "largest-sums": "an event of the largest batch sums of shuffled epochs: their scores add up to so much (Chua et al. 2024)",
    "each-pass": "each record is in one batch of every pass, without amplification: composed Gaussian mechanisms",
    "last-takes-its-place": (
        "the last record of a random order takes the place of the missing one: in each pass one batch differs by an exchange, one by an "
        "addition (Shuffled batches, Proposition 1)"
    ),
    "all-move": "all records after the missing one move up: each batch differs by an exchange (Shuffled batches, Proposition 2)",
    "records-alternate": "records that alternate between opposite bounds where each batch begins, and all move up",
    "passes-seen": "a record that is in the first batch of every pass: composed Gaussian mechanisms",
    "without-replacement": "sampling without replacement under replace-one (Balle, Barthe, Gaboardi 2018, Theorem 9), composed",
    "takes-a-place": (
        "where the record is drawn it takes another's place: Poisson-sampled Gaussians of shift 2 (Balle, Barthe, Gaboardi 2018, "
        "Theorem 2), attained by records at the opposite bound"
    ),
    "shift-of-two": "all other records at the opposite bound: Poisson-sampled Gaussians of shift 2",
}


@dataclass(frozen=True)
class End:
    """One end of the bracket: the side, the theorem by its key in `SENTENCES`, epsilon, and the event where there is one."""

    side: str
    theorem: str
    epsilon: str
    event: dict[str, Any] = field(default_factory=dict)


def ends(sheet: Sheet, digits: int) -> list[End]:
    """Both ends of what is proved of the run that the claim is about, where theorems give them."""
    run, claim = sheet.run, sheet.claim
    assert run is not None
    found = []
    for side, options in theorems(str(claim.sampler), Adjacency(claim.adjacency), run):
        if side == LOWER and sheet.unseen:
            continue
        end = _first(side, options, run, Adjacency(claim.adjacency), digits)
        if end is not None:
            found.append(end)
    return found


def _first(side: str, options: tuple[str, ...], run: Run, relation: Adjacency, digits: int) -> End | None:
    for theorem in options:
        event = EVENTS[theorem](run, relation) if theorem in EVENTS else {}
        if event is None:
            continue
        try:
            return End(side, theorem, proved(theorem, side, run, relation, event, digits), event)
        except NumericalFailure:
            continue
    return None


def theorems(sampler: str, relation: Adjacency, run: Run) -> list[tuple[str, tuple[str, ...]]]:
    """The sides that have theorems for a sampler and a relation, the tightest first."""
    exchange = relation is not Adjacency.ADD_OR_REMOVE
    quick = not (sampler == "poisson" and slow(run, str(relation)))  # where no contour answers, balls have none either, or take long
    if sampler == "full-batch" or (sampler == "poisson" and run.rate == 1.0 and not run.phases):
        return [(LOWER, ("composition",)), (UPPER, ("composition",))]
    if not quick and run.phases:  # events are of one noise and one rate
        return [(UPPER, ("every-record",))]
    if not quick or (sampler == "poisson" and not exchange and not run.phases and dots.few(run.rate, run.steps)):
        return [(LOWER, ("largest-output",)), (UPPER, ("connected-dots", "every-record"))]
    if sampler == "poisson" and relation is Adjacency.REPLACE_ONE:
        return [(LOWER, ("opposite-records",)), (UPPER, ("removal-and-addition",))]
    if sampler == "poisson":
        return [(LOWER, ("composition",)), (UPPER, ("composition",))]
    if sampler in PASSES and run.passes is not None and not run.phases:
        return _of_passes(sampler, relation, run)
    if sampler == "fixed-size" and relation is not Adjacency.ZERO_OUT and run.batch is not None and run.dataset_size is not None:
        if exchange:
            return [(LOWER, ("shift-of-two",)), (UPPER, ("without-replacement", "every-record"))]
        return [] if slow(_drawn(run), str(relation)) else [(LOWER, ("takes-a-place",)), (UPPER, ("takes-a-place",))]
    return []


def _of_passes(sampler: str, relation: Adjacency, run: Run) -> list[tuple[str, tuple[str, ...]]]:
    """Each record once in every pass."""
    moves = run.order == "stored" and relation is Adjacency.ADD_OR_REMOVE
    found: list[tuple[str, tuple[str, ...]]] = []
    if sampler == "shuffled":
        found.append((LOWER, ("largest-sums",)))
    elif sampler == "fixed-order" and run.order != "random":
        found.append((LOWER, ("records-alternate",) if moves else ("passes-seen",)))
    if most(run, sampler, relation) is not None:
        key = "each-pass" if relation is not Adjacency.ADD_OR_REMOVE else "all-move" if moves else "last-takes-its-place"
        found.append((UPPER, (key,)))
    return found


def _drawn(run: Run) -> Run:
    """Samples of a fixed size where all other records are at the opposite bound."""
    assert run.batch is not None
    assert run.dataset_size is not None
    return replace(run, sigma=run.sigma / 2, rate=run.batch / run.dataset_size)


def proved(theorem: str, side: str, run: Run, relation: Adjacency, event: dict[str, Any], digits: int) -> str:
    """epsilon by a theorem, as a decimal of so many significant digits: rounded down for a lower end, up for an upper one."""
    if theorem in EVENTS and run.phases:
        raise NumericalFailure("`certificate` has no proof here: an event is of one noise and one sampling probability, and phases differ.")
    if theorem == "connected-dots":
        if relation is Adjacency.REPLACE_ONE:
            raise NumericalFailure("`certificate` has no proof here: an exchange is no pair of one curve.")
        return dots.least_epsilon(run.sigma, run.rate, run.steps, run.delta, event, digits)
    if theorem in ("largest-sums", "largest-output"):
        return _by_event(theorem, run, relation, event, digits)
    if theorem == "removal-and-addition":
        return _exchanged(run, digits)
    pair, under = _pair(theorem, run, relation)

    def enclosed(more: int) -> Enclosure:
        return _enclosed(pair, run.delta, under, digits + more)

    return settled(enclosed, side, digits)


@lru_cache(maxsize=64)
def _enclosed(pair: DominatingPair, delta: float, relation: Adjacency, digits: int) -> Enclosure:
    """What both ends of one composition are rounded from."""
    return certified_epsilon(pair, delta, adjacency=relation, digits=digits)


def _pair(theorem: str, run: Run, relation: Adjacency) -> tuple[DominatingPair, Adjacency]:
    if theorem in ("composition", "opposite-records"):
        return run.pair(), relation
    if theorem == "every-record":
        return reduce(add, [steps * Gaussian(sigma) for sigma, _, steps in run.parts]), relation
    if theorem in ("each-pass", "last-takes-its-place", "all-move"):
        pair = most(run, "fixed-order" if theorem == "all-move" else "shuffled", relation)
        assert pair is not None
        return pair, relation
    if theorem in ("passes-seen", "records-alternate"):
        return least(run, relation), sized(relation)
    if theorem in ("shift-of-two", "takes-a-place"):
        return _drawn(run).pair(), Adjacency.ADD_OR_REMOVE
    assert theorem == "without-replacement"
    return run.steps * FixedSizeSampled(Gaussian(run.sigma), run.batch or 1, run.dataset_size or 1), relation


def settled(enclosed: Callable[[int], Enclosure], side: str, digits: int) -> str:
    """The end rounded outward, once both ends of the enclosure round alike, so that the decimal is the one and only."""
    for more in (GUARD, 4 * GUARD):
        found = enclosed(more)
        rounded = {_decimal(end, side, digits) for end in (found.lower, found.upper)}
        if len(rounded) == 1:
            return rounded.pop()
    raise NumericalFailure("`certificate` has no proof here: the digits do not settle.")


def _decimal(value: Decimal, side: str, digits: int) -> str:
    if value.is_infinite():
        return "Infinity"
    with localcontext() as context:
        context.prec, context.rounding = digits, ROUND_FLOOR if side == LOWER else ROUND_CEILING
        return str(max(+value, Decimal(0)))


# events


def sound(theorem: str, event: Any) -> bool:
    """Whether an event has the shape that its theorem needs: cuts that rise, whole scores that never fall."""
    if theorem not in EVENTS:
        return bool(event == {})
    if not isinstance(event, dict):
        return False
    if theorem == "largest-output":
        return set(event) == {"threshold"} and _numbers([event["threshold"]])
    if theorem == "connected-dots":
        return dots.sound(event)
    if set(event) != {"cuts", "scores", "least"}:
        return False
    cuts, scores, least = event["cuts"], event["scores"], event["least"]
    whole: bool = isinstance(scores, list) and all(type(x) is int and x >= 0 for x in [*scores, least])
    return bool(
        whole and _numbers(cuts) and least >= 1 and len(scores) == len(cuts) + 1
        and all(a < b for a, b in pairwise(cuts)) and all(a <= b for a, b in pairwise(scores))
    )


def _numbers(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(type(x) in (int, float) and abs(x) < 1e300 for x in values)


def _sums(run: Run, relation: Adjacency) -> dict[str, Any] | None:
    """The better of two events: so many epochs above one threshold, or scores near the losses that add up to so much."""
    epochs = whole_passes(run)
    if epochs < 1:
        return None
    found, cut, least = counted(*laws(run, relation), epochs, run.delta)
    options = [(found, {"cuts": [round(cut, 6)], "scores": [0, 1], "least": least})] if found > 0.0 else []
    if epochs > 1:
        cuts, scores = _scores(run, relation, epochs)
        value, least = best_sum(*_law(run, relation, cuts, scores, SEARCH), Fraction(run.delta), SEARCH)
        options.append((value, {"cuts": cuts, "scores": scores, "least": least}))
    value, event = max(options, key=lambda option: option[0], default=(0.0, {}))
    return event if value > 0.0 else None


def _scores(run: Run, relation: Adjacency, epochs: int) -> tuple[list[float], list[int]]:
    """Cuts of the largest sum, and a whole number near the loss between two of them; never falling, so that a missing record lowers it."""
    p, q = laws(run, relation)
    grid = np.linspace(-p.sigma, 2.0 + 8.0 * p.sigma, 4001)
    below = p.log_below(grid)
    low, high = (float(grid[int(np.searchsorted(below, x))]) for x in (-3.0, -1e-9))
    cuts = [round(float(c), 4) for c in np.linspace(low, high, CUTS)]
    middle = np.array([cuts[0], *(np.array(cuts[1:]) + np.array(cuts[:-1])) / 2, cuts[-1]])
    loss = np.maximum.accumulate(p.log_density(middle) - q.log_density(middle))
    unit = max(float(np.ptp(loss)) * epochs / SUMS, UNIT)
    return cuts, [int(x) for x in np.round((loss - loss[0]) / unit)]


def _law(run: Run, relation: Adjacency, cuts: Sequence[float], scores: Sequence[int], bits: int) -> tuple[list[Any], list[Any]]:
    batches, _ = whole_batches(run)
    share = Fraction(batches * run.batch, run.dataset_size) if run.batch and run.dataset_size else batches * Fraction(run.rate)
    other = 0 if relation is Adjacency.REPLACE_ONE else 1
    return scored_sums(run.sigma, batches, min(share, Fraction(1)), other, whole_passes(run), cuts, scores, bits)


def _outputs(run: Run, relation: Adjacency) -> dict[str, Any] | None:
    if run.phases:
        return None
    cut = largest_output(run.sigma, run.rate, run.steps, run.delta, relation, where=True)
    return {"threshold": float(f"{cut:.9g}")} if math.isfinite(cut) else None


def _points(run: Run, relation: Adjacency) -> dict[str, Any] | None:
    if run.phases or relation is Adjacency.REPLACE_ONE:
        return None
    return dots.lattice(run.sigma, run.rate, run.steps, run.delta)


EVENTS: dict[str, Callable[[Run, Adjacency], dict[str, Any] | None]] = {
    "largest-sums": _sums, "largest-output": _outputs, "connected-dots": _points,
}


def _by_event(theorem: str, run: Run, relation: Adjacency, event: dict[str, Any], digits: int) -> str:
    from dpaccount.engines.balls.numbers import decimals

    delta = Fraction(run.delta)

    def enclosed(more: int) -> Enclosure:
        bits = 400 + 8 * (digits + more)
        if theorem == "largest-sums":
            p, q = (at_least(law, event["least"], bits) for law in _law(run, relation, event["cuts"], event["scores"], bits))
        else:
            p, q = one_output(run.sigma, run.rate, run.steps, -1 if relation is Adjacency.REPLACE_ONE else 0, event["threshold"], bits)
        return Enclosure(*decimals(log_ratio(p, q, delta, bits), digits + more))

    return settled(enclosed, LOWER, digits)


# the exchange


def _exchanged(run: Run, digits: int) -> str:
    """The least decimal of eight digits, or fewer if fewer are asked for, at which removal and addition fit into delta."""
    digits = min(digits, 8)
    guess = exchanged(run)
    if not 0.0 < guess < math.inf:
        raise NumericalFailure("`certificate` has no proof here: no exchange fits into delta.")
    value = Decimal(shown_up(guess, digits))
    unit = Decimal(1).scaleb(value.adjusted() - digits + 1)
    for _ in range(8):
        if not _fits(run, value):
            value += unit
        elif _fits(run, value - unit):
            value -= unit
        else:
            return str(value)
    if _fits(run, value):
        return str(value)
    raise NumericalFailure("`certificate` has no proof here: the exchange does not settle.")


def _fits(run: Run, epsilon: Decimal) -> bool:
    from dpaccount.engines.balls.numbers import exact, precision

    half = Fraction(epsilon) / 2
    with precision(400):
        spent = certified_delta(run.pair(), half, digits=20).upper
        return bool(exact(Fraction(spent)) * (1 + exact(half).exp()) <= exact(Fraction(run.delta)))
