"""A verdict as text: what was decided, by which bound, under which assumption; the table of errors; epsilon under each reading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpaccount.auditing.outcome import HOLDS
from dpaccount.auditing.runs import Reading
from dpaccount.auditing.sheet import NOT_CHECKED
from dpaccount.statement import shown


def lines(found: Any) -> Iterator[str]:
    """A `ClaimVerdict` as text: what was decided, by which bound, under which assumption; then the table of errors and readings."""
    claim = found.claim
    name = f"{claim.name}: " if claim.name else ""
    said = "no epsilon stated" if claim.epsilon is None else f"epsilon = {shown(claim.epsilon)}"
    at = "no delta stated" if claim.delta is None else f"delta = {claim.delta:g}"
    yield f"{found.verdict.upper():<11}{name}({said}, {at})"
    yield f"{'because':<11}{found.reason}"
    if found.theorem:
        yield f"{'bound':<11}{Reading('', found.lower, found.upper, '').text}"
        yield f"{'theorem':<11}{found.theorem}"
    for text in found.assumptions:
        yield f"{'assumes':<11}{text}"
    for text in found.changes:
        yield f"{'change' if found.verdict != HOLDS else 'note':<11}{text}"
    yield ""
    yield "The twelve usual errors"
    marks = {"found": "FOUND", "checked": "ok", NOT_CHECKED: "?"}
    for f in found.findings:
        effect = f" ({f.effect} the claim)" if f.effect else ""
        yield f"{f.number:>3} {marks[f.status]:<6}{f.title}{effect}"
        yield f"          {f.text}"
    if found.readings:
        yield ""
        yield f"epsilon at delta = {claim.delta:g} of the same numbers under each reading (above, within, or open to the claim)"
        width = max(len(r.name) for r in found.readings) + 2
        for r in found.readings:
            mark = " <- as stated" if r.name == f"{claim.sampler}, {claim.adjacency}" else ""
            yield f"    {r.name:<{width}}{beside(r, claim.epsilon):<9}{r.text}{mark}"


def beside(found: Reading, claimed: float | None) -> str:
    """Whether a reading lies above the claimed epsilon, within it, or leaves it open."""
    if claimed is None:
        return ""
    return "above" if found.lower > claimed else "within" if found.upper <= claimed else "open"
