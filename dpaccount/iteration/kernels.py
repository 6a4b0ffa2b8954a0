"""Contraction coefficients of additive noise kernels y -> psi(y) + W, projected or not, in the log domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr

from dpaccount import _check
from dpaccount._log import LOG_2, ULP, gaussian_log_delta, log1m_exp, log_diff

Array = npt.NDArray[np.float64]
NOISES = ("gaussian", "laplace")
CHUNK = 20_000  # entries of a Gaussian curve at a time: each needs up to 20 nodes


def scalar(values: Any) -> Any:
    """Scalars in, scalars out: an array without axes as a Python number."""
    array = np.asarray(values)
    return array if array.ndim else array.item()


def gaussian_log_theta(epsilon: Any, distance: Any) -> Array:
    """log E_gamma(N(0, 1)||N(r, 1)) for eps >= 0 and r >= 0; -inf at r = 0, and 0 at r = inf.

    Where it is near 0, log(1 - x) with x = Phi(eps/r - r/2) + e^eps Phi(-eps/r - r/2) keeps its digits, since a chain takes
    it a million times.
    """
    e, r = np.broadcast_arrays(np.asarray(epsilon, dtype=float), np.asarray(distance, dtype=float))
    out = np.full(e.shape, -np.inf)
    out[r == np.inf] = 0.0
    inside = (r > 0.0) & (r < np.inf)
    e, r = e[inside], r[inside]
    near = e < r * r / 2
    value = np.empty(e.shape)
    here = np.flatnonzero(~near)
    for start in range(0, here.size, CHUNK):
        part = here[start : start + CHUNK]
        value[part] = gaussian_log_delta(e[part], r[part])
    u, v = e[near], r[near]
    value[near] = np.log1p(-np.minimum(ndtr(u / v - v / 2) + np.exp(u + log_ndtr(-u / v - v / 2)), 1.0))
    out[inside] = value
    return out


def gaussian_theta_error(epsilon: Any, distance: Any, log_theta: Any, slip: float = 4 * ULP) -> Array:
    """What rounding, and a relative error `slip` of the distance, may do to `gaussian_log_theta`.

    Far out the value is -a^2/2 with a = eps/r - r/2, and |d log theta/d log r| <= 1 + a b with b = a + r; near 0 the errors
    are relative to the value, since those of both terms of x are, with |d log x/d log r| <= (1 + |a|) b + 1.
    """
    e, r = np.asarray(epsilon, dtype=float), np.asarray(distance, dtype=float)
    value = np.asarray(log_theta, dtype=float)
    with np.errstate(all="ignore"):
        a, b = e / r - r / 2, e / r + r / 2
        move = 2.0 + (1.0 + np.abs(a)) * (1.0 + b)
        own = np.where(a > 0, 1.0 + b / (np.maximum(a, 1.0) * r), 1.0)
        error = (slip + 8 * ULP) * move * np.where(e < r * r / 2, np.abs(value), own)
    return np.asarray(np.where((r > 0) & (r < np.inf), error, 0.0))


def laplace_log_lambda(epsilon: Any, distance: Any) -> Array:
    """log max(0, 1 - e^{(eps - r)/2}), the same of Laplace noise of scale 1 for eps >= 0."""
    gap = (np.asarray(epsilon, dtype=float) - np.asarray(distance, dtype=float)) / 2
    return np.asarray(np.where(gap < 0.0, log1m_exp(np.minimum(gap, 0.0)), -np.inf))


def laplace_lambda_error(epsilon: Any, distance: Any, log_lambda: Any, slip: float = 4 * ULP) -> Array:
    """What rounding, and a relative error of the distance, may do to `laplace_log_lambda`; inf where 0 may be wrong."""
    e, r = np.asarray(epsilon, dtype=float), np.asarray(distance, dtype=float)
    gap, value = (r - e) / 2, np.asarray(log_lambda, dtype=float)
    moved = ULP * (r + e) + slip * r / 2
    with np.errstate(all="ignore"):
        slope = np.where(gap > 0.0, 1.0 / np.expm1(np.maximum(gap, 1e-300)), 0.0)
        return np.asarray(np.where((r < np.inf) & np.isfinite(value), moved * slope + 4 * ULP * np.abs(value), 0.0))


def log_overlap(noise: str, epsilon: Any, distance: Any) -> Array:
    """log E_gamma between a unit noise and itself moved by `distance`, for eps >= 0."""
    return gaussian_log_theta(epsilon, distance) if noise == "gaussian" else laplace_log_lambda(epsilon, distance)


def overlap_error(noise: str, epsilon: Any, distance: Any, value: Any, slip: float = 4 * ULP) -> Array:
    """The rounding of `log_overlap`."""
    error = gaussian_theta_error if noise == "gaussian" else laplace_lambda_error
    return error(epsilon, distance, value, slip)


def additive_contraction(noise: str, noise_scale: Any, spread: Any, epsilon: Any) -> Any:
    """The E_gamma contraction coefficient of y -> psi(y) + W when psi(y) ranges over a set of diameter `spread`.

    ``sup over y1, y2 of E_gamma(psi(y1) + W || psi(y2) + W) = theta_gamma(spread/noise_scale)`` for Gaussian W in any
    dimension, and ``max(0, 1 - e^{(eps - spread/noise_scale)/2})`` for Laplace W in one dimension.

    Parameters
    ----------
    noise : {"gaussian", "laplace"}
    noise_scale : float or array, > 0
        Standard deviation of each coordinate, or the scale of the Laplace law.
    spread : float or array, >= 0
        Diameter of the image of psi: c D for a map with Lipschitz constant c on a set of diameter D.
    epsilon : float or array
        log gamma, any real number. Below 0 it is the coefficient of ``E_gamma - (1 - gamma)``, which is the one at -epsilon.

    Guarantee
    ---------
    Exact if the diameter is attained. A projection afterwards, or any other processing, can only lower it.

    References
    ----------
    Asoodeh, Diaz, Calmon (2020), Theorem 2 with Lemmas 1 and 2.

    Examples
    --------
    >>> from dpaccount.iteration import additive_contraction
    >>> round(additive_contraction("gaussian", 1.0, 1.0, 1.0), 12)
    0.126936737507
    """
    owner = "additive_contraction"
    kind = _check.choice(owner, "noise", noise, NOISES)
    scale = _check.reals(owner, "noise_scale", noise_scale, low=0.0, open_low=True)
    far = _check.reals(owner, "spread", spread, low=0.0)
    level = np.abs(_check.reals(owner, "epsilon", epsilon))
    return scalar(np.exp(log_overlap(kind, level, far / scale)))


def projected_contraction(
    noise: str, noise_scale: float, epsilon: float, *, image: tuple[float, float], interval: tuple[float, float]
) -> float:
    """The same of y -> Proj(psi(y) + W) in one dimension: psi(y) ranges over the segment `image`, the result is clipped.

    The best test of the two outputs is a half line with its end in the interval, and its power is monotone in both means, so
    the supremum is at the ends of `image`: ``max over t in [low, high] of P(X1 > t) - gamma P(X2 > t)``, in both directions. It
    is the unprojected coefficient if the free threshold, ``middle of image + eps noise_scale^2/spread`` (Gaussian) or
    ``+ eps noise_scale/2`` (Laplace), is inside.

    Parameters
    ----------
    noise, noise_scale, epsilon : as in `additive_contraction`
    image, interval : (float, float), each increasing

    Examples
    --------
    >>> from dpaccount.iteration import additive_contraction, projected_contraction
    >>> projected_contraction("gaussian", 1.0, 0.1, image=(0, 1), interval=(0, 1)) <= additive_contraction("gaussian", 1.0, 1.0, 0.1)
    True
    """
    owner = "projected_contraction"
    kind = _check.choice(owner, "noise", noise, NOISES)
    scale = _check.real(owner, "noise_scale", noise_scale, low=0.0, open_low=True)
    level = abs(_check.real(owner, "epsilon", epsilon))
    (first, last), (low, high) = (_segment(owner, name, v) for name, v in (("image", image), ("interval", interval)))
    far = (last - first) / scale
    if not far:
        return 0.0
    free = scale * level * (1.0 / far if kind == "gaussian" else 0.5)
    value = 0.0
    for upper, lower, ends in ((last, first, (low, high)), (-first, -last, (-high, -low))):
        threshold = min(max((upper + lower) / 2 + free, ends[0]), ends[1])
        value = max(value, _power(kind, level, (upper - threshold) / scale, (lower - threshold) / scale))
    return value


def _segment(owner: str, name: str, value: Any) -> tuple[float, float]:
    ends = _check.reals(owner, name, value)
    if ends.shape != (2,) or ends[0] > ends[1]:
        _check.refuse(owner, name, "two increasing numbers", value)
    return float(ends[0]), float(ends[1])


def log_upper_tail(noise: str, x: Any) -> Array:
    """log P[W >= -x] of unit noise."""
    x = np.asarray(x, dtype=float)
    if noise == "gaussian":
        return np.asarray(log_ndtr(x))
    return np.asarray(np.where(x < 0, np.minimum(x, 0.0) - LOG_2, np.log1p(-0.5 * np.exp(-np.abs(x)))))


def _power(noise: str, epsilon: float, first: float, second: float) -> float:
    """max(0, P[W >= -first] - e^eps P[W >= -second])."""
    high, low = float(log_upper_tail(noise, first)), epsilon + float(log_upper_tail(noise, second))
    return float(np.exp(log_diff(high, low))) if high > low else 0.0
