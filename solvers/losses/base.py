"""What an algorithm may ask of a loss."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Matrix = Any


class Loss(ABC):
    """l(theta; x, y), convex in theta, one number a record; theta is a flat vector of `dimension(columns)` numbers."""

    @abstractmethod
    def dimension(self, columns: int) -> int:
        """How many numbers theta has for rows of `columns` entries."""

    @abstractmethod
    def targets(self, owner: str, labels: Any, size: int) -> Array:
        """Labels as the loss computes with them; a label outside the domain is refused, or clipped where the loss says so."""

    @abstractmethod
    def lipschitz(self, row_norm: float, radius: float = math.inf) -> float:
        """Bound on |grad l|_2 for rows of l2 norm at most `row_norm` and |theta| <= `radius`; inf where there is none."""

    @abstractmethod
    def smoothness(self, row_norm: float) -> float:
        """Bound on the largest eigenvalue of the Hessian of l; inf where there is none."""

    @property
    @abstractmethod
    def hessian_rank(self) -> int | None:
        """Bound on the rank of the Hessian of one record's loss; None where none is known."""

    @abstractmethod
    def values(self, rows: Matrix, targets: Array, theta: Array) -> Array:
        """l of every row."""

    @abstractmethod
    def gradient_sum(self, rows: Matrix, norms: Array, targets: Array, theta: Array, clip: float = math.inf) -> Array:
        """Sum over rows of the gradients, each scaled down to norm `clip`; zero stays zero, a gradient that is not finite is refused."""
