"""The steps of a composition, each with nodes of its own: moments under a tilt, and what rounding does to them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import SUM, ULP, log1m_exp, log_total
from dpaccount._quadrature import Nodes
from dpaccount._strip import Rounding
from dpaccount.engines.vouch import CannotVouch, Overflow
from dpaccount.pair import Step, log_error

Array = npt.NDArray[np.float64]


class Part(NamedTuple):
    """The losses of a step in (lower, upper], so many times."""

    step: Step
    times: int
    lower: float = -np.inf
    upper: float = np.inf


@dataclass
class Term:
    """One part: its count, normalised nodes with a weight, and the log of its mass."""

    part: Part
    loss: Array
    log_weight: Array
    log_mass: float
    error: float
    atoms: int
    state_rounding: Rounding | None
    ends_only: bool

    def __post_init__(self) -> None:
        self.count = self.part.times
        self.weight = np.exp(self.log_weight)
        self.mean = float(self.weight @ self.loss)
        moved = self.loss - self.mean
        self.moments = np.stack([self.weight, self.weight * moved, self.weight * moved * moved])
        self.variance = float(self.moments[2].sum())

    def tilted(self, c: float) -> Array:
        """The masses under the tilt, normalised."""
        found = self.weight * np.exp(c * self.loss - max(0.0, float((c * self.loss).max())))
        return np.asarray(found / found.sum())

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """K(c) - K(0), K'(c), K''(c) of one such step."""
        with np.errstate(over="ignore", invalid="ignore"):
            total, shift, square = (self.moments @ np.expm1(c * self.loss)).tolist()
        if not square < 1e280:
            raise Overflow("the tilt overflows")
        mass = 1.0 + total
        if not mass > 0.0:
            raise CannotVouch("the tilt leaves no mass")
        shift /= mass
        return math.log1p(total), self.mean + shift, max((self.variance + square) / mass - shift * shift, 0.0)

    def log_mgf(self, c: float) -> float:
        """K(c) - K(0) of one such step, summed as `log_mgf_error` expects."""
        with np.errstate(over="ignore", invalid="ignore"):
            moved = float((self.weight * np.expm1(c * self.loss)).sum())
        if not -1.0 < moved < 1e280:
            raise Overflow("the tilt leaves no mass, or overflows")
        return math.log1p(moved)

    def log_mgf_error(self, c: float) -> float:
        """Absolute error of `log_mgf` beside that of the nodes: a bound where they are proved, else an estimate."""
        with np.errstate(over="ignore"):
            growth = np.expm1(c * self.loss)
        if not growth.max() < 1e280:
            raise Overflow("the tilt overflows")
        if self.rounding is None:
            return (16 * ULP + self.error) * min(float(self.weight @ np.abs(growth)), 4.0)
        off, part = self.rounding
        mass = 1.0 + float(self.weight @ growth)
        common = float(self.weight @ part)  # the masses are divided by their own sum
        moved = float(self.weight @ ((part + common + 2 * SUM + 8 * ULP) * np.abs(growth)))
        moved += abs(c) * float(self.weight @ ((off + ULP * np.abs(self.loss)) * (1.0 + growth)))
        return moved / mass + 4 * ULP * abs(math.log(mass))

    @cached_property
    def rounding(self) -> tuple[Array, Array] | None:
        """What the losses may be off by absolutely and the masses relatively; None if the nodes are not proved."""
        return None if self.state_rounding is None else self.state_rounding()

    def phase_errors(self, tilted: Array, c: float) -> tuple[float, float]:
        """(root mean square of the relative errors of the tilted masses and of a sum over them, mean error of the loss)."""
        assert self.rounding is not None
        off, part = self.rounding
        largest = max(0.0, float((c * self.loss).max()))
        relative = part + abs(c) * (off + ULP * np.abs(self.loss)) + 2 * SUM + (10 + largest) * ULP
        return math.sqrt(float(tilted @ (relative * relative))), float(tilted @ (off + 2 * ULP * np.abs(self.loss)))


class JumpTerm(Term):
    """A part far from 0, of few steps: sums are scaled by their largest summand, so that no tilt overflows."""

    def _scaled(self, c: float) -> tuple[Array, float]:
        power = self.log_weight + c * self.loss
        top = float(power.max())
        return np.exp(power - top), top

    def tilted(self, c: float) -> Array:
        found, _ = self._scaled(c)
        return np.asarray(found / found.sum())

    def cumulants(self, c: float) -> tuple[float, float, float]:
        moved, top = self._scaled(c)
        mass = float(moved.sum())
        mean = float(moved @ self.loss) / mass
        return top + math.log(mass), mean, float(moved @ (self.loss - mean) ** 2) / mass

    def log_mgf(self, c: float) -> float:
        moved, top = self._scaled(c)
        return top + math.log(float(moved.sum()))

    def log_mgf_error(self, c: float) -> float:
        moved, top = self._scaled(c)
        if self.rounding is None:
            return 16 * ULP * (4.0 + abs(top)) + self.error
        off, part = self.rounding
        relative = part + float(self.weight @ part) + abs(c) * (off + ULP * np.abs(self.loss))
        return float(moved @ relative) / float(moved.sum()) + 2 * SUM + (12 + 2 * abs(top)) * ULP


def _mass_below(step: Step, cut: float) -> tuple[float, float]:
    """log P[L <= cut, L < inf] and its absolute error: from the thinner of the two tails, which is known relatively."""
    above, below, error = step.facts.log_p_only, 0.0, 2 * ULP
    if cut < np.inf:
        tails = step.tails(np.array(cut))
        above, below, error = float(tails.p_above), float(tails.p_below), tails.error
    if above > -0.7 and cut < np.inf:
        return below, float(log_error(below, error))
    if above == -np.inf:
        return 0.0, 0.0
    below = float(log1m_exp(above))
    return below, float(log_error(above, error)) * math.exp(min(above - below, 700.0)) + ULP * abs(below)


def log_mass(part: Part, nodes: Nodes) -> tuple[float, float]:
    """log P[lower < L <= upper, L < inf] and its absolute error."""
    if part.lower == -np.inf:
        return _mass_below(part.step, part.upper)
    total = log_total(nodes.log_p)
    weight = np.exp(nodes.log_p - total)
    relative = 16 * ULP if nodes.rounding is None else float(weight @ nodes.rounding()[1])
    return total, nodes.error + relative + 2 * SUM + 4 * ULP * abs(total)
