"""Time and width of ball arithmetic on every contour reference of the tests; ``balls.json``.

Run ``python -m benchmarks.balls`` where python-flint is installed. A width is that of log delta, which is relative to delta; ``held`` says
that the bracket meets the reference, which has more digits than both ends. ``wanted`` are the goals of the project.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from benchmarks._measure import seconds, write
from dpaccount import Gaussian, PoissonSampled, PrivacyProfile
from dpaccount.pair import DominatingPair, compose

REFERENCES = Path(__file__).parents[1] / "tests" / "references" / "contours.json"
WIDTH, SECONDS = 1e-14, 0.5


def pair_of(row: dict[str, Any]) -> DominatingPair:
    """The directed pair of a reference."""
    pair = compose((PoissonSampled(Gaussian(float.fromhex(s)), float.fromhex(q)), count) for s, q, count in row["terms"])
    return pair.reversed() if row["reverse"] else pair


def measure(row: dict[str, Any]) -> dict[str, Any]:
    """One reference, by a cold object."""
    epsilon = float.fromhex(row["epsilon"])
    taken, found = seconds(lambda: PrivacyProfile(pair_of(row), "as-written", method="balls").log_delta(epsilon))
    truth = math.log(float(row["delta"]))
    held = found.lower - 1e-14 <= truth <= found.upper + 1e-14  # the logarithm of a rounded delta
    return {"steps": sum(count for _, _, count in row["terms"]), "seconds": taken, "width": found.upper - found.lower, "held": held}


def main() -> None:
    """Measure everything and write the results."""
    references = json.loads(REFERENCES.read_text(encoding="utf-8"))
    measure(references[0])  # imports
    rows = [measure(row) for row in references]
    most = {name: max(row[name] for row in rows) for name in ("seconds", "width")}
    print(f"{len(rows)} references: at most {most['seconds']:.2f} s and {most['width']:.1e} wide; all held: {all(r['held'] for r in rows)}")
    write("balls", {"wanted": {"seconds": SECONDS, "width": WIDTH}, "most": most, "held": all(r["held"] for r in rows), "rows": rows})


if __name__ == "__main__":
    main()
