"""epsilon of a claimed run under one reading of it: how batches are drawn, which data sets are neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from dpaccount.adjacency import Adjacency
from dpaccount.auditing.passes import fixed_order, once, shuffled
from dpaccount.auditing.rough import bracket, largest_output
from dpaccount.auditing.runs import HARDLY, Reading, Run, by_contour, epsilon_of
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.results import Status
from dpaccount.sampling.fixed_size import FixedSizeSampled

FAR = 1e-2  # mean shift of the sampled sums, in noises, below which epsilon may well be 0
FAINT, DEEP = 0.25, 1e-40  # and below which a rough bracket is all that is given where the contour does not answer
PASSES = ("shuffled", "fixed-order", "once-per-epoch")
ONE_MORE = (
    "exact: where the record is drawn it takes another's place, a Poisson-sampled Gaussian of shift 2 (advanced joint convexity: Balle, "
    "Barthe, Gaboardi 2018, Theorem 2), which records at the opposite bound attain"
)
ROUGH = (
    "a rough bracket, since the exact figure takes long here: lower end, the largest of all outputs as the event; upper end, "
    "Renyi bounds converted (Canonne, Kamath, Steinke 2020), or no credit for sampling"
)


def reading(run: Run, sampler: str, adjacency: str, proved: bool = True, haste: str = "") -> Reading:
    """The bracket of a run under a sampler and a relation; without `proved`, an upper end that takes long is left out.

    `haste` says what Poisson batches get: "" the contour's figure, and a rough bracket where it has none; "none" another engine's
    then, in seconds; "great" a rough bracket at once.
    """
    here = sampler in ("poisson", "fixed-size") and run.steps > 1 and run.rate < 1.0
    return _reading(run, sampler, adjacency, proved or sampler != "poisson" or adjacency != "replace-one", haste if here else "none")


@lru_cache(maxsize=256)
def _reading(run: Run, sampler: str, adjacency: str, proved: bool, haste: str) -> Reading:
    name = f"{sampler}, {adjacency}"
    if run.phases and (run.sigma < 1e-3 or sampler not in ("poisson", "full-batch")):
        return Reading(name, 0.0, math.inf, "several phases are accounted for under Poisson batches with noise only")
    if run.sigma == 0.0:  # whoever is seen at all is seen with certainty
        seen = _seen(run, sampler)
        if run.delta < seen:
            return Reading(name, math.inf, math.inf, "no noise is added", math.inf)
        if sampler in PASSES:
            return Reading(name, 0.0, math.inf, "no noise is added, and less than one epoch sees few records")
        return Reading(name, 0.0, 0.0, "no noise is added, and delta is at least the probability of being in any batch", 0.0)
    if run.sigma < 1e-3:
        return Reading(name, 0.0, math.inf, "noise below 0.001 of the clipping norm is not accounted for here")
    if sampler in ("poisson", "full-batch") and run.steps * run.rate / run.sigma < FAR and _nothing(run, adjacency):
        return Reading(name, 0.0, 0.0, "even without sampling delta covers all that is seen", 0.0)
    faint = run.sigma < FAINT or run.delta < DEEP or adjacency == "replace-one"
    if sampler == "poisson" and (haste == "great" or ((haste != "none" or faint) and slow(run, adjacency))):
        low, top = bracket(run.pair(), run.parts, run.delta, Adjacency(adjacency))
        return Reading(name, low, top, ROUGH, rough=True)
    if not proved:
        found = epsilon_of(run.pair(), adjacency, run.delta)
        return Reading(name, float(found.lower), math.inf, "records at opposite bounds", float(found.estimate))
    if sampler == "fixed-size":
        return _fixed_size(run, Adjacency(adjacency), name, haste)
    return _SAMPLERS[sampler](run, Adjacency(adjacency), name)


def _seen(run: Run, sampler: str) -> float:
    """The probability that a record is in some batch; of passes, whose last batch may be dropped, from below."""
    if run.rate == 1.0 or sampler == "full-batch" or (sampler == "fixed-order" and run.order != "random"):
        return 1.0
    if sampler in PASSES:
        return min(min(run.steps, math.floor(1.0 / run.rate)) * run.rate, 1.0)
    return -math.expm1(run.steps * math.log1p(-run.rate))


def _nothing(run: Run, adjacency: str) -> bool:
    return float(epsilon_of(run.steps * Gaussian(run.sigma), adjacency, run.delta).upper) == 0.0


def slow(run: Run, adjacency: str) -> bool:
    """Whether no contour vouches for epsilon of Poisson-sampled steps, so that other engines would need seconds."""
    return run.steps > 1 and run.rate < 1.0 and (run.sigma < HARDLY or by_contour(run.pair(), adjacency, run.delta) is None)


def _poisson(run: Run, relation: Adjacency, name: str) -> Reading:
    found = epsilon_of(run.pair(), relation, run.delta)
    if found.status is not Status.UNPROVED:
        theorem = "exact: the dominating pair of Poisson sampling (Zhu, Dong, Wang 2022, Theorem 11), composed"
        return Reading(name, float(found.lower), float(found.upper), theorem, float(found.estimate))
    upper = exchanged(run)
    theorem = (
        "lower end: records at opposite bounds attain the pair of mixtures at +1 and -1; upper end: one removal, then one addition"
    )
    return Reading(name, float(found.lower), max(upper, float(found.lower)), theorem, float(found.estimate))


def exchanged(run: Run) -> float:
    """An exchange is a removal and an addition: (2 eps, (1 + e^eps) delta) from (eps, delta) under add-or-remove."""
    profile, log_delta = PrivacyProfile(run.pair(), Adjacency.ADD_OR_REMOVE), math.log(run.delta) if run.delta > 0.0 else -math.inf
    if log_delta == -math.inf:
        return math.inf
    part = float(profile.epsilon(log_delta=log_delta).upper)
    for _ in range(12):  # rises to the fixed point; the last step is checked
        new = float(profile.epsilon(log_delta=log_delta - float(np.logaddexp(0.0, part))).upper)
        if new - part <= 1e-8 * new:
            break
        part = new
    for slack in (1e-7, 1e-5, 1e-3, 1e-1, 1.0):
        if float(profile.log_delta(part * (1 + slack)).upper) + float(np.logaddexp(0.0, part * (1 + slack))) <= log_delta:
            return 2.0 * part * (1 + slack)
    return math.inf


def _full(run: Run, relation: Adjacency, name: str) -> Reading:
    found = epsilon_of(run.pair(rate=1.0), relation, run.delta)
    return Reading(
        name, float(found.lower), float(found.upper), "exact: composed Gaussian mechanisms (Balle, Wang 2018)", float(found.estimate)
    )


def _fixed_size(run: Run, relation: Adjacency, name: str, haste: str) -> Reading:
    if relation is Adjacency.ZERO_OUT:
        return Reading(name, 0.0, math.inf, "fixed-size batches are accounted for under add-or-remove and replace-one")
    if run.dataset_size is None or run.batch is None:
        return Reading(name, 0.0, math.inf, "dataset_size and batch_size are needed")
    drawn = replace(run, sigma=run.sigma / 2, rate=run.batch / run.dataset_size)  # all other records at the opposite bound
    if relation is Adjacency.ADD_OR_REMOVE:
        return _one_more(drawn, name, haste)
    pair = run.steps * FixedSizeSampled(Gaussian(run.sigma), run.batch, run.dataset_size)
    if haste == "great" or (haste != "none" and run.steps > 1 and (run.sigma < HARDLY or by_contour(pair, relation, run.delta) is None)):
        whole = epsilon_of(run.steps * Gaussian(run.sigma), relation, run.delta)
        least = largest_output(drawn.sigma, drawn.rate, run.steps, run.delta, Adjacency.ADD_OR_REMOVE)
        return Reading(name, min(least, float(whole.upper)), float(whole.upper), ROUGH, rough=True)
    top = epsilon_of(pair, relation, run.delta)
    low = epsilon_of(drawn.pair(), Adjacency.ADD_OR_REMOVE, run.delta)
    theorem = (
        "lower end: all other records at the opposite bound make it a Poisson-sampled Gaussian of shift 2; upper end: sampling "
        "without replacement (Balle, Barthe, Gaboardi 2018, Theorem 9), composed"
    )
    return Reading(name, min(float(low.lower), float(top.upper)), float(top.upper), theorem)


def _one_more(drawn: Run, name: str, haste: str) -> Reading:
    """Where the record is drawn it takes another's place, so a batch is a Poisson sample of a Gaussian of shift 2."""
    if haste == "great" or (haste != "none" and slow(drawn, "add-or-remove")):
        low, top = bracket(drawn.pair(), drawn.parts, drawn.delta, Adjacency.ADD_OR_REMOVE)
        return Reading(name, low, top, ROUGH, rough=True)
    found = epsilon_of(drawn.pair(), Adjacency.ADD_OR_REMOVE, drawn.delta)
    return Reading(name, float(found.lower), float(found.upper), ONE_MORE, float(found.estimate))


_SAMPLERS: dict[str, Callable[[Run, Adjacency, str], Reading]] = {
    "poisson": _poisson, "full-batch": _full, "fixed-order": fixed_order, "shuffled": shuffled,
    "once-per-epoch": once,
}


@lru_cache(maxsize=64)
def random_stopping(run: Run, adjacency: str, mean_runs: float) -> float:
    """epsilon of the best of a geometric number of runs, by Renyi DP (Papernot, Steinke 2022, Theorem 2, eta = 1).

    ``D_a <= D(a) + 2 (1 - 1/b) D(b) + 2 log(m)/b + log(m)/(a - 1)`` for any order b, with mean m, converted by CKS20.
    """
    orders = 1.0 + np.geomspace(0.05, 511.0, 80)
    curve = PrivacyProfile(run.pair(), adjacency).renyi()
    rdp = np.array([float(curve(float(a)).upper) for a in orders])
    log_mean = math.log(mean_runs)
    extra = float(np.min(2.0 * ((1.0 - 1.0 / orders) * rdp + log_mean / orders)))
    total = rdp + extra + log_mean / (orders - 1.0)
    return float(np.min(total + np.log1p(-1.0 / orders) - (math.log(run.delta) + np.log(orders)) / (orders - 1.0)))


@lru_cache(maxsize=64)
def renyi_figures(run: Run, adjacency: str) -> tuple[float, float]:
    """(classic, improved) conversion over the orders that tutorials use: 1.1 to 10.9 by .1, 11 to 63, 128, 256, 512."""
    orders = np.concatenate([np.arange(11, 110) / 10.0, np.arange(11, 64), [128.0, 256.0, 512.0]])
    curve = PrivacyProfile(run.pair(), adjacency).renyi()
    rdp = np.array([float(curve(float(a)).upper) for a in orders])
    classic = rdp - math.log(run.delta) / (orders - 1.0)
    improved = rdp + np.log1p(-1.0 / orders) - (math.log(run.delta) + np.log(orders)) / (orders - 1.0)
    return float(classic.min()), max(float(improved.min()), 0.0)


def collision(draws: int, bits: int) -> float:
    """The probability that two of so many draws from 2^bits seeds agree."""
    with np.errstate(divide="ignore"):
        return -float(np.expm1(np.log1p(-np.minimum(np.arange(draws) / 2.0**bits, 1.0)).sum()))


@lru_cache(maxsize=64)
def users_epsilon(run: Run, adjacency: str, size: int) -> tuple[float, float]:
    """(lower, upper) epsilon of a user with so many records, Poisson batches or all records."""
    found = PrivacyProfile(run.pair(), adjacency).group(size).epsilon(delta=run.delta)
    return float(found.lower), float(found.upper)
