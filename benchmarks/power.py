"""How much each statistic finds on the same simulated scores, ours and what peers publish, and how often it finds what is not there.

Run ``python -m benchmarks.power`` (``python -m benchmarks.power 100`` for fewer simulations); it writes ``benchmarks/power.json``.
Peers are written anew here from what they publish, so that all see the same numbers and none need be installed:
privacy-estimates (Zanella-Beguelin et al. 2023), jax_privacy (a bound at every corner of the ROC hull, by Bonferroni),
opake-auditing (the threshold with the best accuracy on the coins that judge it), DP-Sniper (Bichsel et al. 2021: an event of
probability 0.01, found on one half), dp_auditorium (Kong et al. 2024: hockey-stick divergence by an accuracy, Hoeffding's bound).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks._measure import first_number, write
from benchmarks.coverage import ALPHA, DELTA, MECHANISMS, Mechanism, _best_accuracy
from dpaccount.auditing import audit_counts, audit_samples
from dpaccount.auditing.divergences import labelled
from dpaccount.auditing.game.looks import planned

Array = npt.NDArray[np.float64]
Statistic = Callable[[Array, Array, Mechanism, np.random.Generator], float]
SIZE, HOCKEY, EVENT = 2000, 0.5, 0.01  # runs, in or out by fair coins; epsilon of the hockey-stick divergence; DP-Sniper's event


def ours(method: str, rule: str, **more: Any) -> Statistic:
    """`audit_samples`; a fixed threshold is the mechanism's."""

    def bound(x0: Array, x1: Array, mechanism: Mechanism, rng: np.random.Generator) -> float:
        options: dict[str, Any] = {"threshold": mechanism.threshold} if rule == "fixed" else {"selection": rule}
        return audit_samples(x0, x1, delta=DELTA, alpha=ALPHA, method=method, rng=rng, **options, **more).lower

    return bound


def looks(x0: Array, x1: Array, mechanism: Mechanism, rng: np.random.Generator) -> float:
    """The best of the looks of a game with a fixed threshold: what being allowed to stop early costs."""
    said0, said1, size = x0 >= mechanism.threshold, x1 >= mechanism.threshold, min(len(x0), len(x1))
    bounds = (
        audit_counts(int(said1[:n].sum()), n, int(said0[:n].sum()), n, DELTA, ALPHA * share).lower for n, share in planned(size, 50, True)
    )
    return max(bounds)


def best_accuracy(x0: Array, x1: Array, mechanism: Mechanism, rng: np.random.Generator) -> float:
    """opake-auditing's default."""
    return _best_accuracy(x0, x1)


def sniper(x0: Array, x1: Array, mechanism: Mechanism, rng: np.random.Generator) -> float:
    """DP-Sniper: {score >= t} with probability 0.01 without the record on one half; exact limits on the other."""
    t = float(np.quantile(x0[: len(x0) // 2], 1.0 - EVENT))
    out, into = x0[len(x0) // 2 :], x1[len(x1) // 2 :]
    return audit_counts(int((into >= t).sum()), len(into), int((out >= t).sum()), len(out), DELTA, ALPHA).lower


def hoeffding(x0: Array, x1: Array, mechanism: Mechanism, rng: np.random.Generator) -> float:
    """dp_auditorium: (accuracy - sqrt(ln(1/alpha)/2n))(1 + e^eps) - e^eps at a fixed rule."""
    y0, y1, labels = labelled(x0, x1, HOCKEY, rng)
    accuracy = float((y1 >= mechanism.threshold).sum() + (y0 < mechanism.threshold).sum()) / labels
    return max((accuracy - math.sqrt(math.log(1.0 / ALPHA) / (2 * labels))) * (1.0 + math.exp(HOCKEY)) - math.exp(HOCKEY), 0.0)


EPSILON, STICK = "epsilon", "delta"
CONFIDENCE, MODEL, CREDIBLE, NONE = "confidence", "model-based", "credible", "none"
Row = tuple[str, str, str, str, Statistic]  # whose, statistic, quantity, promise, function
ROWS: tuple[Row, ...] = (
    ("ours", "cp, fixed threshold", EPSILON, CONFIDENCE, ours("cp", "fixed")),
    ("ours", "cp, looks of a game", EPSILON, CONFIDENCE, looks),
    ("ours", "cp, split", EPSILON, CONFIDENCE, ours("cp", "split")),
    ("ours", "cp, Bonferroni over stated ranks", EPSILON, CONFIDENCE, ours("cp", "bonferroni")),
    ("ours", "cp, band over all thresholds", EPSILON, CONFIDENCE, ours("cp", "band")),
    ("ours", "gdp, fixed threshold", EPSILON, MODEL, ours("gdp", "fixed")),
    ("ours", "gdp, Bonferroni over stated ranks", EPSILON, MODEL, ours("gdp", "bonferroni")),
    ("ours", "gdp, band over all thresholds", EPSILON, MODEL, ours("gdp", "band")),
    ("ours", "one run, steinke, Bonferroni over stated ranks", EPSILON, CONFIDENCE, ours("steinke", "bonferroni")),
    ("ours", "one run, fdp, Bonferroni over stated ranks", EPSILON, MODEL, ours("fdp", "bonferroni")),
    ("privacy-estimates", "beta, fixed threshold", EPSILON, CONFIDENCE, ours("cp", "fixed")),
    ("privacy-estimates", "joint-beta, fixed threshold", EPSILON, CREDIBLE, ours("bayes", "fixed")),
    ("jax_privacy", "Clopper-Pearson, corners of the hull", EPSILON, NONE, ours("cp", "hull")),
    ("jax_privacy", "one run, corners of the hull", EPSILON, NONE, ours("steinke", "hull")),
    ("opake-auditing", "one run, best accuracy on the same coins", EPSILON, NONE, best_accuracy),
    ("DP-Sniper", "event of probability 0.01 from one half", EPSILON, CONFIDENCE, sniper),
    ("ours", "hockey-stick, exact limit", STICK, CONFIDENCE, ours("hockey-stick", "fixed", epsilon=HOCKEY)),
    ("dp_auditorium", "hockey-stick, Hoeffding's bound", STICK, CONFIDENCE, hoeffding),
)
LEAKS = ("gaussian", "laplace", "no leak")


def simulate(runs: int, rows: tuple[Row, ...]) -> list[dict[str, Any]]:
    """The rows on the same scores of every mechanism."""
    found: dict[tuple[str, str, str], list[float]] = {(*row[:2], name): [] for row in rows for name in LEAKS}
    for name in LEAKS:
        mechanism = MECHANISMS[name]
        for seed in range(runs):
            rng = np.random.default_rng([7, seed])
            inside = int(rng.binomial(SIZE, 0.5))
            x0, x1 = mechanism.draw(rng, SIZE - inside, False), mechanism.draw(rng, inside, True)
            for row in rows:
                found[(*row[:2], name)].append(row[4](x0, x1, mechanism, np.random.default_rng([8, seed])))
    return [_summary(row, {name: np.array(found[(*row[:2], name)]) for name in LEAKS}) for row in rows]


def _summary(row: Row, bounds: dict[str, Array]) -> dict[str, Any]:
    whose, statistic, quantity, promise, _ = row
    means = {f"mean, {name}": round(float(bounds[name].mean()), 4) for name in LEAKS[:2]}
    alarms = None if promise == CREDIBLE else round(float((bounds["no leak"] > 0.0).mean()), 4)  # which a credible bound always is
    return {"whose": whose, "statistic": statistic, "quantity": quantity, "promise": promise, **means, "false alarms": alarms}


def main() -> None:
    """Simulate, print and write."""
    runs = first_number(400)
    rows = simulate(runs, ROWS)
    for row in rows:
        print("  ".join(str(value) for value in row.values()), flush=True)
    truth = {name: {q: MECHANISMS[name].truth(q) for q in (EPSILON, STICK)} for name in LEAKS[:2]}
    write("power", {"simulations": runs, "runs": SIZE, "alpha": ALPHA, "delta": DELTA, "epsilon": HOCKEY, "truth": truth,
                    "rows": rows})


if __name__ == "__main__":
    main()
