"""Private sparse logistic regression as a scikit-learn classifier."""

from __future__ import annotations

import math
from typing import Any

from dpaccount import _check
from solvers.algorithms.frank_wolfe import frank_wolfe
from solvers.budget import least_gaussian
from solvers.estimators.classification import PrivateLogisticRegression
from solvers.gate import Gate
from solvers.losses import Logistic
from solvers.problem import Problem
from solvers.release import Release
from solvers.rows import RowRule
from solvers.sets import L1Ball

OWNER = "PrivateSparseLogisticRegression"
STEEPEST, RADIUS, STEPS = 0.5, 20.0, 95.0


class PrivateSparseLogisticRegression(PrivateLogisticRegression):
    """Logistic regression of two classes with few coefficients, for wide and sparse data, by private Frank-Wolfe over an l1 ball.

    Parameters
    ----------
    epsilon, delta : float
        The budget. With delta = 0 the guarantee is pure, and `l1_radius` and `steps` must be given.
    adjacency : {"add-or-remove", "replace-one", "zero-out"}
    algorithm : {"auto", "frank_wolfe"}
    l1_radius : float, optional
        Bound on the sum of |coefficients|. Default 20 sqrt(mu), mu the Gaussian-DP parameter of the budget.
    steps : int, optional
        As many coefficients as this at most are not 0. Default 95 sqrt(mu), at least 1.
    entry_bound : float
        Public. Every entry of a row is clipped to it, in `fit` and in predictions; 1 suits words that occur or do not.
    fit_intercept : bool
        A constant column of the size of `entry_bound`; it is one more candidate of every step.
    classes, random_state
        As in `PrivateLogisticRegression`.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, guarantee_, adjacency_, release_
        As in `PrivateLogisticRegression`.

    Notes
    -----
    The loss is the logistic one with slopes cut at 1/2, ``Logistic(0.5)``. The defaults were chosen on a part of the training set of
    Reuters r8, "earn" against the rest. Sparse rows are never made dense. A vocabulary that was built from the records is a look
    at them: use hashing or a public list of words.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.estimators import PrivateSparseLogisticRegression
    >>> x = np.random.default_rng(0).integers(0, 2, (500, 50))
    >>> model = PrivateSparseLogisticRegression(epsilon=4.0, delta=1e-6, fit_intercept=True).fit(x, x[:, 3])
    >>> int(np.abs(model.coef_).argmax()), float(model.release_.epsilon(delta=1e-6)) <= 4.0
    (3, True)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        adjacency: str = "add-or-remove",
        algorithm: str = "auto",
        l1_radius: float | None = None,
        steps: int | None = None,
        entry_bound: float = 1.0,
        fit_intercept: bool = False,
        classes: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.algorithm = algorithm
        self.l1_radius = l1_radius
        self.steps: Any = steps
        self.entry_bound = entry_bound
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.random_state = random_state

    _owner = OWNER
    _algorithms = ("auto", "frank_wolfe")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _chosen(self) -> str:
        return self._algorithm(self._owner, self._algorithms, "frank_wolfe")

    def _rule(self) -> RowRule:
        return RowRule(self.entry_bound, norm="linf")

    def _posed(self, features: Any, codes: Any) -> Problem:
        if self.classes_.size > 2:
            # scikit-learn's own words, by which its checks know such a refusal
            raise ValueError("Only binary classification is supported. The type of the target is multiclass.")
        aim = self._aim(OWNER)
        if aim.delta == 0.0 and (self.l1_radius is None or self.steps is None):
            hint = "The defaults follow from a Gaussian budget."
            _check.refuse(OWNER, "delta", "above 0, or l1_radius and steps given", self.delta, hint)
        scale = 1.0 if aim.delta == 0.0 else math.sqrt(1.0 / least_gaussian(aim.epsilon, aim.delta, aim.adjacency))
        self._picks = max(round(STEPS * scale), 1) if self.steps is None else self.steps
        radius = RADIUS * scale if self.l1_radius is None else self.l1_radius
        return Problem(
            features, 2.0 * codes - 1.0, Logistic(STEEPEST), L1Ball(radius), row_norm="linf", row_norm_bound=self.entry_bound,
            intercept=bool(self.fit_intercept),
        )  # fmt: skip

    def _solved(self, problem: Problem, gate: Gate) -> Release:
        return frank_wolfe(
            problem, epsilon=self.epsilon, delta=self.delta, steps=self._picks, adjacency=self.adjacency, random=gate
        )
