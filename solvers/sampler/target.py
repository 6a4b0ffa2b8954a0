"""The law that is sampled, and the facts about it that bounds rest on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from solvers.losses import LinearLoss
from solvers.problem import Array, Problem
from solvers.sets import ConstraintSet
from solvers.sets.known import refuse_own_set


@final
@dataclass(frozen=True, eq=False)
class Target:
    """``exp(-k (F(x) + r |x|^2/2))`` on the problem's set, F the mean of its n losses and of ``ridge/(2n) |x|^2``.

    Written ``exp(-mean_i h_i(x) - m |x|^2/2)``: ``h_i = k f_i`` is `lipschitz`-Lipschitz, and the quadratic, which knows no record, has
    ``m = k (r + ridge/n)``.

    Parameters
    ----------
    problem : Problem
        With a finite Lipschitz constant, and 0 in its set.
    inverse_temperature : float
        k > 0.
    regularization : float
        r >= 0, with r + ridge/n > 0.

    Guarantee
    ---------
    `distance` bounds ``|x* - 0|`` for the mode x*: by the set, and by ``m |x*|^2 <= -<grad H(x*), x*> <= lipschitz |x*|``, as 0 is in
    the set. ``E|X - x*|^2 <= d/m`` for X of the law, by parts.
    """

    problem: Problem
    inverse_temperature: float
    regularization: float

    def __post_init__(self) -> None:
        owner = "Target"
        for name, low in (("inverse_temperature", 1e-100), ("regularization", 0.0)):
            object.__setattr__(self, name, _check.real(owner, name, getattr(self, name), low=low, high=1e100))
        if self.problem.enforces_gradients_only:
            hint = "Its bounds are claims: gradient_descent enforces them by clipping, but nobody can clip a value."
            _check.refuse(owner, "problem", "one with a loss of solvers.losses", self.problem, hint)
        refuse_own_set(owner, self.constraint, "the size of the set")
        if math.isinf(self.problem.lipschitz):
            _check.refuse(owner, "problem", "one whose losses have a Lipschitz bound on its set", self.problem)
        if not self.curvature >= 1e-100:
            _check.refuse(owner, "regularization", "positive where the problem has no ridge", self.regularization)
        if not self.constraint.contains(np.zeros(self.dimension)):
            _check.refuse(owner, "problem", "one with 0 in its set", self.constraint, "Shift it: the regulariser is centred at 0.")

    @property
    def constraint(self) -> ConstraintSet:
        """The set."""
        return self.problem.constraint

    @property
    def dimension(self) -> int:
        """d."""
        return self.problem.dimension

    @property
    def curvature(self) -> float:
        """m, the strong convexity of the exponent."""
        return self.inverse_temperature * (self.regularization + self.problem.ridge / self.problem.num_records)

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant of every h_i, k L."""
        return self.inverse_temperature * self.problem.lipschitz

    @property
    def smoothness(self) -> float:
        """Bound on the largest eigenvalue of the Hessian of the mean of the h_i; inf where there is none."""
        return self.inverse_temperature * self.problem.smoothness

    @property
    def distance(self) -> float:
        """Bound on the norm of the mode."""
        return min(self.constraint.radius(self.dimension), self.lipschitz / self.curvature)

    def value_and_gradient(self, points: Array) -> tuple[Array, Array]:
        """The mean of the h_i and a subgradient of it at every row of `points`: what a first-order oracle answers."""
        scale = self.inverse_temperature / self.problem.num_records
        if (scores := self._scores(points)) is None:
            values, slopes = (np.array([ask(x) for x in points]) for ask in (self._total, self.problem.data_gradient))
            return scale * values, scale * slopes
        loss, targets = self._linear, self.problem.targets[:, None]
        slopes = np.asarray(self.problem.rows.T @ loss.derivative(scores, targets)).T
        return scale * loss.value(scores, targets).sum(axis=0), scale * slopes

    def values(self, points: Array) -> Array:
        """The mean of the h_i at every row."""
        scale = self.inverse_temperature / self.problem.num_records
        if (scores := self._scores(points)) is None:
            return scale * np.array([self._total(x) for x in points])
        return np.asarray(scale * self._linear.value(scores, self.problem.targets[:, None]).sum(axis=0))

    def _total(self, point: Array) -> float:
        return float(self.problem.values(point).sum())

    @property
    def _linear(self) -> LinearLoss:
        assert isinstance(self.problem.loss, LinearLoss)
        return self.problem.loss

    def _scores(self, points: Array) -> Array | None:
        """Of all records at all points, for losses of one score a record."""
        loss = self.problem.loss
        return np.asarray(self.problem.rows @ points.T) if isinstance(loss, LinearLoss) and loss.outputs == 1 else None

    def differences(self, records: npt.NDArray[np.int64], at: Array, of: Array) -> Array:
        """h_j(at) - h_j(of), one record and one pair of points a row: two queries of a zeroth-order oracle."""
        problem, loss = self.problem, self.problem.loss
        if not isinstance(loss, LinearLoss) or loss.outputs != 1 or not isinstance(problem.rows, np.ndarray):
            hint = "The exact inner step, inner='exact', takes every problem."
            _check.refuse("Target.differences", "problem", "dense, with a loss of one score a record", problem, hint, TypeError)
        rows, targets = problem.rows[records], problem.targets[records]
        scores = (np.einsum("ij,ij->i", rows, x) for x in (at, of))
        first, second = (loss.value(z, targets) for z in scores)
        return np.asarray(self.inverse_temperature * (first - second))
