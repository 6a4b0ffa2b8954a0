"""Adjacency: which two data sets count as neighbours.

==============  ===================================================================
add-or-remove   one record is added or removed; two directions, each composed alone
replace-one     one record is exchanged for another; sizes are public
zero-out        one record is replaced by one that contributes nothing
as-written      no relation: the ordered pair (P, Q) exactly as the expression stands
==============  ===================================================================
"""

from __future__ import annotations

from enum import StrEnum
from typing import NoReturn

from dpaccount import _check


class Adjacency(StrEnum):
    """A relation on data sets. The strings themselves are accepted everywhere."""

    ADD_OR_REMOVE = "add-or-remove"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"
    AS_WRITTEN = "as-written"


_NAMED = {str(relation): relation for relation in Adjacency}


class UnsupportedAdjacency(ValueError):
    """A mechanism has no known dominating pair under the relation asked for."""


def parse(owner: str, value: object) -> Adjacency:
    """Return the `Adjacency` that `value` names, or refuse in the one message shape."""
    if isinstance(value, Adjacency):
        return value
    if type(value) is str and value in _NAMED:
        return _NAMED[value]
    return Adjacency(
        _check.choice(
            owner,
            "adjacency",
            value,
            list(Adjacency),
            "Adjacency changes the numbers, so it is never guessed.",
        )
    )


def unsupported(mechanism: str, adjacency: Adjacency, reason: str) -> NoReturn:
    """Raise `UnsupportedAdjacency` with the mechanism, the relation and the reason."""
    raise UnsupportedAdjacency(f"`{mechanism}` has no accounting under {adjacency.value!r} adjacency: {reason}")
