"""Claim: a draw from values of single losses costs some (epsilon n)^2 queries, as the theory says; gradients of smooth losses far fewer."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dpaccount.regularized import RegularizedExponentialMechanism
from figures._style import BLACK, BLUE, GREEN, ORANGE, SKY, VERMILION
from solvers.losses import Logistic
from solvers.problem import Problem
from solvers.random import InsecureRandomnessWarning, RandomSource
from solvers.sampler import Target, planned, sample
from solvers.sets import L2Ball

DIMENSION, DELTA, DISTANCE = 10, 1e-5, 1e-7
MEASURED = 100  # steps of the chain that are run, to count queries a step


def target(n: int, epsilon: float) -> Target:
    """Logistic regression of n synthetic records on the unit ball, at the temperature of the least bound on empirical risk."""
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, DIMENSION)) / math.sqrt(DIMENSION)
    problem = Problem(x, np.where(x[:, 0] > 0, 1.0, -1.0), Logistic(), L2Ball(1.0))
    law = RegularizedExponentialMechanism.for_empirical_risk(
        epsilon=epsilon, delta=DELTA, lipschitz=2.0 * problem.lipschitz, num_records=n, dimension=DIMENSION, diameter=1.0
    )
    return Target(problem, law.inverse_temperature, law.regularization)


def data(*, quick: bool = False) -> dict[str, Any]:
    """Expected queries by n and by epsilon, counted ones at some of them, and the exponents of the theory for d = n^kappa."""
    sizes = np.unique(np.geomspace(30, 3000, 5 if quick else 13).astype(int))
    budgets = np.geomspace(0.1, 2.0, 4 if quick else 9)
    found: dict[str, Any] = {"n": sizes, "epsilon": budgets, "counted n": sizes[:: 2 if quick else 3]}
    plans = {kind: [planned(target(int(n), 1.0), DISTANCE, inner=kind) for n in sizes] for kind in ("series", "exact")}
    found["series"] = np.array([plan.queries for plan in plans["series"]])
    found["exact"] = np.array([plan.steps for plan in plans["exact"]], dtype=float)
    found["series by epsilon"] = np.array([planned(target(300, float(e)), DISTANCE, inner="series").queries for e in budgets])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureRandomnessWarning)
        source = RandomSource.seeded_for_tests_only(1)
    found["counted"] = np.array([_counted(int(n), source) for n in found["counted n"]])
    kappa = np.linspace(0.0, 2.0, 41)
    found["kappa"], found["ours"] = kappa, np.minimum(2.0, 1.0 + kappa)
    found["lower"] = found["ours"]
    found["one pass a dimension"] = 1.0 + kappa
    found["AFKT21"] = np.minimum(1.5, 2.0 - kappa / 2)
    found["KLL21"] = np.minimum(1.25 + kappa / 8, 1.5 - kappa / 8)
    return found


def _counted(n: int, source: RandomSource) -> float:
    """Queries that a chain really asks, from some of its steps."""
    of = target(n, 1.0)
    plan = planned(of, DISTANCE, inner="series")
    draws = sample(of, replace(plan, steps=MEASURED), source=source, progress=False)
    return draws.tally.queries / MEASURED * plan.steps


def draw(numbers: dict[str, Any]) -> Figure:
    """Queries against n on the left, exponents of the theory on the right."""
    figure = Figure(figsize=(10.6, 5.0))
    left, right = figure.subplots(1, 2)
    n = numbers["n"]
    left.plot(n, numbers["series"], color=BLUE, label="values of single losses, expected")
    counted = {"color": BLUE, "linestyle": "none", "marker": "o"}
    left.plot(numbers["counted n"], numbers["counted"], label="the same, counted (6 proposals at once)", **counted)
    left.plot(n, numbers["series"][0] * (n / n[0]) ** 2, color=BLACK, linestyle=":", label=r"slope 2: $n^2$")
    left.plot(n, numbers["exact"], color=VERMILION, linestyle=(0, (5, 2)), label="steps with gradients of all losses")
    left.set(xscale="log", yscale="log", xlabel=r"records $n$", ylabel="queries of one draw")
    left.legend(loc="upper left", fontsize=10)
    left.set_ylim(top=float(numbers["series"][-1]) * 1e5)
    left.set_title(rf"one draw, $d = {DIMENSION}$, $\varepsilon = 1$", loc="left")
    kappa = numbers["kappa"]
    lines = {
        "ours": ({"color": BLUE}, "values: this law, and the lower bound"),
        "one pass a dimension": ({"color": GREEN, "linestyle": (0, (5, 2))}, r"gradients: $nd$"),
        "AFKT21": ({"color": ORANGE, "linestyle": (0, (3, 1, 1, 1))}, "gradients: AFKT21"),
        "KLL21": ({"color": SKY, "linestyle": (0, (1, 1)), "linewidth": 3.0}, "gradients: KLL21"),
    }
    for name, (style, label) in lines.items():
        right.plot(kappa, numbers[name], label=label, **style)
    right.set(xlim=(0.0, 2.0), ylim=(0.5, 3.2), xlabel=r"$\kappa$, dimension $d = n^\kappa$", ylabel=r"exponent of $n$ in the queries")
    right.legend(loc="upper left", fontsize=10)
    right.set_title("population risk, up to logarithms", loc="left")
    figure.supxlabel(
        r"Left: logistic loss on the unit ball, $\delta = 10^{-5}$, total variation $10^{-7}$. Right: GLL22, Figure 1, and its Section 7",
        fontsize=11,
    )
    return figure
