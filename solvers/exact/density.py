"""The objective of a problem as a density on its set: values without cancellation, the method that fits, an output on a grid."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from solvers.exact.boxes import BoxSampler
from solvers.exact.kinks import sample_pieces
from solvers.losses import LinearLoss, Quantile
from solvers.problem import Problem
from solvers.random import RandomSource
from solvers.sets import Box
from solvers.sets.known import refuse_own_set

Array = npt.NDArray[np.float64]
OWNER = "exponential_mechanism"
LARGEST = 3  # dimensions
ENTRIES = 1 << 22  # scores held at once
GRID_BITS = 32
PROBES = 32
FINEST = 1e-9  # of what values are made of: how far scores must reach for differences of values to have digits left


class ConvexDensity:
    """Density ``e^{-rate F}`` on C, ``F(theta) = sum_i l_i(theta) + (ridge/2)|theta|^2``, one output, at most three parameters.

    F is computed as the sum of ``l_i(theta) - l_i(anchor)``, record by record, with labels that are no larger than the set can tell
    (`LinearLoss.anchored`), so that one record cannot drown the others in rounding; sums are pairwise.
    """

    def __init__(self, problem: Problem) -> None:
        loss, size = problem.loss, problem.dimension
        if problem.enforces_gradients_only:
            hint = "Its slope is a claim, and nobody can clip a value; gradient_descent enforces it by clipping."
            _check.refuse(OWNER, "problem", "with a loss of solvers.losses", loss, hint)
        refuse_own_set(OWNER, problem.constraint, "the size of the set")
        if not isinstance(loss, LinearLoss) or loss.outputs != 1:
            hint = "Values of another loss cannot be bounded record by record."
            _check.refuse(OWNER, "problem", "with a loss of one score x . theta", loss, hint)
        if size > LARGEST:
            hint = "No exact sampler is known to be quick there; objective_perturbation is pure in any dimension."
            _check.refuse(OWNER, "problem", f"of at most {LARGEST} parameters", size, hint)
        if not math.isfinite(problem.diameter) or problem.constraint.inner_radius(size) <= 0.0:
            _check.refuse(OWNER, "problem", "on a bounded set with an interior, such as L2Ball(10.0)", problem.constraint)
        reach = problem.row_bound * problem.constraint.radius(size)
        whole, width = max(loss.magnitude, reach), problem.row_bound * problem.diameter
        if not width >= FINEST * whole:
            hint = "Differences of a record's loss would be lost in rounding: choose other units, or a set nearer to 0."
            _check.refuse(OWNER, "problem", f"with scores that vary by at least {FINEST * whole:g}", width, hint)
        self.problem, self.loss = problem, loss
        self.rounding = 2.0**-50 * loss.slope(reach) * whole * problem.num_records  # of a value, at most
        self.is_box = size == 1 or isinstance(problem.constraint, Box)
        self.anchor = problem.constraint.start(size)
        self.targets = loss.anchored(problem.targets, reach)
        self.base = loss.value(loss.scores(problem.rows, self.anchor), self.targets)

    def variation(self) -> float:
        """Bound on the range over C of one record's loss: L |C|, or less where the loss is not as steep all the way."""
        problem = self.problem
        reach = problem.row_bound * problem.constraint.radius(problem.dimension)
        return min(problem.lipschitz * problem.diameter, self.loss.variation(reach))

    def values(self, points: Array) -> Array:
        """F - F(anchor) at each row of `points`."""
        ridge = 0.5 * self.problem.ridge * ((points**2).sum(axis=1) - float(self.anchor @ self.anchor))
        chunk = max(ENTRIES // len(self.targets), 1)
        parts = [np.empty(0)] + [
            (self.loss.value(self._scores(points[i : i + chunk]), self.targets) - self.base).sum(axis=1)
            for i in range(0, len(points), chunk)
        ]
        return np.asarray(np.concatenate(parts) + ridge)

    def gradients(self, points: Array) -> Array:
        """A subgradient of F at each row of `points`."""
        chunk = max(ENTRIES // len(self.targets), 1)
        parts = [np.empty((0, points.shape[1]))] + [
            np.asarray((self.problem.rows.T @ self.loss.derivative(self._scores(points[i : i + chunk]), self.targets).T).T)
            for i in range(0, len(points), chunk)
        ]
        return np.asarray(np.concatenate(parts) + self.problem.ridge * points)

    def _scores(self, points: Array) -> Array:
        return np.ascontiguousarray(np.asarray(self.problem.rows @ points.T).T)

    def ends(self) -> tuple[Array, Array]:
        """The corners of the smallest box around C."""
        axes = np.eye(self.problem.dimension)
        low = np.array([float(self.problem.constraint.minimise_linear(e)[j]) for j, e in enumerate(axes)])
        high = np.array([float(self.problem.constraint.minimise_linear(-e)[j]) for j, e in enumerate(axes)])
        return low, high

    def probe(self) -> Array:
        """F at points of C that know no record, for tests of what a record changes."""
        low, high = self.ends()
        inside = np.random.default_rng(0).uniform(low, high, (PROBES, len(low)))
        corners = np.array(np.meshgrid(*zip(low, high, strict=True))).reshape(len(low), -1).T
        points = np.array([self.problem.constraint.project(point) for point in np.concatenate([inside, corners])])
        return self.values(points)

    def draw(self, rate: float, source: RandomSource) -> Array:
        """One exact draw, rounded to a grid of 2^-32 of the diameter, which hides the low bits of how it came about."""
        return np.asarray(self.draws(rate, source, 1)[0])

    def draws(self, rate: float, source: RandomSource, count: int) -> Array:
        """`count` independent draws: between the kinks of a piecewise linear F on a line by inversion, else by rejection."""
        low, high = self.ends()
        if len(low) == 1 and isinstance(self.loss, Quantile) and not self.problem.ridge:
            found = sample_pieces(*self._pieces(float(low[0]), float(high[0])), rate, source, count)[:, None]
        else:
            found = BoxSampler(self, rate, low, high).draw(source, count)
        grid = 2.0 ** (math.floor(math.log2(self.problem.diameter)) - GRID_BITS)
        rounded = np.rint(found / grid) * grid
        if self.is_box:
            return np.asarray(np.clip(rounded, low, high))
        return np.array([self.problem.constraint.project(point) for point in rounded])

    def inside(self, points: Array) -> npt.NDArray[np.bool_]:
        """Which rows of `points`, all in the smallest box around C, are in C."""
        if self.is_box:
            return np.ones(len(points), dtype=bool)
        return np.array([self.problem.constraint.contains(point, 0.0) for point in points], dtype=bool)

    def apart(self, centre: Array, half: Array) -> npt.NDArray[np.bool_]:
        """Which boxes miss C for certain: the hyperplane at the projection of the centre is between."""
        if self.is_box:
            return np.zeros(len(centre), dtype=bool)
        away = np.array([point - self.problem.constraint.project(point) for point in centre])
        room = 1e-9 * self.problem.diameter * np.linalg.norm(away, axis=1)
        return np.asarray((away * away).sum(axis=1) - (np.abs(away) * half).sum(axis=1) > room)

    def _pieces(self, low: float, high: float) -> tuple[Array, Array]:
        """Knots low .. high and the slopes of F between them, for the quantile loss: |x| (1 - q or q), up by |x| at y/x."""
        assert isinstance(self.loss, Quantile)
        rows = self.problem.rows
        x = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows).ravel()
        used = x != 0.0
        x, y = x[used], self.targets[used]
        with np.errstate(over="ignore"):
            kinks = np.clip(y / x, low, high)
        order = np.argsort(kinks, kind="stable")
        weight = np.where(x > 0.0, self.loss.level, 1.0 - self.loss.level)
        first = -math.fsum(np.abs(x) * weight)
        slopes = first + np.concatenate([[0.0], np.cumsum(np.abs(x)[order])])
        return np.concatenate([[low], kinks[order], [high]]), slopes
