"""How a threshold on scores is chosen, and what is paid for the choice. A record is called "in" at a score >= threshold.

==========  ======================================================================================================
fixed       one threshold, stated before the scores were seen; nothing to pay
split       a random half of the scores chooses, the other half is counted; pays with half the sample
bonferroni  thresholds stated beforehand, or at stated ranks of the scores, each at alpha over their number
band        all thresholds, at a level at which the exact limits of all of them hold at once; see `dpaccount.auditing.band`
hull        every corner of the scores' own ROC hull at alpha over their number; the corners are drawn from the same
            scores, so no theorem covers it: false alarms were 0 to 5 % at a nominal 5 % in simulations
==========  ======================================================================================================

Stated ranks are valid: the k-th largest score without the record has a false-positive rate distributed as
Beta(k, N - k + 1) or below, whose 1 - a quantile is the Clopper-Pearson limit of k - 1 false positives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import dpaccount.auditing.band as bands
from dpaccount import _check

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[Any]
SELECTIONS = ("fixed", "split", "bonferroni", "band", "hull")
BANDED = ("cp", "gdp", "curve", "total-variation", "renyi")  # statistics of two exact limits
UNPROVED = (
    "the corners of the hull come from the same scores, so this correction has no proof; false alarms were 0 to 5 % at a nominal "
    "5 % in simulations without a leak"
)


class Table(NamedTuple):
    """Counts at each threshold that the rule looks at; the bound may be taken at any of them, at alpha/rules."""

    threshold: Array
    tp: Counts
    fp: Counts
    p: int
    n: int
    rules: float
    text: str
    single: bool  # whether counts are plain ones of one rule, so that the other end is meaningful too


def stated(owner: str, selection: Any, threshold: Any, scores: bool = True) -> str:
    """The rule's name, or a refusal: a threshold that nobody stated was chosen on the same scores."""
    if selection is None and threshold is None:
        _check.refuse(
            owner, "selection", "one of " + ", ".join(repr(s) for s in SELECTIONS) + ", or a threshold must be given", None,
            "A threshold that is chosen on the scores it is judged by raises false alarms: 40 % were seen at a nominal 5 %.",
            TypeError,
        )
    if selection is None:
        selection = "fixed" if np.ndim(threshold) == 0 else "bonferroni"
    name = _check.choice(owner, "selection", selection, SELECTIONS)
    if name == "fixed" and (threshold is None or np.ndim(threshold) != 0):
        _check.refuse(
            owner, "threshold", "one number where selection='fixed'", threshold, "State it before looking at the scores.", TypeError
        )
    if name in ("split", "band", "hull") and threshold is not None:
        _check.refuse(owner, "threshold", f"left out where selection={name!r}", threshold, "That rule finds its own.")
    if not scores and name != "split":
        _check.refuse(
            owner, "selection", "'split' where a classifier makes the scores", name, "One half trains it, the other half is counted.",
        )
    return name


def counted(x0: Array, x1: Array, threshold: Array) -> tuple[Counts, Counts]:
    """TP and FP at each threshold."""
    tp = x1.size - np.searchsorted(np.sort(x1), threshold, side="left")
    fp = x0.size - np.searchsorted(np.sort(x0), threshold, side="left")
    return tp, fp


def one(x0: Array, x1: Array, threshold: float, text: str) -> Table:
    """A single rule."""
    at = np.array([threshold])
    return Table(at, *counted(x0, x1, at), x1.size, x0.size, 1, text, True)


def halves(x: npt.NDArray[Any], rng: np.random.Generator) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Two random halves of the rows."""
    order = rng.permutation(len(x))
    return x[order[: len(x) // 2]], x[order[len(x) // 2 :]]


def best_threshold(x0: Array, x1: Array, criterion: Callable[[Table], Array]) -> float:
    """The threshold that the criterion prefers among all scores."""
    table = every(x0, x1)
    return float(table.threshold[int(np.argmax(criterion(table)))])


def every(x0: Array, x1: Array) -> Table:
    """Counts at each score; for choosing only, never for judging."""
    at = np.union1d(x0, x1)
    return Table(at, *counted(x0, x1, at), x1.size, x0.size, 1, "", False)


def listed(owner: str, x0: Array, x1: Array, threshold: Any) -> Table:
    """Bonferroni over thresholds that were stated beforehand."""
    at = np.unique(_check.reals(owner, "threshold", threshold))
    if not at.size:
        _check.refuse(owner, "threshold", "at least one number", threshold)
    text = f"Bonferroni: the best of {at.size} thresholds stated beforehand, each at alpha/{at.size}"
    return Table(at, *counted(x0, x1, at), x1.size, x0.size, at.size, text, False)


def ranks(size: int) -> npt.NDArray[np.int64]:
    """The stated ranks: powers of two from either end."""
    powers = 2 ** np.arange(int(np.log2(max(size, 1))) + 1)
    powers = powers[powers <= (size + 1) // 2]
    return np.unique(np.concatenate([powers, size + 1 - powers]))


def ranked_outside(x0: Array, x1: Array) -> Table:
    """Bonferroni over stated ranks of the scores without the record: "in" is what lies strictly above the k-th largest."""
    k = ranks(x0.size)
    at = np.nextafter(np.sort(x0)[::-1][k - 1], np.inf)
    tp, _ = counted(x0, x1, at)
    text = f"Bonferroni: the best of {k.size} thresholds at stated ranks of the scores without the record, each at alpha/{k.size}"
    return Table(at, tp, k - 1, x1.size, x0.size, k.size, text, False)


def ranked_together(x0: Array, x1: Array) -> Table:
    """Bonferroni over stated ranks of all scores, which know nothing of the coins."""
    k = ranks(x0.size + x1.size)
    at = np.unique(np.sort(np.concatenate([x0, x1]))[::-1][k - 1])
    text = f"Bonferroni: the best of {k.size} stated numbers of guesses, each at alpha/{k.size}"
    return Table(at, *counted(x0, x1, at), x1.size, x0.size, k.size, text, False)


def band(x0: Array, x1: Array, alpha: float) -> Table:
    """Every threshold, with limits that hold at all of them at once."""
    at = np.union1d(x0, x1)
    hits, alarms = counted(x0, x1, at)
    tp, fp = bands.rounded(hits, x1.size, alarms, x0.size)
    each = min(bands.level_of(x1.size, alpha / 2), bands.level_of(x0.size, alpha / 2))
    text = f"band: the best of all thresholds, with limits at {each:.3g} of both error rates, which hold at all of them at once"
    return Table(at, tp, fp, x1.size, x0.size, alpha / 2 / each, text, False)


def hull(x0: Array, x1: Array) -> Table:
    """The corners of the concave hull of the ROC curve, its ends included."""
    at = np.append(np.union1d(x0, x1), np.inf)
    tp, fp = counted(x0, x1, at)
    kept: list[int] = []
    for i, (x, y) in enumerate(zip((x1.size - tp).tolist(), (x0.size - fp).tolist(), strict=True)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            ax, ay, bx, by = x1.size - tp[a], x0.size - fp[a], x1.size - tp[b], x0.size - fp[b]
            if (by - ay) * (x - bx) - (y - by) * (bx - ax) > 0:
                break
            kept.pop()
        kept.append(i)
    index = np.array(kept)
    text = f"Bonferroni over the {index.size} corners of the scores' own ROC hull, each at alpha/{index.size}"
    return Table(at[index], tp[index], fp[index], x1.size, x0.size, index.size, text, False)
