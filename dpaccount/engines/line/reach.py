"""How far a line has to go: where the bound on the rest of the integral has become small enough.

Atoms have no density: they are taken as if all in phase, which the bound above does by itself. For a loss of range R,
however, |phi| falls up to s = pi/R, since |phi|^2 is 1 - 2 E sin^2(u (L - L')/2) over two copies of the loss: what
holds from there on is the larger of |phi(s)| and the layers' bound at pi/R.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dpaccount._quadrature import Density
from dpaccount.engines.decay import SAFE, Decay
from dpaccount.engines.line.alias import AIM
from dpaccount.engines.line.axis import Axis, Parts, Plan
from dpaccount.engines.line.sketch import Sketch
from dpaccount.engines.line.terms import Term
from dpaccount.engines.vouch import CannotVouch

Array = npt.NDArray[np.float64]
_REACHES = np.geomspace(5.0, 600.0, 36)
_PLACES = np.geomspace(6.0, 600.0, 10)  # where a line is planned
_STRIDE = 6
BEYOND = 1.02  # nodes serve a little farther than a line is expected to go
DEEPER = 2.5  # a little farther than it must, so that what is left out is small beside rounding
_FEW = np.arange(_STRIDE - 1, _REACHES.size, _STRIDE)


def proved_reach(axis: Axis, c: float, spread: float, needed: float) -> tuple[float, float] | None:
    """(S, bound of the integral beyond it relative to e^{F(c)} c (c+1)), with the bound below e^-needed; None if S is too far.

    beta(S)/(pi S), beta the product of the steps' bounds, as |z (z+1)| >= s^2 on the line.
    """
    bounds: list[tuple[int, Callable[[Array], Array]]] = []
    for t in axis.terms:
        density = t.part.step.density()
        if density is not None and not density.provable:
            return None
        if t.part.lower == -np.inf:  # jumps are few: their modulus is at most 1
            bounds.append((t.count, modulus_from(t, density, c, axis)))

    def log_rest(s: Array) -> Array:
        total = -np.log(np.pi * s)
        for count, bound in bounds:
            total += count * bound(s)
        for m in axis.many:
            total += m.log_decay(c, s)
        return total

    if axis.plan is not None:
        rest = float(log_rest(np.array([axis.plan.reach]))[0])
        if rest <= -needed:
            return axis.plan.reach, math.exp(rest)
    if axis.many:  # whose bounds take long to set up
        return _fallen(log_rest, _REACHES / spread, needed)
    return _first(log_rest, spread, needed)


def _fallen(log_rest: Callable[[Array], Array], s: Array, needed: float) -> tuple[float, float] | None:
    """The first s where the bound is below e^-needed, with the bound."""
    total = log_rest(s)
    enough = np.flatnonzero(total <= -needed)
    return (float(s[enough[0]]), math.exp(total[enough[0]])) if enough.size else None


def _first(log_rest: Callable[[Array], Array], spread: float, needed: float) -> tuple[float, float] | None:
    """The same among all places, by looking at few of them at first."""
    found = _fallen(log_rest, _REACHES[_FEW] / spread, needed)
    if found is None:
        return None
    last = int(np.searchsorted(_REACHES, found[0] * spread * (1.0 - 1e-9)))
    return _fallen(log_rest, _REACHES[last - _STRIDE + 1 : last] / spread, needed) or found


def planned(parts: Parts, c: float, spread: float, sketch: Sketch) -> tuple[float, Plan | None]:
    """The rate that a line through c will need of its nodes, as far as a sketch can tell, and the plan that says so, if there is one."""
    if parts.families:  # whose nodes take long to be made anew
        return 1.1 * sketch.rate(c, spread), None
    decays = []
    for part, log_mgf in zip(parts.single, sketch.log_mgfs(c), strict=True):
        density, facts = part.step.density(), part.step.facts
        if density is None or not density.provable or (math.isfinite(facts.min_loss) and math.isfinite(min(facts.max_loss, part.upper))):
            return sketch.rate(c, spread), None
        decays.append(Decay(density, c, log_mgf, part.upper))
    bend = spread * spread + c**-2 + (c + 1) ** -2
    needed = AIM + DEEPER + math.log(c * (c + 1)) + 0.5 * math.log(2 * math.pi * bend)

    s = _PLACES / spread
    rest = -np.log(np.pi * s) + sum(part.times * decay.log_bound(s) for part, decay in zip(parts.single, decays, strict=True))
    enough = np.flatnonzero(rest <= -needed)
    if not enough.size:
        return sketch.rate(c, spread), None
    last = int(enough[0])
    reach = float(s[last])
    if last > 0:  # where a Gaussian falls so far
        (low, high), goal = np.sqrt(np.maximum(-rest[last - 1 : last + 1], 0.0)).tolist(), math.sqrt(needed)
        reach = float(s[last - 1]) + BEYOND * (goal - low) / (high - low) * (reach - float(s[last - 1]))
    return BEYOND * reach, Plan(reach, tuple(decays))


def modulus_from(t: Term, density: Density | None, c: float, axis: Axis) -> Callable[[Array], Array]:
    """s -> log of a bound on |phi(u)| of one step for all u >= s."""
    low, high = t.part.step.facts.min_loss, min(t.part.step.facts.max_loss, t.part.upper)
    # atoms do not decay: their modulus is at most 1
    later = None if density is None else _decay(t, density, c, axis)
    if not (math.isfinite(low) and math.isfinite(high)):
        return later or (lambda s: np.zeros(s.shape))
    bounded = math.pi / (1.0001 * (high - low)) if low < high else math.inf

    def bound(s: Array) -> Array:
        near = s < bounded
        found = np.zeros(s.shape) if later is None else later(np.maximum(s, bounded) if bounded < math.inf else s)
        known = near & (s <= axis.rate)
        if known.any():
            found[known] = np.maximum(found[known], log_modulus(axis, t, c, s[known]))
        found[near & ~known] = 0.0
        return found

    return bound


def _decay(t: Term, density: Density, c: float, axis: Axis) -> Callable[[Array], Array]:
    """The layers' bound, from layers that were made before the axis if there are such."""
    log_mgf, upper = t.cumulants(c)[0] + t.log_mass, t.part.upper
    made = () if axis.plan is None else axis.plan.decays
    found = next((one for one in made if one.serves(density, c, upper) and abs(one.log_mgf - log_mgf) < 1.0), None)
    found = found or Decay(density, c, log_mgf, upper)
    return lambda s: found.log_bound(s, log_mgf)


def log_modulus(axis: Axis, t: Term, c: float, s: Array) -> Array:
    """log of |phi| of one step at every s <= axis.rate, with its error on top, and 0 where that is all."""
    tilted = t.tilted(c)
    half = np.sin(np.multiply.outer(s / 2, t.loss))
    real, imag = -2 * (half * half) @ tilted, np.sin(np.multiply.outer(s, t.loss)) @ tilted
    wave = np.sqrt(-2 * np.minimum(real, 0.0))
    error = t.phase_errors(tilted, c).bound(s, wave, np.abs(real) + np.abs(imag)) + 2 * axis.node_error(t, c)
    error += (1.2e-16 * t.loss.size) * wave  # a matrix product adds in any order
    lost = -(2 * real + real * real + imag * imag) * (1.0 - SAFE) - 4 * error
    return np.asarray(0.5 * np.log1p(-np.clip(lost, 0.0, 1.0 - 1e-15)))


def _in_phase(axis: Axis, c: float, s: Array) -> Array:
    """log |phi|, with the atoms of the loss taken as if all in phase: they return again and again, densities do not."""
    total = np.zeros(s.shape)
    for t in axis.terms:
        tilted = t.tilted(c)
        smooth = np.exp(1j * np.multiply.outer(s, t.loss[t.atoms :])) @ tilted[t.atoms :]
        with np.errstate(divide="ignore"):
            total += t.count * np.log(np.minimum(np.abs(smooth) + float(tilted[: t.atoms].sum()), 1.0))
    for m in axis.many:
        total += m.log_modulus(c, s)
    return total


def guessed_reach(axis: Axis, c: float, spread: float) -> tuple[Axis, float]:
    """Where on the line the integrand has fallen below e^-AIM of its start, looking past it for a return."""
    start = math.sqrt(2 * AIM) / spread
    base = math.log(abs(c * (c + 1)))
    for widen in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
        points = start * widen * _PROBES
        if axis.rate < points[-1]:
            axis = Axis(axis.parts, min(c, 0.0), max(c, 0.0), float(points[-1]))
        fall = _in_phase(axis, c, points) - np.log(np.abs((c + 1j * points) * (c + 1 + 1j * points))) + base
        fallen = fall < -AIM
        for i in range(points.size - 2):
            if fallen[i:].all():
                return axis, float(points[i])
    raise CannotVouch("the characteristic function does not decay: too few samples, or atoms")


_PROBES = np.array([0.75, 0.85, 0.95, 1.1, 1.3, 1.55, 1.8, 2.1])
