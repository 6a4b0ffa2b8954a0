"""One line of the smoothed contour: f~, the density D and a windowed estimate from the same frequencies, and every error.

The sum over s = 0, h, .., S is off by aliasing (positive, as in `contour`; the kernel moves a loss by at most its half-width), by
what lies beyond S (|phi| <= 1 and the kernel's transform), by the nodes, and by rounding. Aliasing makes D larger, never smaller.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import erfc

from dpaccount._log import ULP, polar_log1p, polar_slip
from dpaccount._panels import graded
from dpaccount._quadrature import Density, Nodes, TooManyNodes, side_by_side
from dpaccount.engines.jump import Jump
from dpaccount.engines.line.alias import Alias
from dpaccount.engines.line.axis import Axis
from dpaccount.engines.line.terms import Term
from dpaccount.engines.smoothed.atoms import Atoms
from dpaccount.engines.smoothed.mollifier import Mollifier
from dpaccount.engines.smoothed.spectrum import spectrum
from dpaccount.pair import DominatingPair

Array = npt.NDArray[np.float64]
MAX_NODES = 240_000
MAX_COUNT = 2**18
END = 1.15  # the line ends here, in units of beta/a, where the kernel's transform has fallen to about e^-beta


class Body(NamedTuple):
    """A composition below its cut, with a tilt on the real axis and log of the answer's size by the saddle point."""

    pair: DominatingPair
    epsilon: float
    jump: Jump
    axis: Axis
    tilt: float
    spread: float
    rough: float
    atoms: Atoms | None = None  # that the line leaves out

    @property
    def log_scale(self) -> float:
        """K(c) - c eps below the cut."""
        return self.axis.log_mass + self.axis.log_mgf(self.tilt) - self.tilt * self.epsilon


class Reading(NamedTuple):
    """f~, C D, the windowed estimate of f, e^eps Q[L > eps], the errors of f~ and of C D, what f~ may be too high by aliasing, and
    the sum of moduli: all times e^log_scale."""

    log_scale: float
    smooth: float
    gap: float
    estimate: float
    tail: float
    error: float
    gap_error: float
    excess: float
    size: float
    proved: bool


class Waves(NamedTuple):
    """What of a line does not depend on epsilon: log of the tilted characteristic function, and whether its error is proved; the
    columns that it is summed with; and what errors are made of, each as a sum for f~ and one for D: those of the composition, and
    for its atoms those of the kernel alone, of that times s, and of the kernel's rounding."""

    s: Array
    log_phi: npt.NDArray[np.complex128]
    proved: bool
    columns: npt.NDArray[np.complex128]
    common: Array
    growing: Array
    fixed: Array
    size: float
    kernel: tuple[Array, Array, Array]


def waves(body: Body, mollifier: Mollifier, alias: Alias) -> Waves:
    """At frequencies with the alias's period, to the end of the kernel's transform; raises `TooManyNodes`."""
    step = 2.0 * math.pi / alias.period
    count = math.ceil(END * mollifier.beta / mollifier.width / step)
    s = np.asarray(step * np.arange(count + 1), dtype=np.float64)
    log_phi, slip, proved = _log_phi(body, s)
    z = body.tilt + 1j * s
    kernel, kernel_error = mollifier.values(s)
    both, size = 1.0 / (z * (z + 1.0)), np.exp(np.real(log_phi))
    window = 0.5 * erfc(6.0 * (2.0 * s / float(s[-1]) - 1.0))
    plain = window * np.exp(-1j * s * mollifier.eta - mollifier.tilt * mollifier.eta - mollifier.log_weight)
    columns = np.stack([kernel * both, kernel, kernel / (z + 1.0), plain * both], axis=1)
    columns[0] /= 2.0
    modulus = size * np.abs(kernel)
    weights = np.stack([np.abs(both), np.ones(s.size)], axis=1)
    fixed = (_lost(size, slip) * np.abs(kernel) + size * kernel_error + 4 * ULP * modulus * np.abs(log_phi)) @ weights
    common = modulus @ weights
    alone = np.abs(kernel) @ weights, (np.abs(kernel) * s) @ weights, kernel_error @ weights
    return Waves(s, log_phi, proved, columns, common, (modulus * s) @ weights, fixed, float(common[0]), alone)


def read(body: Body, mollifier: Mollifier, alias: Alias, along: Waves | None = None) -> Reading:
    """The line through the body's tilt; `along` if it is known from another epsilon. Raises `TooManyNodes`."""
    c, eps, axis = body.tilt, body.epsilon, body.axis
    along = along or waves(body, mollifier, alias)
    s, count = along.s, along.s.size - 1
    scale = float(s[1]) / math.pi
    wave, spikes_off = np.exp(along.log_phi - 1j * s * (eps - mollifier.eta)), np.zeros(2)
    if body.atoms is not None:
        spikes, fixed, growing, most = body.atoms.waves(s, eps - mollifier.eta, c, body.log_scale + c * eps)
        wave -= spikes
        one, times_s, rounded = along.kernel
        spikes_off = (fixed + most * c * mollifier.eta_error) * one + (growing + most * mollifier.eta_error) * times_s + most * rounded
    smooth, density, tail, estimate = scale * np.real(wave @ along.columns)
    line = axis.rounding(c) + axis.mass_error + 2 * ULP * (abs(c * eps) + abs(body.log_scale) + abs(axis.log_mass))
    line += 4 * ULP * (2.0 + mollifier.width * c) + c * mollifier.eta_error + count * ULP
    if body.jump.cut < np.inf:  # where exactly the cut lies is rounded too, for the body as for the jump
        line += 4 * body.jump.error * math.exp(body.jump.log_p)
    off = scale * (line * along.common + (4 * ULP * eps + mollifier.eta_error) * along.growing + along.fixed + spikes_off)
    first, second = mollifier.beyond(float(s[-1]))
    log_scale = body.log_scale + c * mollifier.eta + mollifier.log_weight
    return Reading(
        log_scale, float(smooth), mollifier.gap * float(density), float(estimate), float(tail),
        float(off[0]) + first / math.pi, mollifier.gap * (float(off[1]) + second / math.pi),
        math.exp(min(float(alias.log_bound(eps - mollifier.eta - mollifier.width)) - log_scale, 600.0)),
        scale * along.size, along.proved,
    )


def _lost(size: Array, slip: Array) -> Array:
    """By how much phi of modulus `size` is off if its logarithm is by `slip`; no characteristic function exceeds 1."""
    return np.asarray(np.minimum(size * np.expm1(np.minimum(slip, 700.0)), 1.0 + size))


def _log_phi(body: Body, s: Array) -> tuple[npt.NDArray[np.complex128], Array, bool]:
    """log of the composition's tilted characteristic function, what it may be off by, and whether that is proved."""
    log_phi, slip, proved = np.zeros(s.shape, dtype=complex), np.zeros(s.shape), True
    for term in body.axis.terms:
        nodes, error = _fine(term, body.tilt, float(s[-1]))
        log_w = nodes.log_p + body.tilt * nodes.loss
        top = float(log_w.max())
        weight = np.exp(log_w - top)
        weight /= weight.sum()
        off, part = (np.zeros(weight.size), np.full(weight.size, ULP)) if nodes.rounding is None else nodes.rounding()
        part = part + body.tilt * (off + ULP * np.abs(nodes.loss)) + (10.0 + abs(top) + np.minimum(np.abs(log_w), 1e3)) * ULP
        found = spectrum(nodes.loss, weight, off, part, float(s[1]), s.size - 1)
        real, imag = np.real(found.moved), np.imag(found.moved)
        log_size, angle = polar_log1p(real, imag)
        log_phi += term.count * (log_size + 1j * angle)
        miss = found.error + found.slope * s + 2.0 * error
        slip += term.count * polar_slip(miss, log_size)
        proved = proved and nodes.rounding is not None
    log_phi.real = np.maximum(log_phi.real, -690.0)
    return log_phi, slip, proved


def _fine(term: Term, tilt: float, rate: float) -> tuple[Nodes, float]:
    """Nodes of one step below its cut for this tilt and all rates up to `rate`, and their error relative to E e^{tilt L}."""
    density = term.part.step.density()
    if density is None or not density.provable:
        nodes = term.part.step.nodes(tilt, tilt, rate, upper=term.part.upper)
        return nodes, nodes.error
    parts = [found for piece in density.pieces or (density,) if (found := _piece(piece, term, tilt, rate)) is not None]
    nodes = term.part.step.with_atoms(side_by_side(parts) if parts else None, upper=term.part.upper)
    return nodes, nodes.error


def _piece(density: Density, term: Term, tilt: float, rate: float) -> Nodes | None:
    """The same for the density or a piece of it; None where the cut leaves nothing, refused where no window does."""
    assert density.strip is not None
    upper, (left, right), window = term.part.upper, density.support, density.window(tilt, tilt)
    right = right if upper == math.inf else min(right, density.inverse(upper))
    if not left < right:
        return None
    if not max(window[0], left) < min(window[1], right):
        raise TooManyNodes("a piece of the density lies outside the window")
    goal = 32.0 + math.log(term.count)
    found = graded(density.evaluate, density.strip, density.scale, window, (left, right), (tilt, tilt), rate, MAX_NODES, goal)
    if found is None:
        raise TooManyNodes("the line needs more nodes than the engine is willing to spend")
    return Nodes(found[0], found[1], found[2], rounding=found[3], ends_only=True)
