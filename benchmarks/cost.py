"""Relative error of delta against processor time, ours and each peer's at several grids; ``cost.json``.

The truth is that of ``tests/references/poisson_gaussian.json``, 200-bit contour integrals. Removing a record gives the larger delta in all
three runs. The error of a one-sided answer is how far it lies above the truth; a bracket's ``bound`` is its relative width, which its user
knows without the truth.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks._measure import median_seconds, seconds, write
from benchmarks._peers import Peer, Run, ours, peers
from dpaccount import Gaussian, PoissonSampled, PrivacyProfile

RUNS = ((Run(1.0, 0.01, 1000), 1.0), (Run(2.0, 0.001, 10**5), 0.5), (Run(0.5, 1e-4, 10**6), 3.0))
REFERENCES = Path(__file__).parents[1] / "tests" / "references" / "poisson_gaussian.json"
PATIENCE = 2.0  # seconds after which a peer is not asked at a finer grid


def truth(run: Run, epsilon: float) -> float:
    """delta of the remove direction."""
    for case in json.loads(REFERENCES.read_text(encoding="utf-8"))["cases"]:
        key = (float(case["noise_multiplier"]), float(case["sampling_probability"]), case["steps"], float(case["epsilon"]))
        if key == (*run, epsilon) and case["direction"] == "remove":
            return float(case["delta"])
    raise LookupError(f"no reference for {run} at {epsilon}")


def point(call: Callable[[], Any], exact: float, rounds: int, **more: Any) -> dict[str, Any]:
    """Time, error of the estimate (or of the one end there is), and the width of the bracket if there are two."""
    taken, found = median_seconds(call, rounds) if rounds > 1 else seconds(call)
    value = found.upper if found.estimate is None else found.estimate
    bound = None if found.lower is None else (found.upper - found.lower) / exact
    return {**more, "seconds": taken, "error": abs(value - exact) / exact, "bound": bound, "lower": found.lower, "upper": found.upper}


def _lattice(run: Run) -> PrivacyProfile:
    return PrivacyProfile(run.steps * PoissonSampled(Gaussian(run.sigma), run.q), method="lattice")


def main() -> None:
    """Measure everything and write the results."""
    known, notes = peers()
    rows: list[dict[str, Any]] = []
    for run, epsilon in RUNS:
        exact = truth(run, epsilon)
        for row in _cases(run, epsilon, exact, known):
            rows.append({**run._asdict(), "epsilon": epsilon, "delta": exact, **row})
            told = row.get("note") or f"{row['seconds'] * 1e3:.1f} ms, error {row['error']:.1e}, bound {row['bound']}"
            print(f"{run} {row['who']} at {row['grid']}: {told}", flush=True)
    write("cost", {"peers": notes, "rows": rows})


def _cases(run: Run, epsilon: float, exact: float, known: list[Peer]) -> Iterator[dict[str, Any]]:
    """Ours, then each peer from its coarsest grid to the first that takes too long."""
    yield point(lambda: ours(run).delta(epsilon), exact, 15, who="dpaccount", grid="auto")
    yield point(lambda: _lattice(run).delta(epsilon), exact, 1, who="dpaccount, lattice", grid="auto")
    for peer in known:
        for grid in peer.grids:
            try:
                row = point(lambda p=peer, g=grid: p.delta(run, epsilon, g), exact, 1, who=peer.name, grid=grid)
            except Exception as error:
                yield {"who": peer.name, "grid": grid, "note": f"{type(error).__name__}: {error}"}
                continue
            yield row
            if row["seconds"] > PATIENCE:
                break


if __name__ == "__main__":
    main()
