"""Noisy values on a grid: the sum of value and noise is rounded exactly, and what doubles do to the noise is paid for.

``round((value + noise)/grid) grid``. The sum is rounded as if it were a real number: Knuth's two-sum has the digits that a double
loses, and they decide the ties. So the value meets no rounding of its own, however large it is, and for real noise the answer is
post-processing of the mechanism that is accounted.

What is left is the noise, a fixed function of random bits. It is off by at most ``2^-52 (1.3 + 5.5 r)`` scales from the real variate
that more bits would make, r <= 39 for Gaussian noise; by ``2^-52 (1.3 + 1.5 r)``, r <= 750, for Laplace's. A bin is 2^(-bits-1) scales wide
or more, and both its ends may be off, so its probability is within ``e^(+-2^(bits - 42))`` of the real one, or ``2^(bits - 39)`` for
Laplace, bits from 4 to 10; that of p entries within ``e^(+-xi)``, xi that times p.

Theorem. If every event of a mechanism M is within e^(+-xi) of the same event of the Gaussian mechanism of multiplier ``s (1 + 4 xi s)``,
and ``xi max(s, 1) <= 2^-6``, then M is dominated by the Gaussian mechanism of multiplier s.

Proof. Let mu = 1/s and mu' < mu be the two parameters; for m between, a = m/2 - eps/m and b = m/2 + eps/m, eps >= 0; h(x) = Phi(-x)/phi(x),
below 1.2534 from 0 on. Then ``d delta/dm = phi(a)``, ``d delta/d eps = -phi(a) h(b)``, ``delta = phi(a) (h(-a) - h(b))`` and
``1 - delta = phi(a) (h(a) + h(b))``. M gives an event at most e^xi times its real probability and at least e^-xi times it, so that

    delta_M(eps) <= e^xi delta_mu'(eps - 2 xi)    and    1 - delta_M(eps) >= e^-xi (1 - delta_mu'(eps)),

and ``3.7 xi <= mu - mu' = 4 xi/(1 + 4 xi s) <= 4 xi``. If a > 0 at mu', it stays so, and ``-d log(1 - delta)/dm = 1/(h(a) + h(b))``
is above 1/2.51: the second inequality is enough. Otherwise go from (mu', eps - 2 xi) to (mu, eps) in a straight line. There a < 1/8 and
b > -1/8, so that h(b) + h(-a) < 2.9, and log delta grows by xi or more since ``mu - mu' >= xi (h(b) + h(-a))``: the first one is enough.

For Laplace noise delta is ``1 - e^((eps - 1/s)/2)`` up to 1/s, where both inequalities ask for ``1/s - 1/s' >= 3 xi``: the same widening is
enough. Domination carries over to sampling and composition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check

Array = npt.NDArray[np.float64]
GRID_BITS, LEAST_BITS = 10, 4
ROUGH = {"gaussian": 2.0**-42, "laplace": 2.0**-39}  # the exponent of e for one entry at 0 bits, as above
GOOD, MOST = 2.0**-12, 2.0**-6  # of xi max(s, 1): what is aimed for, and where the proof ends
FARTHEST = 2.0**30  # scales, beyond which a grid of doubles is not fine enough
SMALLEST = 1e-280  # scales of noise below it, or above its inverse, leave doubles no room


@final
@dataclass(frozen=True)
class Grid:
    """The scale that noise really has, and the step of the grid on which the sum leaves."""

    scale: float
    step: float

    @staticmethod
    def of(law: str, noise_multiplier: float, sensitivity: float, size: int) -> Grid:
        """For `size` entries: 2^-10 of the scale, or down to 2^-4 where many entries and much noise make xi s larger than 2^-12."""
        plain = noise_scale(noise_multiplier, sensitivity)
        if plain == 0.0:
            return Grid(0.0, 0.0)
        rough = max(size, 1) * ROUGH[law]
        bits = min(GRID_BITS, max(math.floor(math.log2(GOOD / (rough * max(noise_multiplier, 1.0)))), LEAST_BITS))
        xi = rough * 2.0**bits
        if xi * max(noise_multiplier, 1.0) > MOST:
            domain = f"such that entries times noise_multiplier are at most {MOST / ROUGH[law] / 2.0**LEAST_BITS:g}"
            _check.refuse("Gate", "noise_multiplier", domain, noise_multiplier, "The last digits of so much noise would add up.")
        scale = plain * (1.0 + 4.0 * xi * noise_multiplier)
        return Grid(scale, step_below(scale, bits))

    def rounded(self, value: Array, noise: Array) -> Array:
        """value + noise on the grid; without noise the value itself."""
        return on_grid(value, noise, self.scale, self.step)


def noise_scale(noise_multiplier: float, sensitivity: float) -> float:
    """Their product: 0 only where no noise is asked for, never because it underflows."""
    scale = noise_multiplier * sensitivity
    if noise_multiplier > 0.0 and not SMALLEST <= scale <= 1.0 / SMALLEST:
        domain = f"such that noise has a scale in [{SMALLEST:g}, {1.0 / SMALLEST:g}]"
        _check.refuse("Gate", "sensitivity", domain, scale, "Choose other units.")
    return scale


def step_below(scale: float, bits: int = GRID_BITS) -> float:
    """2^-bits of the power of two below `scale`."""
    return math.ldexp(1.0, math.frexp(scale)[1] - 1 - bits)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b as a double, and what that loses: their sum is a + b exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def on_grid(value: Array, noise: Array, scale: float, step: float | None = None, low: Any = None) -> Array:
    """value + noise, as real numbers, rounded to the nearest multiple of `step`; `low` are further digits of the value.

    Without noise the value itself, where none was asked for: noise and a scale of 0 are refused.
    """
    value = np.asarray(value, dtype=float)
    if scale == 0.0:
        if np.any(noise):
            _check.refuse("Gate", "scale", "above 0 where there is noise", scale)
        return value.copy()
    grid = step_below(scale) if step is None else step
    with np.errstate(invalid="ignore"):  # infinities are refused below
        total, lost = two_sum(value, noise)
        if low is not None:
            total, lost = two_sum(total, lost + low)
    within_reach(total, scale)
    steps = np.rint(total / grid)
    rest = total - steps * grid  # exact: both are multiples of an ulp that is finer than the grid
    steps += ((rest == 0.5 * grid) & (lost > 0.0)).astype(float) - ((rest == -0.5 * grid) & (lost < 0.0))
    return np.asarray(steps * grid)


def within_reach(total: Any, scale: float, most: float = FARTHEST) -> None:
    """Refuse values in which the noise would be lost; how large they are is not said."""
    if not np.all(np.abs(total) <= most * scale):
        hint = "The noise would be lost in rounding."
        _check.refuse("Gate", "value", f"at most {most:g} times its noise", "more", hint)


def hidden_reach(steps: int, dimension: int, sensitivity: float) -> float:
    """How long iterates may be for hidden steps, rounded one by one, to be what theorems about them assume: ``2^40 s/(T (p + 8))``.

    A step ``Proj(theta - eta g + Z)`` in doubles is off by at most ``e = (p + 8) 2^-52`` of the longest iterate: p for the sum in a
    score, which eta times the smoothness <= 2 carries over, the rest for the other operations. So ``T e <= 2^-12 s``, where
    s = eta L (1 + 2^-11) is the sensitivity that is accounted, and two data sets drift apart by at most 2 T e, within the
    ``2 eta L 2^-11`` that s has in excess.

    Each step as computed is a map of the iterate and noise, so that what follows is post-processing, and a set of diameter D leads to
    centres at most D + 2e apart: coefficients of contraction hold as 2e is below 2^-11 of a step. Where shifts are absorbed step by
    step, a_t at step t, the e of later steps are absorbed by ``(1 + 2^-11) a_t`` if the a_t are even or grow with t, as the best do.
    """
    return 2.0**40 * sensitivity / (steps * (dimension + 8.0))
