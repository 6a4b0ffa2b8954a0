"""An upper end for few Poisson-sampled Gaussian steps, in ball arithmetic: the step's curve between points of a lattice, composed.

The hockey-stick curve of one step is convex in e^epsilon. Between the points of a lattice its chords lie above it, and are the curve
of a pair with losses on the lattice, which dominates the step (Doroshenko and others 2022, "connect the dots"). Whole powers of the
polynomial of its masses compose it. Any lattice gives a valid end. Needs python-flint (extra ``certify``).
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from dpaccount.curves.profile import PrivacyProfile
from dpaccount.mechanisms.gaussian import Gaussian
from dpaccount.results import NumericalFailure
from dpaccount.sampling.poisson import PoissonSampled
from dpaccount.statement import shown_up

if TYPE_CHECKING:
    from flint import arb

BITS, LENGTH, POINTS = 160, 2**17, 4096  # of balls; of the composed law; of a lattice, at most
FEW, MANY = 0.25, 256  # samples below which no contour of balls is tried; steps beyond which one is
REST = 1e-7  # share of delta that losses beyond the lattice may take


def few(rate: float, steps: int) -> bool:
    """Whether a contour takes minutes, and a lattice does not."""
    return 1 < steps <= MANY and steps * rate < FEW


def lattice(sigma: float, rate: float, steps: int, delta: float) -> dict[str, Any] | None:
    """The points: whole multiples of a step, from the least loss to one that is hardly passed."""
    if not 1 < steps <= MANY or delta <= 0.0:
        return None
    top = float(PrivacyProfile(PoissonSampled(Gaussian(sigma), rate)).epsilon(delta=delta * REST / steps).upper)
    least = math.log1p(-rate)
    if not 0.0 < top < 700.0:
        return None
    points = min(POINTS, LENGTH // steps)
    step = float(f"{(top - least) / points:.6g}")
    return {"step": step, "low": math.floor(least / step) - 1, "high": math.ceil(top / step) + 1}


def sound(event: dict[str, Any]) -> bool:
    """Whether an event is such a lattice."""
    if set(event) != {"step", "low", "high"} or type(event["step"]) is not float or not 1e-9 < event["step"] < 10.0:
        return False
    low, high = event["low"], event["high"]
    return type(low) is int and type(high) is int and low < 0 < high and high - low <= 2 * POINTS and high * event["step"] < 1000.0


def least_epsilon(sigma: float, rate: float, steps: int, delta: float, event: dict[str, Any], digits: int) -> str:
    """The least decimal of so many digits at which delta of the composed pairs, in both directions, is at most delta."""
    if (event["high"] - event["low"]) * steps > 4 * LENGTH:
        raise NumericalFailure("`certificate` has no proof here: the lattice is too fine for so many steps.")
    sides = [_composed(values, steps, event) for values in _curves(sigma, rate, event)]

    def fits(value: Decimal) -> bool:
        return all(_at_most(side, Fraction(value), delta, event["step"]) for side in sides)

    low, high = 0.0, float(event["high"]) * event["step"] * steps
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(Decimal(middle)) else (middle, high)
    value = Decimal(shown_up(high, digits)) if high > 0.0 else Decimal(0)
    unit = Decimal(1).scaleb(value.adjusted() - digits + 1)
    for _ in range(8):
        if not fits(value):
            value += unit
        elif value - unit >= 0 and fits(value - unit):
            value -= unit
        else:
            return str(value)
    raise NumericalFailure("`certificate` has no proof here: the digits do not settle.")


def _curves(sigma: float, rate: float, event: dict[str, Any]) -> list[list[arb]]:
    """delta of one step at the points, when the record is removed and when it is added."""
    from dpaccount.engines.balls.numbers import exact, precision

    with precision(BITS):
        s, q, h, root = exact(sigma), exact(rate), exact(event["step"]), exact(2).sqrt()

        def normal(x: arb) -> arb:
            return (-x / root).erfc() / 2

        def crossing(gamma: arb) -> arb:
            """Where the mixture's density is gamma times the other's."""
            return s * s * ((gamma - 1 + q) / q).log() + exact(1) / 2

        def removed(gamma: arb) -> arb:
            if not gamma > 1 - q:
                return 1 - gamma if gamma <= 1 - q else (1 - gamma).union((1 - gamma).max(exact(0)) + q)
            x = crossing(gamma)
            return (1 - q) * normal(-x / s) + q * normal((1 - x) / s) - gamma * normal(-x / s)

        def added(gamma: arb) -> arb:
            other = 1 / gamma
            if not other > 1 - q:
                return exact(0) if other <= 1 - q else exact(0).union(q)
            x = crossing(other)
            return normal(x / s) - gamma * ((1 - q) * normal(x / s) + q * normal((x - 1) / s))

        gammas = [(h * i).exp() for i in range(event["low"], event["high"] + 1)]
        return [[side(gamma) for gamma in gammas] for side in (removed, added)]


class Side(NamedTuple):
    """A composed law: where its points begin, P from each point on, the same weighted by e^-loss, P of an infinite loss."""

    first: int
    beyond: list[arb]
    weighted: list[arb]
    infinite: arb


def _composed(values: list[arb], steps: int, event: dict[str, Any]) -> Side:
    """The law of the chords between the values: from 1 at 0, to a constant beyond the last."""
    from flint import arb_poly

    from dpaccount.engines.balls.numbers import exact, precision

    with precision(BITS):
        h, low = exact(event["step"]), event["low"]
        gammas = [(h * (low + i)).exp() for i in range(len(values))]
        slopes = [(values[0] - 1) / gammas[0]]
        slopes += [(b - a) / (y - x) for (a, b), (x, y) in zip(pairwise(values), pairwise(gammas), strict=True)]
        mass = [gamma * (b - a) for gamma, (a, b) in zip(gammas, pairwise([*slopes, exact(0)]), strict=True)]
        law = (arb_poly(mass) ** steps).coeffs()
        beyond, weighted, first = [exact(0)], [exact(0)], steps * low
        factor, share = h.exp(), (-(h * (first + len(law) - 1))).exp()
        for chance in reversed(law):
            beyond.append(beyond[-1] + chance)
            weighted.append(weighted[-1] + chance * share)
            share *= factor
        return Side(first, beyond[::-1], weighted[::-1], 1 - (1 - values[-1]) ** steps)


def _at_most(side: Side, epsilon: Fraction, delta: float, step: float) -> bool:
    """Whether delta at epsilon is certainly at most so much."""
    from dpaccount.engines.balls.numbers import exact, precision

    i = min(max(math.floor(epsilon / Fraction(step)) + 1 - side.first, 0), len(side.beyond) - 1)
    with precision(BITS):
        return bool(side.infinite + side.beyond[i] - exact(epsilon).exp() * side.weighted[i] <= exact(delta))
