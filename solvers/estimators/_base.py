"""What the faces share: parameters, the noise's source, rows at prediction, and what is said after a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dpaccount import _check
from solvers.budget import Budget, budget
from solvers.gate import Gate, gate_of
from solvers.problem import Problem
from solvers.random import RandomSource
from solvers.release import Release
from solvers.rows import RowRule
from solvers.sets import L2Ball

Array = npt.NDArray[np.float64]
DTYPES = [np.float64, np.float32]


def validated(model: Any, *data: Any, **options: Any) -> Any:
    """scikit-learn's `validate_data`, whose message about what is no number would show it."""
    message = ""
    try:
        return validate_data(model, *data, accept_sparse="csr", dtype=DTYPES, **options)
    except ValueError as error:
        message = str(error)
        if "could not convert" not in message:
            raise
    return _check.refuse(type(model).__name__, "X", "numbers", _check.WITHHELD, "Encode what is no number.")


class PrivateLinearModel(BaseEstimator):  # type: ignore[misc]
    """A linear model whose fit is a private optimiser's release; parameters are stored as given and checked by `fit`."""

    epsilon: Any
    delta: Any
    adjacency: Any
    algorithm: Any
    row_norm_bound: Any
    row_treatment: Any
    fit_intercept: Any
    random_state: Any
    release_: Release

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _gate(self) -> Gate:
        """The operating system's generator, unless a seed asks for noise that protects nobody; that warns."""
        if self.random_state is None or isinstance(self.random_state, (RandomSource, Gate)):
            return gate_of(type(self).__name__, self.random_state)
        return Gate(RandomSource.seeded_for_tests_only(int(check_random_state(self.random_state).randint(2**31))))

    def _problem(self, features: Any, labels: Any, loss: Any, constant: float = 1.0, **options: Any) -> Problem:
        """The problem with this face's rows; the intercept is a constant of that share of the rows' bound."""
        size = _check.real(type(self).__name__, "row_norm_bound", self.row_norm_bound, low=0.0, open_low=True)
        return Problem(
            features, labels, loss, row_norm_bound=size, row_treatment=self.row_treatment,
            intercept=constant * size if self.fit_intercept else False, **options,
        )  # fmt: skip

    def _within(self, radius: float) -> L2Ball:
        """A ball that scores of a bounded row leave at `radius`."""
        return L2Ball(radius / self.row_norm_bound)

    def _aim(self, owner: str) -> Budget:
        """The budget; which algorithm can keep it is another question."""
        return budget(owner, self.epsilon, self.delta, self.adjacency, pure=True)

    def _algorithm(self, owner: str, known: tuple[str, ...], default: str) -> str:
        """The algorithm by name."""
        found: str = _check.choice(owner, "algorithm", self.algorithm, known)
        return default if found == "auto" else found

    def _say(self, release: Release) -> None:
        """What a fitted face says about privacy."""
        self.release_ = release
        self.guarantee_ = release.guarantee
        self.adjacency_ = str(release.adjacency)

    def _bounded(self, features: Any) -> Any:
        """New rows, brought to the norm of those that were fitted."""
        check_is_fitted(self)
        found = validated(self, features, reset=False)
        return self._rule().apply(found)

    def _rule(self) -> RowRule:
        """What becomes of a row of features."""
        return RowRule(self.row_norm_bound, treatment=self.row_treatment)
