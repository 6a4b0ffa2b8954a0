"""Projected noisy SGD: one pass, one record a step, and only the last iterate leaves; its privacy is amplified by the later steps."""

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
from dpaccount.iteration.face import LastIterate
from dpaccount.iteration.pnsgd import PNSGD
from dpaccount.mechanisms.curve import CurvePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.pair import DominatingPair, Guarantee
from solvers.arguments import diameter_of, noise_or_budget, positive, setting, start_of
from solvers.budget import Budget
from solvers.gate import Gate
from solvers.grid import hidden_reach
from solvers.problem import Problem
from solvers.progress import steps as counted
from solvers.release import Release
from solvers.sets.known import refuse_own_set

Array = npt.NDArray[np.float64]
OWNER = "projected_noisy_sgd"
ORDERS = ("given", "random", "random stopping")
NOISES = ("gaussian", "laplace")
POINTS = 200  # of a table of a curve, evenly, and fewer towards 0
ROOM = 1e-9  # of the noise, which keeps a table's chords and roundings within the budget


def projected_noisy_sgd(
    problem: Problem,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    noise: str = "gaussian",
    order: str = "given",
    step_size: float | None = None,
    start: Any = None,
    method: str = "best",
    adjacency: str | Adjacency = Adjacency.REPLACE_ONE,
    random: Any = None,
    progress: bool | None = None,
    reveal_unprotected: bool = False,
) -> Release:
    """``Y_t = Proj_C(Y_{t-1} - eta (grad f(Y_{t-1}; x_t) + Z_t))``, t = 1 .. n, f = l + (ridge/(2n))|theta|^2; Y_n alone is released.

    Parameters
    ----------
    problem : Problem
        With a convex loss whose gradients are bounded by bounded rows alone, and a finite smoothness. Clipping of gradients would break the
        contraction that the theorems rest on, so that there is none here. On a set of `solvers.sets`.
    epsilon, delta : float, together
        The budget of every record, epsilon > 0, delta in (0, 1); with Laplace noise delta may be 0 or None.
    noise_multiplier : float, instead of the budget
        The scale of Z over the Lipschitz constant, >= 0; before the step size multiplies it.
    noise : {"gaussian", "laplace"}
        Laplace is for one dimension and a bounded set.
    order : {"given", "random", "random stopping"}
        Records as they stand; in a uniformly random order; or as they stand, but stopped after T steps, T uniform on 1 .. n.
    step_size : float
        eta in (0, 2/(smoothness + strong convexity)], which is checked. Default ``|C|/sqrt(n (L^2 + p sigma^2))``, at most that.
    start : array
        Y_0 in C. Default the point of C nearest to 0.
    method : {"best", "sharpest", "contraction", "shifted", "rdp"}
        Which theorem of `dpaccount.iteration.PNSGD` the guarantee rests on; "best" is the least of the published ones.
    adjacency : {"replace-one"}
        Adding a record shifts the places of all that follow, so other relations are refused. n is public here.
    random : RandomSource, optional
        Default the operating system's generator.
    progress : bool, optional
        A bar on standard error: by default on a terminal alone. A random stopping shows none, as its length is random.
    reveal_unprotected : bool
        Adds the final objective to `Release.unprotected`. It is not private.

    Returns
    -------
    Release
        `value` is the last iterate. ``diagnostics["accounting"]`` answers for each record: see `record_guarantee`.

    Guarantee
    ---------
    Uniform over records. In the given order the last record has no step after its own: ``Gaussian(noise_multiplier)``, or Laplace, and
    earlier records are better off. A random order or stopping gives every record the mean: a `CurvePair` through the theorem's
    values. It holds only if nobody sees anything but the value.

    References
    ----------
    Asoodeh, Diaz, Calmon (2020), Theorems 3 to 5; Feldman and others (2018); Bok, Su, Altschuler (2024).

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.algorithms import projected_noisy_sgd
    >>> from solvers.algorithms.projected_noisy_sgd import record_guarantee
    >>> from solvers.losses import Logistic
    >>> from solvers.problem import Problem
    >>> from solvers.sets import L2Ball
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> problem = Problem(x, np.sign(x[:, 0]), Logistic(), L2Ball(2.0))
    >>> release = projected_noisy_sgd(problem, epsilon=2.0, delta=1e-5)
    >>> round(float(release.epsilon(delta=1e-5)), 6), round(float(record_guarantee(release, index=1).epsilon(delta=1e-5)), 3)
    (2.0, 0.234)
    """
    run = setting(OWNER, problem, adjacency, random, reveal_unprotected, progress)
    relation, gate = run.relation, run.gate
    if relation is not Adjacency.REPLACE_ONE:
        _check.refuse(OWNER, "adjacency", "'replace-one'", str(relation), "Adding a record shifts the places of all that follow it.")
    plan = _planned(problem, epsilon, delta, noise_multiplier, noise, order, step_size, method)
    theta = _run(problem, gate, plan, start_of(OWNER, problem, start), run.progress)
    shown = {**plan.diagnostics(), "secure_noise": gate.secure}
    return Release(theta, plan.guarantee, relation, shown, {"objective": problem.objective(theta)} if run.reveal else None)


def record_guarantee(release: Release, index: int, method: str = "best") -> Release:
    """The same release with the guarantee of one record, used at step `index` (1 .. n) of the given order; the last has the least.

    Where a record stands must not depend on what it holds.
    """
    run = release.diagnostics.get("accounting")
    found: PNSGD = _check.instance("record_guarantee", "release", run, PNSGD, "of projected_noisy_sgd in the given order")
    place = _check.count("record_guarantee", "index", index, maximum=found.num_records)
    pair = curve_pair(found, method, index=place)
    return Release(release.value, pair, release.adjacency, {**release.diagnostics, "index": place}, release.unprotected)


def curve_pair(run: LastIterate, method: str, at: float | None = None, index: int | None = None) -> CurvePair:
    """A pair through the theorem's values at some 240 epsilons and `at`, with chords between: an upper bound that composes."""
    levels = [np.linspace(0.0, 1.0, POINTS + 1), np.geomspace(1e-4, 1.0, 40)]
    top = min(float(run.epsilon(log_delta=-60.0, index=index, method=method)), 600.0) if not run.noiseless else 1.0
    epsilon = np.unique(np.concatenate([top * v for v in levels] + [[] if at is None else [at]]))
    delta = np.asarray(run.delta(epsilon, index=index, method=method).upper)
    return CurvePair(tuple(epsilon.tolist()), tuple(delta.tolist()), relation=str(Adjacency.REPLACE_ONE), upper_bound=True)


@final
@dataclass(frozen=True)
class _Plan:
    """A run, fixed before the first gradient."""

    run: PNSGD
    order: str
    noise_multiplier: float
    guarantee: Guarantee
    clip: float  # the Lipschitz constant, which rows enforce

    def diagnostics(self) -> dict[str, Any]:
        """All of it is public; the number of records is, under replace-one."""
        shown = {"steps": self.run.num_records, "noise_multiplier": self.noise_multiplier, "step_size": self.run.step_size}
        hidden = _hidden(self.run, self.order)
        return {**shown, "order": self.order, "noise": self.run.noise, "accounting": hidden}


def _hidden(run: PNSGD, order: str) -> LastIterate:
    return {"given": lambda: run, "random": run.random_permutation, "random stopping": run.random_stopping}[order]()


def _planned(
    problem: Problem, epsilon: Any, delta: Any, noise_multiplier: Any, noise: Any, order: Any, step_size: Any, method: Any
) -> _Plan:
    _check.choice(OWNER, "noise", noise, NOISES)
    _check.choice(OWNER, "order", order, ORDERS)
    _check_assumptions(problem, noise)
    given, aim = noise_or_budget(OWNER, Adjacency.REPLACE_ONE, epsilon, delta, noise_multiplier, pure=noise == "laplace")
    rate = None if step_size is None else _step_size(problem, step_size)

    def run(multiplier: float) -> PNSGD:
        return _setting(problem, noise, multiplier, _default_step(problem, multiplier) if rate is None else rate)

    at = given if aim is None else _least(run, aim, order, method)
    assert at is not None
    made = run(at)
    _hidden(made, order).theorem(method)  # a method that does not hold is refused here
    guarantee: DominatingPair = {"gaussian": Gaussian, "laplace": Laplace}[noise](at)
    if order != "given":
        guarantee = _curve(made, order, method, None if aim is None else aim.epsilon)
    return _Plan(made, order, at, guarantee, problem.lipschitz)


@lru_cache(maxsize=64)
def _curve(run: PNSGD, order: str, method: str, at: float | None) -> CurvePair:
    """The guarantee of all records; asked again, it is remembered."""
    return curve_pair(_hidden(run, order), method, at)


def _check_assumptions(problem: Problem, noise: str) -> None:
    if problem.enforces_gradients_only:
        hint = "Clipped gradients need not contract; only losses of solvers.losses are bounded by their rows."
        _check.refuse(OWNER, "loss", "one whose gradients bounded rows bound", problem.loss, hint)
    refuse_own_set(OWNER, problem.constraint, "the diameter of the set, and on a projection that moves no two points apart")
    if math.isinf(problem.smoothness):
        _check.refuse(OWNER, "loss", "a smooth loss", problem.loss, "Gradient steps of a loss with a kink need not contract.")
    if math.isinf(problem.lipschitz):
        hint = "This loss is Lipschitz on a bounded set alone, such as L2Ball(10.0)."
        _check.refuse(OWNER, "constraint", "a bounded set for this loss", problem.constraint, hint)
    if noise == "laplace" and (problem.dimension > 1 or math.isinf(problem.diameter)):
        hint = "Its theorem is about an interval."
        _check.refuse(OWNER, "noise", "'gaussian' beyond one dimension or on an unbounded set", noise, hint)


def _convexity(problem: Problem) -> tuple[float, float]:
    """beta and rho of one step's loss, the record's share of the ridge included."""
    share = problem.ridge / problem.num_records
    return problem.smoothness + share, share


def _step_size(problem: Problem, step_size: Any) -> float:
    beta, rho = _convexity(problem)
    most = 2.0 / (beta + rho)
    hint = "Beyond 2/(smoothness + strong_convexity) a gradient step may move points apart."
    return positive(OWNER, "step_size", step_size, high=most, hint=hint)


def _default_step(problem: Problem, multiplier: float) -> float:
    diameter = diameter_of(OWNER, problem, "step_size")
    beta, rho = _convexity(problem)
    length = problem.lipschitz * math.sqrt(1.0 + problem.dimension * multiplier**2)
    return min(diameter / (length * math.sqrt(problem.num_records)), 2.0 / (beta + rho))


def _setting(problem: Problem, noise: str, multiplier: float, step_size: float) -> PNSGD:
    """What the theorems are told: all of it follows from the loss, the bound on rows and the set. The ridge knows no record."""
    beta, rho = _convexity(problem)
    lipschitz = problem.sensitivity(problem.lipschitz)
    return PNSGD(
        problem.num_records, lipschitz, beta, rho, step_size, max(problem.diameter, 1e-20), noise, multiplier * lipschitz, "spectrum"
    )


def _least(run: Any, aim: Budget, order: str, method: str) -> float:
    """The least noise multiplier that keeps the budget for every record."""
    if order == "given":
        kind = {"gaussian": Gaussian, "laplace": Laplace}[run(1.0).noise]
        return float(calibrate(kind, epsilon=aim.epsilon, delta=aim.delta, adjacency=aim.adjacency))

    def family(multiplier: float) -> Any:
        return _Asked(_hidden(run(multiplier), order), method)

    return float(calibrate(family, epsilon=aim.epsilon, delta=aim.delta, bracket=(1e-6, 1e9))) * (1.0 + ROOM)


@final
@dataclass(frozen=True)
class _Asked:
    """A run asked by one method, as `calibrate` asks."""

    run: LastIterate
    method: str

    def delta(self, epsilon: Any) -> Any:
        return self.run.delta(epsilon, method=self.method)

    def epsilon(self, delta: Any) -> Any:
        return self.run.epsilon(delta, method=self.method)


def _run(problem: Problem, gate: Gate, plan: _Plan, theta: Array, progress: bool | None) -> Array:
    """Noise is added to the moved iterate. Hidden iterates are not rounded, so that steps contract; the one that leaves is."""
    n, eta, law = problem.num_records, plan.run.step_size, plan.run.noise
    order = gate.source.permutation(n) if plan.order == "random" else np.arange(n)
    last = int(gate.source.integers(n, 1)[0]) + 1 if plan.order == "random stopping" else n
    share = problem.ridge / n
    noise = {"sensitivity": eta * problem.sensitivity(plan.clip), "noise_multiplier": plan.noise_multiplier}
    _check_digits(problem, n, noise["sensitivity"], plan.noise_multiplier)
    seen = gate.gaussian if law == "gaussian" else gate.laplace
    shown = False if plan.order == "random stopping" else progress  # a bar would tell when it stops
    for t in counted(OWNER, last, shown):
        moved = theta - eta * (problem.data_gradient(theta, chosen=order[t : t + 1]) + share * theta)
        noisy = seen(moved, **noise) if t == last - 1 else gate.hidden(moved, law=law, steps=n, **noise)
        theta = problem.constraint.project(noisy)
    return theta


def _check_digits(problem: Problem, steps: int, sensitivity: float, noise_multiplier: float) -> None:
    """Before the first draw, for what is public: the longest iterate of a bounded set."""
    longest, most = problem.constraint.radius(problem.dimension), hidden_reach(steps, problem.dimension, sensitivity)
    if noise_multiplier > 0.0 and math.isfinite(longest) and longest > most:
        domain = f"at least {longest / most:.3g} times as large on this set"
        _check.refuse(OWNER, "step_size", domain, sensitivity / problem.lipschitz, "The last digits of so many short steps would add up.")
