"""By how much an inner step by unbiased estimates is off in total variation.

Two points x, z are drawn from the proposal, a Gaussian of variance v restricted to a convex set, and x is kept with probability
``clip(rho, 0, c)/c``, where ``E[rho | x, z] = e^{H(z) - H(x)}``. Were rho always in [0, c], x would have the law sought. If not,
the law is off by at most ``E|rho - clip(rho, 0, c)|``, as ``E e^{H(z) - H(x)} >= 1`` (x and z are exchangeable).

Write delta for ``h_j(z) - h_j(x)`` of one record. (x, z) is 1/v-strongly log-concave, delta is a function of it with Lipschitz constant
``sqrt(2) G``, and symmetric, so by Gaussian concentration (Caffarelli) ``P[delta > t] <= P[tau Z > t]`` with Z standard Gaussian and
``tau = G sqrt(2 v)``: no dimension enters. A product of m factors, each a function of one record's delta, is at most the mean of their
m-th powers, so one record's tail is enough.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx, gammainc, ndtr, ndtri

POINTS = 4000  # of the Riemann sum, whose integrand is taken from the safe side
FARTHEST = 40.0
SAFE = 1.0 + 1e-9  # for rounding


def _mills(x: float) -> float:
    """P[Z > x]/phi(x)."""
    return math.sqrt(math.pi / 2.0) * float(erfcx(x / math.sqrt(2.0)))


def series_error(tau: float) -> float:
    """``E|rho - clip(rho, 0, 2)|`` of the paper's estimate (GLL22, Algorithm 2): ``rho = 1 + delta_1 + delta_2 delta_2' + ...``.

    The a-th product is reached with probability 1/a!. Where every |delta| <= 1/2 the sum is within 1 of rho - 1. In general
    ``(|rho - 1| - 1)^+ <= sum over a of (|product_a| - 2^-a)^+``, which is at most
    ``integral from 1/2 of e^t P[|delta| > t] dt = 2 (e^{tau^2/2} P[Z > 1/(2 tau) - tau] - e^{1/2} P[Z > 1/(2 tau)])``.
    """
    x = 0.5 / tau
    log_phi = 0.5 - x * x / 2.0 - 0.5 * math.log(2.0 * math.pi)
    return 2.0 * math.exp(log_phi) * (_mills(x - tau) - _mills(x)) * SAFE


def poisson_error(tau: float, rate: float, cap: float) -> float:
    """``E|rho - clip(rho, 0, c)|`` of ``rho = product over N of (1 + delta_l/rate)``, N Poisson with mean `rate`, c = `cap`.

    ``E rho = e^{-rate} sum rate^N/N! (1 + Delta/rate)^N = e^Delta``. Above c: with ``1 + tau Z/rate`` for the factors, the sum over N at
    one z is ``e^{tau z} P[M' > n] - c P[M > n]``, M and M' Poisson with means rate and rate + tau z, n the last N with
    ``(1 + tau z/rate)^N <= c``; it rises with z, so the Riemann sum with right ends is a bound. Below 0: some
    delta < -rate, at most ``2 E[(rate + tau Z) e^{tau Z}; Z > rate/tau]``.
    """
    z = np.linspace(0.0, FARTHEST, POINTS + 1)
    weight = np.diff(ndtr(z[: POINTS // 2 + 1]))
    weight = np.concatenate([weight, -np.diff(ndtr(-z[POINTS // 2 :]))])
    right = z[1:]
    last = np.floor(math.log(cap) / np.log1p(tau * right / rate))
    with np.errstate(over="ignore", under="ignore"):
        beyond = np.exp(tau * right) * gammainc(last + 1.0, rate + tau * right) - cap * gammainc(last + 1.0, rate)
        above = float(weight @ np.maximum(beyond, 0.0)) + math.exp(tau * tau / 2.0) * float(ndtr(tau - FARTHEST))
    w = rate / tau - tau
    phi = math.exp(-w * w / 2.0) / math.sqrt(2.0 * math.pi)
    below = 2.0 * math.exp(tau * tau / 2.0) * ((rate + tau * tau) * float(ndtr(-w)) + tau * phi)
    return (above + below) * SAFE


def reference_error(tau: float, references: int, cap: float) -> float:
    """The same where all losses are asked: ``rho = e^{R - H(x)}``, R the mean of H at `references` points more, c = `cap`; tau = G sqrt(v).

    Given R the law is off by ``E(rho - c)^+/E rho``. With M the mean of H, ``A = M - H(x)`` and ``b = M - R`` that is
    ``E(e^A - c e^b)^+/E e^A``, where ``E e^A >= 1`` by Jensen. As ``(e^A - c e^b)^+ <= (l-1)^{l-1} l^{-l} c^{1-l} e^{l A - (l-1) b}``
    for every l > 1, and ``E e^{l A} <= e^{l^2 tau^2/2}`` for Lipschitz functions of strongly log-concave laws, the bound is
    ``(l-1)^{l-1} l^{-l} c^{1-l} exp(tau^2/2 (l^2 + (l-1)^2/references))``, at any l; the best of a grid is taken.
    """
    guess = max(math.log(cap) / (tau * tau * (1.0 + 1.0 / references)), 1e-3)
    less = guess * np.geomspace(1e-2, 10.0, 400)  # l - 1
    with np.errstate(over="ignore"):
        height = less * np.log(less) - (less + 1.0) * np.log1p(less) - less * math.log(cap)
        height += tau * tau / 2.0 * ((less + 1.0) ** 2 + less * less / references)
    return math.exp(min(float(height.min()), 0.0)) * SAFE


def largest_reference_tau(error: float, references: int, cap: float) -> float:
    """The same as below for `reference_error`."""
    return _largest(lambda tau: reference_error(tau, references, cap), error, 2.0 * math.log(cap))


def largest_series_tau(error: float) -> float:
    """The largest tau, to a relative 1e-3 below it, with `series_error` at most `error`."""
    return _largest(series_error, error, 0.2)


def largest_poisson_tau(error: float, rate: float, cap: float) -> float:
    """The same for `poisson_error`."""
    return _largest(lambda tau: poisson_error(tau, rate, cap), error, rate)


def _largest(bound, error: float, high: float) -> float:  # type: ignore[no-untyped-def]
    low = 1e-4 * high
    if bound(low) > error:
        return 0.0
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if bound(middle) <= error else (low, middle)
    return low


def quantile(probability: float) -> float:
    """z with P[Z > z] = probability."""
    return float(-ndtri(probability))
