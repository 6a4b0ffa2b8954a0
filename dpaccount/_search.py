"""The search of a calibration: a bracket in log(value), found by estimates where they serve and closed by proof."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from dpaccount import _check
from dpaccount._targets import Target
from dpaccount.adjacency import Adjacency
from dpaccount.curves.profile import PrivacyProfile
from dpaccount.engines.auto import select
from dpaccount.pair import DominatingPair, Guarantee
from dpaccount.results import Bounds, Calibration, NumericalFailure, Status

WIDTH = 5e-10  # relative width of the final bracket
FINEST = 4e-14  # the same where the curve itself is that sharp
COARSE = 0.01  # and of a bracket in which the search by estimates goes on by interpolation
NEAR = 2e-9  # which ends when its last point moves it by less than this: a small part of that is left
LOWEST, HIGHEST = 1e-300, 1e12
USUAL = 1e-9  # below it, which only targets such as delta = 1e-12 for a delta need, the search runs in leaps
MAX_EVALUATIONS = 120


class UnreachableTarget(ValueError):
    """No value in the search range meets the target; the message names the limit that was met."""


class OtherDirection(ArithmeticError):
    """At `value` the direction that led the search is not the larger one."""

    def __init__(self, value: float) -> None:
        self.value = value


@dataclass
class Search:
    """A bracketed search in log(value): `low` and `high` shrink to a feasible and an infeasible neighbour."""

    family: Callable[[Any], Any]
    target: Target
    adjacency: Adjacency
    method: str
    integer: bool
    low: float
    high: float
    known: dict[float, float] = field(default_factory=dict)
    refusal: ValueError | None = None
    refused: float = math.nan
    width: float = WIDTH
    finest: float = FINEST
    last: tuple[float, Any] = (math.nan, None)  # the last feasible value with its profile, whose contours are reused
    made: Any = None  # the last profile of all

    def run(self, free: bool) -> Calibration:
        """Search with the direction that leads at the first value, and, should the other turn out larger, with both."""
        try:
            near = self._by_estimates(free)
            return self._run(self._start(free)) if near is None else self._settled(*near, free)
        except OtherDirection as other:
            self.target.excess.whole = True
            self.known.clear()
            return self._run(other.value)

    def _by_estimates(self, free: bool) -> tuple[float, float] | None:
        """Where the estimated excess crosses 0, and its slope in log(value); None where there is none, or no estimate."""
        if self.integer or self.method != "auto":
            return None
        quick = replace(self, method="estimate", known={})
        try:
            start = quick._start(free)
            made = quick.made
            if not isinstance(made, PrivacyProfile) or made.method != quick.method or not isinstance(made.guarantee, DominatingPair):
                return None
            if any(select(side).engine != "line" for side in made.directions):
                return None
            here = quick.excess(start)
            if here > -999.0:  # the other end of a first secant
                quick.excess(quick._inside(start * math.exp(min(max(here / self.target.excess.steep, -0.5), 0.5) or 0.1)))
            return quick._crossing() or quick._crossing_between(*quick._enclose(start, quick._direction(start)))
        except (ArithmeticError, ValueError):
            return None

    def _crossing_between(self, good: float | None, bad: float | None) -> tuple[float, float] | None:
        """The same in a bracket that was searched for."""
        if good is None or bad is None or min(good, bad) < USUAL:
            return None
        self.width = self.finest = COARSE
        self._shrink(good, bad)
        return self._crossing()

    def _crossing(self) -> tuple[float, float] | None:
        """Where inverse interpolation through the known points no longer moves, and the slope there; None if they lead nowhere."""
        slow = 0
        for _ in range(10):
            points = sorted((abs(f), f, math.log(v)) for v, f in self.known.items() if v > 0 and -999.0 < f < math.inf)[:4]
            nodes = [(f, u) for _, f, u in points]
            if len(nodes) < 2 or len({f for f, _ in nodes}) < len(nodes):
                return None
            here, last = _at_zero(nodes), nodes[0]
            if len(nodes) > 2 and abs(here - _at_zero(nodes[:-1])) < NEAR:
                far = max(nodes, key=lambda node: abs(node[1] - last[1]))  # next to each other, noise rules
                return math.exp(here), (last[0] - far[0]) / (last[1] - far[1])
            value = math.exp(here) if abs(here - last[1]) < 1.0 else math.nan
            slow += not (max(self.low, USUAL) < value < self.high and abs(self.excess(value)) < 0.3 * abs(last[0]))
            if slow > 2 or value not in self.known:
                return None
        return None

    def _settled(self, value: float, slope: float, free: bool) -> Calibration:
        """With a value on either side of an estimated crossing that are proved to be so; else the whole search."""
        here = self.excess(value)
        for k in range(3):
            move = -here / slope
            other = self._inside(value * math.exp(move + math.copysign(0.45 * 4**k * self.width, move or slope)))
            there = self.excess(other)
            if other != value and (here <= 0.0) != (there <= 0.0) and not math.isnan(here + there):
                feasible, infeasible = self._shrink(*((value, other) if here <= 0.0 else (other, value)))
                return self._report(feasible, infeasible, Status.OK)
        return self._run(value)

    def _run(self, start: float) -> Calibration:
        rising = self._direction(start)
        feasible, infeasible = self._enclose(start, rising)
        if feasible is None:
            feasible, infeasible = self._safest(rising)
        if infeasible is None:
            return self._report(feasible, None, Status.NO_NOISE_NEEDED)
        feasible, infeasible = self._shrink(feasible, infeasible)
        return self._report(feasible, infeasible, Status.OK)

    def profile(self, value: float) -> Any:
        made = self.family(int(value) if self.integer else value)
        if isinstance(made, Guarantee):
            return PrivacyProfile(made, self.adjacency, method=self.method)
        if self.method == "estimate" and isinstance(made, PrivacyProfile) and made.method == "auto":
            return PrivacyProfile(made.guarantee, made.adjacency, method=self.method, conversion=made.conversion)
        if not all(hasattr(made, name) for name in self.target.needs):
            domain = f"a function to guarantees, or to objects with {' and '.join(f'.{name}' for name in self.target.needs)}"
            _check.refuse("calibrate", "family", domain, made, kind=TypeError)
        return made

    def excess(self, value: float) -> float:
        """How far the target is missed at `value` (<= 0 is feasible); NaN where the family refuses the value."""
        value = float(round(value)) if self.integer else value
        if value not in self.known:
            if len(self.known) >= MAX_EVALUATIONS:
                raise ArithmeticError(f"`calibrate` did not converge in {MAX_EVALUATIONS} evaluations")
            try:
                profile = self.made = self.profile(value)
                self.known[value], width = self.target.excess(profile)
                if self.known[value] <= 0.0:
                    self.last = value, profile
                self.width = max(min(max(2.0 * width, FINEST), WIDTH), self.finest)
            except ValueError as error:
                if isinstance(error, UnreachableTarget):
                    raise
                self.refusal, self.refused = error, value
                self.known[value] = math.nan
            except ArithmeticError:
                if value >= USUAL:
                    raise
                self.known[value] = math.nan  # so small that an engine leaves the range of doubles: the search ends before it
        return self.known[value]

    def _inside(self, value: float) -> float:
        """The value, or the end of the range beyond which it lies."""
        return min(max(value, self.low), self.high)

    def _start(self, free: bool) -> float:
        low, high = self.low or min(1e-12, 1e-3 * self.high), self.high
        candidates = [1.0, 0.5, 0.1, 0.01, 2.0, 10.0, 100.0, 1e4, 1e-4] if free else [math.sqrt(low * high), low, high]
        for value in candidates:
            if self.low <= value <= self.high and not math.isnan(self.excess(value)):
                return float(round(value)) if self.integer else value
        if self.refusal is not None:
            raise self.refusal
        _check.refuse("calibrate", "bracket", "a range with at least one value the family takes", (self.low, self.high))

    def _direction(self, start: float) -> bool:
        """Whether the excess rises with the value."""
        here = self.excess(start)
        ends = (end / start for end in (self.high, self.low) if 0.0 < end < HIGHEST)  # where all is alike near the start
        for factor in (1.1, 0.9, 4.0, 0.25, 64.0, 1 / 64, 1e4, 1e-4, *ends):
            other = start * factor
            if self.integer:
                other = max(float(round(other)), start + 1 if factor > 1 else 1.0)
            other = min(max(other, self.low), self.high)
            if other == start:
                continue
            there = self.excess(other)
            if math.isnan(there) or there == here:
                continue
            return (there > here) == (other > start)
        for upward in (True, False):  # alike wherever the family was asked: its own ends are left
            refused = [v for v, f in self.known.items() if math.isnan(f) and (v > start) == upward and v > USUAL]
            taken = [v for v, f in self.known.items() if not math.isnan(f)]
            if refused:
                edge = self._last_taken(max(taken) if upward else min(taken), min(refused) if upward else max(refused))
                if self.excess(edge) != here:
                    return (self.excess(edge) > here) == upward
        return False

    def _enclose(self, start: float, rising: bool) -> tuple[float | None, float | None]:
        """A feasible and an infeasible value, found by growing steps from `start`; None for the one that is missing."""
        feasible = start if self.excess(start) <= 0.0 else None
        infeasible = start if feasible is None else None
        upward = (feasible is None) != rising  # move towards the missing one
        limit = self.high if upward else self.low
        factor, here = self._stride(start, upward), start
        for attempt in range(60):
            if here == limit:
                break
            there = here * factor if upward else here / factor
            if self.integer:
                there = float(round(there)) if abs(there - here) >= 1 else here + (1.0 if upward else -1.0)
            there = min(there, limit) if upward else max(there, limit)
            value = self.excess(there)
            if math.isnan(value) and there < USUAL:
                break
            if math.isnan(value):
                there = self._last_taken(here, there)
                value = self.excess(there)
                limit = there
            flat = not upward and there < USUAL and abs(value - self.known[here]) < 1e-3 * abs(value)
            if value <= 0.0:
                feasible = there
            else:
                infeasible = there
            if flat or (feasible is not None and infeasible is not None):
                break
            cap = 1e3 if there >= USUAL else 1e60
            stride, grown = self._stride(there, upward), min(max(factor * factor, 1.6), cap)
            here, factor = there, stride if attempt < 5 else max(stride, grown)
        if infeasible is None and not rising and not self.integer and self.low <= USUAL and self.target.trivial:
            feasible = 0.0 if not math.isnan(self.excess(0.0)) and self.excess(0.0) <= 0 else feasible
        return feasible, infeasible

    def _stride(self, start: float, upward: bool) -> float:
        """The first step's factor: a quarter farther than the secant through the known points says."""
        slopes = [
            (f - self.known[start]) / math.log(v / start)
            for v, f in self.known.items() if v > 0 and v != start and math.isfinite(f) and abs(f) < 900.0
        ]
        if not slopes or slopes[-1] == 0.0:
            return 1.6
        move = -1.25 * self.known[start] / slopes[-1] * (1 if upward else -1)
        return math.exp(min(max(move, 1e-6), 3.0)) if move > 0.0 else 1.6

    def _last_taken(self, good: float, bad: float) -> float:
        """The value nearest to `bad` that the family takes: its own end (such as probability 1) is hit exactly."""
        for _ in range(60):
            middle = (good + bad) / 2
            if self.integer:
                middle = float(math.floor(middle))
                if middle in (good, bad):
                    break
            if math.isnan(self.excess(middle)):
                bad = middle
            else:
                good = middle
            if abs(good - bad) <= 1e-12 * abs(good):
                break
        for nice in (1.0, 0.0):
            if abs(nice - good) <= 1e-9 * max(nice, 1e-9) and not math.isnan(self.excess(nice)):
                return nice
        return good

    def _shrink(self, feasible: float, infeasible: float) -> tuple[float, float]:
        """Inverse interpolation in log(value) inside the bracket, a hair past the guess so that both ends close in."""
        stuck = 0
        while not self._close(feasible, infeasible):
            good, bad = math.log(max(feasible, 1e-300)), math.log(max(infeasible, 1e-300))
            gap, guess = abs(good - bad), self._interpolated(good, bad)
            if guess is None or stuck > 2:
                value, stuck = math.exp((good + bad) / 2), 0
            else:
                near = min(abs(guess - good), abs(guess - bad))
                past = max(0.45 * self.width, near * min(0.02, 20 * near))
                towards_good = abs(guess - bad) < abs(guess - good)
                target = guess + math.copysign(past, (good - bad) if towards_good else (bad - good))
                low, high = sorted((good, bad))
                value = math.exp(min(max(target, low + 0.3 * self.width), high - 0.3 * self.width))
            if self.integer:
                value = float(min(max(round(value), min(feasible, infeasible) + 1), max(feasible, infeasible) - 1))
            if value in (feasible, infeasible):
                break
            found = self.excess(value)
            if math.isnan(found):
                raise self.refusal or ArithmeticError("the family refuses a value inside its own range")
            feasible, infeasible = (value, infeasible) if found <= 0.0 else (feasible, value)
            left = abs(math.log(max(feasible, 1e-300)) - math.log(max(infeasible, 1e-300)))
            stuck = stuck + 1 if left > 0.5 * gap else 0
        return feasible, infeasible

    def _interpolated(self, good: float, bad: float) -> float | None:
        """log(value) where the excess crosses 0, through the two or three known points with the least excess."""
        points = [(abs(f), f, math.log(v)) for v, f in self.known.items() if v > 0 and -999.0 < f < math.inf]
        points = sorted(points)[:3]
        low, high = sorted((good, bad))
        for use in (points, points[:2]):
            values = [f for _, f, _ in use]
            if len(use) < 2 or len(set(values)) < len(use):
                continue
            guess = _at_zero([(f, u) for _, f, u in use])
            if low < guess < high:
                return guess
        return None

    def _close(self, a: float, b: float) -> bool:
        return abs(a - b) <= 1.0 if self.integer else abs(a - b) <= self.width * max(abs(a), abs(b))

    def _report(self, value: float, infeasible: float | None, status: Status) -> Calibration:
        achieved = self.target.achieved(self.last[1] if self.last[0] == value else self.profile(value))
        partial = not self.target.excess.whole
        if partial and self.target.missed(achieved) and self._full_excess(value) > self.width:
            raise OtherDirection(value)
        for k in range(16):  # asked anew, the answer must meet the target as well: its own error bar may stick out by an ulp
            if not self.target.missed(achieved):
                break
            towards = 1.0 if infeasible is None or value > infeasible else -1.0
            if infeasible is None or k == 15 or (self.integer and value + towards < 1.0):
                raise NumericalFailure(
                    f"`calibrate` cannot confirm {self.target.text} at {value:g}: asked there anew, it is {float(achieved):.12g}."
                )
            moved = self._inside(value + towards if self.integer else value * (1 + towards * 4.0**k * _first_move(achieved)))
            if moved == value:
                raise NumericalFailure(f"`calibrate` cannot confirm {self.target.text} at {value:g}, the end of its range.")
            value = moved
            achieved = self.target.achieved(self.profile(value))
        return Calibration(
            int(value) if self.integer else value, achieved, self.target.text, status, infeasible, len(self.known), achieved.notes
        )

    def _full_excess(self, value: float) -> float:
        self.target.excess.whole = True
        try:
            return self.target.excess(self.profile(value))[0]
        finally:
            self.target.excess.whole = False

    def _safest(self, rising: bool) -> tuple[float, float]:
        """The best value tried, as feasible, if the answer itself meets the target there, as it may at an end of the range."""
        least = min(excess for excess in self.known.values() if not math.isnan(excess))
        tied = sorted(v for v, excess in self.known.items() if excess == least)
        ends = {self.low, self.high} if self.integer and least == math.inf else set()  # nothing told which way is better
        found = {v: self._achieved(v) for v in {tied[0], tied[-1], *ends}}
        best = min(found, key=lambda v: (found[v] is None, self._loss(found[v]), v if rising else -v))
        achieved, others = found[best], [v for v, excess in self.known.items() if v != best and excess > 0.0]
        if achieved is not None and others and not self.target.missed(achieved):
            self.known[best] = 0.0
            return best, min(others, key=lambda v: abs(v - best))
        raise UnreachableTarget(self._why(best, achieved))

    def _achieved(self, value: float) -> Bounds | None:
        """What is achieved at a value, which may lie so far out that no engine, or not even the family, can say."""
        try:
            return self.target.achieved(self.profile(value))
        except (ArithmeticError, ValueError):
            return None

    @staticmethod
    def _loss(found: Bounds | None) -> float:
        return math.inf if found is None else float(found) if found.safe == "upper" else -float(found)

    def _why(self, best: float, achieved: Bounds | None) -> str:
        text = f"`calibrate` found no value that meets {self.target.text}: at {best:g}, the best value tried, "
        if achieved is None:
            text += "no engine can say what it is."
        else:
            text += f"it is {float(achieved):.6g}" + ("." if achieved.status is Status.OK else f" ({achieved.status.value}).")
        towards = [v for v, excess in self.known.items() if not math.isnan(excess) and v != best]
        least = self.known.get(best, math.inf)
        worse = [v for v in towards if self.known[v] > least + 1e-3 * abs(least)]
        if any(v < best for v in worse) and any(v > best for v in worse):
            text += " Values on both sides of it are worse: the family is not monotone. Pass a bracket=(low, high) in which it is."
        if self.refusal is not None and not any((v > best) == (self.refused > best) for v in towards):
            text += f" The family refuses values beyond it: {self.refusal}"
        return text


def _first_move(achieved: Bounds) -> float:
    """How far, relatively, a value moves at first if the answer there misses its target: by what its bracket leaves open."""
    size, one_sided = abs(float(achieved.estimate)), achieved.safe == "upper" and not achieved.lower > 0.0
    width = 0.0 if one_sided or not size > 0.0 else float(achieved.upper - achieved.lower) / size
    return max(3e-12, min(0.6 * width, 1e-4)) if width == width else 3e-12


def _at_zero(nodes: list[tuple[float, float]]) -> float:
    """Lagrange's polynomial through points (f, u), at f = 0."""
    total = 0.0
    for k, (f, u) in enumerate(nodes):
        weight = 1.0
        for m, (other, _) in enumerate(nodes):
            if m != k:
                weight *= other / (other - f)
        total += weight * u
    return total
