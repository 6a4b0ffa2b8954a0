"""Small facts of private optimisation: exchanges cost twice, kinks leak, what oracles cost, from empirical to population risk."""

from __future__ import annotations

import math
from typing import Any

from dpaccount import _check


def under_replacement(epsilon: Any, delta: Any = 0.0) -> tuple[float, float]:
    """(2 epsilon, (1 + e^epsilon) delta): what (epsilon, delta) under add-or-remove is worth under replace-one, through the common part.

    Parameters
    ----------
    epsilon : float
        In [0, 350].
    delta : float
        In [0, 1].

    Guarantee
    ---------
    Holds for every mechanism, and is attained by Laplace noise on a sum; most mechanisms have less, which their own accounting finds.

    Examples
    --------
    >>> from solvers.risk.facts import under_replacement
    >>> under_replacement(0.5)
    (1.0, 0.0)
    """
    eps = _check.real("under_replacement", "epsilon", epsilon, low=0.0, high=350.0)
    found = _check.real("under_replacement", "delta", delta, low=0.0, high=1.0)
    return 2.0 * eps, min((1.0 + math.exp(eps)) * found, 1.0)


def median_atom(epsilon: Any) -> tuple[float, float]:
    """``(1 - e^{-eps/4}, 1 - e^{-eps/2})``: how often objective perturbation of the median at Delta = 0 gives out a record.

    For the losses |theta - d_i|, n odd, the slope jumps from -1 to 1 at the median row, and b has density proportional to
    ``e^{-eps |b|/2}``: for |b| < 1 the median row itself is the minimiser. The chapter counts |b| <= 1/2 alone, its bound is the first
    number; the second is the probability. Without smoothness nothing is private, so `objective_perturbation` refuses such losses.

    Examples
    --------
    >>> from solvers.risk.facts import median_atom
    >>> [round(found, 4) for found in median_atom(1.0)]
    [0.2212, 0.3935]
    """
    eps = _check.real("median_atom", "epsilon", epsilon, low=0.0, open_low=True)
    return -math.expm1(-eps / 4.0), -math.expm1(-eps / 2.0)


def gradient_descent_oracle_calls(size: Any, dimension: Any, epsilon: Any, *, sampled: bool = False) -> float:
    """Gradients of single records that Algorithm 3 takes at Theorem 6.11's ``T = n^2 eps^2/p`` steps: ``n^3 eps^2/p``; T with one a step.

    Parameters
    ----------
    size, dimension : int
        n and p, at least 1.
    epsilon : float
        > 0.
    sampled : bool
        One record a step, drawn anew; privacy is then accounted by sampling, and the risk is of the same order.

    Examples
    --------
    >>> from solvers.risk.facts import gradient_descent_oracle_calls
    >>> gradient_descent_oracle_calls(1000, 10, 1.0), gradient_descent_oracle_calls(1000, 10, 1.0, sampled=True)
    (100000000.0, 100000.0)
    """
    owner = "gradient_descent_oracle_calls"
    n, p = float(_check.count(owner, "size", size)), float(_check.count(owner, "dimension", dimension))
    eps = _check.real(owner, "epsilon", epsilon, low=0.0, open_low=True)
    steps = float(max(math.ceil(n * n * eps * eps / p), 1))
    return steps if _check.flag(owner, "sampled", sampled) else n * steps


def sampling_oracle_order(size: Any, epsilon: Any, polynomial: Any) -> float:
    """The order ``n epsilon poly(p)`` of the general samplers for Algorithm 1 (BST14, MV21); poly(p) is the caller's to state.

    An order, not a count. `solvers.exact` counts its own looks at the data; it serves p <= 3 alone.

    Examples
    --------
    >>> from solvers.risk.facts import sampling_oracle_order
    >>> sampling_oracle_order(1000, 0.5, 10**3)
    500000.0
    """
    owner = "sampling_oracle_order"
    n = float(_check.count(owner, "size", size))
    eps = _check.real(owner, "epsilon", epsilon, low=0.0, open_low=True)
    return n * eps * _check.real(owner, "polynomial", polynomial, low=0.0, open_low=True)


def uniform_convergence(size: Any, dimension: Any, lipschitz: Any, diameter: Any, failure: Any) -> float:
    """How far excess risk per record on a sample can lie below that of its distribution: (6.3) with its constants.

    With probability at least 1 - failure over n independent records, for every theta of C at once,

        excess population risk <= excess empirical risk/n + L |C| (sqrt(2 (p log(1 + sqrt(2n)) + log(1/failure))/n) + 2/sqrt(n)).

    ``l(theta; d) - l(theta*; d)`` lies in [-L |C|, L |C|], so Hoeffding bounds each theta, theta* that of the population; C lies in a
    ball of radius |C|/sqrt 2 (Jung), so (1 + sqrt(2n))^p points cover it to within |C|/sqrt(n), which costs at most 2 L |C|/sqrt(n).

    Parameters
    ----------
    size, dimension : int
        n and p, at least 1.
    lipschitz, diameter : float
        L and |C|, > 0; the set is bounded. Convexity is not used.
    failure : float
        In (0, 1).

    References
    ----------
    SSSS09 states the order sqrt(p log(n) log(p/failure)/n); the constants are those of the lines above.

    Examples
    --------
    >>> from solvers.risk.facts import uniform_convergence
    >>> round(uniform_convergence(10**6, 10, 1.0, 2.0, 0.05), 4)
    0.0286
    """
    owner = "uniform_convergence"
    n, p = float(_check.count(owner, "size", size)), float(_check.count(owner, "dimension", dimension))
    reach = _check.real(owner, "lipschitz", lipschitz, low=0.0, open_low=True)
    reach *= _check.real(owner, "diameter", diameter, low=0.0, open_low=True)
    beta = _check.real(owner, "failure", failure, low=0.0, high=1.0, open_low=True, open_high=True)
    spread = math.sqrt(2.0 * (p * math.log1p(math.sqrt(2.0 * n)) - math.log(beta)) / n)
    return reach * (spread + 2.0 / math.sqrt(n))


def population_excess(empirical: Any, size: Any, dimension: Any, lipschitz: Any, diameter: Any, failure: Any) -> float:
    """Bound on the excess population risk per record (6.2), from the excess of the summed loss on the sample, by `uniform_convergence`.

    Examples
    --------
    >>> from solvers.risk.facts import population_excess
    >>> round(population_excess(5000.0, 10**6, 10, 1.0, 2.0, 0.05), 4)
    0.0336
    """
    excess = _check.real("population_excess", "empirical", empirical, low=0.0)
    return excess / _check.count("population_excess", "size", size) + uniform_convergence(size, dimension, lipschitz, diameter, failure)
