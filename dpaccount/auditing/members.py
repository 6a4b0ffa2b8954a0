"""One run inside any family of mechanisms: which member the guesses reject, by its trade-off function or by its losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from dpaccount import _check
from dpaccount.auditing.family import Family
from dpaccount.auditing.ranked import released_p_value
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.pair import Step

Array = npt.NDArray[np.float64]
Excess = Callable[[float], float]  # positive where the member with this parameter is rejected
TANGENTS, DEEP = 128, 1e-12  # of a trade-off function; the last one is where delta is so small
EDGE, MOST = 1e-8, 30.0  # of the logarithm of the parameter


class Tangents(NamedTuple):
    """A two-sided trade-off function from below: f(x) >= 1 - delta - e^eps x and f(x) >= e^-eps (1 - delta - x) at every eps >= 0.

    delta is the upper end at each of many eps, so that the largest of the lines is never above f (DRS19, Proposition 6).
    """

    epsilon: Array
    delta: Array

    def inverse_of_rest(self, x: float) -> float:
        """f(1 - x) from below, which is the inverse of 1 - f at x since f is its own inverse."""
        first = 1.0 - self.delta - np.exp(self.epsilon) * (1.0 - x)
        second = np.exp(-self.epsilon) * (x - self.delta)
        return max(float(first.max()), float(second.max()), 0.0)


def tangents(profile: PrivacyProfile) -> Tangents:
    """Lines at evenly spaced eps from 0 to where delta has vanished."""
    deepest = float(profile.epsilon(delta=DEEP).upper)
    epsilon = np.linspace(0.0, deepest if math.isfinite(deepest) else 50.0, TANGENTS)
    return Tangents(epsilon, np.asarray(profile.delta(epsilon=epsilon).upper, dtype=float))


def wrong_share(owner: str, pair: Any) -> Callable[[Array], Array]:
    """P[wrong] among the most telling share of canaries, as a function of the share; ties of the loss are broken by chance.

    With P and Q of a canary in and out, each at one half, |L| tells most, and the guess is its sign: of the canaries with |L| > s
    ``(P[L < -s] + Q[L > s])/(P[|L| > s] + Q[|L| > s])`` are guessed wrong.
    """
    if not isinstance(pair, Step):
        hint = "The law of a canary's loss is needed."
        _check.refuse(owner, "family", "a function to single steps where method='order'", pair, hint, TypeError)

    def released(s: Array) -> tuple[Array, Array]:
        up, down = pair.tails(s), pair.tails(-s)
        wrong = np.exp(down.p_below) + np.exp(up.q_above)
        return (wrong + np.exp(up.p_above) + np.exp(down.q_below)) / 2.0, wrong / 2.0

    largest = max(abs(pair.facts.min_loss), abs(pair.facts.max_loss))

    def wrong(share: Array) -> Array:
        low, high = np.full_like(share, -1e-9), np.full_like(share, min(largest * (1.0 + 1e-9) + 1e-9, 1e4))
        for _ in range(60):
            middle = (low + high) / 2
            over = released(middle)[0] > share
            low, high = np.where(over, middle, low), np.where(over, high, middle)
        (more, wrong_more), (less, wrong_less) = released(low), released(high)  # an atom lies between, or nothing
        step = more - less
        part = np.where(step > 0.0, np.clip((share - less) / np.where(step > 0.0, step, 1.0), 0.0, 1.0), 0.0)
        return (wrong_less + part * (wrong_more - wrong_less)) / share

    return wrong


def ranked_excess(owner: str, family: Family, m: int, r: int, errors: int, alpha: float) -> Excess:
    """Positive where so few errors among the r most telling canaries reject a member: alpha less their p-value."""

    def excess(value: float) -> float:
        wrong = wrong_share(owner, family.make(value).under(family.adjacency)[0])  # type: ignore[attr-defined]
        return alpha - released_p_value(m, r, errors, lambda share: 1.0 - wrong(share))

    return excess


def rejected_epsilon(owner: str, family: Family, excess: Excess, delta: float) -> tuple[float, float | None]:
    """(epsilon, parameter) of the member that leaks most among those that are rejected; 0 and None if none is."""
    first, second = (float(family.profile(value).advantage().estimate) for value in (1.0, 2.0))
    if first == second:
        hint = "Its parameter must be a noise or a privacy level."
        _check.refuse(owner, "family", "a function whose leak at 1 and at 2 differs", first, hint)
    more = math.log(0.5 if first > second else 2.0)  # a step of the parameter's logarithm that leaks more

    def at(log_value: float) -> float:
        return excess(math.exp(log_value))

    inside = outside = 0.0
    if at(0.0) > 0.0:
        while at(outside := inside + more) > 0.0:
            inside = outside
            if abs(inside) > MOST:
                return math.inf, math.exp(inside)
    else:
        while at(inside := outside - more) <= 0.0:
            outside = inside
            if abs(outside) > MOST:
                return 0.0, None
    edge = float(brentq(at, inside, outside, xtol=EDGE))
    step = math.copysign(EDGE, -more)
    while at(edge) <= 0.0 and abs(edge - outside) < abs(inside - outside):
        edge, step = edge + step, 2.0 * step
    value = math.exp(edge if at(edge) > 0.0 else inside)
    return max(float(family.profile(value).epsilon(delta=delta).lower), 0.0), value
