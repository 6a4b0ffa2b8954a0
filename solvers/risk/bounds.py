"""Bounds on the expected excess empirical risk, of sums of losses, as functions of the budget and of the size of the problem."""

from __future__ import annotations

import math
from typing import Any

from dpaccount import _check


def exponential_mechanism_risk(epsilon: Any, dimension: Any, lipschitz: Any, diameter: Any) -> float:
    """``2 p L |C|/eps``: convex losses, density proportional to ``exp(-eps/(2 L |C|) sum loss)`` (Theorem 6.5, with its constant).

    E F(x) - min F is at most p/k under exp(-k F) for convex F; a linear F on a cone attains it.

    Parameters
    ----------
    epsilon, lipschitz, diameter : float
        eps, L, |C| > 0.
    dimension : int
        p >= 1.

    Examples
    --------
    >>> from solvers.risk.bounds import exponential_mechanism_risk
    >>> exponential_mechanism_risk(0.5, 10, 1.0, 2.0)
    80.0
    """
    e, p, scale = _sizes("exponential_mechanism_risk", epsilon, dimension, lipschitz, diameter)
    return 2.0 * p * scale / e


def exponential_mechanism_tail(epsilon: Any, dimension: Any, lipschitz: Any, diameter: Any, failure: Any) -> float:
    """``4 Gamma``, ``Gamma = (2 L |C|/eps)((p + 1) ln 3 + t)``: exceeded with probability at most `failure` = e^{-t} (Theorem 6.5)."""
    owner = "exponential_mechanism_tail"
    e, p, scale = _sizes(owner, epsilon, dimension, lipschitz, diameter)
    t = -math.log(_check.real(owner, "failure", failure, low=0.0, high=1.0, open_low=True))
    return 8.0 * scale / e * ((p + 1.0) * math.log(3.0) + t)


def objective_perturbation_risk(epsilon: Any, dimension: Any, lipschitz: Any, diameter: Any) -> float:
    """``|C| sqrt(E |b|^2)``, ``E |b|^2 = 4 p (p + 1) L^2/eps^2``, at ``Delta = sqrt(E |b|^2)/|C|`` (Theorem 6.9, with the best constant).

    For pure noise with density proportional to ``e^{-eps |b|/(2 L)}``, 0 in C, and losses so smooth that this Delta is allowed.
    """
    e, p, scale = _sizes("objective_perturbation_risk", epsilon, dimension, lipschitz, diameter)
    return 2.0 * scale * math.sqrt(p * (p + 1.0)) / e


def gradient_descent_risk(size: Any, dimension: Any, lipschitz: Any, diameter: Any, *, steps: Any, noise_multiplier: Any) -> float:
    """``|C| L sqrt((n^2 + p sigma^2)/T)``: the average of T full-batch steps, ``eta = |C|/(L sqrt(T (n^2 + p sigma^2)))`` (Theorem 6.11).

    Parameters
    ----------
    size, dimension, steps : int
        n, p, T >= 1.
    lipschitz, diameter : float
        L, |C| > 0.
    noise_multiplier : float
        sigma >= 0, of the noise on a sum of gradients, over L.

    Examples
    --------
    >>> from solvers.risk.bounds import gradient_descent_risk
    >>> round(gradient_descent_risk(1000, 10, 1.0, 2.0, steps=100, noise_multiplier=37.3), 3)
    201.386
    """
    owner = "gradient_descent_risk"
    n, total = float(_check.count(owner, "size", size)), float(_check.count(owner, "steps", steps))
    _, p, scale = _sizes(owner, 1.0, dimension, lipschitz, diameter)
    sigma = _check.real(owner, "noise_multiplier", noise_multiplier, low=0.0)
    return scale * math.sqrt((n * n + p * sigma * sigma) / total)


def least_possible_order(size: Any, dimension: Any, epsilon: Any, lipschitz: Any, diameter: Any, *, pure: bool) -> float:
    """``n L |C| min(1, p/(n eps))``, pure, or ``n L |C| min(1, sqrt(p)/(n eps))``: no private algorithm has less on every problem (BST14).

    An order: the constant, and for (eps, delta) a logarithm of 1/delta, are left out.
    """
    owner = "least_possible_order"
    n = float(_check.count(owner, "size", size))
    e, p, scale = _sizes(owner, epsilon, dimension, lipschitz, diameter)
    return n * scale * min(1.0, (p if _check.flag(owner, "pure", pure) else math.sqrt(p)) / (n * e))


def _sizes(owner: str, epsilon: Any, dimension: Any, lipschitz: Any, diameter: Any) -> tuple[float, float, float]:
    """eps, p and L |C|, checked."""
    e, big, far = (
        _check.real(owner, name, value, low=0.0, open_low=True)
        for name, value in (("epsilon", epsilon), ("lipschitz", lipschitz), ("diameter", diameter))
    )
    return e, float(_check.count(owner, "dimension", dimension)), big * far
