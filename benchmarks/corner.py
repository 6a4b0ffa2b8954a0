"""The hard corner: width and time of seeded random compositions of a sampled Gaussian, by range of delta; ``corner.json``.

Three families: few steps (2 to 100), few samples (steps times probability from 1e-6 to 10), and many samples with a body beside a big
jump (20 to 1000, noise multiplier at least 1, probability at most 1e-3). Each case is one direction at one epsilon, a cold object, with a
limit of processor time; ``python -m benchmarks.corner 90`` runs the first 90 cases of each family.
The figures are whatever ``auto`` gives. ``log_width`` is log(upper/lower), the relative width where that is small.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks._measure import first_number, write
from dpaccount import Gaussian, NumericalFailure, PoissonSampled, PrivacyProfile

SEED, CASES, LIMIT = 20260711, 300, 5.0
FAMILIES = ("few steps", "few samples", "big jump")
RANGES = ((1e-20, "delta >= 1e-20"), (1e-50, "delta >= 1e-50"), (1e-100, "delta >= 1e-100"), (1e-300, "delta >= 1e-300"), (0.0, "below"))
# goals: within so many seconds a bracket is so narrow
GOALS = {"delta >= 1e-20": ((1e-4, 0.2), (1e-5, 0.5)), "delta >= 1e-50": ((1e-4, 1.0),)}
FIELDS = (
    "family", "sigma", "q", "steps", "epsilon", "direction", "log_delta", "log_width", "seconds", "certified", "condition", "method",
)
SPREAD = (("median", 0.5), ("p90", 0.9), ("worst", 1.0))


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def case(family: int, index: int) -> tuple[float, float, int, float, str]:
    """sigma, q, steps, epsilon and direction of the case with this number."""
    rng = np.random.default_rng([SEED, family, index])
    if family == 0:
        sigma, q, steps = _log_uniform(rng, 0.3, 5), _log_uniform(rng, 1e-6, 0.9), int(_log_uniform(rng, 2, 101))
    elif family == 1:
        expected, q = _log_uniform(rng, 1e-6, 10), _log_uniform(rng, 1e-7, 1e-1)
        sigma, steps = _log_uniform(rng, 0.3, 5), max(2, round(expected / q))
    else:
        expected = _log_uniform(rng, 20, 1000)
        sigma, q = _log_uniform(rng, 1, 5), _log_uniform(rng, 1e-7, 1e-3)
        steps = round(expected / q)
    epsilon = _log_uniform(rng, 0.05, 8)
    if rng.random() < 0.5:
        return sigma, q, steps, epsilon, "remove"
    edge = -steps * math.log1p(-q)  # the largest loss of the add direction; up to it, delta is above 0
    return sigma, q, steps, min(epsilon, edge * rng.uniform(0.05, 0.99)), "add"


class TooSlow(Exception):
    """The limit of processor time was met."""


@contextmanager
def limited(limit: float) -> Iterator[None]:
    """Raise `TooSlow` after so much processor time."""

    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def measure(family: int, index: int, limit: float = LIMIT) -> list[Any]:
    """One row, in the order of `FIELDS`; a case without an answer says why in the place of the method."""
    sigma, q, steps, epsilon, direction = case(family, index)
    head = [FAMILIES[family], sigma, q, steps, epsilon, direction]

    def answer() -> Any:
        pair = steps * PoissonSampled(Gaussian(sigma), q)
        return PrivacyProfile(pair if direction == "remove" else pair.reversed(), "as-written").log_delta(epsilon)

    try:
        with limited(limit):
            start = time.thread_time()  # the process's own clock goes by ticks while its timer runs
            found = answer()
            taken = time.thread_time() - start
    except (TooSlow, NumericalFailure) as error:
        return [*head, None, None, limit, False, None, type(error).__name__]
    width = found.upper - found.lower if found.upper > -math.inf else 0.0
    return [*head, found.estimate, width, taken, found.certified, found.condition, found.method]


def _range_of(log_delta: float | None) -> str:
    if log_delta is None:
        return "no answer"
    if log_delta == -math.inf:
        return "exactly 0"
    return next(name for least, name in RANGES if least == 0.0 or log_delta >= math.log(least))


def summary(rows: list[list[Any]]) -> dict[str, Any]:
    """By family and range of delta: how many, the spread of width and time, and the share that meets each goal."""
    found: dict[str, Any] = {}
    for family in FAMILIES:
        for name in (*(name for _, name in RANGES), "exactly 0", "no answer"):
            some = [dict(zip(FIELDS, row, strict=True)) for row in rows if row[0] == family and _range_of(row[6]) == name]
            if not some:
                continue
            entry: dict[str, Any] = {"cases": len(some), "certified": sum(row["certified"] for row in some)}
            if name != "no answer":
                for field in ("log_width", "seconds"):
                    values = [row[field] for row in some]  # a width may be infinite: no interpolation
                    entry[field] = {word: float(np.quantile(values, at, method="inverted_cdf")) for word, at in SPREAD}
            for width, most in GOALS.get(name, ()):
                met = sum(row["log_width"] <= width and row["seconds"] <= most for row in some)
                entry[f"{width:g} within {most:g} s"] = met / len(some)
            found[f"{family}, {name}"] = entry
    return found


def main() -> None:
    """Measure everything and write the results."""
    count = first_number(CASES)
    rows = []
    for family in range(len(FAMILIES)):
        measure(family, 0)  # caches and imports
        rows += [measure(family, index) for index in range(count)]
    table = summary(rows)
    for name, entry in table.items():
        met = ", ".join(f"{goal}: {share:.0%}" for goal, share in entry.items() if "within" in goal)
        spread = "".join(f", {f} {entry[f]['median']:.1e}, worst {entry[f]['worst']:.1e}" for f in ("log_width", "seconds") if f in entry)
        print(f"{name}: {entry['cases']} cases{spread}; {met}", flush=True)
    write("corner", {"seed": SEED, "limit_seconds": LIMIT, "summary": table, "fields": FIELDS, "rows": rows})


if __name__ == "__main__":
    main()
