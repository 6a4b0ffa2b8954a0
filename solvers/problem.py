"""A private empirical risk problem: rows, labels, loss, set and regulariser, with the bounds that privacy rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from dataclasses import InitVar, dataclass, field
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from solvers.losses import TRUSTED, LinearLoss, Loss
from solvers.rows import Matrix, RowRule, row_norms
from solvers.sets import ConstraintSet, VertexSet, WholeSpace

Array = npt.NDArray[np.float64]
LARGEST, WHOLE, CHUNK = 1 << 24, 1 << 20, 1 << 16  # records; summed in one product; in one product beyond that
ROUNDING = 2.0**-11


class Coefficients(NamedTuple):
    """Theta taken apart: coefficients of the features, (d,) or (d, K), and intercepts, a number or (K,)."""

    coefficients: Array
    intercept: Any


@final
@dataclass(frozen=True, eq=False)
class Problem:
    """``minimise sum_i l(theta; x_i, y_i) + (ridge/2)|theta|^2 over C``: losses summed, never averaged.

    Parameters
    ----------
    features : array (n, d) or scipy.sparse
        Finite, n >= 1, d >= 1; never densified, never changed.
    labels : array (n,)
        In the loss's domain, which is checked.
    loss : Loss
        From `solvers.losses`, or one's own `PerExampleLoss`.
    constraint : ConstraintSet
        C; default the whole space.
    ridge : float
        >= 0, on the sum and on every entry of theta, the intercept included. It knows no record, so it is never clipped.
    row_norm_bound : float
        R > 0, public: every row of features is brought to this norm, inside the mechanism.
    row_norm : {"l2", "linf"}
        Which norm is bounded; ``linf`` clips entries, as Frank-Wolfe over an l1 ball wants.
    row_treatment : {"clip", "normalise"}
        Rows beyond R are shrunk to it, or all rows are brought to it.
    intercept : bool or float
        A constant column: True for R, or its value; it counts in every bound.

    Guarantee
    ---------
    `lipschitz`, `smoothness` and `gradient_bound` hold for every possible record, since rows are bounded here by themselves.
    Refusals (a row that is not finite, a label outside the domain) depend on the data and are not private.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.losses import Logistic
    >>> from solvers.problem import Problem
    >>> problem = Problem(np.array([[3.0, 4.0], [0.0, 0.5]]), [1, -1], Logistic(), intercept=True)
    >>> problem.dimension, round(problem.lipschitz, 6), round(problem.smoothness, 6)
    (3, 1.414214, 0.5)
    """

    features: InitVar[Any]
    labels: InitVar[Any]
    loss: Loss
    constraint: ConstraintSet = field(default_factory=WholeSpace)
    ridge: float = 0.0
    row_norm_bound: float = 1.0
    row_norm: str = "l2"
    row_treatment: str = "clip"
    intercept: Any = False
    rule: RowRule = field(init=False)
    rows: Matrix = field(init=False)
    targets: Array = field(init=False)
    norms: Array = field(init=False)
    dimension: int = field(init=False)

    def __post_init__(self, features: Any, labels: Any) -> None:
        _check.instance("Problem", "loss", self.loss, Loss, "a Loss of solvers.losses")
        _check.instance("Problem", "constraint", self.constraint, ConstraintSet, "a ConstraintSet of solvers.sets")
        ridge = _check.real("Problem", "ridge", self.ridge, low=0.0)
        plain = isinstance(self.intercept, (bool, np.bool_))
        bound = _check.real("RowRule", "bound", self.row_norm_bound, low=1e-100, high=1e100)
        constant = float(self.intercept) * bound if plain else self.intercept
        rule = RowRule(self.row_norm_bound, self.row_norm, self.row_treatment, constant)
        rows = rule.apply(features)
        if rows.shape[0] > LARGEST:
            _check.refuse("Problem", "features", f"at most {LARGEST} rows", "more", "Sums of more lose too many digits.")
        targets = self.loss.targets("Problem", labels, rows.shape[0])
        dimension = self.loss.dimension(rows.shape[1])
        if self.constraint.dimension not in (None, dimension):
            _check.refuse("Problem", "constraint", f"a set in {dimension} dimensions", self.constraint, "The intercept counts as one.")
        found = {"ridge": ridge, "rule": rule, "rows": rows, "targets": targets, "norms": row_norms(rows), "dimension": dimension}
        for name, value in found.items():
            object.__setattr__(self, name, value)

    # what is public

    @property
    def columns(self) -> int:
        """Entries of a row, the intercept counted."""
        return int(self.rows.shape[1])

    @property
    def row_bound(self) -> float:
        """Bound on the l2 norm of a row, the intercept counted."""
        return self.rule.l2_bound(self.columns - bool(self.rule.intercept))

    @property
    def lipschitz(self) -> float:
        """Bound on |grad l|_2 over the set, one record, without the ridge; inf where the loss has none there."""
        return self.loss.lipschitz(self.row_bound, self.constraint.radius(self.dimension))

    @property
    def entry_bound(self) -> float:
        """Bound on every |entry of grad l|, one record of a `LinearLoss`: what vertex scores of Frank-Wolfe move by."""
        if not isinstance(self.loss, LinearLoss) or self.enforces_gradients_only:
            return self.lipschitz
        return self.loss.slope(self.reach) * self.rule.entry_bound()

    @property
    def reach(self) -> float:
        """Bound on every |score| x . theta over the set: by l2 norms, or by entries times the l1 norm of vertices."""
        reach = self.row_bound * self.constraint.radius(self.dimension)
        return min(reach, self.rule.entry_bound() * self.constraint.l1_radius) if isinstance(self.constraint, VertexSet) else reach

    @property
    def smoothness(self) -> float:
        """Bound on the largest Hessian eigenvalue of one record's loss, without the ridge."""
        return self.loss.smoothness(self.row_bound)

    @property
    def strong_convexity(self) -> float:
        """Of the sum: the ridge, which is all that is certain."""
        return self.ridge

    @property
    def diameter(self) -> float:
        """l2 diameter of the set."""
        return self.constraint.diameter(self.dimension)

    def sensitivity(self, clip: float) -> float:
        """How far a sum of gradients clipped to `clip`, as computed in doubles, can move when a record is added or removed.

        ``clip (1 + 2^-11)``: a sum of m terms in any order is off by m 2^-53 of the sum of their sizes, for both data sets; up to
        2^20 records are summed in one product, up to 2^24 in products of 2^16.
        """
        return clip * (1.0 + ROUNDING)

    def split(self, theta: Array) -> Coefficients:
        """Coefficients as they act on a bounded row, and the intercept's part of the score."""
        outputs = self.loss.outputs if isinstance(self.loss, LinearLoss) else 1
        table = np.asarray(theta).reshape(self.columns, outputs)
        cut = self.columns - bool(self.rule.intercept)
        offset = self.rule.intercept * table[cut] if self.rule.intercept else np.zeros(outputs)
        return Coefficients(table[:cut, 0], float(offset[0])) if outputs == 1 else Coefficients(table[:cut], offset)

    def __repr__(self) -> str:
        return (
            f"Problem({self.loss!r}, {self.constraint!r}, dimension={self.dimension}, ridge={self.ridge:g}, {self.rule!r}, "
            f"lipschitz={self.lipschitz:.6g})"
        )

    # what looks at records

    @property
    def num_records(self) -> int:
        """n. Private under add-or-remove: nothing released may depend on it there, unless it is paid for."""
        return int(self.rows.shape[0])

    def relabelled(self, labels: Any) -> Problem:
        """The same rows with other labels."""
        made = copy(self)
        object.__setattr__(made, "targets", self.loss.targets("Problem", labels, self.num_records))
        return made

    def _chunks(self, chosen: Any) -> Iterator[tuple[Matrix, Array, Array]]:
        if chosen is None and self.num_records <= WHOLE:
            yield self.rows, self.norms, self.targets
            return
        places = np.arange(self.num_records) if chosen is None else np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        step = CHUNK if len(places) > WHOLE else max(len(places), 1)
        for start in range(0, len(places), step):
            part = places[start : start + step]
            yield self.rows[part], self.norms[part], self.targets[part]

    def values(self, theta: Array) -> Array:
        """The loss of every record."""
        return self.loss.values(self.rows, self.targets, theta)

    def objective(self, theta: Array) -> float:
        """The sum of the losses plus the ridge."""
        return math.fsum(self.values(theta)) + 0.5 * self.ridge * float(theta @ theta)

    def data_gradient(self, theta: Array, clip: float = math.inf, chosen: Any = None) -> Array:
        """Sum of the gradients of the records' losses, each clipped to norm `clip`; of the records `chosen` (mask or indices) only."""
        free = not self.enforces_gradients_only and clip >= self.loss.lipschitz(self.row_bound)
        limit = math.inf if free else clip  # bounded rows keep a Lipschitz loss below it by themselves
        total = np.zeros(self.dimension)
        for rows, norms, targets in self._chunks(chosen):
            total += self.loss.gradient_sum(rows, norms, targets, theta, limit)
        return total

    def gradient(self, theta: Array) -> Array:
        """Of the objective, nothing clipped."""
        return self.data_gradient(theta) + self.ridge * theta

    def hessian(self, theta: Array) -> Array:
        """Of the objective; for smooth `LinearLoss`es alone."""
        if not isinstance(self.loss, LinearLoss):
            _check.refuse("Problem.hessian", "loss", "a LinearLoss", self.loss, kind=TypeError)
        return self.loss.hessian_sum(self.rows, self.targets, theta) + self.ridge * np.eye(self.dimension)

    @property
    def enforces_gradients_only(self) -> bool:
        """Whether the loss is somebody's own, whose claims are enforced by clipping gradients and by nothing else."""
        return type(self.loss) not in TRUSTED
