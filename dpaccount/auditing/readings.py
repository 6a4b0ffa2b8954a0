"""epsilon of a claimed run under one reading of it: how batches are drawn, which data sets are neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from operator import add
from typing import Any

import numpy as np

from dpaccount.adjacency import Adjacency
from dpaccount.auditing.rough import bracket, largest_output
from dpaccount.auditing.shuffled import LONG, Largest, counted, exceeds, many_epochs, one_epoch, rising
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import Composition, DominatingPair
from dpaccount.results import Bounds, NumericalFailure, Status
from dpaccount.sampling.fixed_size import FixedSizeSampled
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.statement import shown_down, shown_up

FAR = 1e-2  # mean shift of the sampled sums, in noises, below which epsilon may well be 0
HARDLY = 0.1  # noise multipliers below which every engine takes long
FAINT, DEEP = 0.25, 1e-40  # and below which a rough bracket is all that is given where the contour does not answer
ROUGH = (
    "a rough bracket, since the exact figure takes long here: lower end, the largest of all outputs as the event; upper end, "
    "Renyi bounds converted (Canonne, Kamath, Steinke 2020), or no credit for sampling"
)


@dataclass(frozen=True)
class Reading:
    """A bracket for epsilon: every analysis must print at least `lower`, and `upper` is proved (inf where nothing is).

    `lower` is attained by a data set, or 0 where none is known. `figure` is what an accountant prints, which is
    neither where no theorem makes it so. A `rough` bracket stands for figures that take long.
    """

    name: str
    lower: float
    upper: float
    theorem: str
    figure: float | None = None
    rough: bool = False

    @property
    def text(self) -> str:
        if math.isinf(self.lower):
            return "infinite"
        if math.isfinite(self.upper) and self.upper - self.lower <= 1e-6 * self.upper:
            return shown_up(self.upper, 8)
        low = f"at least {shown_down(self.lower, 8)}" if self.lower > 0.0 else ""
        top = f"at most {shown_up(self.upper, 8)}" if math.isfinite(self.upper) else "no proved upper bound"
        return ", ".join(part for part in (low, top) if part)


@dataclass(frozen=True)
class Run:
    """The numbers of a DP-SGD run that epsilon depends on; of several `phases` sigma is the least, rate the largest."""

    sigma: float
    rate: float
    steps: int
    delta: float
    passes: int | None = None
    dataset_size: int | None = None
    batch: int | None = None
    phases: tuple[tuple[float, float, int], ...] = ()

    @property
    def parts(self) -> tuple[tuple[float, float, int], ...]:
        """(noise multiplier, sampling probability, steps) of each phase."""
        return self.phases or ((self.sigma, self.rate, self.steps),)

    def pair(self, sigma: float | None = None, rate: float | None = None, steps: int | None = None) -> DominatingPair:
        if self.phases:
            parts = [Run(s, q if rate is None else rate, n, self.delta).pair() for s, q, n in self.phases]
            return reduce(add, parts)
        step: Any = Gaussian(self.sigma if sigma is None else sigma)
        q = self.rate if rate is None else rate
        return (self.steps if steps is None else steps) * (step if q == 1.0 else PoissonSampled(step, q))


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
        seen = -math.expm1(run.steps * math.log1p(-run.rate)) if sampler in ("poisson", "fixed-size") and run.rate < 1.0 else 1.0
        if run.delta < seen:
            return Reading(name, math.inf, math.inf, "no noise is added", math.inf)
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


def _nothing(run: Run, adjacency: str) -> bool:
    return float(epsilon_of(run.steps * Gaussian(run.sigma), adjacency, run.delta).upper) == 0.0


def slow(run: Run, adjacency: str) -> bool:
    """Whether no contour vouches for epsilon of Poisson-sampled steps, so that other engines would need seconds."""
    return run.steps > 1 and run.rate < 1.0 and (run.sigma < HARDLY or _contour(run.pair(), adjacency, run.delta) is None)


@lru_cache(maxsize=256)
def _contour(pair: DominatingPair, adjacency: str, delta: float) -> Bounds | None:
    try:
        return PrivacyProfile(pair, adjacency, method="line").epsilon(delta=delta)
    except NumericalFailure:
        return None


def epsilon_of(pair: DominatingPair, adjacency: str | Adjacency, delta: float) -> Bounds:
    """epsilon at delta, both ends valid."""
    known = _contour(pair, str(adjacency), delta) if isinstance(pair, Composition) else None
    if known is not None:
        return known
    try:
        return PrivacyProfile(pair, adjacency).epsilon(delta=delta)
    except NumericalFailure:
        return PrivacyProfile(pair, adjacency, method="lattice").epsilon(delta=delta)


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


def _fixed_order(run: Run, relation: Adjacency, name: str) -> Reading:
    if run.passes is None:
        return Reading(name, 0.0, math.inf, "the number of passes is needed")
    found = epsilon_of(run.passes * Gaussian(run.sigma), _sized(relation), run.delta)
    seen = min(run.passes, math.ceil(run.steps / math.ceil(1.0 / run.rate - 1e-9)))  # times that the first batch surely comes
    least = found if seen == run.passes else epsilon_of(seen * Gaussian(run.sigma), _sized(relation), run.delta)
    theorem = "each record is in one batch of every pass, without amplification: composed Gaussian mechanisms"
    upper = math.inf if relation is Adjacency.ADD_OR_REMOVE else float(found.upper)
    if relation is Adjacency.ADD_OR_REMOVE:
        theorem += "; a record that is added may move all others to other batches, so only the lower end holds"
    return Reading(name, float(least.lower), upper, theorem, float(found.estimate))


def _sized(relation: Adjacency) -> Adjacency:
    """Fixed batches need the number of records; a record that is added at the end acts as under zero-out at least."""
    return Adjacency.ZERO_OUT if relation is Adjacency.ADD_OR_REMOVE else relation


def whole_batches(run: Run) -> tuple[int, float]:
    """Full batches of a shuffled epoch, and the probability that a record is in one of them."""
    if run.dataset_size is not None and run.batch is not None:
        batches = max(run.dataset_size // run.batch, 1)
        return batches, min(batches * run.batch / run.dataset_size, 1.0)
    batches = max(math.floor(1.0 / run.rate + 1e-9), 1)
    return batches, min(batches * run.rate, 1.0)


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


def _shuffled(run: Run, relation: Adjacency, name: str) -> Reading:
    if run.passes is None:
        return Reading(name, 0.0, math.inf, "the number of passes is needed")
    whole = float(epsilon_of(run.passes * Gaussian(run.sigma), _sized(relation), run.delta).upper)
    p, q = laws(run, relation)
    batches, _ = whole_batches(run)
    epochs = min(run.steps // batches, run.passes)  # those that have all their batches
    low, theorem = 0.0, "lower end: none is known for less than one epoch"
    if epochs >= 1:
        low, theorem = shuffled_epoch(run, str(relation)), f"lower end: largest batch sum, {epochs} x {batches} batches (Chua et al. 2024)"
    removed = relation is Adjacency.ADD_OR_REMOVE
    if epochs > 1:
        low = max(low, counted(p, q, epochs, run.delta)[0])
    if 1 < epochs <= LONG and run.delta > 0.0 and run.sigma >= HARDLY and (not removed or rising(p, q)):
        low = max(low, many_epochs(p, q, epochs, run.delta, low, whole))
    if removed:
        return Reading(name, low, math.inf, theorem + (REMOVED if epochs >= 1 else "") + "; upper end: none is proved")
    return Reading(name, min(low, whole), whole, theorem + "; upper end: no amplification")


REMOVED = (
    ", by the pair of zero-out: where its likelihood ratio rises with the largest sum every region it rejects in is an increasing set, "
    "and without the record the largest sum is stochastically no larger"
)


def _fixed_size(run: Run, relation: Adjacency, name: str, haste: str) -> Reading:
    if relation is not Adjacency.REPLACE_ONE:
        return Reading(name, 0.0, math.inf, "fixed-size batches are accounted for under replace-one only: their number is public")
    if run.dataset_size is None or run.batch is None:
        return Reading(name, 0.0, math.inf, "dataset_size and batch_size are needed")
    pair = run.steps * FixedSizeSampled(Gaussian(run.sigma), run.batch, run.dataset_size)
    if haste == "great" or (haste != "none" and run.steps > 1 and (run.sigma < HARDLY or _contour(pair, relation, run.delta) is None)):
        whole = epsilon_of(run.steps * Gaussian(run.sigma), relation, run.delta)
        least = largest_output(run.sigma / 2, run.rate, run.steps, run.delta, Adjacency.ADD_OR_REMOVE)
        return Reading(name, min(least, float(whole.upper)), float(whole.upper), ROUGH, rough=True)
    top = epsilon_of(pair, relation, run.delta)
    low = epsilon_of(run.pair(sigma=run.sigma / 2), Adjacency.ADD_OR_REMOVE, run.delta)
    theorem = (
        "lower end: all other records at the opposite bound make it a Poisson-sampled Gaussian of shift 2; upper end: sampling "
        "without replacement (Balle, Barthe, Gaboardi 2018, Theorem 9), composed"
    )
    return Reading(name, min(float(low.lower), float(top.upper)), float(top.upper), theorem)


_SAMPLERS: dict[str, Callable[[Run, Adjacency, str], Reading]] = {
    "poisson": _poisson, "full-batch": _full, "fixed-order": _fixed_order, "shuffled": _shuffled,
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


@lru_cache(maxsize=64)
def least_shuffled_noise(run: Run, adjacency: str, epsilon: float) -> float:
    """A noise multiplier below which shuffling is refuted at epsilon; 1 % wide; 0 if none was found. Not a noise that suffices."""
    relation = Adjacency(adjacency)
    batches, _ = whole_batches(run)
    epochs = min(run.steps // batches, run.passes or 0)

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


def collision(draws: int, bits: int) -> float:
    """The probability that two of so many draws from 2^bits seeds agree."""
    with np.errstate(divide="ignore"):
        return -float(np.expm1(np.log1p(-np.minimum(np.arange(draws) / 2.0**bits, 1.0)).sum()))


@lru_cache(maxsize=64)
def users_epsilon(run: Run, adjacency: str, size: int) -> tuple[float, float]:
    """(lower, upper) epsilon of a user with so many records, Poisson batches or all records."""
    found = PrivacyProfile(run.pair(), adjacency).group(size).epsilon(delta=run.delta)
    return float(found.lower), float(found.upper)
