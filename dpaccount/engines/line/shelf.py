"""Contours for many epsilons of one pair: each serves what lies a little below its own epsilon.

A contour answers at any epsilon, with its errors evaluated there. They grow as e^{d^2/2} for a move of d spreads; an epsilon
below the contour's own lies below its cut as well. What is on the shelf depends on nothing but the epsilons that were asked.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpaccount._log import ULP
from dpaccount.engines import auto
from dpaccount.engines.line import answer as line
from dpaccount.engines.line.contour import Contour
from dpaccount.engines.vouch import CannotVouch
from dpaccount.pair import DominatingPair
from dpaccount.results import LogDelta

Array = npt.NDArray[np.float64]
SPAN = 1.1  # spreads that a contour serves


class _Link(NamedTuple):
    """A contour, None where there is none, for bottom < epsilon <= top."""

    bottom: float
    top: float
    contour: Contour | None


class Shelf:
    """log delta of a directed pair at many epsilons."""

    def __init__(self, pair: DominatingPair, method: str = "auto") -> None:
        self.pair, self.method = pair, method
        self._links: list[_Link] = []
        self._other: Shelf | None = None
        self._lines = method in ("auto", "line") and auto.select(pair).engine == "line"

    def log_deltas(self, epsilon: Array) -> list[LogDelta]:
        """The answers, in the order of the epsilons."""
        found: list[LogDelta | None] = [None] * epsilon.size
        if self._lines:
            inside = auto.inside(self.pair, epsilon)
            self._above(epsilon, np.flatnonzero(inside & (epsilon >= 0.0)), found)
            below = np.flatnonzero(inside & (epsilon < 0.0))
            if below.size:
                self._other = self._other or Shelf(self.pair.reversed(), self.method)
                inner: list[LogDelta | None] = [None] * epsilon.size
                self._other._above(-epsilon, below, inner)
                for i in below:
                    answer = inner[i]
                    found[i] = None if answer is None else line.reflected(answer, float(epsilon[i]))
        return [
            auto.log_delta(self.pair, float(e), self.method) if answer is None else answer
            for e, answer in zip(epsilon, found, strict=True)
        ]

    def _above(self, epsilon: Array, which: npt.NDArray[np.int64], found: list[LogDelta | None]) -> None:
        """Fill in what contours answer, from the largest epsilon down."""
        order = which[np.argsort(-epsilon[which], kind="stable")]
        values, start = epsilon[order], 0
        while start < order.size:
            link = self._serving(float(values[start]))
            end = start + int(np.searchsorted(-values[start:], -link.bottom, side="left"))
            if link.contour is not None:
                for i, answer in zip(order[start:end], answers(link.contour, values[start:end]), strict=True):
                    found[i] = answer
            start = end

    def _serving(self, epsilon: float) -> _Link:
        for link in self._links:
            if link.bottom < epsilon <= link.top:
                return link
        near = min((link for link in self._links if link.contour), key=lambda link: abs(link.top - epsilon), default=None)
        contour, bottom = None, math.nextafter(epsilon, -1.0)
        try:
            contour = line.contour(self.pair, epsilon, None if near is None or near.contour is None else near.contour.hint)
            bottom = min(epsilon - _span(contour, epsilon), bottom)
        except CannotVouch:
            pass
        self._links.append(_Link(bottom, epsilon, contour))
        return self._links[-1]


def _span(contour: Contour, epsilon: float) -> float:
    """How far below its epsilon a contour has errors not much above its own."""
    moves = SPAN * contour.spread * np.linspace(0.0, 1.0, 9)
    _, error, excess, _, _ = contour.readings(np.maximum(epsilon - moves, 0.0))
    worse = np.flatnonzero(~(error + excess <= 3.0 * (error[0] + excess[0]) + 1e-14))
    return float(moves[-1] if not worse.size else moves[max(int(worse[0]) - 1, 0)])


def answers(contour: Contour, epsilon: Array) -> list[LogDelta | None]:
    """As `line.answer`, for many epsilons; None where the contour cannot vouch."""
    value, error, excess, condition, log_tail = contour.readings(epsilon)
    good = error + excess <= line.VOUCH
    if not contour.proved:
        error, excess = 3.0 * (error + excess), np.zeros(error.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        rounding = 4 * ULP * (1.0 + np.abs(value))
        low, up = value + np.log1p(-error - excess) - rounding, np.minimum(value + np.log1p(error) + rounding, 0.0)
    middle = np.minimum(np.maximum(value, low), up)
    columns = (good, low, middle, up, condition, log_tail - epsilon)
    return [
        LogDelta(a, b, c, contour.proved, "line", d, e) if ok else None
        for ok, a, b, c, d, e in zip(*(column.tolist() for column in columns), strict=True)
    ]
