"""How fast characteristic functions decay: a bound on |E e^{iuL}| for all u >= s at once.

The tilted law of the loss has a density g that is unimodal between its antimodes. On a unimodal piece take cells of
the loss with the least g on each, sorted so that g_1 >= g_2 >= ..., with cumulated lengths l_k: every layer
{g >= g_k} holds an interval of that length, whose transform is at most l_k env(u l_k/2). Hence, for all u >= s,

    |phi(u)| <= 1 - sum over k of (g_k - g_{k+1}) l_k (1 - env(s l_k/2)),
    env(t) = sup over t' >= t of |sin t'/t'| <= max(sin t/t for t < pi, min(0.21724, 1/t)).

Atoms have no density: they are taken as if all in phase, which the bound above does by itself. For a loss of range R,
however, |phi| falls up to s = pi/R, since |phi|^2 is 1 - 2 E sin^2(u (L - L')/2) over two copies of the loss: what
holds from there on is the larger of |phi(s)| and the layers' bound at pi/R.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpaccount._quadrature import Density
from dpaccount._strip import Strip

if TYPE_CHECKING:
    from dpaccount.engines.axis import Axis, Term

Array = npt.NDArray[np.float64]
CELLS = 96
SAFE = 1e-6  # heights are lowered by this: rounding, and an antimode too shallow to be seen
LOBE = 0.21724  # the largest |sin t/t| beyond the first zero


def proved_reach(axis: Axis, c: float, spread: float, needed: float) -> tuple[float, float] | None:
    """(S, bound of the integral beyond it relative to e^{F(c)} c (c+1)), with the bound below e^-needed; None if S is too far.

    beta(S)/(pi S), beta the product of the steps' bounds, as |z (z+1)| >= s^2 on the line.
    """
    s = _REACHES / spread
    total = -np.log(np.pi * s)
    for t in axis.terms:
        density = t.part.step.density()
        if density is not None and not density.provable:
            return None
        if t.part.lower == -np.inf:  # jumps are few: their modulus is at most 1
            total = total + t.count * _log_from(t, density, c, s, axis)
    for m in axis.many:
        total = total + m.log_decay(c, s)
    enough = np.flatnonzero(total <= -needed)
    if not enough.size:
        return None
    return float(s[enough[0]]), float(np.exp(total[enough[0]]))


def _log_from(t: Term, density: Density | None, c: float, s: Array, axis: Axis) -> Array:
    """log of a bound on |phi(u)| of one step for all u >= s, at every s."""
    low, high = t.part.step.facts.min_loss, min(t.part.step.facts.max_loss, t.part.upper)
    bounded = np.pi / (1.0001 * (high - low)) if low < high else np.inf
    at = np.maximum(s, bounded) if bounded < np.inf else s
    if density is None or not density.provable:  # atoms do not decay: their modulus is at most 1
        later = np.zeros(s.shape)
    else:
        log_mgf = t.log_mgf(c) + t.log_mass
        later = Decay(density, c, log_mgf, t.part.upper).log_bound(at)
    near = (s < bounded) & (s <= axis.rate) if np.isfinite(low) and np.isfinite(high) else np.zeros(s.shape, dtype=bool)
    if near.any():
        later[near] = np.maximum(later[near], log_modulus(axis, t, c, s[near]))
    later[(s < bounded) & ~near & np.isfinite(low) & np.isfinite(high)] = 0.0
    return later


def log_modulus(axis: Axis, t: Term, c: float, s: Array) -> Array:
    """log of |phi| of one step at every s <= axis.rate, with its error on top, and 0 where that is all."""
    tilted = t.tilted(c)
    half = np.sin(np.multiply.outer(s / 2, t.loss))
    real, imag = -2 * (half * half) @ tilted, np.sin(np.multiply.outer(s, t.loss)) @ tilted
    part, off = t.phase_errors(tilted, c)
    error = part * np.sqrt(-2 * real) + s * off + 2 * axis.node_error(t, c)
    lost = -(2 * real + real * real + imag * imag) * (1.0 - SAFE) - 4 * error
    return np.asarray(0.5 * np.log1p(-np.clip(lost, 0.0, 1.0 - 1e-15)))


_REACHES = np.geomspace(5.0, 600.0, 36)


class Decay:
    """log of sup over u >= s of |phi(u)| for one step under one tilt, below an optional cut."""

    def __init__(self, density: Density, tilt: float, log_mgf: float, upper: float) -> None:
        self._gauss = density.strip.gaussian_loss if upper == np.inf and density.strip is not None else None
        self._layers: list[tuple[Array, Array]] = []
        if self._gauss is not None:
            return
        for piece in density.pieces or (density,):
            assert piece.strip is not None
            self._add_piece(piece, piece.strip, tilt, log_mgf, upper)

    def _add_piece(self, density: Density, strip: Strip, tilt: float, log_mgf: float, upper: float) -> None:
        low, high = density.window(tilt, tilt)
        low, high = max(low, density.support[0]), min(high, density.support[1])
        if upper < np.inf:
            high = min(high, density.inverse(upper) - 1e-9 * density.scale)
        if not low < high:
            return
        cuts = [x for x in strip.antimodes(tilt) if low < x < high]
        ends = [low, *cuts, high]
        for start, end in itertools.pairwise(ends):
            self._add(density, strip, tilt, log_mgf, start, end)

    def _add(self, density: Density, strip: Strip, tilt: float, log_mgf: float, start: float, end: float) -> None:
        hair = 1e-9 * (end - start)
        x = np.linspace(start + hair, end - hair, CELLS + 1)
        loss, log_p = density.evaluate(x)
        with np.errstate(under="ignore"):
            slope = strip.slope(x, loss)
            height = np.where(slope > 1e-290, np.exp(log_p + tilt * loss - log_mgf) / np.maximum(slope, 1e-290), 0.0)
        least = np.minimum(height[1:], height[:-1]) * (1.0 - SAFE)
        length = np.diff(loss)
        order = np.argsort(-least)
        least, length = least[order], np.cumsum(length[order])
        self._layers.append((-np.diff(np.append(least, 0.0)) * length, length))

    def log_bound(self, s: Array) -> Array:
        """At every s > 0 (array): log of the bound, at most 0."""
        if self._gauss is not None:
            return np.asarray(-0.5 * self._gauss * s * s)
        total = np.zeros(s.shape)
        for mass, length in self._layers:
            t = np.multiply.outer(s / 2, length)
            total += (1.0 - _envelope(t)) @ mass
        return np.asarray(np.log1p(-np.minimum(total, 1.0 - 1e-15)))


def _envelope(t: Array) -> Array:
    first = np.where(t < np.pi, np.sinc(np.minimum(t, np.pi) / np.pi), 0.0)
    return np.maximum(first, np.minimum(LOBE, 1.0 / np.maximum(t, 1e-300)))
