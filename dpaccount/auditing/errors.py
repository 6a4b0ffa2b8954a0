"""The twelve usual errors of a privacy claim, each checked, found, or not to be checked for want of a field.

An effect says what follows: an error *refutes* where a data set shows that the claimed epsilon is too small, *voids* where the
claim's proof no longer covers what was done, and *weakens* where the figure says less than it seems to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dpaccount.auditing.conduct import clipping, last_iterate, normaliser, outside, tuning, unit
from dpaccount.auditing.passes import shuffled_epoch, whole_batches
from dpaccount.auditing.readings import PASSES, renyi_figures
from dpaccount.auditing.sheet import ACCOUNTED, FOUND, Finding, Outcome, Sheet, checked, missing, short
from dpaccount.statement import shown_down, shown_up
from dpaccount.training import exact

NEAR = 0.02  # a claimed epsilon this close to a wrong reading's is taken for it
TITLES = (
    "batches drawn otherwise than accounted", "wrong adjacency", "wrong number of steps", "delta too large, or not stated",
    "epsilon of a step or an epoch given for the run", "unsound or slack conversion", "tuning and selection not charged",
    "last-iterate credit", "clipping and noise scale", "private normaliser", "wrong sampling probability or unit",
    "set-up and noise outside the guarantee",
)


def twelve(sheet: Sheet) -> tuple[Finding, ...]:
    """All twelve, in the order of `TITLES`."""
    found = []
    for number, (title, check) in enumerate(zip(TITLES, _CHECKS, strict=True), 1):
        status, text, effect, needs = check(sheet)
        if number == 1 and status == FOUND and sheet.claim.accountant is None:  # nobody said how it was accounted
            title = f"{'too small' if effect == 'refutes' else 'no proof'} for {sheet.claim.sampler} batches"
        found.append(Finding(number, title, status, text, effect, needs))
    return tuple(found)


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
    beside = f"; Poisson sampling would need {short(poisson)}"
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
    names, best = sheet.wanted
    if names:
        would = "" if best is None else f"; {best.name} with public constants is proved {best.text}"
        return missing(*names, text=f"needs {', '.join(names)}: {claim.sampler} batches, {own.text}{would}{beside}, which does not apply")
    if claim.batch_count == "from-data" and claim.adjacency == "add-or-remove" and claim.sampler in PASSES:
        return FOUND, f"{claim.sampler} batches, {_counted(sheet)}{beside}, which does not apply", "voids", ()
    return FOUND, f"{claim.sampler} batches: {own.text}, and the claim lies between{beside}, which does not apply", "voids", ()


def _counted(sheet: Sheet) -> str:
    """What a number of batches that depends on the records gives away."""
    claim = sheet.claim
    text = "as many as the records fill: where one more begins a batch the output is a step longer, which no epsilon covers"
    if claim.dataset_size is None or claim.logical_batch is None:
        return text
    return f"{text}; with {claim.dataset_size} records the last batch has {claim.dataset_size % claim.logical_batch or claim.logical_batch}"


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
    text = f"{sampler}: add-or-remove {short(one)}; replace-one {short(other)}"
    if claim.adjacency == "replace-one" and (one.figure or one.upper) <= claim.epsilon < (other.figure or other.lower):
        effect = "refutes" if other.lower > claim.epsilon else "voids" if sheet.unproved else "weakens"
        return FOUND, f"the figure is that of add-or-remove, the claim is about replace-one. {text}", effect, ()
    return checked(text)


def _steps(sheet: Sheet) -> Outcome:
    claim = sheet.claim
    if claim.phases is not None:
        return checked(f"{claim.updates} steps are listed, in {len(claim.phases)} phases")
    if claim.epochs is None or claim.dataset_size is None or claim.logical_batch is None:
        names = ("epochs",) if claim.epochs is None else ("dataset_size", "batch_size")
        return missing(*names, text=f"needs {', '.join(names)}, to recompute the steps")
    exact_steps = exact(claim.epochs) * claim.dataset_size / claim.logical_batch
    low, high = math.floor(exact_steps), math.ceil(exact_steps)
    right = f"{float(exact(claim.epochs)):g} epochs of {claim.dataset_size}/{claim.logical_batch} are {_number(exact_steps)} steps"
    passes = claim.passes or 1
    taken = None if claim.epsilon_of in ("step", "epoch") or passes == claim.updates else sheet.accounted(steps=passes)
    if taken is not None and sheet.unproved and _close(claim.epsilon, taken.figure):
        effect = "refutes" if sheet.too_small else "voids"
        return FOUND, f"epsilon is that of {passes} steps: epochs were counted as steps, and {right}", effect, ()
    beside = "" if taken is None or taken.figure is None else f"; {passes} epochs taken for steps would give {shown_up(taken.figure, 7)}"
    both = _floor_and_ceiling(sheet, low, high)
    return checked(f"{right}{both}{beside}")


def _floor_and_ceiling(sheet: Sheet, low: int, high: int) -> str:
    """Both roundings of the steps, where they differ."""
    a, b = (sheet.accounted(steps=max(t, 1)) for t in (low, high))
    if low == high or a is None or b is None or a.figure is None or b.figure is None:
        return ""
    return f" ({low}: {shown_up(a.figure, 9)}; {high}: {shown_up(b.figure, 9)}, by {ACCOUNTED})"


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
    grid = "; ".join(f"{d:.6g}: {short(r)}" for d, r in readings if r is not None)
    text = f"delta = {claim.delta:g}, 1/n = {limit:.6g}" + (f"; epsilon by delta, {ACCOUNTED}: {grid}" if grid else "")
    if claim.delta >= limit:
        return FOUND, f"delta is not below 1/n: publishing one record at random would meet it. {text}", "weakens", ()
    return checked(text)


def _whole(sheet: Sheet) -> Outcome:
    claim, run = sheet.claim, sheet.whole
    if run is None or claim.epsilon is None:
        names = [name for name in claim.missing if name not in ("adjacency", "records_per_user")]
        return missing(*names, text=f"needs {', '.join(names)}, to recompute epsilon of a step and of an epoch")
    if run.phases:
        return missing(text="not compared where noise or batches change during the run")
    per_epoch = max(math.floor(1.0 / run.rate), 1)
    step, epoch = (sheet.accounted(steps=t) for t in (1, min(per_epoch, run.steps)))
    assert step is not None
    assert epoch is not None
    text = f"{ACCOUNTED}: one step {short(step)}, one epoch ({min(per_epoch, run.steps)} steps) {short(epoch)}"
    if claim.epsilon_of in ("step", "epoch"):
        total = sheet.under(steps=run.steps, passes=run.passes, whole=run.whole, rounded=run.rounded)
        beside = "" if total is None else f", and the run costs more: {total.text}"
        return FOUND, f"epsilon is that of one {claim.epsilon_of}{beside}. {text}", "refutes" if sheet.too_small else "weakens", ()
    for part, name in ((step, "step"), (epoch, "epoch")):
        if sheet.unproved and run.steps > per_epoch and _close(claim.epsilon, part.figure):
            effect = "refutes" if sheet.too_small else "voids"
            return FOUND, f"the claimed epsilon is that of one {name}, not of the run. {text}", effect, ()
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
    if run is None or tight is None or sheet.hard or claim.adjacency == "replace-one" or not 0.0 < run.delta < 1.0 or run.sigma < 1e-3:
        return ""
    classic, improved = renyi_figures(run, claim.adjacency)
    text = f"; for Poisson batches: tight {shown_up(tight.upper, 8)}, RDP {shown_up(improved, 8)}, classic RDP {shown_up(classic, 8)}"
    per_epoch = max(math.floor(1.0 / run.rate), 1)
    if run.passes is not None and run.passes > 1 and run.steps > per_epoch:
        epoch = sheet.accounted(steps=per_epoch)
        text += "" if epoch is None else f", sum of {run.passes} epochs {shown_up(run.passes * epoch.upper, 4)}"
    return text


_CHECKS: tuple[Callable[[Sheet], Outcome], ...] = (
    _sampler, _adjacency, _steps, _delta, _whole, _accountant, tuning, last_iterate, clipping, normaliser, unit, outside,
)
