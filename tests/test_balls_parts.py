"""The parts of the ball engine: node errors, decay, tails, laws of steps, conversions: every bound bounds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("flint", reason="python-flint, the extra dpaccount[certify], is not installed")

from flint import acb, arb
from helpers import PAIRS

from dpaccount import (
    ApproximateDP,
    DiscreteGaussian,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
)
from dpaccount.engines.balls import contour, single, sums
from dpaccount.engines.balls.answer import Question
from dpaccount.engines.balls.decay import Decay
from dpaccount.engines.balls.law import law
from dpaccount.engines.balls.numbers import accuracy, decimals, down, exact, precision, up
from dpaccount.engines.balls.piece import Piece
from dpaccount.engines.balls.plan import Term


def some_pieces() -> list[tuple[str, Piece]]:
    steps = {
        "sampled": PoissonSampled(Gaussian(0.8), 0.02),
        "added": PoissonSampled(Gaussian(0.8), 0.02).reversed(),
        "exchanged": PoissonSampled(Gaussian(1.2), 0.1).under("replace-one")[0],
        "laplace": PoissonSampled(Laplace(0.7), 0.2),
        "fixed size": FixedSizeSampled(Gaussian(1.5), 30, 100),
        "integers": PoissonSampled(DiscreteGaussian(1.5, 2), 0.2),
    }
    with precision(160):
        return [(name, law(step).pieces[0]) for name, step in steps.items()]  # type: ignore[arg-type]


PIECES = some_pieces()


@pytest.mark.parametrize(("name", "piece"), PIECES, ids=[name for name, _ in PIECES])
@pytest.mark.parametrize(("tilt", "rate"), [(2.0, 40.0), (-0.4, 5.0), (-3.5, 8.0), (15.0, 0.0)])
def test_node_errors_are_bounds(name: str, piece: Piece, tilt: float, rate: float) -> None:
    """A rule to 8 digits misses one to 45 by no more than it says, and says something useful."""
    with precision(220):
        for part in (0.0, 0.5, 1.0):
            values = []
            for goal in (18.0, 105.0):
                weights, losses, error = piece.nodes(tilt, rate, goal)
                wave = sum((w * acb(0, exact(part * rate) * loss).exp() for w, loss in zip(weights, losses, strict=True)), acb(0))
                values.append((wave, error, sum(weights, arb(0))))
            (coarse, error, _), (fine, rest, whole) = values
            assert (coarse - fine).abs_lower() <= error + rest
            assert error < whole * exact(1e-6)


@pytest.mark.parametrize(("name", "piece"), PIECES[:5], ids=[name for name, _ in PIECES[:5]])
@pytest.mark.parametrize("tilt", [0.6, 5.0, -2.0])
def test_decay_bounds_every_later_modulus(name: str, piece: Piece, tilt: float) -> None:
    """At a hundred places beyond each s the transform of the piece stays below what is claimed, which falls."""
    with precision(100):
        weights, _, error = piece.nodes(tilt, 0.0, 40.0)
        whole = sum(weights, arb(0)) + error
        decay = Decay([piece], tilt, whole.upper())
        sd = 1.0 / np.std([float(loss) for loss in piece.nodes(tilt, 0.0, 40.0)[1]])
        before = arb(1)
        for s in (0.5 * sd, 4.0 * sd, 40.0 * sd):
            bound = decay.bound(exact(s))
            assert bound <= before
            before = bound
            weights, losses, error = piece.nodes(tilt, 6.0 * s, 30.0)
            for wave in contour.waves(weights, losses, exact(5.0 * s / 100), 120)[20:]:
                assert (wave.abs_lower() - error) / whole <= bound


def test_tails_bound_what_they_leave_out() -> None:
    with precision(120):
        for _, piece in PIECES[:3]:
            assert piece.variance is not None
            for tilt, x in ((2.0, 9.0), (0.0, 4.0), (-3.0, 6.0), (12.0, 30.0)):
                for right in (True, False):
                    at = exact(x if right else -x)
                    step = exact(1) / 64
                    mass = sum((piece.node(at + step * k * (1 if right else -1), exact(tilt))[0].exp() for k in range(1, 1500)), arb(0))
                    assert mass * step <= piece.beyond(at, exact(tilt), right)


def test_powers_in_two_strides_are_plain_sums() -> None:
    with precision(120):
        weights, losses = [exact(x) for x in (0.2, 0.5, 0.3)], [exact(x) for x in (-1.0, 0.25, 3.0)]
        for k, wave in enumerate(contour.waves(weights, losses, exact(0.125), 37)):
            plain = sum((w * acb(0, exact(0.125) * k * x).exp() for w, x in zip(weights, losses, strict=True)), acb(0))
            assert wave.overlaps(plain)
            assert abs(wave - plain) < 1e-30


def test_laws_of_steps_are_probabilities() -> None:
    """Masses of P and of Q sum to 1, for every mechanism of the registry."""
    with precision(200):
        for name, pair in PAIRS.items():
            for step, _ in pair.terms:
                found = law(step)
                for tilt in (0.0, -1.0):
                    total = found.p_only if tilt == 0.0 else found.q_only
                    total += sum((p if tilt == 0.0 else q for p, q in found.finite), arb(0))
                    for piece in found.pieces:
                        weights, _, error = piece.nodes(tilt, 0.0, 60.0)
                        total += sum(weights, arb(0)) + error.union(-error)
                    assert total.overlaps(arb(1)), name
                    assert abs(total - 1) < 1e-20, name


def test_formulas_and_contours_agree() -> None:
    """Where two of the three forms apply they are one number."""
    with precision(160):
        eps = exact(0.75)
        for step in (Laplace(0.8), ExponentialMechanism(1.5), RandomizedResponse(1.1, 7), ApproximateDP(0.5, 1e-3)):
            composition = sums.composed([Term(law(step), 1)])  # type: ignore[arg-type]
            assert composition is not None
            alone = single.delta(law(step), eps, 160)  # type: ignore[arg-type]
            assert (law(step).p_only + sums.delta(composition, eps)).overlaps(alone)  # type: ignore[arg-type]
        line = contour.Problem([Term(law(Gaussian(4.0)), 64)], arb(0), Fraction(3, 4), arb(0), None).delta(45.0, None)
        formula = single.delta(law(Gaussian(0.5)), eps, 160)
        assert line.overlaps(formula)
        assert accuracy(line) > 35
        lattice = Question(300 * RandomizedResponse(0.05, 7), Fraction(1, 2))
        exact_sum = sums.composed([Term(law(RandomizedResponse(0.05, 7)), 300)])
        if exact_sum is not None:
            assert lattice._contour([Term(law(RandomizedResponse(0.05, 7)), 300)], arb(0), arb(0), Fraction(1, 2), 45.0, None).overlaps(
                sums.delta(exact_sum, exact(0.5))
            )


def test_conversions_go_outward() -> None:
    with precision(300):
        for x in (arb(2).sqrt(), -arb(3).exp(), arb("1e-400") * arb.pi(), arb(0.1)):
            assert arb(down(x)) <= x.lower()
            assert arb(up(x)) >= x.upper()
            low, high = decimals(x, 12)
            assert low <= high
            assert arb(str(low)).lower() <= x
            assert arb(str(high)).upper() >= x
            assert Fraction(down(x)) <= Fraction(high)
