"""The Laplace mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount._log import log1m_exp
from dpaccount._quadrature import Density
from dpaccount._slip import Slip
from dpaccount._strip import ULP, LinearStrip
from dpaccount.adjacency import Adjacency, parse
from dpaccount.mechanisms.additive import AdditiveStep
from dpaccount.mechanisms.gaussian import NO_NOISE, no_noise_tails, noise_multiplier
from dpaccount.pair import DominatingPair, Facts, Step, Tails, plain_slip

Array = npt.NDArray[np.float64]
_LOG2 = float(np.log(2.0))


@final
@dataclass(frozen=True)
class Laplace(AdditiveStep):
    """f(D) + Laplace noise of scale b with l1 sensitivity Delta; r = Delta/b is the pure epsilon.

    ``delta(eps) = 1 - e^{(eps - r)/2}`` on [-r, r], 0 above, 1 - e^eps below, and
    ``K(z) = log[ (z+1)/(2z+1) e^{rz} + z/(2z+1) e^{-r(z+1)} ]`` (M17, Proposition 6).

    Parameters
    ----------
    noise_multiplier : float
        b/Delta under add-or-remove, >= 0; replace-one of a clipped sum uses half of it.

    Guarantee
    ---------
    Exact under all three adjacencies in one dimension, and in the l1 geometry in any dimension.

    Examples
    --------
    >>> from dpaccount import Laplace, PrivacyProfile
    >>> round(PrivacyProfile(Laplace(1.0)).delta(epsilon=0.5).estimate, 12)
    0.221199216929
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", noise_multiplier("Laplace", self.noise_multiplier))

    @property
    def epsilon(self) -> float:
        """The pure-DP parameter r = 1/noise_multiplier."""
        return 1.0 / self.noise_multiplier if self.noise_multiplier else float("inf")

    @property
    def facts(self) -> Facts:
        if not self.noise_multiplier:
            return NO_NOISE
        return Facts(min_loss=-self.epsilon, max_loss=self.epsilon)

    def tails(self, loss: Any) -> Tails:
        loss = np.asarray(loss, dtype=float)
        if not self.noise_multiplier:
            return no_noise_tails(loss)
        r = self.epsilon
        inside = np.clip(loss, -r, r)
        # outcome x = (l + r)/2 in noise units; P is centred at r, Q at 0
        p_above = log1m_exp((inside - r) / 2 - _LOG2)
        p_below = (inside - r) / 2 - _LOG2
        q_above = -(inside + r) / 2 - _LOG2
        q_below = log1m_exp(-(inside + r) / 2 - _LOG2)
        over, under = loss >= r, loss < -r
        return Tails(
            np.where(over, -np.inf, np.where(under, 0.0, p_above)),
            np.where(over, 0.0, np.where(under, -np.inf, p_below)),
            np.where(over, -np.inf, np.where(under, 0.0, q_above)),
            np.where(over, 0.0, np.where(under, -np.inf, q_below)),
            1e-15 * (2 + r),
        )

    def atoms(self) -> tuple[Array, Array]:
        if not self.noise_multiplier:
            return np.empty(0), np.empty(0)
        r = self.epsilon
        return np.array([-r, r]), np.array([-r - _LOG2, -_LOG2])

    def density(self) -> Density | None:
        if not self.noise_multiplier:
            return None
        r = self.epsilon
        return Density(  # the outcome is the loss itself
            evaluate=lambda x: (x, (x - r) / 2 - 2 * _LOG2),
            inverse=lambda loss: loss,
            window=lambda low, high: (-r, r),
            scale=max(r, 1.0) / 2,
            breaks=(-r, r),
            strip=ExponentialStrip(r, -r / 2 - 2 * _LOG2, 2.0),
            support=(-r, r),
        )

    def log_delta(self, epsilon: Any) -> Any | None:
        epsilon = np.asarray(epsilon, dtype=float)
        if not self.noise_multiplier:
            return np.zeros(epsilon.shape)[()]
        r = self.epsilon
        with np.errstate(divide="ignore"):
            inside = np.log(-np.expm1((np.minimum(epsilon, r) - r) / 2))
            below = np.log(-np.expm1(np.minimum(epsilon, 0.0)))
        return np.where(epsilon >= r, -np.inf, np.where(epsilon < -r, below, inside))[()]

    def slip(self, epsilon: float, value: float) -> Slip:
        """The curve itself is an expm1; the end of its range is rounded."""
        return plain_slip(self, epsilon)._replace(relative=0.0)

    def step_log_mgf(self, z: Any) -> Any:
        """Written around z = -1/2: e^{-r/2} (cosh(r v) + sinh(r v)/(2 v)), v = z + 1/2, regular at v = 0."""
        z = np.asarray(z)
        if not self.noise_multiplier:
            return np.full(z.shape, -np.inf, dtype=z.dtype)[()]
        r = self.epsilon
        v = z + 0.5
        v = np.where(np.real(v) < 0, -v, v)
        small = np.abs(v) * max(r, 1.0) < 1e-4
        safe = np.where(small, 1.0, v)
        # cosh(rv) + sinh(rv)/(2v) = e^{rv} [ (1 + 1/(2v)) + (1 - 1/(2v)) e^{-2rv} ] / 2
        ratio = 1 / (2 * safe)
        smooth = np.log1p(((safe - 0.5) / safe) * np.expm1(-2 * r * safe) / 2) if r < 1e3 else (
            np.log((1 + ratio + (1 - ratio) * np.exp(-2 * r * safe)) / 2)
        )
        series = np.log1p(r / 2 + (r * v) ** 2 / 2 + r * (r * v) ** 2 / 12)
        return np.where(small, series - r / 2, r * (v - 0.5) + smooth)[()]

    def loss_error(self, loss: Array) -> Array:
        """The double 1/b misses it."""
        inverse = Fraction(self.epsilon) if self.noise_multiplier else Fraction(0)
        return np.full(loss.shape, float(abs(1 - inverse * Fraction(self.noise_multiplier)) * inverse))

    def reversed(self) -> Step:
        return self

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        relation = parse("Laplace.under", adjacency)
        return (self.scaled(2),) if relation is Adjacency.REPLACE_ONE else (self,)

    def noise_log_density(self, x: Array) -> Array:
        return np.asarray(-np.abs(x) * self.epsilon - np.log(2 * self.noise_multiplier))

    def noise_log_tails(self, x: Array) -> tuple[Array, Array]:
        thin = -np.abs(x) * self.epsilon - _LOG2
        thick = log1m_exp(thin)
        return np.where(x > 0, thin, thick), np.where(x > 0, thick, thin)

    @property
    def noise_scale(self) -> float:
        return self.noise_multiplier

    @property
    def noise_kind(self) -> str:
        return "cusp"

    def noise_support(self) -> Array | None:
        return None

    def scaled(self, factor: int) -> Laplace:
        return Laplace(self.noise_multiplier / factor)


@final
class ExponentialStrip(LinearStrip):
    """A loss on [-r, r] that is the outcome itself, with p(x) = e^{x/2 + log_norm}: |p(x + iy)| = p(x), Im L = y.

    `inexact` is what r misses its parameter by, in ulps.
    """

    def __init__(self, end: float, log_norm: float, inexact: float) -> None:
        self.end, self.log_norm, self.inexact = end, log_norm, inexact

    @property
    def reach(self) -> float:
        return float("inf")

    def loss_at(self, x: Any) -> Any:
        return x

    def turn(self, alpha: Array) -> Array:
        return np.asarray(alpha)

    def height(self, turn: float) -> float:
        return turn

    def swell(self, alpha: Array) -> Array:
        return np.zeros(np.shape(alpha))

    def below(self, x: float, tilt: float) -> float:
        return self._between(-self.end, min(x, self.end), tilt)

    def above(self, x: float, tilt: float) -> float:
        return self._between(max(x, -self.end), self.end, tilt)

    def _between(self, low: float, high: float, tilt: float) -> float:
        """log of the length times the largest integrand."""
        if not low < high:
            return -np.inf
        return self.log_norm + max((tilt + 0.5) * low, (tilt + 0.5) * high) + float(np.log(high - low))

    def rise(self, x: Array, reach: Array, tilt: float | Array) -> Array:
        return np.asarray(reach * np.abs(tilt + 0.5) + np.zeros(x.shape))

    def slope(self, x: Array, loss: Array) -> Array:
        return np.ones(x.shape)

    def antimodes(self, tilt: float) -> list[float]:
        return []

    def sampled_antimodes(self, probability: float, tilt: float) -> list[float]:
        """The density of the sampled loss, e^{-3x/2} (1 - q + q e^x)^{tilt + 2}, is least where w(x) = q e^x/(1 - q + q e^x) is
        3/(2 (tilt + 2)), and monotone if that is not in (0, 1)."""
        if not tilt > -0.5:
            return []
        return [float(np.log1p(-probability) - np.log(probability) + np.log(1.5) - np.log(tilt + 0.5))]

    def rounding(self, x: Array, loss: Array) -> tuple[Array, Array]:
        return (2 + self.inexact) * ULP * np.abs(x), ULP * (8 + abs(self.log_norm) + (1 + self.inexact) * (np.abs(x) + self.end))
