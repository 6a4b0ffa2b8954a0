"""Claim: measured excess risk falls with the budget and the number of records as the theorems' bounds do, and stays below them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dpaccount import Gaussian, calibrate
from figures._style import BLUE, GREEN, VERMILION
from solvers.algorithms import gradient_descent, objective_perturbation
from solvers.losses import Logistic
from solvers.problem import Problem
from solvers.random import InsecureRandomnessWarning, RandomSource
from solvers.risk.bounds import gradient_descent_risk, least_possible_order, objective_perturbation_risk
from solvers.sets import L2Ball

DELTA, STEPS, DIAMETER = 1e-5, 100, 2.0
USUAL = {"n": 1000, "p": 5, "epsilon": 1.0}
RANGES = {"epsilon": np.geomspace(0.05, 8.0, 6), "n": np.geomspace(100, 4000, 5), "p": np.array([2, 4, 8, 16, 32])}


def data(*, quick: bool = False) -> dict[str, Any]:
    """Mean excess risk per record of gradient descent and of pure objective perturbation, with the bounds, along three axes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureRandomnessWarning)
        source = RandomSource.seeded_for_tests_only(7)
    found: dict[str, Any] = {}
    for axis, values in RANGES.items():
        kept = values[:: 3 if quick else 1]
        kept = np.unique(kept.astype(int)) if axis in ("n", "p") else kept
        rows = [_measured({**USUAL, axis: v.item()}, 4 if quick else 8, source) for v in kept]
        found[axis] = {"values": kept, **{name: np.array([row[name] for row in rows]) for name in rows[0]}}
    return found


def _measured(at: dict[str, Any], runs: int, source: RandomSource) -> dict[str, float]:
    n, p, epsilon = int(at["n"]), int(at["p"]), float(at["epsilon"])
    rng = np.random.default_rng(n + p)
    x = rng.normal(size=(n, p)) / math.sqrt(p)
    problem = Problem(x, np.where(x[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0), Logistic(), L2Ball(DIAMETER / 2))
    best = _minimum(problem)
    sigma = float(calibrate(lambda s: STEPS * Gaussian(s), epsilon=epsilon, delta=DELTA))

    def mean(run: Callable[[], Any]) -> float:
        return float(np.mean([problem.objective(run().value) for _ in range(runs)]) - best) / n

    descent = {"noise_multiplier": sigma, "steps": STEPS, "public_size": n, "random": source, "progress": False}
    return {
        "gradient descent": mean(lambda: gradient_descent(problem, **descent)),
        "gradient descent, bound": gradient_descent_risk(n, p, 1.0, DIAMETER, steps=STEPS, noise_multiplier=sigma) / n,
        "objective perturbation": mean(lambda: objective_perturbation(problem, epsilon=epsilon, random=source)),
        "objective perturbation, bound": objective_perturbation_risk(epsilon, p, 1.0, DIAMETER) / n,
        "least": least_possible_order(n, p, epsilon, 1.0, DIAMETER, pure=True) / n,
    }


def _minimum(problem: Problem) -> float:
    theta, rate = np.zeros(problem.dimension), 1.0 / (problem.smoothness * problem.num_records)
    for _ in range(250):
        theta = problem.constraint.project(theta - rate * problem.gradient(theta))
    return problem.objective(theta)


def draw(numbers: dict[str, Any]) -> Figure:
    """One panel for each axis."""
    figure = Figure(figsize=(12.0, 4.8))
    panels = figure.subplots(1, 3, sharey=True)
    names = {"epsilon": r"privacy budget $\varepsilon$", "n": r"records $n$", "p": r"dimension $p$"}
    for axes, (axis, label) in zip(panels, names.items(), strict=True):
        found = numbers[axis]
        for name, color, marker in (("gradient descent", BLUE, "o"), ("objective perturbation", VERMILION, "s")):
            kind = r"$\delta = 10^{-5}$" if name == "gradient descent" else "pure"
            axes.plot(found["values"], found[name], color=color, marker=marker, label=f"{name}, {kind}: measured")
            axes.plot(found["values"], found[f"{name}, bound"], color=color, linestyle=(0, (5, 2)), label="its bound")
        axes.plot(found["values"], found["least"], color=GREEN, linestyle=":", label=r"least possible, pure: order $pL|C|/(n\varepsilon)$")
        rest = ", ".join(rf"${'varepsilon'.join([chr(92), '']) if k == 'epsilon' else k} = {v:g}$" for k, v in USUAL.items() if k != axis)
        axes.set(xscale="log", yscale="log", xlabel=label, ylim=(1e-6, 1.0))
        axes.set_title(rest, loc="left")
        axes.set_ylabel("excess risk per record")
    panels[2].set_xticks(RANGES["p"], [str(p) for p in RANGES["p"]])
    panels[2].minorticks_off()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=10)
    caption = "Logistic loss of synthetic records on the unit ball, add-or-remove; means of 8 runs, 100 steps of descent"
    figure.suptitle(caption, fontsize=11)
    return figure
