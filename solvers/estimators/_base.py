"""What the faces share: parameters, the noise's source, rows at prediction, and what is said after a fit."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
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
TIMES = (np.datetime64, np.timedelta64, date, timedelta)
DTYPES = [np.float64, np.float32]
HARMLESS = (  # messages of scikit-learn, by which its own checks know a refusal: of each the groups are said, and nothing else
    r"(Found array with 0 sample\(s\))", r"(Found array with 0 feature\(s\) \(shape=\()\d*(, 0\)\) while a minimum of \d+ is required[ .])",
    r"(Input [Xy] contains NaN)", r"(Input [Xy] contains infinity or a value too large for dtype\('float\d\d'\))",
    r"(X has \d+ features, but \w+ is expecting \d+ features as input)", r"(Complex data not supported)",
    r"(?s)Expected 2D array, got (?:1D|scalar) array instead.*(Reshape your data)",
    r"([\w ]*requires y to be passed, but the target y is None)",
    r"(?s)(The feature names should match those that were passed during fit.*)",
    r"(Unknown label type: (?:continuous|unknown|multiclass|multilabel)[a-z-]*)",
)  # fmt: skip


def validated(model: Any, *data: Any, **options: Any) -> Any:
    """scikit-learn's `validate_data`, of whose messages none shows a value of a record."""
    read = {"accept_sparse": "csr", "dtype": DTYPES}
    for name, value in zip(("X", "y") if options.get("y_numeric") else ("X",), data, strict=False):
        if _dated(value):
            refuse_quietly(type(model).__name__, name, TypeError())
    error = failure(lambda: validate_data(model, *data, **read, **options))
    if not isinstance(error, Exception):
        return error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        name = "X" if isinstance(failure(lambda: check_array(data[0], **read)), Exception) else "y"
    return refuse_quietly(type(model).__name__, name, error)


def _dated(value: Any) -> bool:
    """Whether there are dates or spans of time, which numpy would read as numbers."""
    found = None if hasattr(value, "tocsr") else failure(lambda: np.asarray(value))
    if not isinstance(found, np.ndarray):
        return False
    return found.dtype.kind in "mM" or (found.dtype == object and any(isinstance(entry, TIMES) for entry in found.flat))


def failure(call: Callable[[], Any]) -> Any:
    """What a call gives, or the exception that it raises, which then stands behind no other one in a traceback."""
    try:
        return call()
    except Exception as error:
        return error


def refuse_quietly(owner: str, name: str, error: Exception) -> NoReturn:
    """Raise what is known to say nothing of records, cut to what is known; of anything else only that X or y is refused."""
    said, kind = str(error), TypeError if isinstance(error, TypeError) else ValueError
    for known in HARMLESS:
        found = re.match(known, said)
        if found:
            raise kind("".join(found.groups()))
    hint = "Each argument must be a real number, no date, complex number, string or nested list of numbers; and X as long as y."
    _check.refuse(owner, name, "numbers", _check.WITHHELD, hint, kind)


@contextmanager
def all_or_nothing(model: Any) -> Iterator[None]:
    """A fit that is refused leaves the model as it was: never the range or classes of one fit beside the guarantee of another."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        raise


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
