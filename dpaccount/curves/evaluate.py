"""One guarantee under one relation, evaluated: the best of its options."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaccount.adjacency import Adjacency
from dpaccount.bestof import options_of
from dpaccount.curves.options import CurveOption, Option, PairOption, RenyiOption
from dpaccount.engines import auto, invert
from dpaccount.engines.line.saddle import Hint
from dpaccount.pair import DominatingPair, Guarantee
from dpaccount.renyi import RenyiBound
from dpaccount.results import LogDelta, Status

Array = npt.NDArray[np.float64]


class Evaluator:
    """Every option of a guarantee under one relation."""

    def __init__(self, guarantee: Guarantee, adjacency: Adjacency, method: str, conversion: str) -> None:
        self.guarantee, self.adjacency, self.method, self.conversion = guarantee, adjacency, method, conversion

    @cached_property
    def options(self) -> list[Option]:
        """At least one; building them refuses an unsupported relation."""
        return [
            RenyiOption(option, self.adjacency, self.conversion)
            if isinstance(option, RenyiBound)
            else PairOption(option, self.adjacency, self.method)
            for option in options_of(self.guarantee)
        ]

    @property
    def hint(self) -> Hint | None:
        """Where the last contour of the first pair option lay."""
        curves = [curve for o in self.options if isinstance(o, PairOption) for curve in o.curves]
        return next((curve.hint for curve in curves if curve.hint is not None), None)

    @property
    def lead(self) -> int | None:
        """The larger direction where it was last seen, if there is one option and it is a pair."""
        (option, *others) = self.options
        return None if others or not isinstance(option, PairOption) else option.lead

    def look_at(self, hint: Hint | None, epsilon: float | None = None) -> None:
        """Start the first contours, and the first search for an epsilon, where those of a similar guarantee ended."""
        for option in self.options:
            if isinstance(option, PairOption):
                option.curves[0].look_at(hint)
                option.guess = epsilon

    def through(self, option: CurveOption) -> Evaluator:
        """The same guarantee seen through functions of epsilon alone."""
        other = Evaluator(self.guarantee, self.adjacency, self.method, self.conversion)
        other.__dict__["options"] = [option]
        return other

    def mirrored(self, epsilon: float) -> LogDelta:
        """`log_delta` with both orders of every pair of neighbours exchanged."""
        return min((option.mirrored.log_delta(epsilon) for option in self.options), key=lambda a: a.upper)

    def log_delta(self, epsilon: float, goal: float = np.nan, lead: int | None = None) -> LogDelta:
        """The option with the least upper bound; with a `goal`, a looser bracket that excludes it will do.

        With the `lead` of an earlier call only that direction of a pair is asked: a lower bound of the whole.
        """
        return min((option.log_delta(epsilon, goal, lead) for option in self.options), key=lambda a: a.upper)

    def fresh(self, epsilon: float) -> LogDelta:
        """`log_delta` whose digits do not depend on what was asked before."""
        found = (o.fresh(epsilon) if isinstance(o, PairOption) else o.log_delta(epsilon) for o in self.options)
        return min(found, key=lambda a: a.upper)

    def fresh_many(self, epsilons: Array) -> list[LogDelta]:
        """`fresh` at many epsilons, on shared contours where there are pairs."""
        found = [
            o.fresh_many(epsilons) if isinstance(o, PairOption) else [o.log_delta(float(e)) for e in epsilons] for o in self.options
        ]
        return [min(answers, key=lambda a: a.upper) for answers in zip(*found, strict=True)]

    def epsilon(self, log_delta: float) -> tuple[invert.Root, Status]:
        """The option with the least upper epsilon."""
        return min((option.epsilon(log_delta) for option in self.options), key=lambda found: found[0].upper)

    def rdp(self, order: Any) -> Any:
        """The least D_a over options."""
        return np.min([option.rdp(order) for option in self.options], axis=0)[()]

    @property
    def one_sided(self) -> bool:
        """Whether a pair is known from above only."""
        return any(side.upper_bound for option in options_of(self.guarantee) for side in _pairs(option))

    @property
    def proved(self) -> bool:
        return all(
            option.proved if isinstance(option, CurveOption) else all(side.proved for side in option.sides) for option in self.options
        )

    def engine(self) -> str:
        """The engine of the first pair option, or the conversion."""
        for option in self.options:
            if isinstance(option, PairOption):
                return auto.select(option.sides[0]).engine if self.method == "auto" else self.method
        return f"RDP ({self.conversion})"


def _pairs(option: DominatingPair | RenyiBound) -> list[DominatingPair]:
    pair = option.pair if isinstance(option, RenyiBound) else option
    return [] if pair is None else [pair]
