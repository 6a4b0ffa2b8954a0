"""A positive kernel of compact support, and what it does to a convex function.

Y on [-a, a] has the density w(y) = t I_1(beta t)/(2 beta kappa(beta) a), t = (1 - (y/a)^2)^{1/2}, and hence
E e^{zY} = k(z) = kappa(X)/kappa(beta), X^2 = beta^2 + (a z)^2, kappa(X) = (X cosh X - sinh X)/X^3 (Kaiser and Bessel).

Let f(gamma) = E_Q[(e^L - gamma)_+], G = e^{Y - eta} with eta = log k(-1), so that E G = 1, and x = log gamma - eta. Then
f~(gamma) = E f(gamma G) >= f(gamma) by Jensen, and f~ - f = E_Q psi(e^L) with psi(t) = E(t - gamma G)_+ - (t - gamma)_+.
w is log-concave, so psi(t)/(t w(log t - x)) rises up to t = gamma and falls beyond it: it is at most
C = E(G - 1)_+/w(eta), and with D(x) the density of L + Y at x under P

    f~(gamma) - C D(x) <= f(gamma) <= f~(gamma).

Both have transforms that are K's times k, on the same line: k(z) e^{-zx}/(z (z+1)) and k(z) e^{-zx}.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import i1e

from dpaccount.engines.vouch import Overflow

Array = npt.NDArray[np.float64]
ULP = 2.3e-16
CELLS = 512
LARGEST = 600.0  # Re X beyond which cosh X is not formed


class Mollifier:
    """The kernel of half-width `width` and shape `beta` >= 4, as seen on the line Re z = tilt."""

    def __init__(self, width: float, beta: float, tilt: float) -> None:
        self.width, self.beta, self.tilt = width, beta, tilt
        self.eta = self._log_transform(width)
        self.eta_error = 8 * ULP * (self.eta + math.exp(-2.0 * beta))
        self.gap = self._gap()

    def _log_transform(self, product: float) -> float:
        """log k at a real argument z with a z = product: kappa(X) = e^X (X - 1 + (X + 1) e^{-2X})/(2 X^3), by differences."""
        b = self.beta
        moved = product * product / (b + math.hypot(b, product))

        def small(x: float) -> float:
            return math.log1p((x + 1.0) / (x - 1.0) * math.exp(-2.0 * x))

        return moved + math.log1p(moved / (b - 1.0)) - 3.0 * math.log1p(moved / b) + small(b + moved) - small(b)

    @property
    def log_weight(self) -> float:
        """log k on the real axis at the line's own tilt."""
        return self._log_transform(self.width * self.tilt)

    def _density(self, y: Array) -> Array:
        """w times a constant, e^{-beta} taken out."""
        t = np.sqrt(np.maximum(1.0 - (y / self.width) ** 2, 0.0))
        return np.asarray(t * i1e(self.beta * t) * np.exp(self.beta * (t - 1.0)))

    def _gap(self) -> float:
        """C from above: on every cell the rising factor is taken at its right end and the falling one at its left."""
        y = np.linspace(self.eta, self.width, CELLS + 1)
        rising = np.expm1(y[1:] - self.eta)
        total = float(rising @ (self._density(y[:-1]) * np.diff(y)))
        return total / float(self._density(np.array([self.eta]))[0]) * (1.0 + 1e-12)

    def values(self, s: Array) -> tuple[npt.NDArray[np.complex128], Array]:
        """k(c + is)/k(c) and a bound on what rounding does to it.

        Where terms of X^2 cancel it is off by 4 ulps of beta^2 + (a c)^2 + (a s)^2, s being rounded itself, and |kappa'| is at most
        3.5 cosh(Re X) (|X| + 1)/|X|^3 for |X| >= 1, so that kappa moves by 1.75/|X| times that much.
        """
        square = (self.beta**2 + self.width**2 * (self.tilt**2 - s * s)) + 2j * self.width**2 * self.tilt * s
        x = np.sqrt(square)
        if not float(np.real(x).max(initial=0.0)) < LARGEST:
            raise Overflow("the tilt of the smoothed loss overflows")
        near = np.abs(square) < 1.0
        safe = np.where(near, 1.0, x)
        series, small = np.zeros(np.count_nonzero(near), dtype=complex), square[near]
        for n in range(9, -1, -1):
            series = series * small + 2.0 * (n + 1) / math.factorial(2 * n + 3)
        grown = np.exp(safe)
        far = 0.5 * (grown * (safe - 1.0) + (safe + 1.0) / grown) / (safe * safe * safe)
        top = self.log_weight + self._log_kappa
        length = np.abs(safe)
        size = np.where(near, 1.0, np.cosh(np.real(safe)) * (length + 1.0) / length**3)
        scale = math.exp(-top)
        terms = self.beta**2 + self.width**2 * (self.tilt**2 + s * s)
        roundings = 16.0 + 4.0 * (abs(top) + length) + 7.0 * terms / length
        far[near] = series
        return np.asarray(far * scale, dtype=complex), np.asarray(size * (scale * ULP * roundings))

    @property
    def _log_kappa(self) -> float:
        b = self.beta
        return b + math.log((b - 1.0 + (b + 1.0) * math.exp(-2.0 * b)) / (2.0 * b**3))

    def beyond(self, start: float) -> tuple[float, float]:
        """Bounds of the integrals over s >= start of |k(c + is)|/s^2 and of |k(c + is)|, relative to k(c).

        With A = (a s)^2 - beta^2 - (a c)^2 > 0: |X| >= A^{1/2}, Re X <= a^2 c s/A^{1/2}, both monotone in s.
        """
        far = (self.width * start) ** 2
        apart = far - self.beta**2 - (self.width * self.tilt) ** 2
        if not apart > 0.0:
            return math.inf, math.inf
        lean = self.width**2 * self.tilt * start / math.sqrt(apart)
        if lean > 50.0:
            return math.inf, math.inf
        top = math.cosh(lean) * (1.0 + 1.0 / math.sqrt(apart)) * math.exp(-self.log_weight - self._log_kappa)
        top *= far / apart / self.width**2 * (1.0 + 1e-12)  # |k(c + is)| <= top/s^2
        return top / (3.0 * start**3), top / start


def half_width(gap: float, beta: float) -> float:
    """The half-width whose C is about `gap`: C is close to the variance of Y, about (a^2/beta)(1 - 1.45/beta)."""
    return math.sqrt(gap * beta / (1.0 - 1.45 / beta))
