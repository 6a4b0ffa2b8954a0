"""DP-FTRL: follow the regularised leader on prefix sums of batch gradients, with correlated noise; no sampling is relied on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount.adjacency import Adjacency
from dpaccount.mechanisms.gaussian import Gaussian
from solvers.arguments import clip_of, diameter_of, noise_or_budget, positive, required_size, setting, start_of
from solvers.budget import least_gaussian
from solvers.factorisations import Factorisation, Participation, SquareRoot, named
from solvers.problem import Problem
from solvers.progress import steps as counted
from solvers.release import Release

Array = npt.NDArray[np.float64]
OWNER = "ftrl"
OUTPUTS = ("last", "average")


def ftrl(
    problem: Problem,
    *,
    batches: int,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    epochs: int = 1,
    factorisation: Factorisation | str | None = None,
    learning_rate: float | None = None,
    clipping_norm: float | None = None,
    start: Any = None,
    output: str = "last",
    public_size: int | None = None,
    adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE,
    random: Any = None,
    progress: bool | None = None,
    reveal_unprotected: bool = False,
) -> Release:
    """``theta_{t+1} = Proj_C(theta_0 - eta (g_1 + .. + g_t + noise_t))``, g_t the sum of clipped gradients of batch t, noise = B Z.

    Parameters
    ----------
    problem : Problem
        Its ridge is spread evenly over the steps.
    batches : int
        b >= 1 a pass, public. Each record joins one of them, drawn uniformly by itself, and keeps it in every pass.
    epsilon, delta : float, together
        The budget, epsilon > 0 and delta in (0, 1).
    noise_multiplier : float, instead of the budget
        Noise over the sensitivity of C G, >= 0.
    epochs : int
        k >= 1 passes: a record takes part k times, b steps apart.
    factorisation : Factorisation or str
        Of k b steps, or the name of one (`solvers.factorisations.named`): "independent", "tree", "honaker", "square-root", "banded",
        "buffered", "optimised"; the last three are fitted to k passes. Default the square root of the prefix sums, or with several passes
        the better of it and the same cut to b bands.
    learning_rate : float
        eta > 0. Default ``|C|/(L sqrt(T m (m + sigma rms sqrt p)))`` with m = n/b and rms the factorisation's loss; it needs a bounded set.
    clipping_norm : float
        L > 0. Default `problem.lipschitz`.
    start : array
        theta_0 in C. Default the point of C nearest to 0.
    output : {"last", "average"}
        theta_T, or the mean of all; both are covered.
    public_size : int
        n for the default step. Under replace-one the true one is public; under add-or-remove and zero-out it must be given, or the step.
    adjacency : {"add-or-remove", "replace-one", "zero-out"}
    random : RandomSource, optional
        Default the operating system's generator.
    progress : bool, optional
        A bar on standard error: by default on a terminal alone.
    reveal_unprotected : bool
        Adds the final objective to `Release.unprotected`. It is not private.

    Returns
    -------
    Release
        `value` is theta; every noisy prefix sum is covered as well.

    Guarantee
    ---------
    ``Gaussian(noise_multiplier)``, once for the whole run: the noise is that many times the sensitivity of C G for records that take part
    k times, b steps apart (see `Participation`). No amplification by sampling or shuffling is claimed. Gradients may depend on
    earlier outputs: Gaussian noise makes that free (Denisov and others 2022, Theorem 2.1).

    References
    ----------
    Kairouz and others (2021), KMSTTX21; Denisov and others (2022); Choquette-Choo and others (2023).

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.algorithms import ftrl
    >>> from solvers.losses import Logistic
    >>> from solvers.problem import Problem
    >>> from solvers.sets import L2Ball
    >>> x = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> problem = Problem(x, np.sign(x[:, 0]), Logistic(), L2Ball(5.0))
    >>> release = ftrl(problem, batches=20, epsilon=1.0, delta=1e-5, public_size=200)
    >>> release.value.shape, round(float(release.epsilon(delta=1e-5)), 6)
    ((1,), 1.0)
    """
    run = setting(OWNER, problem, adjacency, random, reveal_unprotected, progress)
    gate, size, feasible = run.gate, problem.dimension, problem.constraint
    total, participation = _steps(batches, epochs)
    given, aim = noise_or_budget(OWNER, run.relation, epsilon, delta, noise_multiplier)
    sigma = given if aim is None else least_gaussian(aim.epsilon, aim.delta, aim.adjacency)
    assert sigma is not None
    made = _factorisation(total, participation, factorisation)
    clip = clip_of(OWNER, problem, clipping_norm)
    rate = _rate(problem, run.relation, made, participation, sigma, clip, learning_rate, public_size)
    _check.choice(OWNER, "output", output, OUTPUTS)
    origin = start_of(OWNER, problem, start)

    joins = gate.source.integers(participation.separation, problem.num_records)
    sums = gate.prefix_sums(made, participation, size, sensitivity=problem.sensitivity(clip), noise_multiplier=sigma)
    theta, leaning, mean = origin, np.zeros(size), np.zeros(size)
    for t in counted(OWNER, total, run.progress):
        leaning = leaning + problem.ridge * theta / participation.separation
        noisy = sums.release(problem.data_gradient(theta, clip, joins == t % participation.separation))
        theta = feasible.project(origin - rate * (noisy + leaning))
        mean += theta / total
    value = theta if output == "last" else feasible.project(mean)
    shown = {"steps": total, "batches": participation.separation, "epochs": participation.count, "noise_multiplier": sigma}
    more = {"learning_rate": rate, "clipping_norm": clip, "factorisation": made, "output": output, "secure_noise": gate.secure}
    unprotected = {"objective": problem.objective(value)} if run.reveal else None
    return Release(value, Gaussian(sigma), run.relation, {**shown, **more}, unprotected)


def _steps(batches: Any, epochs: Any) -> tuple[int, Participation]:
    b, k = _check.count(OWNER, "batches", batches), _check.count(OWNER, "epochs", epochs)
    return b * k, Participation(k, b)


def _factorisation(total: int, participation: Participation, given: Any) -> Factorisation:
    if given is None:
        whole = SquareRoot(total)
        if participation.count == 1:
            return whole
        banded = SquareRoot(total, participation.separation)
        return min(whole, banded, key=lambda f: f.rms_loss(participation))
    if isinstance(given, str):
        return named(given, total, participation, owner=OWNER, parameter="factorisation")
    found: Factorisation = _check.instance(OWNER, "factorisation", given, Factorisation, "one of solvers.factorisations, or its name")
    if found.steps != total:
        _check.refuse(OWNER, "factorisation", f"of batches * epochs = {total} steps", found.steps)
    return found


def _rate(
    problem: Problem, relation: Adjacency, made: Factorisation, participation: Participation, sigma: float, clip: float,
    learning_rate: Any, public_size: Any,
) -> float:
    if learning_rate is not None:
        return positive(OWNER, "learning_rate", learning_rate, high=1e100)
    diameter = diameter_of(OWNER, problem, "learning_rate")
    batch = required_size(OWNER, problem, relation, public_size, "learning_rate") / participation.separation
    spread = sigma * made.rms_loss(participation) * math.sqrt(problem.dimension)
    return diameter / (clip * math.sqrt(made.steps * batch * (batch + spread)))
