"""Last-iterate accounting: the privacy of an iteration whose intermediate models stay hidden."""

from dpaccount.iteration.best import BestCurve, best_of, pointwise_minimum
from dpaccount.iteration.noisy_gd import NoisyGD
from dpaccount.iteration.shifted import Interpolation, Schedule

__all__ = ["BestCurve", "Interpolation", "NoisyGD", "Schedule", "best_of", "pointwise_minimum"]
