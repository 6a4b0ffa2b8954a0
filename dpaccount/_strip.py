"""What makes the trapezoid rule over a step's outcomes provable: a strip of the complex plane, and tails.

If |p e^{zL}|(x + iy) <= e^{growth(alpha, Re z, |Im z|)} (p e^{Re z L})(x) for all |y| <= alpha, the rule of spacing h is off
by at most 2 e^{growth}/(e^{2 pi alpha/h} - 1) of E_P[e^{Re z L}], for every z of the strip (TW14, Theorem 5.1).
What is left out on either side of the window is bounded by `below` and `above`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Rounding = Callable[[], tuple[Array, Array]]  # what losses may be off by absolutely and masses relatively
ULP = 2.3e-16
GOAL = 50.0  # both errors are kept below e^-50 = 2e-22 of the sum, so that 10^9 steps lose nothing


class Strip(ABC):
    """Facts about the continuous part of a step, in the outcome x of its `Density`."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """The largest alpha that `growth` takes."""

    @abstractmethod
    def growth(self, alpha: Array, tilt: float, rate: float) -> Array:
        """log of sup over |y| <= alpha (an array of them), x, |Im z| <= rate of |p e^{zL}|(x + iy)/(p e^{tilt L})(x), Re z = tilt."""

    @abstractmethod
    def below(self, x: float, tilt: float) -> float:
        """log of an upper bound on the integral of p e^{tilt L} left of x."""

    @abstractmethod
    def above(self, x: float, tilt: float) -> float:
        """The same right of x."""

    @abstractmethod
    def rise(self, x: Array, reach: Array, tilt: float | Array) -> Array:
        """log of an upper bound on the largest p e^{tilt L} within `reach` of x, relative to its value there."""

    def swing(self, x: Array, along: Array, off: Array, tilt: float, rate: float) -> Array:
        """log of sup of |p e^{zL}|/(p e^{tilt L})(x) within `along` of x on the axis and `off` beside it; Re z = tilt, |Im z| <= rate."""
        return self.rise(x, along, tilt) + self.growth(off, tilt, rate)

    @abstractmethod
    def slope(self, x: Array, loss: Array) -> Array:
        """|dL/dx| > 0."""

    @abstractmethod
    def antimodes(self, tilt: float) -> list[float]:
        """Where the density of L under the tilted law, p e^{tilt L}/|dL/dx|, may have a local minimum."""

    @abstractmethod
    def rounding(self, x: Array, loss: Array) -> tuple[Array, Array]:
        """What `evaluate` may be off by in doubles at an x rounded itself: L absolutely, and p relatively."""

    def q_rounding(self, x: Array, loss: Array) -> Array:
        """What q may be off by relatively: taken from p and L, unless a density tells log q by itself."""
        off, part = self.rounding(x, loss)
        return part + off + ULP * np.abs(loss)

    def steepest(self, low: float, high: float) -> tuple[float, ...]:
        """The tilts in [low, high] at which `growth` may be largest."""
        return (low,) if low == high else (low, high)

    @property
    def gaussian_loss(self) -> float | None:
        """The variance of L if it is Gaussian under every tilt."""
        return None


class LinearStrip(Strip):
    """A loss linear in the outcome: Im L(x + iy) is `turn(y)` exactly, and p and q grow by at most e^{swell(alpha)}."""

    @abstractmethod
    def loss_at(self, x: Any) -> Any:
        """L(x), for an array as well."""

    @abstractmethod
    def turn(self, alpha: Array) -> Array:
        """Im L at height alpha, increasing."""

    @abstractmethod
    def swell(self, alpha: Array) -> Array:
        """log of sup of |p(x + iy)|/p(x), the same for q."""

    def loss_rounding(self, x: Array) -> Array:
        """What L may be off by, absolutely: the first part of `rounding`."""
        return self.rounding(x, self.loss_at(x))[0]

    @abstractmethod
    def height(self, turn: float) -> float:
        """The inverse of `turn`."""

    @abstractmethod
    def sampled_antimodes(self, probability: float, tilt: float) -> list[float]:
        """As `antimodes`, for the loss log(1 - q + q e^L) of a Poisson sample with q = probability."""

    def growth(self, alpha: Array, tilt: float, rate: float) -> Array:
        return self.swell(alpha) + rate * self.turn(alpha)

    def steepest(self, low: float, high: float) -> tuple[float, ...]:
        return (low,)


@final
class FlippedStrip(Strip):
    """The facts of the swapped pair in the outcome -x: its p e^{zL} is the original's at -1-z."""

    def __init__(self, inner: Strip) -> None:
        self.inner = inner

    @property
    def reach(self) -> float:
        return self.inner.reach

    def growth(self, alpha: Array, tilt: float, rate: float) -> Array:
        return self.inner.growth(alpha, -1.0 - tilt, rate)

    def below(self, x: float, tilt: float) -> float:
        return self.inner.above(-x, -1.0 - tilt)

    def above(self, x: float, tilt: float) -> float:
        return self.inner.below(-x, -1.0 - tilt)

    def rise(self, x: Array, reach: Array, tilt: float | Array) -> Array:
        return self.inner.rise(-x, reach, -1.0 - tilt)

    def swing(self, x: Array, along: Array, off: Array, tilt: float, rate: float) -> Array:
        return self.inner.swing(-x, along, off, -1.0 - tilt, rate)

    def slope(self, x: Array, loss: Array) -> Array:
        return self.inner.slope(-x, -loss)

    def antimodes(self, tilt: float) -> list[float]:
        return [-x for x in self.inner.antimodes(-1.0 - tilt)]

    def rounding(self, x: Array, loss: Array) -> tuple[Array, Array]:
        return self.inner.rounding(-x, -loss)[0], self.inner.q_rounding(-x, -loss)

    def q_rounding(self, x: Array, loss: Array) -> Array:
        return self.inner.rounding(-x, -loss)[1]

    def steepest(self, low: float, high: float) -> tuple[float, ...]:
        return tuple(-1.0 - tilt for tilt in self.inner.steepest(-1.0 - high, -1.0 - low))

    @property
    def gaussian_loss(self) -> float | None:
        return self.inner.gaussian_loss


def spacing(strip: Strip, scale: float, tilts: tuple[float, float], rate: float) -> tuple[float, float]:
    """The widest spacing whose error bound is e^-GOAL, and the log of that bound."""
    alpha = _PARTS * min(strip.reach, 13.0 * scale)
    grown = [strip.growth(alpha, tilt, rate) for tilt in strip.steepest(*tilts)]
    most = grown[0] if len(grown) == 1 else np.maximum(*grown)
    return 2 * math.pi * float((alpha / (most + (GOAL + 1.0))).max()), -GOAL


_PARTS = np.array([0.12, 0.2, 0.3, 0.42, 0.56, 0.74, 0.88, 0.97])


def trapezoid(
    evaluate: Callable[[Array], tuple[Array, Array]],
    strip: Strip,
    scale: float,
    window: tuple[float, float],
    tilts: tuple[float, float],
    rate: float,
    most: int,
) -> tuple[Array, Array, float, Rounding] | None:
    """(loss, log weight, proved relative error, rounding on demand) of a rule for the whole line; None beyond `most` nodes.

    A left tail's share of the tilted mass falls with the tilt and a right tail's rises, so the ends of the range decide.
    """
    low, high = window
    step, log_error = spacing(strip, scale, tilts, rate)
    for _ in range(12):
        count = int((high - low) / step) + 3
        if count > most:
            return None
        first = math.floor(low / step)
        x = step * np.arange(first, first + count, dtype=np.float64)  # rounded by half an ulp of x each
        loss, log_w = evaluate(x)
        log_w = log_w + math.log(step)
        left = strip.below(float(x[0]), tilts[0]) - _log_sum(log_w + tilts[0] * loss)
        right = strip.above(float(x[-1]), tilts[1]) - _log_sum(log_w + tilts[1] * loss)
        if left <= -GOAL and right <= -GOAL:
            error = math.exp(log_error) + math.exp(left) + math.exp(right)
            return loss, log_w, error, partial(_rounding, strip, x, loss, log_w)
        low -= 0.1 * (high - low) * (left > -GOAL)
        high += 0.1 * (high - low) * (right > -GOAL)
    return None


def _rounding(strip: Strip, x: Array, loss: Array, log_w: Array) -> tuple[Array, Array]:
    """As `Strip.rounding`; the logarithm of the step is added, and weights are divided by their sum in logs."""
    off, part = strip.rounding(x, loss)
    return off, part + ULP * (2.0 + np.abs(log_w))


def _log_sum(a: Array) -> float:
    top = float(a.max())
    return top + math.log(float(np.exp(a - top).sum()))
