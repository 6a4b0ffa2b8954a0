"""Time ours against dp-accounting's PLD accountant at its default grid, in turn, with fresh objects each time.

Run ``python -m benchmarks.speed`` in an environment that also holds dp-accounting 0.6.0; it writes
``benchmarks/speed.json`` with medians in seconds and the ratios. Answers cover both directions.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dp_accounting
from dp_accounting.pld import PLDAccountant

from dpaccount import Gaussian, PoissonSampled, PrivacyProfile, calibrate

RESULTS = Path(__file__).with_name("speed.json")
TARGETS = {"delta (1, 0.01, 1000) at epsilon 1": 100, "delta (0.5, 1e-4, 10^6) at epsilon 3": 100,
           "epsilon (1, 0.01, 1000) at delta 1e-5": 100, "noise multiplier for (2, 1e-5), 0.01, 1000": 200}


def _ours(sigma: float, q: float, steps: int) -> PrivacyProfile:
    return PrivacyProfile(steps * PoissonSampled(Gaussian(sigma), q))


def _event(sigma: float, q: float, steps: int) -> Any:
    sampled = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
    return dp_accounting.SelfComposedDpEvent(sampled, steps)


def _theirs(sigma: float, q: float, steps: int) -> Any:
    return PLDAccountant().compose(_event(sigma, q, steps))


def _their_calibration() -> float:
    return float(
        dp_accounting.calibrate_dp_mechanism(PLDAccountant, lambda s: _event(s, 0.01, 1000), 2.0, 1e-5)
    )


CASES: dict[str, tuple[Callable[[], Any], Callable[[], Any], int]] = {
    "delta (1, 0.01, 1000) at epsilon 1": (
        lambda: _ours(1.0, 0.01, 1000).delta(epsilon=1.0).upper, lambda: _theirs(1.0, 0.01, 1000).get_delta(1.0), 7),
    "delta (0.5, 1e-4, 10^6) at epsilon 3": (
        lambda: _ours(0.5, 1e-4, 10**6).delta(epsilon=3.0).upper, lambda: _theirs(0.5, 1e-4, 10**6).get_delta(3.0), 5),
    "epsilon (1, 0.01, 1000) at delta 1e-5": (
        lambda: _ours(1.0, 0.01, 1000).epsilon(delta=1e-5).upper, lambda: _theirs(1.0, 0.01, 1000).get_epsilon(1e-5), 7),
    "noise multiplier for (2, 1e-5), 0.01, 1000": (
        lambda: float(calibrate(lambda s: 1000 * PoissonSampled(Gaussian(s), 0.01), epsilon=2.0, delta=1e-5)),
        _their_calibration, 3),
}


def _seconds(call: Callable[[], Any]) -> tuple[float, float]:
    start = time.perf_counter()
    value = float(call())
    return time.perf_counter() - start, value


def measure(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> dict[str, float]:
    """Medians over rounds of (ours three times, theirs once), in turn."""
    _seconds(ours)
    own, peer, value, other = [], [], 0.0, 0.0
    for _ in range(rounds):
        for _ in range(3):
            taken, value = _seconds(ours)
            own.append(taken)
        taken, other = _seconds(theirs)
        peer.append(taken)
    a, b = statistics.median(own), statistics.median(peer)
    return {"ours_seconds": a, "theirs_seconds": b, "ratio": b / a, "ours": value, "theirs": other}


def import_times(rounds: int = 7) -> dict[str, float]:
    """Medians of whole-process times: importing dpaccount against scipy.special with scipy.optimize."""
    found: dict[str, list[float]] = {"dpaccount": [], "scipy": []}
    for _ in range(rounds):
        for name, code in (("dpaccount", "import dpaccount"), ("scipy", "import scipy.special, scipy.optimize")):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            found[name].append(time.perf_counter() - start)
    a, b = statistics.median(found["dpaccount"]), statistics.median(found["scipy"])
    return {"dpaccount_seconds": a, "scipy_seconds": b, "ratio": a / b}


def main() -> None:
    """Measure everything and write the results."""
    rows: dict[str, Any] = {"machine": platform.machine(), "python": platform.python_version(), "peer": "dp-accounting 0.6.0"}
    for name, (ours, theirs, rounds) in CASES.items():
        rows[name] = measure(ours, theirs, rounds) | {"wanted_ratio": TARGETS[name]}
        print(f"{name}: {rows[name]['ratio']:.0f}x (wanted {TARGETS[name]}x), {rows[name]['ours_seconds'] * 1e3:.2f} ms", flush=True)
    rows["import"] = import_times()
    print(f"import: {rows['import']['ratio']:.2f}x of scipy.special and scipy.optimize")
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
