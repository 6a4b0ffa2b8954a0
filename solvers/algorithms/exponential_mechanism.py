"""The exponential mechanism on a convex set, by exact samplers alone (Algorithm 1)."""

from __future__ import annotations

import math
from typing import Any

from dpaccount.adjacency import Adjacency
from dpaccount.calibration import calibrate
from dpaccount.mechanisms.exponential import ExponentialMechanism
from solvers.arguments import setting
from solvers.budget import Budget, budget
from solvers.exact import ConvexDensity
from solvers.problem import Problem
from solvers.release import Release

OWNER = "exponential_mechanism"


def exponential_mechanism(
    problem: Problem,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE,
    random: Any = None,
    reveal_unprotected: bool = False,
) -> Release:
    """A draw from C with density proportional to ``exp(-(eta/v) (sum_i l_i + (ridge/2)|theta|^2))``, in one to three dimensions.

    v bounds the range of one record's loss over C: L |C|, as in Algorithm 1, or what the loss itself says, which is half of it for the
    logistic loss on a ball around 0.

    Parameters
    ----------
    problem : Problem
        With a loss of one score x . theta (`Logistic`, `HuberHinge`, `Squared`, `ClippedSquared`, `PseudoHuber`, `Quantile`), at
        most three parameters, the intercept counted, on a bounded set of `solvers.sets` with an interior. Scores must vary by 1e-9
        of the labels, the margin or themselves; where they vary less, rounding would decide.
    epsilon, delta : float
        The budget; without delta, or with delta = 0, it is pure.
    adjacency : {"add-or-remove", "replace-one", "zero-out"}
        A record moves the sum by a function of range v, an exchange by twice that: eta is epsilon, or epsilon/2 under replace-one.
    random : RandomSource, optional
        Default the operating system's generator.
    reveal_unprotected : bool
        Adds the objective at the draw to `Release.unprotected`. It is not private.

    Returns
    -------
    Release
        `value` is theta; see `Problem.split`.

    Guarantee
    ---------
    ``ExponentialMechanism(eta)`` under add-or-remove and zero-out, of 2 eta under replace-one: a bounded range, hence pure epsilon.
    Algorithm 1 at epsilon is the draw at eta = epsilon/2 and v = L |C|: it is epsilon-DP under replace-one, and epsilon/2-DP under
    add-or-remove, a factor two that an audit sees. No approximate draw has a pure guarantee: one within total variation t has
    ``dpaccount.approximate_draw(guarantee, t, adjacency)``. The draw is exact but for doubles: v is widened by 2^-11 for what sums lose.
    Whether a draw is refused can depend on the records, which no guarantee covers: where the sampler would need more than 20,000 boxes,
    or rounding puts a tangent above its function.

    References
    ----------
    Algorithm 1 and Theorem 6.4 of the chapter (MT07, BST14); bounded range DDR20.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.algorithms import exponential_mechanism
    >>> from solvers.losses import Quantile
    >>> from solvers.problem import Problem
    >>> from solvers.sets import Box
    >>> salaries = np.arange(20.0, 80.0)
    >>> median = Problem(np.ones((60, 1)), salaries, Quantile(0.5), Box(0.0, 200.0))
    >>> release = exponential_mechanism(median, epsilon=1.0)
    >>> release.value.shape, round(float(release.epsilon(delta=0.0)), 6)
    ((1,), 1.0)
    """
    run = setting(OWNER, problem, adjacency, random, reveal_unprotected)
    aim, gate = budget(OWNER, epsilon, delta, run.relation, pure=True), run.gate
    density = ConvexDensity(problem)
    reach = _range(aim)
    eta = reach / 2.0 if aim.adjacency is Adjacency.REPLACE_ONE else reach
    sensitivity = problem.sensitivity(density.variation())
    theta = gate.sample(density, sensitivity=sensitivity, epsilon=eta)
    shown = {"range": reach, "rate": eta / sensitivity, "secure_noise": gate.secure}
    unprotected = {"objective": problem.objective(theta)} if run.reveal else None
    return Release(theta, ExponentialMechanism(reach), aim.adjacency, shown, unprotected)


def _range(aim: Budget) -> float:
    """The largest bounded range that keeps the budget."""
    if aim.delta == 0.0 or aim.epsilon > 300.0:  # a range of epsilon keeps it; so far out delta buys next to nothing
        return aim.epsilon
    beyond = 2.0 - 4.0 * math.log1p(-math.sqrt(aim.delta))  # with so much more range delta is larger
    least = max(aim.epsilon, 1e-8) * (1.0 - 1e-10)  # below epsilon delta is 0 all along; a hair for rounding
    bracket = (least, min(2.0 * aim.epsilon + beyond, 700.0))
    return float(calibrate(ExponentialMechanism, epsilon=aim.epsilon, delta=aim.delta, adjacency=aim.adjacency, bracket=bracket))
