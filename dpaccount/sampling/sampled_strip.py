"""What makes sums over the outcomes of a sampled step provable."""

from __future__ import annotations

import math
from typing import final

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from dpaccount._quadrature import Density
from dpaccount._strip import ULP, LinearStrip, Strip

Array = npt.NDArray[np.float64]


@final
class SampledStrip(Strip):
    """p' e^{zL'} = q A^{1+z} with A = 1 - q + q e^L: at complex outcomes |A| <= A(x), |A| >= A(x) cos(turn/2), |arg A| <= turn.

    log A rises by at most L does, which bounds the tails.
    """

    def __init__(self, inner: Density, probability: float) -> None:
        assert isinstance(inner.strip, LinearStrip)
        self.inner, self.probability = inner.strip, probability

    @property
    def reach(self) -> float:
        return self.inner.height(np.pi)

    def growth(self, alpha: Array, tilt: float, rate: float) -> Array:
        turn = self.inner.turn(alpha)
        grown = self.inner.swell(alpha) + rate * turn
        return grown if tilt >= -1.0 else grown + (1.0 + tilt) * np.log(np.cos(turn / 2))

    def below(self, x: float, tilt: float) -> float:
        power = 1.0 + tilt
        at = self._log_a(x)[0] if power >= 0.0 else float(np.log1p(-self.probability))
        return power * at + self.inner.below(x, -1.0)

    def above(self, x: float, tilt: float) -> float:
        power = 1.0 + tilt
        log_a, loss = self._log_a(x)
        if power < 0.0:
            return power * log_a + self.inner.above(x, -1.0)
        return power * (log_a - loss) + self.inner.above(x, tilt)

    def rise(self, x: Array, reach: Array, tilt: float | Array) -> Array:
        """The slope of log q A^{1+tilt} is that of log q e^{(1+tilt) w L} at the w of the place, which grows with x."""
        left, right = (-1.0 + (1.0 + tilt) * self._share(end) for end in (x - reach, x + reach))
        return np.maximum(self.inner.rise(x, reach, left), self.inner.rise(x, reach, right))

    def swing(self, x: Array, along: Array, off: Array, tilt: float, rate: float) -> Array:
        """With w = q e^L/A and t = Im L off the axis, arg A has the tangent w sin t/(1 - w + w cos t), and a sine of at most
        w/(1 - w); |A|^2 = A(x)^2 (1 - 4w(1-w) sin^2(t/2)).
        """
        low, high = self._share(x - along), self._share(x + along)
        turn = self.inner.turn(off)
        odds = np.minimum(high / np.maximum(1.0 - high, 1e-300), 1.0)
        beyond = (high < 0.5) & (np.cos(turn) < -odds)
        widest = np.where(beyond, np.arcsin(odds), np.arctan2(high * np.sin(turn), 1.0 - high + high * np.cos(turn)))
        grown = self.rise(x, along, tilt) + self.inner.swell(off) + rate * widest
        if tilt < -1.0:
            worst = np.clip(0.5, low, high)
            grown = grown + 0.5 * (1.0 + tilt) * np.log1p(-4.0 * worst * (1.0 - worst) * np.sin(turn / 2) ** 2)
        return np.asarray(grown)

    def _share(self, x: Array) -> Array:
        """w = q e^L/A."""
        return np.asarray(expit(self.inner_loss(x) + (np.log(self.probability) - np.log1p(-self.probability))))

    def slope(self, x: Array, loss: Array) -> Array:
        inner = self.inner_loss(x)
        return np.asarray(self.probability * np.exp(inner - loss) * self.inner.slope(x, inner))

    def antimodes(self, tilt: float) -> list[float]:
        return self.inner.sampled_antimodes(self.probability, tilt)

    def rounding(self, x: Array, loss: Array) -> tuple[Array, Array]:
        """p' = q A: the loss moves by w times what the step's own does; its logarithm is added to that of q."""
        inner = self.inner_loss(x)
        share, size = np.minimum(self.probability * np.exp(np.minimum(inner - loss, 700.0)), 1.0), ULP * np.abs(loss)
        own = share * (self.inner.loss_rounding(x) + (2 * ULP) * np.abs(inner)) + 4 * size
        return own, self.inner.q_rounding(x, inner) + own + size

    def q_rounding(self, x: Array, loss: Array) -> Array:
        return self.inner.q_rounding(x, self.inner_loss(x))

    def steepest(self, low: float, high: float) -> tuple[float, ...]:
        return (low,)

    def inner_loss(self, x: Array) -> Array:
        return np.asarray(self.inner.loss_at(x))

    def _log_a(self, x: float) -> tuple[float, float]:
        loss, q = self.inner.loss_at(x), self.probability
        return (math.log1p(q * math.expm1(loss)) if loss < 600.0 else loss + math.log(q)), loss
