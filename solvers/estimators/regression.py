"""Private linear regression as a scikit-learn regressor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from dpaccount import _check
from dpaccount.pair import DominatingPair
from solvers.algorithms.gradient_descent import gradient_descent
from solvers.algorithms.objective_perturbation import objective_perturbation
from solvers.budget import Budget
from solvers.estimators._base import Array, PrivateLinearModel, validated
from solvers.estimators.label_range import RangeQuery
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
    ``1/(n |row|^2)``, for which a noisy number of records is released under add-or-remove. They were chosen on parts of the
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
        self.row_norm_bound = row_norm_bound
        self.row_treatment = row_treatment
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise may cost any accuracy
        return tags

    def fit(self, X: Any, y: Any) -> PrivateLinearRegression:  # noqa: N803
        """Fit with a fresh use of the budget: two fits on the same records cost twice."""
        aim = self._aim(OWNER)
        way = self._algorithm(OWNER, ALGORITHMS, "gradient_descent" if aim.delta else "objective_perturbation")
        X, y = validated(self, X, y, y_numeric=True)  # noqa: N806
        gate = self._gate()
        self.label_range_, before = self._range(np.asarray(y, dtype=float), gate, aim)
        low, high = self.label_range_
        self._middle, self._half = low + (high - low) / 2.0, (high - low) / 2.0
        scaled = (np.clip(y, low, high) - self._middle) / self._half
        solve = self._perturbed if way == "objective_perturbation" else self._descended
        problem, release = solve(X, scaled, gate, aim, before)
        coefficients, intercept = problem.split(release.value)
        self.coef_ = self._half * coefficients
        self.intercept_ = self._middle + self._half * intercept
        self._say(replace(release, diagnostics={**release.diagnostics, "label_range": self.label_range_}))
        return self

    def _range(self, y: Array, gate: Gate, aim: Budget) -> tuple[tuple[float, float], DominatingPair | None]:
        """The range in use, and what finding it cost."""
        if self.label_range is None:
            query = RangeQuery.of(aim)
            return query.find(y, gate), query.guarantee
        ends = _check.reals(OWNER, "label_range", self.label_range)
        if ends.shape != (2,) or not ends[0] < ends[1] or not np.isfinite(ends[1] - ends[0]):
            _check.refuse(OWNER, "label_range", "two numbers, low < high", self.label_range)
        return (float(ends[0]), float(ends[1])), None

    def _descended(self, features: Any, labels: Array, gate: Gate, aim: Budget, before: DominatingPair | None) -> tuple[Problem, Release]:
        problem = self._problem(features, labels, ClippedSquared(RESIDUAL))
        return problem, gradient_descent(
            problem, epsilon=aim.epsilon, delta=aim.delta, adjacency=aim.adjacency, random=gate, steps=self.steps, output="tail",
            reach=REACH / problem.row_bound, stable=True, before=before,
        )  # fmt: skip

    def _perturbed(self, features: Any, labels: Array, gate: Gate, aim: Budget, before: DominatingPair | None) -> tuple[Problem, Release]:
        problem = self._problem(features, labels, PseudoHuber(RESIDUAL), CONSTANT, constraint=self._within(RADIUS))
        return problem, objective_perturbation(
            problem, epsilon=aim.epsilon, delta=aim.delta, adjacency=aim.adjacency, random=gate, before=before
        )

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The linear prediction, kept in the range of labels."""
        found: Array = np.clip(self._bounded(X) @ self.coef_ + self.intercept_, *self.label_range_)
        return found
