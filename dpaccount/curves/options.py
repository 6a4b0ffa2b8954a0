"""One valid guarantee under one relation: a pair in both directions, a Renyi bound, or a curve that is a function of epsilon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaccount.adjacency import Adjacency
from dpaccount.conversions import renyi_epsilon, renyi_log_delta
from dpaccount.engines import auto, closed, invert
from dpaccount.engines.line import answer as line
from dpaccount.engines.line.shelf import Shelf
from dpaccount.engines.many.family import families
from dpaccount.pair import DominatingPair
from dpaccount.renyi import RenyiBound, pair_rdp
from dpaccount.results import LogDelta, Status

Array = npt.NDArray[np.float64]
BLOCK = 24  # epsilons at which a smaller direction is looked at together
UPPER_BOUND = "upper bound"
EXACT = 4e-15  # rounding allowance of formulas evaluated in doubles


class PairOption:
    """A dominating pair under a relation: one or two directions, the larger curve of them."""

    def __init__(self, pair: DominatingPair, adjacency: Adjacency, method: str) -> None:
        self.guarantee, self.adjacency, self.method = pair, adjacency, method
        self.sides = tuple(dict.fromkeys(pair.under(adjacency)))
        self.curves = [invert.DirectedCurve(side, method) for side in self.sides]
        self.proved = all(side.proved for side in self.sides)
        self.one_sided = any(side.upper_bound for side in self.sides)
        self.lead: int | None = None  # the larger direction at the last epsilon where both were asked
        self.guess: float | None = None

    @cached_property
    def mirrored(self) -> PairOption:
        """The same with both orders of every pair of neighbours exchanged; a relation is its own mirror image."""
        if self.adjacency is not Adjacency.AS_WRITTEN:
            return self
        return PairOption(self.guarantee.reversed(), self.adjacency, self.method)

    @cached_property
    def mutual(self) -> bool:
        """Whether the directions are one pair in both orders: delta(0), the total variation, is then the same."""
        return len(self.sides) == 2 and self.sides[1] == self.sides[0].reversed()

    def log_delta(self, epsilon: float, goal: float = np.nan, lead: int | None = None) -> LogDelta:
        """The larger direction's bracket; its tail is the slope that a root finder needs. With `lead` that direction alone."""
        if epsilon == np.inf:
            return self._beyond()
        found: list[LogDelta] = []
        for curve in self.curves if lead is None else self.curves[lead : lead + 1]:
            if found and epsilon == 0.0 and self.mutual:
                found.append(found[0])
                break
            smaller = curve.under(epsilon, found[0].lower, self.curves[0].hint) if found and curve is not self.curves[0] else None
            found.append(smaller or curve(epsilon, goal))
            if found[-1].lower > goal and not self.one_sided:
                break  # one direction already exceeds the goal
        if lead is None and len(found) == len(self.curves):
            self.lead = max(range(len(found)), key=lambda i: found[i].estimate)
        return self._known(self._larger(found), epsilon)

    def fresh(self, epsilon: float) -> LogDelta:
        """The larger direction's bracket, whatever was asked before."""
        if epsilon == np.inf:
            return self._beyond()
        first, *others = (invert.DirectedCurve(side, self.method) for side in self.sides)
        found = [first(epsilon)]
        if epsilon != 0.0 or not self.mutual:  # a direction that lies below the other need not be known well
            goal = found[0].lower
            found += [curve.under(epsilon, goal, first.hint) or curve(epsilon, goal) for curve in others]
        return self._known(self._larger(found), epsilon)

    def fresh_many(self, epsilons: Array, shelves: list[Shelf] | None = None) -> list[LogDelta]:
        """The same at many epsilons, on shared contours; the answers depend on these epsilons, and those of the shelves, alone."""
        shelves = shelves or self.shelves()
        found: list[LogDelta | None] = [None] * epsilons.size
        left = np.flatnonzero(np.isfinite(epsilons))
        for i, answer in zip(left, shelves[0].log_deltas(epsilons[left]), strict=True):
            found[i] = answer
        for side, shelf in zip(self.sides[1:], shelves[1:], strict=True):
            left = self._not_below(side, epsilons, left, found)
            for i, answer in zip(left, shelf.log_deltas(epsilons[left]), strict=True):
                first = found[i]
                assert first is not None
                again = answer.upper < first.lower and not answer.certified
                found[i] = None if again else self._larger([first, answer])
        plain = self.proved and not self.one_sided
        return [
            self.fresh(float(e)) if answer is None else answer if plain else self._known(self._larger([answer]), float(e))
            for e, answer in zip(epsilons, found, strict=True)
        ]

    def shelves(self) -> list[Shelf]:
        """A shelf for each direction, for several calls of `fresh_many`."""
        return [Shelf(side, self.method) for side in self.sides]

    def _not_below(
        self, side: DominatingPair, epsilons: Array, which: npt.NDArray[np.int64], found: list[LogDelta | None]
    ) -> npt.NDArray[np.int64]:
        """Where a direction is not proved to lie below what was found: both fall, so that it is looked at at a few epsilons."""
        if self.method not in ("auto", "line") or auto.select(side).engine != "line":
            return which
        order, left, ceiling = which[np.argsort(epsilons[which])], [], None
        for start in range(0, order.size, BLOCK):
            block = order[start : start + BLOCK]
            last, first = found[block[-1]], float(epsilons[block[0]])
            goal = -np.inf if last is None or not last.certified else last.lower
            if ceiling is None or not ceiling.at(first) < goal:
                ceiling, _ = line.ceiling(side, first, goal)
            if ceiling is None or not ceiling.at(first) < goal:
                left.append(block)
        return np.concatenate(left) if left else np.empty(0, dtype=int)

    def _beyond(self) -> LogDelta:
        """delta(inf), the probability of an infinite loss."""
        mass = max(side.log_p_only for side in self.sides)
        found = closed.widened(mass, -np.inf) if mass < 0.0 else LogDelta(0.0, 0.0, 0.0, True, "closed", 1.0, -np.inf)
        return self._known(found._replace(certified=self.proved), np.inf)

    def _known(self, found: LogDelta, epsilon: float) -> LogDelta:
        """Of steps that are upper bounds only, the upper end; from below what every pair obeys, 1 - e^eps or 0."""
        if not self.one_sided:
            return found
        lower = min(float(np.log(-np.expm1(epsilon))), found.upper) if epsilon < 0 else -np.inf
        return found._replace(lower=lower, estimate=found.upper, method=f"{found.method} ({UPPER_BOUND})", one_sided=True)

    def _larger(self, found: list[LogDelta]) -> LogDelta:
        top = max(found, key=lambda a: a.estimate)
        return LogDelta(
            max(a.lower for a in found), top.estimate, max(a.upper for a in found),
            all(a.certified for a in found) and self.proved, top.method, top.condition, top.log_tail,
        )

    def epsilon(self, log_delta: float) -> tuple[invert.Root, Status]:
        """The least epsilon >= 0 at log_delta, over both directions."""
        root, status = self._epsilon(log_delta)
        if self.one_sided and log_delta < 0.0:
            root = invert.Root(0.0, root.upper, root.upper, self._known(root.answer, root.upper))
        return root, status

    def _epsilon(self, log_delta: float) -> tuple[invert.Root, Status]:
        if log_delta >= 0.0:
            return invert.Root(0.0, 0.0, 0.0, LogDelta(0.0, 0.0, 0.0, True, "closed")), Status.ZERO
        reached = [self._limit(side, log_delta) for side in self.sides]
        for root, status in reached:
            if status in (Status.INFINITE_NO_NOISE, Status.INFINITE_MASS, Status.INFINITE_DELTA_ZERO):
                return root, status
        roots = [
            found[0] if found[1] is not Status.OK else None for found in reached
        ]
        lead = 0
        roots[0] = roots[0] or self._next_to_top(self.sides[0], log_delta)
        if roots[0] is None:
            guess, hint = (self.guess, None) if self.guess else invert.guess_epsilon(self.sides[0], log_delta)
            self.curves[0].look_at(hint)
            roots[0] = invert.solve(self.curves[0], log_delta, guess)
        for i in range(1, len(self.sides)):
            if roots[i] is not None:
                continue
            here = roots[lead]
            assert here is not None
            answer = self.curves[i].under(here.lower, log_delta, self.curves[lead].hint) if here.upper > 0.0 else None
            if answer is None:
                roots[i] = self._next_to_top(self.sides[i], log_delta)
                if roots[i] is not None:
                    continue
                answer = self.curves[i](here.lower, log_delta) if here.upper > 0.0 else None
            if answer is not None and answer.upper <= log_delta:  # this direction's epsilon is the smaller one
                roots[i] = here._replace(answer=here.answer._replace(certified=here.answer.certified and answer.certified))
                continue
            roots[i] = invert.solve(self.curves[i], log_delta, here.estimate or 1e-6)
            if roots[i].upper > here.upper:  # type: ignore[union-attr]
                lead = i
        known = [root for root in roots if root is not None]
        best = max(known, key=lambda r: r.estimate)
        merged = invert.Root(max(r.lower for r in known), best.estimate, max(r.upper for r in known), best.answer)
        certified = all(r.answer.certified for r in known) and self.proved
        merged = merged._replace(answer=best.answer._replace(certified=certified))
        if merged.upper == np.inf:  # some epsilon does, beyond what was searched
            return merged._replace(estimate=np.inf), Status.WIDE
        return merged, Status.ZERO if merged.upper == 0.0 else Status.OK

    @staticmethod
    def _limit(side: DominatingPair, log_delta: float) -> tuple[invert.Root, Status]:
        """Answers that need no root: an infinite epsilon, or delta = 0 with a bounded loss."""
        mass = side.log_p_only
        endless = invert.Root(np.inf, np.inf, np.inf, LogDelta(mass, mass, mass, True, "closed"))
        if mass == 0.0:
            return endless, Status.INFINITE_NO_NOISE
        if log_delta < mass or (log_delta == mass and log_delta == -np.inf and side.loss_range[1] == np.inf):
            return endless, Status.INFINITE_DELTA_ZERO if mass == -np.inf else Status.INFINITE_MASS
        if log_delta == mass or log_delta == -np.inf:
            high = max(side.loss_range[1], 0.0)
            if high == np.inf:
                return endless, Status.INFINITE_MASS
            return invert.Root(high, high, high, LogDelta(mass, mass, mass, True, "closed")), Status.PERFECT
        return invert.Root(0.0, 0.0, 0.0, LogDelta(0.0, 0.0, 0.0, True, "closed")), Status.OK

    @staticmethod
    def _next_to_top(side: DominatingPair, log_delta: float) -> invert.Root | None:
        """The epsilon next to the largest loss, where it is seen to lie there."""
        single = side.loss_range[1] < np.inf and not families(side)[1] and auto.select(side).engine in ("line", "smoothed", "chords")
        ends = closed.near_top(side, log_delta) if single else None
        if ends is None:
            return None
        return invert.Root(ends[0], side.loss_range[1], ends[1], LogDelta(log_delta, log_delta, log_delta, True, "closed"))

    def rdp(self, order: Any) -> Any:
        """D_a, over directions the larger."""
        return np.max([pair_rdp(side, order) for side in self.sides], axis=0)[()]


class RenyiOption:
    """A Renyi bound under a relation, converted by one named conversion."""

    def __init__(self, bound: RenyiBound, adjacency: Adjacency, conversion: str) -> None:
        self.guarantee, self.adjacency, self.conversion = bound, adjacency, conversion
        self.sides = bound.under(adjacency)
        self.certified = bound.pair is None

    @cached_property
    def mirrored(self) -> RenyiOption:
        """The same with both orders exchanged: a Renyi bound holds for both, its pair as written for one."""
        pair = self.guarantee.pair
        if self.adjacency is not Adjacency.AS_WRITTEN or pair is None:
            return self
        return RenyiOption(replace(self.guarantee, pair=pair.reversed()), self.adjacency, self.conversion)

    def rdp(self, order: Any) -> Any:
        return self.guarantee.rdp(order, self.adjacency)

    def log_delta(self, epsilon: float, goal: float = np.nan, lead: int | None = None) -> LogDelta:
        """The conversion's value as upper bound; the lower bound is what every pair obeys, 1 - e^eps or 0."""
        if epsilon == np.inf:
            return self._beyond()
        floor = float(np.log(-np.expm1(epsilon))) if epsilon < 0 else -np.inf
        found = renyi_log_delta(self.rdp, epsilon, self.conversion, self.guarantee.max_order, self.guarantee.first_order)
        value = min(max(found.value, floor), 0.0)
        slack = EXACT * (1 + abs(value)) if np.isfinite(value) else 0.0
        upper = min(value + slack, 0.0)
        # d log delta / d eps = -(a - 1) at the best order, unless the conversion says otherwise
        tail = value + float(np.log(max(found.order - 1, 1e-300))) - epsilon if np.isfinite(found.order) else -np.inf
        tail = found.log_tail if np.isfinite(found.log_tail) else tail
        if value in (floor, 0.0) and value > -np.inf:
            tail = 0.0  # nothing is known here: delta falls no slower than 1 - e^eps
        return LogDelta(floor, value, upper, self.certified, f"RDP ({self.conversion})", 1.0, tail, one_sided=True)

    def _beyond(self) -> LogDelta:
        """delta(inf): a finite order rules out an infinite loss, except one that the pair has."""
        orders = 1.0 + (min(self.guarantee.max_order, 1e9) - 1.0) * np.geomspace(1e-9, 1.0, 28)
        finite = bool(np.isfinite(RenyiBound(self.guarantee.sources).rdp(orders)).any())
        mass = max((side.log_p_only for side in self.sides), default=-np.inf) if finite else 0.0
        found = closed.widened(mass, -np.inf)._replace(lower=-np.inf, certified=self.certified, one_sided=True)
        return found._replace(method=f"RDP ({self.conversion})")

    def epsilon(self, log_delta: float) -> tuple[invert.Root, Status]:
        found = renyi_epsilon(
            self.rdp, float(np.exp(log_delta)), self.conversion, self.guarantee.max_order, self.guarantee.first_order,
            log_delta=log_delta,
        )
        upper = found.value * (1 + 1e-14)
        answer = LogDelta(-np.inf, log_delta, log_delta, self.certified, f"RDP ({self.conversion})", one_sided=True)
        return invert.Root(0.0, found.value, upper, answer), found.status


class CurveOption:
    """A guarantee known only as a function of epsilon, such as the generic group bound.

    `mirror` is the function for both orders exchanged, and `limit` the epsilon at delta = 0 with its status.
    """

    sides: tuple[DominatingPair, ...] = ()

    def __init__(
        self, curve: Callable[[float], LogDelta], mirror: Callable[[float], LogDelta],
        limit: Callable[[], tuple[float, Status]], proved: bool = True,
    ) -> None:
        self._curve, self._mirror, self._limit, self.proved = curve, mirror, limit, proved

    @cached_property
    def mirrored(self) -> CurveOption:
        """The same with both orders exchanged."""
        return CurveOption(self._mirror, self._curve, self._limit, self.proved)

    def log_delta(self, epsilon: float, goal: float = np.nan, lead: int | None = None) -> LogDelta:
        """The function itself."""
        return self._curve(epsilon)

    def epsilon(self, log_delta: float) -> tuple[invert.Root, Status]:
        if log_delta >= 0.0:
            return invert.Root(0.0, 0.0, 0.0, LogDelta(0.0, 0.0, 0.0, True, "closed")), Status.ZERO
        answer = self._curve(0.0)
        found = invert.solve(self.log_delta, log_delta, 1.0) if log_delta > -np.inf else invert.Root(0.0, np.inf, np.inf, answer)
        if found.upper == 0.0:
            return found, Status.ZERO
        if found.upper < np.inf:
            return found, Status.OK
        limit, status = self._limit()  # no more than at delta = 0
        if limit < np.inf:
            return invert.Root(0.0, min(found.estimate, limit), limit, answer), Status.OK
        if status is Status.INFINITE_DELTA_ZERO and log_delta > -np.inf:
            status = Status.WIDE  # some epsilon may do
        return invert.Root(0.0, np.inf, np.inf, answer), status

    def rdp(self, order: Any) -> Any:
        """Unknown."""
        return np.full(np.shape(order), np.inf)[()]


Option = PairOption | RenyiOption | CurveOption
