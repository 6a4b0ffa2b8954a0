"""Contraction coefficients of finite kernels and of kernel families, hockey-stick divergences, and products along a chain."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount.iteration.kernels import scalar
from dpaccount.results import Bounds

Array = npt.NDArray[np.float64]
DIVERGENCES = ("hockey-stick", "total-variation", "kl", "chi-squared")


def hockey_stick_divergence(p: Any, q: Any, epsilon: Any) -> Any:
    """E_gamma(P||Q) = sum of (p - gamma q)_+ of finite distributions, gamma = e^eps for any real eps (array).

    Examples
    --------
    >>> from dpaccount.iteration import hockey_stick_divergence
    >>> round(hockey_stick_divergence([0.5, 0.5], [0.2, 0.8], 0.0), 12)
    0.3
    """
    owner = "hockey_stick_divergence"
    first, second = _distributions(owner, p, q)
    gamma = np.exp(_check.reals(owner, "epsilon", epsilon, high=700.0))
    return scalar(np.maximum(first - gamma[..., None] * second, 0.0).sum(axis=-1))


def sampled_hockey_stick(log_p: Any, log_q: Any, epsilon: float, *, confidence: float = 0.999) -> Bounds:
    """E_gamma(P||Q) from samples of P whose log densities under both laws are known: the mean of (1 - e^{eps - L})_+.

    Parameters
    ----------
    log_p, log_q : array, shape (n,), n >= 2
        Log densities at the same n independent samples of P; log_q may be -inf.
    epsilon : float
    confidence : float
        In (0, 1), of the two-sided interval.

    Guarantee
    ---------
    The interval covers E_gamma with at least the stated probability: the better of Hoeffding's and the empirical Bernstein
    inequality, each at half the error. It is statistical, so never certified.

    References
    ----------
    Maurer, Pontil (2009), Theorem 4.

    Examples
    --------
    >>> import numpy as np
    >>> from dpaccount.iteration import sampled_hockey_stick
    >>> x = 1 + np.random.default_rng(0).standard_normal(20_000)
    >>> found = sampled_hockey_stick(-((x - 1) ** 2) / 2, -(x**2) / 2, 1.0)
    >>> found.lower < 0.126936737507 < found.upper
    True
    """
    owner = "sampled_hockey_stick"
    first = _check.reals(owner, "log_p", log_p)
    second = _check.reals(owner, "log_q", log_q, infinite=True)
    level = _check.real(owner, "epsilon", epsilon)
    sure = _check.real(owner, "confidence", confidence, low=0.0, high=1.0, open_low=True, open_high=True)
    if first.ndim != 1 or first.size < 2:
        _check.refuse(owner, "log_p", "a sequence of at least two numbers", log_p)
    if second.shape != first.shape:
        _check.refuse(owner, "log_q", f"of the same length as log_p, {first.size}", log_q)
    share = -np.expm1(np.minimum(level + second - first, 0.0))
    n, mean = share.size, float(share.mean())
    doubt = math.log(8.0 / (1.0 - sure))  # two inequalities, two sides each; Bernstein's needs 2/error
    width = min(
        math.sqrt(math.log(4.0 / (1.0 - sure)) / (2 * n)),
        math.sqrt(2 * float(share.var(ddof=1)) * doubt / n) + 7 * doubt / (3 * (n - 1)),
    )
    return Bounds(max(mean - width, 0.0), mean, min(mean + width, 1.0), method=f"samples, confidence {sure:g}")


def contraction_coefficient(kernel: Any, epsilon: Any = 0.0, *, divergence: str = "hockey-stick") -> Any:
    """The contraction coefficient of a finite Markov kernel: sup over inputs of D(mu K||nu K)/D(mu||nu).

    - ``hockey-stick``: ``max over rows of E_gamma(K(y1)||K(y2))`` for gamma >= 1; Dobrushin's coefficient at gamma = 1. For
      gamma < 1, ``E_gamma(P||Q) = 1 - gamma + gamma E_{1/gamma}(Q||P)``, so what contracts is ``E_gamma - (1 - gamma)``,
      with the coefficient at 1/gamma.
    - ``total-variation``: Dobrushin's.
    - ``kl`` and ``chi-squared``: both are ``max over rows and t of 1 - sum pq/((1-t)p + tq)``; concave in t, so its maximum
      is bounded by tangents from both sides. The answer is the upper one, above the coefficient by rounding alone.

    Parameters
    ----------
    kernel : array, shape (inputs, outputs)
        Each row a distribution.
    epsilon : float or array
        log gamma; for ``hockey-stick`` alone.

    References
    ----------
    Asoodeh, Diaz, Calmon (2020), Theorem 2; Dobrushin (1956); Ordentlich, Polyanskiy (2021), Theorem 1: two inputs suffice.

    Examples
    --------
    >>> from dpaccount.iteration import contraction_coefficient
    >>> flip = [[0.75, 0.25], [0.25, 0.75]]
    >>> round(contraction_coefficient(flip), 12), round(contraction_coefficient(flip, divergence="kl"), 12)
    (0.5, 0.25)
    """
    owner = "contraction_coefficient"
    rows = _kernel(owner, "kernel", kernel)
    kind = _check.choice(owner, "divergence", divergence, DIVERGENCES)
    levels = np.abs(_check.reals(owner, "epsilon", epsilon, low=-700.0, high=700.0))
    if kind != "hockey-stick" and levels.any():
        _check.refuse(owner, "epsilon", "0 unless the divergence is 'hockey-stick'", epsilon)
    if kind in ("hockey-stick", "total-variation"):
        return scalar(np.array([_largest(rows, math.exp(level)) for level in levels.ravel()]).reshape(levels.shape))
    pairs = [(i, j) for i in range(len(rows)) for j in range(i)]
    return max((_le_cam(rows[i], rows[j]) for i, j in pairs), default=0.0)


def chain_bound(
    p: Any, q: Any, kernels: Iterable[Any], epsilon: float = 0.0, *, divergence: str = "hockey-stick"
) -> float:
    """An upper bound on D(p K_1...K_m||q K_1...K_m): D(p||q) times the product of the kernels' coefficients.

    Parameters
    ----------
    p, q : distributions on the inputs of the first kernel
    kernels : sequence of arrays, as in `contraction_coefficient`
    epsilon : float
        For ``hockey-stick``; below 0 the product is taken of E_gamma - (1 - gamma).

    References
    ----------
    Asoodeh, Diaz, Calmon (2020), Lemma 3.

    Examples
    --------
    >>> from dpaccount.iteration import chain_bound
    >>> flip = [[0.75, 0.25], [0.25, 0.75]]
    >>> round(chain_bound([1, 0], [0, 1], [flip, flip]), 12)
    0.25
    """
    owner = "chain_bound"
    first, second = _distributions(owner, p, q)
    kind = _check.choice(owner, "divergence", divergence, DIVERGENCES)
    level = _check.real(owner, "epsilon", epsilon, low=-700.0, high=700.0)
    start = _divergence(first, second, level, kind)
    floor = max(-math.expm1(level), 0.0)
    product, size = start - floor if start < math.inf else start, first.size
    for kernel in kernels:
        rows = _kernel(owner, "kernels", kernel)
        if len(rows) != size:
            _check.refuse(owner, "kernels", f"a kernel with {size} inputs, the outputs of what comes before", rows.shape)
        size = rows.shape[1]
        factor = contraction_coefficient(rows, level if kind == "hockey-stick" else 0.0, divergence=kind)
        product = 0.0 if factor == 0.0 and product < math.inf else product * factor
    return floor + product if product == product else math.inf


def family_contraction(
    kernel: Callable[[Any], Any], points: Iterable[Any], epsilon: float, *, radius: float, lipschitz: float
) -> Bounds:
    """The E_gamma coefficient of a kernel family of one's own, y -> a distribution on finitely many outputs.

    If every input is within `radius` of one of `points`, and ``TV(K(y1), K(y2)) <= lipschitz |y1 - y2|``, then by
    ``E_gamma(P||Q) <= TV(P, P') + E_gamma(P'||Q') + gamma TV(Q', Q)`` the coefficient is at most the largest over the points
    plus ``(1 + gamma) lipschitz radius``.

    Parameters
    ----------
    kernel : callable
        A point to a probability vector of fixed length.
    points : sequence
        Inputs, which `kernel` is called with.
    epsilon : float
        log gamma; the sign does not matter (see `contraction_coefficient`).
    radius, lipschitz : float, >= 0

    Examples
    --------
    >>> from dpaccount.iteration import family_contraction
    >>> found = family_contraction(lambda y: [y, 1 - y], [0.25, 0.5, 0.75], 0.0, radius=0.125, lipschitz=1.0)
    >>> found.lower, found.upper
    (0.5, 0.75)
    """
    owner = "family_contraction"
    if not callable(kernel):
        _check.refuse(owner, "kernel", "a function of a point", kernel, kind=TypeError)
    level = abs(_check.real(owner, "epsilon", epsilon, low=-700.0, high=700.0))
    reach = _check.real(owner, "radius", radius, low=0.0) * _check.real(owner, "lipschitz", lipschitz, low=0.0)
    try:
        table = [list(kernel(point)) for point in points]
    except TypeError as error:
        _check.refuse(owner, "points", "points that the kernel takes and turns into probability vectors", str(error), kind=TypeError)
    rows = _kernel(owner, "kernel", table)
    seen = _largest(rows, math.exp(level))
    upper = min(seen + (1.0 + math.exp(level)) * reach, 1.0)
    return Bounds(seen, seen, upper, method="contraction")


def _distributions(owner: str, p: Any, q: Any) -> tuple[Array, Array]:
    first, second = _check.probabilities(owner, "p", p), _check.probabilities(owner, "q", q)
    if first.shape != second.shape:
        _check.refuse(owner, "q", f"of the same length as p, {first.size}", q)
    return first, second


def _kernel(owner: str, name: str, value: Any) -> Array:
    rows = _check.reals(owner, name, value, low=0.0, high=1.0)
    if rows.ndim != 2 or not rows.size:
        _check.refuse(owner, name, "a matrix whose rows are distributions", value)
    worst = float(np.abs(rows.sum(axis=1) - 1.0).max())
    if worst > 1e-9:
        _check.refuse(owner, name, "a matrix whose rows sum to 1", value, f"A row is off by {worst:.2g}.")
    return rows


def _largest(rows: Array, gamma: float) -> float:
    """max over pairs of rows of the sum of (p - gamma q)_+."""
    best = 0.0
    for row in np.unique(rows, axis=0):
        best = max(best, float(np.maximum(row - gamma * rows, 0.0).sum(axis=1).max()))
    return min(best, 1.0)


def _divergence(p: Array, q: Array, epsilon: float, kind: str) -> float:
    if kind in ("hockey-stick", "total-variation"):
        return float(np.maximum(p - math.exp(epsilon if kind == "hockey-stick" else 0.0) * q, 0.0).sum())
    if np.any((q == 0.0) & (p > 0.0)):
        return math.inf
    a, b = p[q > 0.0], q[q > 0.0]
    if kind == "chi-squared":
        return float(((a - b) ** 2 / b).sum())
    seen = a > 0.0
    return max(float((a[seen] * np.log(a[seen] / b[seen])).sum()), 0.0)


def _le_cam(p: Array, q: Array) -> float:
    """max over t in [0, 1] of g(t) = 1 - sum pq/((1-t)p + tq), from above: g is concave, tangents bound it."""
    both = (p > 0.0) & (q > 0.0)
    if not both.any():
        return 1.0
    a, b = p[both], q[both]

    def value_and_slope(t: float) -> tuple[float, float]:
        mean = (1.0 - t) * a + t * b
        return 1.0 - float((a * b / mean).sum()), float((a * b * (b - a) / mean**2).sum())

    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if value_and_slope(middle)[1] > 0.0 else (low, middle)
    (left, rise), (right, fall) = value_and_slope(low), value_and_slope(high)
    top = min(left + max(rise, 0.0) * (high - low), right + max(-fall, 0.0) * (high - low))
    return min(max(top, left, right, 0.0), 1.0)
