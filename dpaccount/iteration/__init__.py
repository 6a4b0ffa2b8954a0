"""Last-iterate accounting: what a run costs when its intermediate models stay hidden."""

from dpaccount.iteration.contraction import (
    chain_bound,
    contraction_coefficient,
    family_contraction,
    hockey_stick_divergence,
    sampled_hockey_stick,
)
from dpaccount.iteration.lower import Chain
from dpaccount.iteration.kernels import additive_contraction, projected_contraction
from dpaccount.iteration.pnsgd import PNSGD

__all__ = [
    "PNSGD", "Chain",
    "additive_contraction",
    "chain_bound",
    "contraction_coefficient",
    "family_contraction",
    "hockey_stick_divergence",
    "projected_contraction",
    "sampled_hockey_stick",
]
