"""What every check of a claim works on: the claim, its run, its own reading; and what a check answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from dpaccount.auditing.claims import Claim
from dpaccount.auditing.readings import Reading, Run, reading
from dpaccount.statement import shown_up

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
