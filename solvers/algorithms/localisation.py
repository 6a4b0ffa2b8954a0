"""Localisation: phases on disjoint rows, each starting where the one before ended, with half its step and half its noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount.adjacency import Adjacency
from dpaccount.mechanisms.gaussian import Gaussian
from solvers.algorithms.gradient_descent import default_rate
from solvers.arguments import clip_of, noise_or_budget, positive, required_size, setting, start_of
from solvers.budget import gaussian_steps_noise
from solvers.gate import Gate
from solvers.problem import Problem
from solvers.progress import steps as counted
from solvers.release import Release

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
OWNER = "localisation"
MOST_PHASES = 40


def localisation(
    problem: Problem,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    noise_multiplier: float | None = None,
    phases: int = 3,
    steps: int = 20,
    rows: Any = None,
    learning_rate: float | None = None,
    clipping_norm: float | None = None,
    start: Any = None,
    public_size: int | None = None,
    adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE,
    random: Any = None,
    progress: bool | None = None,
    reveal_unprotected: bool = False,
) -> Release:
    """Phase i = 1 .. k: T steps ``theta <- Proj_C(theta - eta 2^(1-i) (clipped gradients of its rows + N(0, (sigma L)^2 I)))``, averaged.

    Every row serves one phase, so that the phases compose in parallel. For stochastic convex optimisation: later phases see fresh rows, and
    start near the minimum. The step of sums halves while phases halve in size, so on means it falls by four, as in FKT20.

    Parameters
    ----------
    problem : Problem
        Its ridge is shared among the phases as their expected sizes are.
    epsilon, delta : float, together
        The budget, epsilon > 0 and delta in (0, 1).
    noise_multiplier : float, instead of the budget
        sigma >= 0, of every step of every phase, over the clipping norm.
    phases : int
        k in [1, 40]. Each record joins phase i with probability 2^-i, drawn by itself; the last phase takes the rest.
    steps : int
        T >= 1 in every phase.
    rows : sequence of k index arrays, optional
        The rows of each phase, instead of drawing them; disjoint, which is checked. Under replace-one alone: places shift where a
        record joins, or where an absent one is left out.
    learning_rate : float
        eta > 0 of the first phase. Default Theorem 6.11's for its size; it needs a bounded set.
    clipping_norm : float
        L > 0. Default `problem.lipschitz`.
    start : array
        In C. Default the point of C nearest to 0.
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
        `value` is the mean iterate of the last phase.

    Guarantee
    ---------
    ``T Gaussian(sigma)``: the largest of the phases, all of which cost that. Proof. Fix the phase of every record. The phases before a
    record's own have one law for both data sets; its own is T Gaussian mechanisms, each told what came before: ``sqrt(T)/sigma``-GDP
    (DRS19, Corollary 3.3); those after it are computed from what was released and from other rows, which is post-processing. So much is
    parallel composition. Phases are drawn by each record for itself, without a look at it, so neighbours share their law; hockey-stick
    divergences are jointly convex, and a mixture over the phases is no worse than the worst of them, published or not.

    References
    ----------
    Parallel composition: McSherry (2009), Theorem 4. Joint convexity as in the proof of ADC20's Theorem 5. Algorithm: Feldman, Koren,
    Talwar (2020), Section 4, with noisy gradient descent inside a phase; Theorem 6.11 of the chapter for the first step.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.algorithms import localisation
    >>> from solvers.losses import Logistic
    >>> from solvers.problem import Problem
    >>> from solvers.sets import L2Ball
    >>> x = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> problem = Problem(x, np.sign(x[:, 0]), Logistic(), L2Ball(5.0))
    >>> release = localisation(problem, epsilon=1.0, delta=1e-5, public_size=200)
    >>> release.value.shape, round(float(release.epsilon(delta=1e-5)), 6)
    ((1,), 1.0)
    """
    run = setting(OWNER, problem, adjacency, random, reveal_unprotected, progress)
    relation, gate, feasible, size = run.relation, run.gate, problem.constraint, problem.dimension
    count = _check.count(OWNER, "phases", phases, maximum=MOST_PHASES)
    total = _check.count(OWNER, "steps", steps)
    sigma = _noise(relation, total, epsilon, delta, noise_multiplier)
    clip = clip_of(OWNER, problem, clipping_norm)
    rate = _rate(problem, relation, total, sigma, clip, learning_rate, public_size, count)
    theta = start_of(OWNER, problem, start)
    parts = _drawn(gate, problem.num_records, count) if rows is None else _given(problem, relation, rows, count)
    for t in counted(OWNER, count * total, run.progress):
        i, within = divmod(t, total)
        if within == 0:
            mean = np.zeros(size)
        gradient = problem.data_gradient(theta, clip, parts[i])
        noisy = gate.gaussian(gradient, sensitivity=problem.sensitivity(clip), noise_multiplier=sigma)
        theta = feasible.project(theta - rate * 0.5**i * (noisy + _share(i, count) * problem.ridge * theta))
        mean += theta / total
        if within == total - 1:
            theta = feasible.project(mean)
    shown = {"phases": count, "steps": total, "noise_multiplier": sigma, "learning_rate": rate, "clipping_norm": clip}
    unprotected = {"objective": problem.objective(theta)} if run.reveal else None
    return Release(theta, total * Gaussian(sigma), relation, {**shown, "secure_noise": gate.secure}, unprotected)


def _share(phase: int, count: int) -> float:
    """The share of records that phase 0 .. count - 1 expects."""
    return 0.5 ** min(phase + 1, count - 1)


def _noise(relation: Adjacency, total: int, epsilon: Any, delta: Any, noise_multiplier: Any) -> float:
    given, aim = noise_or_budget(OWNER, relation, epsilon, delta, noise_multiplier)
    found = given if aim is None else gaussian_steps_noise(aim, total)
    assert found is not None
    return found


def _rate(
    problem: Problem, relation: Adjacency, total: int, sigma: float, clip: float, learning_rate: Any, public_size: Any, count: int
) -> float:
    if learning_rate is not None:
        return positive(OWNER, "learning_rate", learning_rate, high=1e100)
    size = required_size(OWNER, problem, relation, public_size, "learning_rate")
    return default_rate(problem, total, sigma, 1.0, clip, size * _share(0, count))


def _drawn(gate: Gate, size: int, count: int) -> list[Places]:
    """A phase for every record by itself: i with probability 2^-i, the last with what is left; disjoint by construction."""
    place = count - 1 - np.frexp(gate.source.integers(1 << (count - 1), size).astype(np.float64))[1]  # leading zeros of count - 1 bits
    return [np.flatnonzero(place == i) for i in range(count)]


def _given(problem: Problem, relation: Adjacency, rows: Any, count: int) -> list[Places]:
    """The caller's phases, if no row is in two of them."""
    if relation is not Adjacency.REPLACE_ONE:
        hint = "A record that joins, or is absent, shifts the places of others; leave them to be drawn."
        _check.refuse(OWNER, "rows", "given under replace-one", str(relation), hint)
    parts = [np.asarray(part) for part in _check.instance(OWNER, "rows", rows, (list, tuple), f"a list of {count} arrays of row numbers")]
    if len(parts) != count or any(part.ndim != 1 or (part.size and part.dtype.kind not in "iu") for part in parts):
        _check.refuse(OWNER, "rows", f"{count} arrays of row numbers", [part.shape for part in parts])
    every = np.concatenate([part.astype(np.int64) for part in parts])
    if every.size and (every.min() < 0 or every.max() >= problem.num_records):
        _check.refuse(OWNER, "rows", f"row numbers in [0, {problem.num_records})", int(every.min() if every.min() < 0 else every.max()))
    places, uses = np.unique(every, return_counts=True)
    if (uses > 1).any():
        hint = "Phases compose in parallel only on disjoint rows."
        _check.refuse(OWNER, "rows", "disjoint", f"row {int(places[uses > 1][0])} twice", hint)
    return [part.astype(np.int64) for part in parts]
