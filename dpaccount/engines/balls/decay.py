"""How far along the line the integrand matters: |E e^{iuL}| for all u >= s at once, in balls.

A piece is cut into cells. On each the tilted density of the loss, f/|L'|, has a proved lower bound, since the slopes of log f and
of L at any point lie between values known at the cell's ends. The step function of these bounds is cut into bars: intervals of
the loss of length l under a constant height. A bar of mass m contributes at most m env(u l/2) to the transform, hence

    |phi(u)| <= 1 - sum over bars of m (1 - env(s l/2))   for all u >= s,
    env(t) = max(sin t/t for t < pi, min(0.21724, 1/t)) >= |sin t'/t'| for all t' >= t.

Nothing is assumed about the shape of the density.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from flint import arb

from dpaccount.engines.balls.numbers import exact, rough
from dpaccount.engines.balls.piece import Piece

Array = npt.NDArray[np.float64]
LOBE = "0.21724"  # the largest |sin t/t| beyond the first zero is 0.2172336...
LEAST = 24.0  # cells whose density is below e^-LEAST of the largest add nothing worth having


class Decay:
    """The bars of one step under one tilt, as shares of `whole`, an upper bound on E e^{cL}."""

    def __init__(self, pieces: list[Piece], c: float, whole: arb) -> None:
        self.bars: list[tuple[arb, arb]] = []
        for piece in pieces:
            if not piece.lattice:
                self.bars += [(mass / whole, length) for mass, length in _bars(*_cells(piece, c))]
        self._mass = np.array([rough(m) for m, _ in self.bars])
        self._length = np.array([rough(x) for _, x in self.bars])

    def sketch(self, s: Array) -> Array:
        """log of the bound at every s, in doubles."""
        t = np.multiply.outer(s / 2, self._length)
        below = np.where(t < np.pi, np.sinc(np.minimum(t, np.pi) / np.pi), 0.0)
        envelope = np.maximum(below, np.minimum(float(LOBE), 1 / np.maximum(t, 1e-300)))
        return np.asarray(np.log1p(-np.minimum((1 - envelope) @ self._mass, 1 - 1e-15)))

    def bound(self, s: arb) -> arb:
        """sup over u >= s of |E e^{(c + iu)L}|/E e^{cL}, from above."""
        kept, lobe = arb(0), arb(LOBE)
        for mass, length in self.bars:
            t = s * length / 2
            envelope = lobe.min(1 / t)
            if not t > arb.pi():
                envelope = envelope.max(t.sin() / t)
            kept += mass * (1 - envelope)
        return (1 - kept).abs_upper()


def _cells(piece: Piece, c: float) -> tuple[list[arb], list[arb]]:
    """(lower bound of the density of L on every cell, lower bound of the cell's length in L), from left to right."""
    tilt = exact(c)
    low, high = piece.window(c, LEAST)
    narrow = piece.spread / 5 if piece.variance is None else min(piece.spread / 5, rough(piece.scale) / 3)
    count = int(min(max((high - low) / narrow, 64), 400))
    edges = [exact(x) for x in np.linspace(low, high, count + 1)]
    if piece.low is not None:
        edges = [x for x in edges if x > piece.low]
    if piece.high is not None:
        edges = [x for x in edges if x < piece.high]
    at = [(*piece.node(x, tilt), *piece.means(x)) for x in edges]
    heights, lengths = [], []
    for i in range(len(edges) - 1):
        (log_f0, loss0, p0, q0), (log_f1, loss1, p1, q1) = at[i], at[i + 1]
        width = edges[i + 1] - edges[i]
        falls, rises = piece.slopes(edges[i], edges[i + 1], tilt)
        least = (log_f0 + width * falls.min(arb(0))).max(log_f1 - width * rises.max(arb(0)))
        steep = (p1 - q0).max(q1 - p0) / piece.scale  # the loss is monotone, so this is positive
        heights.append((least.exp() / steep).lower() if steep > 0 else arb(0))
        lengths.append(((loss1 - loss0) if piece.rising else (loss0 - loss1)).lower().max(arb(0)))
    return heights, lengths


def _bars(heights: list[arb], lengths: list[arb]) -> list[tuple[arb, arb]]:
    """The area under a step function as bars (mass, length), by a stack of open bars of growing height."""
    found: list[tuple[arb, arb]] = []
    open_bars: list[tuple[arb, arb]] = []  # (height, start)
    place = arb(0)
    for height, length in [*zip(heights, lengths, strict=True), (arb(0), arb(0))]:
        start = place
        while open_bars and open_bars[-1][0] > height:
            top, start = open_bars.pop()
            floor = open_bars[-1][0] if open_bars and open_bars[-1][0] > height else height
            found.append(((top - floor) * (place - start), place - start))
        if height > 0 and not (open_bars and open_bars[-1][0] == height):
            open_bars.append((height, start))
        place = place + length
    return [(mass, length) for mass, length in found if mass > 0 and length > 0]
