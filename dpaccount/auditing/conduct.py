"""Errors 7 to 12 of a claim: what was released, and what the code did."""

from __future__ import annotations

import math

from dpaccount.adjacency import Adjacency
from dpaccount.auditing.passes import several
from dpaccount.auditing.readings import PASSES, collision, random_stopping, users_epsilon
from dpaccount.auditing.runs import Reading, epsilon_of
from dpaccount.auditing.sheet import FOUND, Outcome, Sheet, checked, judged, missing, short
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.statement import shown, shown_down, shown_up

SEED_BITS = 64
MANY = 10**6  # steps for which a figure that only stands beside takes too long


# 7 and 8: what was released


def tuning(sheet: Sheet) -> Outcome:
    claim, run = sheet.claim, sheet.run
    if claim.tuning_runs is None:
        return missing("tuning_runs", text="needs tuning_runs: the trainings on these records that the result was chosen among")
    if claim.tuning_runs == 1:
        return checked("one training, nothing was chosen")
    text = f"the best of {claim.tuning_runs} runs was chosen, and epsilon counts one"
    if claim.tuning_charged:
        text = f"the best of {claim.tuning_runs} runs was chosen, said to be charged for"
    if run is None or claim.adjacency is None or claim.sampler is None:
        return FOUND, text, "voids", ()
    every = sheet.under(**several(run, claim.tuning_runs))
    if every is not None:
        text += f"; all of them composed need {short(every)}"
        if claim.epsilon is not None and every.upper <= claim.epsilon:
            return checked(f"{claim.tuning_runs} runs: even all of them composed need no more than {short(every)}")
    if claim.tuning_charged and claim.epsilon is not None:
        text += f", and the claimed {shown(claim.epsilon)} does not cover that"
    proved = claim.sampler == "poisson" and claim.adjacency != "replace-one" and claim.released != "all-iterates"
    if proved and not sheet.hard and 0.0 < run.delta < 1.0:
        best = random_stopping(run, claim.adjacency, float(claim.tuning_runs))
        text += f"; the best of a geometric number with mean {claim.tuning_runs}: {shown_up(best, 4)} (Papernot, Steinke 2022)"
    return FOUND, text, "voids", ()


def last_iterate(sheet: Sheet) -> Outcome:
    claim, own = sheet.claim, sheet.own
    if claim.analysis == "composition":
        return checked("every update is counted")
    if own is not None and claim.epsilon is not None and own.upper <= claim.epsilon:
        return checked("no credit is needed: every update is counted here, and the claim holds")
    if claim.analysis is None:
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
    if claim.sampler is None:
        return missing("sampler")
    if claim.sampler not in ("fixed-order", "full-batch"):
        return FOUND, f"hiding iterates is proved for a fixed order or full batches, not for {claim.sampler} ones", "voids", ()
    return checked("convex loss, only the last iterate is released; the credit itself is not recomputed here")


# 9 to 12: what the code did


def clipping(sheet: Sheet) -> Outcome:
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
        refuted = claim.epsilon is not None and needed > claim.epsilon and not sheet.unseen
        return FOUND, text, "refutes" if refuted else "voids", ()
    if scale is not None and scale[0] == FOUND:
        return scale
    if claim.clipping == "none":
        return FOUND, "nothing is clipped, so no bound on the sensitivity is known and no epsilon is proved", "voids", ()
    if claim.clipping == "microbatch" and claim.microbatch_size != 1:
        return _microbatches(sheet)
    if claim.batch_norm:
        return FOUND, "gradients depend on the rest of the batch (batch norm), so clipping each does not bound one record", "voids", ()
    if claim.clipping is None or claim.batch_norm is None or (scale is None and claim.phases is None):
        names = [name for name in ("clipping", "batch_norm", "clipping_norm", "noise_std") if getattr(claim, name) is None]
        return missing(*names)
    return checked(f"each example is clipped; {'noise as listed' if scale is None else scale[1]}")


def _microbatches(sheet: Sheet) -> Outcome:
    """A record turns the clipped average of its own microbatch around; what moves others is proved nowhere."""
    claim, run = sheet.claim, sheet.run
    half = None if run is None else sheet.under(sigma=run.sigma / 2)
    text = "averages of microbatches are clipped: one record can turn its average around, which doubles the sensitivity"
    if half is None or claim.epsilon is None:
        return FOUND, text, "voids", ()
    text += f"; at half the noise multiplier epsilon is {short(half)}"
    placed = claim.sampler == "full-batch" or claim.sampler in PASSES
    if placed and claim.adjacency == "replace-one" and sheet.own is not None and sheet.own.upper <= claim.epsilon:
        return checked("averages of microbatches are clipped: an exchange moves its own average by twice the norm, as without them")
    if placed and claim.adjacency == "zero-out" and half.upper <= claim.epsilon:
        return checked(f"{text}, which the claim covers")
    if half.upper <= claim.epsilon:
        text += ", which the claim covers, but a record more may also move others to other microbatches"
    return FOUND, text, "voids", ()


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
    return judged(sheet, sheet.under(sigma=real), text)


def normaliser(sheet: Sheet) -> Outcome:
    claim = sheet.claim
    if claim.normaliser is None:
        return missing("normaliser")
    constant = claim.adjacency != "add-or-remove" and claim.sampler != "poisson"
    if claim.normaliser == "realised-batch" and (constant or claim.sampler == "fixed-size"):
        unknown = [name for name in ("sampler", "adjacency") if getattr(claim, name) is None]
        return missing(*unknown) if unknown else checked(f"{claim.sampler} batches under {claim.adjacency} have a public size")
    if claim.normaliser == "realised-batch":
        return FOUND, "the noisy sum is divided by the realised batch, whose size tells whether a record is in", "voids", ()
    if claim.normaliser == "dataset-size" and claim.adjacency == "add-or-remove":
        return FOUND, "the sum is divided by the data size, which is itself private under add-or-remove", "voids", ()
    return checked(f"{claim.normaliser}: the same for both data sets")


def unit(sheet: Sheet) -> Outcome:
    claim, run = sheet.claim, sheet.run
    needs = [name for name in ("training_size", "unit") if getattr(claim, name) is None]
    texts: list[str] = []
    worst = ""
    if claim.training_size is not None and claim.dataset_size is not None and claim.training_size < claim.dataset_size:
        text = f"q was taken over {claim.dataset_size} records, and {claim.training_size} are trained on"
        other = _over(sheet, claim.training_size)
        outcome = judged(sheet, other, text + ("" if other is None else f"; over those epsilon is {short(other)}"))
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
    """The same run over fewer records."""
    batch = sheet.claim.logical_batch
    if sheet.run is None or batch is None or batch > size or sheet.run.phases:
        return None
    return sheet.under(**sheet.over(size))


def _of_users(sheet: Sheet, size: int) -> tuple[str, str]:
    claim, run = sheet.claim, sheet.run
    text = f"a user owns up to {size} records, and epsilon is that of one"
    if run is None or claim.adjacency is None or claim.sampler not in ("poisson", "full-batch") or sheet.hard:
        return text, "voids"
    run = sheet.real
    if run is None:
        return text, "voids"
    low, top = users_epsilon(run, claim.adjacency, size)
    text += f"; for a user it is {shown_up(top, 8)}"
    if claim.epsilon is None:
        return text, "voids"
    return text, "refutes" if low > claim.epsilon and not sheet.unseen else "voids" if top > claim.epsilon else ""


def _users_text(sheet: Sheet) -> str:
    assert sheet.run is not None
    if sheet.claim.adjacency is None or sheet.claim.unit == "record" or sheet.hard or sheet.run.steps > MANY:
        return ""
    return f"; a user with 2 records would have {shown_up(users_epsilon(sheet.run, sheet.claim.adjacency, 2)[1], 6)}"


def outside(sheet: Sheet) -> Outcome:
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
