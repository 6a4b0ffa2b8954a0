"""The fields of a claim from a list of equal steps, and what else the reader was told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dpaccount.auditing.claims import Claim, claim_of

FINER = {("once-per-epoch", "shuffled"), ("once-per-epoch", "fixed-order")}  # what was read, and what may be told besides


def run_fields(parts: Iterable[tuple[float, float, int]]) -> dict[str, Any]:
    """One noise multiplier, q and steps, or else phases; equal parts are one."""
    counts: dict[tuple[float, float], int] = {}
    for sigma, q, steps in parts:
        counts[sigma, q] = counts.get((sigma, q), 0) + steps
    rows = [[sigma, q, steps] for (sigma, q), steps in counts.items()]
    if len(rows) == 1:
        return {"noise_multiplier": rows[0][0], "sampling_probability": rows[0][1], "steps": rows[0][2]}
    return {"phases": rows}


def merged(owner: str, read: Mapping[str, Any], told: Mapping[str, Any]) -> Claim:
    """The claim of what was read and what was told besides; where both speak they must agree."""
    for name, value in told.items():
        if name in read and read[name] != value and (read[name], value) not in FINER:
            raise ValueError(f"`{owner}` was told {name} = {value!r}, and read {name} = {read[name]!r}, which contradict each other.")
    return claim_of({**read, **told})
