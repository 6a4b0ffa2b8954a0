"""How long the alternating sampler runs, with which step, so that its total variation is at most what was asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

from dpaccount import _check
from solvers.sampler.estimators import (
    largest_poisson_tau,
    largest_reference_tau,
    largest_series_tau,
    poisson_error,
    reference_error,
    series_error,
)
from solvers.sampler.target import Target

INNER = ("exact", "differences", "values", "series", "poisson")
TANGENTS = ("exact", "differences")
RULES = ("sharp", "rigorous")
RATE, CAP = 8.0, 32.0  # of the Poisson estimate: few steps, many proposals at once
REFERENCES, RATIO = 8, 32.0  # of the inner step by values of F: few steps, at close to the least number of values
ROUNDS = 60
SETTINGS: dict[str, Any] = {"series": {}, "poisson": {"rate": RATE, "cap": CAP}, "values": {"cap": RATIO, "references": REFERENCES}}


@final
@dataclass(frozen=True)
class Plan:
    """The alternating sampler on a `Target`: T times ``y = x + sqrt(eta) Z``, then x from ``exp(-H - m|x|^2/2 - |x-y|^2/(2 eta))``.

    Guarantee
    ---------
    From x = 0 the law after T steps is within `total_variation` of the target's:

    - **chain**: an exact step contracts the Wasserstein distance by ``1 + eta m``, for the step's law is ``(m + 1/eta)``-strongly
      log-concave and y moves its exponent by a ``|y - y'|/eta``-Lipschitz function. ``TV(N(a, eta), N(b, eta))`` is at most
      ``|a - b|/sqrt(2 pi eta)``. So ``(|x*| + sqrt(d/m))/(sqrt(2 pi eta) (1 + eta m)^{T-1})``.
    - **inner**: every step is off by at most the bounds of `solvers.sampler.estimators`, whatever y is; their sum.
      0 for ``exact`` and ``differences``.

    Rounding is not counted.
    """

    inner: str
    step_size: float
    steps: int
    chain_error: float
    inner_error: float
    rate: float = 0.0
    cap: float = 2.0
    references: int = 0

    @property
    def total_variation(self) -> float:
        """The bound, chain and inner steps together."""
        return self.chain_error + self.inner_error

    def last_scale(self, target: Target) -> float:
        """The deviation of the Gaussian that the last inner step draws from, ``(m + 1/eta)^{-1/2}``."""
        return 1.0 / math.sqrt(target.curvature + 1.0 / self.step_size)

    @property
    def queries(self) -> float:
        """Values expected, if proposals fall inside the set: of one loss, or of F for ``values``; nan where that depends on the losses."""
        if self.inner in TANGENTS:
            return math.nan
        if self.inner == "values":
            return (self.references + self.cap) * self.steps
        each = 4.0 * math.e if self.inner == "series" else 2.0 * self.rate * self.cap
        return each * self.steps


def planned(target: Target, total_variation: Any, *, inner: str = "exact", rule: str = "sharp") -> Plan:
    """The shortest plan of its kind within a total variation.

    Parameters
    ----------
    target : Target
    total_variation : float
        t in (0, 1).
    inner : {"exact", "differences", "values", "series", "poisson"}
        ``exact`` needs gradients, and is off by nothing: rejection under the tangent of H (LC22's idea, around any point).
        ``differences`` is the same from values of F alone, for smooth losses on bounded sets: what a difference quotient is off by
        is covered. ``values`` takes every loss, kinked ones too: values of F at points drawn from the proposal, against each other.
        ``series`` is the paper's estimate from values of single losses (GLL22, Algorithm 2), ``poisson`` another one of the same
        kind that takes fewer, costlier steps.
    rule : {"sharp", "rigorous"}
        ``sharp`` takes the largest step whose computed error fits; ``rigorous`` the paper's ``eta <= 2^-8 G^-2/log(T/t)``, for
        ``series`` (the error stated is the computed one either way).
    """
    owner = "planned"
    t = _check.real(owner, "total_variation", total_variation, low=0.0, high=1.0, open_low=True, open_high=True)
    _check.choice(owner, "inner", inner, INNER)
    _check.choice(owner, "rule", rule, RULES)
    if rule == "rigorous" and inner != "series":
        _check.refuse(owner, "rule", "'sharp' but for inner='series'", rule, "The paper's constants are those of its Algorithm 2.")
    if inner == "differences":
        _differentiable(target)
    if inner in TANGENTS:
        step = _exact_step(target)
        return Plan(inner, step, *_chain(target, step, t), 0.0)
    return _by_values(target, t, inner, rule)


def _differentiable(target: Target) -> None:
    """Difference quotients are known to within something only where gradients have a Lipschitz constant, and tangents reach so far."""
    hint = "inner='values' takes every loss on every set."
    if math.isinf(target.smoothness):
        _check.refuse("planned", "target", "of a smooth loss for inner='differences'", target.problem, hint)
    if math.isinf(target.constraint.radius(target.dimension)):
        _check.refuse("planned", "target", "on a bounded set for inner='differences'", target.constraint, hint)


def _exact_step(target: Target) -> float:
    """Acceptance is at least ``(1 + eta beta)^{-d/2}`` at the proximal point, and ``E e^{-2 G |x - x^|}``: about 1/e or 1/e^2."""
    d, smooth, rough = target.dimension, target.smoothness, target.lipschitz**2
    return max(2.0 / (d * smooth) if math.isfinite(smooth) and smooth > 0.0 else 0.0, 1.0 / (d * rough))


def _chain(target: Target, step: float, error: float) -> tuple[int, float]:
    """Steps that bring the chain's own error below `error`, and that error."""
    m = target.curvature
    start = (target.distance + math.sqrt(target.dimension / m)) / math.sqrt(2.0 * math.pi * step)
    per = math.log1p(step * m)
    steps = 1 + max(0, math.ceil(math.log(start / error * (1.0 + 1e-8)) / per))
    return steps, max(start * math.exp(-per * (steps - 1)) * (1.0 + 1e-9), min(error, 1e-300))  # never 0 because it underflows


def _by_values(target: Target, t: float, inner: str, rule: str) -> Plan:
    error = t / 2.0 / 1e6
    for _ in range(ROUNDS):
        step = _step(target, error, inner, rule, t)
        steps, chain = _chain(target, step, t / 2.0)
        each = _error_of(inner, _tau(target, step, inner))
        if steps * each <= t / 2.0:
            return Plan(inner, step, steps, chain, steps * each, **SETTINGS[inner])
        error = t / 2.0 / (steps * 1.02) if rule == "sharp" else error / 2.0
    _check.refuse("planned", "total_variation", "larger: no step is small enough in double precision", t)


def _error_of(inner: str, tau: float) -> float:
    """What one inner step is off by."""
    if inner == "values":
        return reference_error(tau, REFERENCES, RATIO)
    return series_error(tau) if inner == "series" else poisson_error(tau, RATE, CAP)


def _largest_tau(inner: str, error: float) -> float:
    if inner == "values":
        return largest_reference_tau(error, REFERENCES, RATIO)
    return largest_series_tau(error) if inner == "series" else largest_poisson_tau(error, RATE, CAP)


def _points(inner: str) -> float:
    """tau^2 over G^2 v: a difference of two points moves with both, a value with one."""
    return 1.0 if inner == "values" else 2.0


def _tau(target: Target, step: float, inner: str) -> float:
    """G sqrt(v), or G sqrt(2 v), of the proposal, v = 1/(m + 1/eta)."""
    return target.lipschitz * math.sqrt(_points(inner) / (target.curvature + 1.0 / step))


def _step(target: Target, error: float, inner: str, rule: str, t: float) -> float:
    """eta from tau, or by the paper's rule, whose logarithm `error` = t/(2T) stands for."""
    if rule == "rigorous":
        return 2.0**-8 / (target.lipschitz**2 * math.log(1.0 / (2.0 * error)))
    tau = _largest_tau(inner, error)
    if tau == 0.0:
        _check.refuse("planned", "total_variation", "larger: the estimates cannot be that exact", t)
    inverse = _points(inner) * target.lipschitz**2 / tau**2 - target.curvature
    return min(1.0 / inverse, 1.0 / target.curvature) if inverse > 0.0 else 1.0 / target.curvature
