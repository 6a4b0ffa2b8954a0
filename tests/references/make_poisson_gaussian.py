"""Recompute `poisson_gaussian.json`: ``python tests/references/make_poisson_gaussian.py`` (python-flint, half a minute).

delta(eps) = 1/(2 pi i) * integral over Re z = c of e^{T K(z) - eps z}/(z(z+1)) dz, where K(z) = log M(z+1) in the remove
direction and log M(-z) in the add direction, M(w) = E e^{w L(x)}, x ~ N(0, s^2), L(x) = log(1 - q + q e^{(2x-1)/(2 s^2)}).
Both integrals are trapezoid sums in 220-bit arithmetic; every case is done twice, with different steps and
different contours, and the two must agree. Nothing here uses dpaccount.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flint import acb, arb, ctx, fmpq

ctx.prec = 220
FILE = Path(__file__).with_name("poisson_gaussian.json")
Number = Any
SMALL = arb(10) ** -30


def exact(text: str) -> Number:
    """A decimal as a ball around its exact value."""
    whole, _, fraction = text.partition(".")
    return arb(fmpq(int(whole + fraction), 10 ** len(fraction)))


class Run:
    """One composition: the outcome nodes x_j with their weights and losses, wide and fine enough for the contour."""

    def __init__(self, case: dict[str, Any], fineness: int) -> None:
        s, q = exact(case["noise_multiplier"]), exact(case["sampling_probability"])
        self.steps, self.epsilon = int(case["steps"]), exact(case["epsilon"])
        self.remove = case["direction"] == "remove"
        reach = 19 * s  # normal tails below 1e-78
        low, high = -reach, reach + (60 if self.remove else 1)  # exponents w = c + 1 stay below 60
        # L is analytic for |Im x| < pi s^2; steps of s/14 and s/19 show by their agreement that both are fine enough
        count = int(float((high - low) / s) * fineness) + 1
        step = (high - low) / count
        norm = step / (s * (2 * arb.pi()).sqrt())
        self.weight, self.loss = [], []
        for j in range(count + 1):
            x = (low + step * j).mid()
            self.weight.append((norm * (-(x * x) / (2 * s * s)).exp()).mid())
            self.loss.append((1 - q + q * ((2 * x - 1) / (2 * s * s)).exp()).log().mid())

    def exponent(self, z: Number) -> Number:
        return z + 1 if self.remove else -z

    def real_sums(self, c: Number) -> tuple[Number, Number]:
        """M and dM/dz at a real point."""
        w = self.exponent(c)
        terms = [p * (w * loss).exp() for p, loss in zip(self.weight, self.loss, strict=True)]
        first = sum((t * loss for t, loss in zip(terms, self.loss, strict=True)), arb(0))
        return sum(terms, arb(0)), first if self.remove else -first

    def saddle(self) -> float:
        """T K'(c) = eps + 1/c + 1/(c+1) by bisection, in a few digits."""
        low, high = 1e-3, 50.0
        for _ in range(24):
            c = (low * high) ** 0.5
            m, slope = self.real_sums(arb(c))
            gap = self.steps * slope / m - self.epsilon - 1 / arb(c) - 1 / arb(c + 1)
            low, high = (low, c) if gap > 0 else (c, high)
        return low

    def delta(self, c: float, h: float) -> Number:
        """The trapezoid sum along Re z = c with step h; M(c + i k h) by repeated multiplication."""
        sign = 1 if self.remove else -1
        w = self.exponent(arb(c))
        now = [acb(p * (w * loss).exp()) for p, loss in zip(self.weight, self.loss, strict=True)]
        turn = [(acb(0, sign * h) * loss).exp() for loss in self.loss]
        total, start, k, quiet = acb(0), arb(0), 0, 0
        while quiet < 12:
            z = acb(arb(c), arb(h) * k)
            m = sum(now, acb(0))
            term = (self.steps * m.log() - self.epsilon * z).exp() / (z * (z + 1))
            term = acb(term.real.mid(), term.imag.mid())
            if k == 0:
                start = abs(term)
                total += term / 2
            else:
                total += term
                quiet = quiet + 1 if abs(term) < SMALL * start else 0
            now = [acb((a * b).real.mid(), (a * b).imag.mid()) for a, b in zip(now, turn, strict=True)]
            k += 1
        return (total.real * h / arb.pi()).mid()


def recompute(case: dict[str, Any]) -> tuple[Number, Number]:
    """delta twice: aliasing is e^{-2 pi c/h} and less, so h = c/12 leaves 1e-32."""
    coarse = Run(case, 14)
    c = coarse.saddle()
    spread = 1.0 if c > 1 else c
    first = coarse.delta(c, min(c / 12, spread / 12))
    return first, Run(case, 19).delta(0.93 * c, min(c / 17, spread / 17))


def main() -> None:
    for case in json.loads(FILE.read_text())["cases"]:
        first, second = recompute(case)
        stored = exact_scientific(case["delta"])
        agreement, distance = (float(abs(first / other - 1)) for other in (second, stored))
        names = ("noise_multiplier", "sampling_probability", "steps", "epsilon", "direction")
        print(*(case[name] for name in names), first.str(20, radius=False), f"agreement {agreement:.1e}, stored {distance:.1e}")


def exact_scientific(text: str) -> Number:
    mantissa, _, power = text.partition("e")
    return exact(mantissa) * arb(10) ** int(power or 0)


if __name__ == "__main__":
    main()
