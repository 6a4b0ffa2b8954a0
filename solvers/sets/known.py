"""Sets whose sizes and projections are proved and tested; what a set of somebody else states about itself is a claim."""

from __future__ import annotations

from dpaccount import _check
from solvers.sets.balls import L1Ball, L2Ball
from solvers.sets.base import ConstraintSet
from solvers.sets.boxes import Box, WholeSpace
from solvers.sets.half_spaces import HalfSpaces
from solvers.sets.hulls import Polytope, Simplex

TRUSTED: set[type[ConstraintSet]] = {Box, HalfSpaces, L1Ball, L2Ball, Polytope, Simplex, WholeSpace}
INSTEAD = "Box, HalfSpaces and Polytope take faces and vertices of one's own; gradient_descent, localisation and ftrl take any set."


def refuse_own_set(owner: str, constraint: ConstraintSet, what: str) -> None:
    """A set of somebody else, or a subclass of ours, where privacy rests on `what` it states."""
    if type(constraint) not in TRUSTED:
        hint = f"Privacy rests here on {what}, which a set of one's own only states. {INSTEAD}"
        _check.refuse(owner, "problem", "on a set of solvers.sets", constraint, hint)
