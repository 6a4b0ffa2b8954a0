"""Convex losses: each states its domain of labels, its slope and its curvature, from which Lipschitz and smoothness follow."""

from solvers.losses.base import Loss
from solvers.losses.binary import HuberHinge, Logistic
from solvers.losses.linear import LinearLoss
from solvers.losses.multinomial import Multinomial
from solvers.losses.own import PerExampleLoss
from solvers.losses.regression import ClippedSquared, PseudoHuber, Quantile, Squared

# what they state about themselves is proved and tested; what a loss of somebody else states is a claim
TRUSTED: set[type[Loss]] = {ClippedSquared, HuberHinge, Logistic, Multinomial, PseudoHuber, Quantile, Squared}

__all__ = [
    "TRUSTED", "ClippedSquared", "HuberHinge", "LinearLoss", "Logistic", "Loss", "Multinomial", "PerExampleLoss", "PseudoHuber", "Quantile",
    "Squared",
]
