"""Many steps, many points, many counts and calibrations in one process, beside dp-accounting 0.6.0 where it has the question.

Run ``python -m benchmarks.many`` in an environment that also holds it; ``benchmarks/many.json`` is written.
Medians of processor seconds over cold objects, both directions. The peer's schedule of 1,000 noise multipliers is run once: it takes
minutes.
"""

from __future__ import annotations

import json
import platform
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dpaccount import Bounds, Gaussian, NoiseSchedule, PoissonSampled, PrivacyProfile, calibrate
from dpaccount.curves.multiples import epsilon_of_multiples
from dpaccount.engines.many import family, panels

RESULTS = Path(__file__).with_name("many.json")
STEP = PoissonSampled(Gaussian(1.0), 0.01)
NOISE = tuple(np.linspace(2.0, 0.8, 1000).tolist())
LONG = tuple(np.linspace(2.0, 0.8, 100_000).tolist())
EPOCHS = np.arange(100, 10_001, 100)
GRID = np.linspace(0.1, 4.0, 1000)


def _cold() -> None:
    for cache in (family.families, family._arrays, panels.panels_of):
        cache.cache_clear()


def _profile() -> PrivacyProfile:
    return PrivacyProfile(1000 * STEP)


def _family(noise: float) -> Any:
    return 1000 * PoissonSampled(Gaussian(noise), 0.01)


OURS: dict[str, tuple[Callable[[], Any], int]] = {
    "delta at one epsilon": (lambda: _profile().delta(epsilon=1.0), 25),
    "delta at 1,000 epsilons": (lambda: _profile().delta(epsilon=GRID), 7),
    "delta of 1,000 noise multipliers": (lambda: PrivacyProfile(NoiseSchedule(NOISE, 0.01)).delta(epsilon=1.0), 5),
    "epsilon of 1,000 noise multipliers": (lambda: PrivacyProfile(NoiseSchedule(NOISE, 0.01)).epsilon(delta=1e-5), 5),
    "delta of 100,000 noise multipliers": (lambda: PrivacyProfile(NoiseSchedule(LONG, 0.001)).delta(epsilon=1.0), 5),
    "epsilon of 100,000 noise multipliers": (lambda: PrivacyProfile(NoiseSchedule(LONG, 0.001)).epsilon(delta=1e-5), 5),
    "epsilon after each of 100 epochs": (lambda: epsilon_of_multiples(STEP, EPOCHS, 1e-5, "add-or-remove"), 7),
    "noise multiplier for (2, 1e-5)": (lambda: calibrate(_family, epsilon=2.0, delta=1e-5).achieved, 9),
    "noise multiplier for advantage 0.3": (lambda: calibrate(_family, advantage=0.3).achieved, 9),
    "noise multiplier for f(0.01) = 0.9": (
        lambda: calibrate(_family, false_positive_rate=0.01, false_negative_rate=0.9).achieved, 9),
}


def measure(call: Callable[[], Any], rounds: int) -> dict[str, Any]:
    """Median and least seconds, whether the answer is certified, and its largest relative width."""
    taken = []
    for _ in range(rounds):
        _cold()
        start = time.process_time()
        found: Bounds = call()
        taken.append(time.process_time() - start)
    width = float(np.max(np.subtract(found.upper, found.lower) / np.abs(found.upper)))
    return {"seconds": statistics.median(taken), "least": min(taken), "certified": found.certified, "width": width}


def peers() -> dict[str, float]:
    """Seconds of dp-accounting's PLD accountant at its default grid."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    def event(noise: float) -> Any:
        return dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(noise))

    def long(noise: float) -> Any:
        return dp_accounting.SelfComposedDpEvent(event(noise), 1000)

    start = time.process_time()
    dp_accounting.calibrate_dp_mechanism(PLDAccountant, long, 2.0, 1e-5)
    calibration = time.process_time() - start
    start = time.process_time()
    accountant = PLDAccountant()
    for noise in NOISE:
        accountant.compose(event(noise))
    print("theirs, 1,000 noise multipliers:", accountant.get_epsilon(1e-5), flush=True)
    return {"noise multiplier for (2, 1e-5)": calibration, "epsilon of 1,000 noise multipliers": time.process_time() - start}


def main() -> None:
    """Measure everything and write the results."""
    rows: dict[str, Any] = {"machine": platform.machine(), "python": platform.python_version(), "peer": "dp-accounting 0.6.0"}
    for name, (call, rounds) in OURS.items():
        rows[name] = measure(call, rounds)
        print(f"{name}: {rows[name]['seconds'] * 1e3:.2f} ms, width {rows[name]['width']:.1e}", flush=True)
    one = rows["delta at one epsilon"]["seconds"]
    rows["delta at 1,000 epsilons"]["times one"] = rows["delta at 1,000 epsilons"]["seconds"] / one
    rows["peak memory in MB, before the peer"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for name, seconds in peers().items():
        rows[name] |= {"theirs_seconds": seconds, "ratio": seconds / rows[name]["seconds"]}
        print(f"{name}: {rows[name]['ratio']:.0f}x")
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
