"""Log-domain arithmetic and Gaussian tails, each with its domain.

`log_sum` and `log_diff` take -inf for zero. `log_diff(a, b)` needs a >= b and
returns -inf where rounding made b the larger.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, log_ndtr

Array = npt.NDArray[np.float64]
ULP = 2.3e-16
SUM = 3e-15  # numpy adds in blocks of 128 with 8 accumulators, then pairwise: 19 + log2(n/128) roundings of 1.1e-16
LOG_2 = 0.6931471805599453


def log_kappa(c: float) -> float:
    """log of kappa(c) = c^c/(1+c)^{1+c} = max over x >= 0 of (1 - e^{-x}) e^{-cx}, for c > 0, to a few ulps."""
    return -(math.log1p(c) + c * math.log1p(1.0 / c))


def log_sum(a: Any, b: Any) -> Any:
    """log(e^a + e^b), elementwise; -inf stands for zero."""
    return np.logaddexp(a, b)


def log_diff(a: Any, b: Any) -> Any:
    """log(e^a - e^b) for a >= b, elementwise; -inf where they are equal."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.minimum(b - a, 0.0)
        out = a + log1m_exp(gap)
    return np.where(np.isneginf(a), -np.inf, out)[()]


def log1m_exp(x: Any) -> Any:
    """log(1 - e^x) for x <= 0, without cancellation at either end."""
    if type(x) is float and x < 0.0:
        return math.log(-math.expm1(x)) if x > -0.6931471805599453 else math.log1p(-math.exp(x))
    x = np.asarray(x, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x > -0.6931471805599453, np.log(-np.expm1(x)), np.log1p(-np.exp(x)))[()]


def log_expm1_plus(loss: Any, q: float) -> Any:
    """log(e^loss - 1 + q) for loss > log(1 - q); -inf at or below it. q in (0, 1]."""
    loss = np.asarray(loss, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        small = np.log(np.maximum(np.expm1(np.minimum(loss, 30.0)) + q, 0.0))
        large = loss + np.log1p((q - 1.0) * np.exp(-np.maximum(loss, 1.0)))
    return np.where(loss < 1.0, small, large)[()]


def log_unsampled(loss: Any, q: float) -> Any:
    """log(1 + (e^loss - 1)/q) for q in (0, 1], the inverse of `log_sampled`; -inf at or below log(1 - q).

    A few ulps relative for loss >= 0. Below, e^{result} is off by ulps of (1 - e^loss)/q, or of e^loss/q where that is less.
    """
    loss = np.asarray(loss, dtype=float)
    if q == 1.0:
        return loss[()]
    with np.errstate(divide="ignore"):
        middle = np.log1p(np.maximum(np.expm1(np.minimum(loss, 1.0)) / q, -1.0))
        large = loss - np.log(q) + np.log1p((q - 1.0) * np.exp(-np.maximum(loss, 1.0)))
        low = np.log(np.maximum(np.exp(np.minimum(loss, 0.0)) - (1.0 - q), 0.0) / q)
    return np.where(loss >= 1.0, large, np.where(loss > -LOG_2, middle, low))[()]


def log_sampled(loss: Any, q: float) -> Any:
    """log(1 - q + q e^loss) for q in (0, 1], any real loss (infinities allowed), to full relative accuracy."""
    if type(loss) is float and q <= 0.5:
        return math.log1p(q * math.expm1(loss)) if loss <= 600.0 else loss + math.log(q)
    loss = np.asarray(loss, dtype=float)
    if q == 1.0:
        return loss[()]
    if loss.size == 0 or loss.max() <= 600.0:
        small = np.log1p(q * np.expm1(loss))
        if q > 0.5 and loss.min(initial=0.0) < -LOG_2:  # near the end log(1 - q) the two terms nearly cancel
            small = np.where(loss < -LOG_2, np.log((1.0 - q) + q * np.exp(np.minimum(loss, 0.0))), small)
        return small[()]
    with np.errstate(over="ignore"):
        small = np.asarray(log_sampled(np.minimum(loss, 600.0), q))
    return np.where(loss <= 600.0, small, loss + np.log(q))[()]


def log_total(a: Array) -> float:
    """log of the sum of e^a over a one-dimensional array; -inf if it is empty."""
    top = float(a.max(initial=-np.inf))
    return top + float(np.log(np.exp(a - top).sum())) if np.isfinite(top) else top


def gaussian_log_delta(epsilon: Any, mu: Any) -> Any:
    """log of Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) for mu > 0 and any real eps (BW18, Theorem 8).

    With u = (eps/mu - mu/2)/sqrt 2 and v = u + mu/sqrt 2 it is -u^2 + log((erfcx(u) - erfcx(v))/2).
    Three forms keep relative accuracy: the two terms where they are far apart; the integral of
    -erfcx' over [u, v] where they are close; and 1 - e^eps + e^eps delta(-eps) for negative eps.
    """
    epsilon, mu = np.broadcast_arrays(np.asarray(epsilon, dtype=float), np.asarray(mu, dtype=float))
    size = np.abs(epsilon)
    small = float(mu.max(initial=0.0)) < 1.0
    right = _close(size, mu) if small else np.where(mu < 1, _close(size, mu), _apart(size, mu))
    with np.errstate(divide="ignore"):
        left = np.logaddexp(np.log(-np.expm1(-size)), right - size)
    return np.minimum(np.where(epsilon >= 0, right, left), 0.0)[()]


def gaussian_log_error(epsilon: float, mu: float) -> float:
    """What rounding does to `gaussian_log_delta`, with mu itself off by an ulp; a = eps/mu - mu/2 and b = a + mu as there.

    Close: -u^2 and mu, whose d log delta/d log mu is at most 1 + a^2. Apart, a > 0: u and v are rounded by ulps of a + mu and
    the tail has the slope a + b/(a mu). Apart, a <= 0: delta > 0.2 and the density at a is the slope in a and in b.
    """
    size = abs(epsilon)
    a, b = size / mu - mu / 2, size / mu + mu / 2
    if mu < 1.0 or mu * (1.0 + abs(a) / 1.5) < 3.0:
        right = 4.0 + 2.0 * a * a
    elif a > 0.0:
        right = 4.0 + 2.0 * b * (1.0 + a + b / (max(a, 1.0) * mu))
    else:
        right = 4.0 + 5.0 * b * math.exp(-0.5 * a * a)
    if epsilon < 0.0:
        whole = float(gaussian_log_delta(epsilon, mu))
        right = 4.0 + right * math.exp(min(float(gaussian_log_delta(size, mu)) - size - whole, 0.0))
    return 2.0 * ULP * right


def _apart(epsilon: Array, mu: Array) -> Array:
    """For eps >= 0 and mu >= 1: the terms differ by more than rounding unless eps/mu is large, where `_close` serves."""
    root = np.sqrt(2.0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        u = (epsilon / mu - mu / 2) / root
        v = (epsilon / mu + mu / 2) / root
        tail = -(u**2) + np.log((erfcx(u) - erfcx(v)) / 2)
        body = log_diff(log_ndtr(-u * root), epsilon + log_ndtr(-v * root))
        near = mu * (1 + np.abs(u)) < 3.0
    return np.where(near, _close(epsilon, mu), np.where(u >= 0, tail, body))


_RULES = {count: np.polynomial.legendre.leggauss(count) for count in (6, 11, 20)}


def _close(epsilon: Array, mu: Array) -> Array:
    """-u^2 + log of half the integral over [u, v] of -erfcx'(t) = 2/sqrt(pi) - 2 t erfcx(t)."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        half = mu / np.sqrt(8.0)
        centre = epsilon / (mu * np.sqrt(2.0))
        widest = float(half.max(initial=0.0))
        nodes, weights = _RULES[6 if widest < 0.05 else 11 if widest < 0.4 else 20]
        t = centre[..., None] + half[..., None] * nodes
        slope = 2 / np.sqrt(np.pi) - 2 * t * erfcx(t)
        far = t > 10.0
        if far.any():  # the same by its asymptotic series, where the difference cancels
            inverse = t[far] ** -2.0
            series = np.zeros_like(inverse)
            for k in range(16, 0, -1):  # the first term left out is below 1e-18 at t = 10
                series = inverse * (1.0 if k == 1 else -(k - 0.5)) * (series + 1.0)
            slope[far] = series / np.sqrt(np.pi)
        return np.asarray(-((centre - half) ** 2) + np.log(half / 2 * (slope @ weights)))


def polar_log1p(real: Any, imag: Any) -> tuple[Any, Any]:
    """log |1 + x| and arg(1 + x) of x = real + i imag; numpy's complex log1p loses the modulus near 0. At least -690, which is 1e-300."""
    change = 2 * real + real * real + imag * imag
    if np.min(change, initial=0.0) > -0.5:
        return 0.5 * np.log1p(change), np.arctan2(imag, 1 + real)
    with np.errstate(divide="ignore"):
        log_size = 0.5 * np.where(change > -0.5, np.log1p(np.maximum(change, -0.9)), np.log((1 + real) ** 2 + imag**2))
    return np.maximum(log_size, -690.0), np.arctan2(imag, 1 + real)


def polar_slip(error: Any, log_size: Any) -> Any:
    """By how much a logarithm is off if its argument, of modulus e^log_size, is off by `error`.

    |log(x + e) - log x| <= -log(1 - |e|/|x|); where that is hopeless, how much larger |x| may be, and any angle.
    """
    ratio = error / np.exp(log_size)
    return np.where(ratio < 0.5, 1.4 * ratio, np.log1p(ratio) + 0.3) + 4 * ULP * np.abs(log_size)


def log_geometric(log_ratio: float) -> float:
    """log of r + r^2 + ... for r = e^log_ratio, infinite unless r < 1."""
    return log_ratio - math.log(-math.expm1(log_ratio)) if log_ratio < 0.0 else math.inf


def exp_from_above(log_value: Any) -> Any:
    """e^v, and where that has lost digits or underflowed, the next double: no upper end is below what it bounds."""
    with np.errstate(under="ignore"):
        found = np.exp(log_value)
    thin = (log_value < THIN) & (log_value > -np.inf)
    return np.where(thin, found + SMALLEST, found)[()] if np.any(thin) else found


def exp_from_below(log_value: Any) -> Any:
    """The same from below, at least 0."""
    with np.errstate(under="ignore"):
        found = np.exp(log_value)
    thin = (log_value < THIN) & (log_value > -np.inf)
    return np.where(thin, np.maximum(found - SMALLEST, 0.0), found)[()] if np.any(thin) else found


THIN, SMALLEST = -707.0, 5e-324
