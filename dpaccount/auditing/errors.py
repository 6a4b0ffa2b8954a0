"""The twelve usual errors of a privacy claim, each checked, found, or not to be checked for want of a field.

An effect says what follows: an error *refutes* where a data set shows that the claimed epsilon is too small, *voids* where the
claim's proof no longer covers what was done, and *weakens* where the figure says less than it seems to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpaccount.adjacency import Adjacency
from dpaccount.auditing.claims import Claim
from dpaccount.auditing.readings import (
    Reading,
    Run,
    collision,
    epsilon_of,
    random_stopping,
    reading,
    renyi_figures,
    shuffled_epoch,
    users_epsilon,
    whole_batches,
)
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.statement import shown, shown_down, shown_up
from dpaccount.training import exact

CHECKED, FOUND, NOT_CHECKED = "checked", "found", "not checked"
NEAR = 0.02  # a claimed epsilon this close to a wrong reading's is taken for it
SEED_BITS = 64
ACCOUNTED = "Poisson, add-or-remove"


@dataclass(frozen=True)
class Finding:
    """One usual error: what came of looking for it."""

    number: int
    title: str
    status: str
    text: str
    effect: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sheet:
    """A claim with the run that it describes, and its own reading, where the fields are there."""

    claim: Claim
    run: Run | None
    own: Reading | None

    def under(self, sampler: str | None = None, adjacency: str | None = None, proved: bool = True, **changes: Any) -> Reading | None:
        """A reading of the run with changes; None where something is missing."""
        scheme, relation = sampler or self.claim.sampler, adjacency or self.claim.adjacency
        if self.run is None or scheme is None or relation is None:
            return None
        return reading(replace(self.run, **changes), scheme, relation, proved)

    def accounted(self, **changes: Any) -> Reading | None:
        """The run as accountants usually take it: Poisson batches under add-or-remove."""
        return self.under("full-batch" if self.claim.sampler == "full-batch" else "poisson", "add-or-remove", **changes)

    @property
    def too_small(self) -> bool:
        """Whether the claimed epsilon is below what the run itself needs."""
        return self.own is not None and self.claim.epsilon is not None and self.own.lower > self.claim.epsilon


TITLES = (
    "batches drawn otherwise than accounted", "wrong adjacency", "wrong number of steps", "delta too large, or not stated",
    "epsilon of a step or an epoch given for the run", "unsound or slack conversion", "tuning and selection not charged",
    "last-iterate credit", "clipping and noise scale", "private normaliser", "wrong sampling probability or unit",
    "set-up and noise outside the guarantee",
)
Outcome = tuple[str, str, str, tuple[str, ...]]


def checked(text: str) -> Outcome:
    return CHECKED, text, "", ()


def missing(*names: str, text: str = "") -> Outcome:
    return NOT_CHECKED, text or f"needs {', '.join(names)}", "", names


def twelve(sheet: Sheet) -> tuple[Finding, ...]:
    """All twelve, in the order of `TITLES`."""
    found = []
    for number, (title, check) in enumerate(zip(TITLES, _CHECKS, strict=True), 1):
        status, text, effect, needs = check(sheet)
        found.append(Finding(number, title, status, text, effect, needs))
    return tuple(found)


def _judged(sheet: Sheet, other: Reading | None, text: str) -> Outcome:
    """An error that changes epsilon to another reading's."""
    claimed = sheet.claim.epsilon
    if other is None or claimed is None:
        return FOUND, text, "voids", ()
    if other.lower > claimed:
        return FOUND, text, "refutes", ()
    return FOUND, text, "voids" if other.upper > claimed else "weakens", ()


# 1 to 3: how the run was


def _sampler(sheet: Sheet) -> Outcome:
    claim, run = sheet.claim, sheet.run
    if claim.sampler is None:
        return missing("sampler")
    if claim.sampler in ("poisson", "full-batch"):
        return checked("batches are drawn by Poisson sampling, as accounted" if claim.sampler == "poisson" else "no sampling")
    own, poisson = sheet.own, sheet.under("poisson")
    if own is None or poisson is None or claim.epsilon is None or run is None:
        return FOUND, f"{claim.sampler} batches: Poisson's figure does not hold for them", "voids", ()
    beside = f"; Poisson sampling would need {_short(poisson)}"
    if math.isinf(own.lower):
        return FOUND, f"{claim.sampler} batches{beside}", "voids", ()
    if own.lower > claim.epsilon:
        once = ""
        if claim.sampler == "shuffled":
            batches, _ = whole_batches(run)
            once = f"one shuffled epoch of {batches} batches alone needs epsilon >= {shown_down(shuffled_epoch(run, claim.adjacency), 6)}, "
        return FOUND, f"{once}the run needs epsilon >= {shown_down(own.lower, 6)}, whatever the accountant{beside}", "refutes", ()
    if own.upper <= claim.epsilon:
        return checked(f"{claim.sampler} batches, and the claim holds for them: {own.text}{beside}")
    return FOUND, f"{claim.sampler} batches: {own.text}, and the claim lies between{beside}, which does not apply", "voids", ()


def _adjacency(sheet: Sheet) -> Outcome:
    claim = sheet.claim
    if claim.adjacency is None:
        return missing("adjacency", text="needs adjacency: it changes epsilon by up to a factor of two or more, and is never guessed")
    sampler, run = claim.sampler or "poisson", sheet.run
    if run is not None and claim.adjacency != "replace-one" and run.steps * run.rate < 1.0:
        return checked(f"stated: {claim.adjacency}")  # so few samples take long, and the other figure would only stand beside
    one, other = sheet.under(sampler, "add-or-remove"), sheet.under(sampler, "replace-one", proved=claim.adjacency == "replace-one")
    if one is None or other is None or claim.epsilon is None:
        return checked(f"stated: {claim.adjacency}")
    text = f"{sampler}: add-or-remove {_short(one)}; replace-one {_short(other)}"
    if claim.adjacency == "replace-one" and other.lower > claim.epsilon and (one.figure or one.upper) <= claim.epsilon:
        return FOUND, f"the figure is that of add-or-remove, the claim is about replace-one. {text}", "refutes", ()
    return checked(text)


def _short(found: Reading) -> str:
    return shown_up(found.figure, 8) if found.figure is not None and math.isfinite(found.figure) else found.text


def _steps(sheet: Sheet) -> Outcome:
    claim = sheet.claim
    if claim.epochs is None or claim.dataset_size is None or claim.logical_batch is None:
        names = ("epochs",) if claim.epochs is None else ("dataset_size", "batch_size")
        return missing(*names, text=f"needs {', '.join(names)}, to recompute the steps")
    exact_steps = exact(claim.epochs) * claim.dataset_size / claim.logical_batch
    low, high = math.floor(exact_steps), math.ceil(exact_steps)
    right = f"{float(exact(claim.epochs)):g} epochs of {claim.dataset_size}/{claim.logical_batch} are {_number(exact_steps)} steps"
    if claim.steps is not None and not _same_steps(claim, low, high):
        real = sheet.under(steps=high)
        need = "" if real is None else f", which need {_short(real)}"
        if claim.steps > high:
            return FOUND, f"steps = {claim.steps}, but {right}: more are accounted than were made", "weakens", ()
        return _judged(sheet, real, f"steps = {claim.steps}, but {right}{need}")
    passes = claim.passes or 1
    taken = None if passes == claim.updates else sheet.accounted(steps=passes)
    if taken is not None and sheet.too_small and _close(claim.epsilon, taken.figure):
        return FOUND, f"epsilon is that of {passes} steps: epochs were counted as steps, and {right}", "refutes", ()
    beside = "" if taken is None or taken.figure is None else f"; {passes} epochs taken for steps would give {shown_up(taken.figure, 7)}"
    both = _floor_and_ceiling(sheet, low, high)
    return checked(f"{right}{both}{beside}")


def _floor_and_ceiling(sheet: Sheet, low: int, high: int) -> str:
    """Both roundings of the steps, where they differ."""
    a, b = (sheet.accounted(steps=max(t, 1)) for t in (low, high))
    if low == high or a is None or b is None or a.figure is None or b.figure is None:
        return ""
    return f" ({low}: {shown_up(a.figure, 9)}; {high}: {shown_up(b.figure, 9)}, by {ACCOUNTED})"


def _same_steps(claim: Claim, low: int, high: int) -> bool:
    per = Fraction(claim.dataset_size, claim.logical_batch)
    passes = exact(claim.epochs)
    return claim.steps in (low, high, math.floor(passes * math.floor(per)), math.ceil(passes * math.ceil(per)))


def _number(value: Fraction) -> str:
    return str(int(value)) if value.denominator == 1 else f"{float(value):.10g}"


def _close(claimed: float | None, figure: float | None) -> bool:
    return claimed is not None and figure is not None and figure > 0.0 and abs(claimed / figure - 1.0) <= NEAR


# 4 to 6: what the figure says


def _delta(sheet: Sheet) -> Outcome:
    claim = sheet.claim
    if claim.delta is None:
        return missing("delta")
    if claim.dataset_size is None:
        return missing("dataset_size", text="needs dataset_size, to compare delta with 1/n")
    limit, deltas = 1.0 / claim.dataset_size, sorted({1e-6, 1e-5, 1e-4, 1.0 / claim.dataset_size, claim.delta})
    readings = [(d, sheet.accounted(delta=d)) for d in deltas]
    grid = "; ".join(f"{d:.6g}: {_short(r)}" for d, r in readings if r is not None)
    text = f"delta = {claim.delta:g}, 1/n = {limit:.6g}" + (f"; epsilon by delta, {ACCOUNTED}: {grid}" if grid else "")
    if claim.delta >= limit:
        return FOUND, f"delta is not below 1/n: publishing one record at random would meet it. {text}", "weakens", ()
    return checked(text)


def _whole(sheet: Sheet) -> Outcome:
    claim, run = sheet.claim, sheet.run
    if run is None or claim.epsilon is None:
        return missing(*claim.missing, text="needs the run, to recompute epsilon of a step and of an epoch")
    per_epoch = max(math.floor(1.0 / run.rate), 1)
    step, epoch = (sheet.accounted(steps=t) for t in (1, min(per_epoch, run.steps)))
    assert step is not None
    assert epoch is not None
    text = f"{ACCOUNTED}: one step {_short(step)}, one epoch ({min(per_epoch, run.steps)} steps) {_short(epoch)}"
    if claim.epsilon_of in ("step", "epoch"):
        total = "" if sheet.own is None else f"; the run needs {sheet.own.text}"
        return FOUND, f"epsilon is that of one {claim.epsilon_of}{total}. {text}", "refutes" if sheet.too_small else "weakens", ()
    for part, name in ((step, "step"), (epoch, "epoch")):
        if sheet.too_small and run.steps > per_epoch and _close(claim.epsilon, part.figure):
            return FOUND, f"the claimed epsilon is that of one {name}, not of the run. {text}", "refutes", ()
    return checked(text)


_UNSOUND = {
    "clt": "a central limit is no bound: it can lie below the truth",
    "gdp": "the Gaussian limit of sampled steps is no bound: it can lie below the truth",
    "gaussian-formula": "sqrt(2 ln(1.25/delta))/epsilon is proved for one release at epsilon <= 1 only",
}
_SLACK = {
    "rdp-classic": "sound, but its conversion wastes epsilon", "moments": "sound, but its conversion and orders waste epsilon",
    "basic-composition": "sound, but adding epsilons wastes most of the budget",
    "advanced-composition": "sound if its deltas add up, but far from tight",
}


def _accountant(sheet: Sheet) -> Outcome:
    claim = sheet.claim
    figures = _figures(sheet)
    if claim.accountant is None:
        return missing("accountant", text=f"needs accountant{figures}")
    if claim.accountant in _UNSOUND:
        return FOUND, f"{claim.accountant}: {_UNSOUND[claim.accountant]}{figures}", "weakens", ()
    if claim.accountant in _SLACK:
        return FOUND, f"{claim.accountant}: {_SLACK[claim.accountant]}{figures}", "", ()
    usual = sheet.accounted()
    if usual is not None and claim.epsilon is not None and claim.epsilon < usual.lower * (1.0 - 5e-3):
        return FOUND, f"{claim.accountant}: a sound one prints at least {shown_down(usual.lower, 6)} for this run{figures}", "weakens", ()
    return checked(f"{claim.accountant}: sound{figures}")


def _figures(sheet: Sheet) -> str:
    claim, run = sheet.claim, sheet.run
    tight = sheet.under("poisson")
    if run is None or tight is None or claim.adjacency == "replace-one" or not 0.0 < run.delta < 1.0 or run.sigma < 1e-3:
        return ""
    classic, improved = renyi_figures(run, claim.adjacency)
    text = f"; for Poisson batches: tight {shown_up(tight.upper, 8)}, RDP {shown_up(improved, 8)}, classic RDP {shown_up(classic, 8)}"
    per_epoch = max(math.floor(1.0 / run.rate), 1)
    if run.passes is not None and run.steps > per_epoch:
        epoch = sheet.accounted(steps=per_epoch)
        text += "" if epoch is None else f", sum of {run.passes} epochs {shown_up(run.passes * epoch.upper, 4)}"
    return text


# 7 and 8: what was released


def _tuning(sheet: Sheet) -> Outcome:
    claim, run = sheet.claim, sheet.run
    if claim.tuning_runs is None:
        return missing("tuning_runs", text="needs tuning_runs: the trainings on these records that the result was chosen among")
    if claim.tuning_runs == 1:
        return checked("one training, nothing was chosen")
    if claim.tuning_charged:
        return checked(f"{claim.tuning_runs} runs, said to be charged for")
    text = f"the best of {claim.tuning_runs} runs was chosen, and epsilon counts one"
    if run is None or claim.adjacency is None or claim.sampler is None:
        return FOUND, text, "voids", ()
    passes = None if run.passes is None else claim.tuning_runs * run.passes
    every = sheet.under(steps=claim.tuning_runs * run.steps, passes=passes)
    if every is not None:
        text += f"; all of them composed need {_short(every)}"
        if claim.epsilon is not None and every.upper <= claim.epsilon:
            return checked(f"{claim.tuning_runs} runs: even all of them composed need no more than {_short(every)}")
    if claim.sampler == "poisson" and claim.adjacency != "replace-one" and 0.0 < run.delta < 1.0:
        best = random_stopping(run, claim.adjacency, float(claim.tuning_runs))
        text += f"; the best of a geometric number with mean {claim.tuning_runs}: {shown_up(best, 4)} (Papernot, Steinke 2022)"
    return FOUND, text, "voids", ()


def _last_iterate(sheet: Sheet) -> Outcome:
    claim, own = sheet.claim, sheet.own
    if claim.analysis == "composition":
        return checked("every update is counted")
    if claim.analysis is None:
        if own is not None and claim.epsilon is not None and own.upper <= claim.epsilon:
            return checked("no credit is needed: every update is counted here, and the claim holds")
        return missing("analysis")
    if claim.released is None:
        return missing("released")
    if claim.released == "all-iterates":
        text = "the proof hides all iterates but the last, and all are released; composition needs " + (own.text if own else "more")
        return FOUND, text, "refutes" if sheet.too_small else "voids", ()
    if claim.convex is None:
        return missing("convex", text="needs convex: hiding iterates helps for convex, smooth losses in a fixed order only")
    if not claim.convex:
        text = "for a loss that is not convex hiding iterates buys nothing: a constant gradient moves the last one by all steps"
        return FOUND, text, "refutes" if sheet.too_small and claim.sampler == "full-batch" else "voids", ()
    return checked("convex loss, only the last iterate is released; the credit itself is not recomputed here")


# 9 to 12: what the code did


def _clipping(sheet: Sheet) -> Outcome:
    claim, run = sheet.claim, sheet.run
    scale = _noise_scale(sheet)
    if claim.clipping == "average":
        text = "the average is clipped, not each example: one record can turn all of it"
        if run is None or claim.logical_batch is None:
            return FOUND, text, "voids", ()
        mu = claim.logical_batch / run.sigma if run.sigma else math.inf
        one = PoissonSampled(Gaussian(max(run.sigma / claim.logical_batch, 1e-3)), run.rate)
        needed = float(epsilon_of(one, Adjacency.AS_WRITTEN, run.delta).lower)
        text += f"; one step has mu = batch/sigma = {shown(mu, 4)} and needs epsilon >= {shown_down(needed, 5)}"
        refuted = claim.epsilon is not None and needed > claim.epsilon
        return FOUND, text, "refutes" if refuted else "voids", ()
    if scale is not None and scale[0] == FOUND:
        return scale
    if claim.clipping == "none":
        return FOUND, "nothing is clipped, so the sensitivity has no bound and no epsilon holds", "voids", ()
    if claim.clipping == "microbatch" and claim.microbatch_size != 1:
        half = None if run is None else sheet.under(sigma=run.sigma / 2)
        text = "averages of microbatches are clipped: one record can turn its average around, which doubles the sensitivity"
        return FOUND, text + ("" if half is None else f"; at half the noise multiplier epsilon is {_short(half)}"), "voids", ()
    if claim.batch_norm:
        return FOUND, "gradients depend on the rest of the batch (batch norm), so clipping each does not bound one record", "voids", ()
    if claim.clipping is None or claim.batch_norm is None or scale is None:
        names = [name for name in ("clipping", "batch_norm", "clipping_norm", "noise_std") if getattr(claim, name) is None]
        return missing(*names)
    return checked(f"each example is clipped; {scale[1]}")


def _noise_scale(sheet: Sheet) -> Outcome | None:
    claim = sheet.claim
    if claim.clipping_norm is None or claim.noise_std is None or claim.noise_multiplier is None:
        return None
    real = claim.noise_std / claim.clipping_norm
    said = f"noise_std/clipping_norm = {shown(real, 6)}"
    if abs(real - claim.noise_multiplier) <= 1e-3 * claim.noise_multiplier:
        return checked(f"{said}, as accounted")
    text = f"{said}, but noise_multiplier = {shown(claim.noise_multiplier, 6)} was accounted"
    batch = claim.logical_batch
    if batch is not None and abs(real * batch / claim.noise_multiplier - 1.0) < 1e-2:
        text += f": the noise was divided by the batch of {batch} once too often"
    if real > claim.noise_multiplier:
        return FOUND, f"{text}: more noise than accounted", "weakens", ()
    other = sheet.under("poisson" if claim.sampler not in ("full-batch", None) else claim.sampler, sigma=max(real, 1e-3), steps=1)
    if other is not None and claim.epsilon is not None and other.lower > claim.epsilon:
        return FOUND, f"{text}; one step alone needs epsilon >= {shown_down(other.lower, 5)}", "refutes", ()
    return _judged(sheet, sheet.under(sigma=real), text)


def _normaliser(sheet: Sheet) -> Outcome:
    claim = sheet.claim
    if claim.normaliser is None:
        return missing("normaliser")
    if claim.normaliser == "realised-batch":
        return FOUND, "the noisy sum is divided by the realised batch, whose size tells whether a record is in", "voids", ()
    if claim.normaliser == "dataset-size" and claim.adjacency == "add-or-remove":
        return FOUND, "the sum is divided by the data size, which is itself private under add-or-remove", "voids", ()
    return checked(f"{claim.normaliser}: the same for both data sets")


def _unit(sheet: Sheet) -> Outcome:
    claim, run = sheet.claim, sheet.run
    needs = [name for name in ("training_size", "unit") if getattr(claim, name) is None]
    texts: list[str] = []
    worst = ""
    if claim.training_size is not None and claim.dataset_size is not None and claim.training_size < claim.dataset_size:
        text = f"q was taken over {claim.dataset_size} records, and {claim.training_size} are trained on"
        other = _over(sheet, claim.training_size)
        outcome = _judged(sheet, other, text + ("" if other is None else f"; over those epsilon is {_short(other)}"))
        texts.append(outcome[1])
        worst = outcome[2]
    if claim.unit == "user":
        if claim.records_per_user is None:
            needs.append("records_per_user")
        elif claim.records_per_user > 1:
            text, effect = _of_users(sheet, claim.records_per_user)
            texts.append(text)
            worst = max(worst, effect, key=("", "weakens", "voids", "refutes").index)
    if texts:
        return FOUND, "; ".join(texts), worst, ()
    if needs:
        beside = "" if run is None or claim.sampler != "poisson" else _users_text(sheet)
        return missing(*needs, text=f"needs {', '.join(needs)}{beside}")
    return checked(f"q is over the records trained on; the unit is a {claim.unit}")


def _over(sheet: Sheet, size: int) -> Reading | None:
    """The same run over fewer records: q grows, and epochs shrink to fewer steps."""
    claim = sheet.claim
    if claim.logical_batch is None or claim.logical_batch > size:
        return None
    steps = claim.updates
    if claim.epochs is not None:
        whole = exact(claim.epochs) * size / claim.logical_batch
        rounding = math.floor if claim.steps is not None and claim.steps < (claim.expected_steps or 0) else math.ceil
        steps = max(rounding(whole), 1)
    return sheet.under(rate=claim.logical_batch / size, steps=steps, dataset_size=size)


def _of_users(sheet: Sheet, size: int) -> tuple[str, str]:
    claim, run = sheet.claim, sheet.run
    text = f"a user owns up to {size} records, and epsilon is that of one"
    if run is None or claim.adjacency is None or claim.sampler not in ("poisson", "full-batch"):
        return text, "voids"
    low, top = users_epsilon(run, claim.adjacency, size)
    text += f"; for a user it is {shown_up(top, 8)}"
    if claim.epsilon is None:
        return text, "voids"
    return text, "refutes" if low > claim.epsilon else "voids" if top > claim.epsilon else ""


def _users_text(sheet: Sheet) -> str:
    assert sheet.run is not None
    if sheet.claim.adjacency is None or sheet.claim.unit == "record":
        return ""
    return f"; a user with 2 records would have {shown_up(users_epsilon(sheet.run, sheet.claim.adjacency, 2)[1], 6)}"


def _outside(sheet: Sheet) -> Outcome:
    claim = sheet.claim
    if claim.noise_seed_bits is not None and claim.noise_seed_bits < SEED_BITS:
        seeds = 2**claim.noise_seed_bits
        text = (
            f"the noise comes from {seeds} seed{'s' * (seeds > 1)}: all outputs of a data set can be listed, so epsilon is infinite; "
            f"of 40 runs two agree with probability {shown(collision(40, claim.noise_seed_bits), 8)}"
        )
        return FOUND, text, "refutes", ()
    if claim.data_dependent:
        return FOUND, f"fitted to the data outside the budget: {', '.join(claim.data_dependent)}", "voids", ()
    needs = [name for name in ("data_dependent", "noise_seed_bits") if getattr(claim, name) is None]
    return missing(*needs) if needs else checked(f"nothing was fitted to the data; {claim.noise_seed_bits} random bits behind the noise")


_CHECKS: tuple[Callable[[Sheet], Outcome], ...] = (
    _sampler, _adjacency, _steps, _delta, _whole, _accountant, _tuning, _last_iterate, _clipping, _normaliser, _unit, _outside,
)
