"""K of one step at many tilts at once: its derivatives, to guide, and K itself from above with every error, to prove."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import log_kappa
from dpaccount._quadrature import TooManyNodes
from dpaccount.engines.line.axis import Axis, below
from dpaccount.engines.line.terms import SAFE
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import Step

Array = npt.NDArray[np.float64]
BLOCK = 12  # tilts that share nodes: each block's nodes reach as far as its last tilt needs


class Tilts(NamedTuple):
    """At every tilt c > 0, ascending: K, K' and K'' without errors; K from above; log kappa."""

    c: Array
    cumulants: Array
    above: Array
    kappa: Array
    axes: list[Axis]

    def axis(self, c: float) -> Axis:
        """Nodes that serve a tilt."""
        return next(axis for axis in self.axes if axis.high >= c)

    def beyond(self, j: int) -> Tilts:
        """The tilts after the j-th."""
        return Tilts(self.c[j + 1 :], self.cumulants[:, j + 1 :], self.above[j + 1 :], self.kappa[j + 1 :], self.axes)

    def chernoff(self, counts: Array, epsilon: Array) -> Array:
        """log of Chernoff's bound on delta of every multiple, at an epsilon each, by every tilt; with its rounding."""
        bound = np.multiply.outer(counts, self.above) - np.multiply.outer(epsilon, self.c) + self.kappa
        return np.asarray(bound + 1e-9 * (1.0 + np.abs(bound)) + np.multiply.outer(1e-15 * (1.0 + epsilon), self.c))


def spread_of(step: Step) -> float:
    """The standard deviation of the loss of one step, as a guide; raises `CannotVouch`."""
    variance = Axis(below(step, np.inf), 0.0, 0.0, 0.0).cumulants(0.0)[2]
    if not variance > 0.0:
        raise CannotVouch("the loss is constant")
    return math.sqrt(variance)


def tabulate(step: Step, low: float, high: float, ratio: float, enough: float) -> Tilts:
    """Tilts from `low` to `high` by a ratio, as far as nodes can be had, until K - c K' has fallen to `enough`.

    For a step that has all of its mass at finite losses, and every atom among its nodes.
    """
    assert step.log_p_only == step.log_left_out == -np.inf
    tilts = low * ratio ** np.arange(math.ceil(math.log(high / low) / math.log(ratio)) + 1.0)
    found: list[tuple[Array, Array, Array]] = []
    axes: list[Axis] = []
    start, size = 0, BLOCK
    while start < tilts.size and size:
        part = tilts[start : start + size]
        axis = _axis(step, float(part[-1]))
        if axis is None:
            size //= 2
            continue
        axes.append(axis)
        found.append((part, *axis.tabulated(part)))
        start += size
        k, mean, _ = found[-1][1][:, -1]
        if k - part[-1] * mean < enough:
            break
    if not found:
        raise CannotVouch("no tilts")
    c = np.concatenate([part for part, _, _ in found])
    cumulants = np.concatenate([k for _, k, _ in found], axis=1)
    above = np.concatenate([k for _, _, k in found])
    return Tilts(c, cumulants, above, np.array([log_kappa(d) for d in c.tolist()]), axes)


def _axis(step: Step, high: float) -> Axis | None:
    """Proved nodes for tilts up to `high`, whose exponentials are safe; None where they cannot be had."""
    density = step.density()
    if density is not None and not density.pieces:  # nodes go as far as the window at least
        end = min(max(density.window(0.0, high)[1], density.support[0]), density.support[1])
        if high * float(density.evaluate(np.array([end]))[0][0]) > SAFE:
            return None
    try:
        axis = Axis(below(step, np.inf), 0.0, high, 0.0)
    except (CannotVouch, TooManyNodes):
        return None
    one = not axis.many and len(axis.terms) == 1 and axis.proved
    return axis if one and high * axis.terms[0].most <= SAFE else None
