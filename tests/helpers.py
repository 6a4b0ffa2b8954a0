"""The one registry: every pair, engine and relation. Joining it is how a pair gets its laws tested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec

import mpmath as mp
import numpy as np

from dpaccount.adjacency import Adjacency, UnsupportedAdjacency
from dpaccount.engines import auto
from dpaccount.engines.line import answer as line
from dpaccount.engines.vouch import CannotVouch
from dpaccount.mechanisms.curve import CurvePair
from dpaccount.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.gdp import GaussianDP
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.pair import DominatingPair, Step
from dpaccount.results import LogDelta
from dpaccount.sampling.fixed_size import FixedSizeSampled
from dpaccount.sampling.poisson import PoissonSampled

ASYMMETRIC = FinitePair((0.5, 0.3, 0.15, 0.05), (0.1, 0.2, 0.3, 0.4))
WITH_INFINITY = FinitePair((0.5, 0.3, 0.2, 0.0), (0.0, 0.2, 0.4, 0.4))

STEPS: dict[str, Step] = {
    "gaussian 1.3": Gaussian(1.3),
    "gaussian .3": Gaussian(0.3),
    "gaussian 40": Gaussian(40.0),
    "no noise": Gaussian(0.0),
    "laplace .8": Laplace(0.8),
    "laplace 20": Laplace(20.0),
    "discrete gaussian": DiscreteGaussian(1.5),
    "discrete gaussian, sensitivity 3": DiscreteGaussian(0.9, 3),
    "discrete laplace": DiscreteLaplace(1.2),
    "discrete laplace, sensitivity 3": DiscreteLaplace(0.7, 3),
    "binary response": RandomizedResponse(0.4),
    "response of 7": RandomizedResponse(1.1, 7),
    "exponential": ExponentialMechanism(1.5),
    "exponential .05": ExponentialMechanism(0.05),
    "gaussian dp": GaussianDP(0.8),
    "gaussian dp 0": GaussianDP(0.0),
    "pure": PureDP(0.7),
    "pure 0": PureDP(0.0),
    "approximate": ApproximateDP(0.5, 1e-3),
    "approximate 0": ApproximateDP(0.0, 0.2),
    "finite": ASYMMETRIC,
    "finite with infinities": WITH_INFINITY,
    "disjoint": FinitePair((1.0, 0.0), (0.0, 1.0)),
    "curve": CurvePair((0.0, 1.0), (0.1, 0.01)),
    "one-sided curve": CurvePair((-0.5, 0.5, 2.0), (0.6, 0.2, 0.0), symmetric=False),
    "fixed size": FixedSizeSampled(Gaussian(1.1), 10, 100),
    "fixed size, all": FixedSizeSampled(Gaussian(2.0), 100, 100),
}
SAMPLED: dict[str, Step] = {
    "sampled gaussian .05": PoissonSampled(Gaussian(0.9), 0.05),
    "sampled gaussian .5": PoissonSampled(Gaussian(2.0), 0.5),
    "sampled gaussian 1e-4": PoissonSampled(Gaussian(0.5), 1e-4),
    "sampled gaussian 0": PoissonSampled(Gaussian(0.9), 0.0),
    "sampled gaussian 1": PoissonSampled(Gaussian(0.9), 1.0),
    "sampled twice": PoissonSampled(PoissonSampled(Gaussian(0.9), 0.5), 0.2),
    "sampled no noise": PoissonSampled(Gaussian(0.0), 0.1),
    "sampled laplace": PoissonSampled(Laplace(0.9), 0.1),
    "sampled discrete gaussian": PoissonSampled(DiscreteGaussian(1.5), 0.2),
    "sampled discrete laplace": PoissonSampled(DiscreteLaplace(0.7, 3), 0.2),
    "sampled response": PoissonSampled(RandomizedResponse(1.1, 7), 0.3),
    "sampled exponential": PoissonSampled(ExponentialMechanism(1.0), 0.3),
    "sampled gaussian dp": PoissonSampled(GaussianDP(0.6), 0.1),
    "sampled pure": PoissonSampled(PureDP(0.7), 0.2),
    "sampled approximate": PoissonSampled(ApproximateDP(0.5, 1e-3), 0.2),
    "sampled finite": PoissonSampled(ASYMMETRIC, 0.3),
    "sampled finite with infinities": PoissonSampled(WITH_INFINITY, 0.3),
    "sampled curve": PoissonSampled(CurvePair((0.0, 1.0), (0.1, 0.01)), 0.2),
    "exchanged sampled gaussian": PoissonSampled(Gaussian(0.9), 0.05).under("replace-one")[0],  # type: ignore[dict-item]
    "exchanged sampled laplace": PoissonSampled(Laplace(0.9), 0.1).under("replace-one")[0],  # type: ignore[dict-item]
    "exchanged sampled discrete": PoissonSampled(DiscreteLaplace(0.7, 3), 0.2).under("replace-one")[0],  # type: ignore[dict-item]
}
ONE_STEP: dict[str, Step] = {
    **STEPS,
    **SAMPLED,
    **{f"reversed {name}": step.reversed() for name, step in {**STEPS, **SAMPLED}.items() if step.reversed() != step},  # type: ignore[misc]
}
COMPOSED: dict[str, DominatingPair] = {
    "5 gaussians and 2": 5 * Gaussian(3.0) + 2 * Gaussian(1.7),
    "100 sampled gaussians": 100 * PoissonSampled(Gaussian(1.0), 0.05),
    "reversed 100 sampled gaussians": (100 * PoissonSampled(Gaussian(1.0), 0.05)).reversed(),
    "1e6 sampled gaussians": 1_000_000 * PoissonSampled(Gaussian(0.7), 1e-4),
    "1e9 sampled gaussians": 1_000_000_000 * PoissonSampled(Gaussian(3.0), 3e-6),
    "two phases": 50 * PoissonSampled(Gaussian(1.0), 0.05) + 200 * PoissonSampled(Gaussian(2.0), 0.02),
    "7 responses": 7 * RandomizedResponse(0.4),
    "200 responses": 200 * RandomizedResponse(0.05, 7),
    "20 discrete gaussians": 20 * DiscreteGaussian(4.0),
    "30 discrete laplaces": 30 * DiscreteLaplace(5.0, 2),
    "3 gaussian dp": 3 * GaussianDP(0.4),
    "10 approximate": 10 * ApproximateDP(0.1, 1e-4),
    "3 finite": 3 * ASYMMETRIC,
    "2 finite with infinities": 2 * WITH_INFINITY,
    "20 laplaces": 20 * Laplace(5.0),
    "50 sampled laplaces": 50 * PoissonSampled(Laplace(0.9), 0.05),
    "10 exponentials": 10 * ExponentialMechanism(0.3),
    "20 fixed size": 20 * FixedSizeSampled(Gaussian(2.0), 10, 100),
    "gaussian and response": Gaussian(1.25) + RandomizedResponse(1.0, 5),
    "sampled gaussian and approximate": 30 * PoissonSampled(Gaussian(1.0), 0.05) + 2 * ApproximateDP(0.1, 1e-4),
    "incommensurate lattices": 4 * RandomizedResponse(0.3) + 3 * DiscreteLaplace(2.3),
    "exchanged sampled gaussians": 30 * SAMPLED["exchanged sampled gaussian"],
}
PAIRS: dict[str, DominatingPair] = {**ONE_STEP, **COMPOSED}

HAS_BALLS = find_spec("flint") is not None  # python-flint, the extra dpaccount[certify]
ENGINES = tuple(method for method in auto.METHODS if method != "auto" and (method != "balls" or HAS_BALLS))
ADJACENCIES = tuple(Adjacency)
EPSILON = (-1.7, -0.4, -0.03, 0.0, 0.03, 0.3, 1.1, 3.0)

# the relations that a mechanism refuses, each with a word that the reason must contain
REFUSED: dict[str, tuple[Adjacency, str]] = {
    "binary response": (Adjacency.ADD_OR_REMOVE, "replace-one"),
    "response of 7": (Adjacency.ZERO_OUT, "local report"),
    "fixed size": (Adjacency.ADD_OR_REMOVE, "fixed-size"),
    "fixed size, all": (Adjacency.ZERO_OUT, "number of records"),
    "sampled response": (Adjacency.ADD_OR_REMOVE, "replace-one"),
    "sampled exponential": (Adjacency.REPLACE_ONE, "additive"),
    "sampled finite": (Adjacency.REPLACE_ONE, "additive"),
    "sampled pure": (Adjacency.REPLACE_ONE, "additive"),
    "exchanged sampled gaussian": (Adjacency.ADD_OR_REMOVE, "another relation"),
    "reversed sampled gaussian .05": (Adjacency.ADD_OR_REMOVE, "as-written"),
    "7 responses": (Adjacency.ADD_OR_REMOVE, "replace-one"),
    "gaussian and response": (Adjacency.ADD_OR_REMOVE, "local report"),
    "20 fixed size": (Adjacency.ADD_OR_REMOVE, "replace-one"),
}


def supported(pair: DominatingPair) -> Iterator[Adjacency]:
    """The relations that a pair does not refuse."""
    for adjacency in ADJACENCIES:
        try:
            pair.under(adjacency)
        except UnsupportedAdjacency:
            continue
        yield adjacency


def masses(pair: DominatingPair) -> tuple[float, float]:
    """log of 1 - P{q = 0} and of 1 - Q{p = 0}, from the steps' facts."""
    with np.errstate(divide="ignore"):
        p = sum(n * np.log1p(-np.exp(step.facts.log_p_only)) for step, n in pair.terms)
        q = sum(n * np.log1p(-np.exp(step.facts.log_q_only)) for step, n in pair.terms)
    return float(p), float(q)


def overlap(a: LogDelta, b: LogDelta, slack: float = 1e-12) -> bool:
    """Whether two brackets of log delta intersect; `slack` covers the comparison's own rounding, relative to delta."""
    return a.lower <= b.upper + slack and b.lower <= a.upper + slack


def ordered(answer: LogDelta) -> bool:
    """lower <= estimate <= upper <= 0, and nothing is NaN (comparisons with NaN are false)."""
    return answer.lower <= answer.estimate <= answer.upper <= 0.0


def log_of(digits: str) -> float:
    """log of a number given by more digits than a double holds."""
    with mp.workdps(30):
        return float(mp.log(mp.mpf(digits)))


def violations(asked: Iterable[tuple[Callable[[], LogDelta], float]], slack: float = 0.0) -> int:
    """How many certified brackets miss the true log delta beside them; what is refused or only estimated misses nothing."""
    count = 0
    for ask, truth in asked:
        try:
            found = ask()
        except CannotVouch:
            continue
        count += found.certified and not found.lower - slack <= truth <= found.upper + slack
    return count


def excluded(pair: DominatingPair, epsilon: float, log_goal: float) -> bool:
    """Whether Chernoff's bound proves log delta < log_goal."""
    found, _ = line.ceiling(pair, epsilon, log_goal)
    return found is not None and found.at(epsilon) < log_goal
