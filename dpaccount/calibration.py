"""Calibration: the parameter at the edge of a budget, on its feasible side."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dpaccount import _check
from dpaccount._search import HIGHEST, LOWEST, USUAL, Search, UnreachableTarget
from dpaccount._targets import target_of
from dpaccount.adjacency import Adjacency, parse
from dpaccount.results import Calibration

__all__ = ["UnreachableTarget", "calibrate", "refuse_if_spent"]


def calibrate(
    family: Callable[[Any], Any],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    false_positive_rate: float | None = None,
    false_negative_rate: float | None = None,
    advantage: float | None = None,
    adjacency: str | Adjacency = Adjacency.ADD_OR_REMOVE,
    integer: bool = False,
    bracket: tuple[float, float] | None = None,
    method: str = "auto",
) -> Calibration:
    """The least noise (or most steps, largest sampling probability, ...) whose *upper* bound meets a target.

    Parameters
    ----------
    family : callable
        One number to a guarantee, or to anything with ``.delta(epsilon=...)`` and ``.epsilon(delta=...)`` (for error rates with
        ``.trade_off(false_positive_rate)``), as a `Bounds` or a number, which is taken as it is.
        It must be monotone; which way is found by probing. Values it refuses by ValueError bound the search.
    epsilon, delta : float, together
        The target delta(epsilon) <= delta; epsilon >= 0, delta in [0, 1].
    false_positive_rate, false_negative_rate : float, together
        The target f(false_positive_rate) >= false_negative_rate: no attack is better than this point.
    advantage : float
        The target total variation <= advantage, in [0, 1].
    adjacency, method
        As in `PrivacyProfile`; ignored if the family returns an object of its own.
    integer : bool
        Search whole numbers (steps, batch sizes).
    bracket : (float, float), optional
        The search range, 0 <= low < high; default every positive number the family takes.

    Returns
    -------
    Calibration
        `value` is feasible; unless its status says otherwise the boundary lies between it and
        `infeasible`, at a relative distance below 1e-9, or what the bracket of the curve leaves open (or the next whole number).

    Raises
    ------
    UnreachableTarget
        If no value in the range meets the target.

    Guarantee
    ---------
    The upper bound of the calibrated quantity at `value` was evaluated and meets the target.

    Examples
    --------
    >>> from dpaccount import Gaussian, PoissonSampled, calibrate
    >>> found = calibrate(lambda s: 1000 * PoissonSampled(Gaussian(s), 0.01), epsilon=2.0, delta=1e-5)
    >>> round(float(found), 6), found.achieved.upper <= 2.0
    (0.959102, True)
    """
    if not callable(family):
        _check.refuse("calibrate", "family", "a callable of one number", family, "Pass e.g. lambda s: 10 * Gaussian(s).", TypeError)
    integer = _check.flag("calibrate", "integer", integer)
    target = target_of(epsilon, delta, false_positive_rate, false_negative_rate, advantage)
    low, high = _range(bracket, integer)
    if bracket is None and target.trivial:  # whatever holds everywhere needs no look at the smallest numbers
        low = max(low, USUAL)
    search = Search(family, target, parse("calibrate", adjacency), method, integer, low, high)
    return search.run(bracket is None)


def refuse_if_spent(before: Any, left: str = "", **target: Any) -> None:
    """Raise `UnreachableTarget` if the profile of what came before misses a target by itself; `left` says what that means."""
    names = ("epsilon", "delta", "false_positive_rate", "false_negative_rate", "advantage")
    aim = target_of(*(target.get(name) for name in names))
    aim.excess.whole = True
    if aim.excess(before)[0] <= 0.0:
        return
    found = aim.achieved(before)
    if aim.missed(found):
        raise UnreachableTarget(
            f"`calibrate` found no value that meets {aim.text}: what came before spends {float(found):.6g} on its own{left}."
        )


def _range(bracket: tuple[float, float] | None, integer: bool) -> tuple[float, float]:
    if bracket is None:
        return (1.0 if integer else LOWEST), HIGHEST
    ends = _check.reals("calibrate", "bracket", bracket, low=0.0)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        _check.refuse("calibrate", "bracket", "a pair (low, high) with 0 <= low < high", bracket)
    low, high = float(ends[0]), float(ends[1])
    if not integer:
        return low, high
    if max(1.0, math.ceil(low)) > high:
        _check.refuse("calibrate", "bracket", "a pair with a whole number >= 1 between its ends, as integer=True asks", bracket)
    return max(1.0, math.ceil(low)), math.floor(high)
