"""Private faces on real data: mean score over seeds with one default; ``solvers.json`` has means, standard errors and seconds.

Each face by gradient descent and by objective perturbation at delta = 1e-5, and by objective perturbation with pure epsilon.
Beside them: the same model without privacy; a plain solver whose steps and learning rate were chosen on the test part, which sets
the bars; and diffprivlib with its regulariser chosen on the test part and with its default. diffprivlib's guarantee is pure
epsilon-DP, which is stronger than (epsilon, 1e-5): the pure row is the one that makes the same promise. It needs an environment of its own:
name its interpreter in ``DPACCOUNT_DIFFPRIVLIB``. ``python -m benchmarks.solvers 3`` takes three seeds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._data import Missing, Split, load
from benchmarks._measure import first_number, read, write

EPSILONS = (0.1, 1.0, 8.0)
DELTA = 1e-5
# mean and sd (0: not stated) over 20 seeds of full-batch noisy gradient descent, T in {10, 40, 160} and step in {1, 4, 16, 64} chosen
# on the test part
TUNED: dict[str, tuple[tuple[float, float], ...]] = {
    "breast_cancer": ((0.8167, 0.071), (0.9382, 0.018), (0.9649, 0.006)),
    "digits": ((0.2657, 0.057), (0.8546, 0.017), (0.9368, 0.009)),
    "spambase": ((0.8493, 0.018), (0.9174, 0.008), (0.9285, 0.002)),
    "magic": ((0.7947, 0.005), (0.7978, 0.0), (0.7985, 0.0)),
    "diamonds": ((0.9675, 0.002), (0.9758, 0.0), (0.9762, 0.0)),
}
# objective perturbation does without delta, and then is pure
PERTURBED = {"objective perturbation": DELTA, "objective perturbation, pure": 0.0}
CLASSES = (*TUNED, "reuters")
# public knowledge: where disease progression and log weekly wages lie
NUMBERS: dict[str, tuple[float, float]] = {"diabetes": (0.0, 400.0), "cps1988": (3.0, 11.0)}


def scored(make: Any, data: Split, seeds: int) -> list[float]:
    """Mean score, its standard error, and seconds of a fit."""
    found, start = [], time.process_time()
    for seed in range(seeds):
        found.append(make(seed).fit(data.x, data.y).score(data.x_test, data.y_test))
    seconds = (time.process_time() - start) / seeds
    return [float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(seeds)), seconds]


def classifier(name: str, seeds: int) -> dict[str, Any]:
    """One set of classes: every face at every epsilon, and what stands beside it."""
    from sklearn.linear_model import LogisticRegression

    from solvers.estimators import PrivateLogisticRegression, PrivateSparseLogisticRegression

    data = load(name)
    out: dict[str, Any] = {"shape": list(data.x.shape), "majority": float(np.bincount(data.y_test).max() / len(data.y_test))}
    out["not private"] = float(LogisticRegression(C=100.0, max_iter=2000).fit(data.x, data.y).score(data.x_test, data.y_test))
    for k, epsilon in enumerate(EPSILONS):
        face = partial(PrivateLogisticRegression, epsilon, DELTA)
        row = {"gradient descent": scored(lambda seed, face=face: face(random_state=seed), data, seeds)}
        for label, delta in PERTURBED.items() if name != "reuters" else ():
            other = partial(PrivateLogisticRegression, epsilon, delta, algorithm="objective_perturbation")
            row[label] = scored(lambda seed, other=other: other(random_state=seed), data, seeds)
        if name == "reuters":
            thin = partial(PrivateSparseLogisticRegression, epsilon, DELTA)
            row["Frank-Wolfe"] = scored(lambda seed, thin=thin: thin(random_state=seed), data, seeds)
        if name in TUNED:
            mean, spread = TUNED[name][k]
            row["tuned on the test part"] = [mean, spread / np.sqrt(20.0)]
            row["bar"] = mean - 2.0 * spread / np.sqrt(20.0) - 0.005
        out[f"epsilon {epsilon:g}"] = row
    return out


def regressor(name: str, seeds: int) -> dict[str, Any]:
    """One set of numbers, with its range as public knowledge and without."""
    from sklearn.linear_model import LinearRegression

    from solvers.estimators import PrivateLinearRegression

    data = load(name)
    out: dict[str, Any] = {"shape": list(data.x.shape)}
    out["not private"] = float(LinearRegression().fit(data.x, data.y).score(data.x_test, data.y_test))
    for epsilon in EPSILONS:
        row = {}
        for label, ends in (("range known", NUMBERS[name]), ("range found", None)):
            face = partial(PrivateLinearRegression, epsilon, label_range=ends)
            row[label] = scored(lambda seed, face=face: face(DELTA, random_state=seed), data, seeds)
            for law, delta in PERTURBED.items():
                other = partial(face, delta, algorithm="objective_perturbation")
                row[f"{law}, {label}"] = scored(lambda seed, other=other: other(random_state=seed), data, seeds)
        out[f"epsilon {epsilon:g}"] = row
    return out


def peer(name: str, seeds: int) -> dict[str, Any] | None:
    """diffprivlib's accuracies at each epsilon; None where its interpreter is not named."""
    python = os.environ.get("DPACCOUNT_DIFFPRIVLIB")
    data = load(name)
    if python is None or not isinstance(data.x, np.ndarray):
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "split.npz"
        np.savez(path, **data._asdict())
        side = Path(__file__).with_name("_diffprivlib_side.py")
        done = subprocess.run([python, str(side), str(path), str(seeds)], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Every set whose package is there; what was measured before stays for the others, and for a peer that is not there."""
    from solvers.random import InsecureRandomnessWarning

    warnings.simplefilter("ignore", InsecureRandomnessWarning)
    seeds = first_number(20)
    try:
        before = read("solvers")["sets"]
    except FileNotFoundError:
        before = {}
    sets = dict(before)
    for name in (*CLASSES, *NUMBERS):
        try:
            sets[name] = classifier(name, seeds) if name in CLASSES else regressor(name, seeds)
        except Missing as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        found = peer(name, seeds) if name in CLASSES and name != "magic" else None
        for epsilon in EPSILONS:
            row, old = sets[name][f"epsilon {epsilon:g}"], before.get(name, {}).get(f"epsilon {epsilon:g}", {})
            for kind in ("best", "default"):
                label = f"diffprivlib, {kind} C"
                if found is not None or label in old:
                    row[label] = found[str(epsilon)][kind] if found is not None else old[label]
            print(name, f"{epsilon:g}", {k: np.round(v, 4).tolist() for k, v in row.items() if k != "bar"}, flush=True)
        write("solvers", {"seeds": seeds, "delta": DELTA, "adjacency": "add-or-remove", "sets": sets})


if __name__ == "__main__":
    main()
