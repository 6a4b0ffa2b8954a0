"""From the scores of a game to a bound at each look: the rule of the threshold, the statistic, and the verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import dpaccount.auditing.selection as rules
from dpaccount.adjacency import Adjacency
from dpaccount.auditing.counts import from_counts
from dpaccount.auditing.criterion import criterion_of
from dpaccount.auditing.game.looks import Look
from dpaccount.auditing.game.protocol import OWNER
from dpaccount.auditing.outcome import REFUTED, AuditResult
from dpaccount.auditing.selection import Table
from dpaccount.auditing.stated import Stated

Array = npt.NDArray[np.float64]
METHODS = ("cp", "gdp", "curve")
SELECTIONS = ("fixed", "split", "bonferroni")
ALIKE = "runs are independent and alike but for the record: the mechanism draws all its randomness from the generator it is given"
OWN = "runs are independent and alike but for the record: the mechanism draws its randomness from a source of its own"
STATED = "when the runs are looked at, once or more often, was stated before the game"


@dataclass(frozen=True)
class Judge:
    """What is asked of the scores."""

    target: Stated
    alpha: float
    method: str
    selection: str
    threshold: Any
    family: Callable[[Any], Any] | None
    adjacency: Adjacency
    reproducible: bool = True

    @property
    def delta(self) -> float:
        assert self.target.delta is not None
        return self.target.delta

    @property
    def can_settle(self) -> bool:
        """Whether a bound can refute what is claimed."""
        return self.method == "cp" and (self.target.epsilon is not None or self.target.profile is not None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is assumed."""
        return (ALIKE if self.reproducible else OWN), STATED

    @property
    def aim(self) -> str:
        """What a threshold is chosen for: a whole curve is refuted at its rates, a point by its epsilon."""
        return "gdp" if self.target.profile is not None else self.method

    def chosen(self, without: Array, within: Array, look: Look) -> float:
        """The threshold that promises most at a look, if the rates are the pilot's with one run of each kind added."""
        runs, pilot = look.runs, rules.every(without, within)
        tp, fp = ((runs * (c + 1.0) / (size + 2.0)) for c, size in ((pilot.tp, pilot.p), (pilot.fp, pilot.n)))
        table = pilot._replace(tp=tp, fp=fp, p=runs, n=runs)
        return float(pilot.threshold[int(np.argmax(criterion_of(self.aim, self.alpha * look.share, self.delta, 0.0)(table)))])

    def table(self, without: Array, within: Array, threshold: float | None, pilot: int) -> Table:
        """Counts at the thresholds that the rule looks at."""
        if self.selection == "split":
            assert threshold is not None
            return rules.one(without, within, threshold, f"split: chosen on the first {pilot} runs of each kind, counted on later ones")
        if self.selection == "fixed":
            return rules.one(without, within, float(self.threshold), f"fixed: threshold {float(self.threshold):g}, stated beforehand")
        if self.threshold is not None:
            return rules.listed(OWNER, without, within, self.threshold)
        return rules.ranked_outside(without, within)

    def bound(self, table: Table, look: Look, spending: str, **details: Any) -> AuditResult:
        """The best row's bound at its share of alpha, judged."""
        spent = table._replace(rules=table.rules / look.share)
        promise = criterion_of(self.aim, self.alpha, self.delta, 0.0)(spent)
        best = int(np.argmax(promise))
        counts = float(table.tp[best]), table.p, float(table.fp[best]), table.n
        at: dict[str, Any] = details | {"threshold": float(table.threshold[best]), "share": look.share}
        at["counts"] = tuple(int(c) for c in counts)
        found = from_counts(
            *counts, self.delta, self.alpha, self.method, self.family, self.adjacency, table.text + spending, spent.rules, self.notes,
            table.single, **at,
        )
        return self.target.judged(found)

    def hopeless(self, table: Table, last: Look) -> bool:
        """Whether no outcome of the runs that are left could refute: every one with the record said in, every other out."""
        if not table.single:
            return False
        left = last.runs - table.p
        if left < 0:
            return False
        best = table._replace(tp=table.tp + left, p=last.runs, n=last.runs)
        return self.bound(best, last, "").verdict != REFUTED

    def nothing(self, reason: str, **details: Any) -> AuditResult:
        """The answer of a budget that ended before the first look."""
        empty = Table(np.array([np.inf]), np.array([0]), np.array([0]), 1, 1, 1, "none: no look was reached", True)
        found = self.bound(empty, Look(0, 1.0), "", **details)
        return replace(found, upper=None, reason=reason)


def better(found: AuditResult, than: AuditResult | None) -> bool:
    """All looks hold at once, so that the answer may be the best of them: a refutation first, then the largest bound."""
    return than is None or (found.verdict == REFUTED, found.lower) > (than.verdict == REFUTED, than.lower)
