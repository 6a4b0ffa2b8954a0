"""The Gaussian mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from dpaccount import _check
from dpaccount._log import gaussian_log_delta, gaussian_log_error
from dpaccount._quadrature import Density
from dpaccount._slip import Slip
from dpaccount._strip import ULP, LinearStrip
from dpaccount.adjacency import Adjacency, parse
from dpaccount.mechanisms.additive import AdditiveStep
from dpaccount.pair import DominatingPair, Facts, Step, Tails

Array = npt.NDArray[np.float64]
_LOG_ROOT_2PI = 0.9189385332046727


def noise_multiplier(owner: str, value: Any) -> float:
    """Validate a noise multiplier: 0, or a finite positive number far from overflow."""
    number = _check.real(owner, "noise_multiplier", value, low=0.0, hint="It is noise scale over sensitivity.")
    if number and not 1e-100 <= number <= 1e100:
        _check.refuse(owner, "noise_multiplier", "0 or in [1e-100, 1e100]", number)
    return number


@final
@dataclass(frozen=True)
class Gaussian(AdditiveStep):
    """f(D) + N(0, sigma^2 I) with l2 sensitivity Delta; (P, Q) = (N(1, s^2), N(0, s^2)), s = sigma/Delta.

    ``K(z) = mu^2 z(z+1)/2`` with ``mu = 1/s``, and
    ``delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)`` for every real eps.

    Parameters
    ----------
    noise_multiplier : float
        s = noise standard deviation over the sensitivity under add-or-remove (for a clipped sum:
        over the clipping norm), >= 0. At 0 every epsilon is infinite. Replace-one doubles the
        sensitivity of a clipped sum, so it uses s/2.

    Guarantee
    ---------
    Exact under all three adjacencies: the bound is attained (BW18, Theorem 8; DRS19, Theorem 2.7).

    Examples
    --------
    >>> from dpaccount import Gaussian, PrivacyProfile
    >>> round(PrivacyProfile(Gaussian(1.0)).delta(epsilon=1.0).estimate, 12)
    0.126936737507
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", noise_multiplier("Gaussian", self.noise_multiplier))

    @property
    def mu(self) -> float:
        """The GDP parameter 1/noise_multiplier (inf without noise)."""
        return 1.0 / self.noise_multiplier if self.noise_multiplier else float("inf")

    @cached_property
    def facts(self) -> Facts:
        return NO_NOISE if not self.noise_multiplier else Facts(smooth=True)

    def tails(self, loss: Any) -> Tails:
        loss = np.asarray(loss, dtype=float)
        if not self.noise_multiplier:
            return no_noise_tails(loss)
        mu = self.mu
        with np.errstate(over="ignore"):  # a level beyond doubles is beyond every loss
            a, b = loss / mu - mu / 2, loss / mu + mu / 2
        return Tails(log_ndtr(-a), log_ndtr(a), log_ndtr(-b), log_ndtr(b), 1e-15 * (2 + mu))

    def atoms(self) -> tuple[Array, Array]:
        return np.empty(0), np.empty(0)

    def density(self) -> Density | None:
        if not self.noise_multiplier:
            return None
        s = self.noise_multiplier
        return Density(
            evaluate=lambda x: ((x - 0.5) / (s * s), self.noise_log_density(x - 1.0)),
            inverse=lambda loss: s * s * loss + 0.5,
            window=lambda low, high: (1 + low - 10.6 * s, 1 + high + 10.6 * s),
            scale=s,
            strip=GaussianStrip(s),
            under_q=lambda x: ((x - 0.5) / (s * s), self.noise_log_density(x)),
        )

    def log_delta(self, epsilon: Any) -> Any | None:
        if not self.noise_multiplier:
            return np.zeros(np.shape(epsilon))[()]
        return gaussian_log_delta(epsilon, self.mu)

    def slip(self, epsilon: float, value: float) -> Slip:
        return Slip(gaussian_log_error(epsilon, self.mu) if self.noise_multiplier else 0.0, -np.inf)

    def step_log_mgf(self, z: Any) -> Any:
        z = np.asarray(z)
        if not self.noise_multiplier:
            return np.full(z.shape, -np.inf, dtype=z.dtype)[()]
        return self.mu * z * (self.mu * (z + 1)) / 2

    def reversed(self) -> Step:
        return self

    def under(self, adjacency: str | Adjacency) -> tuple[DominatingPair, ...]:
        relation = parse("Gaussian.under", adjacency)
        return (self.scaled(2),) if relation is Adjacency.REPLACE_ONE else (self,)

    def noise_log_density(self, x: Array) -> Array:
        s = self.noise_multiplier
        t = x / s
        return np.asarray(-0.5 * (t * t) - (math.log(s) + _LOG_ROOT_2PI))

    def noise_log_ratio(self, x: Array, shift: int) -> Array:
        return np.asarray(shift * (2 * x - shift) * (0.5 / self.noise_multiplier**2))

    def noise_log_tails(self, x: Array) -> tuple[Array, Array]:
        return log_ndtr(-x / self.noise_multiplier), log_ndtr(x / self.noise_multiplier)

    @property
    def noise_scale(self) -> float:
        return self.noise_multiplier

    @property
    def noise_kind(self) -> str:
        return "smooth"

    def noise_support(self) -> Array | None:
        return None

    def scaled(self, factor: int) -> Gaussian:
        return Gaussian(self.noise_multiplier / factor)


@final
class GaussianStrip(LinearStrip):
    """P = N(1, s^2) against Q = N(0, s^2) at complex outcomes: |p(x + iy)| = p(x) e^{y^2/(2 s^2)}, Im L = y/s^2."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    @property
    def reach(self) -> float:
        return float("inf")

    def loss_at(self, x: Any) -> Any:
        return (x - 0.5) / self.scale**2

    def turn(self, alpha: Array) -> Array:
        return alpha / self.scale**2

    def height(self, turn: float) -> float:
        return turn * self.scale**2

    def swell(self, alpha: Array) -> Array:
        return np.asarray(0.5 * (alpha / self.scale) ** 2)

    def below(self, x: float, tilt: float) -> float:
        return self._log_mgf(tilt) + float(log_ndtr((x - 1.0 - tilt) / self.scale))

    def above(self, x: float, tilt: float) -> float:
        return self._log_mgf(tilt) + float(log_ndtr((1.0 + tilt - x) / self.scale))

    def rise(self, x: Array, reach: Array, tilt: float | Array) -> Array:
        far = np.abs(x - 1.0 - tilt)
        step = np.minimum(reach, far)  # never past the mode
        return np.asarray(step * (far - step / 2) / self.scale**2)

    def slope(self, x: Array, loss: Array) -> Array:
        return np.full(x.shape, self.scale**-2.0)

    def antimodes(self, tilt: float) -> list[float]:
        return []

    def sampled_antimodes(self, probability: float, tilt: float) -> list[float]:
        """The density has its extremes where x + 1 = (tilt + 2) w(x), w = q e^L/(1 - q + q e^L): at most three."""
        spread, steep = self.scale**2, tilt + 2.0
        if steep <= 4.0 * spread:
            return []
        root = math.sqrt(1.0 - 4.0 * spread / steep)
        odds = math.log1p(-probability) - math.log(probability)
        turns = [0.5 + spread * (odds + math.log((1.0 + r) / (1.0 - r))) if abs(r) < 1.0 else math.inf for r in (-root, root)]

        def gap(x: float) -> float:
            return x + 1.0 - steep / (1.0 + math.exp(min(odds - (x - 0.5) / spread, 700.0)))

        low, high = turns
        if not (np.isfinite(low) and np.isfinite(high) and gap(low) > 0.0 > gap(high)):
            return []
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if gap(middle) > 0.0 else (low, middle)
            if high - low < 1e-12 * (1.0 + abs(low)):
                break
        return [(low + high) / 2]

    def rounding(self, x: Array, loss: Array) -> tuple[Array, Array]:
        """x - 1 is off by ulps of x and itself, its square over s^2 by five roundings; the constant is one for all."""
        off, own = self.loss_rounding(x), (x - 1.0) / self.scale
        part = (2.0 + 3 * self._log_scale) + own * (own * 2.0) + np.abs(own) * ((np.abs(x) + 0.5) / self.scale)
        return off, ULP * part

    def loss_rounding(self, x: Array) -> Array:
        return np.asarray((2 * ULP / self.scale**2) * (np.abs(x) + 0.5))

    def q_rounding(self, x: Array, loss: Array) -> Array:
        """The same about 0: x^2/(2 s^2) is off by 2.5 roundings of twice itself, the sum by one of it and of the constant."""
        own = x / self.scale
        return np.asarray((own * own) * (2 * ULP) + ULP * (2.0 + 3 * self._log_scale))

    @property
    def _log_scale(self) -> float:
        return abs(math.log(self.scale))

    @property
    def gaussian_loss(self) -> float | None:
        return float(self.scale**-2.0)

    def _log_mgf(self, tilt: float) -> float:
        return tilt * (tilt + 1.0) / (2.0 * self.scale**2)


NO_NOISE = Facts(log_p_only=0.0, log_q_only=0.0, min_loss=0.0, max_loss=0.0)


def no_noise_tails(loss: Array) -> Tails:
    """Two disjoint point masses: L = +inf under P and -inf under Q."""
    zero, never = np.zeros(loss.shape), np.full(loss.shape, -np.inf)
    return Tails(zero, never, never, zero)
