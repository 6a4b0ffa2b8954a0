"""Factorisations by name, for a number of steps and a participation."""

from __future__ import annotations

from collections.abc import Callable

from dpaccount import _check
from solvers.factorisations.base import Factorisation, Participation
from solvers.factorisations.dense import Optimised
from solvers.factorisations.fitted import BandedToeplitz, Buffered
from solvers.factorisations.toeplitz import Independent, SquareRoot
from solvers.factorisations.trees import BinaryTree

NAMED: dict[str, Callable[[int, Participation], Factorisation]] = {
    "independent": lambda steps, part: Independent(steps),
    "tree": lambda steps, part: BinaryTree(steps),
    "honaker": lambda steps, part: BinaryTree(steps, "online"),
    "square-root": lambda steps, part: SquareRoot(steps),
    "banded": lambda steps, part: BandedToeplitz(steps, _bands(steps, part)),
    "buffered": lambda steps, part: Buffered(steps, 3, part),
    "optimised": lambda steps, part: Optimised(steps, None if part.count == 1 else _bands(steps, part)),
}


def _bands(steps: int, participation: Participation) -> int:
    """As many as keep participations orthogonal; all of them where there is one."""
    return steps if participation.count == 1 else min(participation.separation, steps)


def named(
    name: str, steps: int, participation: Participation | None = None, *, owner: str = "named", parameter: str = "name"
) -> Factorisation:
    """The factorisation of that name, fitted to a participation; refusals speak of `owner` and `parameter`.

    Examples
    --------
    >>> from solvers.factorisations import Participation, named
    >>> named("banded", 40, Participation(count=2, separation=20))
    BandedToeplitz(steps=40, bands=20, loss='rms')
    """
    return NAMED[_check.choice(owner, parameter, name, tuple(NAMED))](steps, participation or Participation())
