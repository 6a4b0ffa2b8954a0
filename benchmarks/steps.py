"""Certified relative width and time of delta against the number of steps, 1e3 to 1e9; ``steps.json``.

Two families. ``sampled`` has noise multiplier 2 and a sampling probability of 2/sqrt(steps), so that every run costs about the
same epsilon; ``fixed`` is (1, 0.01, 1000), (2, 0.001, 1e5) and (0.5, 1e-4, 1e6), whose width is wanted below 1e-10.
"""

from __future__ import annotations

import math
from typing import Any

from benchmarks._measure import median_seconds, write
from benchmarks._peers import Run, ours

STEPS = [10**k for k in range(3, 10)]
FIXED = ((Run(1.0, 0.01, 1000), 1.0), (Run(2.0, 0.001, 10**5), 0.5), (Run(0.5, 1e-4, 10**6), 3.0))
EPSILON = 4.0


def measure(run: Run, epsilon: float) -> dict[str, Any]:
    """One row: the bracket of delta over both directions, and the processor time of a cold profile."""
    taken, found = median_seconds(lambda: ours(run).delta(epsilon=epsilon), 15)
    width = (found.upper - found.lower) / found.upper
    return {
        **run._asdict(), "epsilon": epsilon, "seconds": taken, "delta": found.estimate, "relative_width": width,
        "certified": found.certified, "method": found.method,
    }


def main() -> None:
    """Measure everything and write the results."""
    rows: dict[str, Any] = {"sampled": [], "fixed": []}
    for name, cases in (("sampled", [(Run(2.0, 2 / math.sqrt(t), t), EPSILON) for t in STEPS]), ("fixed", FIXED)):
        for run, epsilon in cases:
            row = measure(run, epsilon)
            rows[name].append(row)
            word = "certified" if row["certified"] else "not certified"
            print(f"{run}: {row['seconds'] * 1e3:.2f} ms, width {row['relative_width']:.1e}, {word}, {row['method']}", flush=True)
    write("steps", rows)


if __name__ == "__main__":
    main()
