"""Private Frank-Wolfe: each step moves towards one vertex, picked by the exponential mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount.adjacency import Adjacency
from dpaccount.calibration import calibrate
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.pair import DominatingPair
from solvers.algorithms.vertex_scores import PATHS, path_of
from solvers.arguments import known_size, noise_or_budget, setting
from solvers.budget import Budget
from solvers.gate import Gate
from solvers.losses import LinearLoss
from solvers.problem import Problem
from solvers.progress import steps as counted
from solvers.release import Release
from solvers.sets import VertexSet
from solvers.sets.known import refuse_own_set

Array = npt.NDArray[np.float64]
OWNER = "frank_wolfe"
COUNT_SHARE = 0.05  # of epsilon, for the number of records where it is private and needed
MOST_STEPS = 1000  # of the default


def frank_wolfe(
    problem: Problem,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    selection_epsilon: float | None = None,
    steps: int | None = None,
    scores: str = "auto",
    public_size: int | None = None,
    adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE,
    random: Any = None,
    progress: bool | None = None,
    reveal_unprotected: bool = False,
) -> Release:
    """``theta <- (1 - 2/(t+2)) theta + 2/(t+2) s_t``, t = 0 .. T-1, s_t a vertex picked with weights ``e^{-e0 <s, gradient>/(2 Delta)}``.

    ``Delta = min(max |s|_1 * entry_bound, max |s|_2 * lipschitz)`` bounds what one record can add to a score, so the cost in
    privacy knows nothing of the number of vertices, and the loss of accuracy only its logarithm.

    Parameters
    ----------
    problem : Problem
        Over a hull of vertices: `L1Ball`, `Simplex` or `Polytope`. For sparse data over an l1 ball ``row_norm="linf"`` bounds entries.
    epsilon, delta : float
        The budget, epsilon > 0, delta in [0, 1) or None: without delta the guarantee is pure. The largest e0 that keeps it is calibrated.
    selection_epsilon : float, instead of the budget
        e0 > 0, the range of one pick under add-or-remove.
    steps : int
        T >= 1. Default the one that balances ``2 C_f/(T + 2)`` with the error of a pick, at most 1000; needs a budget and a smooth loss.
    scores : {"auto", "plain", "incremental"}
        How scores are computed. ``incremental`` follows the one column that a pick touches and picks the same vertices; it needs a
        smooth `LinearLoss` with one output over an `L1Ball` or a `Simplex`, and is the default for sparse rows.
    public_size : int
        n for the default number of steps. Default under replace-one: the true one. Under add-or-remove and
        zero-out the number of rows is private: without `public_size` it is counted with Laplace noise, for 5 % of epsilon.
    adjacency : {"add-or-remove", "replace-one", "zero-out"}
    random : RandomSource, optional
        Default the operating system's generator.
    progress : bool, optional
        A bar on standard error: by default on a terminal alone.
    reveal_unprotected : bool
        Adds the final objective and the Frank-Wolfe gap to `Release.unprotected`. They are not private.

    Returns
    -------
    Release
        `value` is theta, in the set, with at most T entries that are not 0 over an l1 ball. `diagnostics["picks"]` are the
        vertices, covered as well.

    Guarantee
    ---------
    ``T ExponentialMechanism(e0)``, or ``T ExponentialMechanism(2 e0)`` under replace-one, plus the count's Laplace: bounded range,
    whose exact curve answers for few picks and whose e0^2/8-zCDP for many. Not Laplace noise with advanced composition.

    References
    ----------
    Talwar, Thakurta, Zhang (2015), Algorithm 2; Dong, Durfee, Rogers (2020); Raff, Khanna, Lu (2023) for incremental scores.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.algorithms import frank_wolfe
    >>> from solvers.losses import Logistic
    >>> from solvers.problem import Problem
    >>> from solvers.sets import L1Ball
    >>> x = np.eye(4)[np.arange(200) % 4]
    >>> problem = Problem(x, np.where(x[:, 0] > 0, 1, -1), Logistic(), L1Ball(5.0), row_norm="linf")
    >>> release = frank_wolfe(problem, epsilon=1.0, steps=4)
    >>> int(np.count_nonzero(release.value)) <= 4, float(release.epsilon(delta=0.0)), round(release.diagnostics["selection_epsilon"], 12)
    (True, 1.0, 0.25)
    """
    run = setting(OWNER, problem, adjacency, random, reveal_unprotected, progress)
    relation, gate = run.relation, run.gate
    feasible = _check.instance(OWNER, "problem", problem.constraint, VertexSet, "over an L1Ball, a Simplex or a Polytope")
    refuse_own_set(OWNER, feasible, "the size of the vertices")
    _check.choice(OWNER, "scores", scores, PATHS)
    path = path_of(problem, scores)
    plan = _planned(problem, gate, relation, epsilon, delta, selection_epsilon, steps, public_size)
    sensitivity, picks = score_sensitivity(problem), np.empty(plan.steps, dtype=np.int64)
    for t in counted(OWNER, plan.steps, run.progress):
        picks[t] = gate.select(-path.scores(), sensitivity=sensitivity, epsilon=plan.selection_epsilon)
        path.move(int(picks[t]), 2.0 / (t + 2.0))
    shown = {**plan.diagnostics(), "scores": path.name, "picks": picks, "secure_noise": gate.secure}
    return Release(path.theta, plan.guarantee, relation, shown, _unprotected(problem, feasible, path.theta) if run.reveal else None)


def score_sensitivity(problem: Problem) -> float:
    """How far adding or removing a record can move any vertex's score, as computed."""
    feasible = problem.constraint
    assert isinstance(feasible, VertexSet)
    by_entries = feasible.l1_radius * problem.entry_bound
    by_length = feasible.radius(problem.dimension) * problem.lipschitz
    return problem.sensitivity(min(by_entries, by_length))


def curvature_constant(problem: Problem) -> float:
    """C_f of one record's loss over the set, which bounds ``2/g^2 (l(y) - l(x) - <l'(x), y - x>)`` for y = x + g (s - x).

    ``phi'' max |x . (s - s')|^2``; the sum of n records has at most n times it. inf where the loss is not smooth.
    """
    if not isinstance(problem.loss, LinearLoss):
        return problem.smoothness * problem.diameter**2
    apart = min(2.0 * problem.reach, problem.row_bound * problem.diameter)
    return problem.loss.curvature * apart * apart


def default_steps(problem: Problem, size: float, aim: Budget) -> int:
    """T that balances ``2 n C_f/T`` and ``2 Delta ln|S|/e0``, the error of a pick, with e0 = eps/T, or sqrt(8 rho/T) for rho-zCDP."""
    each = curvature_constant(problem)
    feasible = problem.constraint
    assert isinstance(feasible, VertexSet)
    error = 2.0 * score_sensitivity(problem) * math.log(max(feasible.vertex_count(problem.dimension), 2))
    drop = 2.0 * size * each
    if aim.delta == 0.0:
        best = math.sqrt(drop * aim.epsilon / error)
    else:
        tail = -math.log(aim.delta)
        rho = (math.sqrt(aim.epsilon + tail) - math.sqrt(tail)) ** 2
        best = (2.0 * drop * math.sqrt(8.0 * rho) / error) ** (2.0 / 3.0)
    return int(min(max(round(best), 1), MOST_STEPS))


@final
@dataclass(frozen=True)
class _Plan:
    """A run, fixed before the first gradient."""

    steps: int
    selection_epsilon: float
    guarantee: DominatingPair
    size: float | None = None  # released or public, None where it was not needed

    def diagnostics(self) -> dict[str, Any]:
        """All of it follows from public or released numbers."""
        names = ("steps", "selection_epsilon", "size")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def _planned(
    problem: Problem, gate: Gate, relation: Adjacency, epsilon: Any, delta: Any, selection_epsilon: Any, steps: Any, public_size: Any
) -> _Plan:
    double = 2.0 if relation is Adjacency.REPLACE_ONE else 1.0
    total = None if steps is None else _check.count(OWNER, "steps", steps)
    given, aim = noise_or_budget(OWNER, relation, epsilon, delta, selection_epsilon, name="selection_epsilon", pure=True, open_low=True)
    if aim is None:
        assert given is not None
        if total is None:
            hint = "Its default follows from a budget."
            _check.refuse(OWNER, "steps", "given with selection_epsilon", steps, hint, TypeError)
        return _Plan(total, given, total * ExponentialMechanism(double * given))
    if total is None and math.isinf(curvature_constant(problem)):
        _check.refuse(OWNER, "steps", "given for a loss without smoothness", None, "The default balances curvature with noise.", TypeError)
    size, count = _size(problem, gate, relation, aim, total, public_size)
    if count is not None:
        aim = Budget((1.0 - COUNT_SHARE) * (1.0 - 2.0**-50) * aim.epsilon, aim.delta, relation)
    if total is None:
        assert size is not None
        total = default_steps(problem, size, aim)
    each = selection_noise(total, aim) / double
    picks = total * ExponentialMechanism(double * each)
    return _Plan(total, each, picks if count is None else picks + count, size)


def _size(
    problem: Problem, gate: Gate, relation: Adjacency, aim: Budget, steps: int | None, public_size: Any
) -> tuple[float | None, Laplace | None]:
    """The number of records as it may be used, and what it cost; None where nothing asks for it."""
    if public_size is None and steps is not None:
        return None, None
    known = known_size(OWNER, problem, relation, public_size)
    if known is not None:
        return known, None
    count = Laplace(1.0 / (COUNT_SHARE * aim.epsilon))
    found = gate.laplace(np.array([float(problem.num_records)]), sensitivity=1.0, noise_multiplier=count.noise_multiplier)
    return max(float(found[0]), 1.0), count


@lru_cache(maxsize=512)
def selection_noise(steps: int, aim: Budget) -> float:
    """The largest range eta with which `steps` picks keep the budget: eps/T where delta is 0; asked again, it is remembered."""
    if aim.delta == 0.0:
        each = aim.epsilon / steps
        return each if steps * each <= aim.epsilon else math.nextafter(each, 0.0)
    found = calibrate(
        lambda eta: steps * ExponentialMechanism(eta), epsilon=aim.epsilon, delta=aim.delta, adjacency=aim.adjacency,
        # basic composition keeps the budget, and far below it epsilon is 0 everywhere; one pick of twice the range breaks it
        bracket=(max(aim.epsilon / steps, 1e-8) * (1.0 - 1e-10), min(2.0 * aim.epsilon + 2.0, 700.0)),
    )  # fmt: skip
    return float(found)


def _unprotected(problem: Problem, feasible: VertexSet, theta: Array) -> dict[str, Any]:
    gradient = problem.gradient(theta)
    gap = float(gradient @ theta) - float(feasible.vertex_scores(gradient).min())
    return {"objective": problem.objective(theta), "frank_wolfe_gap": gap}
