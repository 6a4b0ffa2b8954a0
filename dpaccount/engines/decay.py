"""How fast characteristic functions decay: a bound on |E e^{iuL}| for all u >= s at once.

The tilted law of the loss has a density g that is unimodal between its antimodes. On a unimodal piece take cells of
the loss with the least g on each, sorted so that g_1 >= g_2 >= ..., with cumulated lengths l_k: every layer
{g >= g_k} holds an interval of that length, whose transform is at most l_k env(u l_k/2). Hence, for all u >= s,

    |phi(u)| <= 1 - sum over k of (g_k - g_{k+1}) l_k (1 - env(s l_k/2)),
    env(t) = sup over t' >= t of |sin t'/t'| <= max(sin t/t for t < pi, min(0.21724, 1/t)).
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from dpaccount._quadrature import Density
from dpaccount._strip import Strip

Array = npt.NDArray[np.float64]
CELLS = 96
_GRID = np.arange(CELLS + 1) / CELLS
SAFE = 1e-6  # heights are lowered by this: rounding, and an antimode too shallow to be seen
LOBE = 0.21724  # the largest |sin t/t| beyond the first zero


class Decay:
    """log of sup over u >= s of |phi(u)| for one step under one tilt, below an optional cut.

    `log_mgf` is log E[e^{tilt L}] of what lies below the cut, or a guess: `log_bound` then needs the truth, which only scales.
    """

    def __init__(self, density: Density, tilt: float, log_mgf: float, upper: float) -> None:
        self.density, self.tilt, self.log_mgf, self.upper = density, tilt, log_mgf, upper
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
        x = (start + hair) + (end - start - 2 * hair) * _GRID
        loss, log_p = density.evaluate(x)
        slope = strip.slope(x, loss)
        height = np.exp(log_p + tilt * loss - log_mgf)
        height = height / slope if float(slope.min()) > 1e-290 else np.where(slope > 1e-290, height / np.maximum(slope, 1e-290), 0.0)
        least = np.minimum(height[1:], height[:-1]) * (1.0 - SAFE)
        length = loss[1:] - loss[:-1]
        order = np.argsort(-least)
        least, length = least[order], np.cumsum(length[order])
        fall = least.copy()
        fall[:-1] -= least[1:]
        self._layers.append((fall * length, length))

    def serves(self, density: Density, tilt: float, upper: float) -> bool:
        """Whether this is about the very same density, tilt and cut."""
        return self.density is density and self.tilt == tilt and self.upper == upper

    def log_bound(self, s: Array, log_mgf: float | None = None) -> Array:
        """At every s > 0 (array): log of the bound, at most 0."""
        if self._gauss is not None:
            return np.asarray(-0.5 * self._gauss * s * s)
        total = np.zeros(s.shape)
        for mass, length in self._layers:
            t = np.multiply.outer(s / 2, length)
            total += (1.0 - _envelope(t)) @ mass
        if log_mgf is not None and log_mgf != self.log_mgf:
            total *= np.exp(self.log_mgf - log_mgf)
        return np.asarray(np.log1p(-np.minimum(total, 1.0 - 1e-15)))


def _envelope(t: Array) -> Array:
    t = np.maximum(t, 1e-300)
    return np.maximum(np.sin(np.minimum(t, np.pi)) / t, np.minimum(LOBE, 1.0 / t))
