"""Objective perturbation: the minimiser of the loss plus a noisy linear term, pure or Gaussian, by approximate minima (Algorithm 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from dpaccount import _check
from dpaccount.adjacency import Adjacency
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.pair import DominatingPair, Guarantee
from solvers.arguments import noise_or_budget, setting
from solvers.budget import Budget
from solvers.losses import LinearLoss
from solvers.newton import Objective, minimise
from solvers.perturbation import Curvature, GaussianCost, PureCost, largest_mu, theorem_regularization
from solvers.problem import Problem
from solvers.release import Release

Array = npt.NDArray[np.float64]
OWNER = "objective_perturbation"
LAWS = ("gamma", "gaussian")
TOLERANCE = 1e-5  # of the gradient, over the Lipschitz constant
MOST_EPSILON = 700.0
FAR = 1e6  # stands for an infinite bound, and points to larger Delta
PURE_SHARE, GAUSSIAN_SHARE = 0.01, 0.05  # of the output noise: of epsilon; of mu


def objective_perturbation(
    problem: Problem,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    law: str | None = None,
    regularization: float | None = None,
    gradient_tolerance: float | None = None,
    before: DominatingPair | None = None,
    adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE,
    random: Any = None,
    reveal_unprotected: bool = False,
) -> Release:
    """``argmin sum_i l_i + (Delta/2)|theta|^2 + <b, theta>`` on the whole space, plus output noise, then projected onto C.

    Parameters
    ----------
    problem : Problem
        With a loss of x . theta that is twice continuously differentiable and Lipschitz everywhere: `Logistic`, `Multinomial`,
        `PseudoHuber`.
    epsilon, delta : float
        The budget; without delta, or with delta = 0, the release is purely epsilon-DP.
    noise_multiplier : float, instead of the budget
        lam > 0, noise over the Lipschitz constant L. Needs `law` and `regularization`.
    law : {"gamma", "gaussian"}
        Of b: density proportional to ``e^{-|b|/(L lam)}``, which is pure, or N(0, (L lam)^2 I). Default by the budget. From three
        classes on |b| is the sum of the l2 norms of b's columns, one a class, and L bounds the same sum for a gradient.
    regularization : float
        Delta > 0, no less than the problem's ridge, which is part of it. Default the one that makes the bound on the excess risk
        least, ``(E|b|^2/Delta + Delta rho^2)/2`` with rho the radius of C: it looks at no record and needs a bounded set.
    gradient_tolerance : float
        gamma > 0, which the gradient's norm must not exceed. Default 1e-5 L.
    before : DominatingPair, with a budget
        What earlier releases about the same records cost, such as a scale that this run uses: the budget and the guarantee hold for all.
        Of Gaussians, which share the Gaussian law's curve, and of steps with a pure epsilon, which is taken off the budget's.
    adjacency : {"add-or-remove", "replace-one", "zero-out"}
    random : RandomSource, optional
        Default the operating system's generator.
    reveal_unprotected : bool
        Adds the objective and the measured gradient to `Release.unprotected`. They are not private.

    Returns
    -------
    Release
        `value` is theta; see `Problem.split`.

    Guarantee
    ---------
    `solvers.perturbation.PureCost` or `GaussianCost`: of the exact minimiser, composed with output noise for a gradient of norm up to
    gamma, which puts the computed point within gamma/Delta of it. The gradient is measured after the solve, rounding included, and a
    larger one is refused, an error that depends on the data. Nothing is drawn again: another call is another release.

    References
    ----------
    Algorithm 2, Theorems 6.7 and 6.9 of the chapter (CMS11, KST12); approximate minima INSTTW19; Gaussian accounting after RKW23.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.algorithms import objective_perturbation
    >>> from solvers.losses import Logistic
    >>> from solvers.problem import Problem
    >>> from solvers.sets import L2Ball
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> problem = Problem(x, np.sign(x[:, 0]), Logistic(), L2Ball(5.0))
    >>> release = objective_perturbation(problem, epsilon=1.0)
    >>> release.value.shape, round(float(release.epsilon(delta=0.0)), 6)
    ((1,), 1.0)
    """
    run = setting(OWNER, problem, adjacency, random, reveal_unprotected)
    relation, gate = run.relation, run.gate
    bounds = _bounds(problem)
    earlier = _before(before, relation)
    plan = _planned(problem, bounds, relation, epsilon, delta, noise_multiplier, law, regularization, earlier)
    limit = TOLERANCE * bounds.lipschitz
    if gradient_tolerance is not None:
        limit = _check.real(OWNER, "gradient_tolerance", gradient_tolerance, low=0.0, open_low=True)
    pure = plan.law == "gamma"
    b = gate.objective_noise(
        problem.data_gradient, problem.dimension, sensitivity=problem.sensitivity(bounds.block_sum if pure else bounds.lipschitz),
        noise_multiplier=plan.noise_multiplier, law=plan.law, blocks=bounds.blocks if pure else 1,
    )  # fmt: skip
    objective = Objective(problem, plan.regularization, b)
    theta = minimise(objective, 0.5 * limit)
    reached = objective.measured(theta)
    if not reached <= limit:
        hint = "The bound that is accounted for is not reached; the draw is spent, and nothing is released."
        _check.refuse(OWNER, "gradient_tolerance", "reached by the solver", f"more than {limit:g}", hint)
    theta = gate.covered(theta, error=limit / plan.regularization, noise_multiplier=plan.output_multiplier, law=plan.law)
    theta = problem.constraint.project(theta)
    unprotected = {"objective": problem.objective(theta), "gradient_norm": reached} if run.reveal else None
    shown = {**plan.diagnostics(), "gradient_tolerance": limit, "secure_noise": gate.secure}
    return Release(theta, earlier.beside(plan.cost.guarantee(*plan.through)), relation, shown, unprotected)


@final
@dataclass(frozen=True)
class _Before:
    """What came earlier: a Gaussian-DP parameter, and the pure rest with its epsilon."""

    mu: float = 0.0
    rest: DominatingPair | None = None
    epsilon: float = 0.0

    def beside(self, guarantee: Guarantee) -> Guarantee:
        return guarantee if self.rest is None else self.rest + guarantee


def _before(given: DominatingPair | None, relation: Adjacency) -> _Before:
    if given is None:
        return _Before()
    pair: DominatingPair = _check.instance(OWNER, "before", given, DominatingPair, "a DominatingPair")
    squares, rest = [0.0], None
    for step, count in pair.terms:
        if isinstance(step, Gaussian) and step.noise_multiplier > 0.0:
            squares.append(count / step.noise_multiplier**2)
        else:
            rest = count * step if rest is None else rest + count * step
    double = 2.0 if relation is Adjacency.REPLACE_ONE else 1.0
    mu = double * math.sqrt(math.fsum(squares)) * (1.0 + 1e-15)
    if rest is None:
        return _Before(mu)
    epsilon = PrivacyProfile(rest, relation).epsilon(delta=0.0).upper
    if not math.isfinite(epsilon):
        _check.refuse(OWNER, "before", "of Gaussians and steps with a pure epsilon", given)
    return _Before(mu, rest, float(epsilon) * (1.0 + 1e-12))


@final
@dataclass(frozen=True)
class _Bounds:
    """What privacy rests on, over the whole space.

    A gradient is x phi', K columns; its norm is at most `lipschitz`, and the norms of its columns add up to at most `block_sum`. From
    three classes on, noise for that sum is smaller: sqrt K 2 q against K sqrt 2 q in norm, q entries a column.
    """

    lipschitz: float
    block_sum: float
    blocks: int
    smoothness: float
    curvature: Curvature
    span: int
    one_signed: bool


def _bounds(problem: Problem) -> _Bounds:
    loss, reach = problem.loss, problem.row_bound
    if problem.enforces_gradients_only:
        hint = "Its slope and curvature are claims, and nothing is clipped here; gradient_descent enforces them by clipping."
        _check.refuse(OWNER, "problem", "with a loss of solvers.losses", loss, hint)
    if not isinstance(loss, LinearLoss) or not loss.smooth:
        hint = "At a kink the output can be a record itself: see `solvers.risk.facts.median_atom`."
        _check.refuse(OWNER, "problem", "with a twice continuously differentiable loss of x . theta", loss, hint)
    lipschitz = loss.lipschitz(reach)
    if math.isinf(lipschitz):
        _check.refuse(OWNER, "problem", "with a loss that is Lipschitz on the whole space", loss, "The minimum is taken there.")
    largest = min(loss.curvature, loss.curvature_sum / loss.hessian_rank) * reach * reach
    curvature = Curvature(largest, loss.hessian_rank, loss.logistic, loss.saturating)
    blocks = loss.outputs if loss.outputs > 2 else 1
    block_sum = loss.slope_sum * reach if blocks > 1 else lipschitz
    return _Bounds(lipschitz, block_sum, blocks, loss.smoothness(reach), curvature, loss.gradient_span, loss.one_signed)


@final
@dataclass(frozen=True)
class _Plan:
    """A run, fixed before any record is looked at."""

    law: str
    noise_multiplier: float
    output_multiplier: float
    regularization: float
    cost: PureCost | GaussianCost
    theorem: float | None = None
    aim: float | None = None

    @property
    def through(self) -> tuple[float, ...]:
        return (self.aim,) if isinstance(self.cost, GaussianCost) and self.aim is not None else ()

    def diagnostics(self) -> dict[str, Any]:
        """Public: no record was asked."""
        names = ("law", "noise_multiplier", "output_multiplier", "regularization")
        theorem = {} if self.theorem is None else {"theorem_regularization": self.theorem}
        return {**{name: getattr(self, name) for name in names}, **theorem}


def _planned(
    problem: Problem, bounds: _Bounds, relation: Adjacency, epsilon: Any, delta: Any, noise_multiplier: Any, law: Any, regularization: Any,
    earlier: _Before,
) -> _Plan:
    if law is not None:
        _check.choice(OWNER, "law", law, LAWS)
    fixed = None if regularization is None else _check.real(OWNER, "regularization", regularization, low=0.0, open_low=True)
    if fixed is not None and fixed < problem.ridge:
        _check.refuse(OWNER, "regularization", f"at least the problem's ridge, {problem.ridge:g}", fixed, "The ridge is part of it.")
    pure = law != "gaussian" and not delta
    lam, aim = noise_or_budget(OWNER, relation, epsilon, delta, noise_multiplier, pure=pure, low=1e-6, high=1e12)
    if aim is None:
        assert lam is not None
        if earlier != _Before():
            _check.refuse(OWNER, "before", "given with a budget alone", noise_multiplier, kind=TypeError)
        if law is None:
            _check.refuse(OWNER, "law", "given with noise_multiplier", law, kind=TypeError)
        if fixed is None:
            _check.refuse(OWNER, "regularization", "given with noise_multiplier", fixed, "Its default follows from a budget.", TypeError)
        return _pure(lam, PURE_SHARE / lam, fixed, bounds, relation) if law == "gamma" else _gaussian(1.0 / lam, fixed, bounds, relation)
    if law == "gamma" and not pure:
        hint = "Gamma noise is pure: leave delta out, or ask for the Gaussian law."
        _check.refuse(OWNER, "delta", "0 or left out with law='gamma'", delta, hint)
    if pure and earlier.mu:
        _check.refuse(OWNER, "before", "pure where the budget is", earlier.mu, "Gaussian noise has no pure guarantee.")
    if not earlier.epsilon < aim.epsilon:
        _check.refuse(OWNER, "epsilon", f"above what was spent before, {earlier.epsilon:g}", aim.epsilon)
    aim = replace(aim, epsilon=aim.epsilon - earlier.epsilon)
    return _for_pure(problem, bounds, aim, fixed) if pure else _for_gaussian(problem, bounds, aim, fixed, earlier.mu)


def _for_pure(problem: Problem, bounds: _Bounds, aim: Budget, fixed: float | None) -> _Plan:
    output = PURE_SHARE * aim.epsilon
    left, p = (aim.epsilon - output) * (1.0 - 1e-13), problem.dimension // bounds.blocks

    def noise(delta: float) -> float:
        return PureCost.noise(left, delta, bounds.curvature, aim.adjacency)

    def spread(delta: float) -> float:
        return math.sqrt(bounds.blocks * p * (p + 1.0)) * bounds.block_sum * noise(delta)

    chosen = _regularization(problem, bounds, fixed, spread, aim.epsilon)
    lam = noise(chosen)
    if math.isinf(lam):
        _too_little(bounds, chosen, left)
    theorem = theorem_regularization(aim.epsilon, bounds.smoothness, bounds.curvature.rank)
    return _pure(lam, output, chosen, bounds, aim.adjacency, theorem)


def _pure(lam: float, output: float, chosen: float, bounds: _Bounds, relation: Adjacency, theorem: float | None = None) -> _Plan:
    cost = PureCost(lam, chosen, bounds.curvature, output, relation)
    return _Plan("gamma", lam, 1.0 / output, chosen, cost, theorem)


def _for_gaussian(problem: Problem, bounds: _Bounds, aim: Budget, fixed: float | None, earlier: float) -> _Plan:
    def multiplier(delta: float, precision: float = 1e-12) -> float:
        mu = largest_mu(lambda m: _gaussian_cost(m, delta, bounds, aim.adjacency, earlier), aim.epsilon, aim.delta, precision)
        return 1.0 / mu if mu else math.inf

    def spread(delta: float) -> float:
        return math.sqrt(problem.dimension) * bounds.lipschitz * multiplier(delta, 0.01)

    if aim.epsilon > MOST_EPSILON:
        _check.refuse(OWNER, "epsilon", f"at most {MOST_EPSILON:g}", aim.epsilon, "e^epsilon must be a finite double.")
    aim = replace(aim, epsilon=aim.epsilon * (1.0 - 1e-10))  # what reading the curve's table back can lose
    if earlier and math.isinf(multiplier(1e12 * bounds.smoothness, 0.01)):
        _check.refuse(OWNER, "before", "such that it leaves something of the budget", earlier, "Alone it spends all of it.")
    chosen = _regularization(problem, bounds, fixed, spread, aim.epsilon)
    lam = multiplier(chosen)
    if math.isinf(lam):
        _too_little(bounds, chosen, aim.epsilon)
    return _gaussian(1.0 / lam, chosen, bounds, aim.adjacency, aim.epsilon, earlier)


def _gaussian(
    mu: float, chosen: float, bounds: _Bounds, relation: Adjacency, aim: float | None = None, earlier: float = 0.0
) -> _Plan:
    cost = _gaussian_cost(mu, chosen, bounds, relation, earlier)
    return _Plan("gaussian", 1.0 / mu, 1.0 / (GAUSSIAN_SHARE * mu), chosen, cost, aim=aim)


def _gaussian_cost(mu: float, chosen: float, bounds: _Bounds, relation: Adjacency, earlier: float = 0.0) -> GaussianCost:
    determinant = bounds.curvature.log_determinant(chosen)
    return GaussianCost(mu, determinant, math.hypot(GAUSSIAN_SHARE * mu, earlier), bounds.span, bounds.one_signed, relation)


def _regularization(problem: Problem, bounds: _Bounds, fixed: float | None, spread: Any, epsilon: float) -> float:
    """The Delta given, or the minimiser of ``(E|b|^2/Delta + Delta rho^2)/2``, where `spread` is sqrt(E|b|^2) at Delta.

    The unconstrained minimiser t has ``L(t) - L(theta) <= Delta (|theta|^2 - |t|^2)/2 + <b, theta - t>`` for every theta, and
    ``-<b, t> - Delta |t|^2/2 <= |b|^2/(2 Delta)``; b has mean 0. At fixed noise the minimiser is sqrt(E|b|^2)/rho.
    """
    if fixed is not None:
        return fixed
    radius = problem.constraint.radius(problem.dimension)
    if math.isinf(radius):
        hint = "The default weighs it against the size of the set, such as L2Ball(10.0)."
        _check.refuse(OWNER, "regularization", "given where the set is unbounded", None, hint)

    def bound(log_delta: float) -> float:
        found = math.exp(log_delta)
        size = spread(found)
        return math.log(size * size / found + found * radius * radius) if math.isfinite(size) else FAR - log_delta

    low = math.log(spread(1e15 * bounds.smoothness) / radius)  # the minimiser if the Hessian cost nothing
    least = 4.0 * bounds.curvature.largest / math.expm1(min(epsilon, 1.0) / bounds.curvature.rank)  # a quarter leaves nothing for noise
    high = max(low, math.log(1e3 * bounds.smoothness * bounds.curvature.rank), math.log(least)) + 3.0
    best = minimize_scalar(bound, bounds=(low - 0.1, high), method="bounded", options={"xatol": 0.1})
    return max(math.exp(float(best.x)), problem.ridge)


def _too_little(bounds: _Bounds, chosen: float, epsilon: float) -> None:
    least = bounds.curvature.largest / math.expm1(epsilon / bounds.curvature.rank)
    _check.refuse(OWNER, "regularization", f"above {least:.6g} for this budget", chosen, "The Hessian alone costs the whole of it.")
