"""Private linear regression as a scikit-learn regressor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from dpaccount import _check
from dpaccount.adjacency import Adjacency
from dpaccount.pair import DominatingPair
from solvers.algorithms.gradient_descent import gradient_descent
from solvers.algorithms.objective_perturbation import objective_perturbation
from solvers.budget import Budget
from solvers.estimators._base import Array, PrivateLinearModel, all_or_nothing, validated
from solvers.estimators.label_range import RangeQuery
from solvers.estimators.rehearsal import rehearse
from solvers.gate import Gate
from solvers.losses import ClippedSquared, PseudoHuber
from solvers.problem import Problem
from solvers.release import Release

OWNER = "PrivateLinearRegression"
ALGORITHMS = ("auto", "gradient_descent", "objective_perturbation")
RESIDUAL = 0.25  # where squares give way to lines
REACH = 1.0  # of gradient descent
RADIUS, CONSTANT = 1.5, 0.5  # of objective perturbation


class PrivateLinearRegression(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Least squares with clipped residuals under (epsilon, delta)-DP or pure epsilon-DP.

    Parameters
    ----------
    epsilon, delta : float
        The budget. delta should be well below one over the number of records; 0 asks for a pure guarantee.
    adjacency : {"add-or-remove", "replace-one", "zero-out"}
    algorithm : {"auto", "gradient_descent", "objective_perturbation"}
        ``auto`` is ``gradient_descent``, full-batch noisy gradient descent, or where delta is 0 ``objective_perturbation``, which is pure
        there; both with their documented defaults, below.
    steps : int
        Steps of gradient descent alone. Accuracy hardly depends on it, as more steps get more noise each; time does.
    label_range : (float, float), optional
        Where labels lie, as public knowledge: the better it is known, the less noise. Labels beyond are clipped to it. Without it
        the scale on which most of them lie is drawn by the exponential mechanism, and a noisy histogram over powers of two adds what it
        can see: for a tenth of the squared Gaussian-DP parameter, or of a pure epsilon, and for the scale as much as two hundred
        records need, up to a half. A scale is wrong now and then where epsilon times the number of records is below about 40.
    public_size : int, optional
        The number of records where it is public, absent ones counted under zero-out. Without it gradient descent counts its rows with
        noise, but under replace-one. Objective perturbation needs none.
    row_norm_bound, row_treatment, fit_intercept, random_state
        As in `PrivateLogisticRegression`.

    Attributes
    ----------
    coef_, intercept_, n_features_in_
        As in scikit-learn; they act on rows brought to `row_norm_bound`.
    label_range_
        The range in use.
    guarantee_, adjacency_, release_
        The guarantee of this very fit, the range's included, its relation, and the whole `Release`.

    Notes
    -----
    Labels are brought to [-1, 1]. The defaults are T = 100 steps, residuals clipped to a quarter (Huber's loss), the mean of the
    second half of the iterates, and the step with which noise alone would move theta by 1 over the norm of a row, yet no longer than
    ``1/(n |row|^2)``, for which a noisy number of rows is released under add-or-remove and zero-out. They were chosen on parts of the
    training sets of diabetes and CPS1988. Those of ``objective_perturbation`` are `PseudoHuber` at a quarter, a constant of half the
    norm of a row for the intercept, and regularisation by the bound on the excess risk for a ball of radius 1.5 over the norm of a row;
    what the scale costs is added to it by its epsilon. Predictions stay in the range of labels.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.estimators import PrivateLinearRegression
    >>> x = np.random.default_rng(0).standard_normal((2000, 2))
    >>> model = PrivateLinearRegression(epsilon=2.0, delta=1e-6, label_range=(-3, 3)).fit(x, x[:, 0])
    >>> model.score(x, x[:, 0]) > 0.5, float(model.release_.epsilon(delta=1e-6)) <= 2.0
    (True, True)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        adjacency: str = "add-or-remove",
        algorithm: str = "auto",
        steps: int = 100,
        label_range: Any = None,
        public_size: int | None = None,
        row_norm_bound: float = 1.0,
        row_treatment: str = "normalise",
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.algorithm = algorithm
        self.steps = steps
        self.label_range = label_range
        self.public_size = public_size
        self.row_norm_bound = row_norm_bound
        self.row_treatment = row_treatment
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise may cost any accuracy
        return tags

    def fit(self, X: Any, y: Any) -> PrivateLinearRegression:  # noqa: N803
        """Fit with a fresh use of the budget: two fits on the same records cost twice. A fit that is refused leaves the model as it was,
        and what can be refused is refused before anything is drawn."""
        with all_or_nothing(self):
            return self._fitted(X, y)

    def _fitted(self, X: Any, y: Any) -> PrivateLinearRegression:  # noqa: N803
        aim = self._aim(OWNER)
        way = self._algorithm(OWNER, ALGORITHMS, "gradient_descent" if aim.delta else "objective_perturbation")
        X, y = validated(self, X, y, y_numeric=True)  # noqa: N806
        known, gate = self._known_range(), self._gate()
        query = RangeQuery.of(aim, added=way == "objective_perturbation") if known is None else None
        posed, solve = (self._perturbable, self._perturbed) if way == "objective_perturbation" else (self._descendable, self._descended)
        problem = posed(X)
        labels = np.asarray(y, dtype=float)
        if not np.isfinite(labels).all():
            _check.refuse(OWNER, "y", "finite numbers", _check.WITHHELD)

        def run(gate: Gate, labels: Array) -> tuple[tuple[float, float], Release]:
            ends = known or query.find(labels, gate)  # type: ignore[union-attr]
            scaled = (np.clip(labels, *ends) - _middle(ends)) / _half(ends)
            return ends, solve(problem.relabelled(scaled), gate, aim, None if query is None else query.guarantee)

        counted = way == "gradient_descent" and self.public_size is None and aim.adjacency is not Adjacency.REPLACE_ONE
        if query is not None:  # two looks find the range
            rehearse(lambda gate: run(gate, np.zeros(labels.shape)), looks=3 + counted)
        ends, release = run(gate, labels)
        coefficients, intercept = problem.split(release.value)
        self.label_range_ = ends
        self.coef_ = _half(ends) * coefficients
        self.intercept_ = _middle(ends) + _half(ends) * intercept
        self._say(replace(release, diagnostics={**release.diagnostics, "label_range": ends}))
        return self

    def _known_range(self) -> tuple[float, float] | None:
        """The range as public knowledge."""
        if self.label_range is None:
            return None
        ends = _check.reals(OWNER, "label_range", self.label_range)
        if ends.shape != (2,) or not ends[0] < ends[1] or not np.isfinite(ends[1] - ends[0]):
            _check.refuse(OWNER, "label_range", "two numbers, low < high", self.label_range)
        return float(ends[0]), float(ends[1])

    def _descendable(self, features: Any) -> Problem:
        return self._problem(features, np.zeros(features.shape[0]), ClippedSquared(RESIDUAL))

    def _descended(self, problem: Problem, gate: Gate, aim: Budget, before: DominatingPair | None) -> Release:
        return gradient_descent(
            problem, epsilon=aim.epsilon, delta=aim.delta, adjacency=aim.adjacency, random=gate, steps=self.steps, output="tail",
            reach=REACH / problem.row_bound, stable=True, before=before, public_size=self.public_size,
        )  # fmt: skip

    def _perturbable(self, features: Any) -> Problem:
        labels = np.zeros(features.shape[0])
        return self._problem(features, labels, PseudoHuber(RESIDUAL), CONSTANT, constraint=self._within(RADIUS))

    def _perturbed(self, problem: Problem, gate: Gate, aim: Budget, before: DominatingPair | None) -> Release:
        return objective_perturbation(
            problem, epsilon=aim.epsilon, delta=aim.delta, adjacency=aim.adjacency, random=gate, before=before
        )

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The linear prediction, kept in the range of labels."""
        found: Array = np.clip(self._bounded(X) @ self.coef_ + self.intercept_, *self.label_range_)
        return found


def _middle(ends: tuple[float, float]) -> float:
    return ends[0] + (ends[1] - ends[0]) / 2.0


def _half(ends: tuple[float, float]) -> float:
    return (ends[1] - ends[0]) / 2.0
