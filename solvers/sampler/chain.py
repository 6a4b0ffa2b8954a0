"""The alternating sampler (LST21; GLL22, Algorithm 1), and what a sampler's user wants to see of it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from solvers.progress import steps as counted
from solvers.random import RandomSource
from solvers.sampler.inner import KINDS, Tally
from solvers.sampler.plan import Plan
from solvers.sampler.stock import Stock
from solvers.sampler.target import Target

Array = npt.NDArray[np.float64]
TIMED = 0.1  # seconds
KEPT = 400  # states of every chain that `Draws.trace` holds


class Draws(NamedTuple):
    """Independent draws, one a chain, and the chains' traces. All but `points` depends on the data without protection."""

    points: Array  # (chains, d)
    trace: Array  # (kept, chains, d): states at even distances over the second half of the run
    spacing: int  # steps between them
    tally: Tally

    def diagnostics(self) -> Mapping[str, Any]:
        """Effective sample size and R-hat by coordinate, acceptance rate, queries a draw, how often an estimate left its range."""
        tally = self.tally
        found = {
            "effective_sample_size": effective_sample_size(self.trace), "r_hat": r_hat(self.trace),
            "acceptance_rate": tally.kept / tally.proposals,
            "outside_range": tally.outside_range / tally.proposals, "queries_per_draw": tally.queries / len(self.points),
        }
        return MappingProxyType(found)


def sample(
    target: Target, plan: Plan, *, chains: int = 1, source: RandomSource | None = None, progress: bool | None = None
) -> Draws:
    """`chains` independent draws, each by `plan.steps` steps from 0, vectorised over chains.

    Parameters
    ----------
    target : Target
    plan : Plan
        Of `planned` for this target.
    chains : int
        >= 1.
    source : RandomSource, optional
        Default the operating system's generator.
    progress : bool, optional
        A bar with an estimate of the time left: by default on a terminal alone.

    Guarantee
    ---------
    Each point has a law within ``plan.total_variation`` of the target's.

    References
    ----------
    LST21; GLL22, Algorithms 1 and 2.

    Examples
    --------
    >>> import numpy as np
    >>> from solvers.losses import Quantile
    >>> from solvers.problem import Problem
    >>> from solvers.sampler import Target, planned, sample
    >>> from solvers.sets import L2Ball
    >>> problem = Problem([[1.0], [1.0], [1.0]], [0.2, 0.4, 0.9], Quantile(), L2Ball(1.0))
    >>> target = Target(problem, inverse_temperature=4.0, regularization=1.0)
    >>> sample(target, planned(target, 1e-3), chains=5, progress=False).points.shape
    (5, 1)
    """
    owner = "sample"
    _check.instance(owner, "target", target, Target, "a Target")
    _check.instance(owner, "plan", plan, Plan, "a Plan")
    many = _check.count(owner, "chains", chains)
    stock = Stock(RandomSource() if source is None else source)
    inner = KINDS[plan.inner](target, plan, stock)
    x, spread = np.zeros((many, target.dimension)), math.sqrt(plan.step_size)
    first = plan.steps // 2
    spacing = max(1, math.ceil((plan.steps - first) / KEPT))
    kept = []
    for t in counted("sample", plan.steps, progress):
        x = inner.step(x + spread * stock.gaussian(x.shape))
        if t >= first and (t - first) % spacing == 0:
            kept.append(x)
    return Draws(x, np.array(kept), spacing, inner.tally)


def expected_seconds(target: Target, plan: Plan) -> float:
    """How long one draw will take, from a tenth of a second of its first steps on this machine; it depends on the data as all times do."""
    owner = "expected_seconds"
    _check.instance(owner, "target", target, Target, "a Target")
    _check.instance(owner, "plan", plan, Plan, "a Plan")
    steps, source = 5, RandomSource()
    while True:
        begin = time.perf_counter()
        sample(target, replace(plan, steps=min(steps, plan.steps)), source=source, progress=False)
        taken = time.perf_counter() - begin
        if taken > TIMED or steps >= plan.steps:
            return taken * plan.steps / min(steps, plan.steps)
        steps *= 4


def r_hat(trace: Array) -> Array:
    """Split-R-hat of every coordinate (Gelman and Rubin 1992, with halves): sqrt of pooled over within variance; near 1 if mixed."""
    half = len(trace) // 2
    if half < 2:
        return np.full(trace.shape[2], math.nan)
    parts = np.concatenate([trace[:half], trace[half : 2 * half]], axis=1)
    within = parts.var(axis=0, ddof=1).mean(axis=0)
    between = half * parts.mean(axis=0).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(((half - 1) / half * within + between / half) / within))


def effective_sample_size(trace: Array) -> Array:
    """States of all chains over the autocorrelation time of each coordinate, its sum cut by Geyer's initial positive sequence."""
    length, chains, _ = trace.shape
    if length < 4:
        return np.full(trace.shape[2], math.nan)
    centred = trace - trace.mean(axis=0)
    size = 1 << (2 * length - 1).bit_length()
    spectrum = np.fft.rfft(centred, size, axis=0)
    covariance = np.fft.irfft(spectrum * spectrum.conj(), size, axis=0)[:length].mean(axis=1) / length
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = covariance / covariance[0]
    pairs = rho[0 : length // 2 * 2 : 2] + rho[1 : length // 2 * 2 : 2]
    positive = np.cumprod(pairs > 0.0, axis=0).astype(bool)
    time = 2.0 * np.where(positive, pairs, 0.0).sum(axis=0) - 1.0
    return np.asarray(length * chains / np.maximum(time, 1.0))
