"""The worked claim of the audits' tests, and one usual error of it."""

from __future__ import annotations

from dpaccount.auditing import check_claim
from dpaccount.auditing.runs import Run

WORKED = {
    "noise_multiplier": 1.1, "dataset_size": 60000, "batch_size": 256, "epochs": 60, "epsilon": 2.9, "delta": 1e-5,
    "adjacency": "add-or-remove", "sampler": "poisson",
}
FLOOR = Run(1.1, 256 / 60000, 14062, 1e-5, 60, 60000, 256)  # the steps that the published figures count
TIGHT = {"abs": 1e-7}


def changed(**changes):
    """The worked claim with changes; None leaves a field out."""
    return {name: value for name, value in (WORKED | changes).items() if value is not None}


def finding(number, **changes):
    """One usual error of the worked claim with changes."""
    verdict = check_claim(changed(**changes))
    found = verdict.findings[number - 1]
    assert found.number == number
    return verdict, found
