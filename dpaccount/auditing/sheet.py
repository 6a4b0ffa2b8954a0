"""What every check of a claim works on: the claim, its run, its own reading; and what a check answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpaccount.auditing.claims import Claim
from dpaccount.auditing.passes import several
from dpaccount.auditing.readings import PASSES, reading, slow
from dpaccount.auditing.runs import Reading, Run
from dpaccount.statement import shown_up
from dpaccount.training import exact

CHECKED, FOUND, NOT_CHECKED = "checked", "found", "not checked"
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
    whole: Run | None = None  # the whole run, where `run` is the step or epoch that the claim is about

    def under(
        self, sampler: str | None = None, adjacency: str | None = None, proved: bool = True, haste: str = "", **changes: Any
    ) -> Reading | None:
        """A reading of the run with changes; None where something is missing."""
        scheme, relation = sampler or self.claim.sampler, adjacency or self.claim.adjacency
        if self.run is None or scheme is None or relation is None or self._fixed(changes):
            return None
        return self.seen(reading(replace(self.run, **changes), scheme, relation, proved, haste or self.haste))

    @property
    def hidden(self) -> bool:
        """Whether lower ends need updates that a final model does not show: under full batches a linear loss without projection
        shows their sum, which tells as much, and so does a single step, or a run without noise. Where credit is taken for
        hidden iterates the loss or a projection may be such that even full batches tell less."""
        run = self.whole or self.run
        if run is None or run.steps == 1 or run.sigma == 0.0:
            return False
        return run.rate < 1.0 or (self.claim.analysis == "last-iterate" and self.claim.convex is not False)

    @property
    def unseen(self) -> bool:
        """Whether lower ends are void because only the final model is released."""
        return self.hidden and self.claim.released == "final-model"

    def seen(self, found: Reading) -> Reading:
        """A reading whose lower end is kept only where what was released attains it."""
        if not self.unseen:
            return found
        return replace(found, lower=0.0, theorem=f"{found.theorem}; the lower end is void, since only the final model is released")

    @property
    def changed(self) -> dict[str, Any]:
        """Everything at once that makes the run another one than was accounted: its noise, the records trained on, tuning."""
        claim, run = self.claim, self.run
        if run is None:
            return {}
        found: dict[str, Any] = {}
        if claim.noise_std is not None and claim.clipping_norm is not None and claim.noise_std / claim.clipping_norm < run.sigma:
            found["sigma"] = claim.noise_std / claim.clipping_norm
        size, batch = claim.training_size, claim.logical_batch
        if size is not None and claim.dataset_size is not None and size < claim.dataset_size:
            found.update(self.over(size, stated=True) if batch is not None and batch <= size else {"rate": 1.0})
        if claim.tuning_runs is not None and claim.tuning_runs > 1:
            found.update(several(replace(run, **found), claim.tuning_runs))
        return found

    def over(self, size: int, stated: bool = False) -> dict[str, Any]:
        """The changes that make it a run over fewer records: q grows, and epochs shrink to fewer steps.

        Steps without epochs stay. With epochs they may be those of the larger data set; `stated`, they count as they are.
        """
        claim, run = self.claim, self.run
        batch = claim.logical_batch
        assert run is not None
        assert batch is not None
        per_epoch, rounded = Fraction(size, batch), run.rounded
        if claim.epsilon_of in ("step", "epoch"):
            steps, passes = 1 if claim.epsilon_of == "step" else math.ceil(per_epoch), 1
        elif claim.steps is not None and (stated or claim.epochs is None):
            steps = run.steps
            passes = max(run.passes or 1, math.ceil(Fraction(steps, max(math.floor(per_epoch), 1))))
        else:
            whole = claim.steps is None or claim.steps >= (claim.expected_steps or 0)
            rounding = math.ceil if whole else math.floor
            steps, passes, rounded = max(rounding(exact(claim.epochs) * per_epoch), 1), run.passes or 1, True
        rate = 1.0 if claim.sampler == "full-batch" else min(max(batch / size, run.rate), 1.0)
        return {"rate": rate, "steps": steps, "passes": passes, "dataset_size": size, "rounded": rounded}

    @property
    def real(self) -> Run | None:
        """The run with all of `changed`."""
        return None if self.run is None or self._fixed(self.changed) else replace(self.run, **self.changed)

    def accounted(self, **changes: Any) -> Reading | None:
        """The run as accountants usually take it: Poisson batches under add-or-remove, every update seen."""
        if self.run is None or self._fixed(changes):
            return None
        scheme = "full-batch" if self.claim.sampler == "full-batch" else "poisson"
        return reading(replace(self.run, **changes), scheme, "add-or-remove", haste=self.haste)

    @cached_property
    def wanted(self) -> tuple[tuple[str, ...], Reading | None]:
        """Facts that a proof under add-or-remove needs and nobody stated, and what they would prove; none where they would not decide."""
        claim, run = self.claim, self.run
        if run is None or claim.epsilon is None or not self.unproved or self.too_small or claim.sampler not in PASSES:
            return (), None
        said = {name: getattr(claim, name) for name in ("batch_count", "normaliser")}
        if claim.adjacency != "add-or-remove":
            return (("sampler",), None) if claim.sampler == "once-per-epoch" else ((), None)
        if any(value not in (None, "public") for value in said.values()):
            return (), None
        names = [name for name, value in said.items() if value is None]
        scheme = "shuffled" if claim.sampler == "once-per-epoch" else claim.sampler
        names += ["sampler"] if scheme != claim.sampler else ["order"] if scheme == "fixed-order" and claim.order is None else []
        best = self.under(scheme, public=True, order=run.order or "random")
        return (tuple(names), best) if names and best is not None and best.upper <= claim.epsilon else ((), None)

    def _fixed(self, changes: dict[str, Any]) -> bool:
        """Of several phases neither noise nor steps are changed as if they were one."""
        return self.run is not None and bool(self.run.phases) and not changes.keys().isdisjoint(("sigma", "rate", "steps"))

    @property
    def haste(self) -> str:
        """Side figures of a run that itself takes long are rough at once."""
        return "great" if self.hard else ""

    @property
    def hard(self) -> bool:
        """Whether no contour answers for the run under Poisson sampling."""
        relation = self.claim.adjacency or "add-or-remove"
        return self.run is not None and self.run.sigma > 0.0 and slow(self.run, relation)

    @property
    def unproved(self) -> bool:
        """Whether the claimed epsilon is below what is proved for the run."""
        return self.own is not None and self.claim.epsilon is not None and self.own.upper > self.claim.epsilon

    @property
    def too_small(self) -> bool:
        """Whether the claimed epsilon is below what the run itself needs."""
        return self.own is not None and self.claim.epsilon is not None and self.own.lower > self.claim.epsilon


Outcome = tuple[str, str, str, tuple[str, ...]]


def checked(text: str) -> Outcome:
    return CHECKED, text, "", ()


def missing(*names: str, text: str = "") -> Outcome:
    return NOT_CHECKED, text or f"needs {', '.join(names)}", "", names


def judged(sheet: Sheet, other: Reading | None, text: str) -> Outcome:
    """An error that changes epsilon to another reading's."""
    claimed = sheet.claim.epsilon
    if other is None or claimed is None:
        return FOUND, text, "voids", ()
    if other.lower > claimed:
        return FOUND, text, "refutes", ()
    return FOUND, text, "voids" if other.upper > claimed else "weakens", ()


def short(found: Reading) -> str:
    return shown_up(found.figure, 8) if found.figure is not None and math.isfinite(found.figure) else found.text
