"""Every solver, with a small instance to probe and one to audit. Joining it is how a solver gets its laws tested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from solver_probes import Halved, Quartered

from solvers.algorithms import (
    exponential_mechanism,
    frank_wolfe,
    ftrl,
    gradient_descent,
    localisation,
    objective_perturbation,
    projected_noisy_sgd,
)
from solvers.algorithms.projected_noisy_sgd import record_guarantee
from solvers.estimators import PrivateLinearRegression, PrivateLogisticRegression, PrivateSparseLogisticRegression
from solvers.factorisations import BinaryTree, SquareRoot
from solvers.losses import (
    TRUSTED,
    ClippedSquared,
    HuberHinge,
    LinearLoss,
    Logistic,
    Multinomial,
    PerExampleLoss,
    PseudoHuber,
    Quantile,
    Squared,
)
from solvers.problem import Problem
from solvers.release import Release
from solvers.sets import Box, L1Ball, L2Ball, Polytope, Simplex


@dataclass(frozen=True)
class Probed:
    """How a solver runs on the rows of a neighbour search, and which labels it takes.

    `run(features, labels, adjacency, gate)` gives a Release; everything that depends on the data must pass the gate, with the same
    questions for neighbours. `adjacencies` are those it supports. `ledger` is false where the claim is smaller than the
    composition of what passed the gate, by a theorem about what is hidden.
    """

    run: Callable[..., Release]
    labels: tuple[float, ...] = (-1.0, 1.0)
    adjacencies: tuple[str, ...] = ("add-or-remove", "replace-one", "zero-out")
    ledger: bool = True
    least: float = 0.9  # of the claimed sensitivity, which the search must reach, or it has not looked well


@dataclass(frozen=True)
class Audited:
    """A worst case: `run(inside, gate)` on the data with or without a record; `statistic(release)` is a number that tells.

    `claimed` makes of a release the one whose guarantee is audited, where it is not the release itself.
    """

    run: Callable[[bool, Any], Release]
    statistic: Callable[[Release], float]
    runs: int = 1500
    delta: float = 0.05
    share: float = 0.0  # of the claimed epsilon, which the bound must reach
    claimed: Callable[[Release], Release] = lambda release: release
    fault: type[Halved] = Halved


def per_example() -> PerExampleLoss:
    """Logistic loss with a gradient that promises too little: clipping to 0.5 must hold it."""

    def value(theta, rows, labels):
        return np.logaddexp(0.0, -labels * (rows @ theta))

    def gradient(theta, rows, labels):
        rows = rows.toarray() if hasattr(rows, "toarray") else rows
        return rows * (-20.0 * labels / (1.0 + np.exp(np.clip(labels * (rows @ theta), -500, 500))))[:, None]

    return PerExampleLoss(value, gradient, gradient_bound=0.5)


def descent(loss, constraint=None, problem=None, **options):
    """A runner of gradient descent on a problem with this loss."""
    options = {"noise_multiplier": 2.0, "steps": 4, "learning_rate": 0.7, **options}

    def run(features, labels, adjacency, gate):
        made = Problem(features, labels, loss, constraint or L2Ball(4.0), **(problem or {}))
        return gradient_descent(made, adjacency=adjacency, random=gate, **options)

    return run


def counted(features, labels, adjacency, gate):
    """Defaults that need the number of records."""
    made = Problem(features, labels, Logistic(), L2Ball(4.0))
    return gradient_descent(made, adjacency=adjacency, random=gate, epsilon=1.0, delta=1e-5, steps=3)


def face(make, **options):
    """A runner of a scikit-learn face."""
    options = {"steps": 4} | options

    def run(features, labels, adjacency, gate):
        return make(adjacency=adjacency, random_state=gate, **options).fit(features, labels).release_

    return run


def wolfe(loss, feasible=None, problem=None, **options):
    """A runner of Frank-Wolfe over an l1 ball with bounded entries."""
    options = {"selection_epsilon": 1.0, "steps": 4, **options}

    def run(features, labels, adjacency, gate):
        made = Problem(features, labels, loss, feasible or L1Ball(4.0), **{"row_norm": "linf", **(problem or {})})
        return frank_wolfe(made, adjacency=adjacency, random=gate, **options)

    return run


def one_pass(loss, **options):
    """A runner of projected noisy SGD."""

    def run(features, labels, adjacency, gate):
        made = Problem(features, labels, loss, L2Ball(4.0), ridge=0.1)
        return projected_noisy_sgd(made, adjacency=adjacency, random=gate, **{"noise_multiplier": 2.0, **options})

    return run


def leader(loss, problem=None, **options):
    """A runner of DP-FTRL: two batches, two passes."""
    options = {"noise_multiplier": 2.0, "batches": 2, "epochs": 2, "learning_rate": 0.3, **options}

    def run(features, labels, adjacency, gate):
        made = Problem(features, labels, loss, L2Ball(4.0), **(problem or {}))
        return ftrl(made, adjacency=adjacency, random=gate, **options)

    return run


def phased(features, labels, adjacency, gate):
    """Two phases of two steps."""
    made = Problem(features, labels, Quantile(0.3), L2Ball(4.0))
    return localisation(made, noise_multiplier=2.0, phases=2, steps=2, learning_rate=0.3, adjacency=adjacency, random=gate)


HULL = Polytope([[4.0, 0.0, 0.0], [0.0, -3.0, 1.0], [-2.0, 2.0, 2.0], [0.0, 0.0, -4.0]])

def perturbed(loss, problem=None, **options):
    """A runner of objective perturbation."""

    def run(features, labels, adjacency, gate):
        made = Problem(features, labels, loss, L2Ball(4.0), **(problem or {}))
        return objective_perturbation(made, adjacency=adjacency, random=gate, **options)

    return run


def drawn(loss, constraint=None, problem=None, **options):
    """A runner of the exponential mechanism."""

    def run(features, labels, adjacency, gate):
        made = Problem(features, labels, loss, constraint or L2Ball(1.0), **(problem or {}))
        return exponential_mechanism(made, adjacency=adjacency, random=gate, **{"epsilon": 1.0, **options})

    return run


def small(run):
    """On the second column alone."""
    return lambda features, labels, adjacency, gate: run(features[:, [1]] if features.shape[1] else features, labels, adjacency, gate)


PROBED: dict[str, Probed] = {
    "gradient descent, logistic": Probed(descent(Logistic())),
    "gradient descent, intercept and ridge": Probed(descent(Logistic(), problem={"intercept": True, "ridge": 0.1})),
    "gradient descent, normalised rows": Probed(descent(Logistic(), problem={"row_treatment": "normalise"})),
    "gradient descent, multinomial": Probed(descent(Multinomial(3)), labels=(0.0, 1.0, 2.0)),
    "gradient descent, squared": Probed(descent(Squared(2.0)), labels=(-1e9, 0.0, 5.0)),
    "gradient descent, squared, clipped": Probed(descent(Squared(2.0), Box(-3.0, 3.0), clipping_norm=1.0), labels=(-1e9, 0.0, 5.0)),
    "gradient descent, clipped residual": Probed(descent(ClippedSquared(0.5)), labels=(-1e300, 0.1, 1e300)),
    "gradient descent, hinge": Probed(descent(HuberHinge())),
    "gradient descent, quantile": Probed(descent(Quantile(0.3)), labels=(-9.0, 0.0, 9.0)),
    "gradient descent, own loss": Probed(descent(per_example())),
    "gradient descent, clipped harder": Probed(descent(Logistic(), clipping_norm=0.2)),
    "gradient descent, entries bounded": Probed(descent(Logistic(), problem={"row_norm": "linf"})),
    "gradient descent, Poisson batches": Probed(descent(Logistic(), sampling_probability=0.3)),
    "gradient descent, last iterate": Probed(descent(Logistic(), output="last")),
    "gradient descent, counted": Probed(counted),
    "logistic face": Probed(face(PrivateLogisticRegression, classes=(-1.0, 1.0))),
    "logistic face, clipped rows": Probed(face(PrivateLogisticRegression, classes=(-1.0, 1.0), row_treatment="clip")),
    "logistic face, three classes": Probed(face(PrivateLogisticRegression, classes=(0, 1, 2)), labels=(0.0, 1.0, 2.0)),
    "logistic face, pure": Probed(face(PrivateLogisticRegression, delta=0.0, classes=(-1.0, 1.0)), ledger=False),
    "logistic face, perturbed": Probed(
        face(PrivateLogisticRegression, algorithm="objective_perturbation", classes=(0, 1, 2)), (0.0, 1.0, 2.0), ledger=False
    ),
    "linear face, pure": Probed(face(PrivateLinearRegression, delta=0.0), labels=(-1e300, 0.0, 1e-300, 3.0), ledger=False),
    "linear face, perturbed": Probed(
        face(PrivateLinearRegression, algorithm="objective_perturbation", label_range=(-2.0, 3.0)), (-1e300, 0.0, 1e300), ledger=False
    ),
    "sparse face": Probed(face(PrivateSparseLogisticRegression, classes=(-1.0, 1.0), steps=12)),
    "linear face": Probed(face(PrivateLinearRegression, label_range=(-2.0, 3.0)), labels=(-1e300, 0.0, 1e300)),
    "linear face, range found": Probed(face(PrivateLinearRegression), labels=(-1e300, 0.0, 1e-300, 3.0)),
    "projected noisy SGD": Probed(one_pass(ClippedSquared(0.5)), (-1e300, 0.1, 1e300), ("replace-one",), ledger=False),
    "projected noisy SGD, random order": Probed(
        one_pass(Logistic(), order="random", method="contraction"), adjacencies=("replace-one",), ledger=False, least=0.55
    ),
    "FTRL": Probed(leader(Quantile(0.3)), labels=(-9.0, 0.0, 9.0)),
    "FTRL, tree, intercept and ridge": Probed(
        leader(Logistic(), {"intercept": True, "ridge": 0.1}, factorisation=BinaryTree(4, "full"), output="average"), least=0.8
    ),
    "FTRL, bands, clipped": Probed(leader(Squared(2.0), factorisation=SquareRoot(4, 2), clipping_norm=0.4), (-1e9, 0.0, 5.0)),
    "FTRL, buffers": Probed(leader(Logistic(), factorisation="buffered"), least=0.8),
    "localisation": Probed(phased, labels=(-9.0, 0.0, 9.0), ledger=False),
    "Frank-Wolfe, logistic": Probed(wolfe(Logistic(), scores="plain")),
    "Frank-Wolfe, incremental": Probed(wolfe(Logistic(), problem={"intercept": True, "ridge": 0.1}, scores="incremental")),
    "Frank-Wolfe, squared": Probed(wolfe(Squared(2.0), Simplex(4.0)), labels=(-1e9, 0.0, 5.0)),
    "Frank-Wolfe, multinomial": Probed(wolfe(Multinomial(3)), labels=(0.0, 1.0, 2.0), least=0.7),
    "Frank-Wolfe, hull, rows of bounded length": Probed(wolfe(HuberHinge(), HULL, {"row_norm": "l2"})),
    "Frank-Wolfe, counted": Probed(wolfe(Logistic(), selection_epsilon=None, steps=None, epsilon=0.5)),
    "Frank-Wolfe, own loss": Probed(wolfe(per_example(), problem={"row_norm": "l2"})),
    "objective perturbation, pure": Probed(perturbed(Logistic(), epsilon=1.0), ledger=False),
    "objective perturbation, intercept and ridge": Probed(
        perturbed(Logistic(), {"intercept": True, "ridge": 0.1}, noise_multiplier=2.0, law="gaussian", regularization=1.0), ledger=False
    ),
    "objective perturbation, pseudo-huber": Probed(perturbed(PseudoHuber(0.5), epsilon=1.0), (-1e300, 0.1, 1e300), ledger=False),
    "objective perturbation, multinomial": Probed(perturbed(Multinomial(3), epsilon=1.0), labels=(0.0, 1.0, 2.0), ledger=False),
    "exponential mechanism, logistic": Probed(drawn(Logistic())),
    "exponential mechanism, hinge in a box": Probed(drawn(HuberHinge(0.1), Box(-1.0, 1.0))),
    "exponential mechanism, squared": Probed(small(drawn(Squared(2.0), Box(-1.0, 1.0))), labels=(-1e9, 0.0, 5.0)),
    "exponential mechanism, clipped residual": Probed(small(drawn(ClippedSquared(0.5), Box(-1.0, 2.0))), labels=(-1e300, 0.1, 1e300)),
    "exponential mechanism, pseudo-huber": Probed(small(drawn(PseudoHuber(0.5), Box(-1.0, 2.0))), (-1e300, 0.1, 1e300), least=0.6),
    "exponential mechanism, quantile": Probed(small(drawn(Quantile(0.3), Box(-2.0, 1.0), delta=1e-3)), labels=(-9.0, 0.0, 9.0)),
}


CANARY = {
    # a record whose gradient is the same wherever theta goes, beside one that has none
    True: Problem([[0.0], [1.0]], [0.0, 1e9], Quantile()),
    False: Problem([[0.0]], [0.0], Quantile()),
}


def canary_descent(inside, gate):
    return gradient_descent(CANARY[inside], noise_multiplier=1.0, steps=2, learning_rate=1.0, output="last", random=gate, progress=False)


AXIS = {inside: Problem(made.rows, made.targets, Quantile(), L1Ball(1.0)) for inside, made in CANARY.items()}


def canary_wolfe(inside, gate):
    return frank_wolfe(AXIS[inside], selection_epsilon=3.0, steps=1, random=gate, progress=False)


LAST = {
    # exchanging the only record of a pass turns a gradient that is the same everywhere
    inside: Problem([[1.0]], [1e9 if inside else -1e9], ClippedSquared(), Box(-99.0, 99.0)) for inside in (True, False)
}


def canary_pass(inside, gate):
    options = {"noise_multiplier": 1.4, "step_size": 1.0, "adjacency": "replace-one"}
    return projected_noisy_sgd(LAST[inside], random=gate, progress=False, **options)


BEFORE = {
    # the second of four: two steps hide it, whose gradients are the same everywhere
    inside: Problem(np.ones((4, 1)), [1e9, 1e9 if inside else -1e9, 1e9, 1e9], ClippedSquared(), Box(-1e3, 1e3)) for inside in (True, False)
}
MIXED = {inside: Problem(np.ones((2, 1)), [1e9, 1e9 if inside else -1e9], ClippedSquared(), Box(-1e3, 1e3)) for inside in (True, False)}


def canary_early(inside, gate):
    return projected_noisy_sgd(BEFORE[inside], noise_multiplier=0.9, step_size=1.0, random=gate, progress=False)


@lru_cache(maxsize=4)
def second_of(noise_multiplier):
    release = projected_noisy_sgd(BEFORE[True], noise_multiplier=noise_multiplier, step_size=1.0, progress=False)
    return record_guarantee(release, 2)


def canary_order(inside, gate):
    options = {"noise_multiplier": 1.2, "step_size": 1.0, "order": "random", "method": "contraction"}
    return projected_noisy_sgd(MIXED[inside], random=gate, progress=False, **options)


def canary_leader(inside, gate):
    return ftrl(CANARY[inside], batches=1, epochs=2, noise_multiplier=1.0, learning_rate=1.0, random=gate, progress=False)


PHASED = {
    # the record of the last phase is exchanged; the ridge forgets what the phase before left
    inside: Problem(np.ones((2, 1)), [1e9, 1e9 if inside else -1e9], ClippedSquared(), ridge=4.0) for inside in (True, False)
}


def canary_phases(inside, gate):
    options = {"phases": 2, "steps": 2, "noise_multiplier": 2.0, "learning_rate": 1.0, "rows": [[0], [1]], "adjacency": "replace-one"}
    return localisation(PHASED[inside], random=gate, progress=False, **options)


@dataclass(frozen=True)
class Pull(LinearLoss):
    """phi = y z: no curvature, so a record moves theta as far as its slope allows."""

    @property
    def smooth(self):
        return True

    @property
    def curvature(self):
        return 1e-9

    def slope(self, reach=np.inf):
        return 1.0

    def targets(self, owner, labels, size):
        return np.asarray(labels, dtype=float)

    def value(self, scores, targets):
        return scores * targets

    def derivative(self, scores, targets):
        return np.ones(scores.shape) * targets

    def second_derivative(self, scores, targets):
        return np.zeros(scores.shape)


TRUSTED.add(Pull)  # here its claims are true: labels are 0 and 1
PULLED = {inside: Problem([[0.0], [1.0]][: 1 + inside], [0.0, 1.0][: 1 + inside], Pull(), Box(-1e6, 1e6)) for inside in (True, False)}


def canary_perturbation(inside, gate, law="gamma"):
    return objective_perturbation(PULLED[inside], noise_multiplier=1.0, law=law, regularization=1.0, random=gate)


def canary_gaussian(inside, gate):
    return canary_perturbation(inside, gate, "gaussian")


def number(release):
    return float(release.value[0])


AUDITED: dict[str, Audited] = {
    "localisation": Audited(canary_phases, number, runs=1000, share=0.6),
    "projected noisy SGD, an early record": Audited(canary_early, number, 1000, share=0.55, claimed=lambda _: second_of(0.9)),
    "projected noisy SGD, random order": Audited(canary_order, number, 1000, share=0.4, fault=Quartered),
    "FTRL": Audited(canary_leader, number, runs=800, share=0.6),
    "projected noisy SGD": Audited(canary_pass, number, runs=1000, share=0.6),
    "objective perturbation, pure": Audited(canary_perturbation, number, runs=800, share=0.6),
    "objective perturbation, Gaussian": Audited(canary_gaussian, number, runs=1400, share=0.5),
    "Frank-Wolfe": Audited(canary_wolfe, number, runs=1000, share=0.65),
    "gradient descent": Audited(canary_descent, number, share=0.7),
}
