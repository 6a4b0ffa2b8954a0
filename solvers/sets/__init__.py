"""Convex sets that a solution may be confined to, with exact projections."""

from solvers.sets.balls import L1Ball, L2Ball
from solvers.sets.base import ConstraintSet, VertexSet
from solvers.sets.boxes import Box, WholeSpace
from solvers.sets.half_spaces import HalfSpaces
from solvers.sets.hulls import Polytope, Simplex
from solvers.sets.known import TRUSTED

__all__ = ["TRUSTED", "Box", "ConstraintSet", "HalfSpaces", "L1Ball", "L2Ball", "Polytope", "Simplex", "VertexSet", "WholeSpace"]
