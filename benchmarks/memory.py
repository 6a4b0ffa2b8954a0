"""Peak memory of our own process over everything the benchmarks ask, each in a fresh process; ``memory.json``, in MB.

The peak is the kernel's resident maximum (``ru_maxrss``), Python and numpy included; ``wanted`` is 300 MB.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks._measure import write

WANTED = 300.0
HEAD = "import resource, sys\nfrom dpaccount import *\nrun = lambda s, q, t: PrivacyProfile(t * PoissonSampled(Gaussian(s), q))\n"
TAIL = (
    "\nunit = 1024 if sys.platform != 'darwin' else 1024**2"
    "\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit)\n"
)
WORK = {
    "import": "",
    "delta, three runs": "[run(s, q, t).delta(e) for s, q, t, e in ((1, .01, 1000, 1), (.5, 1e-4, 10**6, 3), (2, .001, 10**5, .5))]",
    "delta at 10^9 steps": "run(2.0, 2 / 10**4.5, 10**9).delta(4.0)",
    "epsilon": "run(1, .01, 1000).epsilon(delta=[1e-3, 1e-5, 1e-8])",
    "trade-off function, 100 points": "run(1, .01, 1000).trade_off([i / 100 for i in range(100)])",
    "lattice": "[PrivacyProfile(t * PoissonSampled(Gaussian(s), q), method='lattice').delta(e) for s, q, t, e in "
    "((1, .01, 1000, 1), (.5, 1e-4, 10**6, 3), (2, .001, 10**5, .5))]",
    "sampled Laplace, 500 steps": "PrivacyProfile(500 * PoissonSampled(Laplace(2.0), 0.01)).delta(1.0)",
    "calibration": "calibrate(lambda s: dp_sgd(s, .01, 1000), epsilon=2.0, delta=1e-5)",
    "calibration to an advantage": "calibrate(lambda s: dp_sgd(s, .01, 1000), advantage=.1)",
    "calibration to a trade-off point": "calibrate(lambda s: dp_sgd(s, .01, 1000), false_positive_rate=.01, false_negative_rate=.9)",
    "60 epochs": "TrainingRun(60000, 256, 1.1, epochs=60).per_epoch(delta=1e-5)",
    "100 different noise multipliers": "PrivacyProfile(sum((PoissonSampled(Gaussian(1 + i / 100), .01) for i in range(1, 100)), "
    "start=PoissonSampled(Gaussian(1.0), .01))).delta(1.0)",
    "sweep of 60 cells": "sweep(dp_sgd, {'noise_multiplier': [1 + i / 10 for i in range(10)], 'sampling_probability': [.005, .01], "
    "'steps': [500, 1000, 2000]}, delta=1e-5)",
    "hard corner, 20 cases of each family": "from benchmarks.corner import measure\n"
    "[measure(f, i, 2.0) for f in range(3) for i in range(20)]",
}


def peak(work: str) -> float:
    """MB of a fresh process that does this."""
    command, root = [sys.executable, "-c", HEAD + work + TAIL], Path(__file__).parents[1]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    return float(done.stdout.split()[-1])


def main() -> None:
    """Measure everything and write the results."""
    found = {}
    for name, work in WORK.items():
        found[name] = round(peak(work), 1)
        print(f"{name}: {found[name]:.0f} MB", flush=True)
    worst = max(found, key=lambda name: found[name])
    print(f"the most: {worst}, {found[worst]:.0f} MB (wanted at most {WANTED:.0f})")
    write("memory", {"wanted_mb": WANTED, "peak_mb": found, "worst": worst})


if __name__ == "__main__":
    main()
