"""Scores of vertices along a Frank-Wolfe path: from the whole gradient each time, or following what one pick changes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from dpaccount import _check
from solvers.losses import LinearLoss
from solvers.problem import CHUNK, WHOLE, Problem
from solvers.sets import L1Ball, Simplex, VertexSet

sparse: Any = scipy.sparse
Array = npt.NDArray[np.float64]
PATHS = ("auto", "plain", "incremental")
DRIFT = 2.0**39  # steps times n^2, after which the gradient is summed anew: rounding stays below 2^-13 of a sensitivity


class PlainPath:
    """theta, and the scores by one product with the rows and one with their transpose a step."""

    name = "plain"

    def __init__(self, problem: Problem) -> None:
        assert isinstance(problem.constraint, VertexSet)
        self.problem, self.feasible = problem, problem.constraint
        self.theta = self.feasible.start(problem.dimension)

    def scores(self) -> Array:
        """<s, gradient> of every vertex s."""
        gradient = self._data_gradient() + self.problem.ridge * self.theta
        return self.feasible.vertex_scores(gradient)

    def _data_gradient(self) -> Array:
        return self.problem.data_gradient(self.theta, self.problem.lipschitz)

    def move(self, pick: int, share: float) -> None:
        """``theta <- (1 - share) theta + share s``."""
        self.theta = (1.0 - share) * self.theta + share * self.feasible.vertex(pick, self.problem.dimension)


class IncrementalPath(PlainPath):
    """The same for vertices that are multiples of axes, where a pick touches one column.

    Scores of records follow that column, ``z <- (1 - share) z + share R x_j``, and depend on nothing but their own row and the
    picks, as in the plain path. The gradient moves by what the slopes of records changed, ``g <- g + X' (phi'(z) - phi'(z_before))``;
    records that no picked column touches keep z = 0 and cost nothing. Sums that drift are made anew.
    """

    name = "incremental"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        loss = problem.loss
        assert isinstance(loss, LinearLoss)
        self.loss, self.rows, self.targets = loss, problem.rows, problem.targets
        self.columns, self.transposed = sparse.csc_array(problem.rows), problem.rows.T
        self.size = problem.constraint.size  # type: ignore[attr-defined]
        self.z = np.asarray(self.rows @ self.theta)
        self.slopes, self.moves = self._slopes(), 0
        self.gradient = self._summed()

    def _slopes(self) -> Array:
        found = self.loss.derivative(self.z, self.targets)
        if not np.isfinite(found).all():
            _check.refuse("frank_wolfe", "problem", "one in which every gradient is finite", _check.WITHHELD)
        return found

    def _summed(self) -> Array:
        """X' phi'(z), in products of as many records as `Problem.sensitivity` counts on."""
        if self.problem.num_records <= WHOLE:
            return np.asarray(self.transposed @ self.slopes)
        total = np.zeros(self.problem.dimension)
        for start in range(0, self.problem.num_records, CHUNK):
            total += self.rows[start : start + CHUNK].T @ self.slopes[start : start + CHUNK]
        return total

    def _data_gradient(self) -> Array:
        before, self.slopes = self.slopes, self._slopes()
        changed = np.flatnonzero(before != self.slopes)
        self.moves += 1
        if 2 * changed.size > len(before) or self.moves * float(len(before)) ** 2 > DRIFT:
            self.gradient, self.moves = self._summed(), 0
        elif changed.size:
            self.gradient = self.gradient + np.asarray(self.rows[changed].T @ (self.slopes - before)[changed])
        return self.gradient

    def move(self, pick: int, share: float) -> None:
        super().move(pick, share)
        dimension = self.problem.dimension
        column, length = pick % dimension, self.size if pick < dimension else -self.size
        self.z *= 1.0 - share
        part = slice(self.columns.indptr[column], self.columns.indptr[column + 1])
        self.z[self.columns.indices[part]] += share * length * self.columns.data[part]


def path_of(problem: Problem, scores: str) -> PlainPath:
    """The path that `scores` names, or for ``auto`` the incremental one where rows are sparse and it exists."""
    loss = problem.loss
    single = isinstance(loss, LinearLoss) and not problem.enforces_gradients_only and loss.outputs == 1 and math.isfinite(loss.curvature)
    able = single and isinstance(problem.constraint, (L1Ball, Simplex))
    if scores == "incremental" and not able:
        hint = "It follows one column a pick and one score a record, and slopes that do not jump: rounding could tell the paths apart."
        _check.refuse("frank_wolfe", "scores", "'plain' for this loss or set", scores, hint)
    if scores == "incremental" or (scores == "auto" and able and sparse.issparse(problem.rows)):
        return IncrementalPath(problem)
    return PlainPath(problem)
