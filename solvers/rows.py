"""Rows of features with a bounded norm, dense or sparse: every row is treated by itself, so bounding is part of the mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt
import scipy.sparse

from dpaccount import _check

sparse: Any = scipy.sparse  # its stubs tell formats apart that behave alike here
Array = npt.NDArray[np.float64]
Matrix = Any  # Array (n, d) or sparse.csr_array
TREATMENTS = ("clip", "normalise")
ORDERS = ("l2", "linf")
UNIT = 2.0**-53
HINT = "A record with such an entry has no norm."


def matrix(owner: str, features: Any) -> Matrix:
    """Features as a float64 matrix of their own kind, dense (row by row) or CSR; finite, at least one row and one column."""
    if sparse.issparse(features):
        found = sparse.csr_array(features, dtype=np.float64, copy=True)
        found.sum_duplicates()
        _check.reals(owner, "features", found.data, hint=HINT, private=True)
    else:
        plain = np.asarray(features) if isinstance(features, np.matrix) else features
        found = np.array(_check.reals(owner, "features", plain, hint=HINT, private=True), order="C")
    shape = found.shape
    if len(shape) != 2:
        hint = "Reshape a single feature to one column."
        _check.refuse(owner, "features", "a matrix, one row a record", f"{len(shape)} dimensions", hint)
    if not shape[0] or not shape[1]:
        _check.refuse(owner, "features", "at least one row and one column", f"no {'columns' if shape[0] else 'rows'}")
    return found


def row_norms(rows: Matrix) -> Array:
    """l2 norm of every row, as computed: within (d + 4) ulps, and inf where it is beyond doubles."""
    largest, scaled = _largest_and_scaled(rows)
    with np.errstate(over="ignore"):
        return np.asarray(largest * scaled)


def _largest_and_scaled(rows: Matrix) -> tuple[Array, Array]:
    """Largest |entry| of each row (1 for a zero row), and the norm of the row over it: no overflow, no underflow."""
    if sparse.issparse(rows):
        largest = _row_reduce(rows, np.abs(rows.data), np.maximum)
        largest[largest == 0.0] = 1.0
        shares = rows.data / np.repeat(largest, np.diff(rows.indptr))
        return largest, np.sqrt(_row_reduce(rows, shares * shares, np.add))
    largest = np.abs(rows).max(axis=1)
    largest[largest == 0.0] = 1.0
    shares = rows / largest[:, None]
    return largest, np.sqrt(np.einsum("ij,ij->i", shares, shares))


def _row_reduce(rows: Matrix, values: Array, how: Any) -> Array:
    """Reduce the stored values of each CSR row; 0 where a row stores nothing."""
    out = np.zeros(rows.shape[0])
    full = np.flatnonzero(np.diff(rows.indptr))
    if full.size:
        out[full] = how.reduceat(values, rows.indptr[full])
    return out


def scaled_rows(rows: Matrix, divisor: Array, factor: Array) -> Matrix:
    """Every row over its divisor and times its factor, in a matrix of its own."""
    if sparse.issparse(rows):
        lengths = np.diff(rows.indptr)
        data = rows.data / np.repeat(divisor, lengths) * np.repeat(factor, lengths)
        return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
    return rows / divisor[:, None] * factor[:, None]


@final
@dataclass(frozen=True)
class RowRule:
    """What becomes of a row before anything else looks at it: its norm is bounded, then a constant is appended.

    ``x -> (x min(1, R/|x|), c)`` for ``clip``, ``x -> (R x/|x|, c)`` for ``normalise`` (zero rows stay zero).

    Parameters
    ----------
    bound : float
        R in [1e-100, 1e100], for the features alone.
    norm : {"l2", "linf"}
        The norm that is bounded. ``linf`` clips entry by entry and cannot normalise.
    treatment : {"clip", "normalise"}
        ``normalise`` gives every row the same norm.
    intercept : float
        The appended constant c >= 0; 0 appends nothing. It counts: the norm of what results is sqrt(R^2 + c^2).

    Guarantee
    ---------
    The computed rows have the stated norm exactly: they are made smaller by more than rounding could have made them larger.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.rows import RowRule
    >>> rule = RowRule(bound=1.0, intercept=1.0)
    >>> rule.apply(np.array([[3.0, 4.0], [0.1, 0.0]])).round(6).tolist(), round(rule.norm_bound, 6)
    ([[0.6, 0.8, 1.0], [0.1, 0.0, 1.0]], 1.414214)
    """

    bound: float = 1.0
    norm: str = "l2"
    treatment: str = "clip"
    intercept: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", _check.real("RowRule", "bound", self.bound, low=1e-100, high=1e100))
        object.__setattr__(self, "intercept", _check.real("RowRule", "intercept", self.intercept, low=0.0, high=1e100))
        _check.choice("RowRule", "norm", self.norm, ORDERS)
        _check.choice("RowRule", "treatment", self.treatment, TREATMENTS)
        if self.norm == "linf" and self.treatment == "normalise":
            _check.refuse("RowRule", "treatment", "'clip' with norm='linf'", self.treatment, "Entries are clipped one by one.")

    @property
    def norm_bound(self) -> float:
        """Bound on the norm of a row as it results, the intercept counted: sqrt(R^2 + c^2), or max(R, c) for linf."""
        return math.hypot(self.bound, self.intercept) if self.norm == "l2" else max(self.bound, self.intercept)

    def l2_bound(self, columns: int) -> float:
        """Bound on the l2 norm of a resulting row of `columns` features."""
        features = self.bound if self.norm == "l2" else self.bound * math.sqrt(columns)
        return math.hypot(features, self.intercept)

    def entry_bound(self) -> float:
        """Bound on every |entry| of a resulting row."""
        return max(self.bound, self.intercept)

    def apply(self, features: Any) -> Matrix:
        """The bounded rows with the intercept column last; the features themselves are never changed."""
        rows = matrix("RowRule.apply", features)
        return self._with_intercept(self._entries(rows) if self.norm == "linf" else self._bounded(rows))

    def _entries(self, rows: Matrix) -> Matrix:
        if sparse.issparse(rows):
            rows.data = np.clip(rows.data, -self.bound, self.bound)
            return rows
        return np.clip(rows, -self.bound, self.bound)

    def _bounded(self, rows: Matrix) -> Matrix:
        largest, scaled = _largest_and_scaled(rows)
        target = self.bound * (1.0 - (rows.shape[1] + 8) * UNIT)  # more than the computed norm and the products can be off
        with np.errstate(over="ignore"):
            moved = (largest * scaled > target) if self.treatment == "clip" else scaled > 0.0
        if not moved.any():
            return rows
        scaled[~moved] = target
        return scaled_rows(rows, np.where(moved, largest, 1.0), target / scaled)

    def _with_intercept(self, rows: Matrix) -> Matrix:
        if not self.intercept:
            return rows
        column = np.full((rows.shape[0], 1), self.intercept)
        if sparse.issparse(rows):
            return sparse.csr_array(sparse.hstack([rows, sparse.csr_array(column)], format="csr"))
        return np.concatenate([rows, column], axis=1)
