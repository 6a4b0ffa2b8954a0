"""What several optimisers ask of their arguments, each said once, and asked before anything is drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from dpaccount import _check
from dpaccount.adjacency import Adjacency
from solvers.budget import Budget, budget, relation_of
from solvers.gate import Gate, gate_of
from solvers.problem import Problem

Array = npt.NDArray[np.float64]
PRIVATE_SIZE = "The number of rows is private under add-or-remove and zero-out"


@final
@dataclass(frozen=True)
class Setting:
    """What every optimiser is told besides its own numbers."""

    relation: Adjacency
    gate: Gate
    progress: bool | None
    reveal: bool


def setting(owner: str, problem: Any, adjacency: Any, random: Any, reveal_unprotected: Any, progress: Any = None) -> Setting:
    """The arguments that all optimisers share, checked."""
    _check.instance(owner, "problem", problem, Problem, "a Problem", "See `solvers.problem`.")
    shown = None if progress is None else _check.flag(owner, "progress", progress)
    revealed = _check.flag(owner, "reveal_unprotected", reveal_unprotected)
    return Setting(relation_of(owner, adjacency), gate_of(owner, random), shown, revealed)


def noise_or_budget(
    owner: str, relation: Adjacency, epsilon: Any, delta: Any, noise: Any, *, name: str = "noise_multiplier", pure: bool = False,
    **limits: Any,
) -> tuple[float | None, Budget | None]:
    """The noise as it is given, >= 0 unless `limits` say otherwise, or the budget: one of the two, never both."""
    if (noise is not None) == (epsilon is not None or delta is not None):
        domain = f"given, or {name} instead of it" if pure else f"given with delta, or {name} instead of both"
        _check.refuse(owner, "epsilon", domain, epsilon, kind=TypeError)
    if noise is None:
        return None, budget(owner, epsilon, delta, relation, pure=pure)
    return _check.real(owner, name, noise, **{"low": 0.0, **limits}), None


def positive(owner: str, name: str, value: Any, **limits: Any) -> float:
    """A number above 0."""
    return _check.real(owner, name, value, low=0.0, open_low=True, **limits)


def clip_of(owner: str, problem: Problem, clipping_norm: Any) -> float:
    """The clipping norm as it is given, or the loss's own bound, at which clipping does nothing."""
    if clipping_norm is not None:
        return positive(owner, "clipping_norm", clipping_norm)
    if math.isinf(problem.lipschitz):
        hint = "This loss is Lipschitz on a bounded set alone, or states no bound of its gradients."
        _check.refuse(owner, "clipping_norm", "given for a loss without a Lipschitz bound", None, hint)
    return problem.lipschitz


def start_of(owner: str, problem: Problem, start: Any) -> Array:
    """The first iterate, as it is given or the point of the set nearest to 0."""
    feasible, size = problem.constraint, problem.dimension
    return feasible.start(size) if start is None else feasible.checked(owner, "start", start, size)


def diameter_of(owner: str, problem: Problem, name: str) -> float:
    """The set's diameter, of which the default of the argument `name` is a share."""
    if math.isinf(problem.diameter):
        hint = "The default is a share of the diameter of a bounded set, such as L2Ball(10.0)."
        _check.refuse(owner, name, "given where the set is unbounded", None, hint)
    return problem.diameter


def known_size(owner: str, problem: Problem, relation: Adjacency, public_size: Any) -> float | None:
    """n as it may be used for nothing: as it is stated, or that of the rows under replace-one, where neighbours share it; otherwise None.

    Under zero-out n is public, absent records counted, and they are not among the rows: only the caller can state it.
    """
    if public_size is not None:
        return float(_check.count(owner, "public_size", public_size))
    return float(problem.num_records) if relation is Adjacency.REPLACE_ONE else None


def required_size(owner: str, problem: Problem, relation: Adjacency, public_size: Any, name: str) -> float:
    """The same where the default of the argument `name` needs it, and nothing pays for a count."""
    size = known_size(owner, problem, relation, public_size)
    if size is None:
        hint = f"{PRIVATE_SIZE}; the default {name} needs it."
        _check.refuse(owner, "public_size", f"given where {name} is not", None, hint, TypeError)
    return size
