"""What a calibration aims at: how far a guarantee misses the target, and what it achieves."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from scipy.special import ndtri

from dpaccount import _check
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.curves.trade_off import TradeOffFunction
from dpaccount.engines.line.saddle import Hint
from dpaccount.results import Bounds, Status

NOTHING = -1e9  # the excess where delta is 0: below that of every delta that is not


class Excess(ABC):
    """How far a guarantee misses a target (<= 0 meets it), with the width of its own bracket.

    Unless `whole`, a value above 0 is proof, and one at or below 0 may have looked at the leading direction alone.
    """

    whole = True
    steep = 1.0  # by about how much it falls when noise grows by a factor e

    @abstractmethod
    def __call__(self, profile: Any) -> tuple[float, float]: ...


@dataclass(frozen=True)
class Target:
    """What must hold: `excess` <= 0, with `achieved` for the report, which `missed` judges."""

    text: str
    excess: Excess
    achieved: Callable[[Any], Bounds]
    trivial: bool
    missed: Callable[[Bounds], bool]
    needs: tuple[str, ...] = ("delta", "epsilon")  # what an object that is no guarantee must have


def target_of(
    epsilon: float | None, delta: float | None, alpha: float | None, beta: float | None, advantage: float | None
) -> Target:
    """The one target that is given."""
    given = [epsilon is not None or delta is not None, alpha is not None or beta is not None, advantage is not None]
    if sum(given) != 1:
        _check.refuse(
            "calibrate", "epsilon", "one target: epsilon with delta, or false_positive_rate with false_negative_rate, or advantage",
            [epsilon, delta, alpha, beta, advantage], kind=TypeError,
        )
    if given[0]:
        return _privacy_target(epsilon, delta)
    if given[1]:
        return _error_target(alpha, beta)
    a = _one("advantage", advantage, "", high=1.0)
    excess = _Gap(0.0, math.log(a) if a else -math.inf)
    return Target(
        f"advantage <= {a:g}", excess, lambda p: _bounds(p.delta(epsilon=0.0)), a >= 1.0, lambda found: bool(found.upper > a), ("delta",)
    )


def _one(name: str, value: Any, hint: str, **limits: float) -> float:
    """The one number >= 0 of a target; for a list the comprehension is shown."""
    if isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) != 0:
        _check.refuse(
            "calibrate", name, "a single number", value,
            f"A call has one target; for several write [run.calibrate({name}=x, ...) for x in {name}s].", TypeError,
        )
    return _check.real("calibrate", name, value, low=0.0, hint=hint, **limits)


def _privacy_target(epsilon: float | None, delta: float | None) -> Target:
    e = _one("epsilon", epsilon, "Give epsilon and delta together.")
    d = _one("delta", delta, "Give epsilon and delta together.", high=1.0)
    excess = _Gap(e, math.log(d) if d else -math.inf)

    def achieved(profile: Any) -> Bounds:
        if isinstance(profile, PrivacyProfile):
            profile._evaluator.look_at(excess.hint, e)
        return _bounds(profile.epsilon(delta=d))

    return Target(f"epsilon <= {e:g} at delta = {d:g}", excess, achieved, d >= 1.0, lambda b: bool(b.upper > e))


def _error_target(alpha: float | None, beta: float | None) -> Target:
    a = _one("false_positive_rate", alpha, "Give false_positive_rate and false_negative_rate.", high=1.0)
    b = _one("false_negative_rate", beta, "Give false_positive_rate and false_negative_rate.", high=1.0)
    if a + b > 1.0:
        _check.refuse(
            "calibrate", "false_negative_rate", f"at most 1 - false_positive_rate = {1 - a:g}", b,
            "No mechanism does better than guessing.",
        )
    return Target(
        f"false negative rate >= {b:g} at false positive rate {a:g}",
        _Shortfall(a, b), lambda p: _bounds(p.trade_off(a), "lower"), b == 0.0, lambda found: bool(found.lower < b), ("trade_off",),
    )


def _bounds(value: Any, safe: Literal["upper", "lower"] = "upper") -> Bounds:
    """What an object of one's own answers, a number perhaps, which is taken as it is."""
    if isinstance(value, Bounds):
        return value
    number = float(value)
    return Bounds(number, number, number, False, "the family's own", safe=safe)


class _Gap(Excess):
    """log of the upper delta less the goal; a contour starts where the last one lay."""

    def __init__(self, epsilon: float, goal: float) -> None:
        self.epsilon, self.goal, self.whole = epsilon, goal, False
        self.hint: Hint | None = None
        self.lead: int | None = None
        self.steep = 1.0 if epsilon == 0.0 else 2.0 * max(-goal, 1.0)  # of a Gaussian's tail

    def __call__(self, profile: Any) -> tuple[float, float]:
        if isinstance(profile, PrivacyProfile):
            if self.goal == -math.inf:
                return self._of_largest_loss(float(profile.epsilon(delta=0.0))), 0.0
            evaluator = profile._evaluator
            evaluator.look_at(self.hint)
            found = evaluator.log_delta(self.epsilon, self.goal, None if self.whole else self.lead)
            self.hint = evaluator.hint
            self.lead = self.lead if evaluator.lead is None else evaluator.lead
            value, width = found.upper, found.upper - found.lower if found.upper > -math.inf else 0.0
            if not found.lower <= self.goal <= found.upper:  # no sharper than to say so: the estimate tells how far off
                value = found.estimate
        else:
            delta = float(profile.delta(epsilon=self.epsilon))
            value, width = math.log(delta) if delta > 0 else -math.inf, 1e-9
        if self.goal == -math.inf:
            return (-1.0 if value == -math.inf else 1.0), 0.0
        if self.epsilon == 0.0 and -1e-3 > self.goal > -30.0 and value > -math.inf:
            far = _log_mu(value) - _log_mu(self.goal)  # nearly linear in log noise; the sign is that of delta itself
            return (min(far, 0.0) if value <= self.goal else max(far, 1e-300)), width
        return (value - self.goal if value > -math.inf else NOTHING), width

    def _of_largest_loss(self, loss: float) -> float:
        """delta = 0 speaks of the largest loss alone: log of it less log epsilon, above 0 wherever epsilon = 0 is missed."""
        if loss == 0.0 or loss == math.inf:
            return -1e3 if loss == 0.0 else math.inf
        return math.log(loss) - math.log(self.epsilon) if self.epsilon else math.log(loss) + 750.0


def _log_mu(log_advantage: float) -> float:
    """log of the mu of the Gaussian with that total variation, 2 Phi(mu/2) - 1."""
    return math.log(max(-2.0 * float(ndtri(max(-math.expm1(log_advantage), 0.0) / 2)), 1e-300)) if log_advantage < 0.0 else 5.0


class _Shortfall(Excess):
    """How far f(alpha) lies below beta; the tangent point found for one value is the first guess for the next."""

    def __init__(self, alpha: float, beta: float) -> None:
        self.alpha, self.beta = alpha, beta
        self.hint = math.nan

    def __call__(self, profile: Any) -> tuple[float, float]:
        function = profile.trade_off()
        if isinstance(function, TradeOffFunction):
            function.hint = self.hint
            found = function(self.alpha)
            if found.status is Status.WIDE and math.isfinite(self.hint):  # led astray
                function.hint = math.nan
                again = function(self.alpha)
                found = again if again.lower > found.lower else found
            self.hint = math.nan if found.status is Status.WIDE else function.hint
        else:
            found = _bounds(profile.trade_off(self.alpha), "lower")
        if not (0.0 < self.alpha < 1.0 and 0.0 < self.beta < 1.0 - self.alpha):
            return self.beta - float(found.lower), float(found.width)
        far = self._as_gaussian(float(found.lower))
        # the sign is that of f itself: quantiles are rounded
        return (min(far, 0.0) if float(found.lower) >= self.beta else max(far, 1e-300)), far - self._as_gaussian(float(found.upper))

    def _as_gaussian(self, value: float) -> float:
        """log of the mu of the Gaussian that has the value at alpha, less that of the target: nearly linear in log noise."""
        goal, here = (max(float(ndtri(1.0 - self.alpha) - ndtri(v)), 1e-12) for v in (self.beta, max(value, 1e-300)))
        return math.log(here) - math.log(goal)
