"""Private logistic regression as a scikit-learn classifier."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from dpaccount import _check
from solvers.algorithms.gradient_descent import gradient_descent
from solvers.algorithms.objective_perturbation import objective_perturbation
from solvers.estimators._base import Array, PrivateLinearModel, all_or_nothing, failure, refuse_quietly, validated
from solvers.gate import Gate
from solvers.losses import Logistic, Multinomial
from solvers.problem import Problem
from solvers.release import Release

OWNER = "PrivateLogisticRegression"
ALGORITHMS = ("auto", "gradient_descent", "objective_perturbation")
CLIP, REACH = 0.5, 10.0  # of gradient descent
MARGIN, RADIUS, CONSTANT = 3.0, 8.0, 0.25  # of objective perturbation


class PrivateLogisticRegression(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """Logistic regression under (epsilon, delta)-DP or pure epsilon-DP, of two classes or multinomial.

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
    row_norm_bound : float
        Public. Rows are brought to this norm, in `fit` and in predictions.
    row_treatment : {"normalise", "clip"}
        All rows get that norm, or the longer ones do.
    fit_intercept : bool
        A constant column of the size of `row_norm_bound`, which counts in the noise.
    classes : sequence, optional
        The classes, as public knowledge. Without them they are read from y, which tells everybody that each of them occurs: no guarantee
        covers that, and ``release_.diagnostics["public_classes"]`` is False.
    random_state : None, RandomSource, int or RandomState
        None: the operating system's generator. A seed warns, as its noise protects nobody; it is for tests.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_
        As in scikit-learn; they act on rows brought to `row_norm_bound`.
    guarantee_, adjacency_, release_
        The guarantee of this very fit, its relation, and the whole `Release`: ``model.release_.epsilon(delta=1e-6)``.

    Notes
    -----
    The defaults of ``gradient_descent`` are T = 100 steps, gradients clipped to half the norm of a row, the mean of the second
    half of the iterates, and the step with which noise alone would move theta by 10 sqrt(K) over the norm of a row (K = 1 for two
    classes). They were chosen on parts of training sets (breast_cancer, digits, spambase, diamonds), never on a test part, and
    need no number of records. Half the norm is the gradient at margin 0, so that clipping makes records beyond the boundary count
    linearly: less noise for a loss that is still convex and calibrated for classification. So probabilities are drawn
    towards the middle. Scaling features beforehand is another release, unless the scales are public.

    Those of ``objective_perturbation``, chosen on parts of the same training sets: for two classes the loss ``Logistic(margin=3)``, with
    which records pull with 95 % of their bound where theta is 0, so that half the noise is enough; its own link for probabilities; a
    constant of a quarter of the norm of a row for the intercept; regularisation by the bound on the excess risk for a ball of
    radius 8 over the norm of a row.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.estimators import PrivateLogisticRegression
    >>> x = np.random.default_rng(0).standard_normal((500, 2))
    >>> model = PrivateLogisticRegression(epsilon=2.0, delta=1e-6).fit(x, x[:, 0] > 0)
    >>> model.score(x, x[:, 0] > 0) > 0.8, round(float(model.release_.epsilon(delta=1e-6)), 6)
    (True, 2.0)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        adjacency: str = "add-or-remove",
        algorithm: str = "auto",
        steps: int = 100,
        row_norm_bound: float = 1.0,
        row_treatment: str = "normalise",
        fit_intercept: bool = True,
        classes: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.algorithm = algorithm
        self.steps: Any = steps
        self.row_norm_bound = row_norm_bound
        self.row_treatment = row_treatment
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.random_state = random_state

    _owner = OWNER
    _algorithms: tuple[str, ...] = ALGORITHMS

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # noise may cost any accuracy
        return tags

    def fit(self, X: Any, y: Any) -> PrivateLogisticRegression:  # noqa: N803
        """Fit with a fresh use of the budget: two fits on the same records cost twice. A fit that is refused leaves the model as it was."""
        with all_or_nothing(self):
            return self._fitted(X, y)

    def _fitted(self, X: Any, y: Any) -> PrivateLogisticRegression:  # noqa: N803
        self._way = self._chosen()
        X, y = validated(self, X, y)  # noqa: N806
        error = failure(lambda: (check_classification_targets(y), column_or_1d(y)))
        if isinstance(error, Exception):
            refuse_quietly(self._owner, "y", error)
        codes = self._encoded(column_or_1d(y))
        problem = self._posed(X, codes)
        release = self._solved(problem, self._gate())
        release = replace(release, diagnostics={**release.diagnostics, "public_classes": self.classes is not None})
        table, offset = problem.split(release.value)
        self.coef_ = np.atleast_2d(table.T)
        self.intercept_ = np.atleast_1d(offset)
        self._say(release)
        return self

    def _encoded(self, y: Any) -> Array:
        """Codes 0 .. K-1 of the labels; a label that is none of the public classes is refused."""
        self.classes_ = np.unique(y) if self.classes is None else np.unique(np.asarray(self.classes))
        if self.classes_.size < 2:
            _check.refuse(self._owner, "y", "labels of at least two classes", _check.WITHHELD, "There is only one class here.")
        codes = np.minimum(np.searchsorted(self.classes_, y), self.classes_.size - 1)
        wrong = self.classes_[codes] != y
        if wrong.any():
            _check.refuse(self._owner, "y", "one of the public classes", _check.WITHHELD)
        return np.asarray(codes, dtype=float)

    def _chosen(self) -> str:
        """The algorithm in use."""
        default = "gradient_descent" if self._aim(self._owner).delta else "objective_perturbation"
        return self._algorithm(self._owner, self._algorithms, default)

    @property
    def _loss(self) -> Logistic:
        """Of two classes."""
        return Logistic(margin=MARGIN) if self._way == "objective_perturbation" else Logistic()

    def _posed(self, features: Any, codes: Array) -> Problem:
        two = self.classes_.size == 2
        labels, loss = (2.0 * codes - 1.0, self._loss) if two else (codes, Multinomial(int(self.classes_.size)))
        if self._way == "objective_perturbation":
            return self._problem(features, labels, loss, CONSTANT, constraint=self._within(RADIUS))
        return self._problem(features, labels, loss)

    def _solved(self, problem: Problem, gate: Gate) -> Release:
        if self._way == "objective_perturbation":
            return objective_perturbation(problem, epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency, random=gate)
        outputs = problem.dimension // problem.columns
        return gradient_descent(
            problem, epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency, random=gate, steps=self.steps, output="tail",
            clipping_norm=CLIP * problem.row_bound, reach=REACH * math.sqrt(outputs) / problem.row_bound,
        )  # fmt: skip

    def decision_function(self, X: Any) -> Array:  # noqa: N803
        """Scores of the second class, or of every class where there are more than two."""
        scores: Array = np.asarray(self._bounded(X) @ self.coef_.T + self.intercept_)
        return scores.ravel() if self.classes_.size == 2 else scores

    def predict(self, X: Any) -> Any:  # noqa: N803
        """The class of the largest score."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """The loss's own link or softmax of the scores; clipping draws them towards the middle."""
        scores = self.decision_function(X)
        if scores.ndim > 1:
            return np.asarray(softmax(scores, axis=1))
        return np.stack([self._loss.probability(-scores), self._loss.probability(scores)], axis=1)

    def predict_log_proba(self, X: Any) -> Array:  # noqa: N803
        """log of `predict_proba`."""
        return np.log(self.predict_proba(X))
