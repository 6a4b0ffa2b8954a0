"""Noisy gradient descent: full batch (DP-GD) or Poisson batches (DP-SGD), averaged or last iterate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount.adjacency import Adjacency
from dpaccount.calibration import calibrate
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair, Step
from dpaccount.results import NumericalFailure
from dpaccount.sampling.poisson import PoissonSampled
from solvers.arguments import (
    PRIVATE_SIZE,
    Setting,
    clip_of,
    diameter_of,
    known_size,
    noise_or_budget,
    positive,
    setting,
    start_of,
)
from solvers.budget import Budget, gaussian_steps_noise, gradient_descent_noise, least_gaussian
from solvers.gate import Gate
from solvers.problem import Problem
from solvers.progress import steps as counted
from solvers.release import Release

Array = npt.NDArray[np.float64]
OWNER = "gradient_descent"
OUTPUTS = ("average", "tail", "last")
COUNT_SHARE = 0.05  # of the squared GDP parameter, for the number of records where it is private and needed
MOST_STEPS = 200  # of the default: beyond it the bound of Theorem 6.11 hardly falls, and time grows


def gradient_descent(
    problem: Problem,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    steps: int | None = None,
    sampling_probability: float = 1.0,
    output: str = "average",
    learning_rate: float | None = None,
    reach: float | None = None,
    stable: bool = False,
    clipping_norm: float | None = None,
    start: Any = None,
    public_size: int | None = None,
    before: DominatingPair | None = None,
    adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE,
    random: Any = None,
    progress: bool | None = None,
    reveal_unprotected: bool = False,
) -> Release:
    """``theta <- Proj_C(theta - eta (sum of clipped gradients + ridge theta + N(0, (sigma L)^2 I)))``, T times (Algorithm 3).

    Parameters
    ----------
    problem : Problem
    epsilon, delta : float, together
        The budget, epsilon > 0 and delta in (0, 1): the least noise that keeps it is calibrated.
    noise_multiplier : float, instead of the budget
        sigma >= 0, noise over the clipping norm. At 0 the guarantee is infinite.
    steps : int
        T >= 1. Default ``min(n^2 epsilon^2/p, 200)``, Theorem 6.11's number where it is small; needs a budget.
    sampling_probability : float
        q in (0, 1]: each step looks at each record with this probability; 1 is the full batch.
    output : {"average", "tail", "last"}
        The mean of theta_1 .. theta_T (Algorithm 3), of their second half, or theta_T. All of them are covered either way.
    learning_rate : float
        eta > 0. Default the one of Theorem 6.11, ``|C|/(G sqrt T)`` with ``G^2 = L^2 ((q n)^2 + q (1-q) n + p sigma^2)``; at most
        1/ridge. It needs a bounded set.
    reach : float, instead of `learning_rate`
        The step with which noise alone would move theta this far in T steps, in root mean square:
        ``eta = reach/(sigma L sqrt(p T))``. It needs neither a bounded set nor the number of records.
    stable : bool
        No step longer than ``1/(q n beta + ridge)``, beta the smoothness of one loss: what squared losses need. It needs n.
    clipping_norm : float
        L > 0. Default `problem.lipschitz`, where clipping does nothing.
    start : array
        theta_0 in C. Default the point of C nearest to 0.
    public_size : int
        n for the defaults. Default under replace-one: the true one, which is public there. Under add-or-remove it is private, and under
        zero-out the rows, from which absent records are left out, do not tell it: without `public_size`, defaults that need it use a count
        of the rows with Gaussian noise, for 5 % of the budget's mu^2.
    before : DominatingPair
        What earlier releases about the same records cost, such as a scale that this run uses: the budget and the guarantee hold for all.
    adjacency : {"add-or-remove", "replace-one", "zero-out"}
    random : RandomSource, optional
        Default the operating system's generator.
    progress : bool, optional
        A bar on standard error: by default on a terminal alone.
    reveal_unprotected : bool
        Adds the final objective, the gradient's norm and what clipping takes off it to `Release.unprotected`. They are not private.

    Returns
    -------
    Release
        `value` is theta; see `Problem.split`.

    Guarantee
    ---------
    ``T Gaussian(sigma)``, or ``T PoissonSampled(Gaussian(sigma), q)``, plus the count's Gaussian: for any loss, convex or not,
    since gradients are clipped. With q < 1 under replace-one the pair is the worst known one and **not proved** to dominate:
    ``diagnostics["proved"]`` is False then, answers carry ``Status.UNPROVED``, and a budget is kept as far as is known.
    Theorem 6.10's noise is in the diagnostics for comparison: 50.03 where 37.31 is enough, at T = 100, epsilon = 1, delta = 1e-5.

    References
    ----------
    Algorithm 3 and Theorems 6.10, 6.11 of the chapter (BST14, ACG16, SSTT21).

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.algorithms import gradient_descent
    >>> from solvers.losses import Logistic
    >>> from solvers.problem import Problem
    >>> from solvers.sets import L2Ball
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> problem = Problem(x, np.sign(x[:, 0]), Logistic(), L2Ball(5.0))
    >>> release = gradient_descent(problem, epsilon=1.0, delta=1e-5, steps=20, public_size=50)
    >>> release.value.shape, round(float(release.epsilon(delta=1e-5)), 6)
    ((1,), 1.0)
    """
    run = setting(OWNER, problem, adjacency, random, reveal_unprotected, progress)
    _check.choice(OWNER, "output", output, OUTPUTS)
    theta = start_of(OWNER, problem, start)
    pace = _Pace(learning_rate, reach, _check.flag(OWNER, "stable", stable))
    plan = _planned(
        problem, run, epsilon, delta, noise_multiplier, steps, sampling_probability, pace, clipping_norm, public_size, before
    )
    theta = _run(problem, run.gate, plan, theta, output, run.progress)
    unprotected = _unprotected(problem, theta, plan.clip) if run.reveal else None
    shown = {**plan.diagnostics(), "output": output, "secure_noise": run.gate.secure}
    if plan.sampling_probability < 1.0 and run.relation is Adjacency.REPLACE_ONE:
        shown["proved"] = False
    return Release(theta, plan.guarantee, run.relation, shown, unprotected)


@final
@dataclass(frozen=True)
class _Pace:
    """A learning rate, or how far noise may move theta, or neither: then the theorem's step; and whether curvature limits it."""

    learning_rate: float | None
    reach: float | None
    stable: bool

    def __post_init__(self) -> None:
        for name in ("learning_rate", "reach"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, positive(OWNER, name, getattr(self, name), high=1e100))
        if self.learning_rate is not None and self.reach is not None:
            _check.refuse(OWNER, "reach", "given without learning_rate", self.reach, "Each settles the step.", TypeError)

    @property
    def needs_size(self) -> bool:
        return self.stable or (self.learning_rate is None and self.reach is None)

    def check(self, problem: Problem, noise_multiplier: float | None) -> None:
        """Refuse what no noise and no number of records can change, before either is drawn or worked out."""
        if self.stable and math.isinf(problem.smoothness):
            _check.refuse(OWNER, "stable", "False for a loss without smoothness", True, "It has no longest stable step.")
        if self.reach is not None and noise_multiplier == 0.0:
            _check.refuse(OWNER, "reach", "given with noise", self.reach, "Without noise, state a learning_rate.")
        if self.learning_rate is None and self.reach is None:
            diameter_of(OWNER, problem, "learning_rate")

    def rate(self, problem: Problem, steps: int, sigma: float, probability: float, clip: float, size: float | None) -> float:
        rate = self._free(problem, steps, sigma, probability, clip, size)
        if not self.stable:
            return rate
        assert size is not None
        return min(rate, 1.0 / (probability * size * problem.smoothness + problem.ridge))

    def _free(self, problem: Problem, steps: int, sigma: float, probability: float, clip: float, size: float | None) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        if self.reach is None:
            assert size is not None
            return default_rate(problem, steps, sigma, probability, clip, size)
        return _capped(problem, self.reach / (sigma * clip * math.sqrt(problem.dimension * steps)))


@final
@dataclass(frozen=True)
class _Plan:
    """A run, fixed before the first gradient."""

    steps: int
    sampling_probability: float
    noise_multiplier: float
    clip: float
    learning_rate: float
    guarantee: DominatingPair
    size: float | None = None  # released or public, None where it was not needed
    theorem_noise: float | None = None

    def diagnostics(self) -> dict[str, Any]:
        """All of it follows from public or released numbers."""
        names = ("steps", "sampling_probability", "noise_multiplier", "learning_rate", "size", "theorem_noise")
        shown = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return {**shown, "clipping_norm": self.clip}


def _planned(
    problem: Problem, run: Setting, epsilon: Any, delta: Any, noise_multiplier: Any, steps: Any, probability: Any, pace: _Pace,
    clipping_norm: Any, public_size: Any, before: Any,
) -> _Plan:
    q = _check.real(OWNER, "sampling_probability", probability, low=0.0, high=1.0, open_low=True, hint="Did you pass a batch size?")
    clip = clip_of(OWNER, problem, clipping_norm)
    given, aim = noise_or_budget(OWNER, run.relation, epsilon, delta, noise_multiplier)
    total = None if steps is None else _check.count(OWNER, "steps", steps)
    if before is not None:
        _check.instance(OWNER, "before", before, DominatingPair, "a dominating pair, such as the guarantee of an earlier release")
    pace.check(problem, given)
    size, count = _size(problem, run, aim, public_size) if pace.needs_size or total is None else (None, None)
    if count is not None:
        before = count if before is None else before + count
    if aim is not None and total is not None:
        _least_noise(aim, total, q, before)  # what it refuses is refused before the count is drawn; it is remembered
    if count is not None:
        size = _counted(problem, run.gate, count)
    if total is None:
        total = _default_steps(problem, aim, size)
    sigma = given if aim is None else _least_noise(aim, total, q, before)
    assert sigma is not None
    rate = pace.rate(problem, total, sigma, q, clip, size)
    theorem = None if aim is None or q < 1.0 else gradient_descent_noise(total, aim.epsilon, aim.delta)
    return _Plan(total, q, sigma, clip, rate, _composed(total, sigma, q, before), size, theorem)


def _size(problem: Problem, run: Setting, aim: Budget | None, public_size: Any) -> tuple[float | None, Gaussian | None]:
    """The number of records if it is public, or the noise with which rows may be counted."""
    known = known_size(OWNER, problem, run.relation, public_size)
    if known is not None:
        return known, None
    if aim is None:
        hint = f"{PRIVATE_SIZE}; with steps, and a learning_rate or a reach, none is needed."
        _check.refuse(OWNER, "public_size", "given with noise_multiplier where a default needs it", public_size, hint, TypeError)
    return None, Gaussian(least_gaussian(aim.epsilon, aim.delta, run.relation) / math.sqrt(COUNT_SHARE))


def _counted(problem: Problem, gate: Gate, count: Gaussian) -> float:
    """The number of rows with that noise, at least 1."""
    found = gate.gaussian(np.array([float(problem.num_records)]), sensitivity=1.0, noise_multiplier=count.noise_multiplier)
    return max(float(found[0]), 1.0)


def _default_steps(problem: Problem, aim: Budget | None, size: float | None) -> int:
    if aim is None:
        _check.refuse(OWNER, "steps", "given with noise_multiplier", None, "Its default follows from a budget.", TypeError)
    assert size is not None
    return int(min(max(math.ceil(size * size * aim.epsilon**2 / problem.dimension), 1), MOST_STEPS))


@lru_cache(maxsize=256)
def _least_noise(aim: Budget, steps: int, probability: float, before: DominatingPair | None) -> float:
    """The least noise multiplier with which the steps, after `before`, keep the budget."""
    closed = gaussian_steps_noise(aim, steps, before) if probability == 1.0 else None
    if closed is not None:
        return closed
    family = partial(_composed, steps, probability=probability, before=before)
    found = float(calibrate(family, epsilon=aim.epsilon, delta=aim.delta, adjacency=aim.adjacency))
    for more in (0.0, *(1e-9 * 8.0**k for k in range(8))):  # what reading epsilon back by another route can lose
        kept = PrivacyProfile(family(found * (1.0 + more)), aim.adjacency).epsilon(delta=aim.delta)
        if kept.upper <= aim.epsilon:
            return found * (1.0 + more)
    raise NumericalFailure(f"`gradient_descent` cannot confirm epsilon <= {aim.epsilon:g} at delta = {aim.delta:g} near noise {found:g}.")


def _composed(steps: int, sigma: float, probability: float, before: DominatingPair | None) -> DominatingPair:
    step: Step = Gaussian(sigma) if probability == 1.0 else PoissonSampled(Gaussian(sigma), probability)
    return steps * step if before is None else steps * step + before


def default_rate(problem: Problem, steps: int, noise_multiplier: float, probability: float, clip: float, size: float) -> float:
    """Theorem 6.11's step: ``|C|/(G sqrt T)``, ``G^2`` the bound on E|noisy gradient|^2; no more than 1/ridge."""
    diameter = diameter_of(OWNER, problem, "learning_rate")
    batch = probability * size
    squared = batch * batch + batch * (1.0 - probability) + problem.dimension * noise_multiplier**2
    return _capped(problem, diameter / (clip * math.sqrt(squared * steps)))


def _capped(problem: Problem, rate: float) -> float:
    """No step so long that the ridge alone would overshoot."""
    return min(rate, 1.0 / problem.ridge) if problem.ridge else rate


def _run(problem: Problem, gate: Gate, plan: _Plan, theta: Array, output: str, progress: bool | None) -> Array:
    sensitivity, first = problem.sensitivity(plan.clip), plan.steps // 2 if output == "tail" else 0
    total = np.zeros(problem.dimension)
    for t in counted(OWNER, plan.steps, progress):
        chosen = None if plan.sampling_probability == 1.0 else gate.poisson_batch(problem.num_records, plan.sampling_probability)
        gradient = problem.data_gradient(theta, plan.clip, chosen)
        noisy = gate.gaussian(gradient, sensitivity=sensitivity, noise_multiplier=plan.noise_multiplier)
        theta = problem.constraint.project(theta - plan.learning_rate * (noisy + plan.sampling_probability * problem.ridge * theta))
        if t >= first:
            total += theta
    return theta if output == "last" else problem.constraint.project(total / (plan.steps - first))


def _unprotected(problem: Problem, theta: Array, clip: float) -> dict[str, Any]:
    free, clipped = problem.data_gradient(theta), problem.data_gradient(theta, clip)
    norms = {"gradient_norm": float(np.linalg.norm(free)), "clipped_by": float(np.linalg.norm(free - clipped))}
    return {"objective": problem.objective(theta), **norms}
