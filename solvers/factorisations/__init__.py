"""Factorisations of the prefix-sum matrix, for correlated noise."""

from solvers.factorisations.base import Factorisation, Participation
from solvers.factorisations.toeplitz import Independent, Optimised, SquareRoot
from solvers.factorisations.trees import BinaryTree

__all__ = ["BinaryTree", "Factorisation", "Independent", "Optimised", "Participation", "SquareRoot"]
