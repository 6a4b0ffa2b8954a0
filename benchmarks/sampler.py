"""The regularised exponential mechanism: seconds a step, whole draws by values alone and with gradients, queries, and utility beside DP-GD.

Run ``python -m benchmarks.sampler``, or some of ``seconds draws queries utility`` after it; ``benchmarks/sampler.json`` is written.
Epsilon 1, delta 1e-5, replace-one, unless said. Synthetic rows have norm 1 at most. Seconds are of the processor.
"""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks._measure import FOLDER, read, seconds, write
from dpaccount.regularized import RegularizedExponentialMechanism
from solvers.algorithms import gradient_descent, regularized_exponential
from solvers.losses import Logistic, Quantile
from solvers.problem import Array, Problem
from solvers.random import InsecureRandomnessWarning, RandomSource
from solvers.sampler import Target, planned, sample
from solvers.sets import L2Ball

EPSILON, DELTA, T = 1.0, 1e-5, 1e-7
CHAINS = 200
DESCENTS = 20
AFFORDABLE, FEW = 3e8, 5000  # records times steps times chains, and steps, up to which the sampler itself draws for the table
WARM, WALK = 1500, 1000  # steps of Metropolis: to forget the start, and between first and last


def source(seed: int) -> RandomSource:
    """Seeded, so that the tables repeat."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureRandomnessWarning)
        return RandomSource.seeded_for_tests_only(seed)


def synthetic(n: int, d: int, loss: str, radius: float = 1.0) -> Problem:
    """A linear model on Gaussian rows of norm about 1, clipped there: with noise for absolute deviations, signs for logistic loss."""
    rng = np.random.default_rng(1000 * d + n)
    x = rng.normal(size=(n, d)) / math.sqrt(d)
    theta = rng.normal(size=d)
    theta *= 0.5 * radius / np.linalg.norm(theta)
    score = x @ theta
    if loss == "logistic":
        return Problem(x, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-score)), 1.0, -1.0), Logistic(), L2Ball(radius))
    return Problem(x, score + 0.1 * rng.normal(size=n), Quantile(), L2Ball(radius))


def real(name: str, n: int, d: int, radius: float = 2.0) -> Problem:
    """Logistic regression on the first columns that vary; standardised, which is not private, and divided by sqrt d."""
    from sklearn.datasets import load_breast_cancer, load_digits

    data = load_breast_cancer() if name == "breast_cancer" else load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))[:n]
    x, y = data.data[order], data.target[order]
    x = x[:, x.std(axis=0) > 0.3 if name == "digits" else slice(None)][:, :d]
    label = y if name == "breast_cancer" else y % 2
    return Problem((x - x.mean(axis=0)) / x.std(axis=0) / math.sqrt(d), 2.0 * label - 1.0, Logistic(), L2Ball(radius))


def law_of(problem: Problem, epsilon: float = EPSILON) -> RegularizedExponentialMechanism:
    """The (k, r) of the least bound on empirical risk."""
    return RegularizedExponentialMechanism.for_empirical_risk(
        epsilon=epsilon, delta=DELTA, lipschitz=2.0 * problem.lipschitz, num_records=problem.num_records, dimension=problem.dimension,
        diameter=problem.constraint.radius(problem.dimension),
    )


def target_of(problem: Problem, epsilon: float = EPSILON) -> Target:
    """Its target."""
    law = law_of(problem, epsilon)
    return Target(problem, law.inverse_temperature, law.regularization)


# what a step takes


def step_seconds() -> dict[str, Any]:
    """By inner step, 300 records in 10 dimensions, one chain: median of five runs of some steps."""
    found = {}
    asked = {"logistic": ("exact", "differences", "values", "series", "poisson"), "absolute": ("exact", "values", "poisson")}
    for loss, kinds in asked.items():
        target = target_of(synthetic(300, 10, loss))
        for kind in kinds:
            plan = planned(target, T, inner=kind)
            part = replace(plan, steps=min(plan.steps, 400))
            each = sorted(seconds(lambda t=target, p=part: sample(t, p, progress=False))[0] / part.steps for _ in range(5))[2]
            found[f"{loss}, {kind}"] = {"seconds a step": each, "steps": plan.steps, "expected seconds of a draw": each * plan.steps}
            print(f"{loss}, {kind}: {each * 1e6:.0f} us a step, {plan.steps} steps", flush=True)
    return found


def whole_draws() -> dict[str, Any]:
    """Releases from beginning to end."""
    asked = {
        "n 300, d 10, logistic, values alone (differences)": (synthetic(300, 10, "logistic"), "differences"),
        "n 1000, d 10, logistic, with gradients (exact)": (synthetic(1000, 10, "logistic"), "exact"),
        "n 1000, d 10, logistic, values alone (differences)": (synthetic(1000, 10, "logistic"), "differences"),
        "n 300, d 10, absolute, values alone (values)": (synthetic(300, 10, "absolute"), "values"),
    }
    found = {}
    for name, (problem, inner) in asked.items():
        options: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "inner": inner, "reveal_unprotected": True}
        taken, release = seconds(lambda p=problem, o=options: regularized_exponential(p, **o))
        shown = release.diagnostics
        found[name] = {
            "seconds": taken, "steps": shown["steps"], "values or gradients of F": release.unprotected["queries_per_draw"],
            "epsilon": float(release.epsilon(delta=DELTA)), "total variation": shown["total_variation"],
        }
        print(f"{name}: {taken:.1f} s, {shown['steps']} steps", flush=True)
    return found


# what it asks for


def queries() -> dict[str, Any]:
    """Values of single losses a draw, counted over some steps, by n and by epsilon, and the slopes on double logarithms."""
    found: dict[str, Any] = {}
    for loss in ("logistic", "absolute"):
        for kind in ("series", "poisson", "values"):
            by_n = {n: counted(synthetic(n, 10, loss), EPSILON, kind) for n in (100, 300, 1000, 3000)}
            by_epsilon = {e: counted(synthetic(300, 10, loss), e, kind) for e in (0.1, 0.3, 1.0, 2.0)}
            found[f"{loss}, {kind}"] = {"n": by_n, "epsilon": by_epsilon, "slope in n": slope(by_n), "slope in epsilon": slope(by_epsilon)}
            print(f"{loss}, {kind}: slopes {slope(by_n):.3f} in n, {slope(by_epsilon):.3f} in epsilon", flush=True)
    return found


def counted(problem: Problem, epsilon: float, kind: str) -> float:
    """By the counter, 100 steps, times the length of the run; values of F are n values each."""
    target = target_of(problem, epsilon)
    plan = planned(target, T, inner=kind)
    draws = sample(target, replace(plan, steps=100), source=source(1), progress=False)
    return draws.tally.queries * (problem.num_records if kind == "values" else 1) / 100 * plan.steps


def slope(table: dict[Any, float]) -> float:
    """Least squares of log on log."""
    return float(np.polyfit(np.log(list(table)), np.log(list(table.values())), 1)[0])


# what it is good for


def utility() -> dict[str, Any]:
    """Mean excess empirical risk over 200 draws and its standard error, the bound of the theorem, and DP-GD at its defaults."""
    cases = {f"absolute, n {n}, d {d}": synthetic(n, d, "absolute") for n in (100, 1000, 3000) for d in (2, 10, 20)}
    cases |= {f"breast_cancer, n {n}, d {d}": real("breast_cancer", n, d) for n in (100, 300, 569) for d in (2, 10, 20)}
    cases |= {f"digits, n 1797, d {d}": real("digits", 1797, d) for d in (2, 10)}
    found = {}
    for name, problem in cases.items():
        found[name] = one_case(problem)
        print(name, {key: value if isinstance(value, str) else round(value, 5) for key, value in found[name].items()}, flush=True)
    return found


def one_case(problem: Problem) -> dict[str, Any]:
    """A row of the table."""
    n, law, best = problem.num_records, law_of(problem), least(problem)
    points, way = drawn(problem)
    descents = [gradient_descent(problem, epsilon=EPSILON, delta=DELTA, adjacency="replace-one", random=source(s)) for s in range(DESCENTS)]
    ours, theirs = (np.array([problem.objective(x) / n - best for x in these]) for these in (points, [r.value for r in descents]))
    return {
        "excess": float(ours.mean()), "error": float(ours.std(ddof=1)) / math.sqrt(len(ours)), "drawn by": way,
        "bound": law.empirical_risk(dimension=problem.dimension, diameter=problem.constraint.radius(problem.dimension)).total,
        "DP-GD": float(theirs.mean()), "DP-GD error": float(theirs.std(ddof=1)) / math.sqrt(DESCENTS),
        "at 0": problem.objective(np.zeros(problem.dimension)) / n - best,
    }


def drawn(problem: Problem) -> tuple[Array, str]:
    """Points of the law: by the sampler where that is affordable, else by a Metropolis chain each, which proves nothing."""
    target = target_of(problem)
    plan = planned(target, 1e-3)
    if plan.steps <= FEW and plan.steps * problem.num_records * CHAINS <= AFFORDABLE:
        return sample(target, plan, chains=CHAINS, source=source(7), progress=False).points, "sampler"
    return metropolis(target), "Metropolis"


def metropolis(target: Target, chains: int = CHAINS, seed: int = 3) -> Array:
    """Random walks with the scale of the chains' own spread, adapted for the first steps and then kept."""
    rng, d = np.random.default_rng(seed), target.dimension
    radius = target.constraint.radius(d)
    x = np.array([target.constraint.project(z) for z in rng.normal(size=(chains, d)) * 0.01 * radius])

    def height(points: Array) -> Array:
        inside = np.linalg.norm(points, axis=1) <= radius
        return np.where(inside, -target.values(points) - target.curvature * (points**2).sum(axis=1) / 2, -np.inf)

    h, scale = height(x), np.full(d, 0.3 * radius / math.sqrt(d * (1.0 + target.lipschitz)))
    for t in range(WARM + WALK):
        proposal = x + scale * rng.normal(size=x.shape)
        new = height(proposal)
        kept = np.log(rng.random(chains)) < new - h
        x[kept], h[kept] = proposal[kept], new[kept]
        if t < WARM:
            scale = scale * math.exp((kept.mean() - 0.25) * 0.1)
    return x


def least(problem: Problem) -> float:
    """min F over the ball, to about 1e-9: a linear program where it is inside, or accelerated projected gradients."""
    n, d = problem.num_records, problem.dimension
    if isinstance(problem.loss, Quantile):
        from scipy.optimize import linprog

        rows, targets, eye = np.asarray(problem.rows), problem.targets, np.eye(n)
        found = linprog(np.r_[np.zeros(d), np.ones(2 * n)], A_eq=np.hstack([rows, eye, -eye]), b_eq=targets,
                        bounds=[(None, None)] * d + [(0, None)] * (2 * n))
        if not problem.constraint.contains(found.x[:d]):
            raise RuntimeError("the minimum is outside the ball")
        return problem.objective(found.x[:d]) / n
    step = 1.0 / (problem.smoothness * n)
    x = z = np.zeros(d)
    for t in range(1, 20_001):
        new = problem.constraint.project(z - step * problem.gradient(z))
        z, x = new + (t - 1) / (t + 2) * (new - x), new
    return problem.objective(x) / n


PARTS = {"seconds": step_seconds, "draws": whole_draws, "queries": queries, "utility": utility}


def main() -> None:
    """Measure and write; parts that are not asked for stay as they are."""
    for name in [part for part in sys.argv[1:] if part in PARTS] or PARTS:
        measured = PARTS[name]()
        write("sampler", (read("sampler") if FOLDER.joinpath("sampler.json").exists() else {}) | {name: measured})


if __name__ == "__main__":
    main()
