"""The ball engine: references and twins inside, every bound bounds, planted faults are caught, refusals say why."""

from __future__ import annotations

import itertools
import json
import math
import sys
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flint", reason="python-flint, the extra dpaccount[certify], is not installed")

from flint import arb
from helpers import overlap

from dpaccount import (
    ApproximateDP,
    DiscreteGaussian,
    DominatingPair,
    ExponentialMechanism,
    FinitePair,
    Gaussian,
    Laplace,
    NumericalFailure,
    PoissonSampled,
    PrivacyProfile,
    RandomizedResponse,
    RenyiBound,
    certified_delta,
    certified_epsilon,
)
from dpaccount.engines import auto
from dpaccount.engines.balls import contour, jump
from dpaccount.engines.balls.answer import Question
from dpaccount.engines.balls.law import law
from dpaccount.engines.balls.numbers import decimals, exact, precision
from dpaccount.engines.balls.piece import Piece
from dpaccount.engines.balls.plan import Sketch

REFERENCES = Path(__file__).parent / "references"
GAUSSIANS = json.loads((REFERENCES / "poisson_gaussian.json").read_text())["cases"]
CONTOURS = json.loads((REFERENCES / "contours.json").read_text())
TWINS = json.loads((REFERENCES / "twins.json").read_text())
Found = tuple[Decimal, Decimal]


def enclosed(pair: DominatingPair, epsilon: float, digits: float) -> Found:
    return decimals(Question(pair, Fraction(epsilon)).delta(digits), int(digits) + 5)


def reference_pair(case: dict[str, Any]) -> DominatingPair:
    pair = case["steps"] * PoissonSampled(Gaussian(float(case["noise_multiplier"])), float(case["sampling_probability"]))
    return pair if case["direction"] == "remove" else pair.reversed()


def contour_pair(case: dict[str, Any]) -> DominatingPair:
    parts = [n * PoissonSampled(Gaussian(float.fromhex(s)), float.fromhex(q)) for s, q, n in case["terms"]]
    pair = reduce(lambda a, b: a + b, parts)
    return pair.reversed() if case["reverse"] else pair


def twin_pair(case: dict[str, Any]) -> DominatingPair:
    values = [float.fromhex(x) if isinstance(x, str) else x for x in case["parameters"]]
    made: dict[str, Any] = {
        "sampled": lambda s, q: PoissonSampled(Gaussian(s), q),
        "exchanged": lambda s, q: PoissonSampled(Gaussian(s), q).under("replace-one")[0],
        "sampled laplace": lambda b, q: PoissonSampled(Laplace(b), q),
        "laplace": Laplace,
        "exponential": ExponentialMechanism,
        "4 gaussians and laplace": lambda s, b: 4 * Gaussian(s) + Laplace(b),
        "discrete gaussian": DiscreteGaussian,
        "response": RandomizedResponse,
    }
    pair = case["count"] * made[case["kind"]](*values)
    return pair.reversed() if case["reverse"] else pair


# references


@pytest.mark.parametrize("case", GAUSSIANS, ids=lambda c: f"{c['noise_multiplier']}-{c['epsilon']}-{c['direction']}")
def test_references_are_bracketed_far_below_1e_14(case: dict[str, Any]) -> None:
    """Doubles are within half an ulp of the references' decimal parameters, and that moves delta by so much."""
    low, high = enclosed(reference_pair(case), float(case["epsilon"]), 18)
    assert 0 < high - low <= low * Decimal("1e-18")
    slack = Decimal("2e-17")
    for name in ("noise_multiplier", "sampling_probability", "epsilon"):
        moved = {**case, name: math.nextafter(float(case[name]), math.inf)}
        slack += abs(enclosed(reference_pair(moved), float(moved["epsilon"]), 18)[0] / low - 1) * Decimal("0.51")
    assert slack < Decimal("5e-14")
    assert abs(Decimal(case["delta"]) / low - 1) < slack


@pytest.mark.parametrize("index", range(len(CONTOURS)))
def test_contours_of_other_hands_agree_to_all_their_digits(index: int) -> None:
    case = CONTOURS[index]
    low, high = enclosed(contour_pair(case), float.fromhex(case["epsilon"]), 25)
    assert high - low <= low * Decimal("1e-25")
    assert abs(Decimal(case["delta"]) / low - 1) < Decimal("1e-21")


@pytest.mark.parametrize("case", TWINS, ids=lambda c: f"{c['count']} {c['kind']}")
def test_twins_agree_to_30_digits(case: dict[str, Any]) -> None:
    low, high = enclosed(twin_pair(case), float.fromhex(case["epsilon"]), 32)
    assert high - low <= low * Decimal("1e-32")
    assert abs(Decimal(case["delta"]) / low - 1) < Decimal("2e-31")


def test_more_digits_lie_inside_fewer() -> None:
    run = 1000 * PoissonSampled(Gaussian(1.0), 0.01)
    found = [certified_delta(run, 1, digits=n) for n in (5, 12, 25, 50)]
    for wide, narrow in itertools.pairwise(found):
        assert wide.lower <= narrow.lower <= narrow.upper <= wide.upper
    assert found[-1].width <= found[-1].lower * Decimal("1e-50")


HARD = {
    "far cluster": (15_000_000 * PoissonSampled(Gaussian(1.4), 2e-5), 0.29),
    "bodies and jumps": (20_000 * PoissonSampled(Gaussian(1.0), 1e-3), 0.3),
    "a jump beside infinite losses": (20_000 * PoissonSampled(Gaussian(1.0), 1e-3) + FinitePair((0.99, 0.01), (1.0, 0.0)), 3.0),
    "a billion": (10**9 * PoissonSampled(Gaussian(3.0), 3e-6), 0.0),
}


@pytest.mark.parametrize("name", HARD)
def test_big_jumps_are_split_off(name: str) -> None:
    """As the line splits them off in doubles, with other nodes, other cuts and other bounds."""
    pair, epsilon = HARD[name]
    balls, line = (auto.log_delta(pair, epsilon, method) for method in ("balls", "line"))
    assert overlap(balls, line)
    assert balls.upper - balls.lower < 1e-13


# planted faults


def missed() -> int:
    """How many references lie outside their enclosure by more than the decimals of their parameters explain."""
    count = 0
    for case in CONTOURS[:5]:
        try:
            low, high = enclosed(contour_pair(case), float.fromhex(case["epsilon"]), 14)
        except ArithmeticError:
            continue
        value = Decimal(case["delta"])
        count += not low * (1 - Decimal("1e-20")) <= value <= high * (1 + Decimal("1e-20"))
    return count


def test_nothing_is_missed_without_a_fault() -> None:
    assert missed() == 0


def test_a_doubled_node_spacing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second node with twice its weight, and the error as before."""
    honest = Piece._trapezoid

    def coarse(piece: Piece, c: float, rate: float, goal: float) -> Any:
        weights, losses, error = honest(piece, c, rate, goal)
        return [2 * w for w in weights[::2]], losses[::2], error

    monkeypatch.setattr(Piece, "_trapezoid", coarse)
    assert missed() > 0


def test_a_halved_truncation_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, reach = contour.Problem._bound, contour.Problem._reach
    monkeypatch.setattr(contour.Problem, "_reach", lambda problem, at, goal: reach(problem, at, goal) / 4)
    monkeypatch.setattr(contour.Problem, "_bound", lambda problem, at, s: honest(problem, at, 4 * s))
    assert missed() > 0


def test_a_dropped_tail_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Piece.window

    def narrow(piece: Piece, c: float, goal: float) -> tuple[float, float]:
        low, high = honest(piece, c, goal)
        return low + 0.2 * (high - low), high - 0.2 * (high - low)

    monkeypatch.setattr(Piece, "window", narrow)
    monkeypatch.setattr(Piece, "_tails", lambda piece, c, low, high: arb(0))
    assert missed() > 0


def test_a_shortened_period_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, less = Sketch.period, contour.Problem._less_aliases

    def short(sketch: Sketch, at: Any, epsilon: float, goal: float) -> tuple[float, float]:
        period, tilt = honest(sketch, at, epsilon, goal)
        return period / 4, tilt

    monkeypatch.setattr(Sketch, "period", short)
    monkeypatch.setattr(
        contour.Problem, "_less_aliases", lambda problem, total, at, period, tilt: less(problem, total, at, 4 * period, tilt)
    )
    assert missed() > 0


def test_a_dropped_jump_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = jump.split

    def without(*facts: Any) -> jump.Split:
        return honest(*facts)._replace(jump=arb(0))

    pair = 20_000 * PoissonSampled(Gaussian(1.0), 1e-3)
    true = Question(pair, Fraction(3)).delta(10.0)
    monkeypatch.setattr("dpaccount.engines.balls.answer.split", without)
    monkeypatch.setattr("dpaccount.engines.balls.answer.CHEAP", 0)
    try:
        assert not Question(pair, Fraction(3)).delta(10.0).overlaps(true)
    except ArithmeticError:
        pytest.fail("the fault must give a number, or nothing is tested")


def test_a_swapped_parameter_is_caught() -> None:
    """The enclosure of a slightly different mechanism misses the reference."""
    case = CONTOURS[0]
    (s, q, n), = case["terms"]
    other = n * PoissonSampled(Gaussian(math.nextafter(float.fromhex(s), 0.0)), float.fromhex(q))
    low, high = enclosed(other.reversed() if case["reverse"] else other, float.fromhex(case["epsilon"]), 25)
    assert not low <= Decimal(case["delta"]) <= high


# the face


def test_the_profile_answers_in_doubles() -> None:
    run = 1000 * PoissonSampled(Gaussian(1.0), 0.01)
    balls, line = PrivacyProfile(run, method="balls"), PrivacyProfile(run)
    found = balls.delta(epsilon=[0.5, 1.0])
    assert found.certified
    assert found.method == "balls"
    assert np.all(found.width <= 1e-14 * found.lower)
    other = line.delta(epsilon=[0.5, 1.0])
    assert np.all((found.lower <= other.upper) & (other.lower <= found.upper))
    epsilon = balls.epsilon(delta=1e-5)
    digits = certified_epsilon(run, 1e-5, digits=18)
    assert epsilon.lower <= float(digits.lower) <= epsilon.upper
    assert epsilon.width < 1e-13


def test_epsilon_and_delta_are_inverse() -> None:
    for pair, delta in (
        (300 * PoissonSampled(Gaussian(1.0), 0.02), "1e-6"), (5 * Laplace(2.0), "0.01"), (10 * ApproximateDP(0.1, 1e-4), "0.02"),
        (60 * DiscreteGaussian(5.0), "1e-8"),
    ):
        root = certified_epsilon(pair, delta, digits=22)  # type: ignore[arg-type]
        assert 0 < root.width <= root.lower * Decimal("1e-22")
        above, below = (certified_delta(pair, e, digits=26) for e in (root.lower, root.upper))  # type: ignore[arg-type]
        assert above.upper >= Decimal(delta) >= below.lower


def test_special_epsilons() -> None:
    assert certified_epsilon(Gaussian(1.0), 0.9)[:2] == (0, 0)
    assert certified_epsilon(10 * ApproximateDP(0.1, 1e-4), "1e-5").upper == Decimal("Infinity")
    assert not certified_delta(20 * PoissonSampled(Gaussian(1.0), 0.2), 1, adjacency="replace-one", digits=8).proved


def test_deltas_at_and_beyond_the_ends_of_the_loss() -> None:
    assert certified_delta(3 * RandomizedResponse(1.0), 4, adjacency="replace-one")[:2] == (0, 0)
    below = certified_delta(3 * RandomizedResponse(1.0), -4, adjacency="replace-one", digits=20)
    assert abs(below.lower - (1 - Decimal(-4).exp())) < Decimal("1e-20")
    added = (200 * PoissonSampled(Gaussian(1.0), 0.02)).reversed()
    assert Question(added, Fraction(10)).delta(15.0) == 0


@pytest.mark.parametrize(
    ("pair", "word"),
    [
        (10 * PoissonSampled(Gaussian(1.0), 1e-3), "decay"),
        (30 * PoissonSampled(FinitePair((0.5, 0.3, 0.15, 0.05), (0.1, 0.2, 0.3, 0.4)), 0.3), "lattice"),
    ],
)
def test_a_refusal_says_why(pair: DominatingPair, word: str) -> None:
    with pytest.raises(NumericalFailure, match=f"`method='balls'`.*{word}"):
        auto.log_delta(pair, 0.25, "balls")
    with pytest.raises(NumericalFailure, match="`certified_delta`"):
        certified_delta(pair, 0.25, adjacency="as-written")


def test_without_python_flint_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(ImportError, match=r"dpaccount\[certify\]"):
        auto.log_delta(2 * Gaussian(1.0), 1.0, "balls")
    with pytest.raises(ImportError, match=r"`certified_delta`.*dpaccount\[certify\]"):
        certified_delta(Gaussian(1.0), 1)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: certified_delta(RenyiBound.zcdp(1.0), 1), "guarantee"),  # type: ignore[arg-type]
        (lambda: certified_delta(Gaussian(1.0), "one"), "epsilon"),
        (lambda: certified_delta(Gaussian(1.0), math.nan), "epsilon"),
        (lambda: certified_delta(Gaussian(1.0), Decimal("Infinity")), "epsilon"),
        (lambda: certified_delta(Gaussian(1.0), 1, digits=0), "digits"),
        (lambda: certified_delta(Gaussian(1.0), 1, digits=401), "digits"),
        (lambda: certified_epsilon(Gaussian(1.0), 0), "delta"),
        (lambda: certified_epsilon(Gaussian(1.0), 1), "delta"),
        (lambda: certified_epsilon(Gaussian(1.0), True), "delta"),
    ],
)
def test_bad_input_is_refused(call: Any, name: str) -> None:
    with pytest.raises((ValueError, TypeError), match=rf"`certified_\w+\({name}=...\)` must be"):
        call()


def test_precision_is_left_as_it_was() -> None:
    from flint import ctx

    before = ctx.prec
    certified_delta(5 * Laplace(2.0), 1, digits=60)
    assert ctx.prec == before


def test_pieces_are_cut_where_it_is_said() -> None:
    with precision(150):
        (piece,) = law(PoissonSampled(Gaussian(1.0), 0.01)).pieces
        body, p, q = jump._cut(piece, 2.0, exact(2.0))
        assert body.high is not None
        assert replace(body, high=None).low is None
        kept = sum(body.nodes(0.0, 0.0, 40.0)[0], arb(0))
        assert abs(kept + p - 1) < 1e-15
        assert q < p
