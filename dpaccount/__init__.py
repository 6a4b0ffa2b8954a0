"""Differential-privacy accounting: one privacy loss, every curve, with error bars."""

from dpaccount.adjacency import Adjacency, UnsupportedAdjacency
from dpaccount.bestof import BestOf
from dpaccount.calibration import UnreachableTarget, calibrate
from dpaccount.certified import Enclosure, certified_delta, certified_epsilon
from dpaccount.citations import citations
from dpaccount.curves.approximate import approximate_draw
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.curves.renyi import RenyiCurve
from dpaccount.curves.trade_off import TradeOffFunction
from dpaccount.engines.auto import select
from dpaccount.grid import Sweep
from dpaccount.mechanisms.curve import CurvePair
from dpaccount.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.gdp import GaussianDP
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.log_concave import StronglyLogConcave
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.pair import DominatingPair
from dpaccount.regularized import RegularizedExponentialMechanism
from dpaccount.renyi import RenyiBound
from dpaccount.results import Bounds, Calibration, NumericalFailure, Status
from dpaccount.sampling.fixed_size import FixedSizeSampled
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.sampling.schedule import NoiseSchedule
from dpaccount.serial import from_json, to_json
from dpaccount.sweep import dp_sgd, sweep
from dpaccount.training import PrivacyWarning, TrainingRun

__all__ = [
    "Adjacency",
    "ApproximateDP",
    "BestOf",
    "Bounds",
    "Calibration",
    "CurvePair",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DominatingPair",
    "Enclosure",
    "ExponentialMechanism",
    "FinitePair",
    "FixedSizeSampled",
    "Gaussian",
    "GaussianDP",
    "Laplace",
    "NoiseSchedule",
    "NumericalFailure",
    "PoissonSampled",
    "PrivacyProfile",
    "PrivacyWarning",
    "PureDP",
    "RandomizedResponse",
    "RegularizedExponentialMechanism",
    "RenyiBound",
    "RenyiCurve",
    "Status",
    "StronglyLogConcave",
    "Sweep",
    "TradeOffFunction",
    "TrainingRun",
    "UnreachableTarget",
    "UnsupportedAdjacency",
    "approximate_draw",
    "calibrate",
    "certified_delta",
    "certified_epsilon",
    "citations",
    "dp_sgd",
    "from_json",
    "select",
    "sweep",
    "to_json",
]
