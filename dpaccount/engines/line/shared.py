"""One line for many counts of one step: K_t = t K_1, so that log phi along a line of T steps, times t/T, is that of t steps.

Every error that the line of T bounds follows: rounding and nodes are proportional to t, the bound on truncation is a power, and
aliasing is bounded by t K_1(d) anew, at the best of many tilts d.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP, log_geometric
from dpaccount.engines.line.axis import Axis, below
from dpaccount.engines.line.contour import ENOUGH, MAX_LINE, Readings
from dpaccount.engines.line.reach import modulus_from
from dpaccount.engines.line.terms import MANY
from dpaccount.engines.line.tilts import Tilts
from dpaccount.engines.line.waves import log_phi_along
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import Step

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Served = npt.NDArray[np.bool_]
ORDER = 7  # of the polynomial that answers beside an epsilon
REACHES = np.geomspace(4.0, 700.0, 10)  # in units of 1/spread
BETWEEN = 5  # places looked at between two of them
USUAL = 40.0  # the same: how far most lines go


class Line(NamedTuple):
    """A proved line through c > 0 for so many steps, without a cut: what its errors need."""

    times: float
    c: float
    s: Array
    step: float
    log_phi: npt.NDArray[np.complex128]
    phase_error: Array
    k: float
    k_error: float
    log_decay: float  # of one step from the last node on
    far: Tilts  # beyond c
    lengths: Array  # |z (z+1)|
    kernel: tuple[Array, Array]  # Re and Im of z^k/(z (z+1)) and 1/(z+1), times lengths and step/pi, the first of each halved
    powers: Array  # |z|^k step/pi

    @property
    def period(self) -> float:
        """What aliases are apart."""
        return 2 * math.pi / self.step


def periods(table: Tilts, which: Indices, counts: Array, epsilon: Array, goal: float) -> Array:
    """What keeps every alias of lines through some tilts below e^goal; infinite if no tilt beyond bounds it."""
    c = table.c[which]
    apart = table.c - c[:, None]
    with np.errstate(divide="ignore"):
        needed = np.where(apart > 0.0, 1.0 / apart, np.inf)[:, None, :] * np.maximum(table.chernoff(counts, epsilon) - goal, 1e-3)
    return np.asarray(np.maximum(needed.min(axis=2).max(axis=1), -goal / c))


def draw(step: Step, table: Tilts, j: int, counts: Array, epsilon: Array, target: float, aim: float) -> tuple[Line, Served]:
    """The line through the j-th tilt for the largest of some counts, and which of them it goes far enough for.

    Errors are kept below e^-aim of e^target, as far as the line can go: `Waves` says what they are.
    """
    c = float(table.c[j])
    spacing = 2 * math.pi / float(periods(table, np.array([j]), counts, epsilon, target - aim)[0])
    k, _, bend = table.cumulants[:, j]
    spread = math.sqrt(float(counts.min()) * float(bend))
    count = max(int(counts.max()), MANY)  # sums are then exact
    bottom = -1.0 if below(step, np.inf).whole else 0.0  # see `Term.log_mgf`
    parts = below(count * step, np.inf)
    facts = step.facts
    ranged = math.isfinite(facts.min_loss) and math.isfinite(facts.max_loss)  # such a bound asks for nodes
    axis = Axis(parts, bottom, c, USUAL / spread) if ranged else table.axis(c)
    density = step.density()
    if density is None or not density.provable or not axis.proved or not spacing > 0.0:
        raise CannotVouch("no bound on what lies beyond the line")
    above = counts * k - c * epsilon - target + aim
    far, log_decay, served = _reach(modulus_from(axis.terms[0], density, c, axis), counts, above, spread, MAX_LINE * spacing)
    nodes = math.ceil(far / spacing)
    fine = axis.terms[0].count == count and nodes * spacing <= axis.rate
    if not (fine and all(axis.node_error(t, c) <= ENOUGH for t in axis.terms)):
        axis = Axis(parts, bottom, c, 1.01 * nodes * spacing)
    if not axis.proved:
        raise CannotVouch("the nodes are not proved")
    along = spacing * np.arange(nodes + 1.0)
    log_phi, slip = log_phi_along(axis, c, along)
    line = Line(
        float(count), c, along, spacing, log_phi, slip, axis.log_mgf(c), axis.rounding(c), log_decay,
        table.beyond(j), *_kernel(c, along, spacing),
    )
    return line, served


def _reach(
    log_decay: Callable[[Array], Array], counts: Array, above: Array, spread: float, most: float
) -> tuple[float, float, Served]:
    """How far a line goes until truncation is small enough, log of the modulus of one step from there on, and the counts for which it is.

    Truncation is small enough where t log_decay(s) - log(pi s) <= -above; a count that asks for more than `most` is not served.
    """

    def fallen(s: Array) -> tuple[Served, Array]:
        decay = log_decay(s)
        return np.asarray(np.multiply.outer(counts, decay) - np.log(np.pi * s) + above[:, None] <= 0.0), decay

    s = REACHES / spread
    enough, decay = fallen(s)
    enough &= s < most
    served: Served = np.asarray(enough.any(axis=1))
    if not served.any():
        raise CannotVouch("the characteristic function falls too slowly")
    last = int(enough.argmax(axis=1)[served].max())
    found = float(s[last]), float(decay[last])
    if last > 0:  # somewhere between two places
        s = np.geomspace(s[last - 1], s[last], BETWEEN + 2)[1:-1]
        enough, decay = fallen(s)
        first = int(enough[served].all(axis=0).argmax())
        if enough[served, first].all():
            found = float(s[first]), float(decay[first])
    return *found, served


def _kernel(c: float, s: Array, step: float) -> tuple[Array, tuple[Array, Array], Array]:
    z, scale = c + 1j * s, step / math.pi
    lengths = np.abs(z * (z + 1))
    kernel = np.empty((s.size, ORDER + 2), dtype=complex)
    kernel[:, 0], kernel[:, -1] = scale * lengths / (z * (z + 1)), scale * lengths / (z + 1)
    for k in range(ORDER):
        kernel[:, k + 1] = kernel[:, k] * z
    kernel[0] /= 2
    powers = np.full((s.size, ORDER + 2), scale)
    powers[:, 1:] = np.abs(z)[:, None]
    np.cumprod(powers, axis=1, out=powers)  # scale |z|^k
    return lengths, (np.real(kernel).copy(), np.imag(kernel).copy()), powers


class Waves:
    """What a line says of `share` times its count, at an epsilon each and right beside."""

    def __init__(self, line: Line, share: Array, epsilon: Array) -> None:
        self.line, self.share, self.epsilon = line, share, epsilon
        size = np.multiply.outer(share, np.real(line.log_phi))
        np.exp(size, out=size)
        size /= line.lengths
        turn = np.multiply.outer(share, np.imag(line.log_phi))
        turn -= np.multiply.outer(epsilon, line.s)
        real, imag = line.kernel
        part = np.cos(turn)
        part *= size
        found = part @ real
        np.sin(turn, out=part)
        part *= size
        found -= part @ imag
        self.size = size
        self.moments, self.slope = found.T[:-1], found[:, -1]
        self.log_scale = share * line.k - line.c * epsilon
        self.gross = (size @ line.powers).T

    def at(self, move: Array) -> Readings:
        """The readings at epsilon + move (see `Contour.readings`), of one move or a row of them for each count.

        The integrand has e^{-z move}; its polynomial leaves out at most |z move|^n/n! max(1, e^{-c move}).
        """
        line, share, epsilon = self.line, self.share, self.epsilon + move
        c, far = line.c, float(line.s[-1])
        size, value, rounded = np.abs(move), np.zeros(move.shape), np.zeros(move.shape)
        for k in range(ORDER, 0, -1):
            value = (self.moments[k] + value) * (-move / k)
            rounded = (self.gross[k] + rounded) * (size / k)
        value += self.moments[0]
        whole = self.gross[0]
        tail = np.exp(share * (line.times * line.log_decay)) / (math.pi * far)
        straight = share * line.k_error + 2 * ULP * (np.abs(c * epsilon) + np.abs(share * line.k)) + line.s.size * ULP
        error = tail + self._grown + (straight + 2 * ULP * (1 + np.abs(far * epsilon))) * whole
        error = (error + 2.0 * self._left_out(size)) * np.exp(size * c) + (16 + line.s.size) * ULP * rounded
        right = (self._right - np.multiply.outer(move, line.far.c)).min(axis=-1)
        excess = np.exp(np.logaddexp(right, log_geometric(-c * line.period)) - self.log_scale)
        bad = ~((value > 0.0) & (error + excess < value))
        return Readings(
            self.log_scale + np.log(value), np.where(bad, np.inf, error / value), excess / value, whole / value,
            self.log_scale + np.log(np.maximum(self.slope, 0.0)),
        )

    def left_out(self, move: Array) -> Array:
        """What the polynomial leaves out at epsilon + move, relative to its value."""
        return np.asarray(self._left_out(np.abs(move)) / self.moments[0])

    def _left_out(self, size: Array) -> Array:
        return np.asarray(self.gross[-1] * size ** (ORDER + 1) / math.factorial(ORDER + 1))

    @cached_property
    def _right(self) -> Array:
        """log of the aliases on the right, by every tilt."""
        line = self.line
        ratio = -line.period * (line.far.c - line.c)
        return line.far.chernoff(self.share * line.times, self.epsilon) + (ratio - np.log(-np.expm1(ratio)))

    @cached_property
    def _grown(self) -> Array:
        """What the phases' errors and the rounding of exponents cost; e^x - 1 <= 1.17 x up to x = 0.3."""
        line, scale = self.line, self.line.step / math.pi
        exponents = 4 * ULP * self.share * (self.size @ np.abs(line.log_phi))
        if float(self.share.max()) * float(line.phase_error.max()) < 0.3:
            return np.asarray(scale * (exponents + 1.17 * self.share * (self.size @ line.phase_error)))
        slip = np.multiply.outer(self.share, line.phase_error)
        return np.asarray(scale * (exponents + (self.size * np.expm1(np.minimum(slip, 700.0))).sum(axis=1)))
