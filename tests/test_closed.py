"""Closed answers against the same formulas at 120 digits, at random parameters over many scales: the bracket holds the truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from dpaccount.curves.profile import PrivacyProfile
from dpaccount.engines import auto, closed
from dpaccount.mechanisms.additive import AdditiveStep
from dpaccount.mechanisms.curve import CurvePair
from dpaccount.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpaccount.mechanisms.exponential import ExponentialMechanism
from dpaccount.mechanisms.finite import FinitePair
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.mechanisms.laplace import Laplace
from dpaccount.mechanisms.pure import ApproximateDP, PureDP
from dpaccount.mechanisms.response import RandomizedResponse
from dpaccount.pair import DominatingPair, Reversed, Step
from dpaccount.sampling.fixed_size import FixedSizeSampled
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.serial import from_json, to_json

DIGITS = 120
Atoms = list[tuple[mpf, mpf]]


def atoms(step: Step) -> Atoms | None:
    """The (p, q) of every outcome, or None."""
    if isinstance(step, FinitePair):
        p, q = [mpf(x) for x in step.p], [mpf(x) for x in step.q]
        return [(x / mp.fsum(p), y / mp.fsum(q)) for x, y in zip(p, q, strict=True)]
    if isinstance(step, (PureDP, ApproximateDP, RandomizedResponse)):
        e, k = mp.exp(mpf(step.epsilon)), step.num_categories if isinstance(step, RandomizedResponse) else 2
        d, n = mpf(step.delta) if isinstance(step, ApproximateDP) else mpf(0), e + k - 1
        pairs = [(e / n, 1 / n), (1 / n, e / n), ((k - 2) / n, (k - 2) / n)]
        return [(d, mpf(0)), (mpf(0), d), *(((1 - d) * x, (1 - d) * y) for x, y in pairs)]
    if isinstance(step, DiscreteLaplace):
        width = step.sensitivity
        a = mp.exp(-1 / (mpf(step.noise_multiplier) * width))
        ends = [(a**width / (1 + a), 1 / (1 + a)), (1 / (1 + a), a**width / (1 + a))]
        return ends + [((1 - a) / (1 + a) * a ** (width - j), (1 - a) / (1 + a) * a**j) for j in range(1, width)]
    if isinstance(step, DiscreteGaussian):
        width = step.sensitivity
        scale = mpf(step.noise_multiplier) * width
        reach = int(scale * 60) + width + 3
        weight = {k: mp.exp(-mpf(k) ** 2 / (2 * scale**2)) for k in range(-reach - width, reach + 1)}
        total = mp.fsum(weight.values())
        return [(weight[k - width] / total, weight[k] / total) for k in range(-reach, reach + 1)]
    inner = atoms(step.step) if isinstance(step, (PoissonSampled, Reversed)) else None
    if inner is None or isinstance(step, Reversed):
        return None if inner is None else [(y, x) for x, y in inner]
    q = mpf(step.sampling_probability)
    return [((1 - q) * y + q * x, y) for x, y in inner]


def hockey_stick(step: Step, gamma: mpf) -> mpf:
    """E_gamma(P||Q) of one step."""
    found = atoms(step)
    if found is not None:
        return mp.fsum(max(x - gamma * y, mpf(0)) for x, y in found)
    loss = mp.log(gamma)
    if isinstance(step, Gaussian):
        mu = 1 / mpf(step.noise_multiplier)
        upper, lower = (mp.erfc((loss / mu + side * mu / 2) / mp.sqrt(2)) / 2 for side in (-1, 1))
        return upper - gamma * lower
    if isinstance(step, Laplace):
        r = 1 / mpf(step.noise_multiplier)
        return -mp.expm1((min(loss, r) - r) / 2) if loss >= -r else 1 - gamma
    if isinstance(step, ExponentialMechanism):
        r = mpf(step.epsilon)
        return mp.expm1((min(loss, r) - r) / 2) ** 2 / -mp.expm1(-r) if loss > -r else 1 - gamma
    if isinstance(step, PoissonSampled):
        q = mpf(step.sampling_probability)
        v = (gamma - 1 + q) / q
        return q * hockey_stick(step.step, v) if v > 0 else 1 - gamma
    if isinstance(step, FixedSizeSampled):
        q, size = mpf(step.sample_size) / step.dataset_size, max(gamma, 1 / gamma)
        value = q * hockey_stick(step.step.scaled(2), (size - 1 + q) / q)
        return value if gamma >= 1 else 1 - gamma + gamma * value
    assert isinstance(step, Reversed)
    assert isinstance(step.step, PoissonSampled)
    q = mpf(step.step.sampling_probability)
    v = (1 / gamma - 1 + q) / q
    return gamma * q * v * hockey_stick(step.step.step.reversed(), 1 / v) if v > 0 else mpf(0)


def misses(pair: Step, epsilon: float) -> str | None:
    """What is wrong with the bracket at epsilon, if anything is."""
    found = auto.log_delta(pair, epsilon)
    with mp.workdps(DIGITS):
        delta = hockey_stick(pair, mp.exp(mpf(epsilon)))
        if delta < mpf(10) ** (10 - DIGITS) and abs(epsilon - pair.loss_range[1]) < 1e-14 * abs(epsilon):
            return None  # the check's own digits end here
        truth = min(mp.log(delta), mpf(0)) if delta > 0 else -mp.inf
        held = found.lower <= truth <= found.upper
    ordered = found.lower <= found.estimate <= found.upper
    return None if held and ordered and found.certified else f"{pair!r} at {epsilon!r}: {mp.nstr(truth, 18)} and {found}"


class Draw:
    """Seeded parameters over many scales."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def scale(self, low: float, high: float) -> float:
        return float(np.exp(self.random.uniform(np.log(low), np.log(high))))

    def vector(self, size: int) -> tuple[float, ...]:
        weight = np.array([self.scale(1e-300, 1.0) if self.random.random() < 0.3 else self.random.random() for _ in range(size)])
        weight[0] += 1e-3
        return tuple(self.random.permutation(weight / weight.sum()).tolist())

    def probability(self) -> float:
        return self.scale(1e-12, 1.0) if self.random.random() < 0.7 else 1.0 - self.scale(1e-16, 1.0)

    def step(self) -> Step:
        sides = int(self.random.integers(1, 6))
        makers: list[Callable[[], Step]] = [
            lambda: Gaussian(self.scale(1e-3, 1e5)),
            lambda: Gaussian(self.scale(1e-3, 1e5)),
            lambda: Laplace(self.scale(2e-3, 1e5)),
            lambda: ExponentialMechanism(self.scale(1e-8, 600.0)),
            lambda: RandomizedResponse(self.scale(1e-12, 600.0), sides + 1),
            lambda: PureDP(self.scale(1e-12, 600.0)),
            lambda: ApproximateDP(self.scale(1e-10, 600.0), self.scale(1e-300, 1.0)),
            lambda: FinitePair(self.vector(sides + 1), self.vector(sides + 1)),
            lambda: DiscreteLaplace(self.scale(0.01, 1e3), sides),
            lambda: DiscreteGaussian(self.scale(0.1, 2.0)),
        ]
        made = makers[int(self.random.integers(len(makers)))]()
        kind = self.random.random()
        if kind < 0.1:
            n = int(self.scale(2.0, 1e7))
            return FixedSizeSampled(Gaussian(self.scale(1e-3, 1e5)), int(self.random.integers(1, n)), n)
        if kind > 0.3:
            made = PoissonSampled(made, self.probability())
        if kind > 0.9:
            made = PoissonSampled(made, self.probability())
        return made.reversed() if self.random.random() < 0.5 else made

    def epsilons(self, step: Step) -> list[float]:
        """Small and large, of both signs, and within ulps of the ends of the range and of a kink."""
        at = [v for v in (*step.loss_range, *step.atoms()[0][-1:].tolist()) if np.isfinite(v) and abs(v) > 1e-300]
        near = [v + int(self.random.integers(-20, 21)) * float(np.spacing(v)) for v in at]
        return [self.scale(1e-15, 50.0), -self.scale(1e-15, 50.0), *at, *near]


@pytest.mark.parametrize("seed", range(6))
def test_brackets_hold_the_truth_at_random_parameters(seed):
    draw = Draw(seed)
    steps = [draw.step() for _ in range(45)]
    assert not [wrong for step in steps for e in draw.epsilons(step) if (wrong := misses(step, e))]


TINY = FinitePair((1 - 2e-300, 2e-300), (1 - 1e-300, 1e-300))


@pytest.mark.parametrize(
    ("pair", "epsilon", "width"),
    [
        (PoissonSampled(Gaussian(1e4), 1e-4).reversed(), 1.0000000000000001e-07, 2e-12),
        (PoissonSampled(Gaussian(1e4), 1e-4).reversed(), 1e-12, 2e-13),
        (PoissonSampled(Laplace(1e4), 0.3).reversed(), 1e-6, 1e-13),
        (PoissonSampled(Gaussian(73.55257834336413), 1e-8), 6.427219073205684e-17, 2e-13),
        (PoissonSampled(Gaussian(884.2622959598982), 1.0), 1e-12, 1e-13),
        (FixedSizeSampled(Gaussian(1e4), 381743, 10**6), -5.8108393271810295e-08, 1e-13),
        (TINY, 0.69, 1e-11),
        (TINY, 0.6931471805, 1e-4),
        (Gaussian(1e-6), 5.0e11, 1e-8),
        (FinitePair((0.6286849549649404, 0.3713150450350597), (1.0, 8.521210901626416e-262)), 6.85e-05, 2e-14),
    ],
    ids=repr,
)
def test_where_digits_were_lost_the_bracket_is_narrow_and_right(pair, epsilon, width):
    assert misses(pair, epsilon) is None
    found = auto.log_delta(pair, epsilon)
    assert found.upper - found.lower <= width


def composed(parts: list[tuple[int, Step]], epsilon: float) -> mpf:
    """log delta over every outcome of a small composition."""
    outcomes: Atoms = [(mpf(1), mpf(1))]
    for count, step in parts:
        for _ in range(count):
            outcomes = [(x * u, y * v) for x, y in outcomes for u, v in atoms(step)]
    return mp.log(mp.fsum(max(x - mp.exp(mpf(epsilon)) * y, mpf(0)) for x, y in outcomes))


@pytest.mark.parametrize(
    ("parts", "epsilon"),
    [
        ([(2, FinitePair((0.0, 1.0), (0.9999999999095287, 9.047136887448502e-11)))], 46.25197536260949),
        ([(5, RandomizedResponse(0.1))], 0.5),
        ([(5, RandomizedResponse(0.1)), (1, ApproximateDP(0.0, 1e-300))], 0.5),
        ([(3, RandomizedResponse(0.1, 3)), (2, PureDP(0.7))], 3 * 0.1 + 2 * 0.7),
        ([(3, TINY)], 0.69),
        ([(4, RandomizedResponse(0.1))], -0.3999999999999999),
    ],
    ids=repr,
)
def test_the_ends_of_a_sum_of_rounded_losses(parts, epsilon):
    pair: DominatingPair = sum((n * s for n, s in parts[1:]), parts[0][0] * parts[0][1])
    with mp.workdps(DIGITS):
        truth = composed(parts, epsilon)
        for method in ("auto", "lattice"):
            found = auto.log_delta(pair, epsilon, method)
            assert found.lower <= truth <= found.upper


def test_an_exact_end_of_the_range_is_exact():
    assert auto.log_delta(PureDP(0.3), 0.3)[:3] == (-np.inf, -np.inf, -np.inf)
    assert auto.log_delta(Laplace(4.0), 0.25).upper == -np.inf
    assert Fraction(1.0 / 3.0) < Fraction(1, 3)  # so the loss of Laplace(3.0) exceeds the double
    assert -45.0 < auto.log_delta(Laplace(3.0), 1.0 / 3.0).upper < -39.0


@pytest.mark.parametrize(
    "pair",
    [
        1000 * DiscreteGaussian(2.0, 4),
        1000 * PoissonSampled(DiscreteGaussian(2.0, 4), 0.01),
        1000 * DiscreteLaplace(1.0, 2000),
        1000 * FinitePair(tuple([1 / 2000] * 2000), tuple([1 / 2000] * 2000)),
    ],
    ids=lambda pair: f"{pair.terms[0][1]} steps",
)
def test_too_many_combinations_are_counted_without_overflow(pair):
    assert auto.select(pair).engine in ("circle", "smoothed", "lattice")  # the last where the loss is constant
    assert 0.0 <= PrivacyProfile(pair, "as-written").delta(0.3).upper <= 1.0


def test_a_swapped_curve_pair_is_closed():
    swapped = CurvePair((-0.5, 0.5, 2.0), (0.6, 0.2, 0.0), symmetric=False).reversed()
    for epsilon in (-1.0, -0.2, 0.0, 0.3):
        assert auto.select(swapped).engine == auto.log_delta(swapped, epsilon).method == "closed"


def test_integers_too_long_to_read_are_refused_in_the_one_shape():
    document = json.loads(to_json(DiscreteGaussian(1.0)))
    document["guarantee"]["sensitivity"] = 10**5000
    text = '{"format": "dpaccount", "version": 1, "guarantee": {"kind": "pure-dp", "epsilon": ' + "1" * 5000 + "}}"
    for given in (document, text):
        with pytest.raises(ValueError, match=r"^`from_json\(.*\)` must be .*; got "):
            from_json(given)


def test_a_mechanism_of_ones_own_is_told_how_to_be_stored():
    class Own(AdditiveStep):
        pass

    Own.__abstractmethods__ = frozenset()
    with pytest.raises(TypeError, match=r"Own has no kind there: .*storing what it was built from.*\"extending\""):
        to_json(Own())


TOPS = [2 * Laplace(1.0), 10 * Laplace(1.0), 5 * PoissonSampled(Laplace(0.7), 0.01), 20 * ExponentialMechanism(1.0) + 2 * Laplace(0.9)]


@pytest.mark.parametrize("pair", TOPS, ids=repr)
def test_a_tiny_delta_lies_next_to_the_largest_loss(pair: DominatingPair) -> None:
    """At the lower end delta is more, by the engines; above the upper end nothing is left."""
    ends = closed.near_top(pair, -690.0)
    assert ends is not None
    low, high = ends
    top = pair.loss_range[1]
    assert low < top < high
    assert high - low < 3e-8 * top
    assert auto.log_delta(pair, low - 1e-6 * top).lower > -690.0
    assert auto.log_delta(pair, high).upper == -np.inf
    found = PrivacyProfile(pair, "as-written").epsilon(log_delta=-690.0)
    assert found.certified
    assert (found.lower, found.upper) == (low, high)


def test_next_to_the_largest_loss_is_as_near_as_the_mass_there_allows() -> None:
    """For two Laplace steps delta(2 - g) is at least (1 - e^{-g})/4, and no more than 1 - e^{-g}."""
    pair = 2 * Laplace(1.0)
    for log_delta in (-25.0, -30.0, -50.0):
        found = closed.near_top(pair, log_delta)
        if found is None:
            assert log_delta > -22.0
            continue
        assert np.log(-np.expm1(found[0] - 2.0)) >= log_delta
    assert closed.near_top(pair, -10.0) is None
    assert closed.near_top(1000 * PoissonSampled(Gaussian(1.0), 0.01), -690.0) is None
    assert closed.near_top(pair + ApproximateDP(0.1, 1e-3), -690.0) is None
