"""Last-iterate accounting: the privacy of an iteration whose intermediate models stay hidden."""

from dpaccount.iteration.best import BestCurve, best_of, pointwise_minimum
from dpaccount.iteration.contraction import (
    chain_bound,
    contraction_coefficient,
    family_contraction,
    hockey_stick_divergence,
    sampled_hockey_stick,
)
from dpaccount.iteration.kernels import additive_contraction, projected_contraction
from dpaccount.iteration.lower import Chain
from dpaccount.iteration.noisy_gd import NoisyGD
from dpaccount.iteration.passes import SeveralPasses
from dpaccount.iteration.pnsgd import PNSGD
from dpaccount.iteration.shifted import Interpolation, Schedule
from dpaccount.iteration.stopping import RandomPermutation, RandomStopping

__all__ = [
    "BestCurve",
    "Chain",
    "Interpolation",
    "NoisyGD",
    "PNSGD",
    "RandomPermutation",
    "RandomStopping",
    "Schedule",
    "SeveralPasses",
    "additive_contraction",
    "best_of",
    "chain_bound",
    "contraction_coefficient",
    "family_contraction",
    "hockey_stick_divergence",
    "pointwise_minimum",
    "projected_contraction",
    "sampled_hockey_stick",
]
