"""Black-box audit of the last iterate of full-batch DP gradient descent: breast_cancer, 2 x 100,000 models.

Run ``python -m benchmarks.game`` (``python -m benchmarks.game 5000`` for fewer models), in two processes; it writes
``benchmarks/game.json``. Logistic regression on 569 records, ten steps, each record's gradient clipped at 1, noise for mu = 1,
so that (4.377, 1e-5) is exact for whoever sees every step. The auditor sees the final weights alone, and adds one record. Its
feature is one that nobody else has, and its weight starts where the loss is steep (Annamalai and De Cristofaro 2024 craft initial
weights against networks; for a linear model this is the worst case). Zero weights show what that start is worth.
"""

from __future__ import annotations

import math
import resource
import tempfile
import time
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from benchmarks._measure import first_number, write
from dpaccount import Gaussian, PrivacyProfile
from dpaccount.auditing import AuditResult, audit_game, audit_samples, game_scores, gradient_canary

Array = npt.NDArray[np.float64]
STEPS, CLIP, RATE, MU, DELTA = 10, 1.0, 1.0, 1.0, 1e-5
STEEP, CHUNK, PROCESSES = -10.0, 100, 2


@lru_cache(maxsize=1)
def records() -> tuple[Array, Array]:
    """Features scaled by public rules, so that nothing about one record changes another: columns, then rows of norm 1."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0)  # the same for both data sets: the canary is added afterwards
    return x / np.linalg.norm(x, axis=1, keepdims=True), y.astype(float)


def descent(
    data: tuple[Array, Array], rng: np.random.Generator, size: int, *, count: int, start: float = STEEP, noise: float = 1.0,
    clip: str = "each",
) -> Array:
    """Final weights of `size` models. Divides by a public `count`; `noise` and `clip` are what a broken solver gets wrong."""
    x, y = data
    sigma = noise * CLIP * math.sqrt(STEPS) / MU
    limit = CLIP / np.linalg.norm(x, axis=1)  # a gradient is slope * row
    weights = np.zeros((size, x.shape[1]))
    weights[:, -1] = start
    for _ in range(STEPS):
        slope = expit(weights @ x.T) - y
        if clip == "each":
            np.clip(slope, -limit, limit, out=slope)
        total = slope @ x
        if clip == "average":
            norm = np.linalg.norm(total, axis=1, keepdims=True) / count
            total *= np.minimum(1.0, CLIP / np.maximum(norm, 1e-300))
        weights -= RATE / count * (total + sigma * rng.normal(size=weights.shape))
    return weights


def moved(weights: Array) -> Array:
    """The attack's score: the canary's own weight."""
    return weights[:, -1]


def worlds(norm: float = CLIP) -> tuple[Any, Any]:
    """Without the canary and with it."""
    return gradient_canary(*records(), norm=norm)


def solver(**wrong: Any) -> Any:
    """The mechanism as `audit_game` takes it."""
    return partial(descent, count=len(records()[0]), **wrong)


def audit(runs: int, jobs: int | None = 1, **options: Any) -> AuditResult:
    """The game on breast_cancer."""
    wrong = options.pop("wrong", {})
    pair = worlds(options.pop("norm", CLIP))
    return audit_game(
        solver(**wrong), pair, batch=True, score=moved, delta=DELTA, runs=runs, chunk=CHUNK, n_jobs=jobs, **{"seed": 0, **options}
    )


def experiment(runs: int, jobs: int, store: str) -> dict[str, Any]:
    """The model-free bound, timed, and the Gaussian bound of the same models."""
    start, before = time.perf_counter(), _processor()
    found = audit(runs, jobs, store=store)
    taken = time.perf_counter() - start
    if jobs > 1:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True)  # the times of processes are known when they have ended
    busy = _processor() - before
    without, within = game_scores(store)
    model = audit_samples(without, within, delta=DELTA, method="gdp", selection="split", rng=0)
    return {
        "seconds": round(taken, 1), "processor_seconds": round(busy, 1), "cp": found.lower, "cp_counts": found.details["counts"],
        "gdp": model.lower, "gdp_mu": model.mu, "gdp_counts": model.details["counts"],
    }


def _processor() -> float:
    """Processor time of this process and those that it has ended, start-up and all."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


WRONG = {
    "as claimed": ({}, CLIP), "noise halved": ({"noise": 0.5}, CLIP), "the average clipped": ({"clip": "average"}, 1000 * CLIP),
    "noise 10 % short": ({"noise": 0.9}, CLIP),
}


def main() -> None:
    """All rows, and the results as JSON."""
    runs = first_number(100_000)
    truth = float(PrivacyProfile(Gaussian(1.0 / MU)).epsilon(delta=DELTA).upper)
    found: dict[str, Any] = {"models_of_each_kind": runs, "processes": PROCESSES, "delta": DELTA, "truth": truth}
    with tempfile.TemporaryDirectory() as folder:
        found["steep start"] = experiment(runs, PROCESSES, str(Path(folder, "steep")))
        print("steep start", found["steep start"], flush=True)
    zero = audit(runs // 5, PROCESSES, wrong={"start": 0.0})
    found["zero start, a fifth of the models"] = {"cp": zero.lower}
    found["solvers that claim mu = 1"] = {}
    for name, (wrong, norm) in WRONG.items():
        start = time.perf_counter()
        judged = audit(runs // 2, PROCESSES, wrong=wrong, norm=norm, mu=MU)
        row = {"verdict": judged.verdict, "ended": judged.details["ended"], "models_of_each_kind": judged.details["runs"],
               "looks": judged.details["looks"], "seconds": round(time.perf_counter() - start, 1)}
        found["solvers that claim mu = 1"][name] = row
        print(name, row, flush=True)
    write("game", found | {"clock": "wall"})


if __name__ == "__main__":
    main()
