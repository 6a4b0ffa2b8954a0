"""The minimiser of a smooth objective with a linear term, and a bound on its gradient that rounding is part of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import minimize

from solvers.losses import LinearLoss
from solvers.problem import Problem

Array = npt.NDArray[np.float64]
LARGEST = 1000  # parameters whose Hessian is factored
STEPS, HALVINGS = 60, 30
BLOCK = 1024  # records summed in one product when a gradient is measured
UNIT = 2.0**-53


class Objective:
    """``sum_i l_i + (regularization/2)|theta|^2 + <linear, theta>``."""

    def __init__(self, problem: Problem, regularization: float, linear: Array) -> None:
        self.problem, self.regularization, self.linear = problem, regularization, linear

    def value(self, theta: Array) -> float:
        return float(self.problem.values(theta).sum() + 0.5 * self.regularization * (theta @ theta) + self.linear @ theta)

    def gradient(self, theta: Array) -> Array:
        return self.problem.data_gradient(theta) + self.regularization * theta + self.linear

    def hessian(self, theta: Array) -> Array:
        loss = self.problem.loss
        assert isinstance(loss, LinearLoss)
        found = loss.hessian_sum(self.problem.rows, self.problem.targets, theta)
        found[np.diag_indices_from(found)] += self.regularization
        return found

    def measured(self, theta: Array) -> float:
        """An upper bound on |gradient|, in real arithmetic.

        Blocks of rows are summed in doubles and the blocks exactly. The slopes of one record are off by a few units and by
        what rounding of its score does, which smoothness bounds.
        """
        problem, n = self.problem, self.problem.num_records
        blocks = [problem.data_gradient(theta, chosen=np.arange(i, min(i + BLOCK, n))) for i in range(0, n, BLOCK)]
        total = np.array([math.fsum(column) for column in zip(*blocks, self.regularization * theta, self.linear, strict=True)])
        size = float(np.linalg.norm(theta))
        slopes = n * ((min(n, BLOCK) + 32) * problem.loss.lipschitz(problem.row_bound) + (problem.columns + 2) * problem.smoothness * size)
        rest = 4.0 * (self.regularization * size + float(np.linalg.norm(self.linear)))
        return float(np.linalg.norm(total)) * (1.0 + 1e-12) + UNIT * (slopes + rest)


def minimise(objective: Objective, tolerance: float) -> Array:
    """A point whose gradient, as computed, is at most `tolerance` if doubles allow it; what it is must be measured.

    Newton's method with halved steps where the Hessian can be factored, L-BFGS before it otherwise. The start is 0, and the draw of the
    linear term is never repeated.
    """
    size = objective.problem.dimension
    if size > LARGEST:
        return _limited(objective, tolerance)
    theta, gradient = np.zeros(size), objective.gradient(np.zeros(size))
    value = objective.value(theta)
    for _ in range(STEPS):
        norm = float(np.linalg.norm(gradient))
        if norm <= tolerance:
            break
        try:
            step = -cho_solve(cho_factor(objective.hessian(theta), check_finite=False), gradient, check_finite=False)
        except LinAlgError:
            step = -gradient / objective.regularization
        found = _shortened(objective, theta, step, value, gradient, norm)
        if found is None:
            break
        theta, value, gradient = found
    return theta


def _shortened(
    objective: Objective, theta: Array, step: Array, value: float, gradient: Array, norm: float
) -> tuple[Array, float, Array] | None:
    """The first of step, step/2, ... that lowers the value enough, or the gradient where values no longer tell; None if none does."""
    slope = float(gradient @ step)
    for halvings in range(HALVINGS):
        share = 0.5**halvings
        point = theta + share * step
        reached = objective.value(point)
        noise = 1e-12 * (abs(value) + 1.0)
        if not reached <= value + 0.1 * share * slope + noise:
            continue
        new = objective.gradient(point)
        if reached <= value + 0.1 * share * slope - noise or float(np.linalg.norm(new)) < norm:
            return point, reached, new
    return None


def _limited(objective: Objective, tolerance: float) -> Array:
    """L-BFGS to the gradient's tolerance; its own tests of progress are off."""
    size = objective.problem.dimension
    options: Any = {"maxiter": 10_000, "maxfun": 20_000, "maxcor": 30, "ftol": 0.0, "gtol": tolerance / math.sqrt(size)}
    start: Any = np.zeros(size)
    found = minimize(objective.value, start, jac=objective.gradient, method="L-BFGS-B", options=options)
    return np.asarray(found.x)
