"""Factorisations of the prefix-sum matrix, for correlated noise."""

from solvers.factorisations.base import Factorisation, Participation, least_loss
from solvers.factorisations.dense import Optimised
from solvers.factorisations.fitted import BandedToeplitz, Buffered
from solvers.factorisations.names import named
from solvers.factorisations.toeplitz import Independent, SquareRoot
from solvers.factorisations.trees import BinaryTree

__all__ = [
    "BandedToeplitz", "BinaryTree", "Buffered", "Factorisation", "Independent", "Optimised", "Participation", "SquareRoot", "least_loss",
    "named",
]
