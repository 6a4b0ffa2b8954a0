"""The regularised exponential mechanism: one draw from a strongly log-concave law, for empirical or population risk."""

from __future__ import annotations

import math
from typing import Any

from dpaccount import _check
from dpaccount.adjacency import Adjacency
from dpaccount.curves.approximate import approximate_draw
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.pair import Guarantee
from dpaccount.regularized import RegularizedExponentialMechanism
from solvers.arguments import setting
from solvers.budget import budget
from solvers.problem import Problem
from solvers.release import Release
from solvers.sampler.chain import expected_seconds, sample
from solvers.sampler.plan import INNER, Plan, planned
from solvers.sampler.target import Target

OWNER = "regularized_exponential"
RISKS = ("empirical", "population")
SLACK = 0.05  # of delta, for the sampler's distance in total variation
ROOM = 0.005  # of delta, for the chords of the sampler's curve
LONGEST = 86_400.0  # seconds, where `most_steps` is not given
SHORT = 50_000_000  # records times steps that no machine needs a day for


def regularized_exponential(
    problem: Problem,
    *,
    epsilon: float,
    delta: float,
    risk: str = "empirical",
    inner: str = "exact",
    rule: str = "sharp",
    radius: float | None = None,
    most_steps: int | None = None,
    adjacency: str | Adjacency = Adjacency.REPLACE_ONE,
    random: Any = None,
    progress: bool | None = None,
    reveal_unprotected: bool = False,
) -> Release:
    """One draw x from ``exp(-k (F(x) + r |x|^2/2))`` on the problem's set, F the mean of the losses (and ``ridge/(2n) |x|^2``).

    Parameters
    ----------
    problem : Problem
        On the whole space, a ball, an l1 ball, a box or half-spaces, with 0 in it; losses with a Lipschitz bound.
    epsilon, delta : float
        The budget, epsilon > 0 and delta in (0, 1/2).
    risk : {"empirical", "population"}
        Which bound (k, r) makes smallest: see ``RegularizedExponentialMechanism``.
    inner : {"exact", "differences", "values", "series", "poisson"}
        How the sampler's inner steps ask: by values and gradients of F; by values of F alone (``differences`` for smooth losses on
        bounded sets, ``values`` for all); or by values of single losses (dense rows, losses of one score). See ``planned``.
    rule : {"sharp", "rigorous"}
        Of the step size, for ``series``.
    radius : float
        Largest norm in the set, where (k, r) should be for another one: a guess of |x*| on the whole space and on half-spaces. It
        costs no privacy.
    most_steps : int
        A longer run is refused before it begins, with what it would take by a short timing on this machine. Default: a day.
    adjacency : {"replace-one"}
        The only relation: F is a mean, so n is public.
    random : RandomSource, optional
        Default the operating system's generator.
    progress : bool, optional
        A bar on standard error: by default on a terminal alone.
    reveal_unprotected : bool
        Adds effective sample size, acceptance rates and numbers of queries to `Release.unprotected`. They are not private.

    Returns
    -------
    Release
        `value` is the draw.

    Guarantee
    ---------
    The exact law is ``G sqrt(k)/(n sqrt(r + ridge/n))``-GDP, G twice the Lipschitz constant of a loss (GLL22, Theorem 4.1); the
    sampler is within t of it in total variation, which `approximate_draw` adds: ``delta + (1 + e^eps) t``. Both are calibrated together.

    References
    ----------
    GLL22, Theorems 6.2, 6.4, 6.8, 6.9; LST21 for the sampler.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.algorithms import regularized_exponential
    >>> from solvers.losses import Logistic
    >>> from solvers.problem import Problem
    >>> from solvers.sets import L2Ball
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> release = regularized_exponential(Problem(x, np.sign(x[:, 0]), Logistic(), L2Ball(5.0)), epsilon=1.0, delta=1e-5)
    >>> float(release.epsilon(delta=1e-5)) <= 1.0
    True
    """
    run = setting(OWNER, problem, adjacency, random, reveal_unprotected, progress)
    aim, gate = budget(OWNER, epsilon, delta, run.relation), run.gate
    if aim.adjacency is not Adjacency.REPLACE_ONE:
        hint = "The mechanism averages losses, so it knows the number of records; `gradient_descent` keeps it private."
        _check.refuse(OWNER, "adjacency", "'replace-one'", str(aim.adjacency), hint)
    _check.choice(OWNER, "risk", risk, RISKS)
    _check.choice(OWNER, "inner", inner, INNER)
    t = SLACK * aim.delta / (1.0 + math.exp(aim.epsilon))
    law = _law(problem, aim.epsilon, aim.delta * (1.0 - SLACK - ROOM), risk, radius)
    target = Target(problem, law.inverse_temperature, law.regularization)
    plan = planned(target, t, inner=inner, rule=rule)
    _affordable(target, plan, None if most_steps is None else _check.count(OWNER, "most_steps", most_steps))
    guarantee = _guarantee(law, plan, aim.epsilon, aim.delta)
    draws = sample(target, plan, source=gate.source, progress=run.progress)
    shown = {
        "inverse_temperature": law.inverse_temperature, "regularization": law.regularization, "total_variation": plan.total_variation,
        "steps": plan.steps, "step_size": plan.step_size, "inner": inner, "secure_noise": gate.secure,
    }
    unprotected = dict(draws.diagnostics()) if run.reveal else None
    point = problem.constraint.project(gate.drawn(draws.points[0], plan.last_scale(target)))
    return Release(point, guarantee, aim.adjacency, shown, unprotected)


def _law(problem: Problem, epsilon: float, delta: float, risk: str, radius: float | None) -> RegularizedExponentialMechanism:
    size = problem.constraint.radius(problem.dimension) if radius is None else _check.real(OWNER, "radius", radius, low=0.0, open_low=True)
    if math.isinf(size):
        _check.refuse(OWNER, "radius", "given on the whole space and on half-spaces", radius, "A guess of the norm of the minimiser.")
    if math.isinf(problem.lipschitz):
        hint = "Squared loss has one on a bounded set; ClippedSquared has one everywhere."
        _check.refuse(OWNER, "problem", "one whose losses have a Lipschitz bound", problem, hint)
    kind = RegularizedExponentialMechanism
    make = kind.for_empirical_risk if risk == "empirical" else kind.for_population_risk
    return make(
        epsilon=epsilon, delta=delta, lipschitz=2.0 * problem.lipschitz, num_records=problem.num_records, dimension=problem.dimension,
        diameter=size, strong_convexity=problem.ridge / problem.num_records,
    )


def _affordable(target: Target, plan: Plan, most: int | None) -> None:
    """Refuse a run that nobody would wait for, before it begins; the time is that of some of its steps here and now."""
    if plan.steps <= most if most is not None else plan.steps * target.problem.num_records <= SHORT:
        return
    seconds = expected_seconds(target, plan)
    if most is None and seconds <= LONGEST:
        return
    _check.refuse(
        OWNER, "most_steps", f"at least {plan.steps}, some {seconds / 3600.0:.2g} hours, for this budget and inner={plan.inner!r}", most,
        "inner='exact' and 'differences' take far fewer steps where losses are smooth, 'values' where they are not; so do a smaller "
        "epsilon and fewer records.",
    )


def _guarantee(law: RegularizedExponentialMechanism, plan: Plan, epsilon: float, delta: float) -> Guarantee:
    guarantee = approximate_draw(law.pair, plan.total_variation, Adjacency.REPLACE_ONE)
    found = float(PrivacyProfile(guarantee, Adjacency.REPLACE_ONE).delta(epsilon=epsilon))
    if found > delta:
        hint = "Its tables are too coarse here."
        _check.refuse(OWNER, "delta", f"at least {found:g} for what the sampler earned", delta, hint, RuntimeError)
    return guarantee
